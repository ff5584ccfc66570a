//! How sure lockscope said to be, and how often it was right: a table over all that it said.
//!
//! What it says of a lock in one opening, with one word and the same confidence, counts once, and is true only if it was
//! true each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::book::Book;
use super::opening::Said;

/// The lowest confidence of each bucket, and its name.
const BUCKETS: [(f64, &str); 4] = [(0.9, "0.9 to 1"), (0.7, "0.7 to 0.9"), (0.5, "0.5 to 0.7"), (0.0, "below 0.5")];
/// Of what is told with the highest confidence, so large a share must be true.
const WANTED: f64 = 0.9;

#[derive(Clone, Copy, Default)]
struct Count {
    said: u32,
    right: u32,
}

#[derive(Default)]
pub struct Calibration {
    /// By word and bucket.
    counts: BTreeMap<(String, usize), Count>,
}

impl Calibration {
    /// Compares what was said with the book.
    pub fn add(&mut self, said: &[Said], book: &Book) {
        let mut claims: BTreeMap<(usize, &[u8], &str, usize), bool> = BTreeMap::new();
        for one in said {
            let bucket = BUCKETS.iter().position(|(least, _)| one.confidence >= *least).expect("the last begins at 0");
            let right = book.is_true(&one.key, &one.word, one.window);
            *claims.entry((one.opening, &one.key, &one.word, bucket)).or_insert(true) &= right;
        }
        for ((_, _, word, bucket), right) in claims {
            let count = self.counts.entry((word.to_string(), bucket)).or_default();
            count.said += 1;
            count.right += u32::from(right);
        }
    }

    fn sum(&self, wanted: impl Fn(&str, usize) -> bool) -> Count {
        let of = self.counts.iter().filter(|((word, bucket), _)| wanted(word, *bucket));
        of.fold(Count::default(), |sum, (_, one)| Count { said: sum.said + one.said, right: sum.right + one.right })
    }

    /// The words of which too little is true for how sure they are told: all together, and each that was told often.
    pub fn overconfident(&self) -> Vec<String> {
        let too_few = |count: Count| count.said > 0 && f64::from(count.right) < WANTED * f64::from(count.said);
        let words: BTreeSet<&str> = self.counts.keys().map(|(word, _)| word.as_str()).collect();
        let one = |word: &str| self.sum(|other, bucket| bucket == 0 && other == word);
        let often = words.into_iter().filter(|word| one(word).said >= 10 && too_few(one(word)));
        let mut wrong: Vec<String> = often.map(str::to_string).collect();
        if too_few(self.sum(|_, bucket| bucket == 0)) {
            wrong.push("all together".into());
        }
        wrong
    }
}

/// As a table of Markdown.
impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: BTreeSet<&str> = self.counts.keys().map(|(word, _)| word.as_str()).collect();
        let heads: Vec<&str> = BUCKETS.iter().map(|(_, name)| *name).collect();
        writeln!(f, "| said | {} |", heads.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(BUCKETS.len()))?;
        let mut row = |name: &str, of: &dyn Fn(&str) -> bool| {
            let cell = |bucket: usize| {
                let count = self.sum(|word, its| its == bucket && of(word));
                match count.said {
                    0 => String::new(),
                    said => {
                        let share = 100.0 * f64::from(count.right) / f64::from(said);
                        format!("{} of {said} true ({share:.1} %)", count.right)
                    }
                }
            };
            let cells: Vec<String> = (0..BUCKETS.len()).map(cell).collect();
            writeln!(f, "| {name} | {} |", cells.join(" | "))
        };
        row("**everything**", &|_| true)?;
        words.iter().try_for_each(|word| row(&format!("`{word}`"), &|other| other == *word))
    }
}
