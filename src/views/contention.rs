//! Who waits for what, and who blocks whom.
//!
//! ```text
//!   STATE      KEY                     HOLDER               HELD   WAIT   ATT/S     FAIL/S
//!  ▌CONTENDED  flash-sale-lock         7be0…44 sale-3       0.8s      5    38.1     36.9~m
//!   CONTENDED  └ orders-lock:4411      3f2a…91 orders-2    12.0s      1     0.1      0.1~m
//!  ──────────────────────────────────────────────────────────────────────────── 1 of 2 ──
//!   flash-sale-lock: 5 wait for it, 1 more behind orders-lock:4411, whose holder waits for it
//!   38.1 attempts a second, of which 36.9 ± 2.4 fail, sampled: 10 % of the last 60s was looked at
//!   10.0.3.7:51322 sale-4      waits for 12.0s    412 tries   410 failed   passed over 5 times
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::evidence;
use super::part::{self, fit, fit_key, fit_right};
use super::row::Row;
use super::wrap::wrap;
use crate::app::scene::NodeScene;
use crate::app::{App, Consent};
use crate::base::text::short_duration;
use crate::engine::Stream;
use crate::model::{Contender, LockView, Source, TriesFrom};
use crate::output::columns;
use crate::settings::keys::Command;

const STATE: usize = 9;
const HELD: usize = 8;
const WAIT: usize = 4;
const FAIL: usize = 9;

struct Widths {
    state: usize,
    key: usize,
    holder: usize,
    attempts: usize,
}

impl Widths {
    fn of(width: usize) -> Widths {
        let (state, holder, attempts) = match width {
            0..80 => (0, 16, 0),
            80..110 => (STATE, 18, 0),
            _ => (STATE, 34, 8),
        };
        let others = [state, holder, HELD, WAIT, attempts, FAIL];
        let taken = 1 + others.iter().map(|width| width + usize::from(*width > 0)).sum::<usize>();
        Widths { state, key: width.saturating_sub(taken), holder, attempts }
    }
}

/// The height of the part about the selected lock.
pub fn below(height: u16) -> u16 {
    (height.saturating_sub(3) / 2).clamp(4, 14)
}

pub fn draw(frame: &mut Frame<'_>, app: &App, list: Rect, below: Rect) {
    let widths = Widths::of(usize::from(list.width));
    let mut lines = vec![heading(app, &widths)];
    if app.scene.rows.is_empty() {
        lines.push(Line::raw(""));
        let why = nothing(app);
        let why = why.iter().flat_map(|text| wrap(text, usize::from(list.width).saturating_sub(4)));
        lines.extend(why.map(|text| Line::styled(format!("  {text}"), app.theme.dim())));
    }
    for (index, lock) in app.scene.rows.iter().enumerate() {
        let selected = app.scene.cursor == Some(app.scene.first + index);
        lines.push(row(app, lock, selected, &widths));
    }
    for (index, line) in lines.into_iter().take(usize::from(list.height)).enumerate() {
        frame.render_widget(line, Rect { y: list.y + index as u16, height: 1, ..list });
    }
    evidence::draw_rule(frame, app, below);
    let Some(lock) = app.scene.lock.as_ref().filter(|_| !app.scene.rows.is_empty()) else { return };
    let width = usize::from(below.width).saturating_sub(2);
    for (index, line) in tell(app, lock, width).into_iter().take(usize::from(below.height) - 1).enumerate() {
        frame.render_widget(
            line,
            Rect { x: below.x + 1, y: below.y + 1 + index as u16, width: width as u16, height: 1 },
        );
    }
}

/// Why the list is empty, and what to do about it.
fn nothing(app: &App) -> Vec<String> {
    if app.list.filter.is_some() {
        return vec![format!("No lock that is wanted matches the filter; {} clears it.", app.key_of(Command::Back))];
    }
    if app.is_ordering() {
        return vec!["Looking for locks that are wanted.".into()];
    }
    let mut why = vec!["Nobody is seen to wait for a lock on a channel or in a queue.".to_string()];
    if app.consent != Consent::Given {
        let key = app.key_of(Command::Sample);
        why.push(format!(
            "Clients that poll show only in a sample of the server's commands: {key} takes some, with MONITOR."
        ));
    }
    why.extend(app.scene.nodes.iter().flat_map(|node| unseen(app, node)));
    why
}

/// What can't be seen at a node.
fn unseen(app: &App, node: &NodeScene) -> Vec<String> {
    let name = part::safe(&node.name, app.theme);
    let mut unseen = Vec::new();
    if let Some(why) = &node.unsampled {
        unseen.push(format!(
            "MONITOR does not run on {name}, so clients that poll do not show: {}.",
            part::safe(why, app.theme)
        ));
    }
    if matches!(node.stream, Stream::Live(Source::Scan)) {
        unseen.push(format!(
            "Notifications of {name} are not followed: locks that come and go between two walks do not show, and how \
             attempts end may not be known."
        ));
    }
    unseen
}

fn heading(app: &App, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut text = String::new();
    let columns = [
        ("STATE", widths.state, false),
        ("KEY", widths.key, false),
        ("HOLDER", widths.holder, false),
        ("HELD", HELD, true),
        ("WAIT", WAIT, true),
        ("ATT/S", widths.attempts, true),
        ("FAIL/S", FAIL, true),
    ];
    for (title, width, right) in columns.into_iter().filter(|(_, width, _)| *width > 0) {
        text.push(' ');
        text.push_str(&if right { fit_right(title, width, theme) } else { fit(title, width, theme) });
    }
    Line::styled(text, theme.title())
}

fn row(app: &App, lock: &LockView, selected: bool, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut row = Row::new(app, lock, selected);
    let index = app.scene.contended.index_of(lock);
    let deadlock = index.is_some_and(|index| app.scene.contended.blocking.is_in_deadlock(index));
    let depth = index.map_or(0, |index| app.scene.contended.depth(index));
    let state = if lock.stale { "stale" } else { lock.verdict.state.label() };
    row.styled(fit(state, widths.state, theme), theme.state(lock.verdict.state));
    let sign = match (deadlock, depth) {
        (true, _) => theme.sign("↻ ", "@ ").to_string(),
        (false, 0) => String::new(),
        (false, depth) => format!("{}{}", "  ".repeat(depth.min(4) - 1), theme.sign("└ ", "` ")),
    };
    let room = widths.key.saturating_sub(sign.chars().count());
    row.styled(format!("{sign}{}", fit_key(&lock.key, room, theme)), if deadlock { theme.bad() } else { Style::new() });
    row.cell(fit(&holder(app, lock), widths.holder, theme));
    row.cell(fit_right(&part::held(lock, theme), HELD, theme));
    row.cell(fit_right(&part::safe(&columns::wait(lock), theme), WAIT, theme));
    if widths.attempts > 0 {
        row.cell(fit_right(&columns::attempts(lock), widths.attempts, theme));
    }
    let failing = lock.tries.is_some_and(|tries| tries.failures > 0);
    row.styled(fit_right(&columns::fail(lock), FAIL, theme), if failing { theme.warning() } else { Style::new() });
    row.line()
}

/// The holder, and its connection if known.
fn holder(app: &App, lock: &LockView) -> String {
    let token = match lock.holders.as_slice() {
        [] => return "-".into(),
        [one] => part::holder(app, one),
        [first, rest @ ..] => format!("{} +{}", part::holder(app, first), rest.len()),
    };
    match part::place(app, lock) {
        Some(place) => format!("{token} {place}"),
        None => token,
    }
}

/// Everything about the selected lock: what blocks it, how often clients try to take it, and who wants it.
fn tell(app: &App, lock: &LockView, width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut lines = Vec::new();
    for (text, style) in [(blocked(app, lock), theme.title()), (tried(app, lock), Style::new())] {
        let text = if theme.ascii { crate::base::text::ascii(&text) } else { text };
        lines.extend(wrap(&text, width).into_iter().map(|line| Line::styled(line, style)));
    }
    let now = app.scene.at;
    let mut contenders: Vec<&Contender> = lock.contenders.iter().collect();
    contenders.sort_by_key(|contender| (!contender.is_waiting(now), contender.first, contender.address.clone()));
    lines.extend(contenders.into_iter().map(|contender| one(app, contender, width)));
    lines
}

/// What it is stuck behind, and what is stuck behind it.
fn blocked(app: &App, lock: &LockView) -> String {
    let contended = &app.scene.contended;
    let name = |index: usize| part::key(&contended.locks[index].key, app.theme);
    let key = part::key(&lock.key, app.theme);
    let Some(index) = contended.index_of(lock) else { return key };
    let ring = contended.blocking.deadlocks.iter().find(|ring| ring.contains(&index));
    if let Some(ring) = ring {
        let sure = if contended.blocking.is_sure(ring) {
            "deadlock"
        } else {
            "deadlock suspected (connections can be shared)"
        };
        let names: Vec<String> = ring.iter().chain(ring.first()).map(|index| name(*index)).collect();
        return format!("{sure}: each holder waits for the next lock: {}", names.join(", "));
    }
    let waiting = lock.demand.waiting;
    let at_most = lock.waits.filter(|waits| waits.is_at_most()).map(|waits| waits.count);
    let mut parts = match waiting {
        0 => vec![match at_most {
            Some(most) => format!("{key}: at most {most} wait for it, blocked on a list"),
            None => format!("{key}: nobody is seen to wait"),
        }],
        1 => vec![format!("{key}: 1 waits for it")],
        many => vec![format!("{key}: {many} wait for it")],
    };
    let chain = contended.blocking.chain(index);
    if let [_, next, ..] = chain[..] {
        let root = *chain.last().unwrap_or(&next);
        parts.push(format!("its holder waits for {}", name(next)));
        if root != next {
            parts.push(format!("all of them for the holder of {}", name(root)));
        }
    }
    for (stuck, distance) in contended.blocking.stuck_behind(index).into_iter().take(3) {
        let more = contended.locks[stuck].demand.waiting;
        let whose = if distance == 1 { ", whose holder waits for it" } else { "" };
        parts.push(format!("{more} more behind {}{whose}", name(stuck)));
    }
    parts.join("; ")
}

/// How often clients try to take it, and the source of that number.
fn tried(app: &App, lock: &LockView) -> String {
    let Some(tries) = lock.tries else {
        return match lock.wanted {
            Some(at) => format!(
                "somebody tries to take it, last about {} ago; how often is not known",
                short_duration(app.scene.at.since(at).as_millis() as u64)
            ),
            None => {
                let node = app.scene.nodes.iter().find(|node| node.id == lock.node);
                let why = match node.and_then(|node| node.unsampled.as_ref()) {
                    Some(why) => format!(": {why}"),
                    None => format!("; {} samples it with MONITOR", app.key_of(Command::Sample)),
                };
                format!("how often somebody tries to take it is not known{why}")
            }
        };
    };
    let attempts = columns::rate(tries.attempts_per_s());
    if let Some(why) = tries.unknown_why() {
        return match tries.known_attempts_per_s() {
            Some(_) => format!("{attempts} attempts a second; how many fail is not known: {why}"),
            None => format!("how often somebody tries to take it is not known: {why}"),
        };
    }
    let failures = columns::rate(tries.failures_per_s());
    match tries.from {
        TriesFrom::Counted => format!("{attempts} attempts a second, of which {failures} fail, counted"),
        TriesFrom::Sampled => format!(
            "{attempts} attempts a second, of which {failures} ± {} fail, sampled: {:.0} % of the last {} was looked at",
            columns::rate(tries.margin_per_s),
            tries.coverage() * 100.0,
            short_duration(tries.span.as_millis() as u64)
        ),
    }
}

/// One contender.
fn one(app: &App, contender: &Contender, width: usize) -> Line<'static> {
    let (theme, now) = (app.theme, app.scene.at);
    let who = match (&contender.address, &contender.token) {
        _ if app.display.private => part::HIDDEN.to_string(),
        (Some(address), _) => address.to_string(),
        (None, Some(token)) => part::token(app, &token.to_string()),
        (None, None) => "somebody".into(),
    };
    let waits = contender.is_waiting(now);
    let since = contender.won.unwrap_or(contender.first).max(contender.first);
    let state = match (waits, contender.won) {
        (true, _) => format!("waits for {}", short_duration(now.since(since).as_millis() as u64)),
        (false, Some(won)) => format!("got it {} ago", short_duration(now.since(won).as_millis() as u64)),
        (false, None) => "gave up".into(),
    };
    let mut text = format!(
        "{} {} {} tries, {} failed",
        fit(&who, 22, theme),
        fit(&state, 18, theme),
        contender.attempts,
        contender.failures
    );
    if waits && contender.passed_over > 0 {
        let times = match contender.passed_over {
            1 => "once".to_string(),
            many => format!("{many} times"),
        };
        text.push_str(&format!(", passed over {times}"));
    }
    let style = if waits { Style::new() } else { theme.dim() };
    Line::styled(fit(&text, width, theme), style)
}

#[cfg(test)]
mod tests;
