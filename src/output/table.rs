//! The table of `ls` for people: aligned, and fitted to the terminal if there is one.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::TextStyle;
use super::columns::paint;
use crate::base::text::fit_marked;
use crate::model::Column;
use crate::model::LockView;

const GAP: usize = 2;

/// Without a terminal nothing is cut. A longer cell only shifts its own line, so that one huge name does not pad all others.
const ALIGNED: usize = 100;

/// The smallest width of a column that may be cut; `None` for the others.
fn least(column: Column) -> Option<usize> {
    match column {
        Column::Key => Some(20),
        Column::Holder => Some(10),
        _ => None,
    }
}

/// Columns that are dropped, in this order, if the terminal is too narrow.
const DROPPED: [Column; 6] =
    [Column::Lease, Column::Fail, Column::Wait, Column::Renewals, Column::Library, Column::Held];

/// Writes a header and a line for each lock, in the order given.
pub fn write(out: &mut impl Write, locks: &[LockView], style: &TextStyle) -> io::Result<()> {
    let columns = layout(locks, style);
    let mark = style.width.map(|_| if style.ascii { '~' } else { '…' });
    let title = |column: Column| column.title().to_string();
    line(out, &columns, mark, |column| (title(column), ""))?;
    for lock in locks {
        line(out, &columns, mark, |column| {
            let code = if style.color && column == Column::State { paint(lock.verdict.state) } else { "" };
            (column.cell(lock, style), code)
        })?;
    }
    Ok(())
}

fn line(
    out: &mut impl Write,
    columns: &[(Column, usize)],
    mark: Option<char>,
    cell: impl Fn(Column) -> (String, &'static str),
) -> io::Result<()> {
    for (index, &(column, width)) in columns.iter().enumerate() {
        let (text, code) = cell(column);
        let text = match mark {
            Some(mark) => fit_marked(&text, width, mark),
            None => text,
        };
        let padding = width.saturating_sub(text.width());
        let is_last = index + 1 == columns.len();
        let text = if code.is_empty() { text } else { format!("\x1b[{code}m{text}\x1b[0m") };
        match (column.is_number(), is_last) {
            (true, _) => write!(out, "{:padding$}{text}", "")?,
            (false, true) => write!(out, "{text}")?,
            (false, false) => write!(out, "{text}{:padding$}", "")?,
        }
        out.write_all(if is_last { b"\n" } else { &b"  "[..GAP] })?;
    }
    Ok(())
}

/// Which columns are shown, and how wide each is.
fn layout(locks: &[LockView], style: &TextStyle) -> Vec<(Column, usize)> {
    let natural = |column: Column| {
        let cells = locks.iter().map(|lock| column.cell(lock, style).width());
        cells.max().unwrap_or(0).max(column.title().len())
    };
    // Rates are rarely known; without any, their column is left out.
    let rated = locks.iter().any(|lock| lock.tries.is_some());
    let shown = Column::ALL.iter().filter(|column| rated || **column != Column::Fail);
    let mut columns: Vec<(Column, usize)> = shown.map(|&column| (column, natural(column))).collect();
    let Some(width) = style.width else {
        return columns.into_iter().map(|(column, natural)| (column, natural.min(ALIGNED))).collect();
    };
    let needed = |columns: &[(Column, usize)], cut: bool| -> usize {
        let widths = columns.iter().map(|&(column, natural)| match least(column) {
            Some(least) if cut => natural.min(least),
            _ => natural,
        });
        widths.sum::<usize>() + GAP * (columns.len() - 1)
    };
    for column in DROPPED {
        if needed(&columns, true) > width {
            columns.retain(|(shown, _)| *shown != column);
        }
    }
    // The holder is cut before the key.
    for column in [Column::Holder, Column::Key] {
        let over = needed(&columns, false).saturating_sub(width);
        if let Some((_, natural)) = columns.iter_mut().find(|(shown, _)| *shown == column) {
            *natural -= over.min(natural.saturating_sub(least(column).unwrap_or(0)));
        }
    }
    // Still too narrow: drops columns from the end, and keeps the state and as much of the key as fits.
    while columns.len() > 2 && needed(&columns, false) > width {
        columns.pop();
    }
    if let [(_, state), (_, key)] = columns.as_mut_slice() {
        *key = (*key).min(width.saturating_sub(*state + GAP)).max(1);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::sample;

    fn table(locks: &[LockView], style: TextStyle) -> String {
        let mut out = Vec::new();
        write(&mut out, locks, &style).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn all() -> Vec<LockView> {
        vec![sample::forever(), sample::redisson(), sample::unknown()]
    }

    #[test]
    fn a_pipe_gets_everything() {
        let text = table(&all(), TextStyle::default());
        let expected = "\
STATE   KEY              LIBRARY   HOLDER                                     HELD    TTL  LEASE  RENEWALS  WAIT
NO-TTL  job-lock:\\xff\\n  plain?    worker-7\\u{1b}[2J 10.0.3.7 pid 4242      ≥1m00s  never      ?  ?            ?
HELD    lock:order:8841  redisson  3f2a8c00-1111-4222-8333-444455556666:57  14m02s   8.1s  30.0s  4            ?
HELD    锁:cart          redisson  ?                                             ?   8.1s      ?  ?            ?
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn one_huge_name_is_whole_in_a_pipe_and_pads_no_other_line() {
        let mut locks = all();
        let name = "lock:".to_string() + &"x".repeat(5_000);
        locks[0].key = crate::lock::Key::from(name.as_str());
        let text = table(&locks, TextStyle::default());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains(&name), "nothing is cut");
        assert!(lines[2..].iter().all(|line| line.width() < 300), "{text}");
    }

    #[test]
    fn a_terminal_gets_what_fits() {
        for width in [1, 5, 20, 40, 60, 80, 100, 200] {
            let text = table(&all(), TextStyle { width: Some(width), ..TextStyle::default() });
            assert_eq!(text.lines().count(), 4);
            for line in text.lines() {
                assert!(line.width() <= width.max(10), "{width}: {line:?}");
            }
        }
        let mut locks = all();
        locks[1].key = crate::lock::Key::from("lock:customer:order:8841:invoice");
        let text = table(&locks, TextStyle { width: Some(80), ..TextStyle::default() });
        assert!(text.contains("RENEWALS") && !text.contains("LEASE") && text.contains("3f2a8c00…"), "\n{text}");
    }

    #[test]
    fn colour_only_repeats_the_word() {
        let text = table(&all(), TextStyle { color: true, ..TextStyle::default() });
        assert!(text.contains("\x1b[1;35mNO-TTL\x1b[0m"), "{text}");
        let bare = text.replace("\x1b[1;35m", "").replace("\x1b[32m", "").replace("\x1b[0m", "");
        assert_eq!(bare, table(&all(), TextStyle::default()));
    }

    #[test]
    fn ascii_is_ascii() {
        assert!(table(&all(), TextStyle { ascii: true, width: Some(60), ..TextStyle::default() }).is_ascii());
    }

    #[test]
    fn no_locks_leave_a_header() {
        assert_eq!(table(&[], TextStyle::default()).lines().count(), 1);
    }

    #[test]
    fn a_reader_that_left_is_an_error_and_no_panic() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let why = write(&mut Gone, &all(), &TextStyle::default()).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::BrokenPipe);
    }
}
