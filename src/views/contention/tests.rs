//! The contention screen: roots first, unknown is not shown as zero, and a ring is called a deadlock.

use std::time::Duration;

use crate::app::Effect;
use crate::base::time::*;
use crate::engine::{Sampling, Stream};
use crate::lock::*;
use crate::model::*;
use crate::testkit::stage::{NODE, Stage};
use crate::views::part;

use super::name;

fn address(port: u16) -> Address {
    Address::parse(&format!("10.0.3.7:{port}")).unwrap()
}

/// A client that holds the lock by its token, and others that want it, as a burst of MONITOR reports them.
fn sampled(stage: &mut Stage, key: &str, token: &str, holder: u16, wanting: &[u16]) {
    let now = stage.now;
    let contenders = wanting.iter().enumerate().map(|(index, port)| Contender {
        token: None,
        address: Some(address(*port)),
        first: Time(now.0 - 12_000 + 1_000 * index as i64),
        last: now,
        attempts: 40,
        failures: 40,
        won: None,
        passed_over: index as u32 * 3,
        tokens: Tokens::default(),
    });
    let failures = 40 * wanting.len() as u64;
    let tries = Tries {
        attempts: failures + 2,
        failures,
        unjudged: 0,
        unclear: 0,
        looked: Duration::from_secs(6),
        span: Duration::from_secs(60),
        margin_per_s: 1.3,
        from: TriesFrom::Sampled,
        at: now,
    };
    let sample = Sample {
        tries: Some(tries).filter(|_| !wanting.is_empty()),
        contenders: contenders.collect(),
        spoke: vec![Spoke { token: Token::from(token.as_bytes()), address: address(holder), at: now }],
        held: Vec::new(),
        notices: Vec::new(),
    };
    stage.table.apply(Observation::Sampled { node: NODE, key: Key::from(key), sample: Box::new(sample) });
}

/// One client waits for the sale and holds an order that two others wait for; one lock is only known to be accessed.
fn busy() -> Stage {
    let mut stage = Stage::new();
    stage.acquire("flash-sale-lock", "7be0f1aa44", 10_000);
    stage.acquire_redisson("orders-lock:4411", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
    stage.acquire("lock:invoice:17", "9c1e", 20_000);
    stage.acquire("lock:cart:991", "quiet", 20_000);
    stage.pass(2_000);
    sampled(&mut stage, "flash-sale-lock", "7be0f1aa44", 5001, &[5002, 5003, 5004]);
    sampled(&mut stage, "orders-lock:4411", "3f2a8c00-1111-4222-8333-444455556666:57", 5002, &[]);
    let waits = Waits { count: 2, at: WaitsAt::Channel, at_least: false, dead_heads: None, counted: stage.now };
    stage.table.apply(Observation::Counted { node: NODE, key: Key::from("orders-lock:4411"), waits });
    // Accessed several times, by an unknown client.
    for _ in 0..3 {
        stage.table.apply(Observation::Idle { node: NODE, key: Key::from("lock:invoice:17"), since: stage.now });
        stage.pass(1_600);
    }
    stage
}

#[test]
fn the_root_comes_first_and_below_it_what_is_stuck_behind_it() {
    let mut stage = busy();
    stage.press("2");
    assert_eq!(stage.rows(), ["flash-sale-lock", "orders-lock:4411", "lock:invoice:17"], "nobody wants the others");
    for (width, height) in [(80, 24), (140, 40)] {
        stage.resize(width, height);
        insta::assert_snapshot!(format!("contention_at_{width}x{height}"), stage.screen());
    }
    stage.press("j");
    assert!(stage.screen().contains("its holder waits for flash-sale-lock"), "{}", stage.screen());
}

#[test]
fn what_is_not_known_is_not_zero() {
    let mut stage = busy();
    stage.resize(100, 30);
    stage.press("2 j j");
    let screen = stage.screen();
    assert!(screen.contains("somebody reads it, and may poll for it (last "), "{screen}");
    let row = screen.lines().find(|line| line.contains("lock:invoice:17")).unwrap();
    assert!(row.trim_end().ends_with('?'), "{row}");
}

#[test]
fn holders_that_wait_for_each_other_are_a_deadlock() {
    let mut stage = Stage::new();
    for (key, token, holder, wanting) in [("lock:a", "a", 1001, 1002), ("lock:b", "b", 1002, 1001)] {
        stage.acquire(key, token, 30_000);
        sampled(&mut stage, key, token, holder, &[wanting]);
    }
    stage.press("2");
    let screen = stage.screen();
    assert!(screen.contains("deadlock suspected") && screen.contains("lock:a, lock:b, lock:a"), "{screen}");
    stage.release("lock:a");
    stage.pass(3_000);
    assert!(!stage.screen().contains("deadlock"), "{}", stage.screen());
}

#[test]
fn a_calm_system_has_an_empty_screen_that_says_so() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "a", 30_000);
    stage.press("2");
    assert!(stage.screen().contains("Nobody waits for a lock"), "{}", stage.screen());
    stage.press("1");
    assert_eq!(stage.rows(), ["lock:a"]);
}

#[test]
fn a_screen_that_can_not_see_says_so_instead_of_nobody() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "a", 30_000);
    stage.press("2 M M");
    assert!(!stage.notice().contains("runs"), "it was only asked for: {}", stage.notice());
    stage.node.sampling = Some(Sampling::Refused("this user may not run MONITOR".into()));
    stage.node.stream = Stream::Live(Source::Scan);
    stage.pass(1_000);
    let screen = stage.screen();
    assert!(screen.contains("MONITOR does not run on 10.0.3.7:6379"), "{screen}");
    assert!(screen.contains("this user may not run MONITOR"), "{screen}");
    assert!(screen.contains("Notifications of 10.0.3.7:6379 are not followed"), "{screen}");
}

#[test]
fn the_same_lock_stays_selected_on_both_lists() {
    let mut stage = busy();
    stage.press("2 j 1");
    assert_eq!(stage.selected().as_deref(), Some("orders-lock:4411"));
    stage.press("2 x");
    assert!(!stage.notice().is_empty(), "read-only says so here too");
    stage.press("s");
    assert!(stage.notice().contains("list of locks"), "{}", stage.notice());
}

#[test]
fn nobody_is_named_in_a_picture_to_send() {
    let mut stage = busy();
    stage.resize(140, 40);
    stage.press("2 P");
    let screen = stage.screen();
    assert!(!screen.contains("10.0.3.7:50") && !screen.contains("7be0"), "{screen}");
}

#[test]
fn monitor_runs_only_after_its_price_was_told() {
    let mut stage = busy();
    stage.press("2");
    assert_eq!(stage.press("M"), []);
    assert!(stage.notice().contains("slows a busy server"), "{}", stage.notice());
    assert!(stage.notice().len() <= 79, "it fits the narrowest screen");
    stage.pass(5_000);
    assert_eq!(stage.press("M"), [], "that was long ago");
    assert_eq!(stage.press("M"), [Effect::Sample(true)]);
    assert_eq!(stage.press("M"), [Effect::Sample(false)]);
}

#[test]
fn a_contender_is_named_by_its_token_and_its_address_as_the_command_does() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "worker-1", 60_000);
    stage.compose();
    let contender = |token: Option<&str>| Contender {
        token: token.map(|token| crate::lock::Token::from(token.as_bytes())),
        address: crate::model::Address::parse("10.0.3.7:51322"),
        first: stage.now,
        last: stage.now,
        attempts: 4,
        failures: 4,
        won: None,
        passed_over: 0,
        tokens: Default::default(),
    };
    let both = name(&stage.app, &contender(Some("worker-9")));
    assert_eq!(both, "worker-9 10.0.3.7:51322");
    assert_eq!(name(&stage.app, &contender(None)), "10.0.3.7:51322");
    stage.app.display.private = true;
    assert_eq!(name(&stage.app, &contender(Some("worker-9"))), part::HIDDEN);
}

#[test]
fn attempts_of_unknown_outcome_are_neither_zero_failures_nor_given_up() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "worker-1", 60_000);
    stage.compose();
    let contender = Contender {
        token: None,
        address: Some(address(5_002)),
        first: Time(stage.now.0 - 60_000),
        last: Time(stage.now.0 - 40_000),
        attempts: 9,
        failures: 0,
        won: None,
        passed_over: 0,
        tokens: Tokens::default(),
    };
    let line = super::one(&stage.app, &contender, "10.0.3.7:5002", 80).to_string();
    assert!(line.contains("tried 40.0s ago") && line.contains("9 tries, how many failed is not known"), "{line}");
    let refused = Contender { failures: 9, ..contender };
    let line = super::one(&stage.app, &refused, "10.0.3.7:5002", 80).to_string();
    assert!(line.contains("gave up") && line.contains("9 tries, 9 failed"), "{line}");
}

#[test]
fn rows_out_of_sight_are_told_and_the_room_is_used() {
    let mut stage = Stage::new();
    for number in 0..30 {
        let key = format!("lock:{number:02}");
        stage.acquire(&key, "holder", 30_000);
        stage.want(&key, 1);
    }
    stage.resize(80, 24);
    stage.press("2");
    let screen = stage.screen();
    let rows = screen.lines().filter(|line| line.contains("lock:") && line.contains("holder")).count();
    assert!(rows >= 12, "{rows} rows\n{screen}");
    assert!(screen.contains(&format!(" 1 of 30, {} below", 30 - rows)), "{screen}");
    stage.press("G");
    let screen = stage.screen();
    assert!(screen.contains(&format!(" 30 of 30, {} above", 30 - rows)), "{screen}");
}
