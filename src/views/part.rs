//! Parts that several screens share: fitting texts, holders, TTLs, heartbeats.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use super::shorten;
use crate::app::App;
use crate::app::scene::Was;
use crate::app::theme::Theme;
use crate::base::server_text::ServerText;
use crate::base::text::{self, short_duration};
use crate::base::time::Time;
use crate::lock::{Holder, Key};
use crate::model::{Connection, LockView, Presence};
use crate::output::columns;

pub use crate::app::HIDDEN;

/// Exactly `width` cells: cut with a mark, or filled with spaces.
pub fn fit(text: &str, width: usize, theme: Theme) -> String {
    let mut cut = cut(text, width, theme);
    let room = width.saturating_sub(text::cells(&cut));
    cut.extend(std::iter::repeat_n(' ', room));
    cut
}

/// The same, right-aligned.
pub fn fit_right(text: &str, width: usize, theme: Theme) -> String {
    let cut = cut(text, width, theme);
    let text = cut.trim_end();
    let mut fitted = " ".repeat(width.saturating_sub(text::cells(text)));
    fitted.push_str(text);
    fitted
}

/// At most `width` cells.
fn cut(text: &str, width: usize, theme: Theme) -> String {
    match theme.ascii {
        true => text::fit_marked(&text::ascii(text), width, mark(theme)),
        false => text::fit_marked(text, width, mark(theme)),
    }
}

/// Makes text that is not entirely our own safe to print on this terminal.
pub fn safe(text: &str, theme: Theme) -> String {
    // Printable text does not change here, so nothing is escaped twice.
    let text = text::harmless(text);
    if theme.ascii { text::ascii(&text) } else { text }
}

/// A key's whole name. Two different keys never look the same.
pub fn key(key: &Key, theme: Theme) -> String {
    let name = key.to_string();
    if theme.ascii { text::ascii_only(&name) } else { name }
}

/// The key in exactly `width` cells.
pub fn fit_key(name: &Key, width: usize, theme: Theme) -> String {
    fit(&cut_key(name, width, theme), width, theme)
}

/// The key, with its middle cut out if it is too long: both ends identify a key better than one.
pub fn cut_key(name: &Key, width: usize, theme: Theme) -> String {
    let key = key(name, theme);
    shorten::distinct(&[key], width, mark(theme)).pop().unwrap_or_default()
}

/// The keys of a list in exactly `width` cells each, so that what differs between them stays in sight, and whether that
/// tells all of them apart.
pub fn fit_keys(names: &[String], width: usize, theme: Theme) -> (Vec<String>, bool) {
    let shown = shorten::distinct(names, width, mark(theme));
    let apart = shorten::tells_apart(names, &shown);
    (shown.into_iter().map(|name| fit(&name, width, theme)).collect(), apart)
}

/// The same for a list of which not every row has a key: the column is as wide as the longest, but at least 24 cells, so that
/// it rarely moves. It leaves `rest` cells of the room, unless the keys would look the same.
pub fn fit_keys_of(keys: &[Option<&Key>], room: usize, rest: usize, theme: Theme) -> (usize, Vec<Option<String>>) {
    let names: Vec<String> = keys.iter().flatten().map(|name| key(name, theme)).collect();
    let longest = names.iter().map(|name| name.width()).max().unwrap_or(0).max(24);
    let mut width = longest.min(room.saturating_sub(rest + 1));
    let (mut shown, apart) = fit_keys(&names, width, theme);
    if !apart {
        width = longest.min(room);
        shown = fit_keys(&names, width, theme).0;
    }
    let mut shown = shown.into_iter();
    (width, keys.iter().map(|key| key.and_then(|_| shown.next())).collect())
}

/// Stands for what was cut.
fn mark(theme: Theme) -> char {
    if theme.ascii { '~' } else { '…' }
}

/// A token, hidden, whole or shortened as the display settings say.
pub fn token(app: &App, text: &str) -> String {
    app.token(text)
}

/// A text that may contain these names, as it may be shown now.
pub fn without(app: &App, names: Vec<String>, text: String) -> String {
    app.without(names, text)
}

/// A text that may name the lock's holders, as it may be shown now.
pub fn without_holders(app: &App, lock: &LockView, text: String) -> String {
    app.without_holders(lock, text)
}

/// A client that is blocked in a command, where it may be shown.
pub fn blocked(app: &App, client: &Connection) -> String {
    if app.display.private { HIDDEN.into() } else { safe(&client.describe_blocked(app.scene.at), app.theme) }
}

/// The holder, in short: a name that people know if there is one, else the token.
pub fn holder(app: &App, holder: &Holder) -> String {
    if app.display.private {
        return HIDDEN.into();
    }
    // A MAC address helps an operator less than the token.
    match holder.host.as_ref().filter(|host| !host.as_bytes().starts_with(b"mac ")) {
        Some(host) => format!("{}{}", host.visible(), holder.pid.map(|pid| format!(":{pid}")).unwrap_or_default()),
        None => shown_token(app, holder),
    }
}

fn shown_token(app: &App, holder: &Holder) -> String {
    token(app, &holder.token.to_string())
}

/// The holders in exactly `width` cells; the number of holders is never cut off.
pub fn fit_holders(app: &App, lock: &LockView, width: usize) -> String {
    let former = lock.lost.as_ref().and_then(|lost| lost.holder.as_ref());
    match lock.holders.as_slice() {
        [] => {
            let was = former.map_or("-".into(), |former| format!("was {}", token(app, &former.to_string())));
            fit(&was, width, app.theme)
        }
        [one] => {
            let (short, place) = (holder(app, one), place(app, lock));
            let whole = Some(safe(&one.token.to_string(), app.theme))
                .filter(|_| !app.display.private && short == shown_token(app, one));
            let with = |token: &String| place.as_ref().map(|place| format!("{token} {place}"));
            let wishes = [whole.as_ref().and_then(with), with(&short), whole.clone()];
            let best = wishes.into_iter().flatten().find(|text| text.width() <= width);
            fit(&best.unwrap_or(short), width, app.theme)
        }
        [first, rest @ ..] => {
            let more = format!(" +{}", rest.len());
            let first = fit(&holder(app, first), width.saturating_sub(more.len()), app.theme);
            fit(&format!("{}{more}", first.trim_end()), width, app.theme)
        }
    }
}

/// What a lock was before it got better: `was ORPHAN`, or in less room `<ORPHAN`.
pub fn fit_was(was: Was, width: usize, theme: Theme) -> String {
    let label = was.state.label();
    let whole = format!("was {label}");
    fit(&if whole.len() <= width { whole } else { format!("<{label}") }, width, theme)
}

/// The name or address of its only holder's client, where that is known.
pub fn place(app: &App, lock: &LockView) -> Option<String> {
    let connection = lock.presence.first().and_then(Presence::connection).filter(|_| !app.display.private)?;
    let place = connection.name.as_ref().map_or_else(|| connection.address.to_string(), ServerText::visible);
    Some(safe(&place, app.theme))
}

pub fn held(lock: &LockView, theme: Theme) -> String {
    safe(&columns::held(lock), theme)
}

/// The remaining share of the lease, 0 to 1; `None` if the lease is unknown.
pub fn share_left(lock: &LockView) -> Option<f64> {
    let left = lock.ttl.remaining()?.as_millis() as f64;
    let lease = lock.whole_lease_ms()? as f64;
    Some((left / lease).min(1.0))
}

/// The renewals seen, then the missed ones: `||||··  2 missed`.
pub fn heartbeat(lock: &LockView, width: usize, theme: Theme) -> (String, Option<u64>) {
    let unknown = if lock.verdict.state.is_free() { "-" } else { "?" };
    let Some(renewals) = &lock.renewals else { return (unknown.into(), None) };
    let missed = renewals.missed.filter(|missed| *missed > 0);
    if renewals.count == 0 {
        return ("-".into(), None);
    }
    let words = missed.map(|missed| format!(" {missed} missed")).unwrap_or_default();
    let room = width.saturating_sub(words.len()).max(1);
    let gaps = (missed.unwrap_or(0) as usize).min(room / 2);
    let beats = lock.beats.len().min(room - gaps);
    let strip = theme.sign("│", "|").repeat(beats) + &theme.sign("·", ".").repeat(gaps);
    (format!("{strip}{words}"), missed)
}

/// An age that changes once a second, not ten times.
pub fn whole_seconds(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => short_duration(seconds * 1_000),
    }
}

/// The time of day in UTC, as in logs.
pub fn clock(at: Time) -> String {
    at.rfc3339().get(11..23).unwrap_or_default().to_string()
}

/// The same to the second.
pub fn clock_seconds(at: Time) -> String {
    clock(at).get(..8).unwrap_or_default().to_string()
}

/// The width of a label and the spaces around it.
pub const LABEL: usize = 14;

/// `label  text`, the label dim.
pub fn labelled<'a>(label: &str, text: impl Into<String>, style: Style, theme: Theme) -> Vec<Span<'a>> {
    vec![Span::styled(format!(" {label:<12} "), theme.dim()), Span::styled(text.into(), style)]
}
