//! The nodes: what they are, how they are watched, what can harm locks there, what happened to them, and our load.

mod nodes;
mod others;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::part::{clock_seconds, safe, whole_seconds};
use super::wrap::{Labelled, wrap};
use crate::app::App;
use crate::app::scene::NodeScene;
use crate::app::theme::Theme;
use crate::base::text::short_duration;
use crate::engine::Stream;
use crate::model::{Notable, ServerNews, Source, What};
use crate::server::Fact;
use crate::server::health::{self, Check, Status, alike, in_common};
use crate::settings::keys::Command;

/// At most this many of the things that happened are shown.
const HAPPENED: usize = 12;

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let lines: Vec<Line> = lines(app, area.width).into_iter().skip(app.page.scroll).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

pub fn scroll_most(app: &App, area: Rect) -> usize {
    lines(app, area.width).len().saturating_sub(usize::from(area.height))
}

/// Of one node everything; of several a table of them, what all have in common, and what is different at each. What
/// happened to them comes before the details, since it is what one looks for at night.
fn lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let width = usize::from(width);
    let nodes = app.scene.nodes.as_slice();
    let parts: Vec<Vec<Line>> = match nodes {
        [node] if app.scene.others.nodes.is_empty() => {
            vec![node_lines(app, node, width), others::sentinels(app, width), happened(app, width)]
        }
        [node] => vec![
            nodes::table(app, width),
            others::sentinels(app, width),
            happened(app, width),
            node_lines(app, node, width),
        ],
        several => {
            let shared = in_common(&several.iter().map(checks).collect::<Vec<_>>());
            let own = several.iter().map(|node| own_lines(app, node, &shared, width));
            let mut parts = vec![nodes::table(app, width), happened(app, width)];
            parts.push(shared_lines(app, several.len(), &shared, width));
            parts.extend(own);
            parts
        }
    };
    let beside = app.scene.others.nodes.iter().map(|node| others::lines(app, node, width));
    let parts = parts.into_iter().chain(beside);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&Line::raw(""))
}

/// What happened to the servers, the newest first.
fn happened(app: &App, width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let served = &app.scene.served;
    if served.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::styled(" What happened, the newest first", theme.title())];
    for served in served.iter().take(HAPPENED) {
        lines.extend(told_lines(app, &served.entry, &served.sentence(), width));
    }
    if let more @ 1.. = served.len().saturating_sub(HAPPENED) {
        let events = app.key_of(Command::Events);
        lines.push(Line::styled(format!(" and {more} more; {events} shows the last hour"), theme.dim()));
    }
    lines
}

fn told_lines(app: &App, entry: &Notable, told: &str, width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let names_itself = matches!(entry.what, What::Failover { .. } | What::Server(_))
        && !matches!(entry.what, What::Server(ServerNews::Clock { .. }));
    let node = app.scene.nodes.iter().find(|node| node.id == entry.node);
    let node = node.filter(|_| app.scene.nodes.len() > 1 && !names_itself);
    let name = node.map(|node| format!("{}: ", safe(&node.name, theme))).unwrap_or_default();
    let text = format!("{} {name}{}", entry.what.headline(theme.sign("→", "->")), safe(told, theme));
    let at = format!(" {} ", clock_seconds(entry.at));
    let style = match &entry.what {
        What::Restarted | What::Failover { .. } | What::Away { .. } => theme.bad(),
        What::Back { .. } | What::Server(ServerNews::Joined { .. }) => theme.good(),
        _ => theme.warning(),
    };
    let room = width.saturating_sub(at.len() + 1);
    let mut lines = Vec::new();
    for (index, text) in wrap(&text, room).into_iter().enumerate() {
        let start = if index == 0 { at.clone() } else { " ".repeat(at.len()) };
        lines.push(Line::from(vec![Span::styled(start, theme.dim()), Span::styled(text, style)]));
    }
    lines
}

/// Everything that is checked at a node: what can hurt locks, and what we may not do.
fn checks(node: &NodeScene) -> Vec<Check> {
    let mut checks = vec![health::version(&node.facts)];
    checks.extend(health::hazards(&node.facts));
    checks.extend(node.lacks.iter().cloned());
    checks
}

fn shared_lines(app: &App, nodes: usize, shared: &[Check], width: usize) -> Vec<Line<'static>> {
    let mut page = Labelled::new(width, app.theme);
    if !shared.is_empty() {
        page.lines.push(Line::styled(
            format!(" Alike at all {nodes} nodes, with the figures of the first"),
            app.theme.title(),
        ));
    }
    shared.iter().for_each(|check| say_check(&mut page, check, app.theme));
    page.lines
}

/// What is different at this node.
fn own_lines(app: &App, node: &NodeScene, shared: &[Check], width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut page = Labelled::new(width, theme);
    page.lines.push(Line::styled(format!(" {}", safe(&node.name, theme)), theme.title()));
    let (text, style) = stream(app, node);
    if !matches!(node.stream, Stream::Live(Source::Notification)) || node.note.is_some() {
        page.say("watched by", &safe(&text, theme), style);
    }
    for (label, note, style) in notes(app, node) {
        page.say(label, &safe(&note, theme), style);
    }
    let own = |check: &&Check| !shared.iter().any(|shared| alike(shared, check));
    checks(node).iter().filter(own).for_each(|check| say_check(&mut page, check, theme));
    // A node like all others has nothing to say.
    if page.lines.len() == 1 { Vec::new() } else { page.lines }
}

fn say_check(page: &mut Labelled, check: &Check, theme: Theme) {
    let style = match check.status {
        Status::Ok => Style::new(),
        Status::Unknown => theme.dim(),
        Status::Warn => theme.warning(),
        Status::Bad => theme.bad(),
    };
    page.say(check.name, &safe(&check.finding, theme), style);
    if let Some(fix) = &check.fix {
        page.say("", &safe(&format!("fix: {fix}"), theme), theme.dim());
    }
}

/// What is missing in how the node is watched.
fn notes(app: &App, node: &NodeScene) -> Vec<(&'static str, String, Style)> {
    let theme = app.theme;
    let mut notes: Vec<(&str, String, Style)> = Vec::new();
    let missing = [&node.note, &node.clients_note].into_iter().flatten();
    notes.extend(missing.map(|note| ("", note.clone(), theme.warning())));
    notes.extend(node.sampling.as_ref().map(|(_, sentence)| ("sampling", sentence.clone(), theme.warning())));
    notes.extend(node.names.as_ref().map(|names| ("last scan", names.clone(), Style::new())));
    notes.extend(node.shortfall.as_ref().map(|why| ("last scan", format!("incomplete: {why}"), theme.bad())));
    notes
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
    if let Some(names) = &node.names {
        say("", (names.clone(), plain));
    }
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
    health::hazards(facts).iter().chain(&node.lacks).for_each(|check| say_check(&mut page, check, theme));
    page.lines
}

fn stream(app: &App, node: &NodeScene) -> (String, Style) {
    let theme = app.theme;
    match &node.stream {
        Stream::Live(Source::Notification) => ("keyspace notifications".into(), theme.good()),
        Stream::Live(Source::Tracking) => ("client-side caching broadcasts".into(), theme.warning()),
        Stream::Live(_) => ("polling".into(), theme.warning()),
        Stream::Refusing { .. } => (format!("nothing: {}", node.refusal.clone().unwrap_or_default()), theme.bad()),
        Stream::Silent { since, .. } => (format!("nothing: it does not answer since {}", since.rfc3339()), theme.bad()),
        Stream::Reconnecting { why, since } => {
            (format!("nothing since {}: lost the server, reconnecting ({why})", since.rfc3339()), theme.bad())
        }
        Stream::Starting => ("connecting".into(), theme.warning()),
        Stream::Off => ("nothing".into(), theme.dim()),
    }
}

#[cfg(test)]
mod tests;
