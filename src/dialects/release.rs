//! What freeing a lock takes: the steps of its library, what an operator must read first, what else must be as it was
//! seen, and what prevents an undo.
//!
//! A dialect only names the steps. The actions turn them into one script, run after the holders the operator saw were
//! compared; the views print them with [`Step::describe`] before anybody confirms.

use serde::{Deserialize, Serialize};

use super::step::Step;
use crate::lock::RawValue;

/// Of a lock that may have a fair queue, as long as nobody knows who in it hears nothing.
pub const DEAD_HEADS: &str = "If this is a fair lock, a dead waiter at the head of its queue holds up the others until its \
    deadline, by default up to 5 minutes.";

/// What freeing a lock takes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Release {
    pub steps: Vec<Step>,
    /// Sentences an operator must read first.
    pub hazards: Vec<&'static str>,
    /// Why only a person who knows the application well should do this; a sentence.
    pub only_by_force: Option<&'static str>,
    /// Conditions besides the holders: the way in which the lock is held.
    pub premises: Vec<Premise>,
    /// Conditions that prevent an undo of the release.
    pub obstacles: Vec<Obstacle>,
}

/// A condition on the way in which a lock is held, which must be as it was seen.
#[derive(Clone, PartialEq, Debug)]
pub enum Premise {
    /// A hash whose field is this.
    Field { key: Vec<u8>, field: Vec<u8>, value: Vec<u8> },
    /// A sorted set without this member.
    Unmarked { key: Vec<u8>, mark: Vec<u8> },
}

/// A reason, by the library's own rule, why a freed hold can't be put back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Obstacle {
    /// A hold under this key shuts it out.
    Key(Vec<u8>),
    /// A member of a sorted set does.
    Scored { key: Vec<u8>, member: Vec<u8> },
    /// The hash is there, and this field says that it is held in another way.
    Mode { key: Vec<u8>, field: Vec<u8>, value: Vec<u8> },
    /// The fields of the hash are holders, and their number is at the limit. If the library stores no limit, only the
    /// number at the time of the release is known to be allowed.
    Fields { key: Vec<u8>, limit: Option<u64> },
    /// The same for the members of a sorted set. A member counts until `lease_ms` after its score, or for ever.
    Members { key: Vec<u8>, lease_ms: Option<i64> },
    /// A member of the sorted set holds until `lease_ms` after its score.
    Ended { key: Vec<u8>, lease_ms: i64 },
    /// This field says when the hold ends, in milliseconds of Unix time.
    EndField { key: Vec<u8>, field: Vec<u8> },
    /// The hold ends with the last of these keys.
    Leases(Vec<Vec<u8>>),
}

impl Release {
    /// Compare the holder, delete the key: all that most libraries need.
    pub fn delete(key: &[u8]) -> Release {
        Release::default().and(Step::Delete(key.to_vec()))
    }

    /// For libraries that lock by majority: one server does not show whether there are others.
    pub fn warn_of_copies(self) -> Release {
        self.warn("If the application locks on several independent servers, free the lock on each of them.")
    }

    pub fn and(mut self, step: Step) -> Release {
        self.steps.push(step);
        self
    }

    pub fn warn(mut self, hazard: &'static str) -> Release {
        self.hazards.push(hazard);
        self
    }

    pub fn only_by_force(mut self, why: &'static str) -> Release {
        self.only_by_force = Some(why);
        self
    }

    pub fn while_so(mut self, premise: Premise) -> Release {
        self.premises.push(premise);
        self
    }

    pub fn unless(mut self, obstacle: Obstacle) -> Release {
        self.obstacles.push(obstacle);
        self
    }

    /// Warns where the key has holders that were not read: deleting it takes the lock from them too.
    pub fn warn_of_unread(self, value: &RawValue) -> Release {
        if value.is_whole() {
            return self;
        }
        self.warn("There are more holders than were read: all of them lose the lock.")
    }

    /// The same release that also takes these waiters, for whom nobody listens, out of the fair queue, so that the first
    /// living one is woken, and none of them holds up the others.
    pub fn dropping(mut self, dead: &[Vec<u8>]) -> Release {
        let head = self.steps.iter().enumerate().find_map(|(at, step)| match step {
            Step::PublishToHead { queue, deadlines, channel_prefix } => {
                Some((at, queue.clone(), deadlines.clone(), channel_prefix.clone()))
            }
            _ => None,
        });
        if let Some((at, queue, deadlines, prefix)) = head {
            let drops = dead.iter().map(|waiter| Step::DropWaiter {
                queue: queue.clone(),
                deadlines: deadlines.clone(),
                channel: [&prefix[..], waiter].concat(),
                waiter: waiter.clone(),
            });
            self.steps.splice(at..at, drops);
            self.hazards.retain(|hazard| dead.is_empty() || *hazard != DEAD_HEADS);
        }
        self
    }

    /// The steps as commands, one line each.
    pub fn describe(&self) -> Vec<String> {
        self.steps.iter().map(Step::describe).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steps_read_as_commands() {
        let release = Release::delete(b"lock:a")
            .and(Step::Publish { channel: b"redisson_lock__channel:{lock:a}".to_vec(), message: b"0".to_vec() })
            .and(Step::Signal { list: b"lock-signal:a".to_vec(), expires: Duration::from_secs(1) })
            .and(Step::ReturnPermits { counter: b"s".to_vec(), channel: b"redisson_sc:{s}".to_vec(), permits: 2 });
        assert_eq!(
            release.describe(),
            [
                "DEL lock:a",
                "PUBLISH redisson_lock__channel:{lock:a} 0",
                "DEL lock-signal:a; LPUSH lock-signal:a 1; PEXPIRE lock-signal:a 1000",
                "INCRBY s 2; PUBLISH redisson_sc:{s} <new value>",
            ]
        );
    }

    #[test]
    fn dead_waiters_leave_the_queue_before_its_head_is_woken() {
        let (queue, deadlines) = (b"q".to_vec(), b"t".to_vec());
        let release = Release::delete(b"a")
            .and(Step::PublishToHead { queue, deadlines, channel_prefix: b"c:".to_vec() })
            .dropping(&[b"w1".to_vec(), b"w2".to_vec()]);
        let lines = release.describe();
        let drop = |waiter: &str| format!("if nobody listens on c:{waiter}: LREM q 0 {waiter}; ZREM t {waiter}");
        assert_eq!(lines[..3], ["DEL a".to_string(), drop("w1"), drop("w2")]);
        assert!(lines[3].ends_with("PUBLISH c:<first waiter> 0"));
        assert_eq!(
            Release::delete(b"a").dropping(&[b"w1".to_vec()]),
            Release::delete(b"a"),
            "no queue, nothing to drop"
        );
    }
}
