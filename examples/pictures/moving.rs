//! Several screens as one moving SVG picture, for light and dark pages.
//!
//! A row that stays the same from one frame to the next is drawn once, so that the file stays small. Where nothing moves (a
//! reader who asked for less motion, a program that shows no animation) it is the frame with the evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::style::Modifier;

use crate::svg::{CELL, Look, MARGIN, Palette, escape, runs};

const LIGHT: Palette = Palette {
    paper: "#fafafa",
    ink: "#24262b",
    colours: ["#c62828", "#1b7a35", "#8a6100", "#1f56c4", "#8427b0", "#00707f"],
};

/// A screen, what is said below it, and how long it stays.
pub struct Frame {
    pub screen: Buffer,
    pub words: String,
    pub seconds: f32,
}

/// The frame that is shown where nothing moves.
const STILL: usize = 2;

/// A row of the picture during some frames that follow each other: from the first to before the last.
struct Strip {
    from: usize,
    to: usize,
    drawn: String,
}

pub fn svg(frames: &[Frame], title: &str) -> String {
    let area = frames[0].screen.area;
    let width = f64::from(area.width) * CELL.0 + 2.0 * MARGIN;
    let height = f64::from(area.height + 2) * CELL.1 + 2.0 * MARGIN;
    let mut strips: Vec<Strip> = Vec::new();
    for y in 0..area.height {
        strips.extend(strips_of(frames, |frame| row(&frame.screen, y)));
    }
    strips.extend(strips_of(frames, |frame| words(&frame.words, area.height + 1)));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n{}\n\
         </style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n",
        style(frames, &strips),
        title = escape(title)
    );
    for Strip { from, to, drawn } in strips {
        let class = match (from, to) {
            (0, to) if to == frames.len() => String::new(),
            (from, to) if (from..to).contains(&STILL) => format!(" class=\"m{from}-{to} m still\""),
            (from, to) => format!(" class=\"m{from}-{to} m\""),
        };
        let _ = writeln!(out, "<g{class}>{drawn}</g>");
    }
    out.push_str("</svg>\n");
    out
}

fn strips_of(frames: &[Frame], draw: impl Fn(&Frame) -> String) -> Vec<Strip> {
    let mut strips: Vec<Strip> = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        let drawn = draw(frame);
        match strips.last_mut() {
            Some(strip) if strip.drawn == drawn => strip.to = number + 1,
            _ => strips.push(Strip { from: number, to: number + 1, drawn }),
        }
    }
    strips.retain(|strip| !strip.drawn.is_empty());
    strips
}

/// The colours of both kinds of page, and when each strip is seen.
fn style(frames: &[Frame], strips: &[Strip]) -> String {
    let whole: f32 = frames.iter().map(|frame| frame.seconds).sum();
    let mut out = String::from(
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}\n\
         .b{font-weight:bold}.d{opacity:.6}.u{text-decoration:underline}.m{opacity:0}.still{opacity:1}\n",
    );
    let _ = writeln!(out, "{}", colours(&Palette::DARK));
    let _ = writeln!(out, "@media (prefers-color-scheme:light){{{}}}", colours(&LIGHT));
    let begins = |number: usize| frames[..number].iter().map(|frame| frame.seconds).sum::<f32>().abs() / whole * 100.0;
    let spans: BTreeSet<(usize, usize)> = strips.iter().map(|strip| (strip.from, strip.to)).collect();
    let mut moves = String::new();
    for (from, to) in spans.into_iter().filter(|&span| span != (0, frames.len())) {
        let mut keys: BTreeMap<String, u8> = BTreeMap::new();
        keys.insert("0%".into(), 0);
        keys.insert(format!("{:.2}%", begins(from)).replace("0.00%", "0%"), 1);
        if to < frames.len() {
            keys.insert(format!("{:.2}%", begins(to)), 0);
        }
        let keys: String = keys.iter().map(|(at, shown)| format!("{at}{{opacity:{shown}}}")).collect();
        let _ = writeln!(out, "@keyframes k{from}-{to}{{{keys}}}");
        let _ = write!(moves, ".m{from}-{to}{{animation:k{from}-{to} {whole:.1}s step-end infinite}}");
    }
    let _ = write!(out, "@media (prefers-reduced-motion:no-preference){{{moves}}}");
    out
}

fn colours(palette: &Palette) -> String {
    let mut out = format!(".paper,.p0{{fill:{}}}.i0,.x0{{fill:{}}}", palette.paper, palette.ink);
    for (number, colour) in palette.colours.iter().enumerate() {
        let _ = write!(out, ".i{0},.x{0},.p{0}{{fill:{colour}}}", number + 1);
    }
    out
}

/// A row of a screen; nothing if it is empty.
fn row(screen: &Buffer, y: u16) -> String {
    let mut out = String::new();
    for run in runs(screen, y) {
        let (x, top) = (MARGIN + f64::from(run.x) * CELL.0, MARGIN + f64::from(y) * CELL.1);
        let width = f64::from(run.cells) * CELL.0;
        let Look { ink, paper, modifier } = run.look;
        let reversed = modifier.contains(Modifier::REVERSED);
        // Paper in the colour of ink, and the other way round.
        let (ink, paper) =
            if reversed { (format!("p{paper}"), format!("x{ink}")) } else { (format!("i{ink}"), format!("x{paper}")) };
        if reversed || run.look.paper > 0 {
            let _ = write!(
                out,
                "<rect class=\"{paper}\" x=\"{x:.1}\" y=\"{top:.0}\" width=\"{width:.1}\" height=\"{}\"/>",
                CELL.1
            );
        }
        if run.text.trim().is_empty() {
            continue;
        }
        let mut class = ink;
        for (has, name) in [(Modifier::BOLD, " b"), (Modifier::DIM, " d"), (Modifier::UNDERLINED, " u")] {
            class.push_str(if modifier.contains(has) { name } else { "" });
        }
        let _ = write!(
            out,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\">{}</text>",
            top + 13.5,
            escape(&run.text)
        );
    }
    out
}

fn words(text: &str, y: u16) -> String {
    let top = MARGIN + f64::from(y) * CELL.1;
    format!("<text class=\"i6 b\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", MARGIN + CELL.0, top + 13.5, escape(text))
}
