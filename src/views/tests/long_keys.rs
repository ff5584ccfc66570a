//! The list with long keys at common widths, with the styles: the colours of states, gauges and rows that changed.

use insta::assert_snapshot;

use crate::testkit::stage::{Stage, painted};

const HOLDER: &str = "3f2a8c00-1111-4222-8333-444455556666:57";

/// Long names that differ in one place, of two libraries, in trouble and out of it, wanted and not.
fn long_keys() -> Stage {
    let mut stage = Stage::new();
    let name = |tenant: u32| format!("lock:production:eu-west-1:orders-service:tenant:{tenant:04}:invoice");
    stage.acquire("lock:production:eu-west-1:billing:nightly-settlement-run", "worker-7", None);
    for tenant in [1, 2, 12] {
        stage.acquire_redisson(&name(tenant), HOLDER, 30_000);
    }
    for _ in 0..4 {
        stage.pass(10_000);
        for tenant in [1, 2, 12] {
            stage.renew(&name(tenant), 30_000);
        }
        stage.compose();
    }
    stage.pass(10_000);
    stage.renew(&name(12), 30_000);
    stage.acquire("lock:production:eu-west-1:carts:991", "7be0c1d2e3f4a5b6c7d8e9f00112233445566744", 100_000);
    stage.pass(10_000);
    stage.compose();
    // One is well again, and one of the others will be lost in a moment.
    stage.renew(&name(12), 30_000);
    stage.renew(&name(1), 30_000);
    stage.want(&name(12), 2);
    stage.pass(8_500);
    stage.compose();
    stage
}

fn at(width: u16) -> String {
    let mut stage = long_keys();
    stage.resize(width, 24);
    stage.press("G");
    painted(&stage.draw())
}

#[test]
fn long_keys_at_80() {
    assert_snapshot!(at(80));
}

#[test]
fn long_keys_at_96() {
    assert_snapshot!(at(96));
}

#[test]
fn long_keys_at_100() {
    assert_snapshot!(at(100));
}

#[test]
fn long_keys_at_120() {
    assert_snapshot!(at(120));
}

#[test]
fn long_keys_at_140() {
    assert_snapshot!(at(140));
}

/// On the screens of contention, of what mattered and of all events, each row is told from the others, too.
#[test]
fn every_list_keeps_what_differs_between_long_keys() {
    let tenants = [1, 2, 12, 13];
    let name = |tenant: u32| format!("lock:production:eu-west-1:orders-service:tenant:{tenant:04}:invoice");
    let mut stage = Stage::new();
    for tenant in tenants {
        stage.acquire_redisson(&name(tenant), HOLDER, 30_000);
    }
    for _ in 0..4 {
        stage.pass(10_000);
        for tenant in tenants {
            stage.renew(&name(tenant), 30_000);
        }
    }
    for _ in 0..18 {
        stage.pass(1_000);
    }
    for tenant in tenants {
        stage.want(&name(tenant), 2);
    }
    for (keys, title) in [("2", "FAIL/S"), ("3", "UTC"), ("v", "TIME (UTC)")] {
        stage.press(keys);
        for width in [60, 70, 80, 100, 120, 140] {
            stage.resize(width, 24);
            let screen = stage.screen();
            assert!(screen.contains(title), "{screen}");
            // What is told of the selected one below has its whole name.
            let list = screen.split("───").next().unwrap_or_default();
            for tenant in tenants {
                assert!(list.contains(&format!("{tenant:04}")), "{tenant} at {width}\n{screen}");
            }
        }
    }
}

#[test]
fn a_key_that_is_cut_in_the_list_is_whole_below_it() {
    let mut stage = long_keys();
    stage.resize(80, 24);
    let key = stage.selected().unwrap();
    let screen = stage.screen();
    assert!(key.len() > 50 && screen.contains(&key), "{key}\n{screen}");
    stage.press("3");
    let screen = stage.screen();
    assert!(
        screen.lines().any(|line| line.starts_with(" lock:production:eu-west-1:orders-service:tenant:")),
        "{screen}"
    );
}
