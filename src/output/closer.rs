//! What surrounds a lock, as objects of the JSON contract: who wants it, its holder's connection, and what an
//! inspection found: its waiters and the keys that belong to it.

use serde::Serialize;

use crate::base::json::typed;
use crate::base::server_text::ServerText;
use crate::base::time::{Time, Ttl};
use crate::model::{Connection, LockView, MatchedBy, Presence};
use crate::sources::inspect::{self, Inspection};
use crate::sources::waiters::{self, Count};

/// What is known about the demand for the lock.
#[derive(Serialize)]
pub(super) struct Contention<'a> {
    waiters: Option<u64>,
    waiters_source: Option<&'static str>,
    /// Bounds, where the number is not exact.
    waiters_at_least: Option<u64>,
    waiters_at_most: Option<u64>,
    /// The first few clients that are blocked in such a command; the waiters are among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocked_clients: Vec<BlockedClient<'a>>,
    /// How many waiters at the head of a fair queue can't receive the wake-up.
    dead_heads: Option<u32>,
    /// A client recently wanted it; never `false`, because nothing proves that nobody does.
    wanted: Option<bool>,
    attempts_per_s: Option<f64>,
    failures_per_s: Option<f64>,
    /// Half-width of the 95 % confidence interval of the failures.
    failures_margin_per_s: Option<f64>,
    /// Why failures are not known, although the lock was looked at.
    unknown_why: Option<&'static str>,
    source: Option<&'static str>,
    coverage: Option<f64>,
}

impl<'a> Contention<'a> {
    /// `None` if nothing is known.
    pub(super) fn of(lock: &'a LockView) -> Option<Contention<'a>> {
        let counted = lock.waits.map(|waits| {
            let count = u64::from(waits.count);
            let count = match (waits.is_at_most(), waits.at_least) {
                (true, _) => Count::AtMost(count),
                (_, true) => Count::AtLeast(count),
                _ => Count::Exactly(count),
            };
            (count, waits.source())
        });
        let nobody = || lock.gives_up().then(|| (Count::Exactly(0), waiters::Counted::Library.name()));
        Contention::with(lock, counted.or_else(nobody), &lock.blocked)
    }

    /// The same after an inspection.
    pub(super) fn looked_at(lock: &'a LockView, found: &'a Inspection) -> Option<Contention<'a>> {
        let seen = found.waiters.beside(lock);
        let source = seen.counted.map(waiters::Counted::name);
        Contention::with(lock, source.map(|source| (seen.count, source)), &found.waiters.blocked)
    }

    fn with(
        lock: &'a LockView,
        counted: Option<(Count, &'static str)>,
        blocked: &'a [Connection],
    ) -> Option<Contention<'a>> {
        // Clients that poll can't be counted, but some were seen.
        let seen = lock.tried_by().map(u64::from);
        let (exact, at_least, at_most) = match counted {
            Some((Count::Exactly(_), _)) if seen.is_some() => (None, seen, None),
            Some((Count::Exactly(count), _)) => (Some(count), None, None),
            Some((Count::AtLeast(count), _)) => (None, Some(count).max(seen), None),
            Some((Count::AtMost(count), _)) => (None, seen, Some(count)),
            Some((Count::Unknown(_), _)) | None => (None, seen, None),
        };
        let waits = exact.or(at_least).or(at_most);
        let (tries, wanted) = (lock.tries, lock.wanted.map(|_| true));
        let failures = tries.and_then(|tries| tries.known_failures_per_s());
        (waits.is_some() || tries.is_some() || wanted.is_some()).then(|| Contention {
            waiters: exact,
            waiters_source: counted.filter(|(count, _)| !matches!(count, Count::Unknown(_))).map(|(_, source)| source),
            waiters_at_least: at_least,
            waiters_at_most: at_most,
            blocked_clients: blocked.iter().map(|client| BlockedClient::of(client, lock.at)).collect(),
            dead_heads: lock.waits.and_then(|waits| waits.dead_heads),
            wanted,
            attempts_per_s: tries.and_then(|tries| tries.known_attempts_per_s()).map(rounded),
            failures_per_s: failures.map(rounded),
            failures_margin_per_s: tries.filter(|_| failures.is_some()).map(|tries| rounded(tries.margin_per_s)),
            unknown_why: tries.and_then(|tries| tries.unknown_why()),
            source: tries.map(|tries| tries.from.name()),
            coverage: tries.map(|tries| rounded(tries.coverage())),
        })
    }
}

/// A client that may wait for the lock.
#[derive(Serialize)]
struct BlockedClient<'a> {
    address: &'a str,
    name: Option<&'a ServerText>,
    user: Option<&'a ServerText>,
    blocked_ms: Option<u64>,
}

impl<'a> BlockedClient<'a> {
    fn of(client: &'a Connection, now: Time) -> BlockedClient<'a> {
        let (name, user) = (client.name.as_ref(), client.user.as_ref());
        BlockedClient { address: client.address.as_str(), name, user, blocked_ms: client.idle_ms(now) }
    }
}

/// The connection of a lock's holder.
#[derive(Serialize)]
pub(super) struct Connected<'a> {
    address: &'a str,
    name: Option<&'a ServerText>,
    library: Option<&'a ServerText>,
    user: Option<&'a ServerText>,
    /// What it and the holder have in common.
    matched_by: &'static str,
    /// As many other connections match as well.
    more: usize,
    open: bool,
    /// How long it has been open, or was open when it closed.
    open_ms: Option<u64>,
    /// For how long it has sent nothing.
    idle_ms: Option<u64>,
    /// How long ago it was found closed.
    closed_ms: Option<u64>,
}

impl<'a> Connected<'a> {
    pub(super) fn of(presence: &'a Presence, now: Time) -> Option<Connected<'a>> {
        let ms = |from: Time, to: Time| to.since(from).as_millis() as u64;
        let known = presence.connection()?;
        let (by, more) = match presence {
            Presence::Connected { by, more, .. } => (*by, *more),
            _ => (MatchedBy::Token, 0),
        };
        Some(Connected {
            address: known.address.as_str(),
            name: known.name.as_ref(),
            library: known.library.as_ref(),
            user: known.user.as_ref(),
            matched_by: by.name(),
            more,
            open: known.closed.is_none(),
            open_ms: known.since.map(|since| ms(since, known.closed.unwrap_or(now))),
            idle_ms: known.idle_ms(now),
            closed_ms: known.closed.map(|closed| ms(closed, now)),
        })
    }
}

/// Rounds an estimate, so that it does not look more exact than it is.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Who waits for the lock, as far as the server shows it.
#[derive(Serialize)]
pub(super) struct Waiting {
    /// `null` if unknown.
    count: Option<u64>,
    /// `exact`, `at-least`, `at-most` or `unknown`.
    count_is: &'static str,
    /// What was counted.
    source: Option<&'static str>,
    /// The channel, queue or list on which they wait.
    on: Option<String>,
    /// Why the count is not known, or is only a bound.
    why: Option<String>,
    /// The head of a fair queue, in order.
    queue: Vec<Waiter>,
}

#[derive(Serialize)]
struct Waiter {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_base64: Option<String>,
    /// Time until it counts as dead; negative: time since then.
    deadline_ms: Option<i64>,
    /// `listening`, `not-listening`, `dead-head`, `deadline-passed` or `unknown`.
    state: &'static str,
}

impl Waiting {
    pub(super) fn of(found: &waiters::Waiters) -> Waiting {
        let (count, count_is, why) = match &found.count {
            Count::Exactly(count) => (Some(*count), "exact", found.note.clone()),
            Count::AtLeast(count) => (Some(*count), "at-least", found.note.clone()),
            Count::AtMost(count) => (Some(*count), "at-most", found.note.clone()),
            Count::Unknown(why) => (None, "unknown", Some(why.clone())),
        };
        let queue = found.in_order(0).map(|(waiter, health)| {
            let (id, id_base64) = typed(&waiter.id);
            Waiter { id: id.into_owned(), id_base64, deadline_ms: waiter.left_ms, state: health.name() }
        });
        Waiting {
            count,
            count_is,
            source: found.counted.map(waiters::Counted::name),
            on: found.on.as_ref().map(|on| typed(on).0.into_owned()),
            why,
            queue: queue.collect(),
        }
    }
}

/// A key that belongs to the lock, its own included.
#[derive(Serialize)]
pub(super) struct Belonging {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(rename = "type")]
    type_name: String,
    /// `null`: it has no TTL, or it could not be read.
    ttl_ms: Option<u64>,
    /// Bytes of a string, elements of anything else.
    length: Option<u64>,
    /// Why it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<String>,
}

impl Belonging {
    pub(super) fn of(found: &inspect::Belonging) -> Belonging {
        let (key, key_base64) = typed(found.key.as_bytes());
        Belonging {
            key: key.into_owned(),
            key_base64,
            type_name: found.value.type_name().into(),
            ttl_ms: found.ttl.and_then(Ttl::remaining).map(|left| left.as_millis() as u64),
            length: found.length(),
            unread: found.unread().map(String::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::Waiting as Waits;
    use crate::model::{Safe, State, Why, why};
    use crate::output::columns;
    use crate::sources::waiters::Waiters;
    use crate::testkit::sample;

    /// What each reader says: the list, the line before freeing, the opened lock, JSON, and the derivation.
    fn told(lock: &LockView, found: &Waiters) -> [String; 5] {
        let seen = found.beside(lock);
        let inspection = Inspection { waiters: found.clone(), ..sample::inspection() };
        let json = |contention: Option<Contention<'_>>| serde_json::to_value(contention).unwrap();
        let (listed, shown) = (json(Contention::of(lock)), json(Contention::looked_at(lock, &inspection)));
        let numbers = |value: &serde_json::Value| [value["waiters"].clone(), value["waiters_at_least"].clone()];
        assert_eq!(numbers(&listed), numbers(&shown), "ls and show");
        assert_eq!(Safe::of(lock).waiting, seen.in_short(), "free it?, before and after a closer look");
        let wanted = Why::of(lock).questions.into_iter().find(|question| question.about == why::About::Wanted).unwrap();
        let numbers = numbers(&listed).map(|number| number.to_string()).join(" ");
        [columns::wait(lock), seen.in_short(), seen.describe(), numbers, wanted.answer.word().into()]
    }

    #[test]
    fn all_readers_agree_on_who_waits() {
        let polls = Waiters::unknown(&Waits::Polls { every: None }, "waiters poll".into());
        let mut lock = sample::forever();
        lock.verdict.state = State::Held;
        let unknown = told(&lock, &polls);
        assert_eq!(unknown, ["?", "waiters not known", "unknown: waiters poll", "null null", "not known"]);
        lock.wanted = Some(lock.at);
        lock.demand.polled = true;
        let somebody = told(&lock, &polls);
        assert_eq!(somebody[..2], ["some", "somebody reads it, and may poll for it"]);
        assert_eq!(somebody[2], "unknown: waiters poll; somebody reads it, and may poll for it");
        assert_eq!(somebody[4], "not known", "a read of unknown origin shows no waiter");
        lock.demand.waiting = 2;
        let seen = told(&lock, &polls);
        assert_eq!(
            (&seen[0], &seen[1], &seen[3], &seen[4]),
            (&"≥2".into(), &"at least 2 wait".into(), &"null 2".into(), &"yes".into())
        );
        assert!(seen[2].starts_with("at least 2: seen to be refused"), "{}", seen[2]);
    }

    #[test]
    fn where_refused_attempts_give_up_nobody_waits_until_somebody_is_seen_to() {
        let nobody = Waiters {
            count: Count::Exactly(0),
            counted: Some(waiters::Counted::Library),
            ..Waiters::unknown(&Waits::Nobody, String::new())
        };
        let mut lock = sample::redisson();
        (lock.dialect, lock.key) = ("shedlock", crate::lock::Key::from("job-lock:default:nightly"));
        assert_eq!(told(&lock, &nobody), ["0", "nobody waits", "nobody: a refused attempt gives up", "0 null", "no"]);
        lock.demand.waiting = 1;
        assert_eq!(told(&lock, &nobody)[..2], ["≥1", "at least 1 waits"]);
    }
}
