//! The tuner in a real terminal, on a recorded hour: move, see the count change, jump into an episode, label, write back.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use common::history::record_as;
use common::{Desk, Server, binary, process};
use lockscope::store::{History, Verdict};
use terminal::Terminal;

const RULES: &str = "# Ours.\n[[rules]]\nname = \"LockManyWaiters\"\nabove = 4 # a guess\n";
const RULE: &str = "LockManyWaiters";

/// The number in a row of the numbers, as it is and of the candidate.
fn row(screen: &str, name: &str) -> Option<Vec<String>> {
    let line = screen.lines().find(|line| line.contains(&format!(" {name} ")))?;
    let (_, rest) = line.split_once(&format!(" {name} "))?;
    Some(rest.split_whitespace().map(String::from).collect())
}

#[test]
fn from_a_guess_to_a_number_in_the_console() {
    let server = Server::notifying(&[]);
    let directory = process::temporary_directory();
    let (store, rules) = (directory.path().join("history"), directory.path().join("rules.toml"));
    record_as(&store, &server.url());
    std::fs::write(&rules, RULES).unwrap();
    let (url, store_path) = (server.url(), store.to_str().unwrap());
    let options = ["-u", &url, "--store", store_path, "--rules", rules.to_str().unwrap()];
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &options, &[]);
    terminal.wait_for("the locks", |screen| screen.contains("live"));
    terminal.press("4");
    terminal.wait_for("what the store has", |screen| screen.contains("history"));
    let selected = |screen: &str| screen.lines().any(|line| line.starts_with('▌') && line.contains(RULE));
    terminal.press("g");
    for _ in 0..20 {
        let screen = terminal.wait_for("a selection", |screen| screen.contains('▌'));
        if selected(&screen) {
            break;
        }
        let before = screen.lines().find(|line| line.starts_with('▌')).unwrap_or_default().to_string();
        terminal.press("j");
        terminal.wait_for("the next rule", |screen| !screen.lines().any(|line| line == before));
    }
    terminal.press("T");
    let screen = terminal.wait_for("the tuner", |screen| screen.contains("as it is"));
    assert!(screen.contains("% covered, 1 gap"), "{screen}");
    assert_eq!(row(&screen, "firings").unwrap()[0], "3", "{screen}");

    // Move: the count changes.
    terminal.press("\x1b[A");
    let screen = terminal.wait_for("the candidate", |screen| row(screen, "firings").is_some_and(|row| row.len() == 2));
    assert_eq!(row(&screen, "firings").unwrap(), ["3", "2"], "{screen}");

    // Jump: the second episode, which no longer fires, and what happened then.
    terminal.press("\x1b[D");
    terminal.wait_for("the near miss", |screen| screen.contains("episode a, 3 of 4"));
    terminal.press("\x1b[D");
    terminal.wait_for("the second episode", |screen| {
        screen.contains("episode 5, 2 of 4") && screen.contains("no longer fires")
    });
    terminal.press("\r");
    terminal.wait_for("what happened", |screen| screen.contains("nothing notable was recorded"));
    terminal.press("\x1b");
    terminal.wait_for("the chart", |screen| screen.contains("as it is"));

    // Label: it is in the store.
    terminal.press("o");
    terminal.wait_for("the label", |screen| screen.lines().any(|line| line.starts_with('▌') && line.contains("noise")));
    let labels = History::open(&store).unwrap().labels(RULE).unwrap();
    assert_eq!(labels.iter().map(|label| label.verdict).collect::<Vec<_>>(), [Some(Verdict::Noise)]);
    assert!(!labels[0].by.is_empty());

    // Write back: the difference first, then the file, with its comments.
    terminal.press("w");
    let screen = terminal.wait_for("the difference", |screen| screen.contains("+ above = 5"));
    assert!(screen.contains("- above = 4 # a guess"), "{screen}");
    assert_eq!(std::fs::read_to_string(&rules).unwrap(), RULES, "not yet");
    terminal.press("\r");
    terminal.wait_for("that it was written", |screen| screen.contains("written to"));
    assert_eq!(std::fs::read_to_string(&rules).unwrap(), RULES.replace("4 #", "5 #"));
    terminal.press("q");
    let left = terminal.wait_for_end();
    assert_eq!(left.status.exit_code(), 0);

    // The command says the same of the rule as it is now.
    let ran = Desk::at(&server).run_bare(&[
        "tune",
        "--json",
        "--store",
        store_path,
        "--rules",
        rules.to_str().unwrap(),
        "--rule",
        RULE,
    ]);
    let rule = &ran.json()["rules"][0];
    assert_eq!((&rule["current"]["above"], &rule["current"]["firings"]), (&5.0.into(), &2.into()), "{rule}");
    assert_eq!(rule["labels"]["noise"], 1);
}
