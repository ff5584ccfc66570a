//! What a closer look at one lock found, as objects of the JSON contract: its waiters and the keys that belong to it.

use serde::Serialize;

use super::stored::textual;
use crate::inspect::{self, Count, Inspection};
use crate::model::{LockView, Tries, Ttl};

/// How hard the lock is wanted; each part `null` where it is not known.
#[derive(Serialize, Default)]
pub(super) struct Contention {
    waiters: Option<u64>,
    waiters_source: Option<&'static str>,
    attempts_per_s: Option<f64>,
    failures_per_s: Option<f64>,
    /// By so much the failures may be off, nineteen times in twenty.
    failures_margin_per_s: Option<f64>,
    source: Option<&'static str>,
    coverage: Option<f64>,
}

impl Contention {
    /// `None` where nothing of it is known. Of waiters only what is beyond doubt; bounds are told under `waiting`.
    pub(super) fn of(waiters: Option<(u64, &'static str)>, tries: Option<Tries>) -> Option<Contention> {
        if waiters.is_none() && tries.is_none() {
            return None;
        }
        let (count, source) = waiters.unzip();
        let contention = Contention { waiters: count, waiters_source: source, ..Contention::default() };
        let Some(tries) = tries else { return Some(contention) };
        let failures = tries.known_failures_per_s();
        Some(Contention {
            attempts_per_s: Some(rounded(tries.attempts_per_s())),
            failures_per_s: failures.map(rounded),
            failures_margin_per_s: failures.map(|_| rounded(tries.margin_per_s)),
            source: Some(tries.from.name()),
            coverage: Some(rounded(tries.coverage())),
            ..contention
        })
    }

    pub(super) fn of_view(lock: &LockView) -> Option<Contention> {
        let exact = lock.waits.filter(|waits| !waits.at_least);
        Contention::of(exact.map(|waits| (u64::from(waits.count), waits.source())), lock.tries)
    }

    pub(super) fn looked_at(found: &Inspection, tries: Option<Tries>) -> Option<Contention> {
        let counted = found.waiters.exact().zip(found.waiters.counted);
        Contention::of(counted.map(|(waiters, counted)| (waiters, counted.name())), tries)
    }
}

/// What is estimated should not look more exact than it is.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Who waits for the lock, as far as the server tells.
#[derive(Serialize)]
pub(super) struct Waiting {
    /// `null` where it is not known.
    count: Option<u64>,
    /// `exact`, `at-least`, `at-most` or `unknown`.
    count_is: &'static str,
    /// What was counted.
    source: Option<&'static str>,
    /// The channel, queue or list at which they wait.
    on: Option<String>,
    /// Why the count is not known, or is only a bound.
    why: Option<String>,
    /// The beginning of a fair queue, in order.
    queue: Vec<Waiter>,
}

#[derive(Serialize)]
struct Waiter {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_base64: Option<String>,
    /// Until it counts as dead; negative: since when it does.
    deadline_ms: Option<i64>,
    /// `listening`, `not-listening`, `dead-head`, `deadline-passed` or `unknown`.
    state: &'static str,
}

impl Waiting {
    pub(super) fn of(found: &inspect::Waiters) -> Waiting {
        let (count, count_is, why) = match &found.count {
            Count::Exactly(count) => (Some(*count), "exact", found.note.clone()),
            Count::AtLeast(count) => (Some(*count), "at-least", found.note.clone()),
            Count::AtMost(count) => (Some(*count), "at-most", found.note.clone()),
            Count::Unknown(why) => (None, "unknown", Some(why.clone())),
        };
        let queue = found.in_order(0).map(|(waiter, health)| {
            let (id, id_base64) = textual(&waiter.id);
            Waiter { id: id.into_owned(), id_base64, deadline_ms: waiter.left_ms, state: health.name() }
        });
        Waiting {
            count,
            count_is,
            source: found.counted.map(inspect::Counted::name),
            on: found.on.as_ref().map(|on| textual(on).0.into_owned()),
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
        let (key, key_base64) = textual(found.key.as_bytes());
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
