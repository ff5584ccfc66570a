//! Who waits for what, and who blocks whom.
//!
//! ```text
//!   STATE      KEY                     HOLDER               HELD   WAIT   ATT/S     FAIL/S
//!  ▌CONTENDED  flash-sale-lock         7be0…44 sale-3       0.8s      5    38.1     36.9~m
//!   CONTENDED  └ orders-lock:4411      3f2a…91 orders-2    12.0s      1     0.1      0.1~m
//!  ──────────────────────────────────────────────────────────────────────────── 1 of 2 ──
//!   flash-sale-lock: 5 wait for it, 1 more behind orders-lock:4411, whose holder waits for it
//!   38.1 attempts a second, 36.9 ± 2.4 of them fail (sampled, 10 % of the last 60s)
//!   7be0…44 10.0.3.7:51322     waiting 12.0s      412 tries   410 failed   passed over 5 times
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr;

use super::evidence;
use super::paint;
use super::part::{self, fit, fit_right};
use super::row::Row;
use super::wrap::wrap;
use crate::app::scene::NodeScene;
use crate::app::{App, Consent};
use crate::base::text::short_duration;
use crate::engine::Stream;
use crate::model::{Contender, LockView, SOMEBODY, Source, TriesFrom};
use crate::output::columns;
use crate::settings::keys::Command;

const STATE: usize = 9;
const HELD: usize = 8;
const WAIT: usize = 4;
const FAIL: usize = 9;
/// The names of contenders: an address at least, and at most a shortened token with it.
const LEAST_WHO: usize = 22;
const WHO: usize = 34;

struct Widths {
    state: usize,
    key: usize,
    holder: usize,
    attempts: usize,
}

impl Widths {
    fn of(width: usize) -> Widths {
        let (state, holder, attempts) = match width {
            0..80 => (0, 13, 0),
            80..110 => (STATE, 13, 0),
            _ => (STATE, 34, 8),
        };
        let others = [state, holder, HELD, WAIT, attempts, FAIL];
        let taken = 1 + others.iter().map(|width| width + usize::from(*width > 0)).sum::<usize>();
        Widths { state, key: width.saturating_sub(taken), holder, attempts }
    }
}

/// The height of the part about the selected lock.
pub fn below(height: u16) -> u16 {
    (height.saturating_sub(3) / 3).clamp(4, 14)
}

pub fn draw(frame: &mut Frame<'_>, app: &App, list: Rect, below: Rect) {
    let (widths, keys) = fit_keys(app, usize::from(list.width));
    let mut lines = vec![heading(app, &widths)];
    if app.scene.rows.is_empty() {
        lines.push(Line::raw(""));
        let why = nothing(app);
        let why = why.iter().flat_map(|text| wrap(text, usize::from(list.width).saturating_sub(4)));
        lines.extend(why.map(|text| Line::styled(format!("  {text}"), app.theme.dim())));
    }
    for (index, (lock, key)) in app.scene.rows.iter().zip(keys).enumerate() {
        let selected = app.scene.cursor == Some(app.scene.first + index);
        lines.push(row(app, lock, key, selected, &widths));
    }
    paint::lines(frame, lines, list);
    evidence::draw_rule(frame, app, below);
    let Some(lock) = app.scene.lock.as_ref().filter(|_| !app.scene.rows.is_empty()) else { return };
    let width = usize::from(below.width).saturating_sub(2);
    let room = usize::from(below.height).saturating_sub(1);
    let mut told = tell(app, lock, width);
    if let over @ 1.. = told.len().saturating_sub(room)
        && room > 1
    {
        told.truncate(room - 1);
        told.push(Line::styled(format!("{} more lines; a higher window shows them", over + 1), app.theme.dim()));
    }
    for (index, line) in told.into_iter().take(room).enumerate() {
        frame.render_widget(
            line,
            Rect { x: below.x + 1, y: below.y + 1 + index as u16, width: width as u16, height: 1 },
        );
    }
}

/// Why the list is empty, and what to do about it.
fn nothing(app: &App) -> Vec<String> {
    if app.list.filter.is_some() {
        return vec![format!("None of the wanted locks matches the filter; {} clears it.", app.key_of(Command::Back))];
    }
    if app.is_ordering() {
        return vec!["Looking for locks that are wanted.".into()];
    }
    let mut why = vec!["Nobody waits for a lock on a channel or in a queue.".to_string()];
    if app.consent != Consent::Given {
        let key = app.key_of(Command::Sample);
        why.push(format!(
            "Clients that poll show only in a sample of the server's commands; {key} samples them with MONITOR."
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
            "MONITOR does not run on {name}: {}. Clients that poll are not seen.",
            part::safe(why, app.theme)
        ));
    }
    if matches!(node.stream, Stream::Live(Source::Scan)) {
        unseen.push(format!(
            "Notifications of {name} are not followed. Locks that come and go between two scans are missed, and the \
             result of an attempt may not be known."
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

/// The widths, and the keys as they are shown. Where keys look the same, the holder gives way to them.
fn fit_keys(app: &App, width: usize) -> (Widths, Vec<String>) {
    let mut widths = Widths::of(width);
    let rows = &app.scene.rows;
    let names: Vec<String> = rows.iter().map(|lock| part::key(&lock.key, app.theme)).collect();
    let signs = rows.iter().map(|lock| sign(app, lock).chars().count()).max().unwrap_or(0);
    loop {
        let (keys, apart) = part::fit_keys(&names, widths.key.saturating_sub(signs), app.theme);
        if apart || widths.holder == 0 {
            return (widths, keys);
        }
        widths.key += std::mem::take(&mut widths.holder) + 1;
    }
}

fn is_in_deadlock(app: &App, lock: &LockView) -> bool {
    let contended = &app.scene.contended;
    contended.index_of(lock).is_some_and(|index| contended.blocking.is_in_deadlock(index))
}

/// Stands before the key of a lock that is stuck behind the one above it, or in a ring.
fn sign(app: &App, lock: &LockView) -> String {
    let depth = app.scene.contended.index_of(lock).map_or(0, |index| app.scene.contended.depth(index));
    match (is_in_deadlock(app, lock), depth) {
        (true, _) => app.theme.sign("↻ ", "@ ").to_string(),
        (false, 0) => String::new(),
        (false, depth) => format!("{}{}", "  ".repeat(depth.min(4) - 1), app.theme.sign("└ ", "` ")),
    }
}

/// `key`: as it is shown, beside the other keys in sight.
fn row(app: &App, lock: &LockView, key: String, selected: bool, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut row = Row::new(app, lock, selected);
    let state = if lock.stale { "stale".into() } else { lock.state_label() };
    row.styled(fit(&state, widths.state, theme), theme.state(lock.verdict.state));
    let key = fit(&format!("{}{}", sign(app, lock), key.trim_end()), widths.key, theme);
    row.styled(key, if is_in_deadlock(app, lock) { theme.bad() } else { Style::new() });
    row.cell(fit(&holder(app, lock, widths.holder), widths.holder, theme));
    row.cell(fit_right(&part::held(lock, theme), HELD, theme));
    row.cell(fit_right(&part::safe(&columns::wait(lock), theme), WAIT, theme));
    if widths.attempts > 0 {
        row.cell(fit_right(&columns::attempts(lock), widths.attempts, theme));
    }
    let failing = lock.tries.is_some_and(|tries| tries.failures > 0);
    row.styled(fit_right(&columns::fail(lock), FAIL, theme), if failing { theme.warning() } else { Style::new() });
    row.line()
}

/// The holder, and its connection if it is known and there is room for it.
fn holder(app: &App, lock: &LockView, room: usize) -> String {
    let token = match lock.holders.as_slice() {
        [] => return "-".into(),
        [one] => part::holder(app, one),
        [first, rest @ ..] => format!("{} +{}", part::holder(app, first), rest.len()),
    };
    let both = part::place(app, lock).map(|place| format!("{token} {place}"));
    both.filter(|both| both.width() <= room).unwrap_or(token)
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
    let names: Vec<String> = contenders.iter().map(|contender| name(app, contender)).collect();
    let who = names.iter().map(|name| name.width()).max().unwrap_or(0).clamp(LEAST_WHO, WHO);
    let known =
        contenders.into_iter().zip(names).map(|(contender, name)| one(app, contender, &fit(&name, who, theme), width));
    lines.extend(known);
    let blocked =
        lock.blocked.iter().map(|client| fit(&format!("perhaps {}", part::blocked(app, client)), width, theme));
    lines.extend(blocked.map(Line::raw));
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
            None if lock.wanted.is_some() || lock.tries.is_some() => key,
            None => format!("{key}: nobody waits on a channel or in a queue"),
        }],
        1 => vec![format!("{key}: 1 waits for it")],
        many => vec![format!("{key}: {many} wait for it")],
    };
    let chain = contended.blocking.chain(index);
    if let [_, next, ..] = chain[..] {
        let root = *chain.last().unwrap_or(&next);
        parts.push(format!("its holder waits for {}", name(next)));
        if root != next {
            parts.push(format!("they all wait for the holder of {}", name(root)));
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
        let node = app.scene.nodes.iter().find(|node| node.id == lock.node);
        let unsampled = node.and_then(|node| node.unsampled.as_ref());
        let sample = app.key_of(Command::Sample);
        return match (lock.wanted, unsampled) {
            (Some(at), _) => {
                let ago = short_duration(app.scene.at.since(at).as_millis() as u64);
                let more = unsampled
                    .map_or(format!("{sample} counts them"), |why| format!("their number is not known: {why}"));
                format!("{SOMEBODY} (last {ago} ago); {more}")
            }
            (None, Some(why)) => format!("whether somebody polls for it is not known: {why}"),
            (None, None) => format!("whether somebody polls for it is not known; {sample} samples it with MONITOR"),
        };
    };
    let attempts = columns::rate(tries.attempts_per_s());
    if let Some(why) = tries.unknown_why() {
        return match tries.known_attempts_per_s() {
            Some(_) => format!("{attempts} attempts a second; how many fail is not known: {why}"),
            None => format!("the rate of attempts is not known: {why}"),
        };
    }
    let failures = columns::rate(tries.failures_per_s());
    match tries.from {
        TriesFrom::Counted => format!("{attempts} attempts a second, {failures} of them fail (counted)"),
        TriesFrom::Sampled => format!(
            "{attempts} attempts a second, {failures} ± {} of them fail (sampled, {:.0} % of the last {})",
            columns::rate(tries.margin_per_s),
            tries.coverage() * 100.0,
            short_duration(tries.span.as_millis() as u64)
        ),
    }
}

/// Its token and its address, as far as they are known.
fn name(app: &App, contender: &Contender) -> String {
    let token = contender.token.as_ref().map(|token| part::token(app, &token.to_string()));
    let address = contender.address.as_ref().map(|address| address.to_string());
    let known: Vec<String> = [token, address].into_iter().flatten().collect();
    match known.as_slice() {
        _ if app.display.private => part::HIDDEN.to_string(),
        [] => "somebody".into(),
        known => known.join(" "),
    }
}

/// One contender. `who`: its name, fitted to its column.
fn one(app: &App, contender: &Contender, who: &str, width: usize) -> Line<'static> {
    let (theme, now) = (app.theme, app.scene.at);
    let waits = contender.is_waiting(now);
    let since = contender.won.unwrap_or(contender.first).max(contender.first);
    let state = match (waits, contender.won) {
        (true, _) => format!("waiting {}", short_duration(now.since(since).as_millis() as u64)),
        (false, Some(won)) => format!("got it {} ago", short_duration(now.since(won).as_millis() as u64)),
        // Whether its attempts failed is not known, so nor is whether it still wants it.
        (false, None) if contender.failures == 0 => {
            format!("tried {} ago", short_duration(now.since(contender.last).as_millis() as u64))
        }
        (false, None) => "gave up".into(),
    };
    let outcome = match (contender.won, contender.failures) {
        (None, 0) => "how many failed is not known".to_string(),
        (_, failures) => format!("{failures} failed"),
    };
    let mut text = format!("{who} {} {} tries, {outcome}", fit(&state, 18, theme), contender.attempts);
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
