//! The nodes: what they are, how they are watched, what can hurt locks there, and what we cost them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::part::labelled;
use crate::app::App;
use crate::commands::doctor::{self, Status};
use crate::model::Source;
use crate::monitor::Stream;
use crate::scene::NodeScene;
use crate::servers::Fact;
use crate::text::{short_duration, visible};

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let mut lines = Vec::new();
    for node in &app.scene.nodes {
        lines.extend(node_lines(app, node));
        lines.push(Line::raw(""));
    }
    let scroll = app.scroll.min(lines.len().saturating_sub(1)) as u16;
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scroll, 0)), area);
}

fn node_lines(app: &App, node: &NodeScene) -> Vec<Line<'static>> {
    let theme = app.theme;
    let plain = Style::new();
    let facts = &node.facts;
    let told = |fact: Fact<String>| match fact {
        Fact::Known(text) => (text, plain),
        Fact::Unknown(why) => (format!("unknown: {why}"), theme.dim()),
    };
    let mut lines =
        vec![Line::styled(format!(" {} database {}", visible(node.name.as_bytes()), node.db), theme.title())];
    let mut say =
        |label: &str, (text, style): (String, Style)| lines.push(Line::from(labelled(label, text, style, theme)));
    say("server", told(facts.product.as_ref().map(|product| format!("{} {}", product.flavor.name(), product.version))));
    say("role", told(facts.role.as_ref().map(|role| role.name().to_string())));
    say("up for", told(facts.uptime.as_ref().map(|uptime| short_duration(uptime.as_millis() as u64))));
    say("keys", told(facts.keys.as_ref().map(|keys| keys.to_string())));
    say("watched by", stream(app, node));
    if let Some(note) = &node.note {
        say("", (note.clone(), theme.warning()));
    }
    let lost = if node.lost > 0 { format!(", {} lost", node.lost) } else { String::new() };
    let rate = node.events_per_s.map(|rate| format!(", {rate:.1} a second now")).unwrap_or_default();
    say("events", (format!("{}{rate}{lost}, {} reconnects", node.events, node.reconnects), plain));
    let scan = match (node.scanning, node.scanned_ago, node.scan_took) {
        (Some(share), ..) => format!("under way, {:.0}% of the keyspace", share * 100.0),
        (None, Some(ago), Some(took)) => {
            format!("{} ago, took {}", short_duration(ago.as_millis() as u64), short_duration(took.as_millis() as u64))
        }
        _ => "not yet".into(),
    };
    say("last scan", (scan, plain));
    if node.unread > 0 {
        let text = format!("{} keys could not be read; 'lockscope doctor' says what is missing", node.unread);
        say("", (text, theme.warning()));
    }
    let cost = node.cost.map_or("not known yet".into(), |cost| {
        format!("at most {:.2}% of its time over the last second", cost * 100.0)
    });
    say("our cost", (cost, plain));
    for check in doctor::hazards(facts) {
        let style = match check.status {
            Status::Ok => plain,
            Status::Unknown => theme.dim(),
            Status::Warn => theme.warning(),
            Status::Bad => theme.bad(),
        };
        say(check.name, (check.finding, style));
        if let Some(fix) = check.fix {
            say("", (format!("fix: {fix}"), theme.dim()));
        }
    }
    lines
}

fn stream(app: &App, node: &NodeScene) -> (String, Style) {
    let theme = app.theme;
    match &node.stream {
        Stream::Live(Source::Notification) => ("keyspace notifications".into(), theme.good()),
        Stream::Live(Source::Tracking) => ("client-side caching broadcasts".into(), theme.warning()),
        Stream::Live(_) => ("polling".into(), theme.warning()),
        Stream::Reconnecting { why, .. } => (format!("nothing: lost the server, trying again ({why})"), theme.bad()),
        Stream::Starting => ("connecting".into(), theme.warning()),
        Stream::Off => ("nothing".into(), theme.dim()),
    }
}
