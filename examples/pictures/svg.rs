//! A screen as an SVG picture: the same cells that a terminal would show, for the README and the docs.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 12.0;
const PAPER: &str = "#16181d";
const INK: &str = "#d7dae0";

/// How a run of cells looks.
#[derive(Clone, PartialEq)]
struct Look {
    ink: &'static str,
    paper: Option<&'static str>,
    bold: bool,
    dim: bool,
    underlined: bool,
}

impl Look {
    fn of(cell: &Cell) -> Look {
        let has = |modifier| cell.modifier.contains(modifier);
        let ink = color(cell.fg).unwrap_or(INK);
        let paper = color(cell.bg);
        let (ink, paper) = if has(Modifier::REVERSED) { (paper.unwrap_or(PAPER), Some(ink)) } else { (ink, paper) };
        Look { ink, paper, bold: has(Modifier::BOLD), dim: has(Modifier::DIM), underlined: has(Modifier::UNDERLINED) }
    }
}

fn color(color: Color) -> Option<&'static str> {
    Some(match color {
        Color::Red => "#ff6b6b",
        Color::Green => "#7bd88f",
        Color::Yellow => "#f5d76e",
        Color::Magenta => "#d38cf5",
        Color::Cyan => "#6fd3e3",
        Color::Blue => "#74a8ff",
        _ => return None,
    })
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
         width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n",
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
struct Run {
    x: u16,
    cells: u16,
    text: String,
    look: Look,
}

fn runs(screen: &Buffer, y: u16) -> Vec<Run> {
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
    if let Some(paper) = run.look.paper {
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
    if run.look.bold {
        style.push_str(" font-weight=\"bold\"");
    }
    if run.look.dim {
        style.push_str(" opacity=\"0.6\"");
    }
    if run.look.underlined {
        style.push_str(" text-decoration=\"underline\"");
    }
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{style}>{}</text>",
        y + 13.5,
        run.look.ink,
        escape(&run.text)
    );
}

fn escape(text: &str) -> String {
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
