//! `docs/first-incident.md`: what an engineer asks first is answered with at most three keys at 80x24, and the page shows
//! the screens on which it is.
//!
//! `LOCKSCOPE_BLESS=1 cargo test --test first_incident` writes the present screens into the page.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::PathBuf;
use std::time::Duration;

use common::{Listener, Server, binary, wait_until};
use terminal::Terminal;

const STUCK: &str = "orders-lock:17";
const HOLDER: &str = "7c1e3d52-1f0a-4c9b-8d6e-2b9f4a1c0e77:57";
const LEASE: &str = "600000";
/// Slow enough that a busy machine does not miss the time between the first missing renewal and the third.
const BEAT: Duration = Duration::from_millis(1_500);

/// A question of the page: its heading, the keys as the page names them, and what is then on the screen.
struct Question {
    heading: &'static str,
    keys: &'static [(&'static str, &'static str)],
    answer: &'static [&'static str],
    /// Back to the list, read-only.
    back: &'static str,
}

/// In the order of the page; each starts from the list.
const QUESTIONS: &[Question] = &[
    Question {
        heading: "Which is the most urgent, and why?",
        keys: &[("g", "g")],
        answer: &["ORPHAN", STUCK, "renewed every", "NO-TTL", "lock:migration"],
        back: "",
    },
    Question {
        heading: "Who holds it?",
        keys: &[("g", "g"), ("enter", "\r")],
        answer: &[STUCK, "ORPHAN", "holder", "7c1e", "expected", "seen", "waiting      2 processes"],
        back: "\x1b",
    },
    Question {
        heading: "Is it safe to free it?",
        keys: &[("g", "g"), ("W", "W"), ("x", "x")],
        answer: &["DEL orders-lock:17", "PUBLISH redisson_lock__channel:{orders-lock:17}", "only if", "held by"],
        back: "\x1bW",
    },
    Question {
        heading: "Who waits for it?",
        keys: &[("2", "2")],
        answer: &["FAIL/S", STUCK, "orders-lock:17: 2 wait for it"],
        back: "1",
    },
    Question {
        heading: "What changed in the last five minutes?",
        keys: &[("3", "3")],
        answer: &["HELD → STALLED", "STALLED → ORPHAN", STUCK],
        back: "1",
    },
    Question {
        heading: "Hand it over",
        keys: &[("g", "g"), ("Y", "Y")],
        answer: &[
            STUCK,
            ": orphan (",
            "held by 7c1e",
            "waiters: ",
            "free it?",
            "done from here: nothing",
            "look: lockscope show",
        ],
        back: "\x1b",
    },
];

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/first-incident.md")
}

/// The lines of the screen below a heading: from where to where they stand in the page.
fn place(lines: &[String], heading: &str) -> std::ops::Range<usize> {
    let after = |from: usize, what: &str| {
        from + lines[from..].iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}"))
    };
    let title = after(0, &format!("## {heading}"));
    let open = after(title, "```text") + 1;
    open..after(open, "```")
}

/// The line as on a server at the usual port. A border behind the address keeps its place.
fn with_usual_port(line: &str, url: &str) -> String {
    const USUAL: &str = "redis://127.0.0.1:6379";
    let line = line.trim_end();
    let shorter = " ".repeat(url.len() - USUAL.len());
    match line.strip_suffix('│').and_then(|inside| inside.split_once(url)) {
        Some((before, after)) => format!("{before}{USUAL}{after}{shorter}│"),
        None => line.replace(url, USUAL),
    }
}

/// A watchdog that stops: the lock is taken and renewed on a beat, and then no more.
fn renew_and_stop(server: &Server) {
    server.cli(&["HINCRBY", STUCK, HOLDER, "1"]);
    server.cli(&["PEXPIRE", STUCK, LEASE]);
    for _ in 0..4 {
        std::thread::sleep(BEAT);
        server.cli(&["PEXPIRE", STUCK, LEASE]);
    }
}

#[test]
fn each_first_question_takes_at_most_three_keys_at_80x24() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:migration", "3miRwxN8jtYsIDh67GO+uOOa"]);
    server.cli(&["SET", "lock:invoice:17", "worker-7", "PX", "600000"]);
    server.cli(&["SET", "lock:report", "qzUWrh/dHLGjSpxNpK8/dXwr", "EX", "600"]);
    let url = server.url();
    let mut terminal = Terminal::start(binary().to_str().expect("a path"), &["-u", &url, "--env", "dev"], &[]);
    terminal.wait_for("the locks", |screen| screen.contains("3 locks") && screen.contains("live"));
    let channel = format!("redisson_lock__channel:{{{STUCK}}}");
    let _waiters = [(); 2].map(|()| Listener::on(&server, "SUBSCRIBE", &channel));
    renew_and_stop(&server);
    let first = |screen: &str| screen.find(STUCK) < screen.find("lock:migration");
    terminal.wait_for("the orphan on top", |screen| screen.contains("ORPHAN") && first(screen));

    let text = std::fs::read_to_string(page()).expect("the page");
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for Question { heading, keys, answer, back } in QUESTIONS {
        assert!(keys.len() <= 3, "{heading}");
        keys.iter().for_each(|(_, key)| terminal.press(key));
        let answered = |screen: &str| answer.iter().all(|part| screen.contains(part));
        let screen = terminal.wait_for(heading, answered);
        let screen: Vec<String> = screen.lines().map(|line| with_usual_port(line, &url)).collect();
        if std::env::var_os("LOCKSCOPE_BLESS").is_some() {
            let place = place(&lines, heading);
            lines.splice(place, screen);
        }
        let shown = lines[place(&lines, heading)].join("\n");
        assert!(
            answered(&shown),
            "the screen of {heading:?} in docs/first-incident.md does not show {answer:?}:\n{shown}"
        );
        let told = lines[..place(&lines, heading).start].join("\n");
        let told = told.rsplit("## ").next().unwrap_or_default();
        for (name, _) in *keys {
            assert!(told.contains(&format!("`{name}`")), "{heading}: the page does not name the key {name}");
        }
        for key in back.chars() {
            // An escape that a letter follows at once would be one key.
            terminal.press(&key.to_string());
            let left = if key == '\x1b' { "STATE" } else { "READ-ONLY" };
            terminal.wait_for("the way back", |screen| screen.contains(left));
        }
        // Nothing of this question is left on the next screen, not even a notice in the last line.
        let rested = |screen: &str| screen.contains("STATE▾") && screen.contains("q quit");
        terminal.wait_for("the list", rested);
    }
    if std::env::var_os("LOCKSCOPE_BLESS").is_some() {
        std::fs::write(page(), lines.join("\n") + "\n").expect("the page");
    }
    wait_until("the lock was not touched", Duration::from_secs(5), || server.ask::<bool, _>(&["EXISTS", STUCK]));
}
