//! What is said beside the data: lines and questions on stderr.
//!
//! A stderr that is closed or full has nobody behind it, so that a failed write is nobody's error and never ends a
//! command. Whatever a sentence carries, only harmless text leaves here. Nothing else in the library prints: the lints in
//! `lib.rs` see to that.

use std::io::{self, Write};

use crate::base::text;

/// Says one line.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", text::harmless(line));
}

/// Says something of more lines than one, each ended already.
pub fn say_all(lines: &str) {
    let lines: Vec<String> = lines.split('\n').map(text::harmless).collect();
    let _ = io::stderr().write_all(lines.join("\n").as_bytes());
}

/// Asks something; the answer is typed on the same line.
pub fn ask(question: &str) {
    let mut out = io::stderr();
    let _ = write!(out, "{}", text::harmless(question)).and_then(|()| out.flush());
}

/// A line that the next one is written over.
pub fn progress(line: &str) {
    let mut out = io::stderr();
    let _ = write!(out, "\r\x1b[K{}", text::harmless(line)).and_then(|()| out.flush());
}
