//! The nodes: what they are, how they are watched, what can harm locks there, and how much load we add.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::part::{safe, whole_seconds};
use super::wrap::Labelled;
use crate::app::App;
use crate::app::scene::NodeScene;
use crate::base::text::short_duration;
use crate::engine::Stream;
use crate::model::Source;
use crate::server::Fact;
use crate::server::health::{self, Status};

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let lines: Vec<Line> = lines(app, area.width).into_iter().skip(app.page.scroll).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

pub fn scroll_most(app: &App, area: Rect) -> usize {
    lines(app, area.width).len().saturating_sub(usize::from(area.height))
}

fn lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let nodes: Vec<Vec<Line>> = app.scene.nodes.iter().map(|node| node_lines(app, node, usize::from(width))).collect();
    nodes.join(&Line::raw(""))
}

fn node_lines(app: &App, node: &NodeScene, width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let plain = Style::new();
    let facts = &node.facts;
    let shown = |fact: Fact<String>| match fact {
        Fact::Known(text) => (text, plain),
        Fact::Unknown(why) => (format!("unknown: {why}"), theme.dim()),
    };
    let mut page = Labelled::new(width, theme);
    let title = format!(" {} database {}", safe(&node.name, theme), node.db);
    page.lines.push(Line::styled(title, theme.title()));
    let mut say = |label: &str, (text, style): (String, Style)| page.say(label, &safe(&text, theme), style);
    say(
        "server",
        shown(facts.product.as_ref().map(|product| format!("{} {}", product.flavor.name(), product.version))),
    );
    say("role", shown(facts.role.as_ref().map(|role| role.name().to_string())));
    say("up for", shown(facts.uptime.as_ref().map(|uptime| short_duration(uptime.as_millis() as u64))));
    say("keys", shown(facts.keys.as_ref().map(|keys| keys.to_string())));
    say("watched by", stream(app, node));
    for note in [&node.note, &node.clients_note].into_iter().flatten() {
        say("", (note.clone(), theme.warning()));
    }
    if let Some((_, sentence)) = &node.sampling {
        say("sampling", (super::part::safe(sentence, theme), theme.warning()));
    }
    let lost = match node.lost {
        Some(0) => String::new(),
        Some(lost) => format!(", {lost} lost"),
        None => ", some lost".into(),
    };
    let rate = node.events_per_s.map(|rate| format!(", {rate:.1} a second now")).unwrap_or_default();
    say("events", (format!("{}{rate}{lost}, {} reconnects", node.events, node.reconnects), plain));
    let scan = match (node.scanning, node.scanned_ago, node.scan_took) {
        (Some(share), ..) => format!("under way, {:.0}% of the keyspace", share * 100.0),
        (None, Some(ago), Some(took)) => {
            format!("{} ago, took {}", whole_seconds(ago), short_duration(took.as_millis() as u64))
        }
        _ => "not yet".into(),
    };
    say("last scan", (scan, plain));
    if let Some(why) = &node.shortfall {
        say("", (format!("incomplete: {why}"), theme.bad()));
    }
    if node.too_large > 0 {
        let text = format!("{} keys were not read: too large for a lock", node.too_large);
        say("", (text, plain));
    }
    let cost = node.cost.map_or("not known yet".into(), |cost| {
        format!("at most {:.2}% of its time over the last second", cost * 100.0)
    });
    say("our cost", (cost, plain));
    for check in health::hazards(facts) {
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
    page.lines
}

fn stream(app: &App, node: &NodeScene) -> (String, Style) {
    let theme = app.theme;
    match &node.stream {
        Stream::Live(Source::Notification) => ("keyspace notifications".into(), theme.good()),
        Stream::Live(Source::Tracking) => ("client-side caching broadcasts".into(), theme.warning()),
        Stream::Live(_) => ("polling".into(), theme.warning()),
        Stream::Silent { since, .. } => (format!("nothing: it does not answer since {}", since.rfc3339()), theme.bad()),
        Stream::Reconnecting { why, since } => {
            (format!("nothing since {}: lost the server, reconnecting ({why})", since.rfc3339()), theme.bad())
        }
        Stream::Starting => ("connecting".into(), theme.warning()),
        Stream::Off => ("nothing".into(), theme.dim()),
    }
}
