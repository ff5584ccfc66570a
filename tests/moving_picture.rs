//! The moving picture of the README, recorded from the demo: an orphan is selected with its evidence, freed, and put back.
//!
//! `make docs` runs it. Each frame is a screen of the real console in a terminal; the words below it are the keys.

mod common;
#[path = "../examples/pictures/moving.rs"]
mod moving;
#[path = "../examples/pictures/svg.rs"]
// The still pictures are made elsewhere.
#[allow(dead_code)]
mod svg;
#[path = "common/terminal.rs"]
mod terminal;

use common::{binary, program};
use moving::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use terminal::Terminal;

const SIZE: (u16, u16) = (100, 28);
const MOST_BYTES: usize = 160_000;

/// The screen of the terminal as the cells of a picture.
fn cells(screen: &vt100::Screen) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
    for y in 0..SIZE.1 {
        for x in 0..SIZE.0 {
            let Some(cell) = screen.cell(y, x).filter(|cell| !cell.is_wide_continuation()) else { continue };
            let mut style = Style::new().fg(color(cell.fgcolor())).bg(color(cell.bgcolor()));
            for (is_on, modifier) in [
                (cell.bold(), Modifier::BOLD),
                (cell.dim(), Modifier::DIM),
                (cell.underline(), Modifier::UNDERLINED),
                (cell.inverse(), Modifier::REVERSED),
            ] {
                style = if is_on { style.add_modifier(modifier) } else { style };
            }
            let text = if cell.has_contents() { cell.contents() } else { " " };
            buffer[(x, y)].set_symbol(text).set_style(style);
        }
    }
    buffer
}

fn color(color: vt100::Color) -> Color {
    match color {
        vt100::Color::Default => Color::Reset,
        vt100::Color::Idx(index) => match index % 8 {
            1 => Color::Red,
            2 => Color::Green,
            3 => Color::Yellow,
            4 => Color::Blue,
            5 => Color::Magenta,
            6 => Color::Cyan,
            _ => Color::Reset,
        },
        vt100::Color::Rgb(..) => Color::Reset,
    }
}

/// Presses keys, waits for what they do, and keeps the screen.
struct Recording {
    terminal: Terminal,
    frames: Vec<Frame>,
}

impl Recording {
    #[track_caller]
    fn step(&mut self, keys: &str, words: &str, seconds: f32, done: impl Fn(&str) -> bool) {
        self.terminal.press(keys);
        self.terminal.wait_for(words, done);
        self.frames.push(Frame { screen: cells(&self.terminal.screen()), words: words.into(), seconds });
    }
}

#[test]
#[ignore = "takes a minute and writes docs/pictures/console.svg: make docs"]
fn an_orphan_of_the_demo_is_freed_and_put_back() {
    let server = program::program();
    let arguments = ["demo", "--server", server.to_str().expect("a path")];
    let mut terminal = Terminal::start(binary().to_str().expect("a path"), &arguments, &[]);
    terminal.resize(SIZE.0, SIZE.1);
    let mut recording = Recording { terminal, frames: Vec::new() };
    // Fresh, so that its lease does not run out during the story.
    let orphans = |screen: &str| screen.lines().filter(|line| line.contains("ORPHAN")).count();
    recording.terminal.wait_for("the fleet", |screen| screen.contains("CONTENDED"));
    // Its name may be cut in the middle, not at its end.
    let orphan = regex::Regex::new(r"ORPHAN .*stock-\S*:(\d+)").expect("an expression");
    let screen = recording.terminal.wait_for("an orphan", |screen| orphan.is_match(screen));
    let key = format!("stock-lock:{}", &orphan.captures(&screen).expect("waited for")[1]);
    recording.step("", "lockscope demo: dozens of locks of a dozen libraries, the worst first", 3.0, |_| true);
    recording.step(&format!("/{key}"), "/   a filter", 1.5, |screen| screen.contains(&format!("/ {key}")));
    recording.step("\r", "the orphan, and below the list the reason with its numbers", 4.0, |screen| {
        screen.contains("1 of 1") && orphans(screen) > 0
    });
    recording.step("\r", "enter   its lease, its renewals, its holder, who waits", 4.0, |screen| {
        screen.contains("freeing") && !screen.contains("asking the server")
    });
    recording.terminal.press("\x1b");
    recording.terminal.wait_for("the list", |screen| screen.contains("STATE"));
    recording.step("W", "W   writing is off until you allow it", 2.0, |screen| screen.contains("WRITING"));
    recording.step("x", "x   what freeing it takes, and on which conditions", 5.0, |screen| screen.contains("only if"));
    recording
        .step("y worker is gone", "y and a reason, for the record", 2.0, |screen| screen.contains("worker is gone"));
    recording.step("\r", "freed, if the holder was still the one that you saw", 3.5, |screen| {
        !screen.contains("only if") && orphans(screen) == 0
    });
    recording.step("u", "u   the wrong one? undo", 3.5, |screen| screen.contains("Type y"));
    recording.step("y\r", "put back, since nobody took it meanwhile", 3.5, |screen| {
        !screen.contains("Type y") && !screen.contains("FREE") && screen.contains("1 of 1")
    });

    let picture = moving::svg(&recording.frames, "lockscope: an orphan lock is found, freed and put back");
    assert!(picture.len() < MOST_BYTES, "{} bytes", picture.len());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    std::fs::write(folder.join("console.svg"), picture).expect("the picture");
}
