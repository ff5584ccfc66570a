//! The groups as they are drawn.

use insta::assert_snapshot;

use crate::testkit::stage::Stage;

const REDISSON: &str = "3f2a8c00-1111-4222-8333-444455556666";

/// Five minutes of buckets of which one loses its TTL, orders that come and go, and waiters.
fn shop() -> Stage {
    let mut stage = Stage::new();
    for bucket in 0..64 {
        stage.acquire(format!("stock:bucket:{bucket}"), "w", (bucket != 17).then_some(6_000_000));
    }
    stage.acquire("lock:nightly", "worker-7", 6_000_000);
    for round in 0..12_u64 {
        for order in 0..(round % 5) {
            stage.acquire_redisson(&format!("lock:order:{}", 8_841 + order), &format!("{REDISSON}:57"), 40_000);
            stage.want(&format!("lock:order:{}", 8_841 + order), 2);
        }
        stage.pass(25_000);
        stage.compose();
        if round < 11 {
            (0..5).for_each(|order| stage.release(format!("lock:order:{}", 8_841 + order)));
        }
    }
    stage.want("lock:order:8841", 2);
    stage.press("b p");
    stage
}

#[test]
fn groups_at_80_and_140_columns() {
    let mut stage = shop();
    assert_snapshot!("groups_at_80x24", stage.screen());
    stage.resize(140, 40);
    assert_snapshot!("groups_at_140x40", stage.screen());
}

#[test]
fn groups_at_60x12_in_ascii() {
    let mut stage = shop();
    stage.app.theme.ascii = true;
    stage.resize(60, 12);
    let small = stage.screen();
    assert!(small.is_ascii() && small.contains("1 NO-TTL: sto"), "{small}");
    stage.resize(140, 24);
    let wide = stage.screen();
    assert!(wide.is_ascii(), "{wide}");
    assert_snapshot!("groups_in_ascii", wide);
}

#[test]
fn holders_at_80_columns() {
    let mut stage = shop();
    stage.press("b o");
    assert_snapshot!("holders_at_80x24", stage.screen());
}

#[test]
fn every_width_shows_whole_rows() {
    let mut stage = shop();
    for width in 60..180 {
        stage.resize(width, 24);
        let screen = stage.screen();
        let row = screen.lines().find(|line| line.contains("stock:bucket:*")).unwrap();
        assert!(row.contains("1 NO-TTL: sto") && row.contains(":17 "), "{width}: {screen}");
        assert!(width < 80 || row.contains("▇▇▇▇▇▇▇▇▇▇"), "{width}: {screen}");
    }
}
