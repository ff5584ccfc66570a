//! Draws lines of text, which is most of every frame.
//!
//! Nearly all of it is ASCII, of which each byte is one letter in one cell: that is written straight into the buffer. All
//! else is left to ratatui, which splits it into the letters that a terminal draws. What comes out is the same.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use unicode_width::UnicodeWidthStr;

/// Draws the lines one below the other, as many as there is room for.
pub fn lines(frame: &mut Frame<'_>, lines: impl IntoIterator<Item = Line<'static>>, area: Rect) {
    for (y, one) in (area.y..area.bottom()).zip(lines) {
        line(frame, &one, Rect { y, height: 1, ..area });
    }
}

/// Draws one line at the top of the area.
pub fn line(frame: &mut Frame<'_>, line: &Line<'_>, area: Rect) {
    draw(frame.buffer_mut(), line, area);
}

fn draw(buffer: &mut Buffer, line: &Line<'_>, area: Rect) {
    let area = Rect { height: area.height.min(1), ..area }.intersection(buffer.area);
    if area.is_empty() || line.spans.iter().all(|span| span.content.is_empty()) {
        return;
    }
    if line.alignment.is_some() {
        return line.render(area, buffer);
    }
    buffer.set_style(area, line.style);
    let mut rest = area;
    for span in &line.spans {
        let width = if is_plain(&span.content) { plain(buffer, span, rest) } else { other(buffer, span, rest) };
        rest.x += width;
        rest.width -= width;
        if rest.width == 0 {
            return;
        }
    }
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns how many cells it took.
fn plain(buffer: &mut Buffer, span: &Span<'_>, area: Rect) -> u16 {
    let width = span.content.len().min(usize::from(area.width));
    let first = buffer.index_of(area.x, area.y);
    for (at, cell) in buffer.content[first..first + width].iter_mut().enumerate() {
        cell.set_symbol(&span.content[at..=at]).set_style(span.style);
    }
    width as u16
}

fn other(buffer: &mut Buffer, span: &Span<'_>, area: Rect) -> u16 {
    span.render(area, buffer);
    span.content.width().min(usize::from(area.width)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::style::{Color, Modifier, Style};

    use super::*;

    fn style() -> impl Strategy<Value = Style> {
        let color = || prop::option::of(prop::sample::select(&[Color::Red, Color::Blue, Color::Reset][..]));
        (color(), color(), any::<bool>()).prop_map(|(fg, bg, bold)| {
            let style = Style { fg, bg, ..Style::new() };
            if bold { style.add_modifier(Modifier::BOLD) } else { style }
        })
    }

    fn spans() -> impl Strategy<Value = Vec<(String, Style)>> {
        let text = prop_oneof![3 => "[ -~]{0,12}", 1 => "[ -~]{0,4}(│|█|锁|é|…){0,6}[ -~]{0,4}"];
        prop::collection::vec((text, style()), 0..6)
    }

    proptest! {
        #[test]
        fn a_line_looks_as_ratatui_draws_it(
            spans in spans(), base in style(), x in 0..4u16, width in 0..40u16, before in "[a-z]{30}",
        ) {
            let spans: Vec<Span> = spans.into_iter().map(|(text, style)| Span::styled(text, style)).collect();
            let line = Line::from(spans).style(base);
            let mut theirs = Buffer::with_lines([before]);
            let mut ours = theirs.clone();
            let area = Rect { x, y: 0, width, height: 1 };
            (&line).render(area, &mut theirs);
            draw(&mut ours, &line, area);
            prop_assert_eq!(ours, theirs);
        }
    }
}
