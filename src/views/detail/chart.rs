//! Draws the timeline: the sawtooth of the remaining lease, and beneath it the renewals that were due and those that
//! came, on the same axis.
//!
//! ```text
//!         30.0s │█▆▅▃ █▆▅▃ █▆▅▃·
//!               │████▄████▄█████···
//!            0s └──────────────┬────────
//!  expected     │   │    │    │    ╵
//!  seen         │   │    │    ×
//!                41.0s ago    now  +15.8s
//! ```

use ratatui::text::{Line, Span};

use crate::app::theme::Theme;
use crate::base::text::short_duration;
use crate::output::Sawtooth;
use crate::views::part::LABEL;

/// What a column of the sawtooth shows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Bar {
    /// Unknown at that time.
    Open,
    /// This share of the lease was left.
    Was(f64),
    /// This share will be left, unless somebody renews it.
    Ahead(f64),
}

/// All lines of the chart, `width` columns wide; the sawtooth is `height` lines high.
pub fn lines(timeline: &Sawtooth, width: usize, height: usize, theme: Theme) -> Vec<Line<'static>> {
    let width = width.saturating_sub(LABEL + 2);
    let bars = bars(timeline, width);
    let lease = short_duration(timeline.lease.as_millis() as u64);
    let wall = theme.sign("│", "|");
    let mut lines = Vec::new();
    for row in 0..height {
        let label = if row == 0 { lease.as_str() } else { "" };
        let cells: String = bars.iter().map(|bar| cell(*bar, row, height, theme)).collect();
        let now = timeline.column(timeline.now, width).map_or(0, |column| column + 1);
        let (past, ahead) = split(&cells, now);
        lines.push(Line::from(vec![
            Span::styled(format!("{label:>LABEL$}"), theme.dim()),
            Span::styled(wall.to_string(), theme.dim()),
            Span::styled(past, theme.accent()),
            Span::styled(ahead, theme.dim()),
        ]));
    }
    lines.push(axis(timeline, width, theme));
    lines.extend(strip(timeline, width, theme));
    lines.push(scale(timeline, width, theme));
    lines
}

fn bars(timeline: &Sawtooth, width: usize) -> Vec<Bar> {
    let now = timeline.column(timeline.now, width);
    let bar = |column| match timeline.share_left(timeline.moment(column, width)) {
        None => Bar::Open,
        Some(share) if now.is_none_or(|now| column <= now) => Bar::Was(share),
        Some(share) => Bar::Ahead(share),
    };
    (0..width).map(bar).collect()
}

/// One cell of a bar; row 0 is the top.
fn cell(bar: Bar, row: usize, height: usize, theme: Theme) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 9] = [' ', '.', '.', '.', ':', ':', ':', '#', '#'];
    let below = height - 1 - row;
    match bar {
        Bar::Open => ' ',
        Bar::Was(share) => {
            // A remainder above zero always shows.
            let eighths = ((share * height as f64 * 8.0).round() as usize).max(usize::from(share > 0.0));
            let level = eighths.saturating_sub(below * 8).min(8);
            if theme.ascii { ASCII[level] } else { BLOCKS[level] }
        }
        Bar::Ahead(share) => {
            let at = ((share * height as f64) as usize).min(height - 1);
            match (at == below, theme.ascii) {
                (false, _) => ' ',
                (true, false) => '·',
                (true, true) => '.',
            }
        }
    }
}

fn axis(timeline: &Sawtooth, width: usize, theme: Theme) -> Line<'static> {
    let (corner, line, now) = if theme.ascii { ("+", '-', '+') } else { ("└", '─', '┬') };
    let here = timeline.column(timeline.now, width);
    let cells: String = (0..width).map(|column| if Some(column) == here { now } else { line }).collect();
    Line::styled(format!("{:>LABEL$}{corner}{cells}", "0s"), theme.dim())
}

/// The renewals that were due above those that came.
fn strip(timeline: &Sawtooth, width: usize, theme: Theme) -> Vec<Line<'static>> {
    if timeline.expected.is_empty() && timeline.beats.is_empty() {
        return Vec::new();
    }
    let (beat, ahead, missed) = if theme.ascii { ('|', ':', 'x') } else { ('│', '╵', '×') };
    let mut due = vec![' '; width];
    let mut seen = vec![(' ', false); width];
    for expected in &timeline.expected {
        let Some(column) = timeline.column(expected.at, width) else { continue };
        due[column] = if expected.at > timeline.now { ahead } else { beat };
        if expected.missed {
            seen[column] = (missed, true);
        }
    }
    for at in &timeline.beats {
        if let Some(column) = timeline.column(*at, width) {
            seen[column] = (beat, false);
        }
    }
    let row = |label: &str, cells: Vec<(char, bool)>| {
        let mut spans = vec![
            Span::styled(format!(" {label:<width$}", width = LABEL - 1), theme.dim()),
            Span::styled(theme.sign("│", "|").to_string(), theme.dim()),
        ];
        for run in cells.chunk_by(|a, b| a.1 == b.1) {
            let text: String = run.iter().map(|(cell, _)| cell).collect();
            spans.push(Span::styled(text, if run[0].1 { theme.bad() } else { ratatui::style::Style::new() }));
        }
        Line::from(spans)
    };
    vec![row("expected", due.into_iter().map(|cell| (cell, false)).collect()), row("seen", seen)]
}

/// The labels of the axis: how long ago, now, and the deadline.
fn scale(timeline: &Sawtooth, width: usize, theme: Theme) -> Line<'static> {
    let short = |duration: std::time::Duration| short_duration(duration.as_millis() as u64);
    let ahead = format!("+{}", short(timeline.deadline.since(timeline.now)));
    let ago = format!("{} ago", short(timeline.now.since(timeline.from)));
    let mut cells = vec![' '; width];
    let here = timeline.column(timeline.now, width).unwrap_or(0);
    put(&mut cells, here.saturating_sub(1), "now");
    let deadline = format!("deadline {ahead}");
    let right = |text: &str| width.saturating_sub(text.len());
    if !put(&mut cells, right(&deadline), &deadline) {
        put(&mut cells, right(&ahead), &ahead);
    }
    put(&mut cells, 0, &ago);
    Line::styled(format!("{:LABEL$} {}", "", cells.into_iter().collect::<String>()), theme.dim())
}

/// Writes a text if there is room for it, with a space on either side.
fn put(cells: &mut [char], at: usize, text: &str) -> bool {
    let end = at + text.len();
    let around = at.saturating_sub(1)..(end + 1).min(cells.len());
    if end > cells.len() || cells[around].iter().any(|cell| *cell != ' ') {
        return false;
    }
    for (cell, c) in cells[at..end].iter_mut().zip(text.chars()) {
        *cell = c;
    }
    true
}

fn split(cells: &str, at: usize) -> (String, String) {
    (cells.chars().take(at).collect(), cells.chars().skip(at).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::time::{Time, Ttl};
    use crate::model::{LockView, RenewalView};
    use crate::testkit::sample;

    const NOW: Time = Time(1_790_000_900_000);

    /// A lease of 30 s, renewed every 10 s; one renewal missed, the last one 14 s ago.
    fn stalled() -> Sawtooth {
        let beats = [34, 24, 14].map(|seconds| NOW - Duration::from_secs(seconds));
        let lock = LockView {
            ttl: Ttl::In(Duration::from_secs(16)),
            held_ms: Some(44_000),
            beats: beats.to_vec(),
            renewals: Some(RenewalView {
                count: 3,
                last_ms: Some(14_000),
                period_ms: Some(9_000),
                expected_ms: None,
                missed: Some(1),
                jitter_ms: Some(200),
                due_in_ms: Some(3_100),
            }),
            ..sample::redisson()
        };
        Sawtooth::of(&lock, NOW).unwrap()
    }

    fn drawn(timeline: &Sawtooth, width: usize, height: usize, theme: Theme) -> Vec<String> {
        lines(timeline, width, height, theme).iter().map(|line| line.to_string()).collect()
    }

    #[test]
    fn a_sawtooth_with_its_renewals_and_the_deadline_ahead() {
        let drawn = drawn(&stalled(), LABEL + 2 + 60, 3, Theme::default());
        for line in &drawn {
            assert_eq!(line.chars().count(), LABEL + 1 + 60, "{line:?}");
        }
        assert_eq!(drawn.len(), 3 + 1 + 2 + 1, "sawtooth, axis, strip, scale");
        assert!(drawn[0].starts_with("         30.0s│█"), "{drawn:#?}");
        assert!(drawn[2].contains('·'), "{drawn:#?}");
        let due = &drawn[4];
        let seen = &drawn[5];
        assert_eq!(due.matches('│').count(), 1 + 4, "{drawn:#?}");
        assert_eq!(due.matches('╵').count(), 1, "the next one lies ahead: {drawn:#?}");
        assert_eq!((seen.matches('│').count(), seen.matches('×').count()), (1 + 3, 1), "{drawn:#?}");
        let column = |line: &str, sign: char| line.chars().position(|c| c == sign);
        assert_eq!(column(&drawn[6], 'n').unwrap() + 1, column(&drawn[3], '┬').unwrap(), "{drawn:#?}");
        assert!(drawn[6].contains("44.0s ago") && drawn[6].ends_with("+16.0s"), "{drawn:#?}");
    }

    #[test]
    fn ascii_has_nothing_else_and_the_same_shape() {
        let theme = Theme { ascii: true, ..Theme::default() };
        let drawn = drawn(&stalled(), 80, 4, theme);
        assert!(drawn.iter().all(|line| line.is_ascii()), "{drawn:#?}");
        assert!(drawn[0].contains('#') && drawn[6].contains('x'), "{drawn:#?}");
    }

    #[test]
    fn no_room_is_no_panic() {
        for width in 0..40 {
            for height in 1..4 {
                drawn(&stalled(), width, height, Theme::default());
            }
        }
    }

    #[test]
    fn texts_do_not_run_into_each_other() {
        let mut cells = vec![' '; 12];
        assert!(put(&mut cells, 4, "now"));
        assert!(!put(&mut cells, 0, "1.0s"), "it would touch");
        assert!(put(&mut cells, 0, "1s"));
        assert!(!put(&mut cells, 10, "long"), "it would be cut");
        assert_eq!(cells.into_iter().collect::<String>(), "1s  now     ");
    }
}
