//! How much `--pace polite` disturbs others: the throughput of a heavy load and the slowest answers of a light one,
//! with and without us, in turns.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, cmd};

use crate::common::lockscope_process;
use crate::common::process::{dies_with_us, scratch};
use crate::keyspace::Keyspace;
use crate::limit::{Limit, Measured, ratio, whole};
use crate::machine::{Scheduled, disturbance};
use crate::report::{Figure, Report};
use crate::stalls::{Calls, Rhythm, unexplained};

const PATTERN: &str = "lock:*";
/// A polite call takes at most this much of the server's time.
const POLITE_US: u64 = 250;
const CLIENTS: &str = "50";
/// The length of one measurement of the heavy load, which never pauses. Many short measurements in turns are better
/// than few long ones, because the machine's own slow phases last longer.
const HEAVY: Duration = Duration::from_secs(1);
/// One run of the light load: the number of requests, and the time between two.
const LIGHT: usize = 320;
const LIGHT_EVERY: Duration = Duration::from_millis(10);

pub fn measure(report: &mut Report, keyspace: &Keyspace, rounds: usize) {
    let before = Scheduled::of(keyspace.server.pid());
    match benchmark() {
        Some(program) => report.add(heavy(keyspace, &program, rounds * 12)),
        None => report.note("no redis-benchmark or valkey-benchmark here: the heavy load was not measured".into()),
    }
    // Under the heavy load calls wait for a processor; under the light load the server has one to itself.
    let mut answers = None;
    let calls = Calls::during(keyspace, POLITE_US, || answers = Some(light(keyspace, rounds * 2)));
    report.add(answers.expect("it was measured"));
    report.add(unexplained(keyspace, "polite", POLITE_US, calls, Rhythm::Spaced));
    if let Some(text) = disturbance("the server", Scheduled::of(keyspace.server.pid()).since(before)) {
        report.note(format!("politeness: {text}"));
    }
}

fn heavy(keyspace: &Keyspace, program: &PathBuf, rounds: usize) -> Figure {
    let _load = Load::start(keyspace, program);
    let ratios = (0..rounds).map(|round| {
        let (with, without) = in_turns(keyspace, round, || throughput(keyspace));
        with / without
    });
    Figure {
        name: "throughput of a saturating SET load with `--pace polite` / without us".into(),
        measured: Measured::middle_half(ratios.collect()),
        limit: Limit::AtLeast(0.95),
        show: ratio,
        command: format!(
            "`redis-benchmark -t set -c {CLIENTS}` beside `lockscope ls --pace polite -p '{PATTERN}'`, and alone: {rounds} \
             pairs of a second each, the range is that of their middle half"
        ),
    }
}

/// The p99 of all answers together; a single round has too few, so the rounds only give the range.
fn light(keyspace: &Keyspace, rounds: usize) -> Figure {
    let mut conn = keyspace.server.connection();
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (beside, alone) = in_turns(keyspace, round, || answers(&mut conn));
        ratios.push(p99(beside.clone()) / p99(alone.clone()));
        without.extend(alone);
        with.extend(beside);
    }
    let Measured { min, max, .. } = Measured::of(ratios);
    let requests = with.len();
    let median = p99(with) / p99(without);
    Figure {
        name: "p99 of a light load with `--pace polite` / without us".into(),
        measured: Measured { median, min, max },
        limit: Limit::AtMost(1.5),
        show: ratio,
        command: format!("100 GETs a second, {} in all, beside us, and as many alone", whole(requests as f64)),
    }
}

/// With us, then without; every other time in reverse, so that a machine that gets busier favours neither.
fn in_turns<T>(keyspace: &Keyspace, round: usize, mut measure: impl FnMut() -> T) -> (T, T) {
    let beside = |measure: &mut dyn FnMut() -> T| {
        let _us = Scanning::start(keyspace);
        measure()
    };
    if round.is_multiple_of(2) {
        let without = measure();
        (beside(&mut measure), without)
    } else {
        (beside(&mut measure), measure())
    }
}

/// A scan that runs until this is dropped: a polite scan of the keyspace takes far longer than a round.
struct Scanning(Child);

impl Scanning {
    fn start(keyspace: &Keyspace) -> Scanning {
        let before = keyspace.scan_cost().calls;
        let mut command = lockscope_process(&scratch("home"));
        command.args(["ls", "--url", &keyspace.server.url(), "--pace", "polite", "-p", PATTERN]).stdout(Stdio::null());
        let scanning = Scanning(command.spawn().expect("lockscope starts"));
        while keyspace.scan_cost().calls < before + 16 {
            std::thread::sleep(Duration::from_millis(5));
        }
        scanning
    }
}

impl Drop for Scanning {
    fn drop(&mut self) {
        let ended = self.0.try_wait().ok().flatten();
        let _ = self.0.kill();
        let _ = self.0.wait();
        assert!(ended.is_none(), "the polite scan was over before its round: {ended:?}");
    }
}

/// Clients that set keys as fast as they can, until this is dropped.
struct Load(Child);

impl Load {
    fn start(keyspace: &Keyspace, program: &PathBuf) -> Load {
        let mut command = Command::new(program);
        command.args(["-p", &keyspace.server.port().to_string(), "-t", "set", "-c", CLIENTS, "-n", "1000000000", "-q"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        dies_with_us(&mut command);
        let load = Load(command.spawn().expect("the load starts"));
        while keyspace.cost_of("set").calls < 10_000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SETs a second, over [`HEAVY`].
fn throughput(keyspace: &Keyspace) -> f64 {
    let (began, before) = (Instant::now(), keyspace.cost_of("set").calls);
    std::thread::sleep(HEAVY);
    let after = keyspace.cost_of("set").calls;
    (after - before) as f64 / began.elapsed().as_secs_f64()
}

/// How long each request of one round took, in microseconds.
fn answers(conn: &mut Connection) -> Vec<f64> {
    let began = Instant::now();
    (0..LIGHT)
        .map(|number| {
            std::thread::sleep((began + LIGHT_EVERY * number as u32).saturating_duration_since(Instant::now()));
            let asked = Instant::now();
            let _: Option<Vec<u8>> = cmd("GET").arg(format!("key:{number}")).query(conn).expect("the server answers");
            asked.elapsed().as_secs_f64() * 1e6
        })
        .collect()
}

fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

fn benchmark() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|directory| ["redis-benchmark", "valkey-benchmark"].map(|name| directory.join(name)))
        .find(|program| program.is_file())
}
