//! What episodes are called: by their number in the alert log, which is the same for `tune`, `record --info` and `bundle`.
//!
//! What only a replay has was never told to anybody and is in no log: it has letters, which count from the first of the list.

use std::collections::BTreeSet;
use std::fmt;

use crate::alerts::replay::{Episode, Track};
use crate::base::time::Time;
use crate::store::Firing;

/// The name of an episode in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    Logged(u64),
    /// The first, the second …, counted from zero.
    Replayed(u32),
}

impl Name {
    pub fn number(self) -> Option<u64> {
        match self {
            Name::Logged(number) => Some(number),
            Name::Replayed(_) => None,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = match self {
            Name::Logged(number) => return write!(f, "{number}"),
            Name::Replayed(index) => *index,
        };
        // a to z, then aa.
        let mut letters = Vec::new();
        loop {
            letters.push(b'a' + (left % 26) as u8);
            match (left / 26).checked_sub(1) {
                Some(more) => left = more,
                None => break,
            }
        }
        letters.iter().rev().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

/// The firings of one rule in the alert log, for each alert of the history, oldest first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Logged(Vec<Vec<(Time, Time, u64)>>);

impl Logged {
    /// Of alerts that the history has.
    pub fn new(firings: &[Firing], tracks: &[Track]) -> Logged {
        let of = |track: &Track| {
            let own = firings.iter().filter(|firing| firing.labels == track.labels);
            own.map(|firing| (firing.active_at, firing.end.at(), firing.number)).collect()
        };
        if firings.is_empty() { Logged::default() } else { Logged(tracks.iter().map(of).collect()) }
    }

    /// Names episodes that are asked for in the order of time: each number once.
    pub fn names(&self) -> impl FnMut(&Episode) -> Name {
        let (mut used, mut others) = (BTreeSet::new(), 0);
        move |episode| {
            let own = self.0.get(episode.track).map_or(&[][..], Vec::as_slice);
            let after = own.partition_point(|(_, to, _)| *to < episode.from);
            let mut same = own[after..].iter().take_while(|(from, ..)| *from <= episode.to);
            if let Some((_, _, number)) = same.find(|(_, _, number)| !used.contains(number)) {
                used.insert(*number);
                return Name::Logged(*number);
            }
            others += 1;
            Name::Replayed(others - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        let names = [0, 1, 25, 26, 27, 51, 52, 701, 702].map(|index| Name::Replayed(index).to_string());
        assert_eq!(names, ["a", "b", "z", "aa", "ab", "az", "ba", "zz", "aaa"]);
        assert_eq!(Name::Logged(12).to_string(), "12");
    }
}
