//! Parts that several screens share: fitting texts, holders, TTLs, heartbeats.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use crate::app::App;
use crate::app::theme::Theme;
use crate::base::server_text::ServerText;
use crate::base::text::{self, short_duration};
use crate::base::time::Time;
use crate::lock::{Holder, Key};
use crate::model::{LockView, Notice, Presence};
use crate::output::columns;

/// Shown in place of what private mode hides.
pub const HIDDEN: &str = "(hidden)";

/// Exactly `width` cells: cut with a mark, or filled with spaces.
pub fn fit(text: &str, width: usize, theme: Theme) -> String {
    let text = if theme.ascii { text::ascii(text) } else { text.to_string() };
    let mark = if theme.ascii { '~' } else { '…' };
    let cut = text::fit_marked(&text, width, mark);
    let room = width.saturating_sub(cut.width());
    format!("{cut}{}", " ".repeat(room))
}

/// The same, right-aligned.
pub fn fit_right(text: &str, width: usize, theme: Theme) -> String {
    let cut = fit(text, width, theme);
    let trimmed = cut.trim_end();
    format!("{}{trimmed}", " ".repeat(width.saturating_sub(trimmed.width())))
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
    let mark = if theme.ascii { '~' } else { '…' };
    if key.width() <= width || width < 9 {
        return text::fit_marked(&key, width, mark);
    }
    let tail_width = width / 2;
    let mut tail = String::new();
    for c in key.chars().rev() {
        if tail.width() + c.to_string().width() > tail_width {
            break;
        }
        tail.insert(0, c);
    }
    let head = text::fit_marked(&key, width - tail.width(), mark);
    format!("{head}{tail}")
}

/// A token, hidden, whole or shortened as the display settings say.
pub fn token(app: &App, text: &str) -> String {
    match (app.display.private, app.display.reveal) {
        (true, _) => HIDDEN.into(),
        (false, true) => text.to_string(),
        (false, false) => text::short_token(text),
    }
}

/// A text that may contain these names, as it may be shown now.
pub fn without(app: &App, mut names: Vec<String>, text: String) -> String {
    if !app.display.private {
        return text;
    }
    names.retain(|name| !name.is_empty());
    // A name that is part of another would leave the rest of it to be seen.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.iter().fold(text, |text, name| text.replace(name, HIDDEN))
}

/// A text that may name the lock's holders, as it may be shown now.
pub fn without_holders(app: &App, lock: &LockView, text: String) -> String {
    if !app.display.private {
        return text;
    }
    let mut names: Vec<String> = Vec::new();
    for holder in &lock.holders {
        names.extend([&holder.client, &holder.host].into_iter().flatten().map(ServerText::visible));
    }
    let noticed = lock.notices.iter().map(|(_, notice)| match notice {
        Notice::Late { token, address, .. } => (Some(token), address.as_ref()),
        Notice::FreedBy { holder, address } => (holder.as_ref(), address.as_ref()),
    });
    let contenders = lock.contenders.iter().map(|contender| (contender.token.as_ref(), contender.address.as_ref()));
    let connections = lock.presence.iter().filter_map(Presence::connection).chain(&lock.connection);
    let connection = connections.map(|connection| (None, Some(&connection.address)));
    let holders = lock.holders.iter().map(|holder| (Some(&holder.token), None));
    let past = lock.past.iter().map(|hold| (hold.holder.as_ref(), None));
    for (token, address) in holders.chain(past).chain(contenders).chain(noticed).chain(connection) {
        names.extend(token.map(|token| token.to_string()));
        names.extend(token.map(|token| text::short_token(&token.to_string())));
        names.extend(address.map(|address| address.to_string()));
    }
    without(app, names, text)
}

/// The holder, in short: a name that people know if there is one, else the token.
pub fn holder(app: &App, holder: &Holder) -> String {
    if app.display.private {
        return HIDDEN.into();
    }
    let mut parts = vec![token(app, &holder.token.to_string())];
    if let Some(host) = &holder.host {
        let pid = holder.pid.map(|pid| format!(":{pid}")).unwrap_or_default();
        // A MAC address helps an operator less than the token.
        if !host.as_bytes().starts_with(b"mac ") {
            parts = vec![format!("{}{pid}", host.visible())];
        }
    }
    parts.join(" ")
}

/// The holders in exactly `width` cells; the number of holders is never cut off.
pub fn fit_holders(app: &App, lock: &LockView, width: usize) -> String {
    match lock.holders.as_slice() {
        [] => fit("-", width, app.theme),
        [one] => {
            let (text, place) = (holder(app, one), place(app, lock));
            let whole = place.map(|place| format!("{text} {place}")).filter(|whole| whole.width() <= width);
            fit(&whole.unwrap_or(text), width, app.theme)
        }
        [first, rest @ ..] => {
            let more = format!(" +{}", rest.len());
            let first = fit(&holder(app, first), width.saturating_sub(more.len()), app.theme);
            fit(&format!("{}{more}", first.trim_end()), width, app.theme)
        }
    }
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
    let Some(renewals) = &lock.renewals else { return ("?".into(), None) };
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

/// The width of a label and the spaces around it.
pub const LABEL: usize = 14;

/// `label  text`, the label dim.
pub fn labelled<'a>(label: &str, text: impl Into<String>, style: Style, theme: Theme) -> Vec<Span<'a>> {
    vec![Span::styled(format!(" {label:<12} "), theme.dim()), Span::styled(text.into(), style)]
}
