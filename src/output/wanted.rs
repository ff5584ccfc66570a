//! The table of `contention`: the demand for each lock, and the source of each number.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::TextStyle;
use super::columns::{attempts, fail, holders, library, rate, wait};
use crate::base::text::fit_marked;
use crate::model::{Contender, LockView, WaitsAt};

const TITLES: [&str; 7] = ["KEY", "LIBRARY", "HOLDER", "WAIT", "ATT/S", "FAIL/S", "TOP CONTENDER"];
/// Columns and their smallest widths, cut in this order on a narrow terminal.
const CUT: [(usize, usize); 3] = [(6, 13), (2, 10), (0, 20)];
const GAP: usize = 2;

/// Failures a second, with their source and margin of error: `4.2~m ±0.6`.
fn failures(lock: &LockView) -> String {
    let known = lock.tries.filter(|tries| tries.known_failures_per_s().is_some());
    let margin = known.map(|tries| tries.margin_per_s).filter(|margin| *margin > 0.0);
    format!("{}{}", fail(lock), margin.map(|margin| format!(" ±{}", rate(margin))).unwrap_or_default())
}

/// Writes a header and a line for each lock, in the order given.
pub fn write(out: &mut impl Write, locks: &[LockView], style: &TextStyle) -> io::Result<()> {
    let cells = |lock: &LockView| {
        let wait = match lock.waits {
            Some(waits) if waits.count == 1 && waits.at == WaitsAt::Channel => format!("{} subscriber", wait(lock)),
            Some(waits) => format!("{} {}", wait(lock), waits.source()),
            None => wait(lock),
        };
        let holder = if lock.verdict.state.is_free() { "free".into() } else { holders(lock, style) };
        let texts =
            [lock.key.to_string(), library(lock), holder, wait, attempts(lock), failures(lock), top(lock, style)];
        texts.map(|text| style.plain(text).into_owned())
    };
    let rows: Vec<[String; 7]> = std::iter::once(TITLES.map(String::from)).chain(locks.iter().map(cells)).collect();
    let mut widths = [0; TITLES.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(room) = style.width {
        for (column, least) in CUT {
            let over = (widths.iter().sum::<usize>() + GAP * (TITLES.len() - 1)).saturating_sub(room);
            widths[column] -= over.min(widths[column].saturating_sub(least));
        }
    }
    let mark = if style.ascii { '~' } else { '…' };
    for row in rows {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = fit_marked(cell, width, mark);
            let padding = " ".repeat(width - cell.width().min(width));
            // Rates are right-aligned.
            let is_number = matches!(index, 4 | 5);
            line.push_str(&if is_number { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") });
        }
        let line = line.trim_end();
        let line = style.width.map_or(line.to_string(), |room| fit_marked(line, room, mark));
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The client with the most failures.
fn top(lock: &LockView, style: &TextStyle) -> String {
    let rank = |one: &&Contender| (one.failures, one.attempts);
    let Some(top) = lock.contenders.iter().filter(|one| one.failures > 0).max_by_key(rank) else {
        return if lock.tries.is_some() { "—" } else { "?" }.into();
    };
    let token = top.token.as_ref().map(|token| style.token(&token.to_string()));
    let address = top.address.as_ref().map(|address| address.to_string());
    let name: Vec<String> = [token, address].into_iter().flatten().collect();
    format!("{} ({} of {} lost)", name.join(" "), top.failures, top.attempts)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::time::Time;
    use crate::filter::{Filter, Subject};
    use crate::lock::Token;

    use crate::model::{Address, State, Tokens, Tries, TriesFrom, Waits};
    use crate::testkit::sample;

    fn tries(failures: u64, unjudged: u64) -> Tries {
        Tries {
            attempts: failures + unjudged + 1,
            failures,
            unjudged,
            unclear: 0,
            looked: Duration::from_secs(5),
            span: Duration::from_secs(10),
            margin_per_s: 0.62,
            from: TriesFrom::Sampled,
            at: Time(0),
        }
    }

    fn wanted() -> Vec<LockView> {
        let (mut hot, mut unjudged, calm) = (sample::redisson(), sample::forever(), sample::unknown());
        hot.tries = Some(tries(21, 0));
        hot.demand.waiting = 6;
        unjudged.demand.polled = true;
        hot.waits = Some(Waits { count: 6, at: WaitsAt::Channel, at_least: false, dead_heads: None, counted: Time(0) });
        hot.contenders.push(Contender {
            token: Some(Token::from(&b"worker-9\x1b[2J"[..])),
            address: Address::parse("10.0.3.7:51322"),
            first: Time(0),
            last: Time(0),
            attempts: 14,
            failures: 13,
            won: None,
            passed_over: 2,
            tokens: Tokens::default(),
        });
        unjudged.tries = Some(tries(0, 9));
        vec![calm, unjudged, hot]
    }

    #[test]
    fn each_number_has_its_source_and_unknown_is_no_zero() {
        let mut locks = wanted();
        locks.sort_by(crate::model::order::hardest_first);
        let mut out = Vec::new();
        write(&mut out, &locks, &TextStyle::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("KEY") && lines[0].ends_with("TOP CONTENDER"), "\n{text}");
        assert!(
            lines[1].contains("6 subscribers  4.4~m  4.2~m ±0.6  worker-9\\u{1b}[2J 10.0.3.7:51322 (13 of 14 lost)"),
            "\n{text}"
        );
        assert!(lines[2].contains("2.0~m           ?  —"), "\n{text}");
        assert!(lines[3].ends_with("?                  ?           ?  ?"), "\n{text}");
        let mut counted = tries(3, 0);
        (counted.from, counted.margin_per_s) = (TriesFrom::Counted, 0.0);
        locks[0].tries = Some(counted);
        assert_eq!((attempts(&locks[0]), failures(&locks[0])), ("0.8=c".into(), "0.6=c".into()));
    }

    #[test]
    fn outcomes_that_nobody_knows_are_no_zero_in_lists_filters_and_orders() {
        let [_, unjudged, hot] = wanted().try_into().unwrap();
        assert_eq!((fail(&unjudged), fail(&hot)), ("?".into(), "4.2~m".into()));
        assert_eq!((unjudged.failures_rank(), hot.failures_rank()), (None, Some(4_200)));
        let rare: Filter = "fail<5".parse().unwrap();
        assert!(!rare.matches(&Subject::from(&unjudged)) && rare.matches(&Subject::from(&hot)));
    }

    #[test]
    fn a_lock_that_nobody_holds_is_free() {
        let mut lock = sample::unknown();
        lock.verdict.state = State::Free;
        let mut out = Vec::new();
        write(&mut out, &[lock], &TextStyle::default()).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("redisson  free"));
    }

    #[test]
    fn a_terminal_gets_what_fits() {
        for width in [10, 40, 80, 120] {
            let mut out = Vec::new();
            write(&mut out, &wanted(), &TextStyle { width: Some(width), ascii: true, ..TextStyle::default() }).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.is_ascii() && text.lines().all(|line| line.width() <= width), "{width}\n{text}");
        }
    }
}
