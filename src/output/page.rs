//! `show` for people: one lock, everything known, a label and a line for each.

use std::io::{self, Write};

use serde::Serialize;

use super::columns::{self, held, library, paint, ttl};
use super::{FREE_IT, Place, TextStyle, tree};
use crate::base::text::{counted, harmless, short_duration, visible, wrap};
use crate::base::time::{Time, Ttl};
use crate::dialects::Claim;
use crate::lock::{Holder, Kind, RawValue, Token};
use crate::model::why::Monitor;
use crate::model::{Certainty, HeldIs, Hold, LockView, Presence, Safe, Why};
use crate::sources::inspect::{Belonging, Inspection};
use crate::sources::waiters::{Health, Waiter};

/// What the lock's library says about waiting for it, renewing it and freeing it, as sentences.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Notes {
    pub waiting: Vec<String>,
    pub renewal: Vec<String>,
    pub release: Vec<String>,
}

/// Longer values are cut; `--json` has them.
const VALUE_SHOWN: usize = 200;
/// The width of a label.
const LABEL: usize = 10;

/// Writes the page of a lock.
pub fn write(
    out: &mut impl Write,
    lock: &LockView,
    found: &Inspection,
    place: &Place,
    notes: &Notes,
    (style, again): (&TextStyle, &str),
) -> io::Result<()> {
    let state = lock.verdict.state;
    let safe = Safe::of(lock).with_waiting(found.waiters.beside(lock).in_short());
    let stale = if lock.stale { "  (stale: not confirmed since events went missing)" } else { "" };
    writeln!(
        out,
        "{}  {}{stale}",
        style.plain(lock.key.to_string()),
        style.painted(paint(state), &lock.state_label())
    )?;
    let mut lines: Vec<(&str, String)> = Vec::new();
    lines.push(("state", lock.state_words()));
    lines.extend(lock.verdict.evidence.iter().map(|sentence| ("evidence", harmless(sentence))));
    if let Some(liveness) = &lock.liveness {
        lines.push(("liveness", liveness.sentence()));
        lines.extend(settle_line("liveness", &liveness.settle, again));
    }
    lines.push((FREE_IT, safe.sentence()));
    for finding in &lock.findings {
        let (sentence, certainty) = (harmless(&finding.sentence), Certainty::of(finding.confidence).word());
        lines.push(("findings", format!("{}: {sentence} ({certainty})", finding.name)));
        lines.extend(settle_line("findings", &finding.settle, again));
    }
    lines.push(("library", library_line(lock)));
    let what = format!("{}, {} {}", lock.type_name, lock.mode.name(), lock.kind.name());
    lines.push(("type", harmless(&what)));
    lines.push(("node", format!("{}, database {}", place.node(lock.node), place.db)));
    if lock.holders.is_empty() && lock.kind == Kind::Lock {
        lines.push(("holder", "not known".into()));
    }
    for (index, holder) in lock.holders.iter().enumerate() {
        lines.push(("holder", holder_line(holder)));
        let presence = lock.presence.get(index).unwrap_or(&Presence::Unknown);
        lines.push(("client", presence.describe(lock.at)));
    }
    lines.push(("held", held_line(lock)));
    lines.push(("ttl", ttl(lock)));
    lines.push(("lease", lease_line(lock)));
    lines.push(("renewals", renewals_line(lock)));
    lines.extend(lock.fencing_token.map(|token| ("fencing", token.to_string())));
    let related = if lock.kind == Kind::Marker { "lock" } else { "marker" };
    lines.extend(lock.related.as_ref().map(|key| (related, key.to_string())));
    lines.push(("waiters", found.waiters.beside(lock).describe()));
    lines.extend(found.waiters.in_order(0).enumerate().map(|(index, queued)| ("waiters", waiter_line(index, &queued))));
    let blocked = found.waiters.blocked.iter().map(|client| format!("perhaps {}", client.describe_blocked(lock.at)));
    lines.extend(blocked.map(|line| ("waiters", line)));
    lines.push(("value", value_line(&lock.value)));
    lines.extend(found.keys.iter().map(|key| ("keys", key_line(key))));
    lines.push(("confirmed", format!("{} by {}", lock.confirmed.rfc3339(), lock.source.name())));
    lines.extend(lock.past.iter().rev().map(|hold| ("before", past_line(hold))));
    lines.extend(lock.usual.as_ref().map(|usual| ("usual", usual.describe())));
    for (label, sentences) in [("waiting", &notes.waiting), ("renewing", &notes.renewal), ("freeing", &notes.release)] {
        lines.extend(sentences.iter().map(|sentence| (label, harmless(sentence))));
    }
    write_lines(out, lines, LABEL, style)
}

/// What would settle a doubt, as a line below it.
fn settle_line(label: &'static str, settle: &Option<String>, again: &str) -> Option<(&'static str, String)> {
    let by = || Monitor::Command(again.to_string());
    settle.as_ref().map(|settle| (label, format!("  to settle it: {}", by().told(settle))))
}

/// Writes the derivation of a lock's verdict, and what follows for freeing it.
pub fn write_why(
    out: &mut impl Write,
    lock: &LockView,
    found: &Inspection,
    why: &Why,
    (style, again): (&TextStyle, &str),
) -> io::Result<()> {
    let (state, certainty) = (why.state, why.certainty.word());
    let key = style.plain(lock.key.to_string());
    writeln!(out, "{key}  {} ({certainty})", style.painted(paint(state), state.label()))?;
    tree::lines(why, style.width, style.ascii, &Monitor::Command(again.to_string()), |text| text)
        .iter()
        .try_for_each(|line| writeln!(out, "{line}"))?;
    let safe = Safe::of(lock).with_waiting(found.waiters.beside(lock).in_short());
    write_lines(out, vec![(FREE_IT, safe.sentence())], FREE_IT.len(), style)
}

/// Lines behind labels of this width, broken at words where a terminal says how wide it is. A label that is printed above is
/// not repeated.
pub fn write_lines(
    out: &mut impl Write,
    lines: Vec<(&str, String)>,
    label_width: usize,
    style: &TextStyle,
) -> io::Result<()> {
    let room = style.width.map(|width| width.saturating_sub(label_width + 3));
    let mut last = "";
    for (label, text) in lines {
        for part in wrap(&style.plain(text), room) {
            let shown = if label == last { "" } else { label };
            writeln!(out, "  {shown:<label_width$} {part}")?;
            last = label;
        }
    }
    Ok(())
}

fn library_line(lock: &LockView) -> String {
    let mut line = format!("{} ({})", library(lock), Certainty::of(lock.dialect_confidence).word());
    if let Some((dialect, _)) = lock.second_choice {
        line.push_str(&format!(", or else {dialect}"));
    }
    if lock.dialect_confidence < Claim::SURE {
        line.push_str("; say how to read it with --dialect NAME=GLOB");
    }
    line
}

/// Every part that is known. The token is whole: it is what an operator compares with an application's log.
fn holder_line(holder: &Holder) -> String {
    let mut parts = vec![holder.token.to_string()];
    let texts = [("host", &holder.host), ("thread", &holder.thread), ("client", &holder.client)];
    parts
        .extend(texts.iter().filter_map(|(name, text)| text.as_ref().map(|text| format!("{name} {}", text.visible()))));
    parts.extend(holder.pid.map(|pid| format!("pid {pid}")));
    parts.extend(holder.count.map(|count| format!("count {count}")));
    parts.extend(holder.mode.map(|mode| mode.name().to_string()));
    parts.extend(holder.since.map(|since| format!("since {}", since.rfc3339())));
    parts.extend(holder.until.map(|until| format!("until {}", until.rfc3339())));
    parts.join(", ")
}

fn lease_line(lock: &LockView) -> String {
    let by = if lock.lease_is == Some(HeldIs::Estimated) { ", by the time in its value" } else { "" };
    lock.lease_words().map_or("not known".into(), |words| format!("{words}{by}"))
}

fn held_line(lock: &LockView) -> String {
    let why = match lock.held_is {
        _ if held(lock) == "?" => return "not known; 'lockscope watch' sees the next hold from its start".into(),
        Some(HeldIs::AtLeast) => " (it was there already when we first looked)",
        Some(HeldIs::Estimated) => " (by the holder's own clock)",
        Some(HeldIs::Exact) | None => "",
    };
    format!("{}{why}", held(lock))
}

fn renewals_line(lock: &LockView) -> String {
    let Some(renewals) = &lock.renewals else { return "not known yet: it was not watched long enough".into() };
    renewals.describe()
}

fn value_line(value: &RawValue) -> String {
    match value {
        RawValue::Str { head, len } => {
            let shown = &head[..head.len().min(VALUE_SHOWN)];
            let more = if shown.len() as u64 == *len { String::new() } else { format!(" … {len} bytes in all") };
            format!("{}{more}", visible(shown))
        }
        RawValue::Hash { len, .. } => format!("a hash of {}", counted(*len, "field")),
        RawValue::Zset { len, .. } => format!("a sorted set of {}", counted(*len, "member")),
        RawValue::Set { len, .. } => format!("a set of {}", counted(*len, "member")),
        RawValue::List { len } => format!("a list of {}", counted(*len, "element")),
        RawValue::Other(name) => format!("a {}", name.visible()),
        RawValue::Unread { why, .. } => format!("not read: {}", harmless(why)),
    }
}

fn waiter_line(index: usize, (waiter, health): &(&Waiter, Health)) -> String {
    format!("{:>2} {}, {}", index + 1, visible(&waiter.id), health.describe())
}

fn key_line(key: &Belonging) -> String {
    let lives = match key.ttl {
        Some(left @ Ttl::In(_)) => format!(", TTL {}", columns::left(left)),
        Some(Ttl::Never) => ", no TTL".into(),
        None => String::new(),
    };
    format!("{} {}, {}{lives}", key.key, key.value.type_name(), key.describe_length())
}

fn past_line(hold: &Hold) -> String {
    let holder = hold.holder.as_ref().map_or("somebody".to_string(), Token::to_string);
    let least = if hold.exact { "" } else { "at least " };
    let Time(until) = hold.until;
    let ms = until.saturating_sub(hold.since.0).max(0) as u64;
    let renewals = if hold.renewals == 1 { "1 renewal".into() } else { format!("{} renewals", hold.renewals) };
    format!("{} {} after {least}{}, {renewals}, {holder}", hold.until.rfc3339(), hold.ending.name(), short_duration(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Finding;
    use crate::testkit::sample;

    fn page(lock: &LockView, notes: &Notes, style: TextStyle) -> String {
        let mut out = Vec::new();
        write(&mut out, lock, &sample::inspection(), &Place::default(), notes, (&style, "")).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_page_tells_everything_that_is_known() {
        let notes = Notes {
            waiting: vec!["waiters listen on a channel".into()],
            renewal: vec!["a watchdog renews it".into()],
            release: vec!["DEL lock:order:8841".into(), "PUBLISH it".into()],
        };
        let text = page(&sample::redisson(), &notes, TextStyle::default());
        let expected = "\
lock:order:8841  HELD
  state      held (certain); its holder lives
  liveness   its holder lives: renewed 1.8s ago
  free it?   no; ask the owner: it is renewing. HELD (certain), renewed 1.8s ago, client not known, 2 wait. If its holder \
             lives, its watchdog stops, and its unlock() throws IllegalMonitorStateException.
  library    redisson (certain)
  type       hash, exclusive lock
  node       0, database 0
  holder     3f2a8c00-1111-4222-8333-444455556666:57, thread 57, count 2
  client     not known; MONITOR shows it once its holder sends a command
  held       14m02s
  ttl        8.1s
  lease      30.0s
  renewals   4 seen, one every 10.0s, last 1.8s ago, next due in 3.1s, ±200ms; the library would renew every 10.0s
  waiters    2 in the queue redisson_lock_queue:{lock:order:8841}, 1 of them not listening
              1 9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9, not listening: dead head, blocks all for 3m00s
              2 \\xff, listening
  value      a hash of 1 field
  keys       lock:order:8841 hash, 1 element, TTL 8.1s
             redisson_lock_queue:{lock:order:8841} list, 2 elements, no TTL
             redisson_lock_token:{lock:order:8841} unknown, not read: NOPERM
  confirmed  2026-09-21T14:28:20.000Z by notification
  before     2026-09-21T14:13:25.000Z released after 5.0s, 0 renewals, older:1
  waiting    waiters listen on a channel
  renewing   a watchdog renews it
  freeing    DEL lock:order:8841
             PUBLISH it
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn findings_come_with_what_would_settle_them() {
        let finding = Finding {
            name: "orphan-suspected",
            sentence: "held for 11m40s\u{1b} without a TTL".into(),
            confidence: 0.5,
            settle: Some("a burst of MONITOR would show it".into()),
        };
        let lock = LockView { findings: vec![finding], ..sample::redisson() };
        let text = page(&lock, &Notes::default(), TextStyle { ascii: true, ..TextStyle::default() });
        let finding = "findings   orphan-suspected: held for 11m40s\\u{1b} without a TTL (guess)\n";
        assert!(
            text.contains(finding) && text.contains("  to settle it: a burst of MONITOR would show it\n"),
            "{text}"
        );
        assert!(text.contains("next due in 3.1s, +/-200ms") && text.is_ascii(), "{text}");
    }

    #[test]
    fn a_guess_and_the_unknown_are_called_so() {
        let text = page(&sample::forever(), &Notes::default(), TextStyle::default());
        for part in [
            "evidence   it has no TTL",
            "plain? (guess), or else redsync; say how to read it with --dialect",
            "ttl        never",
            "lease      not known",
            "renewals   not known",
            "≥1m00s (it was there already when we first looked)",
            "value      worker-7\\u{1b}[2J",
            "host 10.0.3.7, pid 4242",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        let text = page(&sample::unknown(), &Notes::default(), TextStyle::default());
        assert!(text.contains("holder     not known") && text.contains("held       not known"), "{text}");
        assert!(
            page(&sample::unknown(), &Notes::default(), TextStyle { ascii: true, ..TextStyle::default() }).is_ascii()
        );
    }
}
