//! The values over time as bars, worst of each column, with the threshold as a line across them.
//!
//! What is not known is a gap with a mark below it, and no bar of height zero. In ASCII a bar is made of `#`.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::alerts::Compare;
use crate::app::{App, Tuner};
use crate::output::tune::figure;
use crate::tune::Trial;
use crate::views::part::{clock_seconds, fit, fit_right};

/// The scale at the left.
const SCALE: usize = 8;
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Two rows below the bars: where it fires, and the time.
const BELOW: u16 = 2;

pub fn draw(frame: &mut Frame<'_>, app: &App, tuner: &Tuner, trial: &Trial, area: Rect) {
    let (theme, compare) = (app.theme, trial.candidate.condition.compare);
    let width = usize::from(area.width).saturating_sub(SCALE + 1);
    let rows = usize::from(area.height.saturating_sub(BELOW));
    if width < 8 || rows < 3 {
        return;
    }
    let parts = trial.profile.in_parts(width);
    let scale = Scale::of(trial, rows);
    let level = scale.row(compare.threshold());
    let recover = trial.candidate.condition.recover.map(|level| scale.row(level));
    let metric = &trial.subject.metric;
    for row in 0..rows {
        let name = match row {
            _ if Some(row) == level => figure(metric, compare.threshold()),
            0 => figure(metric, scale.top),
            _ if row + 1 == rows => figure(metric, scale.bottom),
            _ => String::new(),
        };
        let mut spans = vec![Span::styled(
            format!("{}{}", fit_right(&name, SCALE - 1, theme), theme.sign("│", "|")),
            if Some(row) == level { theme.title() } else { theme.dim() },
        )];
        for part in &parts {
            let worst = part.map(|(least, most)| if matches!(compare, Compare::Above(_)) { most } else { least });
            let filled = worst.map_or(0, |value| scale.eighths(value, row));
            let beyond = worst.is_some_and(|value| compare.holds(value));
            let line = match () {
                () if Some(row) == level => Some((theme.sign("─", "-"), theme.sign("┼", "+"))),
                () if recover.flatten() == Some(row) => Some((theme.sign("┄", "."), theme.sign("┼", "+"))),
                () => None,
            };
            let bar = if theme.ascii { if filled >= 4 { "#" } else { " " } } else { EIGHTHS[filled] };
            let (text, style) = match line {
                Some((line, _)) if filled == 0 => (line, theme.accent()),
                Some((_, crossed)) => (crossed, if beyond { theme.bad() } else { theme.accent() }),
                None => (bar, if beyond { theme.bad() } else { Style::new() }),
            };
            spans.push(Span::styled(text.to_string(), style));
        }
        frame.render_widget(Line::from(spans), Rect { y: area.y + row as u16, height: 1, ..area });
    }
    let below = Rect { y: area.y + rows as u16, height: 1, ..area };
    frame.render_widget(marks(app, tuner, trial, &parts), below);
    let (from, to) = trial.profile.span();
    let (from, to) = (clock_seconds(from), clock_seconds(to));
    let times = format!("{}{from}{}", " ".repeat(SCALE), fit_right(&to, width.saturating_sub(from.len()), theme));
    frame.render_widget(Line::styled(times, theme.dim()), Rect { y: below.y + 1, ..below });
}

/// Where the candidate fires, where nothing is known, and where the selected episode is.
fn marks(app: &App, tuner: &Tuner, trial: &Trial, parts: &[Option<(f64, f64)>]) -> Line<'static> {
    let (theme, width) = (app.theme, parts.len());
    let mut cells: Vec<(&str, Style)> = parts
        .iter()
        .map(|part| if part.is_some() { (" ", theme.dim()) } else { (theme.sign("·", "?"), theme.dim()) })
        .collect();
    let mut paint = |from, to, sign, style| {
        let (first, last) = (trial.profile.part(from, width), trial.profile.part(to, width));
        cells[first..=last].fill((sign, style));
    };
    for episode in trial.candidate.outcome.fired() {
        paint(episode.fired, episode.to, theme.sign("▲", "^"), theme.bad());
    }
    if let Some(listed) = tuner.episode() {
        paint(listed.episode.from, listed.episode.from, theme.sign("◆", "*"), theme.selected());
    }
    let mut spans = vec![Span::styled(fit("", SCALE, theme), theme.dim())];
    spans.extend(cells.into_iter().map(|(sign, style)| Span::styled(sign.to_string(), style)));
    Line::from(spans)
}

/// From the bottom to the top of the bars.
struct Scale {
    bottom: f64,
    top: f64,
    rows: usize,
}

impl Scale {
    fn of(trial: &Trial, rows: usize) -> Scale {
        let levels = [&trial.current, &trial.candidate].map(|tried| tried.condition.compare.threshold());
        let (least, most) = trial.profile.extremes().unwrap_or((0.0, 0.0));
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        let top = levels.iter().fold(finite(most), |top, level| top.max(finite(*level)));
        let bottom = levels.iter().fold(finite(least).min(0.0), |bottom, level| bottom.min(finite(*level)));
        let top = if top > bottom { top } else { bottom + 1.0 };
        Scale { bottom, top, rows }
    }

    /// How many eighths of the whole height.
    fn height(&self, value: f64) -> f64 {
        let all = (self.rows * 8) as f64;
        ((value - self.bottom) / (self.top - self.bottom) * all).clamp(0.0, all)
    }

    /// The row of a level, from the top.
    fn row(&self, level: f64) -> Option<usize> {
        let from_bottom = (self.height(level) / 8.0).ceil().max(1.0) as usize;
        self.rows.checked_sub(from_bottom)
    }

    /// How much of a row's cell is filled, 0 to 8. What is known and not at the bottom is never nothing.
    fn eighths(&self, value: f64, row: usize) -> usize {
        let below = ((self.rows - 1 - row) * 8) as f64;
        let filled = (self.height(value) - below).clamp(0.0, 8.0).round() as usize;
        if row + 1 == self.rows { filled.max(1) } else { filled }
    }
}
