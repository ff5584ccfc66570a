//! Sample locks for unit tests.

use std::time::Duration;

use crate::base::time::*;
use crate::lock::*;
use crate::model::*;
use crate::server::Fact;
use crate::sources::inspect::{Belonging, Inspection};
use crate::sources::waiters::{Count, Counted, Waiter, Waiters};

/// A Redisson lock whose acquire and four renewals were seen.
pub fn redisson() -> LockView {
    let mut holder = Holder::new(b"3f2a8c00-1111-4222-8333-444455556666:57");
    holder.thread = Some("57".into());
    holder.count = Some(2);
    LockView {
        space: crate::lock::KeyspaceId::FIRST,
        node: NodeId(0),
        clustered: false,
        key: Key::from("lock:order:8841"),
        kind: Kind::Lock,
        type_name: "hash".into(),
        dialect: "redisson",
        dialect_confidence: 0.97,
        second_choice: None,
        mode: Mode::Exclusive,
        verdict: Verdict { state: State::Held, evidence: Vec::new(), confidence: 0.97 },
        lost: None,
        liveness: Some(Liveness {
            is: Life::Lives,
            confidence: Some(0.95),
            signs: vec![Sign::Renewed { ago_ms: 1_860 }],
            settle: None,
            watch_ms: None,
        }),
        holders: vec![holder],
        ttl: Ttl::In(Duration::from_millis(8_140)),
        lease_ms: Some(30_000),
        lease_is: Some(HeldIs::Exact),
        held_ms: Some(842_000),
        held_is: Some(HeldIs::Exact),
        waits: None,
        blocked: Vec::new(),
        tries: None,
        wanted: None,
        demand: Demand::default(),
        contenders: Vec::new(),
        connection: None,
        presence: Vec::new(),
        notices: Vec::new(),
        findings: Vec::new(),
        beats: Vec::new(),
        renewals: Some(RenewalView {
            count: 4,
            last_ms: Some(1_860),
            period_ms: Some(10_000),
            expected_ms: Some(10_000),
            missed: Some(0),
            jitter_ms: Some(200),
            due_in_ms: Some(3_100),
        }),
        fencing_token: None,
        related: None,
        value: RawValue::hash([(&b"3f2a8c00-1111-4222-8333-444455556666:57"[..], &b"2"[..])]),
        proof: Proof::default(),
        past: vec![Hold {
            holder: Some(Token::from(&b"older:1"[..])),
            since: Time(1_790_000_000_000),
            exact: true,
            until: Time(1_790_000_005_000),
            ending: Ending::Released,
            renewals: 0,
            forced: None,
        }],
        usual: None,
        confirmed: Time(1_790_000_900_000),
        stale: false,
        source: Source::Notification,
        at: Time(1_790_000_900_000),
    }
}

/// A string of an unknown library that never expires, with bytes in its key and value that no terminal should see.
pub fn forever() -> LockView {
    let mut holder = Holder::new(b"worker-7\x1b[2J");
    holder.host = Some("10.0.3.7".into());
    holder.pid = Some(4242);
    let ttl = Ttl::Never;
    LockView {
        key: Key::from(&b"job-lock:\xff\n"[..]),
        type_name: "string".into(),
        dialect: "plain",
        dialect_confidence: 0.45,
        second_choice: Some(("redsync", 0.4)),
        verdict: Verdict {
            state: State::NoTtl,
            evidence: vec!["it has no TTL: if its holder died, it stays until somebody frees it".into()],
            confidence: 1.0,
        },
        holders: vec![holder],
        ttl,
        lease_ms: None,
        lease_is: None,
        held_ms: Some(60_000),
        held_is: Some(HeldIs::AtLeast),
        renewals: None,
        value: RawValue::string(b"worker-7\x1b[2J"),
        past: Vec::new(),
        source: Source::Scan,
        ..redisson()
    }
}

/// A lock about which hardly anything is known.
pub fn unknown() -> LockView {
    LockView {
        key: Key::from("锁:cart"),
        holders: Vec::new(),
        held_ms: None,
        held_is: None,
        lease_ms: None,
        lease_is: None,
        renewals: None,
        past: Vec::new(),
        ..redisson()
    }
}

/// The details of [`redisson`]: a fair queue with a dead head, and a key that may not be read.
pub fn inspection() -> Inspection {
    let waiter =
        |id: &[u8], left_ms, listens| Waiter { id: id.into(), left_ms: Some(left_ms), listens: Fact::Known(listens) };
    let queue = "redisson_lock_queue:{lock:order:8841}";
    let lock = redisson();
    let belonging = |key: &str, value, ttl| Belonging { key: Key::from(key), value, ttl };
    Inspection {
        at: lock.confirmed,
        waiters: Waiters {
            count: Count::Exactly(2),
            counted: Some(Counted::Queue),
            on: Some(queue.into()),
            note: None,
            queue: vec![
                waiter(b"9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9", 180_000, false),
                waiter(b"\xff", 480_000, true),
            ],
            blocked: Vec::new(),
        },
        keys: vec![
            belonging("lock:order:8841", lock.value, Some(lock.ttl)),
            belonging(queue, RawValue::List { len: 2 }, Some(Ttl::Never)),
            belonging("redisson_lock_token:{lock:order:8841}", RawValue::unread("unknown", "NOPERM"), None),
        ],
        left_out: 0,
        failed: None,
    }
}
