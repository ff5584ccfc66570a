//! The memory of a million locks: fills a table in a fresh process and compares its resident memory before and after.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use lockscope::base::glob::Glob;
use lockscope::base::time::{Time, Ttl};
use lockscope::dialects::Recogniser;
use lockscope::lock::{Key, NodeId, RawValue};
use lockscope::model::{EventBatch, KeyEvent, Limits, Observation, Seen, Source, Table};

use crate::keyspace::uuid;
use crate::limit::{Limit, Measured, whole};
use crate::machine::resident;
use crate::report::{Figure, Report};

/// The first argument of the fresh process.
pub const CHILD: &str = "fill-a-table";

const LOCKS: usize = 1_000_000;
const LIMIT: f64 = 600.0;
const NODE: NodeId = NodeId(0);
const LEASE: Duration = Duration::from_secs(3600);
/// In the watched table, one in this many locks was renewed and handed over all the time.
const BUSY: usize = 10;

pub fn measure(report: &mut Report) {
    for (how, name) in [
        ("walked", "bytes a lock beyond key and value, 1,000,000 locks from a walk"),
        ("watched", "the same after watching: every tenth lock with 8 past holds and 16 renewals"),
    ] {
        let program = std::env::current_exe().expect("a program knows its path");
        let output = Command::new(program).args([CHILD, how]).output().expect("this program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let bytes: f64 = text.trim().parse().unwrap_or_else(|_| panic!("the child said {text:?}"));
        report.add(Figure {
            name: name.into(),
            measured: Measured::once(bytes),
            limit: Limit::AtMost(LIMIT),
            show: whole,
            command: "resident memory of a table filled in a process of its own".into(),
        });
    }
}

/// In the fresh process: fills a table and prints the bytes.
pub fn child(how: Option<&str>) -> ExitCode {
    let pattern = Glob::new("lock:*").expect("a valid glob");
    let recogniser = Arc::new(Recogniser::new(vec![pattern], Vec::new(), Vec::new()));
    let before = resident();
    let mut table = Table::new(recogniser, Limits::default());
    table.apply(Observation::Watched { node: NODE, source: Source::Notification });
    let mut own = 0;
    for number in 0..LOCKS {
        let (key, token) = (key(number), uuid(number));
        own += key.as_bytes().len() + token.len();
        let seen = present(&token);
        let (asked, answered) = (Time(1_000), Time(1_001));
        table.apply(Observation::Read { node: NODE, key, asked, answered, seen, source: Source::Scan });
    }
    table.apply(Observation::Swept { node: NODE, started: Time(999) });
    if how == Some("watched") {
        watch(&mut table);
    }
    let weight = (resident() - before) as usize;
    assert_eq!(table.held(), LOCKS);
    println!("{}", weight.saturating_sub(own) / LOCKS);
    ExitCode::SUCCESS
}

/// Every tenth lock is released and taken again eight times, and then renewed sixteen times.
fn watch(table: &mut Table) {
    use KeyEvent::{Del, Expire, New, Set};
    let mut now = Time(10_000);
    for _ in 0..8 {
        events(table, &[Del, New, Set, Expire], &mut now);
    }
    for _ in 0..16 {
        events(table, &[Expire], &mut now);
    }
}

fn events(table: &mut Table, what: &[KeyEvent], now: &mut Time) {
    for first in (0..LOCKS).step_by(BUSY * 1000) {
        let mut batch = EventBatch::new(*now);
        for number in (first..first + BUSY * 1000).step_by(BUSY) {
            for event in what {
                batch.push(key(number).as_bytes(), *event);
            }
        }
        table.apply(Observation::Events { node: NODE, batch });
        for ticket in table.to_read(NODE, usize::MAX, *now) {
            let number = number(&ticket.key);
            table.answer(ticket, *now, *now, present(&uuid(number)));
        }
        table.take_transitions();
    }
    *now = *now + Duration::from_secs(10);
}

fn key(number: usize) -> Key {
    Key::from(format!("lock:order:{number:07}").as_str())
}

fn number(key: &Key) -> usize {
    let digits = &key.as_bytes()[b"lock:order:".len()..];
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).expect("a key of ours")
}

fn present(token: &str) -> Seen {
    Seen::Present { value: RawValue::string(token.as_bytes()), ttl: Ttl::In(LEASE) }
}
