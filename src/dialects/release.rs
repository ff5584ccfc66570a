//! The vocabulary in which a dialect says how its locks are renewed, waited for and freed.
//!
//! A dialect only names the steps. The actions turn them into one script, run after the holders the operator saw were
//! compared; the views print them with [`Step::describe`] before anybody confirms.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::statement::{self, Command, Statement};
use crate::base::text;
use crate::base::time::Ttl;
use crate::lock::RawValue;

/// What keeps a lock of a dialect alive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Renewal {
    /// Nothing: the lease runs out unless the application extends it by hand.
    Manual,
    /// A watchdog renews it each time this share of the lease has passed.
    Watchdog { share: f32 },
    /// A watchdog, but only where the application asked for one.
    Optional { share: f32 },
    /// The library's locks have no lease to renew.
    NoLease,
}

impl Renewal {
    /// In one sentence, for the detail view of a lock with so much left.
    pub fn describe(&self, left: Ttl) -> String {
        match self {
            Renewal::NoLease if left != Ttl::Never => "The library renews nothing: the TTL runs out.".into(),
            Renewal::Manual => "The lease runs out unless the application extends it by hand.".into(),
            Renewal::Watchdog { share } => format!("A watchdog renews it after {} of the lease.", percent(*share)),
            Renewal::Optional { share } => {
                format!("A watchdog renews it after {} of the lease, if the application uses one.", percent(*share))
            }
            Renewal::NoLease => "The key has no lease: it stays until it is freed.".into(),
        }
    }
}

fn percent(share: f32) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Who waits for a lock, and where that can be seen on the server.
#[derive(Clone, PartialEq, Debug)]
pub enum Waiting {
    /// Waiters try again and again; nothing on the server shows them.
    Polls { every: Option<Duration> },
    /// Waiters are subscribed to this channel.
    Channel(Vec<u8>),
    /// Waiters are subscribed to a pattern that covers this channel.
    ChannelPattern(Vec<u8>),
    /// Where the list exists, an ordered queue: a list of waiter ids, a sorted set of their deadlines, and the prefix
    /// of each waiter's own channel. Where it doesn't, the lock is not a fair one and waiters share `channel`.
    Queue { channel: Vec<u8>, list: Vec<u8>, deadlines: Vec<u8>, channel_prefix: Vec<u8> },
    /// Waiters are blocked in a list pop on this key.
    BlockedOn(Vec<u8>),
    /// Nobody waits: a refused attempt gives up.
    Nobody,
}

impl Waiting {
    /// Waiters try again about this often.
    pub fn polls_each(millis: u64) -> Waiting {
        Waiting::Polls { every: Some(Duration::from_millis(millis)) }
    }

    /// In one sentence, for the detail view.
    pub fn describe(&self) -> String {
        match self {
            Waiting::Polls { every: Some(every) } => {
                let every = text::short_duration(every.as_millis() as u64);
                format!("Waiters try again every {every}; nothing on the server shows them.")
            }
            Waiting::Polls { every: None } => "Waiters try again and again; nothing on the server shows them.".into(),
            Waiting::Channel(channel) => format!("Waiters are subscribed to {}.", word(channel)),
            Waiting::ChannelPattern(channel) => {
                format!("Waiters are subscribed to a pattern that covers {}.", word(channel))
            }
            Waiting::Queue { channel, list, .. } => format!(
                "Waiters are subscribed to {}; those of a fair lock stand in order in the list {}.",
                word(channel),
                word(list)
            ),
            Waiting::BlockedOn(list) => format!("Waiters are blocked on the list {}.", word(list)),
            Waiting::Nobody => "Nobody waits: a refused attempt gives up.".into(),
        }
    }
}

/// One step of freeing a lock. All steps run in one script, after the holder was compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Step {
    Delete(Vec<u8>),
    /// Take one field out of a hash that holds other things too.
    DeleteField {
        key: Vec<u8>,
        field: Vec<u8>,
    },
    /// Take one member out of a sorted set.
    RemoveScored {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    /// Take one member out of a set.
    RemoveMember {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    /// Wake subscribers, by PUBLISH or SPUBLISH.
    Publish {
        channel: Vec<u8>,
        message: Vec<u8>,
    },
    /// Wake the one waiter at the head of a fair queue, after dropping dead heads: those whose deadline has passed. Does
    /// nothing where there is no queue.
    PublishToHead {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel_prefix: Vec<u8>,
    },
    /// Take one waiter out of a fair queue, unless somebody listens on its channel by then.
    DropWaiter {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel: Vec<u8>,
        waiter: Vec<u8>,
    },
    /// Wake one client blocked on a list: leave one item there for a while.
    Signal {
        list: Vec<u8>,
        expires: Duration,
    },
    /// Give a token back to a pool.
    PushBack {
        list: Vec<u8>,
        token: Vec<u8>,
    },
    /// Give permits back to a counter, and send the waiters its new value. Must be refused if there is no counter.
    ReturnPermits {
        counter: Vec<u8>,
        channel: Vec<u8>,
        permits: u64,
    },
    /// Let a hash of readers last no longer than those that stay. Their leases are in keys that begin with this prefix.
    LastAsReaders {
        key: Vec<u8>,
        prefix: Vec<u8>,
    },
    /// Steps for the case that the last holder was just removed: the hash is gone, or only the field `besides` is left.
    WhenEmptied {
        key: Vec<u8>,
        besides: Option<Vec<u8>>,
        then: Vec<Step>,
    },
}

impl Step {
    /// Its statements.
    pub fn statements(&self) -> Vec<Statement> {
        let run = Statement::run;
        match self {
            Step::Delete(key) => vec![run("DEL", key, &[])],
            Step::DeleteField { key, field } => vec![run("HDEL", key, &[field])],
            Step::RemoveScored { key, member } => vec![run("ZREM", key, &[member])],
            Step::RemoveMember { key, member } => vec![run("SREM", key, &[member])],
            Step::Publish { channel, message } => {
                vec![Statement::Tell { channel: channel.clone(), message: message.clone(), must: true }]
            }
            Step::PublishToHead { queue, deadlines, channel_prefix } => vec![Statement::TellHead {
                queue: queue.clone(),
                deadlines: deadlines.clone(),
                channel_prefix: channel_prefix.clone(),
            }],
            Step::DropWaiter { queue, deadlines, channel, waiter } => vec![Statement::DropWaiter {
                queue: queue.clone(),
                deadlines: deadlines.clone(),
                channel: channel.clone(),
                waiter: waiter.clone(),
            }],
            Step::Signal { list, expires } => vec![
                run("DEL", list, &[]),
                Statement::Run(Command::on("LPUSH", list, &[]).word("1")),
                run("PEXPIRE", list, &[expires.as_millis().to_string().as_bytes()]),
            ],
            Step::PushBack { list, token } => vec![run("LPUSH", list, &[token])],
            Step::ReturnPermits { counter, channel, permits } => vec![Statement::TellAnswer {
                command: Command::on("INCRBY", counter, &[permits.to_string().as_bytes()]),
                channel: channel.clone(),
            }],
            Step::LastAsReaders { key, prefix } => {
                vec![Statement::LastAsReaders { key: key.clone(), prefix: prefix.clone() }]
            }
            Step::WhenEmptied { key, besides, then } => vec![Statement::WhenEmptied {
                key: key.clone(),
                besides: besides.clone(),
                then: then.iter().flat_map(Step::statements).collect(),
            }],
        }
    }

    /// The commands that an operator would have to type, as they are shown before a release.
    pub fn describe(&self) -> String {
        statement::describe(&self.statements())
    }
}

/// Bytes as one word of a command line, quoted if necessary.
pub fn word(bytes: &[u8]) -> String {
    let visible = text::visible(bytes);
    if !visible.is_empty() && !visible.contains([' ', '"', '\'', '\\']) {
        return visible;
    }
    format!("\"{}\"", visible.replace('"', "\\\""))
}

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
    fn a_name_with_a_space_or_raw_bytes_stays_one_word() {
        assert_eq!(Step::Delete(b"my lock".to_vec()).describe(), "DEL \"my lock\"");
        assert_eq!(Step::Delete(b"a\xff\x1b".to_vec()).describe(), "DEL \"a\\xff\\u{1b}\"");
        assert_eq!(Step::Delete(b"say \"hi\"".to_vec()).describe(), "DEL \"say \\\"hi\\\"\"");
        assert_eq!(Step::Delete(Vec::new()).describe(), "DEL \"\"");
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

    #[test]
    fn waiting_and_renewal_are_told_in_sentences() {
        let polls = Waiting::Polls { every: Some(Duration::from_millis(100)) };
        assert_eq!(polls.describe(), "Waiters try again every 100ms; nothing on the server shows them.");
        assert_eq!(Waiting::Channel(b"c".to_vec()).describe(), "Waiters are subscribed to c.");
        let renewal = Renewal::Watchdog { share: 1.0 / 3.0 };
        assert_eq!(renewal.describe(Ttl::Never), "A watchdog renews it after 33 % of the lease.");
        let stays = [Ttl::Never, Ttl::In(Duration::from_secs(9))].map(|left| Renewal::NoLease.describe(left));
        assert!(stays[0].contains("stays until it is freed") && stays[1].contains("runs out"), "{stays:?}");
    }
}
