//! `ls --csv`: a header and a row for each lock.
//!
//! Keys and tokens are escaped as people see and type them. Unknown values, and the TTL of a lock that never expires,
//! are empty cells. Spreadsheets run a cell that begins with `=`, `+`, `-` or `@`: such a sign is escaped, and
//! `key_base64` has the exact bytes of every key whose cell differs from them.

use std::io::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::Place;
use super::closer::rounded;
use crate::model::{HeldIs, LockView};

const HEADER: [&str; 28] = [
    "state",
    "key",
    "node",
    "db",
    "type",
    "kind",
    "dialect",
    "dialect_confidence",
    "mode",
    "holders",
    "ttl_ms",
    "lease_ms",
    "lease_is",
    "held_ms",
    "held_is",
    "renewals",
    "renewals_missed",
    "fencing_token",
    "confidence",
    "evidence",
    "stale",
    "waiters",
    "waiters_source",
    "attempts_per_s",
    "failures_per_s",
    "rates_source",
    "rates_coverage",
    "key_base64",
];

/// Writes the header and the locks in the order given.
pub fn write(out: &mut impl Write, locks: &[LockView], place: &Place) -> io::Result<()> {
    out.write_all(record(HEADER).as_bytes())?;
    for lock in locks {
        out.write_all(record(row(lock, place)).as_bytes())?;
    }
    out.flush()
}

/// One line of RFC 4180, with quotes only where they are needed.
pub(super) fn record<S: AsRef<str>, const N: usize>(cells: [S; N]) -> String {
    let quoted = |cell: &S| match cell.as_ref() {
        text if text.contains(['"', ',', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        text => text.to_string(),
    };
    let cells: Vec<String> = cells.iter().map(quoted).collect();
    cells.join(",") + "\n"
}

/// Escapes every sign that could begin a formula: at the start, and after a character that some spreadsheets take for
/// the end of a cell.
pub(super) fn cell(text: String) -> String {
    let runs = |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
    if !text.contains(runs) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 4);
    let mut begins = true;
    for c in text.chars() {
        match c {
            c if begins && c.is_ascii() && runs(c) => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if begins && runs(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
        begins = matches!(c, ',' | ';') || (begins && matches!(c, ' ' | '"' | '\''));
    }
    out
}

fn row(lock: &LockView, place: &Place) -> [String; HEADER.len()] {
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let rate = |rate: Option<f64>| rate.map(|rate| rounded(rate).to_string()).unwrap_or_default();
    let renewals = lock.renewals.as_ref();
    let exact = lock.waits.filter(|waits| !waits.at_least && !waits.is_at_most());
    let holders: Vec<String> = lock.holders.iter().map(|holder| holder.token.to_string()).collect();
    let key = cell(lock.key.to_string());
    let key_base64 =
        if key.as_bytes() == lock.key.as_bytes() { String::new() } else { BASE64_STANDARD.encode(lock.key.as_bytes()) };
    [
        lock.verdict.state.name().to_string(),
        key,
        cell(place.node(lock.node).into_owned()),
        place.db.to_string(),
        cell(lock.type_name.clone()),
        lock.kind.name().to_string(),
        lock.dialect.to_string(),
        lock.dialect_confidence.to_string(),
        lock.mode.name().to_string(),
        cell(holders.join(" ")),
        number(lock.ttl.remaining().map(|left| left.as_millis() as u64)),
        number(lock.lease_ms),
        lock.lease_is.map(HeldIs::name).unwrap_or_default().to_string(),
        number(lock.held_ms),
        lock.held_is.map(HeldIs::name).unwrap_or_default().to_string(),
        number(renewals.map(|renewals| renewals.count)),
        number(renewals.and_then(|renewals| renewals.missed)),
        number(lock.fencing_token),
        lock.verdict.confidence.to_string(),
        cell(lock.verdict.evidence.join("; ")),
        lock.stale.to_string(),
        number(exact.map(|waits| u64::from(waits.count))),
        exact.map(|waits| waits.source()).unwrap_or_default().to_string(),
        rate(lock.tries.and_then(|tries| tries.known_attempts_per_s())),
        rate(lock.tries.and_then(|tries| tries.known_failures_per_s())),
        lock.tries.map(|tries| tries.from.name()).unwrap_or_default().to_string(),
        rate(lock.tries.map(|tries| tries.coverage())),
        key_base64,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::sample;

    #[test]
    fn a_header_and_a_row_for_each_lock() {
        let mut out = Vec::new();
        let mut quoted = sample::unknown();
        quoted.key = crate::lock::Key::from("a,\"b\"");
        write(&mut out, &[sample::redisson(), sample::forever(), quoted], &Place::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[1],
            "held,lock:order:8841,0,0,hash,lock,redisson,0.97,exclusive,3f2a8c00-1111-4222-8333-444455556666:57,8140,30000,exact,\
             842000,exact,4,0,,0.97,,false,,,,,,,"
        );
        assert!(lines[2].starts_with("no-ttl,job-lock:\\xff\\n,"), "{}", lines[2]);
        assert!(lines[2].contains(",worker-7\\u{1b}[2J,,,,60000,at-least,,,"), "{}", lines[2]);
        assert!(lines[3].contains("\"a,\"\"b\"\"\""), "{}", lines[3]);
    }
}
