//! A hostile or broken server against every command and the console: no panic, no hang, no unbounded memory, and no
//! claim that something was done when it was not.
//!
//! In each run a proxy before a real server answers one command in its own way, chosen by a seed.
//! `LOCKSCOPE_HOSTILE_ROUNDS` sets how often each command is run.

mod common;
#[path = "common/hostile.rs"]
mod hostile;
#[path = "common/terminal.rs"]
mod terminal;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Server, binary, lockscope_process};
use hostile::{Hostile, Mischief};
use serde_json::Value;
use terminal::Terminal;

/// No command takes longer than this to notice that its server does not answer.
const LIMIT: Duration = Duration::from_secs(55);
/// The most memory that a command may take, in MiB, whatever it is sent.
const MOST_MEMORY: u64 = 400;
const PIPE: &str = "key:lock:a";

/// Every command that speaks to a server, in a few forms. `HOME` is the home of the one who runs it.
const COMMANDS: &[&[&str]] = &[
    &["ls", "--json"],
    &["ls", "--observe", "300ms"],
    &["show", "lock:a", "--json"],
    &["show", "lock:h"],
    &["watch", "--for", "700ms", "--json"],
    &["contention", "--for", "400ms", "--json"],
    &["contention", "--for", "400ms", "--monitor"],
    &["discover"],
    &["discover", "--json"],
    &["check", "--for", "1s", "--json"],
    &["serve", "--listen", "127.0.0.1:0", "--for", "1s"],
    &["record", "--store", "HOME/history", "--for", "1s"],
    &["bundle", "lock:a", "--out", "HOME/incident"],
    &["bundle", "lock:h", "--observe", "300ms", "--reveal", "--out", "HOME/incident"],
    &["doctor"],
    &["doctor", "--json"],
    &["release", "lock:a", "--holder", "worker-1", "--dry-run"],
    &["release", "lock:a", "--holder", "worker-1", "--yes", "--json"],
    &["release", "lock:h", "--holder", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "--yes", "--json"],
    &["release", "--filter", PIPE],
    &["release", "--filter", PIPE, "--yes", "--json"],
    &["extend", "lock:a", "--holder", "worker-1", "--ttl", "900s", "--yes", "--json"],
    &["undo", "--yes", "--unwatched", "--json"],
    &["acquire", "lock:new", "--ttl", "60s", "--json"],
    &["acquire", "lock:new", "--ttl", "60s", "--hold", "300ms", "--json"],
    &["acquire", "lock:new", "--ttl", "60s", "--", "true"],
    &["probe", "--for", "1s", "--json"],
];

/// Replies of the wrong type or size, or of no type at all. Each of them ends.
const NONSENSE: &[&[u8]] = &[
    b"*0\r\n",
    b"*-1\r\n",
    b"$-1\r\n",
    b"_\r\n",
    b":0\r\n",
    b":-9223372036854775808\r\n",
    b":9223372036854775807\r\n",
    b"+OK\r\n",
    b"+\r\n",
    b"$0\r\n\r\n",
    b"-\r\n",
    b"-ERR \x1b[2J\x1b]0;owned\x07 no\r\n",
    b"-LOADING Redis is loading the dataset in memory\r\n",
    b"-NOPERM this user has no permissions to run the 'x' command\r\n",
    b"-MOVED 1 127.0.0.1:1\r\n",
    b"*2\r\n$1\r\n0\r\n:7\r\n",
    b"*2\r\n$3\r\nabc\r\n*0\r\n",
    b"*3\r\n:1\r\n$-1\r\n*1\r\n_\r\n",
    b"%1\r\n+k\r\n*0\r\n",
    b"%-1\r\n",
    b"$-5\r\n",
    b"*-7\r\n",
    b"=-3\r\n",
    b"$abc\r\n",
    b":99999999999999999999999\r\n",
    b"#t\r\n",
    b",nan\r\n",
    b"~1\r\n+x\r\n",
    b">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nlock:a\r\n+OK\r\n",
    b">0\r\n:1\r\n",
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    b"\xff\xfe\x00\x01\r\n",
    b"$11\r\nredis:7\r\nx:\xff\r\n",
    b"+OK\r\n+OK\r\n",
    b"$18446744073709551615\r\n",
];

const ENDLESS: &[(&[u8], &[u8])] = &[
    (b"$9999999999\r\n", b"x"),
    (b"$60000000\r\nabc", b"x"),
    (b"*1000000000\r\n", b":1\r\n"),
    (b"*2\r\n$1\r\n0\r\n*1000000000\r\n", b"$6\r\nlock:a\r\n"),
    (b"%1000000000\r\n", b"_\r\n"),
    (b"", b"*1\r\n"),
    (b"+", b"x"),
    (b"-", b"ERR "),
    (b"$", b"1"),
    (b"", b">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nlock:a\r\n"),
    (b"", b"|1\r\n+a\r\n+b\r\n"),
    (b"", b"+OK\r\n"),
];

/// Reproducible random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// A mischief after which the command may continue at once.
    fn quick(&mut self) -> Mischief {
        match self.below(8) {
            0 => Mischief::HalfThenReset,
            1 => Mischief::Close,
            2 => Mischief::Twice,
            3 => Mischief::Slowly,
            4 => Mischief::Replaced(NONSENSE[self.below(NONSENSE.len())].to_vec()),
            _ => Mischief::Instead(NONSENSE[self.below(NONSENSE.len())].to_vec()),
        }
    }

    /// A mischief that makes the command wait until its timeout.
    fn slow(&mut self) -> Mischief {
        match self.below(4) {
            0 => Mischief::Silence,
            1 => Mischief::Skipped,
            2 => Mischief::Instead(b"*3\r\n:1\r\n".to_vec()),
            _ => Mischief::Replaced(b"$100\r\nhalf".to_vec()),
        }
    }
}

/// The result of a command.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
    /// The most memory it used, in MiB.
    memory: u64,
    took: Duration,
}

/// Runs a command to its end, or to the limit.
fn run(home: &Path, url: &str, arguments: &[&str]) -> Ended {
    let (out, err) = (home.join("stdout"), home.join("stderr"));
    let mut command = lockscope_process(home);
    let placed = arguments.iter().map(|word| word.replace("HOME", home.to_str().expect("text")));
    command.args(["-u", url, "-p", "lock:*"]).args(placed);
    command.stdout(File::create(&out).expect("a file")).stderr(File::create(&err).expect("a file"));
    let began = Instant::now();
    // Waited for below, by the call that also returns its memory use.
    let pid = common::process::spawn(command).expect("lockscope starts").id() as libc::pid_t;
    let mut killed = false;
    let (code, memory) = loop {
        let mut status = 0;
        // SAFETY: plain values that the call fills in, and a child of ours that nobody else waits for.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if ended == pid {
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            break (code, usage.ru_maxrss as u64 / 1024);
        }
        if began.elapsed() > LIMIT && !killed {
            // SAFETY: `kill` has no memory effects, and the child has not been reaped.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            killed = true;
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let text = |path| String::from_utf8_lossy(&std::fs::read(path).expect("what was written")).into_owned();
    Ended { code: code.filter(|_| !killed), out: text(out), err: text(err), memory, took: began.elapsed() }
}

/// What holds for every end, whatever the server did.
#[track_caller]
fn check(ended: &Ended, what: &str) {
    let Ended { code, out, err, memory, took } = ended;
    assert!(matches!(code, Some(0..=3)), "{what}: ended with {code:?} after {took:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "{what}: {err}");
    assert!(*memory < MOST_MEMORY, "{what}: took {memory} MiB\n{err}");
    let obeyed = |c: char| c != '\n' && c.is_control();
    assert!(!out.contains(obeyed) && !err.contains(obeyed), "{what}: raw bytes of the server\n{out:?}\n{err:?}");
    if *code == Some(3) {
        let told = |line: &str| line.starts_with("lockscope: ") && line.len() > 30;
        assert!(err.lines().any(told) || out.contains("\"why\":\""), "{what}: {out}{err}");
    }
}

/// One run of one command: a fresh server, and the command that gets another reply.
struct Scene {
    server: Server,
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let server = Server::notifying(&[]);
        Scene { server, home: common::process::temporary_directory() }
    }

    fn reset(&mut self) {
        self.home = common::process::temporary_directory();
        let mut pipe = redis::pipe();
        pipe.cmd("FLUSHALL");
        pipe.cmd("SET").arg("lock:a").arg("worker-1").arg("PX").arg(600_000);
        pipe.cmd("SET").arg("lock:forever").arg("worker-2");
        pipe.cmd("HSET").arg("lock:h").arg("8743c9c0-0795-4907-87fd-6c719a6b4586:1").arg(1);
        pipe.cmd("PEXPIRE").arg("lock:h").arg(30_000);
        pipe.cmd("RPUSH").arg("lock:list").arg("x");
        pipe.cmd("ZADD").arg("lock:zset").arg(1).arg("m");
        pipe.exec(&mut self.server.connection()).expect("a server of ours");
    }

    /// Runs a command with one mischief. Returns the number of commands too, to place the next mischief.
    fn play(&mut self, arguments: &[&str], at: u64, mischief: Option<Mischief>) -> (Ended, u64) {
        self.reset();
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = armed.clone();
        let begins_at = Arc::new(AtomicUsize::new(0));
        let begin = begins_at.clone();
        let chosen = mischief.clone();
        let hostile = Hostile::before(self.server.port(), move |number, _| {
            let here = is_armed.load(Ordering::Relaxed) && number == at + begin.load(Ordering::Relaxed) as u64;
            chosen.clone().filter(|_| here)
        });
        if arguments[0] == "undo" {
            let freed = run(self.home.path(), &hostile.url(), &["release", "lock:a", "--holder", "worker-1", "--yes"]);
            assert_eq!(freed.code, Some(0), "{freed:?}");
        }
        let before = hostile.commands.load(Ordering::Relaxed);
        begins_at.store(before as usize, Ordering::Relaxed);
        armed.store(true, Ordering::Relaxed);
        let ended = run(self.home.path(), &hostile.url(), arguments);
        let commands = hostile.commands.load(Ordering::Relaxed) - before;
        let what = format!("{arguments:?} with {mischief:?} at {at}");
        check(&ended, &what);
        self.check_truth(arguments, &ended, &what);
        (ended, commands)
    }

    /// If it says that something was done, it was done.
    #[track_caller]
    fn check_truth(&self, arguments: &[&str], ended: &Ended, what: &str) {
        let lines: Vec<Value> = ended.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let done = lines.iter().any(|line| line["outcome"] == "done");
        let exists = |key: &str| self.server.ask::<bool, _>(&["EXISTS", key]);
        let said = format!("{what}: {}{}", ended.out, ended.err);
        match arguments {
            ["release", "--filter", _] | ["release", _, _, _, "--dry-run"] => assert!(exists("lock:a"), "{said}"),
            ["release", "--filter", ..] if done => assert!(!exists("lock:a"), "{said}"),
            ["release", key, ..] if done => assert!(!exists(key), "{said}"),
            ["extend", ..] if done => {
                assert!(self.server.ask::<i64, _>(&["PTTL", "lock:a"]) > 700_000, "{said}");
            }
            ["undo", ..] if done => assert!(exists("lock:a"), "{said}"),
            ["acquire", _, _, _, "--json"] if ended.code == Some(0) => assert!(exists("lock:new"), "{said}"),
            ["bundle", ..] => self.check_page(ended.code == Some(0), &said),
            ["record", ..] => self.check_store(ended.code == Some(0), &said),
            _ => {}
        }
        if matches!(arguments, ["release" | "extend" | "undo", .., "--json"]) && ended.code == Some(0) {
            assert!(done, "{said}");
        }
    }
}

impl Scene {
    /// A page is whole, and there is one only if that was said.
    #[track_caller]
    fn check_page(&self, told: bool, said: &str) {
        let folder = self.home.path().join("incident");
        assert_eq!(
            (folder.join("incident.html").exists(), folder.join("incident.json").exists()),
            (told, told),
            "{said}"
        );
        if told {
            let document = std::fs::read_to_string(folder.join("incident.json")).expect("a text");
            serde_json::from_str::<Value>(&document).unwrap_or_else(|bad| panic!("{bad}: {said}"));
            let page = std::fs::read_to_string(folder.join("incident.html")).expect("a text");
            assert!(page.trim_end().ends_with("</html>"), "{said}");
            let obeyed = |c: char| c != '\n' && c.is_control();
            assert!(!page.contains(obeyed) && !document.contains(obeyed), "{said}");
        }
    }

    /// A store can be read whatever happened, and is there if recording ended well.
    #[track_caller]
    fn check_store(&self, told: bool, said: &str) {
        let file = self.home.path().join("history");
        assert!(file.exists() || !told, "{said}");
        if file.exists() {
            lockscope::store::History::open(&file)
                .and_then(|store| store.summary())
                .unwrap_or_else(|bad| panic!("{bad}: {said}"));
        }
    }
}

fn rounds(usually: usize) -> usize {
    std::env::var("LOCKSCOPE_HOSTILE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usually)
}

/// Plays every command, several at once; `plays` says where and how.
fn play_all(at_once: usize, plays: impl Fn(&mut Scene, &[&str], &mut Dice) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                let mut scene = Scene::new();
                while let Some(arguments) = COMMANDS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seed =
                        arguments.join(" ").bytes().fold(7, |seed: u64, byte| seed * 31 % 1_000_003 + u64::from(byte));
                    plays(&mut scene, arguments, &mut Dice(seed));
                }
            });
        }
    });
}

#[test]
fn every_command_bears_every_answer() {
    play_all(4, |scene, arguments, dice| {
        let (fine, commands) = scene.play(arguments, 0, None);
        assert_eq!(fine.code, Some(0), "{arguments:?}: {fine:?}");
        for _ in 0..rounds(4) {
            let (at, mischief) = (dice.below(commands as usize) as u64, dice.quick());
            scene.play(arguments, at, Some(mischief));
        }
    });
}

#[test]
fn every_command_ends_when_the_server_is_silent() {
    play_all(COMMANDS.len(), |scene, arguments, dice| {
        for _ in 0..rounds(1).min(20) {
            let (at, mischief) = (dice.below(24) as u64, dice.slow());
            scene.play(arguments, at, Some(mischief));
        }
    });
}

#[test]
fn no_answer_takes_memory_without_end() {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut scene = Scene::new();
                while let Some((first, again)) = ENDLESS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Pushes may come at any time: only the timeout of a reply behind them ends it.
                    let commands = if again.starts_with(b">") { 1 } else { 3 };
                    for (arguments, at) in
                        [(COMMANDS[0], 4), (COMMANDS[1], 20), (COMMANDS[6], 40)].iter().take(commands)
                    {
                        scene.play(arguments, *at, Some(Mischief::Endless(first, again)));
                    }
                }
            });
        }
    });
}

#[test]
fn a_flood_of_messages_takes_no_memory_without_end() {
    const STANDS: &[u8] = b"*3\r\n$10\r\npsubscribe\r\n$21\r\n__keyspace@0__:lock:*\r\n:1\r\n";
    // Short names make many messages, long ones many bytes.
    for name in ["lock:a".to_string(), format!("lock:{}", "a".repeat(60_000))] {
        let (length, channel) = (name.len(), name.len() + "__keyspace@0__:".len());
        let message = format!(
            "*4\r\n$8\r\npmessage\r\n$21\r\n__keyspace@0__:lock:*\r\n${channel}\r\n__keyspace@0__:{name}\r\n$3\r\nset\r\n"
        );
        let push = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${length}\r\n{name}\r\n");
        for (events, command, first, again) in
            [(common::program::events(), "PSUBSCRIBE", STANDS, message), ("", "CLIENT TRACKING", b"+OK\r\n", push)]
        {
            let again: &'static [u8] = Vec::leak(again.into_bytes());
            let mut scene = Scene { server: Server::with(&["--notify-keyspace-events", events]), ..Scene::new() };
            scene.reset();
            let hostile = Hostile::before(scene.server.port(), move |_, asked| {
                asked.starts_with(command).then_some(Mischief::Endless(first, again))
            });
            let ended = run(scene.home.path(), &hostile.url(), &["watch", "--for", "4s", "--json"]);
            check(&ended, command);
            assert!(hostile.mischiefs.load(Ordering::Relaxed) > 0, "{command}: {ended:?}");
        }
    }
}

/// A page of SCAN.
fn page(cursor: &str, names: &[String]) -> Vec<u8> {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let names: String = names.iter().map(|name| bulk(name)).chain([String::new()]).collect();
    let count = names.matches("lock:").count();
    format!("*2\r\n{}*{count}\r\n{names}", bulk(cursor)).into_bytes()
}

/// Runs a command on a server whose SCAN gives these replies, after the first few calls were normal.
fn with_scan(arguments: &[&str], scan: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> Ended {
    let mut scene = Scene::new();
    scene.reset();
    // The engine first checks whether it may scan.
    let calls = AtomicU64::new(u64::from(arguments[0] == "discover"));
    let hostile = Hostile::before(scene.server.port(), move |_, command| {
        let is_scan = command.starts_with("SCAN ");
        let call = if is_scan { calls.fetch_add(1, Ordering::Relaxed) } else { 0 };
        (is_scan && call > 0).then(|| Mischief::Instead(scan(call)))
    });
    let ended = run(scene.home.path(), &hostile.url(), arguments);
    check(&ended, &format!("{arguments:?}"));
    ended
}

#[test]
fn a_scan_without_an_end_is_given_up_and_told() {
    let names = |call: u64| [format!("lock:{call}")];
    let endless = move |call: u64| page(&(call << 20 | 1).to_string(), &names(call));
    let circle = move |call: u64| page(&(7 + call % 3).to_string(), &names(call));
    for (why, listed) in
        [("SCAN did not end", with_scan(&["ls", "--json"], endless)), ("circles", with_scan(&["ls", "--json"], circle))]
    {
        let document: Value = serde_json::from_str(&listed.out).unwrap_or_else(|bad| panic!("{bad}: {listed:?}"));
        assert_eq!(document["complete"], false, "{why}");
        let told = document["incomplete"].as_str().expect("a reason");
        assert!(told.contains(why) && listed.err.contains(why), "{told}; {}", listed.err);
        assert_eq!(document["server"]["nodes"][0]["scan"]["incomplete"], told);
    }
    for arguments in [["ls", "--observe", "300ms"], ["discover", "--sample", "1000000000"]] {
        let ended = with_scan(&arguments, circle);
        assert!(ended.code == Some(0) && ended.err.contains("circles"), "{arguments:?}: {ended:?}");
    }
    let nonsense = with_scan(&["ls", "--json"], |_| page("no-number", &[]));
    assert_eq!(nonsense.code, Some(3), "{nonsense:?}");
    // Names that are not strings: the list says that it is incomplete.
    let nameless = with_scan(&["ls", "--json"], |_| b"*2\r\n$1\r\n0\r\n*2\r\n:7\r\n*0\r\n".to_vec());
    assert!(nameless.out.contains("\"complete\":false") && nameless.err.contains("no string"), "{nameless:?}");
}

#[test]
fn a_table_that_is_far_larger_than_its_keys_is_walked_to_the_end() {
    // Only our own calls shrink the table.
    let server = Server::with(&["--activerehashing", "no"]);
    let fill = "for n = 1, 300000 do redis.call('SET', 'key:' .. n, 'x') end";
    server.cli(&["EVAL", fill, "0"]);
    server.cli(&["SET", "lock:left", "t", "PX", "600000"]);
    let delete = "local cursor = '0' repeat local page = redis.call('SCAN', cursor, 'MATCH', 'key:*', 'COUNT', 1000) \
        cursor = page[1] if #page[2] > 0 then redis.call('UNLINK', unpack(page[2])) end until cursor == '0'";
    server.cli(&["EVAL", delete, "0"]);
    let home = common::process::temporary_directory();
    let ended = run(home.path(), &server.url(), &["ls", "--json"]);
    assert!(ended.out.contains("\"complete\":true") && ended.out.contains("lock:left"), "{ended:?}");
}

#[test]
fn counts_that_are_lies_are_believed_by_nobody() {
    let lies: [&[u8]; 4] = [b":0\r\n", b":9223372036854775807\r\n", b":-5\r\n", b"$3\r\nabc\r\n"];
    let mut scene = Scene::new();
    for lie in lies {
        for arguments in
            [&["ls", "--json"][..], &["ls", "--observe", "200ms"], &["discover"], &["show", "lock:h", "--json"]]
        {
            scene.reset();
            let hostile = Hostile::before(scene.server.port(), move |_, command| {
                let counts = ["DBSIZE", "HLEN", "ZCARD", "SCARD", "LLEN", "STRLEN", "MEMORY", "PUBSUB", "PTTL"];
                let is_count = counts.iter().any(|count| command.starts_with(count));
                is_count.then(|| Mischief::Replaced(lie.to_vec()))
            });
            let ended = run(scene.home.path(), &hostile.url(), arguments);
            check(&ended, &format!("{arguments:?} with counts of {:?}", String::from_utf8_lossy(lie)));
        }
    }
}

#[test]
fn the_console_lives_on_or_says_why_and_gives_the_terminal_back() {
    let at_once = 4;
    let next = AtomicUsize::new(0);
    let plays = rounds(2) * 8;
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                let mut scene = Scene::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= plays {
                        return;
                    }
                    let mut dice = Dice(seed as u64 * 77 + 5);
                    let mischief = match seed % 4 {
                        0 => Mischief::Endless(ENDLESS[seed % ENDLESS.len()].0, ENDLESS[seed % ENDLESS.len()].1),
                        1 => dice.slow(),
                        _ => dice.quick(),
                    };
                    // Once, or from then on.
                    let (at, once) = (dice.below(120) as u64, !seed.is_multiple_of(3));
                    console(&mut scene, at, once, &mischief);
                }
            });
        }
    });
}

#[test]
fn the_console_says_that_a_walk_was_given_up() {
    let mut scene = Scene::new();
    scene.reset();
    let calls = AtomicU64::new(0);
    let hostile = Hostile::before(scene.server.port(), move |_, command| {
        let call = command.starts_with("SCAN ").then(|| calls.fetch_add(1, Ordering::Relaxed));
        call.filter(|call| *call > 0).map(|call| Mischief::Instead(page("7", &[format!("lock:{call}")])))
    });
    let (program, url) = (binary(), hostile.url());
    let mut terminal = Terminal::start(program.to_str().expect("a path"), &["-u", &url, "-p", "lock:*"], &[]);
    terminal.wait_for("that the list is partial", |screen| screen.contains("partial"));
    terminal.press(":servers\r");
    terminal.wait_for("why it is", |screen| screen.contains("incomplete: SCAN goes round in circles"));
    terminal.press("q");
    terminal.wait_for_end().assert_restored();
}

fn console(scene: &mut Scene, at: u64, once: bool, mischief: &Mischief) {
    scene.reset();
    let chosen = mischief.clone();
    let hostile = Hostile::before(scene.server.port(), move |number, _| {
        let here = if once { number == at } else { number >= at && number % 7 == at % 7 };
        here.then(|| chosen.clone())
    });
    let what = format!("{mischief:?} at {at}, once: {once}");
    let url = hostile.url();
    let program = binary();
    let mut terminal = Terminal::start(
        program.to_str().expect("a path"),
        &["-u", &url, "-p", "lock:*", "--env", "dev", "--write"],
        &[],
    );
    let mut ended = None;
    common::wait_until(&format!("the console stands or ends: {what}"), LIMIT, || {
        ended = terminal.ended();
        ended.is_some() || terminal.screen().contents().contains("q quit")
    });
    if ended.is_none() {
        let home = scene.home.path().display();
        let (record, bundle) = (format!(":record {home}/history\r"), format!(":bundle {home}/incident\r"));
        for keys in ["j", &record, "2", "3", "4", "1", "\r", &bundle, "\x1b", "r", "x", "\x1b", "/lock\r"] {
            terminal.press(keys);
            std::thread::sleep(Duration::from_millis(60));
        }
        assert!(terminal.ended().is_none(), "{what}: it ended by itself: {}", terminal.screen().contents());
        terminal.press("\x1b\x1bq");
    }
    let left = terminal.wait_for_end();
    let raw = String::from_utf8_lossy(&left.raw).into_owned();
    assert!(!raw.contains("panicked"), "{what}: {raw}");
    let code = left.status.exit_code();
    assert!(code == 0 || code == 3, "{what}: {code}\n{raw}");
    scene.check_store(false, &what);
    if raw.contains("\x1b[?1049h") {
        left.assert_restored();
    } else {
        assert!(code == 3 && raw.contains("lockscope: ") && left.cooked, "{what}: {code}\n{raw}");
    }
}
