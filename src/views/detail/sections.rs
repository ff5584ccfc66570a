//! What is known of a lock, in words: one function per part, each adding its labelled lines.

use std::time::Duration;

use ratatui::style::Style;

use crate::actions::plan::{self, Preview};
use crate::app::App;
use crate::base::server_text::ServerText;
use crate::base::text::{harmless, short_duration, visible};
use crate::base::time::{Time, Ttl};
use crate::dialects::{self};
use crate::lock::{Holder, Kind, RawValue};
use crate::model::{Certainty, Hold, Life, LockView, Presence, Safe, State};
use crate::output::FREE_IT;
use crate::settings::keys::Command;
use crate::sources::inspect::Belonging;
use crate::sources::waiters::{Count, Health};
use crate::views::part::{self, HIDDEN};
use crate::views::wrap::Labelled;

/// At most this many fields or members of a value are shown.
const ITEMS: usize = 16;
/// An inspection this old is shown with its age.
const OLD_MS: u64 = 6_000;

/// The remaining lease, and how long the lock has been held.
pub fn ttl(app: &App, lock: &LockView) -> String {
    let left = match lock.ttl.remaining() {
        _ if lock.verdict.state.is_free() => return lock.verdict.state.name().into(),
        None => "never expires".into(),
        Some(left) => {
            let left = left.as_millis() as u64;
            match lock.lease_ms {
                None => format!("{} left of an unknown lease", short_duration(left)),
                // A lease is known to the nearest round number.
                Some(lease) if left > lease + lease / 10 => {
                    format!("{} left, more than its lease of {}", short_duration(left), short_duration(lease))
                }
                Some(lease) => {
                    let words = lock.lease_words().unwrap_or_else(|| short_duration(lease));
                    format!("{} left of {words}", short_duration(left))
                }
            }
        }
    };
    match part::held(lock, app.theme).as_str() {
        "?" => format!("{left}, held for an unknown time"),
        held => format!("{left}, held for {held}"),
    }
}

/// How many renewals there were, how often, and how many are missing.
pub fn renewals(lock: &LockView) -> String {
    let Some(renewals) = &lock.renewals else { return "not known yet: it was not watched long enough".into() };
    renewals.describe()
}

pub fn holders(app: &App, lock: &LockView, page: &mut Labelled) {
    if lock.holders.is_empty() {
        let why = match (lock.kind, lock.verdict.state) {
            (Kind::Marker, _) => "nobody: it marks work as done",
            (Kind::Lock, State::Free | State::Lost) => "nobody",
            (Kind::Lock, _) => "not known: the library does not store it",
        };
        page.say("holder", why, app.theme.dim());
    }
    for (index, holder) in lock.holders.iter().enumerate() {
        page.say("holder", &holder_line(app, holder), Style::new());
        let presence = lock.presence.get(index).unwrap_or(&Presence::Unknown);
        let style = match presence {
            Presence::Closed { .. } | Presence::Absent => app.theme.bad(),
            Presence::Unknown => app.theme.dim(),
            Presence::Connected { .. } => Style::new(),
        };
        let hidden = app.display.private && presence.connection().is_some();
        page.say("client", &if hidden { HIDDEN.to_string() } else { presence.describe(app.scene.at) }, style);
    }
}

fn holder_line(app: &App, holder: &Holder) -> String {
    let mut parts = vec![part::token(app, &holder.token.to_string())];
    if !app.display.private {
        let named = |name: &str, text: &Option<ServerText>| {
            text.as_ref().map(|text| format!("{name} {}", part::token(app, &text.visible())))
        };
        parts.extend(holder.host.as_ref().map(|host| format!("host {}", host.visible())));
        parts.extend(holder.pid.map(|pid| format!("pid {pid}")));
        parts.extend(named("client", &holder.client));
        parts.extend(named("thread", &holder.thread));
    }
    parts.extend(holder.count.map(|count| format!("entered {count}x")));
    parts.extend(holder.mode.map(|mode| mode.name().to_string()));
    parts.extend(holder.since.map(|since| format!("since {} by its own clock", part::clock(since))));
    parts.extend(holder.until.map(|until| until_words(until, app.scene.at)));
    parts.join(", ")
}

fn until_words(until: Time, now: Time) -> String {
    match until.0 - now.0 {
        left @ 0.. => format!("its share ends in {}", short_duration(left as u64)),
        past => format!("its share ended {} ago", short_duration(past.unsigned_abs())),
    }
}

/// Whether it is safe to free, and what to do. What its library does to a living holder is printed with the commands.
pub fn safe(app: &App, lock: &LockView, page: &mut Labelled) {
    let mut safe = Safe::of(lock);
    if let Some(found) = &app.page.closer.found {
        safe.waiting = found.waiters.beside(lock).in_short();
    }
    let style = if safe.advice.answer() == "yes" { app.theme.good() } else { Style::new() };
    page.say(FREE_IT, &safe.short(), style);
}

/// Whether its holder lives.
pub fn liveness(app: &App, lock: &LockView, page: &mut Labelled) {
    let Some(liveness) = &lock.liveness else { return };
    let style = match liveness.is {
        Life::Lives => Style::new(),
        Life::Unknown => app.theme.dim(),
        Life::Suspected => app.theme.warning(),
        Life::Gone => app.theme.bad(),
    };
    // Of a holder that may be gone, the verdict and the findings say why, and what would settle it.
    let text = match (liveness.is, &liveness.settle) {
        (Life::Lives, _) => liveness.sentence(),
        (Life::Unknown, Some(settle)) => format!("{}; {}", liveness.words(), app.monitor().told(settle)),
        _ => liveness.words().into(),
    };
    page.say("liveness", &text, style);
}

/// What is wrong with the lock, and how to settle each suspicion.
pub fn findings(app: &App, lock: &LockView, page: &mut Labelled) {
    for finding in &lock.findings {
        let certainty = Certainty::of(finding.confidence).word();
        let text = format!("{}: {} ({certainty})", finding.name, finding.sentence);
        page.say("findings", &part::without_holders(app, lock, text), app.theme.warning());
        if let Some(settle) = &finding.settle {
            page.say("findings", &format!("to settle it: {}", app.monitor().told(settle)), app.theme.dim());
        }
    }
}

pub fn waiters(app: &App, lock: &LockView, page: &mut Labelled) {
    let theme = app.theme;
    let Some(found) = &app.page.closer.found else {
        let why = if app.display.paused { "not asked while paused" } else { "asking the server" };
        return page.say("waiting", why, theme.dim());
    };
    let passed = app.scene.at.since(found.at).as_millis() as u64;
    let age = if passed > OLD_MS { format!(" ({} ago)", short_duration(passed)) } else { String::new() };
    let waiters = found.waiters.beside(lock);
    let style = match waiters.count {
        Count::Unknown(_) => theme.dim(),
        _ => Style::new(),
    };
    let line = part::without_holders(app, lock, format!("{}{age}", waiters.describe()));
    page.say("waiting", &line, style);
    for (index, (waiter, health)) in found.waiters.in_order(passed as i64).enumerate() {
        let style = match health {
            Health::Listening => Style::new(),
            Health::Deaf { head: true, .. } => theme.bad(),
            Health::Deaf { .. } | Health::Overdue => theme.warning(),
            Health::Unknown(_) => theme.dim(),
        };
        let line = format!("{}  {}", part::token(app, &visible(&waiter.id)), health.describe());
        page.item("waiting", &format!("{:>2}", index + 1), &line, style);
    }
    for client in &found.waiters.blocked {
        page.say("waiting", &format!("perhaps {}", part::blocked(app, client)), Style::new());
    }
    let fetched = found.waiters.queue.len() as u64;
    if let Some(count) = found.waiters.exact().filter(|count| fetched > 0 && *count > fetched) {
        page.say("waiting", &format!("and {} more behind them", count - fetched), theme.dim());
    }
}

/// What freeing it would run, and what the operator must know first.
pub fn freeing(app: &App, lock: &LockView, page: &mut Labelled) {
    if lock.verdict.state.is_free() {
        return;
    }
    let dead = app.page.closer.found.as_ref().map(|found| found.waiters.deaf()).unwrap_or_default();
    let hidden = |text: String| {
        let waiters = dead.iter().map(|id| visible(id)).collect();
        part::without(app, waiters, part::without_holders(app, lock, text))
    };
    match plan::preview(lock, &dead, app.scene.at) {
        Ok(Preview { commands, hazards }) => {
            page.say("freeing", &format!("{}.", Safe::of(lock).if_freed), Style::new());
            commands.into_iter().for_each(|command| page.say("freeing", &hidden(command), Style::new()));
            hazards.into_iter().for_each(|hazard| page.say("beware", &hidden(hazard), app.theme.warning()));
        }
        Err(why) => page.say("freeing", &hidden(why.to_string()), app.theme.dim()),
    }
}

pub fn before(app: &App, lock: &LockView, page: &mut Labelled) {
    if lock.past.is_empty() {
        return page.say("before", "no earlier hold was seen", app.theme.dim());
    }
    for hold in lock.past.iter().rev() {
        page.say("before", &past_line(app, hold), Style::new());
    }
    if let Some(usual) = &lock.usual {
        page.say("usual", &usual.describe(), Style::new());
    }
}

fn past_line(app: &App, hold: &Hold) -> String {
    let holder = hold.holder.as_ref().map_or("somebody".into(), |token| part::token(app, &token.to_string()));
    let least = if hold.exact { "" } else { "at least " };
    let held = short_duration(hold.until.since(hold.since).as_millis() as u64);
    let renewals = match hold.renewals {
        0 => String::new(),
        1 => ", 1 renewal".into(),
        count => format!(", {count} renewals"),
    };
    format!("{} {} after {least}{held}{renewals}, {holder}", part::clock(hold.until), hold.ending.name())
}

pub fn keys(app: &App, lock: &LockView, page: &mut Labelled) {
    let Some(found) = &app.page.closer.found else { return };
    if let Some(why) = &found.failed {
        return page.say("keys", &format!("unknown: {why}"), app.theme.dim());
    }
    let passed = app.scene.at.since(found.at);
    for key in &found.keys {
        let line = if key.key == lock.key && !lock.verdict.state.is_free() {
            // For the lock's own key the table is more recent than the inspection.
            key_line(key, Some(lock.ttl), Duration::ZERO)
        } else {
            key_line(key, key.ttl, passed) + &counter(app, key)
        };
        page.say("keys", &part::without_holders(app, lock, line), Style::new());
    }
    if found.keys.is_empty() {
        page.say("keys", "none of its keys exists", app.theme.dim());
    }
    if found.left_out > 0 {
        page.say("keys", &format!("and {} more that were not read", found.left_out), app.theme.dim());
    }
}

fn key_line(key: &Belonging, ttl: Option<Ttl>, passed: Duration) -> String {
    let ttl = match ttl {
        Some(Ttl::Never) => ", no TTL".into(),
        Some(Ttl::In(left)) => format!(", TTL {}", short_duration(left.saturating_sub(passed).as_millis() as u64)),
        None => String::new(),
    };
    format!("{} {}, {}{ttl}", key.key, key.value.type_name(), key.describe_length())
}

/// A short string key that belongs to a lock is a counter or a name, so its value is shown.
fn counter(app: &App, key: &Belonging) -> String {
    match &key.value {
        RawValue::Str { head, len: ..=32 } => format!(", {}", part::token(app, &visible(head))),
        _ => String::new(),
    }
}

pub fn value(app: &App, lock: &LockView, page: &mut Labelled) {
    let theme = app.theme;
    if app.display.private {
        return page.say("value", HIDDEN, theme.dim());
    }
    let texts = texts(&lock.value);
    let shortened = texts.iter().any(|parts| parts.iter().any(|part| part::token(app, part) != *part));
    for parts in texts.iter().take(ITEMS) {
        let parts: Vec<String> = parts.iter().map(|part| part::token(app, part)).collect();
        page.say("value", &parts.join(" = "), Style::new());
    }
    if let Some(rest) = rest(&lock.value, texts.len().min(ITEMS)) {
        page.say("value", &rest, theme.dim());
    }
    if shortened && let Some(key) = app.keys.presses(Command::Reveal, app.place()).next() {
        page.say("value", &format!("{key} shows it whole"), theme.dim());
    }
}

/// The printable parts of a value: a string, or the fields, members and scores.
fn texts(value: &RawValue) -> Vec<Vec<String>> {
    match value {
        RawValue::Str { head, .. } => vec![vec![visible(head)]],
        RawValue::Hash { fields, .. } => {
            fields.iter().map(|(field, value)| vec![visible(field), visible(value)]).collect()
        }
        RawValue::Zset { members, .. } => {
            members.iter().map(|(member, score)| vec![visible(member), score.to_string()]).collect()
        }
        RawValue::Set { members, .. } => members.iter().map(|member| vec![visible(member)]).collect(),
        RawValue::List { .. } | RawValue::Other(_) | RawValue::Unread { .. } => Vec::new(),
    }
}

/// What is not shown of a value.
fn rest(value: &RawValue, shown: usize) -> Option<String> {
    match value {
        RawValue::Str { head, len } if *len > head.len() as u64 => {
            Some(format!("the first {} of {len} bytes", head.len()))
        }
        RawValue::Str { .. } => None,
        RawValue::Hash { len, .. } | RawValue::Zset { len, .. } | RawValue::Set { len, .. } => {
            (*len > shown as u64).then(|| format!("and {} more", len - shown as u64))
        }
        RawValue::List { len } => Some(format!("a list of {len} elements")),
        RawValue::Other(name) => Some(format!("a {}", name.visible())),
        RawValue::Unread { why, .. } => Some(format!("not read: {}", harmless(why))),
    }
}

/// What it is, and how its library waits and renews.
pub fn library(app: &App, lock: &LockView, page: &mut Labelled) {
    let certainty = Certainty::of(lock.dialect_confidence).word();
    let what = format!("{} {}, {}", lock.mode.name(), lock.kind.name(), lock.type_name);
    page.say("library", &format!("{} ({certainty}), {what}", crate::output::columns::library(lock)), Style::new());
    let Some(id) = dialects::by_name(lock.dialect) else { return };
    let dialect = dialects::dialect(id);
    let waiting = dialect.waiting(&lock.sight(app.scene.at)).describe();
    page.say("library", &part::without_holders(app, lock, waiting), Style::new());
    page.say("library", &dialect.renewal().describe(lock.ttl), Style::new());
    page.say("confirmed", &format!("{} by {}", part::clock(lock.confirmed), lock.source.name()), app.theme.dim());
}
