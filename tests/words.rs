//! The texts of the program and of its pages are plain English: no roundabout phrases, and one style of durations.
//!
//! It reads sources and pages, not a running program. Phrases are banned because readers had to read them twice.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that readers stumbled over, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("all the same", "anyway, still"),
    ("anew", "again"),
    ("any other key closes", "any key closes"),
    ("by then", "name the moment: when it runs, meanwhile"),
    ("does not tell", "does not say, does not show, does not report"),
    ("done: free", "freed X"),
    ("done: release", "freed X"),
    ("due every", "the library would renew every"),
    ("for want of", "because there is no"),
    ("half end within {p50} and", "half end within …, 99 % within …"),
    ("in vain", "and failed"),
    ("99 of 100", "99 %"),
    ("nobody is seen to", "nobody waits, or say who polls"),
    ("nought", "zero"),
    ("of 1 holds", "1 hold seen"),
    ("of late", "recent, recently"),
    ("refused: {", "not done: …, not put back: …"),
    ("seen to wait", "waits, polls"),
    ("seen trying", "tries, polls"),
    ("seen, every", "seen, one every"),
    ("so many times", "this many times"),
    ("so much longer", "this much longer"),
    ("somebody tries to take", "somebody polls for it"),
    ("told apart by", "distinguished by"),
    ("undo puts it back", "u puts it back, undone"),
    ("what came of it", "the result"),
    ("whoever", "a client that, anybody who"),
    ("nothing on the server shows them", "the server keeps no list of them"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(under: &str, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(under)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy().into_owned();
            match path.is_dir() {
                true => folders.push(path),
                false if ends.iter().any(|end| name.ends_with(end)) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<PathBuf> {
    let top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"].map(|name| root().join(name));
    files("docs", &[".md"]).into_iter().chain(top).collect()
}

/// What operators and contributors run: Lua for applications, and the scripts behind the make targets.
fn scripts() -> Vec<PathBuf> {
    [files("lua", &[".lua"]), files("scripts", &[""]), files(".github", &[".yml"])].concat()
}

/// `src/a.rs:7: text`.
fn place(path: &Path, number: usize, line: &str) -> String {
    format!("{}:{}: {}", path.strip_prefix(root()).unwrap().display(), number + 1, line.trim())
}

/// Whether the phrase is in the line, as whole words: not inside a name of the code.
fn has_words(line: &str, phrase: &str) -> bool {
    let joins = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    line.match_indices(phrase)
        .any(|(at, _)| !joins(line[..at].chars().next_back()) && !joins(line[at + phrase.len()..].chars().next()))
}

#[test]
fn no_text_and_no_comment_has_a_phrase_that_was_read_twice() {
    let mut wrong = Vec::new();
    for path in files("src", &[".rs", ".toml", ".snap", ".lua"]).into_iter().chain(scripts()).chain(pages()) {
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let lower = line.to_lowercase();
            let hit = BANNED.iter().find(|(phrase, _)| has_words(&lower, phrase));
            wrong.extend(
                hit.map(|(phrase, better)| format!("{}\n  not {phrase:?} but: {better}", place(&path, number, line))),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where a number, or a placeholder for one, is followed by a space and a unit of time.
fn spaced_unit(line: &str) -> bool {
    let units = ["ms", "s", "min", "h", "d"];
    let is_end = |text: &str, unit: &str| {
        text.strip_prefix(unit)
            .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    line.char_indices().filter(|(_, letter)| *letter == ' ').any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let number = before.is_some_and(|letter| letter.is_ascii_digit() || letter == '}');
        number && units.iter().any(|unit| is_end(&line[at + 1..], unit))
    })
}

/// The text between quotes, outside comments.
fn quoted(line: &str) -> String {
    let code = line.split("//").next().unwrap_or_default();
    code.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" | ")
}

#[test]
fn durations_have_one_style_everywhere() {
    assert!(spaced_unit("within 10 s.") && spaced_unit("{lag} ms behind") && spaced_unit("for 5 min"));
    assert!(!spaced_unit("10s") && !spaced_unit("3 samples") && !spaced_unit("at 12 hosts") && !spaced_unit("{} has"));
    let mut wrong = Vec::new();
    for path in files("src", &[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        if name.ends_with("tests.rs") || name.contains("/tests/") || name.contains("/testkit/") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = program.lines().enumerate().filter(|(_, line)| spaced_unit(&quoted(line)));
        wrong.extend(lines.map(|(number, line)| place(&path, number, line)));
    }
    // The figures of the benchmarks are a table of measurements, with units of their own.
    for path in pages().into_iter().filter(|path| !path.ends_with("benchmarks.md")) {
        let text = fs::read_to_string(&path).unwrap();
        wrong.extend(
            text.lines().enumerate().filter(|(_, line)| spaced_unit(line)).map(|(n, line)| place(&path, n, line)),
        );
    }
    assert!(wrong.is_empty(), "write 10s, 350ms, 5m, 24h:\n{}", wrong.join("\n"));
}
