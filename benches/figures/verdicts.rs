//! How long it takes to judge every lock once more: a table of plain, renewed and waited-for locks, on one core.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockscope::base::glob::Glob;
use lockscope::base::time::{Time, Ttl};
use lockscope::dialects::Recogniser;
use lockscope::lock::{Key, NodeId, RawValue, Token};
use lockscope::model::{
    Address, EventBatch, KeyEvent, Limits, Observation, Sample, Seen, Source, Spoke, State, Table, Waits, WaitsAt,
};

use crate::keyspace::uuid;
use crate::limit::{Limit, Measured, ratio};
use crate::report::{Figure, Report};

pub const LOCKS: usize = 100_000;
const LIMIT_MS: f64 = 20.0;
const NODE: NodeId = NodeId(0);
const LEASE: Duration = Duration::from_secs(3600);
/// One third of the locks is renewed, one third has waiters; every hundredth has a known client.
const KINDS: usize = 3;
const BEATS: i64 = 16;

pub fn measure(report: &mut Report, rounds: usize) {
    let table = table(1);
    let now = Time(200_000);
    let judge = || {
        let begun = Instant::now();
        let bad = table.locks().filter(|lock| black_box(table.state(lock, now)) != State::Held).count();
        (begun.elapsed().as_secs_f64() * 1_000.0, bad)
    };
    assert!(judge().1 > 0, "some of them are contended");
    report.add(Figure {
        name: "ms to judge 100,000 locks once more: plain, renewed and waited for".into(),
        measured: Measured::of((0..rounds.max(5)).map(|_| judge().0).collect()),
        limit: Limit::AtMost(LIMIT_MS),
        show: ratio,
        command: "Table::state of each lock, one core".into(),
    });
}

/// A table of so many locks, in so many name patterns.
pub fn table(patterns: usize) -> Table {
    let key = |number| key(number, patterns);
    let pattern = Glob::new("lock:*").expect("a valid glob");
    let mut table = Table::new(Arc::new(Recogniser::new(vec![pattern], Vec::new(), Vec::new())), Limits::default());
    table.apply(Observation::Watched { node: NODE, source: Source::Notification });
    table.apply(Observation::Swept { node: NODE, started: Time(0) });
    for number in 0..LOCKS {
        let seen = Seen::Present { value: RawValue::string(uuid(number).as_bytes()), ttl: Ttl::In(LEASE) };
        let (asked, answered) = (Time(1_000), Time(1_001));
        table.apply(Observation::Read { node: NODE, key: key(number), asked, answered, seen, source: Source::Scan });
    }
    // A history, so that each lock is compared with its usual hold time.
    for at in (2_000..42_000).step_by(1_000) {
        let again = [KeyEvent::Del, KeyEvent::New, KeyEvent::Set, KeyEvent::Expire];
        events(&mut table, at, (0..LOCKS).step_by(1_000).map(key), &again);
    }
    for beat in 0..BEATS {
        events(&mut table, 45_000 + beat * 10_000, (0..LOCKS).step_by(KINDS).map(key), &[KeyEvent::Expire]);
    }
    for number in (1..LOCKS).step_by(KINDS) {
        let count = (number % 5) as u32;
        let waits = Waits { count, at: WaitsAt::Channel, at_least: false, counted: Time(199_000), dead_heads: None };
        table.apply(Observation::Counted { node: NODE, key: key(number), waits });
    }
    for number in (0..LOCKS).step_by(100) {
        let address = Address::parse(&format!("10.0.0.1:{}", 1_000 + number % 60_000)).expect("an address");
        let spoke = vec![Spoke { token: Token::from(uuid(number).as_bytes()), address, at: Time(150_000) }];
        let sample = Box::new(Sample { spoke, ..Sample::default() });
        table.apply(Observation::Sampled { node: NODE, key: key(number), sample });
    }
    table
}

fn events(table: &mut Table, at: i64, keys: impl Iterator<Item = Key>, what: &[KeyEvent]) {
    let mut batch = EventBatch::new(Time(at));
    for key in keys {
        what.iter().for_each(|event| batch.push(key.as_bytes(), *event));
    }
    table.apply(Observation::Events { node: NODE, batch });
    loop {
        let tickets = table.to_read(NODE, 10_000, Time(at));
        if tickets.is_empty() {
            break;
        }
        for ticket in tickets {
            let number = number(&ticket.key);
            let seen = Seen::Present { value: RawValue::string(uuid(number).as_bytes()), ttl: Ttl::In(LEASE) };
            table.answer(ticket, Time(at), Time(at), seen);
        }
        table.take_transitions();
    }
}

fn key(number: usize, patterns: usize) -> Key {
    // Digits would be folded.
    let pattern: String = (number % patterns).to_string().bytes().map(|digit| (digit - b'0' + b'a') as char).collect();
    Key::from(format!("lock:{pattern}:{number:07}").as_str())
}

fn number(key: &Key) -> usize {
    let digits = &key.as_bytes()[key.as_bytes().len() - 7..];
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).expect("a key of ours")
}
