//! A screen as an SVG picture: the same cells that a terminal would show, for the README and the docs.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

pub const CELL: (f64, f64) = (8.4, 18.0);
pub const MARGIN: f64 = 12.0;

/// The colours of a picture. Those beside ink and paper are in the order of [`number`], which counts from 1.
pub struct Palette {
    pub paper: &'static str,
    pub ink: &'static str,
    pub colours: [&'static str; 6],
}

impl Palette {
    pub const DARK: Palette = Palette {
        paper: "#16181d",
        ink: "#d7dae0",
        colours: ["#ff6b6b", "#7bd88f", "#f5d76e", "#74a8ff", "#d38cf5", "#6fd3e3"],
    };

    fn ink(&self, number: usize) -> &'static str {
        number.checked_sub(1).map_or(self.ink, |number| self.colours[number])
    }
}

/// How a run of cells looks: the numbers of its colours, 0 for ink and paper, and how they are used.
#[derive(Clone, Copy, PartialEq)]
pub struct Look {
    pub ink: usize,
    pub paper: usize,
    pub modifier: Modifier,
}

impl Look {
    fn of(cell: &Cell) -> Look {
        Look { ink: number(cell.fg), paper: number(cell.bg), modifier: cell.modifier }
    }
}

/// The place of a colour in the palette; 0 for the colour of the terminal.
fn number(color: Color) -> usize {
    let known = [Color::Red, Color::Green, Color::Yellow, Color::Blue, Color::Magenta, Color::Cyan];
    known.iter().position(|known| *known == color).map_or(0, |place| place + 1)
}

/// The picture. `title` is its text for readers who can't see it.
pub fn svg(screen: &Buffer, title: &str) -> String {
    let area = screen.area;
    let (width, height) =
        (f64::from(area.width) * CELL.0 + 2.0 * MARGIN, f64::from(area.height) * CELL.1 + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>text{{font:14px \
         ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}</style>\n<rect \
         width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n",
        Palette::DARK.paper,
        title = escape(title)
    );
    for y in area.top()..area.bottom() {
        for run in runs(screen, y) {
            draw(&mut out, &run, y - area.top());
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Neighbouring cells of a row that look the same.
pub struct Run {
    pub x: u16,
    pub cells: u16,
    pub text: String,
    pub look: Look,
}

pub fn runs(screen: &Buffer, y: u16) -> Vec<Run> {
    let area = screen.area;
    let mut runs: Vec<Run> = Vec::new();
    let mut x = area.left();
    while x < area.right() {
        let cell = &screen[(x, y)];
        let cells = (cell.symbol().width() as u16).max(1);
        let look = Look::of(cell);
        match runs.last_mut() {
            Some(run) if run.look == look => {
                run.text.push_str(cell.symbol());
                run.cells += cells;
            }
            _ => runs.push(Run { x: x - area.left(), cells, text: cell.symbol().to_string(), look }),
        }
        x += cells;
    }
    runs
}

fn draw(out: &mut String, run: &Run, row: u16) {
    let (x, y) = (MARGIN + f64::from(run.x) * CELL.0, MARGIN + f64::from(row) * CELL.1);
    let width = f64::from(run.cells) * CELL.0;
    let palette = Palette::DARK;
    let has = |modifier| run.look.modifier.contains(modifier);
    let under = (run.look.paper > 0).then(|| palette.ink(run.look.paper));
    let (ink, paper) = match has(Modifier::REVERSED) {
        true => (under.unwrap_or(palette.paper), Some(palette.ink(run.look.ink))),
        false => (palette.ink(run.look.ink), under),
    };
    if let Some(paper) = paper {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{paper}\"/>",
            CELL.1
        );
    }
    if run.text.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    if has(Modifier::BOLD) {
        style.push_str(" font-weight=\"bold\"");
    }
    if has(Modifier::DIM) {
        style.push_str(" opacity=\"0.6\"");
    }
    if has(Modifier::UNDERLINED) {
        style.push_str(" text-decoration=\"underline\"");
    }
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{style}>{}</text>",
        y + 13.5,
        ink,
        escape(&run.text)
    );
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn cells_that_look_alike_are_one_text() {
        let mut screen = Buffer::empty(Rect::new(0, 0, 12, 1));
        screen.set_string(0, 0, "a<b", Style::new().fg(Color::Red));
        screen.set_string(3, 0, "锁ok", Style::new());
        let svg = svg(&screen, "t & t");
        assert!(svg.contains("fill=\"#ff6b6b\">a&lt;b</text>"), "{svg}");
        assert!(svg.contains("锁ok"), "{svg}");
        assert!(svg.contains("<title>t &amp; t</title>"), "{svg}");
        assert_eq!(svg.matches("<text ").count(), 2, "{svg}");
    }
}
