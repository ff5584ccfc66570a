//! The alerts as they are drawn.

use insta::assert_snapshot;

use crate::alerts::Rules;
use crate::testkit::stage::Stage;

/// The default rules over twelve minutes: a lock without a TTL, one that is contended, and an orphan in the making.
fn shop() -> Stage {
    let mut stage = Stage::new();
    stage.app.watch_rules(Rules::default_rules());
    stage.acquire("lock:nightly", "worker-7", None);
    stage.acquire_redisson("lock:order:8841", "3f2a8c00-1111-4222-8333-444455556666:57", 600_000);
    for second in 0..720 {
        stage.pass(1_000);
        if second % 10 == 0 {
            stage.want("lock:order:8841", 6);
            stage.renew("lock:order:8841", 600_000);
        }
        stage.measure();
    }
    stage.acquire_redisson("lock:order:8842", "3f2a8c00-1111-4222-8333-444455556666:58", 30_000);
    stage.pass(3_000);
    stage.measure();
    stage.press("4");
    stage
}

#[test]
fn alerts_at_80x24_and_140x40() {
    let mut stage = shop();
    assert_snapshot!("alerts_at_80x24", stage.screen());
    stage.resize(140, 40);
    assert_snapshot!("alerts_at_140x40", stage.screen());
}

#[test]
fn every_row_can_be_read_at_60x12_in_ascii() {
    let mut stage = shop();
    stage.app.theme.ascii = true;
    stage.resize(60, 12);
    for _ in 0..stage.app.alerting.rows().len() {
        let screen = stage.screen();
        assert!(screen.is_ascii(), "{screen}");
        let rule = &stage.app.alerting.selected().unwrap().id.rule.clone();
        assert!(screen.lines().any(|line| line.starts_with('>') && line.contains(rule)), "{rule}: {screen}");
        stage.press("j");
    }
}
