//! Who waits for a lock, as far as the server shows it.
//!
//! This file says what the replies mean, without a connection. `ask.rs` asks about one lock that somebody opened,
//! `count.rs` about many locks at once; both read queues through `queue.rs` and subscribers through `listeners.rs`.

mod ask;
mod blocked;
mod count;
mod dead_heads;
mod listeners;
mod queue;

pub(super) use ask::ask;
pub(super) use blocked::{Blocked, ClientCounts};
pub use count::{count, count_blocked};
pub(super) use listeners::Listeners;
pub(super) use queue::Queue;

use crate::base::text::{short_duration, visible};
use crate::dialects::Waiting;
use crate::model::{Connection, LockView, SOMEBODY, safe};
use crate::server::Fact;

/// No library gives its waiters longer names. A longer one would fill the screen before a release: it is not dropped.
const LONGEST: usize = 512;

/// How many wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Count {
    Exactly(u64),
    AtLeast(u64),
    AtMost(u64),
    /// Why it is not known, as a clause.
    Unknown(String),
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Subscribers of the channel on which the library wakes its waiters.
    Subscribers,
    /// Entries of the lock's own queue.
    Queue,
    /// Clients blocked on lists, whichever they are.
    BlockedClients,
    /// Nothing: the library is known to have no waiters.
    Library,
    /// Clients that were refused and try again, in samples of MONITOR.
    Sampled,
    /// Nothing, but the key's idle time shows that somebody reads it.
    IdleTime,
}

impl Counted {
    /// The word of the JSON contract.
    pub fn name(self) -> &'static str {
        match self {
            Counted::Subscribers => "subscribers",
            Counted::Queue => "queue",
            Counted::BlockedClients => "blocked-clients",
            Counted::Library => "library",
            Counted::Sampled => "sampled",
            Counted::IdleTime => "idle-time",
        }
    }
}

/// Who waits, and how we know.
#[derive(Clone, PartialEq, Debug)]
pub struct Waiters {
    pub count: Count,
    /// `None` where nothing could be counted.
    pub counted: Option<Counted>,
    /// The channel, queue or list at which they wait.
    pub on: Option<Vec<u8>>,
    /// A restriction of the count, as a clause.
    pub note: Option<String>,
    /// The beginning of a fair queue, in order.
    pub queue: Vec<Waiter>,
    /// Clients that may be among those counted, the first few.
    pub blocked: Vec<Connection>,
}

/// One entry of a fair queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Waiter {
    pub id: Box<[u8]>,
    /// The time left until its deadline when we asked; negative: it has passed. `None` where it has no deadline.
    pub left_ms: Option<i64>,
    /// Whether anybody listens on its own channel.
    pub listens: Fact<bool>,
}

/// Whether a waiter in a queue can take its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    Listening,
    /// Nobody listens on its channel. `head`: it is first in the queue, and blocks the others.
    Deaf {
        head: bool,
        left_ms: Option<i64>,
    },
    /// Its deadline has passed: the next client removes it.
    Overdue,
    Unknown(String),
}

impl Health {
    pub fn describe(&self) -> String {
        let time = |ms: &i64| short_duration((*ms).max(0) as u64);
        match self {
            Health::Listening => "listening".into(),
            Health::Deaf { head: true, left_ms: Some(left) } => {
                format!("not listening: dead head, blocks all for {}", time(left))
            }
            Health::Deaf { head: true, left_ms: None } => "not listening: dead head, blocks all".into(),
            Health::Deaf { head: false, .. } => "not listening".into(),
            Health::Overdue => "deadline passed: the next to come by drops it".into(),
            Health::Unknown(why) => format!("unknown whether it listens: {why}"),
        }
    }

    /// The word of the JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Health::Listening => "listening",
            Health::Deaf { head: true, .. } => "dead-head",
            Health::Deaf { head: false, .. } => "not-listening",
            Health::Overdue => "deadline-passed",
            Health::Unknown(_) => "unknown",
        }
    }
}

impl Waiters {
    /// Waiters in a fair queue that no longer listen: a release removes them.
    pub fn deaf(&self) -> Vec<Vec<u8>> {
        let deaf =
            self.queue.iter().filter(|waiter| waiter.listens == Fact::Known(false) && waiter.id.len() <= LONGEST);
        deaf.map(|waiter| waiter.id.to_vec()).collect()
    }

    /// As a clause: `at least 3 wait`.
    pub fn in_short(&self) -> String {
        match self.count {
            Count::Exactly(count) => safe::waiting(count, ""),
            Count::AtLeast(count) => safe::waiting(count, "at least "),
            Count::AtMost(count) => safe::waiting(count, if count == 0 { "" } else { "at most " }),
            Count::Unknown(_) if self.counted == Some(Counted::IdleTime) => SOMEBODY.into(),
            Count::Unknown(_) => "waiters not known".into(),
        }
    }

    /// The same with what was seen of the lock besides: those that poll, whom the server does not list. Every screen and
    /// command says this one, as the list does.
    pub fn beside(&self, lock: &LockView) -> Waiters {
        let known = match self.count {
            Count::Exactly(count) | Count::AtLeast(count) => count,
            Count::AtMost(_) | Count::Unknown(_) => 0,
        };
        let unknown = matches!(self.count, Count::Unknown(_));
        match lock.tried_by().map(u64::from).filter(|seen| *seen > known) {
            Some(seen) => Waiters { count: Count::AtLeast(seen), counted: Some(Counted::Sampled), ..self.clone() },
            None if unknown && lock.wanted.is_some() => Waiters { counted: Some(Counted::IdleTime), ..self.clone() },
            None => self.clone(),
        }
    }

    pub fn unknown(waiting: &Waiting, why: String) -> Waiters {
        let on = match waiting {
            Waiting::Channel(on) | Waiting::ChannelPattern(on) | Waiting::BlockedOn(on) => Some(on.clone()),
            Waiting::Queue { channel, .. } => Some(channel.clone()),
            Waiting::Polls { .. } | Waiting::Nobody => None,
        };
        Waiters { count: Count::Unknown(why), counted: None, on, note: None, queue: Vec::new(), blocked: Vec::new() }
    }

    /// For libraries whose waiters leave nothing to count.
    fn without_asking(waiting: &Waiting) -> Option<Waiters> {
        let unknown = |why: &str| Some(Waiters::unknown(waiting, why.into()));
        match waiting {
            Waiting::Polls { .. } => unknown("waiters poll, and the server keeps no list of them"),
            Waiting::ChannelPattern(_) => {
                unknown("waiters poll, or listen by a pattern, and the server does not say who listens to which")
            }
            Waiting::Nobody => Some(Waiters {
                count: Count::Exactly(0),
                counted: Some(Counted::Library),
                ..Waiters::unknown(waiting, String::new())
            }),
            Waiting::Channel(_) | Waiting::Queue { .. } | Waiting::BlockedOn(_) => None,
        }
    }

    fn of_channel(channel: &[u8], listeners: &Listeners) -> Waiters {
        let (count, note) = listeners.on(0);
        let counted = (!matches!(count, Count::Unknown(_))).then_some(Counted::Subscribers);
        Waiters { count, counted, on: Some(channel.to_vec()), note, queue: Vec::new(), blocked: Vec::new() }
    }

    /// A lock that may be fair; without a queue it is not.
    fn of_queue(list: &[u8], length: Fact<u64>, queue: Vec<Waiter>, unfair: Waiters) -> Waiters {
        match (length, unfair.count.clone()) {
            // Redisson's spin locks look the same, and their waiters poll.
            (Fact::Known(0), Count::Exactly(0)) => {
                Waiters { note: Some("waiters of a spin lock would not show".into()), ..unfair }
            }
            (Fact::Known(0), _) => unfair,
            (Fact::Known(length), _) => Waiters {
                count: Count::Exactly(length),
                counted: Some(Counted::Queue),
                on: Some(list.to_vec()),
                note: None,
                queue,
                blocked: Vec::new(),
            },
            (Fact::Unknown(why), Count::Exactly(count @ 1..) | Count::AtLeast(count @ 1..)) => {
                Waiters { count: Count::AtLeast(count), note: Some(why), ..unfair }
            }
            (Fact::Unknown(why), _) => Waiters { count: Count::Unknown(why), counted: None, ..unfair },
        }
    }

    /// Only the beginning of a queue.
    fn queued(queue: Vec<Waiter>) -> Waiters {
        let count = Count::AtLeast(queue.len() as u64);
        Waiters { count, counted: Some(Counted::Queue), on: None, note: None, queue, blocked: Vec::new() }
    }

    fn of_blocked(list: &[u8], found: Blocked, db: i64) -> Waiters {
        let Blocked { count, clients: blocked } = found;
        let counted = (!matches!(count, Count::Unknown(_))).then_some(Counted::BlockedClients);
        let note = matches!(count, Count::AtMost(_))
            .then(|| format!("clients blocked on any list of database {db}; the server does not say on which"));
        Waiters { count, counted, on: Some(list.to_vec()), note, queue: Vec::new(), blocked }
    }

    /// The same where the library, and so the place of its waiters, is a guess.
    fn in_doubt(self) -> Waiters {
        let count = match self.count {
            Count::Exactly(count @ 1..) => Count::AtLeast(count),
            Count::Exactly(0) | Count::AtMost(_) => {
                Count::Unknown("its library is a guess, and so is where its waiters would be".into())
            }
            other => other,
        };
        let counted = self.counted.filter(|_| !matches!(count, Count::Unknown(_)));
        let blocked = if counted.is_some() { self.blocked } else { Vec::new() };
        Waiters { count, counted, blocked, ..self }
    }

    /// The number, where it is exact.
    pub fn exact(&self) -> Option<u64> {
        match self.count {
            Count::Exactly(count) => Some(count),
            _ => None,
        }
    }

    /// Each waiter of the queue with its health, `passed_ms` after we asked.
    pub fn in_order(&self, passed_ms: i64) -> impl Iterator<Item = (&Waiter, Health)> {
        let left = move |waiter: &Waiter| waiter.left_ms.map(|left| left - passed_ms);
        // Waiters whose deadline has passed are removed before anybody is called.
        let head = self.queue.iter().position(|waiter| left(waiter).is_none_or(|left| left > 0));
        self.queue.iter().enumerate().map(move |(index, waiter)| {
            let left_ms = left(waiter);
            let health = match &waiter.listens {
                _ if left_ms.is_some_and(|left| left <= 0) => Health::Overdue,
                Fact::Known(true) => Health::Listening,
                Fact::Known(false) => Health::Deaf { head: head == Some(index), left_ms },
                Fact::Unknown(why) => Health::Unknown(why.clone()),
            };
            (waiter, health)
        })
    }

    /// In one clause, with the source of the number.
    pub fn describe(&self) -> String {
        let on = self.on.as_deref().map(visible).unwrap_or_default();
        let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        match (&self.count, self.counted) {
            (Count::Unknown(why), Some(Counted::IdleTime)) => format!("unknown: {why}; {SOMEBODY}"),
            (Count::Unknown(why), _) => format!("unknown: {why}"),
            (Count::AtLeast(count), Some(Counted::Sampled)) => {
                format!("at least {count}: seen to be refused and to try again, in samples of MONITOR")
            }
            (Count::Exactly(_), Some(Counted::Library)) => "nobody: a refused attempt gives up".into(),
            (Count::Exactly(0), Some(Counted::BlockedClients)) => "nobody: no client is blocked on a list".into(),
            (Count::Exactly(0), _) => format!("nobody is subscribed to {on}{note}"),
            (Count::AtMost(count), _) => format!("at most {count}{note}"),
            (Count::Exactly(count), Some(Counted::Queue)) => {
                let deaf = self.queue.iter().filter(|waiter| waiter.listens == Fact::Known(false)).count();
                let deaf = if deaf > 0 { format!(", {deaf} of them not listening") } else { String::new() };
                format!("{count} in the queue {on}{deaf}")
            }
            // A process subscribes once, however many of its threads wait.
            (Count::Exactly(count), _) => format!("{} subscribed to {on}{note}", processes(*count)),
            (Count::AtLeast(count), _) => format!("at least {} subscribed to {on}{note}", processes(*count)),
        }
    }
}

fn processes(count: u64) -> String {
    if count == 1 { "1 process is".into() } else { format!("{count} processes are") }
}

#[cfg(test)]
mod tests;
