//! How current and complete the screen is where several nodes are read: one line for three nodes or fifty.
//!
//! The worst of them counts: how many are lost, the oldest scan, the highest cost. The servers screen tells which.

use ratatui::style::Style;

use super::{Part, part};
use crate::app::App;
use crate::app::scene::NodeScene;
use crate::engine::Stream;
use crate::model::Source;
use crate::views::part::{clock_seconds, whole_seconds};

pub(super) fn truth(app: &App) -> Vec<Part> {
    let (theme, nodes) = (app.theme, &app.scene.nodes);
    let dot = theme.sign("·", "-");
    let count = |wanted: fn(&NodeScene) -> bool| nodes.iter().filter(|node| wanted(node)).count();
    let lost = count(|node| matches!(node.stream, Stream::Reconnecting { .. }));
    let silent = count(|node| matches!(node.stream, Stream::Silent { .. }));
    let live = count(|node| matches!(node.stream, Stream::Live(_)));
    let notified = count(|node| matches!(node.stream, Stream::Live(Source::Notification)));
    let tracked = count(|node| matches!(node.stream, Stream::Live(Source::Tracking)));
    let mut parts = Vec::new();
    let refusing = nodes.iter().filter_map(|node| match &node.stream {
        Stream::Refusing { since, .. } => Some(*since),
        _ => None,
    });
    let down = (refusing.clone().count(), refusing.min());
    match (lost + silent, live, nodes.len()) {
        // None of those that answer do it for keys.
        (_, 0, all) if let (count @ 1.., Some(since)) = down => {
            parts.push(part(format!(" CLUSTER DOWN since {}", clock_seconds(since)), theme.bad()));
            parts.push(part(", rows are stale", theme.bad()).gives_way(1));
            if count < all {
                parts.push(part(format!(", {} of {all} nodes lost", all - count), theme.bad()).gives_way(2));
            }
        }
        (0, _, all) if notified == all => parts.push(part(format!(" {all} nodes live"), theme.good())),
        (0, _, all) if tracked == all => parts.push(part(format!(" {all} nodes tracking"), theme.warning())),
        (0, live, all) if live == all => {
            let polled = all - notified - tracked;
            let by = [(notified, "live"), (tracked, "tracking"), (polled, "polling")];
            let by: Vec<String> =
                by.iter().filter(|(nodes, _)| *nodes > 0).map(|(nodes, by)| format!("{nodes} {by}")).collect();
            parts.push(part(format!(" {all} nodes: {}", by.join(", ")), theme.warning()));
        }
        (0, live, all) if down.0 == 0 => {
            parts.push(part(format!(" {live} of {all} nodes are watched"), theme.warning()));
        }
        (away, _, all) => {
            let word = match (lost, silent) {
                (0, 0) => "REFUSE KEYS",
                (0, _) => "WITHOUT ANSWER",
                _ => "RECONNECTING",
            };
            let away = if away == 0 { down.0 } else { away };
            parts.push(part(format!(" {away} of {all} nodes {word}"), theme.bad()));
            parts.push(part(", their rows are stale", theme.bad()).gives_way(1));
        }
    }
    if let Some(rate) = nodes.iter().map(|node| node.events_per_s).sum::<Option<f64>>() {
        parts.push(part(format!(" {rate:.0} ev/s"), Style::new()).gives_way(3));
    }
    let sampled = count(|node| node.sampling.is_some());
    if sampled > 0 {
        parts.push(part(format!(" {dot} sampling {sampled} nodes"), theme.warning()).gives_way(2));
    }
    if nodes.iter().any(|node| node.lost != Some(0)) {
        parts.push(part(format!(" {dot} events lost"), theme.bad()));
    }
    match nodes.iter().map(|node| node.scanned_ago).collect::<Option<Vec<_>>>() {
        None => {
            let scanned = count(|node| node.scanned_ago.is_some());
            parts.push(part(format!(" {dot} first scan: {scanned} of {} nodes", nodes.len()), theme.warning()));
        }
        Some(ago) => {
            let oldest = whole_seconds(ago.into_iter().max().unwrap_or_default());
            parts.push(part(format!(" {dot} scan {oldest}"), Style::new()).gives_way(3));
            parts.push(part(" ago", Style::new()).gives_way(7));
        }
    }
    if let Some(cost) = nodes.iter().filter_map(|node| node.cost).max_by(f64::total_cmp) {
        let cost = format!(" {dot} cost {}{:.1}%", theme.sign("≤", "<="), (cost * 1_000.0).ceil() / 10.0);
        parts.push(part(cost, Style::new()).gives_way(4));
    }
    parts
}
