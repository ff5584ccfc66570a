//! What is shown of the selected lock below the list: its state and the numbers behind it in a sentence, and where the list
//! leaves room, whether it is safe to free, what was found, who holds it, and its lease.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::wrap::wrap;
use super::{detail, paint, part};
use crate::app::App;
use crate::base::text::short_duration;
use crate::dialects::Claim;
use crate::lock::Kind;
use crate::model::{Ending, Hold, Life, LockView, State};

/// The line above it, with the position of the cursor.
pub fn draw_rule(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let scene = &app.scene;
    let below = scene.listed.saturating_sub(scene.first + scene.rows.len());
    let mut parts: Vec<String> =
        scene.cursor.map(|cursor| format!("{} of {}", cursor + 1, scene.listed)).into_iter().collect();
    // What is out of sight is told, since it may be the worst.
    parts.extend((scene.first > 0).then(|| format!("{} above", scene.first)));
    parts.extend((below > 0).then(|| format!("{below} below")));
    let position = if parts.is_empty() { String::new() } else { format!(" {} ", parts.join(", ")) };
    rule(frame, app, area, &position);
}

/// A line with this text near its end.
pub fn rule(frame: &mut Frame<'_>, app: &App, area: Rect, position: &str) {
    let theme = app.theme;
    let rule = Rect { height: 1.min(area.height), ..area };
    let line = theme.sign("─", "-").repeat(usize::from(area.width).saturating_sub(position.len() + 2));
    paint::line(frame, &Line::styled(format!("{line}{position}"), theme.dim()), rule);
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    draw_rule(frame, app, area);
    let Some(lock) = &app.scene.lock else { return };
    let rows = area.height.saturating_sub(1);
    // Two lines hold most sentences; a third of the room is enough for any.
    let head = head(app, lock, area.width, usize::from(rows.min(2).max(rows / 3)));
    let height = (head.len() as u16).min(rows);
    let below = Rect { y: area.y + 1 + height, height: rows - height, ..area };
    paint::lines(frame, head, Rect { y: area.y + 1, height, ..area });
    if area.height > super::EVIDENCE && below.height > 0 {
        detail::draw_brief(frame, app, lock, below);
    }
}

/// Its name, its state and the sentence, in at most so many lines.
fn head(app: &App, lock: &LockView, width: u16, most: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let width = usize::from(width).saturating_sub(2);
    let label = format!(" {} ", lock.state_label());
    // A key that is cut in the list is whole here, if it fits beside its state.
    let key = format!("{} ", part::cut_key(&lock.key, width.saturating_sub(label.len() + 1), theme));
    let mut lines = wrap(&format!("{key}{label} {}", sentence(app, lock)), width);
    if let Some(over) = lines.get(most).cloned()
        && let Some(last) = lines[..most].last_mut()
    {
        *last = part::fit(&format!("{last} {over}"), width, theme);
    }
    let styled = |(index, line): (usize, String)| match line.strip_prefix(&format!("{key}{label}")) {
        // The name and the state are short enough for the first line.
        Some(rest) if index == 0 => Line::from(vec![
            Span::styled(format!(" {key}"), theme.title()),
            Span::styled(label.clone(), theme.state(lock.verdict.state)),
            Span::raw(rest.to_string()),
        ]),
        _ => Line::raw(format!(" {line}")),
    };
    lines.into_iter().take(most).enumerate().map(styled).collect()
}

/// How the previous hold ended, if that is worth a sentence.
fn before(app: &App, hold: &Hold) -> Option<String> {
    let holder = hold.holder.as_ref().map_or("somebody".into(), |token| part::token(app, &token.to_string()));
    match hold.ending {
        Ending::Taken => Some(format!("taken over from {holder} without a release")),
        Ending::Expired => Some(format!("the previous hold, by {holder}, expired and was not released")),
        Ending::Evicted => Some(format!("the previous hold, by {holder}, was evicted")),
        Ending::Forced => {
            let by = hold.forced.as_ref().map(|write| format!(" {}", write.by_words())).unwrap_or_default();
            Some(format!("the previous hold, by {holder}, was freed{by}"))
        }
        _ => None,
    }
}

/// Until when what is shown is known, and why not longer.
fn stale(app: &App, lock: &LockView) -> String {
    let nodes = &app.scene.nodes;
    let node = nodes.iter().find(|node| node.id == lock.node);
    let known = node.and_then(|node| node.blind_since).map_or(lock.confirmed, |since| since.max(lock.confirmed));
    let down = nodes.iter().any(|node| node.refusal.is_some());
    let why = match node.and_then(|node| node.unserved.as_ref()).filter(|_| down) {
        Some(why) => format!("the cluster is down: {}", part::safe(why, app.theme)),
        None if down => "the cluster is down".into(),
        None => "not confirmed since changes were missed".into(),
    };
    format!("as of {}, {why}", part::clock_seconds(known))
}

/// One sentence with the actual numbers.
pub fn sentence(app: &App, lock: &LockView) -> String {
    let mut parts: Vec<String> = Vec::new();
    if lock.stale {
        parts.push(stale(app, lock));
    }
    // The evidence of a free lock tells how it ended, and its row what it was.
    if let Some(was) = app.scene.was(lock).filter(|_| lock.verdict.state != State::Free) {
        let ago = short_duration(app.scene.at.since(was.until).as_millis() as u64);
        parts.push(format!("was {} until {ago} ago", was.state.label()));
    }
    parts.extend(lock.verdict.evidence.iter().map(|text| part::without_holders(app, lock, text.clone())));
    if lock.kind == Kind::Marker {
        parts.push("marks work as done; nobody holds it".into());
    }
    match lock.holders.as_slice() {
        [] => {}
        [one] => parts.push(format!("held by {}", part::holder(app, one))),
        several => parts.push(format!("held by {} at once", several.len())),
    }
    // The evidence of a free lock already says how its last hold ended.
    let last = lock.past.last().filter(|_| !lock.verdict.state.is_free());
    parts.extend(last.and_then(|hold| before(app, hold)));
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
    // The other states have said why they are in doubt.
    let unknown = lock.liveness.as_ref().filter(|liveness| liveness.is == Life::Unknown);
    let unknown = unknown.filter(|_| lock.verdict.state == State::Held);
    parts.extend(unknown.map(|liveness| liveness.words().to_string()));
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
