//! README and the pages under `docs/` as a reader uses them: every command is run, and what a page prints below one is
//! what it prints now.
//!
//! Times, addresses and the width of columns may differ; a line with `…` stands for any number of lines.
//! `LOCKSCOPE_BLESS=1 cargo test --test book` writes the present output into the pages. A line of a code block that no
//! rule here can run is a failure, so that nothing is left out silently.

mod common;

use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::CommandFactory;
use common::sentinels::{SERVICE, Sentinels};
use common::{Cluster, Server, left_out, process, wait_until};
use lockscope::settings::cli::Cli;
use regex::Regex;

const REDISSON: &str = "7c1e3d52-1f0a-4c9b-8d6e-2b9f4a1c0e77:57";
const PLAN: &str = "lockscope release lock:invoice:17 --holder worker-7 --dry-run --json";

/// The history that the pages speak of.
const NIGHT: &str = "night.history";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// README and all pages under `docs/`, with their paths.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = vec![root().join("README.md")];
    for folder in ["docs", "docs/incidents"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("the folder of the pages");
        found.extend(entries.map(|entry| entry.expect("a page").path()));
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a page"))).collect()
}

/// A code block: where its first line is, its language, and its lines without their indent.
struct Block {
    at: usize,
    language: String,
    lines: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<usize> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(language), None) => {
                open = Some(indent);
                found.push(Block { at: number + 1, language: language.into(), lines: Vec::new() });
            }
            (Some(_), Some(_)) => open = None,
            (None, Some(cut)) => {
                let block = found.last_mut().expect("an open block");
                block.lines.push(line.get(cut..).unwrap_or_default().into());
            }
            (None, None) => {}
        }
    }
    found
}

/// A reader's machine: the server that the pages speak of, and a folder to be in.
struct Reader {
    server: Server,
    folder: tempfile::TempDir,
    /// The bytes of the history.
    night: Vec<u8>,
    /// Started by the first line that speaks of it.
    cluster: OnceCell<Option<Cluster>>,
    /// The same.
    sentinels: OnceCell<Sentinels>,
}

impl Reader {
    fn new() -> Reader {
        let (server, folder) = (Server::notifying(&[]), process::temporary_directory());
        let mut reader =
            Reader { server, folder, night: Vec::new(), cluster: OnceCell::new(), sentinels: OnceCell::new() };
        std::fs::write(reader.folder.path().join("observer.password"), "PASSWORD\n").expect("a password file");
        let recorded = reader.folder.path().join("recorded");
        common::history::record(&recorded);
        let night = reader.folder.path().join(NIGHT);
        lockscope::store::History::open(&recorded)
            .and_then(|store| store.copy_to(&night))
            .expect("a copy of the store");
        reader.night = std::fs::read(night).expect("the copy");
        reader.plant();
        reader
    }

    /// The locks and the history of the pages, as they were before any command.
    fn plant(&self) {
        let night = self.folder.path().join(NIGHT);
        for beside in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(self.folder.path().join(format!("{NIGHT}{beside}")));
        }
        std::fs::write(night, &self.night).expect("the history");
        self.server.cli(&["FLUSHALL"]);
        let added = chrono::Utc::now() - chrono::TimeDelta::seconds(254);
        let added = added.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let shedlock = format!("ADDED:{added}@worker-3:7c1e3d52-1f0a-4c9b-8d6e-2b9f4a1c0e77");
        for command in [
            &["SET", "lock:migration", "3miRwxN8jtYsIDh67GO+uOOa", "NX"][..],
            &["SET", "job-lock:default:nightlyReport", &shedlock, "NX", "PX", "346000"],
            &["SET", "accounting-lock", "WEB-01_4312_8f14e45fceea467a9575d0c0a1b2c3d4", "NX", "PX", "30000"],
            &["SET", "lock:invoice:17", "worker-7", "NX", "PX", "30000"],
            &["SET", "lock:report", "qzUWrh/dHLGjSpxNpK8/dXwr", "NX", "EX", "60"],
            &["HINCRBY", "orders-lock:17", REDISSON, "1"],
            &["PEXPIRE", "orders-lock:17", "30000"],
            &["SET", "stock-lock", "UCs3Yk0xZ1lHc0pUd2FmZQ==", "NX", "PX", "18000"],
        ] {
            self.server.cli(command);
        }
        let random = ["9c1e0b7a44d1", "5be07f21aa90", "f00dcafe8123", "1b2c3d4e5f60", "77aa99bb00cc", "0a1b2c3d4e5f"];
        for (number, token) in random.iter().enumerate() {
            self.server.cli(&["SET", &format!("billing:guard:{number}"), token, "NX", "PX", "30000"]);
            self.server.cli(&["SET", &format!("session:{number}"), "{\"user\":17}"]);
        }
    }

    /// Runs a line as a shell does, and returns its exit code and all that it printed.
    fn run(&self, line: &str) -> (i32, String) {
        let mut command = self.shell(line);
        let output = command.output().expect("a shell");
        (output.status.code().unwrap_or(-1), String::from_utf8(output.stdout).expect("text"))
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1; {line}")]).current_dir(self.folder.path()).env_clear();
        command.envs(common::clean_environment(self.folder.path())).env("LOCKSCOPE_URL", self.server.url());
        let program = Path::new(env!("CARGO_BIN_EXE_lockscope")).parent().expect("its folder");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", program.display())).stdin(Stdio::null());
        command
    }

    /// A line of a page with real names in it, which ends by itself within seconds.
    fn meant(&self, line: &str) -> String {
        let mut line = line.split(" #").next().unwrap_or_default().trim_end().to_string();
        if line.contains("--plan ID") {
            let (_, told) = self.run(PLAN);
            let plan: serde_json::Value = serde_json::from_str(&told).unwrap_or_else(|why| panic!("{why}: {told}"));
            line = line.replace("ID", plan["plan"].as_str().expect("a plan"));
        }
        for (name, real) in [("KEY", "lock:invoice:17"), ("TOKEN", "worker-7"), ("man -l -", "cat")] {
            line = line.replace(name, real);
        }
        line = line.replace("redis://cache:6379", &self.server.url());
        let names = [("cache-1:7000", 0), ("cache-2:7000", 1), ("localhost:17000", 0), ("localhost:17001", 1)];
        let of_cluster = names.into_iter().chain([("10.0.0.5:7000", 0), ("10.0.0.6:7000", 1)]);
        for (name, index) in of_cluster.filter(|(name, _)| line.contains(name)).collect::<Vec<_>>() {
            if let Some(cluster) = self.cluster.get_or_init(|| Cluster::start(3)) {
                line = line.replace(name, &format!("127.0.0.1:{}", cluster.master(index).port()));
            }
        }
        for (name, index) in [("sentinel-1:26379", 0), ("sentinel-2:26379", 1), ("sentinel-1", 0)] {
            if line.contains(name) {
                let port = self.service().sentinels[index].port();
                line = line.replace(name, &format!("127.0.0.1:{port}")).replace("/orders", &format!("/{SERVICE}"));
            }
        }
        line = Regex::new(r"--(observe|for) \d+[smh]").unwrap().replace_all(&line, "--$1 1s").into_owned();
        let word = line.split(' ').nth(1).unwrap_or_default().to_string();
        if ["watch", "contention", "probe", "check", "serve", "record"].contains(&word.as_str())
            && !line.contains("--for ")
        {
            line.push_str(" --for 1s");
        }
        let asks = ["release", "extend", "undo"].contains(&word.as_str()) && !line.contains("--dry-run");
        if asks && !line.contains("--yes") && !line.contains("--list") {
            line.push_str(" --yes");
        }
        if word == "undo" {
            self.run("lockscope release lock:invoice:17 --holder worker-7 --yes");
            line.push_str(" --unwatched");
        }
        line
    }

    fn service(&self) -> &Sentinels {
        self.sentinels.get_or_init(Sentinels::start)
    }

    /// Runs a line of a block; says why if it does not do what a reader expects.
    fn try_line(&self, line: &str) -> Result<(), String> {
        if let Some(target) = line.strip_prefix("make ") {
            let target = target.split_whitespace().next().unwrap_or_default();
            let made = Command::new("make").args(["-n", target]).current_dir(root()).output().expect("make");
            return if made.status.success() { Ok(()) } else { Err(format!("there is no target {target}")) };
        }
        if line.starts_with("ACL ") || line.starts_with("CONFIG ") {
            let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('\'')).collect();
            // Rights of sentinels are given at a sentinel.
            let server = if line.contains("+sentinel|") { &self.service().sentinels[0] } else { &self.server };
            return server.try_ask::<(), _>(&words).map_err(|why| why.to_string());
        }
        if RUN_ELSEWHERE.contains(&line) {
            return Ok(());
        }
        if !line.starts_with("lockscope ") {
            return Err("no rule of tests/book.rs runs it".into());
        }
        self.plant();
        let line = self.meant(line);
        let (code, told) = self.run(&line);
        let fine = code == 0 || code == 1 && line.starts_with("lockscope doctor");
        if fine { Ok(()) } else { Err(format!("{line} ended with {code}: {told}")) }
    }
}

/// Lines that take too long for a test; `make package-test` runs them.
const RUN_ELSEWHERE: &[&str] =
    &["cargo install --path .", "apt install ./target/debian/lockscope_*.deb", "cargo doc --no-deps --open"];

/// The text without what differs from run to run.
fn comparable(line: &str) -> String {
    let mut line = line.to_string();
    for (differs, name) in [
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<at>"),
        (r"[~≥≤]?(\d+(\.\d+)?(ms|us|µs|[smhd]))+\b", "<time>"),
        (r"127\.0\.0\.1:\d+", "<server>"),
        (r"plan [0-9a-z]{6,}|--plan [0-9a-z]{6,}", "<plan>"),
        (r" +", " "),
    ] {
        line = Regex::new(differs).unwrap().replace_all(&line, name).into_owned();
    }
    line.trim_end().into()
}

/// Whether the lines are as the page shows them, where `…` stands for any number of them.
fn as_shown(shown: &[String], told: &[String]) -> bool {
    match shown.split_first() {
        None => told.is_empty(),
        Some((line, rest)) if line.trim() == "…" => (0..=told.len()).any(|skip| as_shown(rest, &told[skip..])),
        Some((line, rest)) => told
            .split_first()
            .is_some_and(|(first, others)| comparable(first) == comparable(line) && as_shown(rest, others)),
    }
}

/// The present output in the form of the page: cut where the page cuts it.
fn in_form(shown: &[String], told: &[String]) -> Vec<String> {
    let Some(cut) = shown.iter().position(|line| line.trim() == "…") else { return told.to_vec() };
    let tail = shown.len() - cut - 1;
    let mut lines = told[..cut.min(told.len())].to_vec();
    lines.push(shown[cut].clone());
    lines.extend_from_slice(&told[told.len().saturating_sub(tail)..]);
    lines
}

/// What `lockscope watch` tells while a lock is taken, renewed, freed, taken by another and left to run out.
fn watched(reader: &Reader, line: &str) -> String {
    let mut command = reader.shell(&format!("{line} -q --for 1m"));
    process::dies_with_us(&mut command);
    let mut child = process::spawn({
        command.stdout(Stdio::piped());
        command
    })
    .expect("lockscope starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let subscribed = || reader.server.ask::<i64, _>(&["PUBSUB", "NUMPAT"]) > 0;
    wait_until("it is subscribed", std::time::Duration::from_secs(20), subscribed);
    let mut told = String::new();
    // A ping where the line comes by itself: the lease runs out.
    let steps: [&[&str]; 5] = [
        &["SET", "lock:cart:991", "web-1:4242", "NX", "PX", "5000"],
        &["PEXPIRE", "lock:cart:991", "6000"],
        &["DEL", "lock:cart:991"],
        &["SET", "lock:cart:991", "web-2:977", "NX", "PX", "500"],
        &["PING"],
    ];
    for step in steps {
        reader.server.cli(step);
        told.push_str(&lines.next().expect("a line for each step").expect("text"));
        told.push('\n');
    }
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    told
}

#[test]
fn what_the_pages_print_below_a_command_is_what_it_prints() {
    let reader = Reader::new();
    let bless = std::env::var_os("LOCKSCOPE_BLESS").is_some();
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        let mut kept: Vec<String> = text.lines().map(String::from).collect();
        for block in blocks(&text).iter().rev() {
            let Some(line) = block.lines.first().and_then(|line| line.strip_prefix("$ lockscope ")) else { continue };
            let line = format!("lockscope {line}");
            reader.plant();
            let told = match line.starts_with("lockscope watch") {
                true => watched(&reader, &line),
                false => reader.run(&line).1,
            };
            let told: Vec<String> =
                told.replace(&reader.server.port().to_string(), "6379").lines().map(String::from).collect();
            let shown = &block.lines[1..];
            if as_shown(shown, &told) {
                continue;
            }
            let first = block.at + 1;
            if bless {
                kept.splice(first..first + shown.len(), in_form(shown, &told));
            } else {
                wrong.push(format!("{}:{}: {line}\n{}", path.display(), first, told.join("\n")));
            }
        }
        if bless {
            std::fs::write(path, kept.join("\n") + "\n").expect("a page");
        }
    }
    assert!(wrong.is_empty(), "LOCKSCOPE_BLESS=1 cargo test --test book writes them anew:\n{}", wrong.join("\n\n"));
}

#[test]
fn every_command_of_the_pages_can_be_run_as_it_stands() {
    let reader = Reader::new();
    if reader.server.version() < (7, 0, 0) {
        return left_out("version 6.2 of the server has no such rights and event classes as the pages name");
    }
    let mut wrong = Vec::new();
    let mut ran = 0;
    for (path, text) in pages() {
        for block in blocks(&text) {
            let shows_output = block.lines.first().is_some_and(|line| line.starts_with("$ "));
            match block.language.as_str() {
                "" if shows_output => continue,
                "" => {}
                "toml" => {
                    std::fs::write(reader.folder.path().join("page.toml"), block.lines.join("\n")).expect("a config");
                    let (code, told) = reader.run("lockscope info --config page.toml");
                    if code != 0 {
                        wrong.push(format!("{}:{}: {told}", path.display(), block.at));
                    }
                    continue;
                }
                // A screen, or an example of output: no command.
                // `tests/serving_page.rs` tries the last two.
                "text" | "json" | "ini" | "yaml" => continue,
                other => wrong.push(format!("{}:{}: what is a block of {other}?", path.display(), block.at)),
            }
            for (number, line) in block.lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                ran += 1;
                if let Err(why) = reader.try_line(line) {
                    wrong.push(format!("{}:{}: {line}: {why}", path.display(), block.at + number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 15, "only {ran} commands were found in the pages");
}

/// Commands inside of sentences: each option that they name exists.
#[test]
fn every_option_that_a_sentence_names_exists() {
    let reader = Reader::new();
    let spans = Regex::new(r"`lockscope ([^`]+)`").unwrap();
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for span in spans.captures_iter(&text) {
            let words = span[1].replace('\n', " ").replace("\\|", "|");
            let command = words.split('|').next().unwrap_or_default().trim();
            let (code, told) =
                reader.run(&format!("lockscope {} --help", command.replace('…', "").replace("SHELL", "bash")));
            if code != 0 {
                wrong.push(format!("{}: {}: {told}", path.display(), &span[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_on_commands_names_each_of_them() {
    let page = std::fs::read_to_string(root().join("docs/commands.md")).expect("the page on commands");
    let rows =
        page.lines().skip_while(|line| *line != "| command | |").skip(2).take_while(|line| line.starts_with('|'));
    let spans = Regex::new("`([a-z]+)[^`]*`").unwrap();
    let cells = rows.map(|row| row.split(" | ").next().unwrap_or_default());
    let mut named: Vec<String> =
        cells.flat_map(|cell| spans.captures_iter(cell).map(|span| span[1].to_string()).collect::<Vec<_>>()).collect();
    let mut known: Vec<String> = Cli::command().get_subcommands().map(|command| command.get_name().into()).collect();
    named.sort();
    // A command of several parts has several rows.
    named.dedup();
    known.sort();
    assert_eq!(named, known, "the table of docs/commands.md");
}

#[test]
fn the_workflows_call_targets_that_exist() {
    let mut called = 0;
    for entry in std::fs::read_dir(root().join(".github/workflows")).expect("the workflows") {
        let path = entry.expect("a workflow").path();
        let text = std::fs::read_to_string(&path).expect("a workflow");
        for target in text.lines().filter_map(|line| line.trim().strip_prefix("- run: make ")) {
            called += 1;
            let made = Command::new("make").args(["-n", target]).current_dir(root()).output().expect("make");
            assert!(made.status.success(), "{} calls make {target}", path.display());
        }
    }
    assert!(called >= 4, "only {called} targets are called");
}

#[test]
fn the_readme_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(text.lines().count() < 200, "{} lines; what is looked up belongs into docs/", text.lines().count());
}

#[test]
fn a_page_that_shows_something_else_is_noticed() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(String::from).collect() };
    let told = lines("STATE  KEY  TTL\nHELD   a    29.4s\n1 lock of 127.0.0.1:6379 in 2ms");
    assert!(as_shown(&lines("STATE KEY   TTL\nHELD a 3m2s\n1 lock of 127.0.0.1:26390 in 14ms"), &told));
    assert!(as_shown(&lines("STATE  KEY  TTL\n…\n1 lock of 127.0.0.1:1 in 1s"), &told));
    assert!(as_shown(&lines("STATE  KEY  TTL\n…"), &told));
    for other in
        ["STATE  KEY\n…", "STATE  KEY  TTL\nHELD   b    1s\n…", "STATE  KEY  TTL\nHELD   a    1s", "…\n2 locks"]
    {
        assert!(!as_shown(&lines(other), &told), "{other}");
    }
    assert_eq!(in_form(&lines("x\n…\ny"), &told), lines(&format!("{}\n…\n{}", told[0], told[2])));
}
