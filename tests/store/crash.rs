//! A recorder that is killed while it writes or packs: everything that it had committed is there, once.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use lockscope::store::{History, Keep, Recorder};

use crate::fixtures::*;

/// So that there is something to pack after every twenty moments.
const STEP: i64 = 30_000;

#[test]
#[ignore = "started and killed by the test below"]
fn a_process_that_records_until_it_is_killed() {
    let Some(path) = std::env::var_os("LOCKSCOPE_TEST_STORE") else { return };
    let from: i64 = std::env::var("LOCKSCOPE_TEST_FROM").unwrap().parse().unwrap();
    let mut recorder = Recorder::open(Path::new(&path), &target("cache"), Keep::default()).unwrap();
    let mut out = std::io::stdout();
    // Bounded, should nobody kill it.
    for number in from..from + 100_000 {
        let at = START + number * STEP;
        let many = (0..40).map(|other| (waiters(&format!("p{other}:*")), (number * 7 + other) as f64));
        recorder.feed(moment(at, &many.collect::<Vec<_>>()));
        // After this it counts.
        writeln!(out, "written {number}").unwrap();
    }
}

/// Lets a process record from that moment on, kills it after so many more, and returns the last that it said is written.
fn record_and_kill(path: &Path, from: i64, after: i64) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_process_that_records_until_it_is_killed", "--ignored", "--nocapture"])
        .envs([("LOCKSCOPE_TEST_STORE", path.as_os_str()), ("LOCKSCOPE_TEST_FROM", from.to_string().as_ref())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    while last.is_none_or(|last| last < from + after) {
        let line = lines.next().expect("it records on").unwrap();
        last = line.rsplit_once("written ").and_then(|(_, number)| number.parse().ok()).or(last);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it died.
    let rest = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("written ")?.parse().ok());
    rest.last().or(last).unwrap()
}

#[test]
fn a_recorder_that_is_killed_loses_nothing_that_was_written() {
    let place = Place::new();
    let mut next = 0;
    // Beside the beginning of packing, in it and after it, as it happens.
    for after in [3, 17, 19, 20, 21, 38, 39, 40, 41, 55, 59, 60] {
        let last = record_and_kill(&place.file(), next, after);
        let history = History::open(&place.file()).unwrap();
        let columns = all(&history, "lockscope_waiters");
        let numbers: Vec<i64> = columns.times.iter().map(|at| (at.0 - START) / STEP).collect();
        let end = *numbers.last().unwrap();
        assert!((last..=last + 1).contains(&end), "it said that {last} is written, and {end} is the last there");
        assert_eq!(numbers, (0..=end).collect::<Vec<_>>());
        assert_eq!(columns.columns.len(), 40);
        for column in &columns.columns {
            let other: i64 = column.series.label("pattern").unwrap()[1..].trim_end_matches(":*").parse().unwrap();
            let values: Vec<f64> = column.points(&columns.times).map(|(_, value)| value).collect();
            assert_eq!(values, (0..=end).map(|number| (number * 7 + other) as f64).collect::<Vec<_>>());
        }
        next = end + 1;
    }
    assert_eq!(place.history().runs().unwrap().len(), 12);
}
