//! `lockscope ls --pace fast` compared with the server's own time, and with the scan of the server's own client.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::process::{dies_with_us, scratch};
use crate::common::server::target_directory;
use crate::common::{lockscope_at, lockscope_process};
use crate::keyspace::{Keyspace, LOCKS};
use crate::limit::{Limit, Measured, ratio};
use crate::machine::{Scheduled, disturbance};
use crate::report::{Figure, Report};
use crate::stalls::{Calls, Rhythm, unexplained};

const PATTERN: &str = "lock:*";
/// No call may block the server longer than this.
const FAST_US: u64 = 2_000;

/// One run of a command, and what it cost the server.
struct Run {
    wall: Duration,
    calls: Calls,
}

pub fn measure(report: &mut Report, keyspace: &Keyspace, rounds: usize) {
    let count = settled_count(keyspace);
    let cli = scanning_client();
    let narrow_cli = ["--scan", "--pattern", PATTERN, "--count", &count.to_string()].map(String::from);
    let wide_cli = ["--scan", "--count", &count.to_string()].map(String::from);
    let before = Scheduled::of(keyspace.server.pid());
    let (mut narrow, mut wide, mut narrow_theirs, mut wide_theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        narrow.push(run(keyspace, ours(keyspace, &["-p", PATTERN])));
        if let Some(cli) = &cli {
            narrow_theirs.push(run(keyspace, theirs(keyspace, cli, &narrow_cli)));
        }
        wide.push(run(keyspace, ours(keyspace, &[])));
        if let Some(cli) = &cli {
            wide_theirs.push(run(keyspace, theirs(keyspace, cli, &wide_cli)));
        }
    }
    report.add(Figure {
        name: "ls of 50,000 locks among 5,000,000 keys / the server's own time in SCAN".into(),
        measured: Measured::of(
            narrow.iter().map(|run| run.wall.as_micros() as f64 / run.calls.scan.us as f64).collect(),
        ),
        limit: Limit::AtMost(1.25),
        show: ratio,
        command: format!("`lockscope ls --pace fast -p '{PATTERN}' --json` / `INFO commandstats`"),
    });
    let name = cli.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    if cli.is_some() {
        report.add(Figure {
            name: "the same / the server's client scanning for names only".into(),
            measured: compared(&narrow, &narrow_theirs),
            limit: Limit::Below(1.0),
            show: ratio,
            command: format!("… / `{name} {}`", shown(&narrow_cli)),
        });
        report.add(Figure {
            name: "ls with the patterns of all libraries / the client scanning without a pattern".into(),
            measured: compared(&wide, &wide_theirs),
            limit: Limit::AtMost(1.5),
            show: ratio,
            command: format!("`lockscope ls --pace fast --json` / `{name} {}`", shown(&wide_cli)),
        });
    } else {
        report.note("no redis-cli or valkey-cli that knows --count: `scripts/ensure-cli` gets one".into());
    }
    let ours = narrow.iter().chain(&wide).map(|run| run.calls).reduce(Calls::and);
    report.add(unexplained(keyspace, "fast", FAST_US, ours.expect("there is a round"), Rhythm::Unbroken));
    if let Some(text) = disturbance("the server", Scheduled::of(keyspace.server.pid()).since(before)) {
        report.note(format!("inventory: {text}"));
    }
}

fn run(keyspace: &Keyspace, mut command: Command) -> Run {
    let mut wall = Duration::ZERO;
    let calls = Calls::during(keyspace, FAST_US, || {
        let began = Instant::now();
        let ended = command.stdout(Stdio::null()).status().expect("the command starts");
        wall = began.elapsed();
        assert!(ended.success(), "{command:?} failed");
    });
    Run { wall, calls }
}

fn ours(keyspace: &Keyspace, patterns: &[&str]) -> Command {
    let mut command = lockscope_process(&scratch("home"));
    command.args(["ls", "--url", &keyspace.server.url(), "--pace", "fast", "--json"]).args(patterns);
    command
}

fn theirs(keyspace: &Keyspace, cli: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(cli);
    command.args(["-p", &keyspace.server.port().to_string()]).args(arguments).stdin(Stdio::null());
    dies_with_us(&mut command);
    command
}

/// The COUNT that lockscope settles on for this server; also checks that it finds all locks.
fn settled_count(keyspace: &Keyspace) -> u64 {
    let mut command = lockscope_at(&scratch("home"));
    let url = keyspace.server.url();
    let output = command.args(["ls", "--url", &url, "--pace", "fast", "--json", "-p", PATTERN]).output();
    let document: Value = serde_json::from_slice(&output.expect("lockscope runs").stdout).expect("JSON from ls --json");
    let found = document["locks"].as_array().map_or(0, Vec::len);
    assert_eq!(found, LOCKS, "ls did not find all locks");
    document["server"]["nodes"][0]["scan"]["count"].as_u64().expect("the COUNT in the document")
}

/// A client whose `--scan` takes `--count`: one on the PATH, or the one `scripts/ensure-cli` fetched.
fn scanning_client() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path)
        .flat_map(|directory| ["redis-cli", "valkey-cli"].map(|name| directory.join(name)))
        .filter(|program| program.is_file());
    let fetched = target_directory().join("servers/valkey-cli-8.1.8/valkey-cli");
    let counts = |program: &PathBuf| {
        let help = Command::new(program).arg("--help").output();
        help.is_ok_and(|help| [help.stdout, help.stderr].concat().windows(9).any(|text| text == b"--count <"))
    };
    installed.chain([fetched]).find(counts)
}

/// Compares run by run, so that a machine that is slow for a while slows both sides.
fn compared(ours: &[Run], theirs: &[Run]) -> Measured {
    let ratio = |(ours, theirs): (&Run, &Run)| ours.wall.as_secs_f64() / theirs.wall.as_secs_f64();
    Measured::of(ours.iter().zip(theirs).map(ratio).collect())
}

fn shown(arguments: &[String]) -> String {
    let quoted = |text: &String| if text.contains('*') { format!("'{text}'") } else { text.clone() };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
