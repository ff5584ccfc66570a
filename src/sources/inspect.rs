//! The details of one lock: who waits for it, and the keys that its library keeps beside it.
//!
//! Asked only for a lock that somebody opened, in a few short pipelines, each bounded. Every figure has a source; what we
//! may not ask or can't know is unknown with the reason, never zero. [`Subject::new`] decides what to ask, without a
//! connection; `waiters` reads the replies.

mod prove;

use redis::RedisResult;
use redis::aio::ConnectionLike;

pub use prove::{prove, prove_waits};

use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Claim, Waiting};
use crate::lock::{Key, RawValue};
use crate::model::{LockView, Seen};
use crate::server::{Mode, Role, ServerFacts};
use crate::sources::look::{Wanted, look};
use crate::sources::waiters::{self, Waiters};

/// Read at most this many keys of a lock.
const KEYS: usize = 32;

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Inspection {
    pub at: Time,
    pub waiters: Waiters,
    /// The keys that exist, the lock's own first.
    pub keys: Vec<Belonging>,
    /// The number of keys that were not read, since there are too many.
    pub left_out: usize,
    /// Why nothing could be asked; `None` if we could.
    pub failed: Option<String>,
}

/// A key that belongs to a lock, or the lock's own.
#[derive(Clone, PartialEq, Debug)]
pub struct Belonging {
    pub key: Key,
    pub value: RawValue,
    /// `None` where it could not be read.
    pub ttl: Option<Ttl>,
}

/// One lock, and what to ask about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Subject {
    pub key: Key,
    waiting: Waiting,
    /// Its own key, where somebody holds it. We know its value; reading it again would reset its idle time on servers
    /// without CLIENT NO-TOUCH, as if somebody polled for it.
    own: Option<Belonging>,
    /// The keys to read.
    keys: Vec<Vec<u8>>,
    left_out: usize,
    db: i64,
    /// Its library is recognised beyond doubt.
    sure: bool,
    /// Other nodes may have subscribers that this one does not count.
    scattered: bool,
}

impl Subject {
    /// `db` and `facts`: of the node it lives on.
    pub fn new(lock: &LockView, db: i64, facts: &ServerFacts, now: Time) -> Subject {
        let sight = lock.sight(now);
        let (waiting, companions) = match dialects::by_name(lock.dialect).map(dialects::dialect) {
            Some(dialect) => (dialect.waiting(&sight), dialect.companions(&sight)),
            None => (Waiting::Polls { every: None }, Vec::new()),
        };
        let seen = Seen::Present { value: lock.value.clone(), ttl: lock.ttl };
        let own = Belonging::found(lock.key.as_bytes(), Some(seen)).filter(|_| !lock.verdict.state.is_free());
        let mut keys = companions;
        if own.is_none() {
            keys.insert(0, lock.key.as_bytes().to_vec());
        }
        let left_out = keys.len().saturating_sub(KEYS);
        keys.truncate(KEYS);
        Subject {
            key: lock.key.clone(),
            waiting,
            own,
            keys,
            left_out,
            db,
            sure: lock.dialect_confidence >= Claim::SURE,
            scattered: is_scattered(facts),
        }
    }
}

/// Whether other nodes may have subscribers that this one does not count.
pub fn is_scattered(facts: &ServerFacts) -> bool {
    let replicated = match facts.role.known() {
        Some(Role::Master { replicas }) => !replicas.is_empty(),
        Some(Role::Replica(_)) => true,
        Some(Role::Sentinel) | None => false,
    };
    replicated || facts.mode.known() == Some(&Mode::Cluster)
}

/// Asks the lock's node. An error means that the connection is lost.
pub async fn inspect(conn: &mut impl ConnectionLike, subject: &Subject, at: Time) -> RedisResult<Inspection> {
    let Subject { waiting, db, sure, scattered, .. } = subject;
    let waiters = waiters::ask(conn, waiting, *db, *sure, *scattered, at).await?;
    let wanted: Vec<Wanted<'_>> = subject.keys.iter().map(|key| Wanted { key, hint: None }).collect();
    let seen = look(conn, &wanted).await?;
    let found = subject.keys.iter().zip(seen).filter_map(|(key, seen)| Belonging::found(key, seen));
    let keys = subject.own.iter().cloned().chain(found).collect();
    Ok(Inspection { at, waiters, keys, left_out: subject.left_out, failed: None })
}

impl Inspection {
    /// Nothing could be asked.
    pub fn failed(subject: &Subject, at: Time, why: String) -> Inspection {
        let waiters = Waiters::unknown(&subject.waiting, why.clone());
        Inspection { at, waiters, keys: Vec::new(), left_out: 0, failed: Some(why) }
    }
}

impl Belonging {
    /// From a read; `None` where the key does not exist.
    fn found(key: &[u8], seen: Option<Seen>) -> Option<Belonging> {
        let (value, ttl) = match seen {
            Some(Seen::Absent) => return None,
            // Where the value was refused, the TTL may have been too.
            Some(Seen::Present { value: value @ RawValue::Unread { .. }, ttl }) => (value, Some(ttl).filter(is_known)),
            Some(Seen::Present { value, ttl }) => (value, Some(ttl)),
            None => (RawValue::unread("unknown", "it changed while we read it"), None),
        };
        Some(Belonging { key: Key::from(key), value, ttl })
    }

    /// Bytes of a string, elements of anything else.
    pub fn length(&self) -> Option<u64> {
        match self.value {
            RawValue::Str { len, .. }
            | RawValue::Hash { len, .. }
            | RawValue::Zset { len, .. }
            | RawValue::Set { len, .. }
            | RawValue::List { len } => Some(len),
            RawValue::Other(_) | RawValue::Unread { .. } => None,
        }
    }

    /// Why it was not read; `None` if it was.
    pub fn unread(&self) -> Option<&str> {
        match &self.value {
            RawValue::Unread { why, .. } => Some(why),
            _ => None,
        }
    }

    /// `24 bytes`, `3 elements`, or why that is not known.
    pub fn describe_length(&self) -> String {
        let unit = if matches!(self.value, RawValue::Str { .. }) { "byte" } else { "element" };
        match (self.length(), self.unread()) {
            (Some(1), _) => format!("1 {unit}"),
            (Some(length), _) => format!("{length} {unit}s"),
            (None, Some(why)) => format!("not read: {}", crate::base::text::visible(why.as_bytes())),
            (None, None) => "length unknown".into(),
        }
    }
}

fn is_known(ttl: &Ttl) -> bool {
    *ttl != Ttl::Never
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::{Fact, Settings};
    use crate::testkit::sample;

    fn facts(info: &str) -> ServerFacts {
        fn unknown<T>() -> Fact<T> {
            Fact::Unknown("not asked".into())
        }
        let settings = Settings::from_answers([unknown(), unknown(), unknown(), unknown(), unknown()]);
        ServerFacts::read(&Fact::Known(info.into()), 0, unknown(), settings, unknown())
    }

    #[test]
    fn a_lock_says_what_to_ask_about_it() {
        let subject = Subject::new(&sample::redisson(), 3, &facts("redis_mode:standalone\nrole:master\n"), Time(0));
        assert!(matches!(&subject.waiting, Waiting::Queue { .. }));
        assert_eq!(subject.keys.len(), 3, "queue, deadlines and fencing counter");
        assert_eq!(subject.own.unwrap().key, Key::from("lock:order:8841"));
        assert!(subject.sure && !subject.scattered);
        assert!(!Subject::new(&sample::forever(), 0, &facts(""), Time(0)).sure, "the library is a guess");
    }

    #[test]
    fn subscribers_may_be_on_other_nodes_of_a_cluster_and_on_replicas() {
        assert!(is_scattered(&facts("redis_mode:cluster\nrole:master\nconnected_slaves:0\n")));
        assert!(is_scattered(&facts("redis_mode:standalone\nrole:slave\n")));
        let replica = "slave0:ip=10.0.0.2,port=6380,state=online,offset=90,lag=0\n";
        assert!(is_scattered(&facts(&format!("redis_mode:standalone\nrole:master\nconnected_slaves:1\n{replica}"))));
        assert!(!is_scattered(&facts("redis_mode:standalone\nrole:master\nconnected_slaves:0\n")));
    }

    #[test]
    fn a_key_that_is_not_there_is_left_out_and_one_that_may_not_be_read_is_not() {
        assert_eq!(Belonging::found(b"q", Some(Seen::Absent)), None);
        let list = Seen::Present { value: RawValue::List { len: 3 }, ttl: Ttl::In(Duration::from_secs(5)) };
        let list = Belonging::found(b"q", Some(list)).unwrap();
        assert_eq!((list.length(), list.describe_length()), (Some(3), "3 elements".into()));
        let value = RawValue::unread("unknown", "NOPERM");
        let refused = Belonging::found(b"q", Some(Seen::Present { value, ttl: Ttl::Never })).unwrap();
        assert_eq!((refused.ttl, refused.length()), (None, None), "an unknown TTL is not `never`");
        assert_eq!(refused.describe_length(), "not read: NOPERM");
        assert!(Belonging::found(b"q", None).unwrap().unread().is_some());
    }
}
