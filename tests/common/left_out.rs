//! Counts what a test could not do on this machine: never a silent pass.
//!
//! With `LOCKSCOPE_STRICT=1`, as in `.ci/run`, it is a failure. Otherwise it is noted in `target/left-out`, and `make
//! test` names it on its last lines.

use std::fs::OpenOptions;
use std::io::Write;

use super::server::target_directory;

/// Notes that this test, or a part of it, was left out.
#[track_caller]
pub fn left_out(why: &str) {
    let strict = std::env::var_os("LOCKSCOPE_STRICT").is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!strict, "left out, and LOCKSCOPE_STRICT is set: {why}");
    note(why);
}

/// Notes that this test asks for a server of another kind than the usual one. `make test-matrix` runs it there, so that
/// this is no failure even where nothing may be left out.
pub fn left_to_the_matrix(why: &str) {
    note(&format!("{why}; make test-matrix does it"));
}

fn note(why: &str) {
    eprintln!("left out: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    let path = target_directory().join("left-out");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a place for notes");
    // One write for each line, so that parallel tests do not mix theirs.
    file.write_all(format!("{why} ({test})\n").as_bytes()).expect("a note");
}
