//! The holds there are, by identity: whoever took a lock again has another hold, whatever its token says.

use super::{Held, Mode};

/// One hold of one client.
#[derive(Clone, Debug)]
pub struct Hold {
    /// No other hold has it.
    pub id: u64,
    pub client: usize,
    pub process: u64,
    pub key: Vec<u8>,
    pub token: Vec<u8>,
    pub mode: Mode,
    /// In milliseconds of the server's Unix time.
    pub until: Option<i64>,
}

impl Hold {
    pub fn is_over(&self, now: i64) -> bool {
        self.until.is_some_and(|until| until <= now + super::snapshot::SLACK_MS)
    }

    pub fn is(&self, held: &Held) -> bool {
        self.key == held.key && self.token == held.token
    }

    pub fn name(&self) -> String {
        let end = self.token.len().min(24);
        let more = if end < self.token.len() { "…" } else { "" };
        format!(
            "hold {} ({:?} by client {}, {}{more})",
            self.id,
            self.mode,
            self.client,
            self.token[..end].escape_ascii()
        )
    }
}

#[derive(Default)]
pub struct Ledger {
    pub holds: Vec<Hold>,
    /// All that ever were, as they were when they were taken, the newest last.
    pub past: Vec<Hold>,
    count: u64,
}

impl Ledger {
    pub fn next_id(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub fn find(&self, id: u64) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.id == id)
    }

    /// Drops the holds that the server no longer has, and takes over when the others end. For steps of a library, which
    /// are right by definition.
    pub fn follow(&mut self, held: &[Held]) {
        self.holds.retain_mut(|hold| match held.iter().find(|held| hold.is(held)) {
            Some(held) => {
                hold.until = held.until;
                hold.mode = held.mode;
                true
            }
            None => false,
        });
    }

    /// The holds whose entry has another name now: the same holder in another way.
    pub fn rename(&mut self, held: &[Held], is_still: impl Fn(&Hold, &Held) -> bool) {
        for hold in self.holds.iter_mut().filter(|hold| !held.iter().any(|held| hold.is(held))) {
            if let Some(held) = held.iter().find(|held| is_still(hold, held)) {
                (hold.token, hold.mode) = (held.token.clone(), held.mode);
            }
        }
    }

    /// The hold of this token in this key: one there is, or the last there was.
    pub fn named(&self, key: &[u8], is: impl Fn(&[u8]) -> bool) -> Option<&Hold> {
        let its = |hold: &&Hold| hold.key == key && is(&hold.token);
        self.holds.iter().find(its).or_else(|| self.past.iter().rev().find(its))
    }

    /// What the server has and nobody took.
    pub fn unknown<'a>(&self, held: &'a [Held]) -> Option<&'a Held> {
        held.iter().find(|held| !self.holds.iter().any(|hold| hold.is(held)))
    }
}
