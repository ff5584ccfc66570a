//! One lock, everything about it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::evidence::sentence;
use super::part::{self, labelled};
use crate::app::App;
use crate::dialects::{self, Sight};
use crate::model::LockView;
use crate::text::{short_duration, visible};

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(lock) = &app.scene.lock else { return };
    let lines = lines(app, lock);
    let scroll = app.scroll.min(lines.len().saturating_sub(1)) as u16;
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scroll, 0)), area);
}

fn lines(app: &App, lock: &LockView) -> Vec<Line<'static>> {
    let theme = app.theme;
    let plain = Style::new();
    let state = lock.verdict.state;
    let mut lines = vec![
        Line::from(vec![
            Span::styled(format!(" {} ", lock.key), theme.title()),
            Span::styled(format!(" {} ", state.label()), theme.state(state)),
        ]),
        Line::raw(format!(" {}", sentence(app, lock))),
        Line::raw(""),
    ];
    let mut say = |label: &str, text: String| lines.push(Line::from(labelled(label, text, plain, theme)));
    say(
        "library",
        format!(
            "{} (sure: {:.2}), {} {}, {}",
            part::library(lock),
            lock.dialect_confidence,
            lock.mode.name(),
            lock.kind.name(),
            lock.type_name
        ),
    );
    for holder in &lock.holders {
        say("holder", part::holder(app, holder));
    }
    say("held", part::held(lock, theme));
    say("ttl", part::ttl(lock.ttl));
    say("lease", lock.lease_ms.map_or("?".into(), short_duration));
    say("renewals", part::heartbeat(lock, 40, theme).0);
    for hold in lock.past.iter().rev() {
        let holder = hold.holder.as_ref().map_or("somebody".into(), |token| part::token(app, &token.to_string()));
        let held = short_duration(hold.until.since(hold.since).as_millis() as u64);
        say(
            "before",
            format!(
                "{} {} after {held}, {} renewals, {holder}",
                part::clock(hold.until),
                hold.ending.name(),
                hold.renewals
            ),
        );
    }
    if let Some(id) = dialects::by_name(lock.dialect) {
        let dialect = dialects::dialect(id);
        let now = app.scene.at;
        let sight = Sight { key: lock.key.as_bytes(), value: &lock.value, ttl: lock.ttl, now, given: true, told: true };
        say("waiting", dialect.waiting(&sight).describe());
        say("renewing", dialect.renewal().describe());
        let release = dialect.release(&sight);
        for step in release.describe() {
            say("freeing", step);
        }
        for hazard in &release.hazards {
            say("beware", (*hazard).into());
        }
    }
    let _ = visible;
    lines
}
