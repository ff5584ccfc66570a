//! `show` for people: one lock, everything known, a label and a line for each.

use std::io::{self, Write};

use serde::Serialize;

use super::columns::{self, held, library, paint, ttl};
use super::{Place, TextStyle};
use crate::base::text::{harmless, short_duration, visible};
use crate::base::time::{Time, Ttl};
use crate::dialects::Claim;
use crate::lock::{Holder, Kind, RawValue, Token};
use crate::model::{HeldIs, Hold, LockView, Presence};
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

/// Writes the page of a lock.
pub fn write(
    out: &mut impl Write,
    lock: &LockView,
    found: &Inspection,
    place: &Place,
    notes: &Notes,
    style: &TextStyle,
) -> io::Result<()> {
    let state = lock.verdict.state;
    let stale = if lock.stale { "  (stale: not confirmed since events went missing)" } else { "" };
    writeln!(out, "{}  {}{stale}", style.plain(lock.key.to_string()), style.painted(paint(state), state.label()))?;
    let mut lines: Vec<(&str, String)> = Vec::new();
    lines.push(("state", format!("{}, sure to {:.2}", state.name(), lock.verdict.confidence)));
    lines.extend(lock.verdict.evidence.iter().map(|sentence| ("evidence", harmless(sentence))));
    for finding in &lock.findings {
        let sentence = harmless(&finding.sentence);
        lines.push(("findings", format!("{}: {sentence} (sure to {:.2})", finding.name, finding.confidence)));
        lines.extend(finding.settle.as_ref().map(|settle| ("findings", format!("  to settle it: {settle}"))));
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
    lines.push(("waiters", found.waiters.describe()));
    lines.extend(found.waiters.in_order(0).enumerate().map(|(index, queued)| ("waiters", waiter_line(index, &queued))));
    lines.push(("value", value_line(&lock.value)));
    lines.extend(found.keys.iter().map(|key| ("keys", key_line(key))));
    lines.push(("confirmed", format!("{} by {}", lock.confirmed.rfc3339(), lock.source.name())));
    lines.extend(lock.past.iter().rev().map(|hold| ("before", past_line(hold))));
    lines.extend(lock.usual.as_ref().map(|usual| ("usual", usual.describe())));
    for (label, sentences) in [("waiting", &notes.waiting), ("renewing", &notes.renewal), ("freeing", &notes.release)] {
        lines.extend(sentences.iter().map(|sentence| (label, harmless(sentence))));
    }
    let mut last = "";
    for (label, text) in lines {
        let shown = if label == last { "" } else { label };
        writeln!(out, "  {shown:<10} {}", style.plain(text))?;
        last = label;
    }
    Ok(())
}

fn library_line(lock: &LockView) -> String {
    let mut line = format!("{} ({:.2})", library(lock), lock.dialect_confidence);
    if let Some((dialect, confidence)) = lock.second_choice {
        line.push_str(&format!(", or else {dialect} ({confidence:.2})"));
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
    let Some(renewals) = &lock.renewals else { return "not known; nothing was watched long enough".into() };
    let mut parts = vec![renewals.count.to_string()];
    parts.extend(renewals.last_ms.map(|ms| format!("last {} ago", short_duration(ms))));
    parts.extend(renewals.period_ms.map(|ms| format!("every {}", short_duration(ms))));
    parts.extend(renewals.expected_ms.map(|ms| format!("the library's own period is {}", short_duration(ms))));
    parts.extend(renewals.missed.map(|missed| format!("{missed} missed")));
    parts.extend(renewals.due_words());
    parts.join(", ")
}

fn value_line(value: &RawValue) -> String {
    match value {
        RawValue::Str { head, len } => {
            let shown = &head[..head.len().min(VALUE_SHOWN)];
            let more = if shown.len() as u64 == *len { String::new() } else { format!(" … {len} bytes in all") };
            format!("{}{more}", visible(shown))
        }
        RawValue::Hash { len, .. } => format!("a hash of {len} fields"),
        RawValue::Zset { len, .. } => format!("a sorted set of {len} members"),
        RawValue::Set { len, .. } => format!("a set of {len} members"),
        RawValue::List { len } => format!("a list of {len} elements"),
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
        write(&mut out, lock, &sample::inspection(), &Place::default(), notes, &style).unwrap();
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
  state      held, sure to 0.97
  library    redisson (0.97)
  type       hash, exclusive lock
  node       0, database 0
  holder     3f2a8c00-1111-4222-8333-444455556666:57, thread 57, count 2
  client     not known: a burst of MONITOR would show it
  held       14m02s
  ttl        8.1s
  lease      30.0s
  renewals   4, last 1.8s ago, every 10.0s, the library's own period is 10.0s, 0 missed, next due in 3.1s, ±200ms
  waiters    2 in the queue redisson_lock_queue:{lock:order:8841}, 1 of them not listening
              1 9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9, not listening: dead head, blocks all for 3m00s
              2 \\xff, listening
  value      a hash of 1 fields
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
        let told = "findings   orphan-suspected: held for 11m40s\\u{1b} without a TTL (sure to 0.50)\n";
        assert!(text.contains(told) && text.contains("  to settle it: a burst of MONITOR would show it\n"), "{text}");
        assert!(text.contains("next due in 3.1s, +/-200ms") && text.is_ascii(), "{text}");
    }

    #[test]
    fn a_guess_and_the_unknown_are_called_so() {
        let text = page(&sample::forever(), &Notes::default(), TextStyle::default());
        for part in [
            "evidence   it has no TTL",
            "plain? (0.45), or else redsync (0.40); say how to read it with --dialect",
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
