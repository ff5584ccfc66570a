//! The sentinels of a service, as they were last asked: who answers, and what they can still do together. Pure.

/// All sentinels that are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Council {
    /// The service that they watch.
    pub service: String,
    /// Each by its address, and whether it answers.
    pub sentinels: Vec<(String, bool)>,
    /// How many of them must agree that the master is down; `None`: nobody said.
    pub quorum: Option<usize>,
}

impl Council {
    pub fn answering(&self) -> usize {
        self.sentinels.iter().filter(|(_, answers)| *answers).count()
    }

    /// More than half of them answer: only then a master can be replaced, and only then lockscope writes.
    pub fn is_majority(&self) -> bool {
        self.answering() * 2 > self.sentinels.len()
    }

    /// So many answer that they can agree that the master is down.
    pub fn has_quorum(&self) -> bool {
        self.quorum.is_none_or(|quorum| self.answering() >= quorum)
    }

    /// The addresses of those that do not answer.
    pub fn silent(&self) -> Vec<&str> {
        self.sentinels.iter().filter(|(_, answers)| !answers).map(|(name, _)| name.as_str()).collect()
    }
}
