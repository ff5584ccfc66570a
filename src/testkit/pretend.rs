//! A pretended server for unit tests: keys with values and deadlines, and how a table learns of them.
//!
//! What happens on it reaches a table as it does in earnest: as events, and as answers to the looks that the table asks
//! for. The console's stage, the stories in tests/scenarios and the tests of the model share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::glob::Glob;
use crate::base::time::*;
use crate::dialects::Recogniser;
use crate::lock::*;
use crate::model::*;

pub const NODE: NodeId = NodeId(0);
/// 2026-09-21T13:46:40Z: late enough that no library takes its times for something else.
pub const START: Time = Time(1_790_000_000_000);

/// What is under these names is a lock.
pub fn recogniser(pattern: &str) -> Recogniser {
    Recogniser::new(vec![Glob::new(pattern).expect("a pattern")], vec![], vec![])
}

/// A table that follows one node by notifications.
pub fn table(recogniser: Recogniser, limits: Limits) -> Table {
    let mut table = Table::new(Arc::new(recogniser), limits);
    table.apply(Observation::Watched { node: NODE, source: Source::Notification });
    table
}

/// These events arrive, in this order.
pub fn tell<K: AsRef<[u8]>>(table: &mut Table, at: Time, events: &[(K, KeyEvent)]) {
    let mut batch = EventBatch::new(at);
    for (key, event) in events {
        batch.push(key.as_ref(), *event);
    }
    table.apply(Observation::Events { node: NODE, batch });
}

/// Answers every look that is due at `now` with what `look` finds.
pub fn settle(table: &mut Table, now: Time, look: impl Fn(&[u8]) -> Seen) {
    loop {
        let tickets = table.to_read(NODE, 1_000, now);
        if tickets.is_empty() {
            return;
        }
        for ticket in tickets {
            let seen = look(ticket.key.as_bytes());
            table.answer(ticket, now, now, seen);
        }
    }
}

/// Gives what `table` recorded to another one, by way of its written form: it must show the same, and tell the same.
/// `taken`: the transitions that were already taken from the first one.
#[track_caller]
pub fn assert_replays(table: &mut Table, mut other: Table, taken: &[Transition], now: Time) {
    let (recorded, left_out) = table.take_recorded();
    assert_eq!(left_out, 0);
    for observation in recorded {
        let text = serde_json::to_string(&record::Record::new(observation)).expect("it can be written");
        let read: record::Record<Observation> = serde_json::from_str(&text).expect("it can be read");
        other.apply(read.of);
    }
    let taken: Vec<Transition> = taken.iter().cloned().chain(table.take_transitions().0).collect();
    assert_eq!(other.take_transitions().0, taken);
    let (shown, again) = (table.snapshot(now), other.snapshot(now));
    assert_eq!((again.locks, again.complete, again.dropped), (shown.locks, shown.complete, shown.dropped));
}

/// The keys of the server.
#[derive(Default)]
pub struct Keyspace(BTreeMap<Vec<u8>, (RawValue, Option<Time>)>);

impl Keyspace {
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: RawValue, expires: Option<Time>) {
        self.0.insert(key.as_ref().to_vec(), (value, expires));
    }

    /// Gives the key a new deadline; whether it is there.
    pub fn renew(&mut self, key: impl AsRef<[u8]>, until: Time) -> bool {
        self.0.get_mut(key.as_ref()).map(|(_, expires)| *expires = Some(until)).is_some()
    }

    /// Whether it was there.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> bool {
        self.0.remove(key.as_ref()).is_some()
    }

    /// Removes it, and returns what it was.
    pub fn take(&mut self, key: impl AsRef<[u8]>) -> Option<(RawValue, Option<Time>)> {
        self.0.remove(key.as_ref())
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn value(&self, key: impl AsRef<[u8]>) -> Option<&RawValue> {
        self.0.get(key.as_ref()).map(|(value, _)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &RawValue)> {
        self.0.iter().map(|(key, (value, _))| (key, value))
    }

    /// Drops the keys whose time is up, and names them.
    pub fn drop_expired(&mut self, now: Time) -> Vec<Vec<u8>> {
        let mut dropped = Vec::new();
        self.0.retain(|key, (_, expires)| {
            let over = expires.is_some_and(|at| at <= now);
            dropped.extend(over.then(|| key.clone()));
            !over
        });
        dropped
    }

    /// What a look at the key finds.
    pub fn look(&self, key: &[u8], now: Time) -> Seen {
        match self.0.get(key) {
            Some((_, Some(at))) if *at <= now => Seen::Absent,
            Some((value, expires)) => {
                Seen::Present { value: value.clone(), ttl: expires.map_or(Ttl::Never, |at| Ttl::In(at.since(now))) }
            }
            None => Seen::Absent,
        }
    }

    /// Answers every look that the table asks for.
    pub fn settle(&self, table: &mut Table, now: Time) {
        settle(table, now, |key| self.look(key, now));
    }
}
