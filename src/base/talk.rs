//! Messages and questions for the person, on stderr.
//!
//! A failed write to stderr is ignored: nobody reads it, and it must not end a command. All text is made harmless here.
//! Nothing else in the library prints; the lints in `lib.rs` enforce that.

use std::io::{self, Write};

use crate::base::text;

/// Says one line.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", text::harmless(line));
}

/// Says several lines; each already ends with a newline.
pub fn say_all(lines: &str) {
    let lines: Vec<String> = lines.split('\n').map(text::harmless).collect();
    let _ = io::stderr().write_all(lines.join("\n").as_bytes());
}

/// Asks something; the answer is typed on the same line.
pub fn ask(question: &str) {
    let mut out = io::stderr();
    let _ = write!(out, "{}", text::harmless(question)).and_then(|()| out.flush());
}

/// A line that the next one overwrites.
pub fn progress(line: &str) {
    let mut out = io::stderr();
    let _ = write!(out, "\r\x1b[K{}", text::harmless(line)).and_then(|()| out.flush());
}
