//! The tree of each kind of verdict: which question decides, what speaks for and against, and what is missing.

use std::time::Duration;

use super::*;
use crate::base::time::Ttl;
use crate::model::{
    Connection, Finding, Hold, Life, Liveness, LockView, MatchedBy, Presence, RenewalView, RenewedBy, Source, Tries,
    TriesFrom, Verdict, WaitsAt,
};
use crate::testkit::sample;

fn judged(state: State, confidence: f32, sentence: &str) -> LockView {
    let verdict = Verdict { state, evidence: vec![sentence.into()], confidence };
    LockView { verdict, liveness: None, ..sample::redisson() }
}

fn of(lock: &LockView, about: About) -> Question {
    Why::of(lock).questions.into_iter().find(|question| question.about == about).expect("the question")
}

/// What is said for and against, in that order.
fn said(question: &Question) -> (Vec<String>, Vec<String>) {
    let all = |says| question.evidence.iter().filter(move |one| one.says == says).map(|one| one.fact.sentence());
    (all(Says::For).collect(), all(Says::Against).collect())
}

fn silent_for(missed: u64) -> Option<RenewalView> {
    sample::redisson().renewals.map(|view| RenewalView { missed: Some(missed), last_ms: Some(32_000), ..view })
}

fn connection(closed_ago: Option<i64>) -> Connection {
    let at = sample::redisson().at.0;
    let closed = closed_ago.map(|ago| Time(at - ago));
    Connection { id: Some(7), closed, ..Connection::new(Address::parse("10.0.3.7:51322").unwrap(), Time(at)) }
}

#[test]
fn one_question_decides_each_state() {
    for (state, about) in [
        (State::Split, About::Second),
        (State::Orphan, About::Lives),
        (State::Stalled, About::Lives),
        (State::NoTtl, About::Ends),
        (State::Expiring, About::Ends),
        (State::Contended, About::Wanted),
        (State::Long, About::Long),
        (State::Held, About::Held),
        (State::Test, About::Held),
        (State::Done, About::Held),
        (State::Free, About::Held),
    ] {
        let why = Why::of(&judged(state, 0.9, "because"));
        let deciding: Vec<About> =
            why.questions.iter().filter(|question| question.decides).map(|question| question.about).collect();
        assert_eq!(deciding, [about], "{state:?}");
        assert_eq!((why.state, why.certainty), (state, Certainty::Likely));
        assert!(why.questions.len() <= 7 && why.questions[0].about == About::Held, "{why:?}");
    }
}

#[test]
fn a_lock_that_is_renewed_has_a_holder_that_lives() {
    let lives = of(&judged(State::Held, 1.0, ""), About::Lives);
    assert_eq!((lives.answer, lives.certainty), (Answer::Yes, Some(Certainty::Likely)));
    assert_eq!(said(&lives).0, ["renewed 4 times every 10.0s, last 1.8s ago"]);
    let renewed = &lives.evidence[0];
    assert_eq!((renewed.by, renewed.at), (By::Notification, Some(Time(sample::redisson().at.0 - 1_860))));
    assert_eq!(lives.missing, [Missing::Client], "who it is, is not known yet");
}

#[test]
fn an_orphan_is_told_by_what_is_silent_and_what_is_closed() {
    let mut lock = LockView { renewals: silent_for(3), ..judged(State::Orphan, 0.97, "closed") };
    lock.presence = vec![Presence::Closed { connection: connection(Some(31_000)), like_it: Some(true) }];
    let lives = of(&lock, About::Lives);
    assert_eq!((lives.answer, lives.certainty), (Answer::No, Some(Certainty::Certain)));
    let (for_it, against) = said(&lives);
    let closed = "its client's connection 10.0.3.7:51322 closed 31.0s ago";
    assert_eq!(against, ["3 renewals are missing: silent for 32.0s", closed]);
    assert_eq!(for_it, ["others like its client are connected: one of them may be its own"]);
    let closing = lives.evidence.iter().find(|one| one.by == By::ClientList).unwrap();
    assert_eq!(closing.at, Some(Time(lock.at.0 - 31_000)));
    assert_eq!(lives.missing, []);
}

#[test]
fn a_gone_holder_without_a_fact_of_its_own_is_told_by_the_verdict() {
    let lock = LockView { renewals: None, ..judged(State::Orphan, 0.75, "all of its 2 holders are gone") };
    assert_eq!(said(&of(&lock, About::Lives)).1, ["all of its 2 holders are gone"]);
}

#[test]
fn at_the_first_look_it_is_not_known_whether_its_holder_lives() {
    let liveness =
        Liveness { is: Life::Unknown, confidence: None, signs: Vec::new(), settle: None, watch_ms: Some(10_000) };
    let lock = LockView { renewals: None, liveness: Some(liveness), ..judged(State::Held, 1.0, "") };
    let lives = of(&lock, About::Lives);
    assert_eq!((lives.answer, lives.certainty), (Answer::NotKnown, None));
    assert_eq!(lives.missing, [Missing::Renewals { watch_ms: Some(10_000) }, Missing::Client]);
    assert_eq!(
        lives.missing[0].settle(&Monitor::Runs),
        "watch it for 10.0s, until renewed or late (--observe, or the console)"
    );
    assert_eq!(of(&lock, About::Held).certainty, Some(Certainty::Certain), "that it is held is still certain");
    let fixed = LockView { dialect: "redis-py", liveness: None, ..lock };
    assert_eq!(of(&fixed, About::Lives).missing[0], Missing::Renewals { watch_ms: None });
}

#[test]
fn a_stalled_lock_is_not_called_dead() {
    let stalled = LockView { renewals: silent_for(1), ..judged(State::Stalled, 1.0, "renewed until") };
    let lives = of(&stalled, About::Lives);
    assert!(lives.answer == Answer::NotKnown && lives.certainty.is_none() && lives.decides, "{lives:?}");
    assert_eq!(said(&lives).1, ["1 renewal is missing: silent for 32.0s"]);
    let connected = vec![Presence::Connected { by: MatchedBy::Token, connection: connection(None), more: 0 }];
    let lives = of(&LockView { presence: connected, ..stalled }, About::Lives);
    assert_eq!((lives.answer, said(&lives).0), (Answer::Yes, vec!["its client 10.0.3.7:51322 is connected".into()]));
}

#[test]
fn an_end_that_never_comes_is_told_as_such() {
    let lock = LockView { ttl: Ttl::Never, ..judged(State::NoTtl, 1.0, "it has no TTL") };
    let ends = of(&lock, About::Ends);
    assert_eq!((ends.answer, said(&ends).1), (Answer::No, vec!["it has no TTL".into()]));
    let ends = of(&LockView { ttl: Ttl::In(Duration::from_secs(8)), ..lock }, About::Ends);
    assert_eq!(said(&ends).0, ["its TTL ends in 8.0s (lease 30.0s)"]);
    assert!(said(&ends).1[0].starts_with("each renewal extends it"), "{ends:?}");
}

#[test]
fn a_lock_that_is_gone_is_told_by_how_it_ended() {
    let why = Why::of(&judged(State::Free, 1.0, "released 1.0s ago"));
    assert_eq!(why.questions.iter().map(|question| question.about).collect::<Vec<_>>(), [About::Held, About::Library]);
    let held = &why.questions[0];
    assert_eq!((held.answer, said(held).1), (Answer::No, vec!["its last hold ended: released after 5.0s".into()]));
    let unseen = Hold { ending: Ending::Unseen, ..sample::redisson().past[0].clone() };
    let held = of(&LockView { past: vec![unseen], ..judged(State::Free, 1.0, "") }, About::Held);
    assert_eq!(held.evidence[0].by, By::Read, "no event told of it");
    let vacant = of(&LockView { past: Vec::new(), ..judged(State::Free, 1.0, "nobody holds it") }, About::Held);
    assert_eq!(said(&vacant).1, ["its key exists, but nobody holds it"]);
}

#[test]
fn who_wants_it_is_known_only_where_somebody_counted() {
    let lock = judged(State::Held, 1.0, "");
    let wanted = of(&lock, About::Wanted);
    assert_eq!((wanted.answer, wanted.missing), (Answer::NotKnown, vec![Missing::Waiters, Missing::Attempts]));
    let waits = |count, at| Waits { count, at, at_least: false, dead_heads: None, counted: lock.at };
    let counted = |waits: Waits| {
        let mut lock = LockView { waits: Some(waits), ..lock.clone() };
        lock.demand.waiting = if waits.is_at_most() { 0 } else { waits.count };
        lock.demand.polled = waits.is_at_most();
        of(&lock, About::Wanted)
    };
    assert_eq!(counted(waits(0, WaitsAt::Channel)).answer, Answer::No);
    let queued = counted(waits(2, WaitsAt::Queue));
    assert_eq!((queued.answer, said(&queued).0), (Answer::Yes, vec!["2 waiters are in its queue".into()]));
    assert_eq!(counted(waits(6, WaitsAt::Blocked)).answer, Answer::NotKnown, "perhaps nobody of them waits for it");
    let (looked, span) = (Duration::from_secs(1), Duration::from_secs(10));
    let (attempts, failures, unjudged, unclear) = (10, 4, 0, 0);
    let (margin_per_s, from, at) = (1.0, TriesFrom::Sampled, lock.at);
    let tries = Tries { attempts, failures, unjudged, unclear, looked, span, margin_per_s, from, at };
    let sampled = of(&LockView { tries: Some(tries), ..lock }, About::Wanted);
    assert_eq!(said(&sampled).0, ["4.0 of 10.0 attempts a second fail"]);
    assert_eq!(sampled.missing, [Missing::Waiters]);
}

#[test]
fn findings_stand_with_the_question_that_they_belong_to() {
    let finding = Finding {
        name: "orphan-suspected",
        sentence: "held for 11m40s without a TTL: its holder may be gone".into(),
        confidence: 0.5,
        settle: Some("sample with MONITOR: it shows it".into()),
    };
    let lock = LockView { findings: vec![finding], renewals: None, ..judged(State::NoTtl, 1.0, "") };
    let lives = of(&lock, About::Lives);
    let told = "orphan-suspected: held for 11m40s without a TTL: its holder may be gone (guess)";
    assert_eq!(said(&lives).1, [told]);
    assert!(lives.missing.contains(&Missing::Said("sample with MONITOR: it shows it".into())), "{lives:?}");
}

#[test]
fn without_events_it_is_said_that_renewals_may_be_missed() {
    let lives = of(&LockView { source: Source::Scan, ..judged(State::Held, 1.0, "") }, About::Lives);
    assert!(lives.missing.contains(&Missing::Events) && lives.evidence[0].by == By::Polling, "{lives:?}");
}

#[test]
fn the_signs_of_a_first_look_are_told_once() {
    let silent =
        Sign::Silent { for_ms: 20_000, period_ms: 10_000, renewed: RenewedBy::Library, lease_of_others: false };
    let liveness =
        |signs| Some(Liveness { is: Life::Suspected, confidence: Some(0.6), signs, settle: None, watch_ms: None });
    let first = LockView { renewals: None, ..judged(State::Held, 1.0, "") };
    let lives = of(&LockView { liveness: liveness(vec![silent, Sign::Absent]), ..first.clone() }, About::Lives);
    assert_eq!((lives.answer, said(&lives).1), (Answer::NotKnown, vec![silent.sentence(), Sign::Absent.sentence()]));
    let watched = LockView { renewals: silent_for(2), liveness: liveness(vec![silent]), ..first };
    assert_eq!(said(&of(&watched, About::Lives)).1, ["2 renewals are missing: silent for 32.0s"]);
}

#[test]
fn a_lock_of_a_thousand_holders_makes_a_small_tree() {
    let presence = Presence::Connected { by: MatchedBy::Token, connection: connection(None), more: 0 };
    let lock = LockView { presence: vec![presence; 1_000], ..judged(State::Held, 1.0, "") };
    let facts: usize = Why::of(&lock).questions.iter().map(|question| question.evidence.len()).sum();
    assert!(facts < 40, "{facts}");
}

#[test]
fn a_guessed_library_says_how_to_settle_it() {
    let library = of(&sample::forever(), About::Library);
    assert_eq!((library.answer, library.missing.as_slice()), (Answer::NotKnown, &[Missing::Library][..]));
    assert_eq!(said(&library).1, ["its library could also be redsync"]);
}

#[test]
fn a_client_that_got_the_lock_is_nobody_who_tries_for_it() {
    let mut lock = sample::redisson();
    let contender = |won, failures, port: u16| crate::model::Contender {
        token: None,
        address: crate::model::Address::parse(&format!("10.0.0.1:{port}")),
        first: lock.at,
        last: lock.at,
        attempts: 1,
        failures,
        won,
        passed_over: 0,
        tokens: Default::default(),
    };
    lock.contenders = vec![contender(Some(lock.at), 0, 7)];
    let tried = |lock: &LockView| {
        let wanted = Why::of(lock).questions.into_iter().find(|one| one.about == About::Wanted).unwrap();
        wanted.evidence.iter().any(|one| matches!(one.fact, Fact::Contenders(_)))
    };
    assert!(!tried(&lock), "it holds it");
    let refused = contender(None, 1, 8);
    lock.contenders.push(refused);
    assert!(tried(&lock));
}

#[test]
fn nobody_is_told_to_start_a_monitor_that_runs() {
    let said = Missing::Client;
    assert_eq!(said.settle(&Monitor::Runs), "MONITOR runs already: it shows the client at its next command");
    assert_eq!(
        said.settle(&Monitor::Key("M".into())),
        "sample with MONITOR (M): it shows the client at its next command"
    );
    assert!(said.settle(&Monitor::Command(" -t prod".into())).contains("('lockscope contention --monitor -t prod')"));
}
