//! What a person said of an episode: that it was real, or noise.

use std::collections::BTreeMap;

use crate::base::time::Time;

/// Whether somebody had to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Real,
    Noise,
}

impl Verdict {
    /// As the file has it, and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Real => "real",
            Verdict::Noise => "noise",
        }
    }

    pub fn named(name: &str) -> Option<Verdict> {
        [Verdict::Real, Verdict::Noise].into_iter().find(|verdict| verdict.name() == name)
    }
}

/// A label of an episode, or with no verdict a note. One for a rule, its labels and the beginning; a new one replaces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    pub rule: String,
    /// The labels of the series, such as `target` and `pattern`.
    pub labels: BTreeMap<String, String>,
    pub from: Time,
    pub to: Time,
    pub verdict: Option<Verdict>,
    pub note: String,
    /// Who said it, and when.
    pub by: String,
    pub at: Time,
}
