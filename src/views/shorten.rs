//! Shortens the names of a list so that what differs between them stays in sight.
//!
//! Of `stock:item:17:lock` and `stock:item:27:lock` both ends are the same, so cutting the middle out would make them one.
//! A name keeps, in this order: where it differs from its neighbours, the letters around that, its beginning and its end.
//! A letter is what the terminal draws as one (a grapheme): its width is not the sum of its characters' widths.

use std::collections::{BTreeMap, BTreeSet};

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Each of the names in at most `width` cells.
pub fn distinct(names: &[String], width: usize, mark: char) -> Vec<String> {
    // Nearly always there is room for all of them, and a letter of ASCII is one byte and one cell.
    if names.iter().all(|name| name.len() <= width && name.is_ascii()) {
        return names.to_vec();
    }
    let letters: Vec<Vec<&str>> = names.iter().map(|name| name.graphemes(true).collect()).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| letters[*a].cmp(&letters[*b]));
    let mut shortened = names.to_vec();
    let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
    for (rank, index) in order.iter().enumerate() {
        let own = &letters[*index];
        if cells(own) > width {
            wanted[*index] = forks(own, rank, &order, &letters);
            shortened[*index] = Cut::new(own, width).keeping(&wanted[*index]).text(mark);
        }
    }
    // Not all forks fit. Where two names look the same, what tells them apart comes first.
    for _ in 0..ROUNDS {
        let same = look_same(names, &shortened);
        if same.is_empty() {
            break;
        }
        for (index, other) in same {
            let own = &letters[index];
            let fork = own.iter().zip(&letters[other]).take_while(|(a, b)| a == b).count();
            let fork = fork.min(own.len().saturating_sub(1));
            if cells(own) > width {
                wanted[index].retain(|known| *known != fork);
                wanted[index].insert(0, fork);
                shortened[index] = Cut::new(own, width).keeping(&wanted[index]).text(mark);
            }
        }
    }
    // Letters that repeat look the same wherever they are cut: how many are left out tells the names apart.
    for (index, _) in look_same(names, &shortened) {
        if cells(&letters[index]) > width && width >= COUNTED {
            shortened[index] = Cut::counted(&letters[index], width, mark);
        }
    }
    shortened
}

/// The least width in which letters that are left out are counted.
const COUNTED: usize = 12;

/// So often names that look the same are cut in another way.
const ROUNDS: usize = 8;

/// Different names that look the same, each with one of the others.
fn look_same(names: &[String], shown: &[String]) -> Vec<(usize, usize)> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut same = Vec::new();
    for (index, text) in shown.iter().enumerate() {
        match seen.get(text.as_str()) {
            Some(other) if names[*other] != names[index] => same.extend([(index, *other), (*other, index)]),
            Some(_) => {}
            None => drop(seen.insert(text, index)),
        }
    }
    same
}

/// Whether no two different names look the same.
pub fn tells_apart(names: &[String], shown: &[String]) -> bool {
    look_same(names, shown).is_empty()
}

/// Where a name differs from the others, the closest of them first. Among sorted names, the closest is a neighbour.
fn forks(own: &[&str], rank: usize, order: &[usize], letters: &[Vec<&str>]) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let both = [order[..rank].iter().rev().collect::<Vec<_>>(), order[rank + 1..].iter().collect()];
    for side in both {
        let mut shared = usize::MAX;
        for other in side {
            let other = &letters[*other];
            let here = own.iter().zip(other).take_while(|(a, b)| a == b).count();
            if here < shared && other != own {
                shared = here;
                found.insert(here.min(own.len().saturating_sub(1)));
            }
            if here == 0 {
                break;
            }
        }
    }
    found.into_iter().rev().collect()
}

fn cells(letters: &[&str]) -> usize {
    letters.iter().map(|letter| letter.width()).sum()
}

/// Which letters of a name stay.
struct Cut<'a> {
    letters: &'a [&'a str],
    kept: Vec<bool>,
    width: usize,
}

impl<'a> Cut<'a> {
    fn new(letters: &'a [&'a str], width: usize) -> Cut<'a> {
        Cut { letters, kept: vec![false; letters.len()], width }
    }

    /// Both ends, with the number of letters between them: `lock:aaa…17…aa`.
    fn counted(letters: &'a [&'a str], width: usize, mark: char) -> String {
        let room = letters.len().to_string().len() + 1;
        let cut = Cut::new(letters, width - room).keeping(&[]);
        let hidden = cut.kept.iter().filter(|kept| !**kept).count();
        cut.text(mark).replacen(mark, &format!("{mark}{hidden}{mark}"), 1)
    }

    fn keeping(mut self, forks: &[usize]) -> Cut<'a> {
        for fork in forks {
            self.keep(*fork);
        }
        // A lone letter says little: the number it belongs to says what differs.
        for fork in forks.iter().filter(|fork| self.kept[**fork]).copied().collect::<Vec<_>>() {
            for near in (fork + 1..fork + 4).chain((fork.saturating_sub(3)..fork).rev()) {
                self.keep(near);
            }
        }
        let (mut head, mut tail) = (0, self.letters.len());
        let mut grows = true;
        while grows {
            grows = self.grow(&mut head, 1);
            grows |= self.grow(&mut tail, -1);
        }
        self
    }

    /// Keeps the next letter of the beginning or of the end, if there is room for it.
    fn grow(&mut self, at: &mut usize, by: isize) -> bool {
        loop {
            let letter = if by > 0 { *at } else { at.wrapping_sub(1) };
            match self.kept.get(letter) {
                None => return false,
                Some(true) => *at = at.wrapping_add_signed(by),
                Some(false) => {
                    let fits = self.keep(letter);
                    if fits {
                        *at = at.wrapping_add_signed(by);
                    }
                    return fits;
                }
            }
        }
    }

    fn keep(&mut self, letter: usize) -> bool {
        if self.kept.get(letter) != Some(&false) {
            return false;
        }
        self.kept[letter] = true;
        let fits = self.cells() <= self.width;
        self.kept[letter] = fits;
        fits
    }

    fn cells(&self) -> usize {
        let shown = self.letters.iter().zip(&self.kept).filter(|(_, kept)| **kept);
        shown.map(|(letter, _)| letter.width()).sum::<usize>() + self.gaps()
    }

    fn gaps(&self) -> usize {
        let opens = self.kept.windows(2).filter(|pair| pair[0] && !pair[1]).count();
        opens + usize::from(self.kept.first() == Some(&false))
    }

    fn text(&self, mark: char) -> String {
        let mut text = String::new();
        let mut hidden = false;
        for (letter, kept) in self.letters.iter().zip(&self.kept) {
            match (kept, hidden) {
                (true, _) => text.push_str(letter),
                (false, false) => text.push(mark),
                (false, true) => {}
            }
            hidden = !kept;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shortened(names: &[&str], width: usize) -> Vec<String> {
        distinct(&names.iter().map(ToString::to_string).collect::<Vec<_>>(), width, '…')
    }

    #[test]
    fn what_differs_between_neighbours_stays() {
        let names = ["stock:item:17:lock", "stock:item:27:lock", "stock:item:28:lock"];
        assert_eq!(shortened(&names, 13), ["st…em:17:lock", "st…em:27:lock", "st…em:28:lock"]);
        assert_eq!(shortened(&["a-name-that-fits"], 20), ["a-name-that-fits"]);
    }

    #[test]
    fn a_name_alone_keeps_both_ends() {
        assert_eq!(shortened(&["orders-lock:warehouse:4411"], 13), ["orders…e:4411"]);
        assert_eq!(shortened(&["orders-lock:warehouse:4411"], 1), ["…"]);
    }

    #[test]
    fn what_is_drawn_as_one_letter_is_measured_and_cut_as_one() {
        // A digit with a selector is drawn as a wide sign, two flags as one.
        assert_eq!(shortened(&["0\u{fe0f}0\u{fe0f}0\u{fe0f}"], 5), ["0\u{fe0f}…0\u{fe0f}"]);
        assert_eq!(shortened(&["🇩🇪🇫🇷🇮🇹"], 5), ["🇩🇪…🇮🇹"]);
    }

    #[test]
    fn letters_that_repeat_are_counted_where_nothing_else_differs() {
        let names = [17, 18].map(|count| format!("lock:{}m", "锁".repeat(count)));
        assert_eq!(distinct(&names, 20, '…'), ["lock:锁…12…锁锁锁锁m", "lock:锁…13…锁锁锁锁m"].map(String::from));
        let shown = distinct(&["a".repeat(500), "a".repeat(501)], 12, '.');
        assert!(shown[0] != shown[1] && shown.iter().all(|name| name.width() <= 12), "{shown:?}");
    }

    #[test]
    fn differences_in_two_places_both_stay() {
        let names =
            ["tenant-a:orders:1:lock", "tenant-a:orders:2:lock", "tenant-b:orders:1:lock", "tenant-b:orders:2:lock"];
        let found: BTreeSet<String> = shortened(&names, 12).into_iter().collect();
        assert_eq!(found.len(), 4, "{found:?}");
    }

    proptest! {
        #[test]
        fn names_that_differ_look_different(
            parts in prop::collection::vec((0..3usize, 0..400u32, 0..3usize), 1..40),
            width in 20..40usize,
        ) {
            let service = ["orders-service", "orders-worker", "billing"];
            let what = ["invoice:lock", "invoice:refund:lock", "lock"];
            let names: BTreeSet<String> = parts
                .iter()
                .map(|(a, id, b)| format!("production:eu-west-1:{}:tenant:{id:04}:{}", service[*a], what[*b]))
                .collect();
            let names: Vec<String> = names.into_iter().collect();
            let shown = distinct(&names, width, '…');
            let different: BTreeSet<&String> = shown.iter().collect();
            prop_assert_eq!(different.len(), names.len(), "{:?}", shown);
            prop_assert!(shown.iter().all(|name| name.width() <= width));
        }

        #[test]
        fn any_name_fits(names in prop::collection::vec("\\PC{0,60}", 0..12), width in 0..30usize) {
            let shown = distinct(&names, width, '…');
            for shown in &shown {
                // As the terminal's buffer counts them.
                let cells = cells(&shown.graphemes(true).collect::<Vec<_>>());
                prop_assert!(cells <= width.max(1), "{shown:?} takes {cells} of {width}");
            }
        }
    }
}
