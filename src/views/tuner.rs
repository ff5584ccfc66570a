//! The tuner: a rule over its recorded history with the threshold as a line, the numbers beside it, the episodes below.
//!
//! ```text
//!  LockManyWaiters  page  lockscope_waiters_max > 4 for 2m
//!  2025-11-13 06:00:00Z to 06:59:58Z, 59m58s: 96.5 % covered, 1 gap
//!    12 |                                                  as it is   candidate
//!       |       █          ███                threshold         > 4         > 7
//!     7 |-------█---------------              firings             3           1
//!     0 |▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁███▁▁▁▁
//!       06:00:00        06:59:58
//! ```

mod chart;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::evidence;
use super::part::{self, fit, fit_right};
use super::wrap::wrap;
use crate::alerts::replay::Kind;
use crate::app::{App, Over, Proposal, Stage, Tuner};
use crate::base::diff;
use crate::base::glob::Glob;
use crate::model::Notable;
use crate::output::tune::{
    about, became, calibration, condition, coverage, figure, lasted, length, limits, not_simulated, rows, suggestion,
};
use crate::settings::keys::Command;
use crate::tune::{Listed, Trial};

/// The column of names, and those of the numbers.
const NAME: usize = 14;
const NUMBER: usize = 14;
const NUMBERS: u16 = (NAME + 2 * (NUMBER + 1)) as u16;
/// Rows of numbers that are left out where there is no room for all.
const SPARE: [&str; 2] = ["at the latest", "scraped every 1m"];
/// The least rows for the episodes and the suggestion.
const EPISODES: u16 = 3;

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(tuner) = &app.tuner else { return };
    match &tuner.stage {
        Stage::Loading { done, of } => {
            let percent = done * 100 / (*of).max(1);
            let text = format!("reading the history of {}: {percent} %", part::safe(&tuner.rule, app.theme));
            lines(frame, app, area, &[(text, app.theme.dim())]);
        }
        Stage::Failed(why) => {
            lines(frame, app, area, &[(why.clone(), app.theme.bad())]);
        }
        Stage::Ready(trial) => draw_ready(frame, app, tuner, trial, area),
    }
}

fn draw_ready(frame: &mut Frame<'_>, app: &App, tuner: &Tuner, trial: &Trial, area: Rect) {
    let (subject, theme) = (&trial.subject, app.theme);
    let head = format!(
        "{}  {}  {} {}",
        subject.rule,
        subject.severity,
        subject.expression,
        condition(&subject.metric, &subject.condition)
    );
    let known = match subject.coverage.is_too_little() {
        Some(_) => theme.warning(),
        None => theme.dim(),
    };
    let mut heads = vec![(head, theme.title())];
    // Whether it can be believed comes before what it says.
    if let Some(of) = &subject.calibration {
        let style = if of.is_exact() { theme.good() } else { theme.warning() };
        let told: Vec<String> = calibration(of).iter().map(|line| line.trim().to_string()).collect();
        heads.push((told.join("; "), style));
    }
    heads.push((known_of(trial, usize::from(area.width)), known));
    let mut used = 0;
    for head in heads {
        let row = Rect { y: area.y + used, height: area.height.saturating_sub(used).min(1), ..area };
        used += lines(frame, app, row, &[head]);
    }
    let rest = Rect { y: area.y + used, height: area.height.saturating_sub(used), ..area };
    match &tuner.over {
        Over::Nothing => draw_trial(frame, app, tuner, trial, rest),
        Over::Episode { story, scroll } => draw_episode(frame, app, tuner, trial, story.as_deref(), *scroll, rest),
        Over::Proposal(proposal) => draw_proposal(frame, app, proposal, rest),
    }
}

/// How much is known; where there is little room, without the end, which the chart shows too.
fn known_of(trial: &Trial, width: usize) -> String {
    let whole = coverage(&trial.subject.coverage);
    match whole.rsplit_once(" to ") {
        Some((short, _)) if whole.len() + 2 > width => short.to_string(),
        _ => whole,
    }
}

fn draw_trial(frame: &mut Frame<'_>, app: &App, tuner: &Tuner, trial: &Trial, area: Rect) {
    let mut numbers = rows(trial);
    let room = usize::from(area.height.saturating_sub(EPISODES + 2));
    if numbers.len() + 1 > room {
        numbers.retain(|(name, ..)| !SPARE.contains(&name.as_str()));
    }
    let height = (numbers.len() as u16 + 1).min(area.height);
    let wide = NUMBERS.min(area.width / 2 + 4);
    let chart = Rect { width: area.width.saturating_sub(wide + 1), height, ..area };
    chart::draw(frame, app, tuner, trial, chart);
    let beside = Rect { x: area.x + chart.width + 1, width: wide, height, ..area };
    draw_numbers(frame, app, tuner, trial, &numbers, beside);
    let below = Rect { y: area.y + height, height: area.height.saturating_sub(height), ..area };
    // Two rows say what is suggested; in a high window there are more.
    let least = if below.height > 12 { 6 } else { 2 };
    let list = (tuner.listed().len().clamp(1, 1_000) as u16 + 1).min(below.height.saturating_sub(least));
    draw_list(frame, app, tuner, trial, Rect { height: list, ..below });
    let told = Rect { y: below.y + list, height: below.height.saturating_sub(list), ..below };
    let mut texts: Vec<(String, Style)> = vec![(suggested(app, trial, told.height > 3), app.theme.accent())];
    texts.extend(limits(trial).into_iter().map(|limit| (limit, app.theme.warning())));
    texts.push((not_simulated(), app.theme.dim()));
    lines(frame, app, told, &texts);
}

/// The suggestion; where there is little room, without its reason.
fn suggested(app: &App, trial: &Trial, whole: bool) -> String {
    let mut sentences = suggestion(trial);
    if !whole && sentences.len() == 3 {
        sentences.remove(1);
    }
    if trial.suggestion.is_ok() {
        sentences[0] = format!("{} ({} tries it)", sentences[0], app.key_of(Command::TakeSuggestion));
    }
    sentences.join("; ")
}

fn draw_numbers(
    frame: &mut Frame<'_>,
    app: &App,
    tuner: &Tuner,
    trial: &Trial,
    rows: &[(String, String, String)],
    area: Rect,
) {
    let theme = app.theme;
    let each = (usize::from(area.width).saturating_sub(NAME + 2) / 2).min(NUMBER + 6);
    let head = format!(
        "{}{} {}",
        fit("", NAME, theme),
        fit_right("as it is", each, theme),
        fit_right("candidate", each, theme)
    );
    frame.render_widget(Line::styled(head, theme.title()), Rect { height: 1, ..area });
    let changed = trial.is_changed();
    for (index, (name, now, then)) in rows.iter().enumerate().take(usize::from(area.height.saturating_sub(1))) {
        let pulled = tuner.lever.name() == name;
        // What the arrows move is marked by a sign, and not only by its colour.
        let sign = if pulled { theme.sign("▸", ">") } else { " " };
        let style = if pulled { theme.selected() } else { Style::new() };
        let differs = changed && now != then;
        let then = if changed || pulled { then.clone() } else { String::new() };
        let line = Line::from(vec![
            Span::styled(format!("{sign}{}", fit(&short(name), NAME - 1, theme)), style),
            Span::styled(fit_right(now, each, theme), theme.dim()),
            Span::raw(" "),
            Span::styled(fit_right(&then, each, theme), if differs { theme.title() } else { theme.dim() }),
        ]);
        frame.render_widget(line, Rect { y: area.y + 1 + index as u16, height: 1, ..area });
    }
}

/// The names of the numbers, where there is little room.
fn short(name: &str) -> String {
    name.replace("scraped every ", "as scraped ")
        .replace("as scraped 15s", "scraped 15s")
        .replace("as scraped 1m", "scraped 1m")
}

/// The episodes around the selected one.
fn draw_list(frame: &mut Frame<'_>, app: &App, tuner: &Tuner, trial: &Trial, area: Rect) {
    let (theme, listed) = (app.theme, tuner.listed());
    let cursor = tuner.cursor().unwrap_or(0);
    let left_out = trial.candidate.outcome.left_out;
    let more = if left_out > 0 { format!(", {left_out} older not listed") } else { String::new() };
    let label = match listed.len() {
        0 => " no episodes ".to_string(),
        all => {
            let (back, next) = (app.key_of(Command::PreviousEpisode), app.key_of(Command::NextEpisode));
            let name = tuner.episode().map(|listed| listed.name.to_string()).unwrap_or_default();
            format!(" episode {name}, {} of {all}{more}, {back} and {next} ", cursor + 1)
        }
    };
    evidence::rule(frame, app, area, &label);
    let room = usize::from(area.height.saturating_sub(1));
    if listed.is_empty() {
        let text = "nothing fires with this candidate, nothing nearly does, and nothing fired before";
        lines(frame, app, below(area), &[(text.into(), theme.dim())]);
        return;
    }
    let first = cursor.saturating_sub(room / 2).min(listed.len().saturating_sub(room));
    for (row, (at, episode)) in listed.iter().enumerate().skip(first).take(room).enumerate() {
        let line = episode_line(app, trial, episode, at == cursor, usize::from(area.width));
        frame.render_widget(line, Rect { y: area.y + 1 + row as u16, height: 1, ..area });
    }
}

fn below(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

fn episode_line(app: &App, trial: &Trial, listed: &Listed, selected: bool, width: usize) -> Line<'static> {
    let (theme, episode) = (app.theme, &listed.episode);
    let base = if selected { theme.selected() } else { Style::new() };
    let became = became(listed, trial.is_changed());
    let mark = match became {
        "fires" | "would fire" => theme.bad(),
        "no longer fires" => theme.good(),
        _ => theme.dim(),
    };
    let sign = if selected { theme.sign("▌", ">") } else { " " };
    let label = listed.verdict.map_or("", |verdict| verdict.name());
    let after = if episode.kind == Kind::Fired { lasted(episode.fired.since(episode.from)) } else { "-".into() };
    let cells = format!(
        "{}{} {} {} {} ",
        fit_right(&listed.name.to_string(), 5, theme),
        fit(&part_clock(episode.from), 15, theme).replacen("", " ", 1),
        fit_right(&length(episode), 8, theme),
        fit_right(&after, 7, theme),
        fit_right(&figure(&trial.subject.metric, trial.peak(episode)), 8, theme),
    );
    let used = 1 + cells.chars().count() + 18 + 1 + 6;
    let about = about(&trial.subject.tracks.tracks[episode.track].labels);
    Line::from(vec![
        Span::styled(sign.to_string(), base.patch(theme.accent())),
        Span::styled(cells, base),
        Span::styled(fit(became, 18, theme), base.patch(mark)),
        Span::styled(format!(" {}", fit(label, 6, theme)), base.patch(theme.accent())),
        Span::styled(fit(&part::safe(&about, theme), width.saturating_sub(used), theme), base),
    ])
}

/// Day and time: a history may be weeks long.
fn part_clock(at: crate::base::time::Time) -> String {
    let text = at.rfc3339();
    text.get(5..19).unwrap_or(&text).replacen('T', " ", 1)
}

/// What was notable in the selected episode: which locks, who held them.
fn draw_episode(
    frame: &mut Frame<'_>,
    app: &App,
    tuner: &Tuner,
    trial: &Trial,
    story: Option<&[Notable]>,
    scroll: usize,
    area: Rect,
) {
    let theme = app.theme;
    let Some(listed) = tuner.episode() else { return };
    let line = episode_line(app, trial, listed, true, usize::from(area.width));
    frame.render_widget(line, Rect { height: 1, ..area });
    let pattern = trial.subject.tracks.tracks[listed.episode.track].labels.get("pattern");
    let glob = pattern.and_then(|pattern| Glob::new(pattern).ok());
    let own = |entry: &&Notable| match (&entry.key, &glob) {
        (Some(key), Some(glob)) => glob.matches(key.to_string().as_bytes()),
        _ => true,
    };
    let arrow = theme.sign("→", "->");
    let told = |entry: &Notable| {
        let name = entry.key.as_ref().map_or("the server".into(), |key| part::key(key, theme));
        let what = entry.what.headline(arrow);
        let sentence = entry.what.sentence(|token| app.token(&token.to_string()));
        (format!("{} {name}  {what}  {sentence}", part::clock_seconds(entry.at)), Style::new())
    };
    let mut texts: Vec<(String, Style)> = match story {
        None => vec![("reading what happened".into(), theme.dim())],
        Some(story) => story.iter().filter(own).map(told).skip(scroll).collect(),
    };
    if story.is_some() && texts.is_empty() {
        let why = "nothing notable was recorded of these locks in that time: names are kept only of locks that were in a bad \
                   state, ended badly or changed hands";
        texts.push((why.into(), theme.dim()));
    }
    lines(frame, app, below(area), &texts);
}

/// How the file would change.
fn draw_proposal(frame: &mut Frame<'_>, app: &App, proposal: &Proposal, area: Rect) {
    let theme = app.theme;
    let (write, back) = (app.key_of(Command::OpenEpisode), app.key_of(Command::Back));
    let mut texts =
        vec![(format!("{}: {write} writes this, {back} leaves it as it is", proposal.name()), theme.title())];
    texts.extend(proposal.lines().into_iter().map(|line| match line {
        diff::Line::Same(text) => (format!("  {text}"), theme.dim()),
        diff::Line::Gone(text) => (format!("- {text}"), theme.bad()),
        diff::Line::New(text) => (format!("+ {text}"), theme.good()),
    }));
    lines(frame, app, area, &texts);
}

/// Texts, each wrapped; returns how many rows they took.
fn lines(frame: &mut Frame<'_>, app: &App, area: Rect, texts: &[(String, Style)]) -> u16 {
    let width = usize::from(area.width).saturating_sub(2);
    let all = texts.iter().flat_map(|(text, style)| {
        let safe = part::safe(text, app.theme);
        // A line of a file keeps its indent.
        let wrapped = if safe.chars().count() <= width { vec![safe] } else { wrap(&safe, width) };
        wrapped.into_iter().map(|line| Line::styled(format!(" {line}"), *style))
    });
    let mut used = 0;
    for line in all.take(usize::from(area.height)) {
        frame.render_widget(line, Rect { y: area.y + used, height: 1, ..area });
        used += 1;
    }
    used
}

#[cfg(test)]
mod tests;
