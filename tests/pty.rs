//! The real binary in a real terminal: it behaves well, and however it ends, the terminal is restored.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::time::Duration;

use base64::Engine;
use common::{Server, binary, lockscope};
use terminal::{PATIENCE, Terminal};

const ESC: &str = "\x1b";

fn server() -> Server {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:fine", "worker-1", "PX", "600000"]);
    server.cli(&["SET", "lock:forever", "worker-2"]);
    server
}

fn open(server: &Server, options: &[&str], environment: &[(&str, &str)]) -> Terminal {
    let url = server.url();
    let mut arguments = vec!["-u", &url, "-p", "lock:*", "--env", "dev"];
    arguments.extend(options);
    Terminal::start(binary().to_str().unwrap(), &arguments, environment)
}

fn wait_for_locks(terminal: &Terminal) -> String {
    terminal.wait_for("the locks", |screen| screen.contains("2 locks") && screen.contains("live"))
}

fn count(raw: &[u8], what: &str) -> usize {
    raw.windows(what.len()).filter(|window| *window == what.as_bytes()).count()
}

#[test]
fn what_is_typed_reaches_a_command_under_a_lock_once() {
    let server = server();
    // A shell that waits for a child in the background runs a trap at once, so that no two interrupts become one.
    let script = "n=; trap 'n=x$n; echo got $n' INT; trap 'kill $!; echo bye $n; exit 3' TERM; sleep 600 & \
        echo ready; while :; do wait; done";
    let url = server.url();
    let arguments = ["acquire", "-u", &url, "lock:typed", "--ttl", "60s", "--", "sh", "-c", script];
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &[]);
    terminal.wait_for("the command", |screen| screen.contains("ready"));
    for got in ["got x", "got xx"] {
        terminal.press("\x03");
        terminal.wait_for("the interrupt", |screen| screen.contains(got));
    }
    terminal.signal(libc::SIGTERM);
    terminal.wait_for("its last words", |screen| screen.contains("bye xx") && !screen.contains("bye xxx"));
    assert_eq!(terminal.wait_for_end().status.exit_code(), 3);
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:typed"]));
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_that_a_command_started_on_a_terminal_outlives_who_renews_its_lock() {
    let server = server();
    // In one process group with the shell that started us, as in every script.
    let inner = "sleep 601 & a=$!; (sleep 602 & echo got $PPID $a $! $$ .); wait";
    let outer = "\"$@\"; echo the shell lives; read x";
    let url = server.url();
    let program = binary();
    let program = program.to_str().unwrap();
    let acquire = [program, "acquire", "-u", &url, "lock:typed", "--ttl", "60s", "--", "sh", "-c", inner];
    let mut terminal = Terminal::start("sh", &[&["-c", outer, "sh"], &acquire[..]].concat(), &[]);
    let screen = terminal.wait_for("the command", |screen| screen.contains(" ."));
    let line = screen.lines().find(|line| line.contains("got ")).unwrap_or_default();
    let pids: Vec<libc::pid_t> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(pids.len(), 4, "{screen}");
    // SAFETY: no memory is touched.
    unsafe { libc::kill(pids[0], libc::SIGKILL) };
    for pid in pids {
        common::wait_until("it ends", PATIENCE, || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.is_empty() || status.contains("State:\tZ")
        });
    }
    terminal.wait_for("whoever started us", |screen| screen.contains("the shell lives"));
    terminal.press("\r");
    terminal.wait_for_end();
}

#[test]
fn a_session_from_start_to_quit() {
    let server = server();
    let mut terminal = open(&server, &[], &[]);
    let screen = wait_for_locks(&terminal);
    assert!(screen.contains("DEV  redis://127.0.0.1"), "{screen}");
    let at_start = terminal.screen();
    assert!(at_start.alternate_screen() && at_start.hide_cursor() && at_start.bracketed_paste());
    assert!(!terminal.is_cooked());
    assert_eq!(at_start.mouse_protocol_mode(), vt100::MouseProtocolMode::None, "the mouse is the terminal's own");

    terminal.wait_for("the selection", |screen| screen.contains("1 of 2"));
    terminal.press("j");
    terminal.wait_for("the next lock", |screen| screen.contains("2 of 2"));
    terminal.press("/forever\r");
    terminal.wait_for("only what matches", |screen| screen.contains("1 of 1") && !screen.contains("lock:fine"));
    terminal.press("y");
    terminal.wait_for("that it was copied", |screen| screen.contains("copied the key"));
    let copied = format!("\x1b]52;c;{}", base64::engine::general_purpose::STANDARD.encode("lock:forever"));
    assert_eq!(count(&terminal.raw(), &copied), 1);
    terminal.resize(140, 40);
    terminal.wait_for("the larger screen", |screen| screen.lines().next().is_some_and(|line| line.contains(" ago")));
    terminal.resize(20, 4);
    terminal.wait_for("a notice", |screen| screen.contains("too small"));
    // Crossterm may leave a key unread that arrives together with a resize.
    terminal.resize(80, 24);
    terminal.wait_for("the list again", |screen| screen.contains("1 of 1"));
    terminal.press("m");
    terminal.wait_for("the mouse", |screen| screen.contains("mouse on"));
    assert_ne!(terminal.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    terminal.press("\x0c");
    // Pasted text is not keys.
    terminal.press("\x1b[200~qq\x1b[201~");
    terminal.press(ESC);
    terminal.wait_for("everything again", |screen| screen.contains("lock:fine"));
    terminal.press("q");
    let left = terminal.wait_for_end();
    assert_eq!(left.status.exit_code(), 0);
    left.assert_restored();
    assert!(count(&left.raw, "\x1b[?2026h") > 3);
    assert_eq!(count(&left.raw, "\x1b[?2026h"), count(&left.raw, "\x1b[?2026l") - 1, "each frame is whole");
}

#[test]
fn the_first_line_says_which_target_protects_this_address() {
    let server = server();
    let home = common::process::temporary_directory();
    let config = home.path().join("config.toml");
    std::fs::write(&config, format!("[target.orders-prod]\nurl = \"{}\"\nread_only = true\n", server.url())).unwrap();
    let mut terminal = open(&server, &["--config", config.to_str().unwrap()], &[]);
    terminal.resize(140, 24);
    let told = "read-only: target orders-prod has this address";
    let is_told = |screen: &str| screen.lines().next().is_some_and(|line| line.contains(told));
    // Before the console is drawn, the terminal shows the same sentence as every command prints.
    terminal.wait_for("the console's own line", |screen| screen.contains("q quit") && is_told(screen));
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn ctrl_c_and_signals_give_the_terminal_back() {
    let server = server();
    let mut quits = open(&server, &[], &[]);
    let told: Vec<Terminal> = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT]
        .into_iter()
        .map(|signal| {
            let terminal = open(&server, &[], &[]);
            wait_for_locks(&terminal);
            terminal.signal(signal);
            terminal
        })
        .collect();
    wait_for_locks(&quits);
    quits.press("\x03");
    quits.wait_for_end().assert_restored();
    for terminal in told {
        terminal.wait_for_end().assert_restored();
    }
}

#[test]
fn a_password_is_on_no_screen() {
    let password = "correct-horse-battery";
    let mut server = Server::notifying(&["--requirepass", password]);
    let _: () = redis::cmd("SET").arg("lock:a").arg("worker-1").query(&mut server.connection()).unwrap();
    let url = server.url().replace("redis://", &format!("redis://:{password}@"));
    for (url, environment) in [(url, vec![]), (server.url(), vec![("LOCKSCOPE_PASSWORD", password)])] {
        let arguments = ["-u", &url, "-p", "lock:*"];
        let mut terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &environment);
        terminal.wait_for("the lock", |screen| screen.contains("1 lock") && screen.contains("live"));
        terminal.resize(200, 50);
        terminal.wait_for("the larger screen", |screen| screen.contains(" ago"));
        for (key, sign) in
            [("5", "our cost"), ("3", "Nothing that matters"), ("v", "EVENT"), ("1\r", "freeing"), ("?", "Keys;")]
        {
            terminal.press(key);
            terminal.wait_for(key, |screen| screen.contains(sign));
        }
        server.kill();
        terminal.press("x5");
        terminal.wait_for("the loss", |screen| screen.contains("lost the server"));
        terminal.press("q");
        let left = terminal.wait_for_end();
        assert_eq!(count(&left.raw, password), 0);
        server.restart();
        let _: () = redis::cmd("SET").arg("lock:a").arg("worker-1").query(&mut server.connection()).unwrap();
    }
}

#[test]
fn a_stopped_console_comes_back() {
    let server = server();
    // It needs a shell, which continues a stopped process.
    let mut terminal = Terminal::start("sh", &["-i"], &[("PS1", "shell> "), ("ENV", "/dev/null")]);
    terminal.wait_for("the shell", |screen| screen.contains("shell>"));
    terminal.press(&format!("{} -u {} -p 'lock:*'\r", binary().display(), server.url()));
    wait_for_locks(&terminal);
    terminal.press("m");
    terminal.wait_for("the mouse", |screen| screen.contains("mouse on"));
    let before = terminal.raw().len();
    terminal.press("\x1a");
    terminal.wait_for("the shell again", |screen| screen.trim_end().ends_with("shell>"));
    let stopped = terminal.raw().split_off(before);
    for sign in ["\x1b[?1049l", "\x1b[?2004l", "\x1b[?25h", "\x1b[?1000l"] {
        assert_eq!(count(&stopped, sign), 1, "{sign:?} in {:?}", String::from_utf8_lossy(&stopped));
    }
    assert!(!terminal.screen().alternate_screen());
    terminal.press("fg\r");
    wait_for_locks(&terminal);
    assert!(terminal.screen().alternate_screen() && terminal.screen().bracketed_paste());
    assert_ne!(terminal.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None, "the mouse was on");
    terminal.press("j");
    terminal.wait_for("the next lock", |screen| screen.contains("2 of 2"));
    terminal.press("q");
    terminal.wait_for("the shell at last", |screen| screen.trim_end().ends_with("shell>"));
    terminal.press("exit\r");
    assert!(!terminal.wait_for_end().screen.alternate_screen());
}

#[test]
fn a_server_that_dies_and_returns_is_followed() {
    let mut server = server();
    let mut terminal = open(&server, &[], &[]);
    wait_for_locks(&terminal);
    server.kill();
    let lost = terminal.wait_for("the loss", |screen| screen.contains("RECONNECTING"));
    assert!(lost.contains("lock:fine") && lost.contains("stale"), "{lost}");
    server.restart();
    server.cli(&["SET", "lock:after", "worker-3", "PX", "600000"]);
    let held = |line: &str| line.contains("HELD ") && line.contains(" lock:after");
    terminal.wait_for("the truth", |screen| screen.contains("live") && screen.lines().any(held));
    terminal.press("q");
    terminal.wait_for_end().assert_restored();
}

#[test]
fn a_server_that_is_not_there_leaves_the_terminal_alone() {
    let mut server = server();
    server.kill();
    let left = open(&server, &[], &[]).wait_for_end();
    assert_eq!(left.status.exit_code(), 3);
    assert_eq!(count(&left.raw, ESC), 0, "{}", String::from_utf8_lossy(&left.raw));
    assert!(left.cooked);
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let server = Server::notifying(&[]);
    let mut terminal = open(&server, &[], &[]);
    terminal.wait_for("an empty list", |screen| screen.contains("No locks here") && screen.contains("ev/s"));
    let before = terminal.raw().len();
    std::thread::sleep(Duration::from_secs(1));
    let second = terminal.raw().split_off(before);
    // Only the age of the last scan, and its cost, change.
    let frames = count(&second, "\x1b[?2026h");
    assert!(frames <= 3 && second.len() <= 400, "{frames} frames: {:?}", String::from_utf8_lossy(&second));
    terminal.press("p");
    terminal.wait_for("the pause", |screen| screen.contains("PAUSED"));
    let before = terminal.raw().len();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(terminal.raw().len(), before, "{:?}", String::from_utf8_lossy(&terminal.raw()[before..]));
    terminal.press("q");
    terminal.wait_for_end().assert_restored();
}

#[test]
fn ascii_and_no_color_are_kept() {
    let server = server();
    server.cli(&["SET", "lock:锁\u{1b}[31m", "worker-\u{1b}]0;x\u{7}", "PX", "600000"]);
    let wait = |terminal: &Terminal| terminal.wait_for("the locks", |screen| screen.contains("3 locks"));
    let colours = |screen: &vt100::Screen| {
        let cells = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
        cells
            .filter_map(|(row, column)| screen.cell(row, column))
            .any(|cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default)
    };
    let mut coloured = open(&server, &[], &[]);
    let mut plain = open(&server, &["--ascii"], &[("NO_COLOR", "1")]);
    let screen = wait(&coloured);
    assert!(screen.contains("lock:锁\\u{1b}[31m"), "{screen}");
    assert!(colours(&coloured.screen()));
    wait(&plain);
    plain.resize(140, 24);
    let screen = plain.wait_for("a wide screen", |screen| screen.contains("lock:\\u{9501}"));
    assert!(screen.is_ascii(), "{screen}");
    assert!(!colours(&plain.screen()));
    for terminal in [&mut coloured, &mut plain] {
        terminal.press("?");
        terminal.wait_for("the help", |screen| screen.contains("Keys;"));
        terminal.press("xq");
    }
    coloured.wait_for_end().assert_restored();
    let left = plain.wait_for_end();
    left.assert_restored();
    assert!(left.raw.is_ascii());
}

#[test]
fn without_a_terminal_the_console_says_what_to_use() {
    let output = lockscope().timeout(PATIENCE).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).to_string();
    assert!(said.contains("the console needs a terminal") && said.contains("lockscope ls"), "{said}");
    assert!(output.get_output().stdout.is_empty());
    let pipe = format!("{} | cat; exit 7", binary().display());
    let left = Terminal::start("sh", &["-c", &pipe], &[]).wait_for_end();
    assert!(left.screen.contents().contains("the console needs a terminal"), "{}", left.screen.contents());
    assert_eq!((left.status.exit_code(), count(&left.raw, ESC)), (7, 0));
}

const UUID: &str = "0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50";

fn take(server: &Server, token: &str, lease: &str) {
    server.cli(&["DEL", "lock:a"]);
    server.cli(&["SET", "lock:a", token, "PX", lease]);
}

/// Between the preview and the answer the lock is renewed, or taken again.
fn answered(server: &Server, holder: &str, options: &[&str], meanwhile: impl FnOnce()) -> (u32, String) {
    let url = server.url();
    let arguments = [&["release", "-u", &url, "lock:a", "--holder", holder, "--env", "dev"], options].concat();
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &[]);
    terminal.wait_for("the question", |screen| screen.contains("[y/N]"));
    meanwhile();
    terminal.press("y\r");
    let screen = terminal.wait_for("the result", |screen| screen.contains("freed") || screen.contains("refused"));
    (terminal.wait_for_end().status.exit_code(), screen.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn the_command_tells_of_a_renewal_that_came_while_somebody_typed() {
    let server = Server::start();
    take(&server, UUID, "30000");
    let (code, screen) = answered(&server, UUID, &[], || drop(server.cli(&["PEXPIRE", "lock:a", "90000"])));
    assert!(code == 0 && screen.contains("while you decided"), "{screen}");

    take(&server, "worker-7", "30000");
    let again = || take(&server, "worker-7", "90000");
    let (code, screen) = answered(&server, "worker-7", &[], again);
    assert!(code == 1 && screen.contains("--if-renewed"), "{screen}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:a"]));

    let later = || take(&server, "worker-7", "180000");
    let (code, screen) = answered(&server, "worker-7", &["--if-renewed"], later);
    assert!(code == 0 && screen.contains("while you decided"), "{screen}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]));
}

/// A fair lock whose waiters hear nothing: the warning about them is long.
fn fair() -> (Server, [String; 4]) {
    let server = Server::notifying(&[]);
    let waiters = ["1", "2", "3", "4"].map(|thread| format!("9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:{thread}"));
    server.cli(&["HSET", "lock:fair", "3f2a8c00-1111-4222-8333-444455556666:57", "1"]);
    server.cli(&["PEXPIRE", "lock:fair", "600000"]);
    for waiter in &waiters {
        server.cli(&["RPUSH", "redisson_lock_queue:{lock:fair}", waiter]);
        server.cli(&["ZADD", "redisson_lock_timeout:{lock:fair}", "99999999999999", waiter]);
    }
    (server, waiters)
}

#[test]
fn on_a_small_terminal_every_warning_is_seen_before_a_lock_is_freed() {
    for (height, fold) in [(24, "more below: down"), (14, "more to read first: down")] {
        let (server, waiters) = fair();
        let mut terminal = open(&server, &[], &[]);
        terminal.resize(80, height);
        terminal.wait_for("the lock", |screen| screen.contains("lock:fair") && screen.contains("live"));
        terminal.press("Wx");
        let mut seen = terminal.wait_for("the question", |screen| screen.contains(fold));
        // Whether it can be undone comes a moment later, as one more line.
        let end = "waiters are not put back";
        if height == 24 {
            seen =
                terminal.wait_for("whether it can be undone", |screen| screen.contains("Type y") && has(screen, end));
        }
        while !has(&seen, end) {
            terminal.press("y\r");
            seen.push_str(
                &terminal.wait_for("the next lines", |screen| screen.contains("There is more to read first")),
            );
            assert!(server.ask::<bool, _>(&["EXISTS", "lock:fair"]), "{seen}");
            terminal.press("\x15\x1b[B");
            seen.push_str(&terminal.wait_for("the question again", |screen| screen.contains("Type y")));
        }
        for waiter in &waiters {
            assert!(seen.contains(waiter), "{height}: {waiter} in\n{seen}");
        }
        assert!(has(&seen, "from the queue, unless somebody listens again"), "{seen}");
        assert!(server.ask::<bool, _>(&["EXISTS", "lock:fair"]));
        terminal.press("y\r");
        terminal.wait_for("the release", |screen| screen.contains("┌ Result;") && has(screen, "u puts it back"));
        assert!(!server.ask::<bool, _>(&["EXISTS", "redisson_lock_queue:{lock:fair}"]));
        // One closes what came of it.
        terminal.press("qq");
        terminal.wait_for_end();
    }
}

/// Whether the words are there, however the lines are broken.
fn has(screen: &str, words: &str) -> bool {
    let plain: Vec<&str> = screen.split_whitespace().filter(|word| *word != "│").collect();
    plain.join(" ").contains(words)
}

#[test]
fn a_private_screen_hides_whom_a_release_would_drop() {
    let (server, waiters) = fair();
    let mut terminal = open(&server, &[], &[]);
    terminal.resize(140, 50);
    terminal.wait_for("the lock", |screen| screen.contains("lock:fair") && screen.contains("live"));
    for (keys, sign) in [("WP\r", "if nobody listens on"), ("x", "waiters are not put back")] {
        terminal.press(keys);
        let screen = terminal.wait_for(sign, |screen| has(screen, sign));
        assert!(!waiters.iter().any(|waiter| screen.contains(&waiter[..13])), "{screen}");
    }
}

#[test]
fn the_usual_questions_take_at_most_three_keys_at_80x24() {
    let server = server();
    let mut terminal = open(&server, &[], &[]);
    // The most urgent, and why: no key.
    let screen = wait_for_locks(&terminal);
    assert!(screen.find("lock:forever") < screen.find("lock:fine"), "{screen}");
    terminal.wait_for("the evidence", |screen| screen.contains("it has no TTL: if its holder died, it stays"));
    // Who holds it, and is it safe to free: one key.
    terminal.press("\r");
    terminal.wait_for("the holder and the advice", |screen| {
        screen.contains("worker-2") && screen.contains("free it?") && screen.contains("1 of 2, n next")
    });
    // The next one: one key.
    terminal.press("n");
    terminal.wait_for("the next lock", |screen| screen.contains("worker-1") && screen.contains("2 of 2"));
    terminal.press("N");
    terminal.wait_for("the one before", |screen| screen.contains("worker-2"));
    // Hand it to a colleague: one key.
    terminal.press("Y");
    let screen = terminal.wait_for("the incident", |screen| screen.contains("esc closes"));
    for part in [": no-ttl (", "held by worker-2", "waiters: ", "free it? ", "done from here: nothing"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert!(screen.contains("look: lockscope show lock:forever --observe 15s -u redis://127.0.0.1:"), "{screen}");
    let raw = terminal.raw();
    let raw = String::from_utf8_lossy(&raw);
    let copied =
        raw.rsplit("\x1b]52;c;").next().and_then(|rest| rest.split(['\x07', '\x1b']).next()).unwrap_or_default();
    let copied = base64::engine::general_purpose::STANDARD.decode(copied).expect("what was copied");
    assert!(String::from_utf8_lossy(&copied).starts_with("lock:forever on redis://"), "{raw:?}");
    // Who waits, and what changed: one key each.
    terminal.press(ESC);
    terminal.wait_for("the lock", |screen| !screen.contains("esc closes"));
    terminal.press("2");
    terminal.wait_for("who waits", |screen| screen.contains("Nobody waits for a lock"));
    server.cli(&["DEL", "lock:fine"]);
    terminal.press("3");
    terminal.wait_for("what changed", |screen| screen.contains("lock:fine") || screen.contains("Nothing"));
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn a_filter_works_while_it_is_typed_and_many_are_put_back_at_80x24() {
    let server = server();
    let mut terminal = open(&server, &["--write"], &[]);
    wait_for_locks(&terminal);
    terminal.press("/fine");
    terminal.wait_for("only what matches", |screen| screen.contains("lock:fine") && !screen.contains("lock:forever"));
    terminal.press(ESC);
    terminal.wait_for("all again", |screen| screen.contains("lock:forever"));
    terminal.press("/sta\t");
    terminal.wait_for("the field", |screen| screen.contains("/ state:") && screen.contains("tab completes"));
    terminal.press("no\t\r");
    terminal.wait_for("the state", |screen| screen.contains("state:no-ttl") && !screen.contains("lock:fine"));
    terminal.press(ESC);
    terminal.wait_for("all again", |screen| screen.contains("lock:fine"));
    terminal.press("*x");
    terminal.wait_for("the gentler choice", |screen| screen.contains("give 1 of 2 locks 5m00s"));
    terminal.press("\t");
    terminal.wait_for("the question", |screen| screen.contains("free 2 locks"));
    terminal.press("y\r");
    common::wait_until("freed", PATIENCE, || server.ask::<i64, _>(&["DBSIZE"]) == 0);
    terminal.wait_for("the results", |screen| screen.contains("u puts back"));
    terminal.press("u");
    terminal.wait_for("the question", |screen| screen.contains("put 2 locks back"));
    terminal.press("y\r");
    common::wait_until("put back", PATIENCE, || server.ask::<i64, _>(&["DBSIZE"]) == 2);
    terminal.wait_for("the results", |screen| screen.contains("┌ Result;"));
    terminal.press(ESC);
    terminal.wait_for("the locks", |screen| !screen.contains("┌ Result;"));
    terminal.press("q");
    terminal.wait_for_end();
}
