//! What the table remembers about keys that are not in it: those that are not locks, and those that have just gone.
//!
//! Both are kept by hash only, and bounded. Forgetting one costs an extra read, never correctness.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;

use crate::base::time::Time;
use crate::lock::{Key, NodeId};

/// How long a key that is not a lock is ignored.
const IGNORE: Duration = Duration::from_secs(2);
const IGNORED_KEPT: usize = 65_536;
const DEPARTED_KEPT: usize = 16_384;

/// Keys under the patterns that are not locks: not read after every change, but once after a pause.
#[derive(Debug, Default)]
pub(in crate::model) struct Ignored {
    /// Until when, and the key's name once it has changed.
    keys: HashMap<u64, (Time, Option<(NodeId, Key)>)>,
    until: VecDeque<(Time, u64)>,
}

impl Ignored {
    pub fn add(&mut self, hash: u64, now: Time) {
        if self.until.len() < IGNORED_KEPT {
            self.keys.insert(hash, (now + IGNORE, None));
            self.until.push_back((now + IGNORE, hash));
        }
    }

    /// Whether the key, which has changed at `at`, is to be left alone for now.
    pub fn has(&mut self, hash: u64, node: NodeId, key: &[u8], at: Time) -> bool {
        let Some((_, changed)) = self.keys.get_mut(&hash).filter(|(until, _)| at < *until) else { return false };
        changed.get_or_insert_with(|| (node, Key::from(key)));
        true
    }

    /// The key is gone: the next key with its name is a new one.
    pub fn forget(&mut self, hash: u64) {
        self.keys.remove(&hash);
    }

    /// The next key whose time is up and that has changed meanwhile.
    pub fn next_changed(&mut self, now: Time) -> Option<(NodeId, Key)> {
        while let Some(&(until, hash)) = self.until.front()
            && until <= now
        {
            self.until.pop_front();
            // It may have been put off again since.
            if self.keys.get(&hash).is_some_and(|(its, _)| *its == until)
                && let Some((_, Some(changed))) = self.keys.remove(&hash)
            {
                return Some(changed);
            }
        }
        None
    }

    pub fn next_due(&self) -> Option<Time> {
        self.until.front().map(|(until, _)| *until)
    }
}

/// When keys that the table does not hold have gone. An earlier read, still on its way, must not bring them back.
#[derive(Debug, Default)]
pub(in crate::model) struct Departed {
    at: HashMap<u64, Time>,
    /// Departures up to here are forgotten: any key may have been among them.
    forgotten: Option<Time>,
}

impl Departed {
    pub fn note(&mut self, hash: u64, at: Time) {
        if self.at.len() >= DEPARTED_KEPT {
            self.forgotten = self.at.drain().map(|(_, at)| at).max().max(self.forgotten);
        }
        let known = self.at.entry(hash).or_insert(at);
        *known = at.max(*known);
    }

    /// Whether the key may have gone at that time or later.
    pub fn since(&self, hash: u64, asked: Time) -> bool {
        self.at.get(&hash).copied().max(self.forgotten).is_some_and(|at| at >= asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_no_lock_is_looked_at_once_after_its_changes() {
        let mut ignored = Ignored::default();
        ignored.add(1, Time(0));
        ignored.add(2, Time(0));
        let has = |ignored: &mut Ignored, hash, key: &[u8], at| ignored.has(hash, NodeId(0), key, Time(at));
        assert!(has(&mut ignored, 1, b"a", 1) && has(&mut ignored, 1, b"a", 1_999) && !has(&mut ignored, 3, b"c", 1));
        assert!(!has(&mut ignored, 1, b"a", 2_000), "its time is up, whether anybody asked meanwhile or not");
        assert_eq!(ignored.next_changed(Time(1_999)), None);
        assert_eq!(ignored.next_changed(Time(2_000)), Some((NodeId(0), Key::from("a"))));
        assert_eq!(ignored.next_changed(Time(2_000)), None);
        assert_eq!((ignored.next_due(), has(&mut ignored, 1, b"a", 1)), (None, false));
    }

    #[test]
    fn a_departure_is_never_forgotten_to_the_wrong_side() {
        let mut departed = Departed::default();
        departed.note(0, Time(5));
        assert!(departed.since(0, Time(5)) && !departed.since(0, Time(6)) && !departed.since(1, Time(5)));
        for hash in 1..=DEPARTED_KEPT as u64 {
            departed.note(hash, Time(7));
        }
        assert!(departed.since(0, Time(5)), "forgotten, so it may be");
        assert!(!departed.since(0, Time(8)));
    }
}
