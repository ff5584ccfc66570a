//! The servers screen of one node and of many, without a server.

use std::sync::Arc;

use super::*;
use crate::base::time::Time;
use crate::engine::NodeStatus;
use crate::lock::{KeyspaceId, NodeId};
use crate::model::Observation;
use crate::server::{Drift, Fact};
use crate::testkit::stage::{NODE, Stage};
use crate::views;

/// As many nodes like the stage's own.
fn several(stage: &Stage, count: u16) -> Vec<NodeStatus> {
    let node = |id: u16| {
        let (facts, stream) = (stage.node.facts.clone(), Stream::Live(Source::Notification));
        let place = (NodeId(id), KeyspaceId::FIRST, 0);
        let mut node = NodeStatus::new(place, format!("10.0.{id}.250:16379"), facts, stream, Arc::default());
        (node.in_cluster, node.reached, node.watched_since) = (true, true, Some(Time(0)));
        node.scan = None;
        node
    };
    (0..count).map(node).collect()
}

fn drawn(stage: &mut Stage, nodes: &[NodeStatus], width: u16) -> Vec<String> {
    let backend = ratatui::backend::TestBackend::new(width, 24);
    let mut terminal = ratatui::Terminal::new(backend).unwrap();
    stage.app.display.size = (width, 24);
    let rows = views::list_rows(&stage.app);
    stage.app.compose(&stage.table, nodes.iter(), stage.now, rows);
    terminal
        .draw(|frame| {
            let _ = views::draw(frame, &stage.app);
        })
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content.chunks(usize::from(width));
    lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>()).collect()
}

#[test]
fn the_header_is_one_line_for_one_node_or_fifty() {
    let mut stage = Stage::new();
    stage.press("5");
    for count in [2, 3, 50, 500] {
        let nodes = several(&stage, count);
        let lines = drawn(&mut stage, &nodes, 80);
        assert!(lines[0].contains("orders-redis") && lines[0].contains("PROD"), "{}", lines[0]);
        assert!(lines[0].contains(&format!("{count} nodes live")) && lines[0].contains("READ-ONLY"), "{}", lines[0]);
        assert!(lines[1].contains("5 Servers"), "{}", lines[1]);
    }
}

#[test]
fn each_node_is_a_line_that_is_whole_at_80_columns() {
    let mut stage = Stage::new();
    stage.press("5");
    let mut nodes = several(&stage, 3);
    nodes[1].stream = Stream::Reconnecting { why: "refused".into(), since: stage.now };
    nodes[1].watched_since = None;
    let passed = std::time::Duration::from_secs(10);
    nodes[2].facts.drift = Some(Drift { gained_us: 3_000_000, passed, at: std::time::Instant::now() });
    let lines = drawn(&mut stage, &nodes, 80);
    let row = |name: &str| lines.iter().find(|line| line.starts_with(&format!(" {name}"))).cloned().unwrap_or_default();
    let head = row("NODE");
    assert!(head.trim_end().ends_with("SINCE") && head.contains("WATCHED") && head.contains("LAG"), "{lines:#?}");
    assert!(row("10.0.0.250:16379").contains("master") && row("10.0.0.250:16379").contains("live"), "{lines:#?}");
    assert!(row("10.0.1.250:16379").contains("RECONNECTING"), "{lines:#?}");
    assert!(row("10.0.2.250:16379").contains("JUMPED"), "{lines:#?}");
    let text = lines.join("\n");
    assert!(text.contains("Alike at all 3 nodes"), "{text}");
    assert_eq!(text.matches("is supported").count(), 1, "told once: {text}");
}

#[test]
fn what_happened_is_told_newest_first_and_not_without_end() {
    let mut stage = Stage::new();
    stage.press("5");
    assert!(!stage.screen().contains("What happened"), "{}", stage.screen());
    for number in 0..30_u64 {
        stage.pass(1_000);
        let what = What::Missed { events: Some(number) };
        stage.table.apply(Observation::Noted { node: NODE, at: stage.now, what });
    }
    stage.pass(1_000);
    stage.table.apply(Observation::Noted {
        node: NODE,
        at: stage.now,
        what: What::Server(ServerNews::Clock { gained_ms: 3_000, passed_ms: 10_000 }),
    });
    stage.compose();
    stage.press("G");
    let screen = stage.screen();
    assert!(screen.contains("and 19 more"), "{screen}");
    let clock = screen.find("the server's clock gained 3.0s while 10.0s passed").expect("the newest");
    assert!(screen.find("29 events lost").is_some_and(|older| clock < older), "{screen}");
    assert!(!screen.contains("17 events lost"), "{screen}");
}

#[test]
fn a_clock_that_jumped_is_bad_and_says_how_much() {
    let mut stage = Stage::new();
    let passed = std::time::Duration::from_secs(10);
    stage.node.facts.drift = Some(Drift { gained_us: -1_000_000, passed, at: std::time::Instant::now() });
    stage.node.facts.clock =
        Fact::Known(crate::server::ClockOffset { offset_us: -1_000_000, error_us: 100, reading: None });
    let check = health::hazards(&stage.node.facts).into_iter().find(|check| check.name == "clock").unwrap();
    assert_eq!(check.status, Status::Bad);
    assert!(check.finding.contains("lost 1.0s while 10.0s passed (-10.0 %)"), "{}", check.finding);
    assert!(check.fix.is_some());
}
