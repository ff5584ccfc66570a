//! Stories of locks, and the figures that they leave.

mod counted;
mod folded;
mod seen;

use std::time::Duration;

use crate::base::time::{Time, Ttl};
use crate::lock::RawValue;
use crate::model::figures::{Pattern, Tally};
use crate::model::{KeyEvent, Limits, Seen, Table};
use crate::testkit::pretend::{recogniser, settle, table, tell};

const TAKE: [KeyEvent; 3] = [KeyEvent::New, KeyEvent::Set, KeyEvent::Expire];

fn following() -> Table {
    table(recogniser("lock:*"), Limits::default())
}

fn held(token: &str, ttl_ms: u64) -> Seen {
    Seen::Present { value: RawValue::string(token.as_bytes()), ttl: Ttl::In(Duration::from_millis(ttl_ms)) }
}

/// These events of the key arrive, and the next look finds this.
fn happens(table: &mut Table, at: i64, key: &str, events: &[KeyEvent], found: Seen) {
    let events: Vec<(&str, KeyEvent)> = events.iter().map(|event| (key, *event)).collect();
    tell(table, Time(at), &events);
    settle(table, Time(at), |_| found.clone());
}

#[track_caller]
fn pattern<'a>(table: &'a Table, name: &str) -> &'a Pattern {
    table.patterns().find(|pattern| *pattern.name == *name).unwrap_or_else(|| panic!("no pattern {name}"))
}

#[track_caller]
fn tally<'a>(table: &'a Table, name: &str) -> &'a Tally {
    pattern(table, name).tally.as_ref().expect("a round is over")
}
