//! One advice for every lock: each branch, and what no line may ever say.

use std::time::Duration;

use super::*;
use crate::base::time::{Time, Ttl};
use crate::lock::{Holder, Key, RawValue};
use crate::model::{Address, Connection, Finding, Liveness, MatchedBy, RenewalView, Sign, Verdict, Waits, WaitsAt};
use crate::testkit::sample;

fn judged(state: State, confidence: f32) -> LockView {
    let verdict = Verdict { state, evidence: Vec::new(), confidence };
    LockView { verdict, ttl: left(300_000), liveness: None, ..sample::redisson() }
}

/// Seen for the first time: nothing of its renewals is known.
fn first_look(state: State) -> LockView {
    LockView { renewals: None, ..judged(state, 1.0) }
}

/// A renewal would come within 10 seconds, or stay away.
fn watched(lock: LockView) -> LockView {
    let (is, confidence, signs, settle) = (Life::Unknown, None, Vec::new(), None);
    LockView { liveness: Some(Liveness { is, confidence, signs, settle, watch_ms: Some(10_000) }), ..lock }
}

fn left(ms: u64) -> Ttl {
    Ttl::In(Duration::from_millis(ms))
}

fn renewals(missed: u64) -> Option<RenewalView> {
    sample::redisson().renewals.map(|view| RenewalView { missed: Some(missed), last_ms: Some(32_000), ..view })
}

fn connected() -> Vec<Presence> {
    let address = Address::parse("10.0.3.7:51322").unwrap();
    let connection = Connection { id: Some(7), ..Connection::new(address, Time(0)) };
    vec![Presence::Connected { by: MatchedBy::Token, connection, more: 0 }]
}

fn of_library(dialect: &'static str, lock: LockView) -> LockView {
    LockView { dialect, dialect_confidence: 0.95, value: RawValue::string(b"token"), ..lock }
}

#[test]
fn each_state_of_a_lock_has_the_advice_that_follows_from_it() {
    use Because::*;
    let wait = |ms, unless_renewed| Advice::Wait { ms, unless_renewed };
    let settle = |watch_ms| Advice::Settle { watch_ms };
    let dead_share =
        |confidence| vec![Finding { name: "dead-holder", sentence: String::new(), confidence, settle: None }];
    let permit = LockView { mode: Mode::Permit, holders: Vec::new(), ..judged(State::Held, 1.0) };
    let own_end = vec![Holder { until: Some(Time(1)), ..Holder::new(b"a") }];
    let cases: Vec<(&str, LockView, Advice)> = vec![
        ("nobody holds it", judged(State::Free, 1.0), Advice::NothingToFree),
        ("a marker", judged(State::Done, 1.0), Advice::Leave(Stays::Marker)),
        ("a test lock", judged(State::Test, 1.0), Advice::Leave(Stays::Test)),
        ("not confirmed", LockView { stale: true, ..judged(State::Orphan, 0.97) }, Advice::LookAgain),
        ("two at work", judged(State::Split, 0.9), Advice::AskOwner(TwoAtWork)),
        ("a counter", permit, Advice::GivePermitsBack),
        ("BullMQ", of_library("bullmq", judged(State::Orphan, 0.97)), Advice::Never),
        ("a job's lease", of_library("shedlock", first_look(State::Held)), Advice::Leave(Stays::OnPurpose)),
        (
            "a job's lease at its end",
            LockView { ttl: left(6_000), ..of_library("shedlock", first_look(State::Held)) },
            wait(6_000, false),
        ),
        (
            "a job's lock for ever",
            LockView { ttl: Ttl::Never, ..of_library("celery-singleton", first_look(State::NoTtl)) },
            Advice::AskOwner(NotShown),
        ),
        ("its holder is gone", judged(State::Orphan, 0.97), Advice::Free),
        ("likely gone", judged(State::Orphan, 0.75), Advice::Free),
        ("gone, without an end", LockView { ttl: Ttl::Never, ..judged(State::Orphan, 0.85) }, Advice::Free),
        ("gone, and nearly over", LockView { ttl: left(6_000), ..judged(State::Orphan, 0.97) }, wait(6_000, false)),
        ("perhaps gone", watched(judged(State::Orphan, 0.7)), settle(Some(10_000))),
        ("perhaps gone, without an end", LockView { ttl: Ttl::Never, ..judged(State::Orphan, 0.7) }, Advice::GiveTtl),
        (
            "one of several is gone",
            LockView { findings: dead_share(0.8), ..judged(State::Held, 1.0) },
            Advice::FreeShare,
        ),
        (
            "one of several may be gone",
            LockView { findings: dead_share(0.6), ..judged(State::Held, 1.0) },
            Advice::AskOwner(Renewing),
        ),
        ("renewed", judged(State::Held, 1.0), Advice::AskOwner(Renewing)),
        ("renewed, and wanted", judged(State::Contended, 1.0), Advice::AskOwner(Renewing)),
        ("renewed for long", judged(State::Long, 0.9), Advice::AskOwner(Renewing)),
        ("connected", LockView { presence: connected(), ..first_look(State::Held) }, Advice::AskOwner(Connected)),
        (
            "stalled, but connected",
            LockView { presence: connected(), renewals: renewals(2), ..judged(State::Stalled, 1.0) },
            Advice::AskOwner(Connected),
        ),
        ("without an end", LockView { ttl: Ttl::Never, ..first_look(State::NoTtl) }, Advice::GiveTtl),
        (
            "without an end that would free it",
            LockView {
                ttl: Ttl::Never,
                value: RawValue::hash([(&b"huey.lock.a"[..], &b"1"[..])]),
                ..of_library("huey", first_look(State::NoTtl))
            },
            Advice::AskOwner(NotShown),
        ),
        (
            "holders with ends of their own",
            LockView { ttl: Ttl::Never, holders: own_end, ..first_look(State::NoTtl) },
            Advice::AskOwner(NotShown),
        ),
        (
            "stalled",
            LockView { renewals: renewals(1), ttl: left(8_000), ..judged(State::Stalled, 1.0) },
            wait(8_000, true),
        ),
        (
            "stalled, with time",
            watched(LockView { renewals: renewals(1), ..judged(State::Stalled, 1.0) }),
            settle(Some(10_000)),
        ),
        ("expiring", LockView { ttl: left(6_000), ..first_look(State::Expiring) }, wait(6_000, false)),
        ("at the first look", watched(first_look(State::Held)), settle(Some(10_000))),
        (
            "overdue at the first look",
            LockView { ttl: left(9_000), lease_ms: Some(30_000), ..watched(first_look(State::Held)) },
            wait(9_000, true),
        ),
        (
            "a fixed lease",
            LockView { ttl: left(45_000), ..of_library("redis-py", first_look(State::Held)) },
            wait(45_000, true),
        ),
        ("a long fixed lease", of_library("redis-py", first_look(State::Held)), settle(None)),
        ("no library that is known", LockView { dialect: "none", ..first_look(State::Held) }, settle(None)),
    ];
    for (what, lock, advice) in cases {
        assert_eq!(advise(&lock), advice, "{what}");
    }
}

#[test]
fn the_advice_goes_with_what_is_told_of_the_holder() {
    let told = |is, sign: Sign, lock: LockView| {
        let liveness = Liveness {
            is,
            confidence: Some(sign.confidence()),
            signs: vec![sign],
            settle: None,
            watch_ms: Some(10_000),
        };
        advise(&LockView { liveness: Some(liveness), ..lock })
    };
    let taken = Sign::Taken { ago_ms: 900 };
    assert_eq!(told(Life::Lives, taken, first_look(State::Held)), Advice::AskOwner(Because::JustTaken));
    let suspected = told(Life::Suspected, Sign::Absent, judged(State::Held, 1.0));
    assert_eq!(
        suspected,
        Advice::Settle { watch_ms: Some(10_000) },
        "not \"it is renewing\" beside \"it may be gone\""
    );
    let suspected = told(Life::Suspected, Sign::Absent, first_look(State::Held));
    assert_eq!(suspected, Advice::Settle { watch_ms: Some(10_000) });
    assert_eq!(told(Life::Unknown, taken, first_look(State::Held)), Advice::Settle { watch_ms: Some(10_000) });
}

#[test]
fn a_lock_is_called_safe_only_where_the_evidence_is_certain_or_likely() {
    for state in State::ALL {
        for confidence in [0.0, 0.5, 0.7, 0.74] {
            for ttl in [Ttl::Never, left(300_000)] {
                let lock = LockView { ttl, ..judged(state, confidence) };
                assert_ne!(advise(&lock).answer(), "yes", "{state:?} {confidence}");
            }
        }
    }
}

#[test]
fn the_line_tells_what_is_known_and_what_follows() {
    let waits = Waits { count: 6, at: WaitsAt::Queue, at_least: false, dead_heads: None, counted: Time(0) };
    let address = Address::parse("10.0.3.7:51322").unwrap();
    let mut lock = LockView { renewals: renewals(3), waits: Some(waits), ..judged(State::Orphan, 0.97) };
    let closed = Some(Time(lock.at.0 - 31_000));
    let connection = Connection { closed, ..Connection::new(address, Time(0)) };
    lock.presence = vec![Presence::Closed { connection, like_it: Some(false) }];
    let library = "If its holder lives, its watchdog stops, and its unlock() throws IllegalMonitorStateException.";
    assert_eq!(
        Safe::of(&lock).sentence(),
        format!(
            "yes; free it. ORPHAN (certain), silent for 32.0s (3 missed), client closed 31.0s ago, 6 wait. {library}"
        )
    );
    let line = Safe::of(&judged(State::Held, 1.0)).sentence();
    let known =
        "no; ask the owner: it is renewing. HELD (certain), renewed 1.8s ago, client not known, waiters not known.";
    assert_eq!(line, format!("{known} {library}"));
    assert_eq!(Safe::of(&judged(State::Free, 1.0)).sentence(), "no; nobody holds it.");
}

#[test]
fn what_a_guessed_library_does_is_told_as_a_guess() {
    let line = |dialect, dialect_confidence| {
        Safe::of(&LockView { dialect, dialect_confidence, ..first_look(State::Held) }).if_freed
    };
    assert_eq!(
        line("redlock-net", 0.7),
        "If the library is redlock-net and its holder lives, it creates the key again within half of its lease: stop it first"
    );
    assert_eq!(line("plain", 0.95), "It is not known what its holder would notice");
}

#[test]
fn several_holders_are_told_as_several() {
    let mut presence = connected();
    presence.push(Presence::Absent);
    let lock = LockView { presence, key: Key::from("lock:read"), ..judged(State::Held, 1.0) };
    assert_eq!(Safe::of(&lock).connection, "1 of 2 clients connected");
    let unknown = LockView { presence: vec![Presence::Unknown, Presence::Unknown], ..lock };
    assert_eq!(Safe::of(&unknown).connection, "clients not known");
}

#[test]
fn a_client_that_is_named_elsewhere_is_not_called_unknown() {
    let connection = Connection::new(Address::parse("10.0.3.7:51322").unwrap(), Time(0));
    let at = |by| Presence::Connected { by, connection: connection.clone(), more: 0 };
    let said = |presence| Safe::of(&LockView { presence: vec![presence], ..judged(State::Held, 1.0) }).connection;
    assert_eq!(said(at(MatchedBy::Host)), "its host connected, perhaps by others");
    assert_eq!(said(at(MatchedBy::Token)), "client seen, and not listed yet");
    assert_eq!(said(Presence::Unknown), "client not known");
}

#[test]
fn one_renewal_long_ago_is_no_renewing_holder() {
    let lock = judged(State::Held, 1.0);
    assert!(matches!(Pulse::of(&lock), Pulse::Renews { .. }));
    let words = Safe::of(&watched(lock)).sentence();
    assert!(!words.contains("it is renewing"), "{words}");
}

#[test]
fn who_waits_reads_as_a_clause() {
    assert_eq!(
        [(0, ""), (1, ""), (2, "at least "), (1, "at least ")].map(|(count, bound)| waiting(count, bound)),
        ["nobody waits", "1 waits", "at least 2 wait", "at least 1 waits"]
    );
    let seen = LockView { ..sample::redisson() };
    let proved = crate::model::Proof { waiting: Some("3 wait".into()), ..seen.proof.clone() };
    assert_eq!(Safe::of(&LockView { proof: proved, ..seen }).waiting, "3 wait", "a look just now beats an old count");
}
