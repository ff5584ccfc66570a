//! The help: every key and what it does, from the key table, and what the signs in the lists mean. A key that works only
//! on another screen names that screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::app::App;
use crate::app::theme::Theme;
use crate::settings::keys::{BINDINGS, Where};

/// The frame around it.
const BORDER: u16 = 2;
const WIDEST: u16 = 108;
/// What is short in the lists.
const SIGNS: [(&str, &str, &str); 12] = [
    ("?", "?", "not known; behind a name: a guess"),
    ("≥3", ">=3", "at least 3"),
    ("≤1", "<=1", "at most 1: clients blocked on a list, and the server does not say on which"),
    ("some", "some", "WAIT: somebody reads it, and may poll for it"),
    ("~4m02s", "~4m02s", "by the holder's own clock"),
    ("4.2~m", "4.2~m", "FAIL/S: refused attempts a second, sampled with MONITOR"),
    ("4.2=c", "4.2=c", "FAIL/S: the same, each one counted"),
    ("!1", "!1", "STATE: 1 finding; open the lock to read it"),
    ("▲", "+", "it has just got worse"),
    ("▽", "-", "it has just got better, and leaves its place in a few seconds"),
    ("<SPLIT", "<SPLIT", "what it was before that"),
    ("MONITOR 9%", "MONITOR 9%", "in the first line: sampled for 9 % of the time"),
];

/// A border for ASCII-only terminals.
const ASCII: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

pub fn border(theme: Theme) -> border::Set<'static> {
    if theme.ascii { ASCII } else { border::PLAIN }
}

/// Leaves the footer uncovered.
fn place(area: Rect) -> Rect {
    let room = area.height.saturating_sub(1);
    let height = (rows() as u16 + BORDER).min(room);
    let width = area.width.min(WIDEST);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (room - height) / 2, width, height }
}

/// The keys, a heading, and the signs.
fn rows() -> usize {
    BINDINGS.len() + 1 + SIGNS.len()
}

fn signs(theme: Theme) -> impl Iterator<Item = Line<'static>> {
    let heading = Line::styled(" Signs", theme.title());
    std::iter::once(heading).chain(SIGNS.iter().map(move |(sign, ascii, about)| {
        let sign = format!(" {:<16}", theme.sign(sign, ascii));
        Line::from(vec![Span::styled(sign, theme.accent()), Span::raw(format!(" {about}"))])
    }))
}

pub fn scroll_most(area: Rect) -> usize {
    rows().saturating_sub(usize::from(place(area).height.saturating_sub(BORDER)))
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect, scroll: usize) {
    let over = place(area);
    let lines: Vec<Line> = BINDINGS
        .iter()
        .map(|binding| {
            let keys: Vec<String> =
                app.keys.presses(binding.command, app.place()).map(|press| press.to_string()).collect();
            let (key, about) = match binding.at {
                Where::Only { name, .. } if !app.can(binding.command) => {
                    (app.theme.dim(), Span::styled(format!("{name}: {}", binding.about), app.theme.dim()))
                }
                _ => (app.theme.accent(), Span::raw(binding.about)),
            };
            Line::from(vec![
                Span::styled(format!(" {:<16}", keys.join(" ")), key),
                Span::styled(format!(" {:<11}", binding.name), app.theme.dim()),
                about,
            ])
        })
        .chain(signs(app.theme))
        .skip(scroll)
        .collect();
    let more = if scroll < scroll_most(area) { " more below " } else { "" };
    let block = Block::bordered()
        .border_set(border(app.theme))
        .title(" Keys; :NAME runs a command; any key closes ")
        .title_bottom(more);
    // A wide character may reach into the frame from the left.
    frame.render_widget(Clear, Rect { x: over.x.saturating_sub(1), width: over.width + over.x.min(1), ..over });
    frame.render_widget(Paragraph::new(lines).block(block), over);
}
