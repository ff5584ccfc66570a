//! The sentence on the selected lock: its state and the numbers behind it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::part;
use super::wrap::wrap;
use crate::app::App;
use crate::base::text::short_duration;
use crate::dialects::Claim;
use crate::lock::Kind;
use crate::model::{Ending, Hold, LockView, State};

/// The line above it, with the position of the cursor.
pub fn draw_rule(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let theme = app.theme;
    let rule = Rect { height: 1.min(area.height), ..area };
    let position = match (app.scene.cursor, app.scene.listed) {
        (Some(cursor), listed) => format!(" {} of {listed} ", cursor + 1),
        _ => String::new(),
    };
    let line = theme.sign("─", "-").repeat(usize::from(area.width).saturating_sub(position.len() + 2));
    frame.render_widget(Line::styled(format!("{line}{position}"), theme.dim()), rule);
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    draw_rule(frame, app, area);
    let theme = app.theme;
    let Some(lock) = &app.scene.lock else { return };
    let width = usize::from(area.width).saturating_sub(2);
    let state = lock.verdict.state;
    let key = format!("{} ", part::cut_key(&lock.key, width / 2, theme));
    let label = format!(" {} ", state.label());
    let mut lines = wrap(&format!("{key}{label} {}", sentence(app, lock)), width);
    let rows = usize::from(area.height).saturating_sub(1);
    if let Some(over) = lines.get(rows).cloned()
        && let Some(last) = lines[..rows].last_mut()
    {
        *last = part::fit(&format!("{last} {over}"), width, theme);
    }
    for (index, line) in lines.iter().take(rows).enumerate() {
        // The name and the state are short enough for the first line.
        let line = match line.strip_prefix(&format!("{key}{label}")) {
            Some(rest) if index == 0 => Line::from(vec![
                Span::styled(key.as_str(), theme.title()),
                Span::styled(label.as_str(), theme.state(state)),
                Span::raw(rest),
            ]),
            _ => Line::raw(line.as_str()),
        };
        frame.render_widget(line, Rect { x: area.x + 1, y: area.y + 1 + index as u16, width: width as u16, height: 1 });
    }
}

/// How the previous hold ended, if that is worth a sentence.
fn before(app: &App, hold: &Hold) -> Option<String> {
    let holder = hold.holder.as_ref().map_or("somebody".into(), |token| part::token(app, &token.to_string()));
    match hold.ending {
        Ending::Taken => Some(format!("taken over from {holder} without a release")),
        Ending::Expired => Some(format!("the hold before it, by {holder}, ran out instead of being released")),
        Ending::Evicted => Some(format!("the hold before it, by {holder}, was evicted")),
        Ending::Forced => {
            let by = hold.forced.as_ref().map(|write| format!(" {}", write.by_words())).unwrap_or_default();
            Some(format!("the hold before it, by {holder}, was freed{by}"))
        }
        _ => None,
    }
}

/// One sentence with the actual numbers.
pub fn sentence(app: &App, lock: &LockView) -> String {
    let mut parts: Vec<String> = Vec::new();
    if lock.stale {
        parts.push("not confirmed since the connection was lost".into());
    }
    parts.extend(lock.verdict.evidence.iter().map(|text| part::without_holders(app, lock, text.clone())));
    if lock.kind == Kind::Marker {
        parts.push("marks work as done, nobody holds it".into());
    }
    match lock.holders.as_slice() {
        [] => {}
        [one] => parts.push(format!("held by {}", part::holder(app, one))),
        several => parts.push(format!("held by {} at once", several.len())),
    }
    parts.extend(lock.past.last().and_then(|hold| before(app, hold)));
    // The evidence of a stalled lock already has these numbers.
    if let Some(renewals) = &lock.renewals
        && let Some(last) = renewals.last_ms
        && !matches!(lock.verdict.state, State::Stalled | State::Orphan)
    {
        let every = renewals.period_ms.map(|ms| format!(" every {}", short_duration(ms))).unwrap_or_default();
        let until = match renewals.missed {
            Some(missed) if missed > 0 => format!(" until {} ago, {missed} missed", short_duration(last)),
            _ => format!(", last {} ago", short_duration(last)),
        };
        parts.push(format!("renewed{every}{until}"));
    }
    if let (Some(left), Some(lease)) = (lock.ttl.remaining(), lock.whole_lease_ms()) {
        parts.push(format!("{} left of {}", short_duration(left.as_millis() as u64), short_duration(lease)));
    }
    if let Some(related) = &lock.related {
        parts.push(format!("see also {related}"));
    }
    if lock.dialect_confidence < Claim::SURE {
        let second = lock.second_choice.map(|(name, _)| format!(" or {name}")).unwrap_or_default();
        parts.push(format!("the library is a guess: {}{second}", lock.dialect));
    }
    let text = parts.join("; ");
    if app.theme.ascii { crate::base::text::ascii(&text) } else { text }
}
