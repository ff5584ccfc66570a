//! The demo on several servers: what is planted is found and nothing is invented while slots move and masters change, all
//! of which is told; and nothing is left behind however it ends.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{binary, clean_environment, lockscope, process, program, wait_until};
use lockscope::demo::{self, Act, Options, Shape, Summary};

const PATIENCE: Duration = Duration::from_secs(60);

/// The second change of the topology begins at most 10 s after the start, and nothing is begun in the last 4 s.
async fn watched(shape: Shape) -> (Summary, String) {
    let for_ = Some(Duration::from_secs(16));
    let options = Options { server: Some(program::program()), shape, for_, headless: true, ..Options::default() };
    let mut out = Vec::new();
    let summary = demo::headless(&options, &mut out).await.unwrap();
    (summary, String::from_utf8(out).unwrap())
}

/// Nothing that was planted is missing, nothing else was said, and no worker was left without an answer.
fn check(summary: &Summary, text: &str) {
    assert_eq!(summary.missing(), Vec::<&str>::new(), "{text}");
    assert_eq!(summary.invented(), Vec::<String>::new(), "{text}");
    assert_eq!(summary.failures, Vec::<String>::new(), "{text}");
    assert_eq!(summary.untold(), Vec::<&Act>::new(), "{text}");
    assert_eq!((summary.exit_code(), summary.source, summary.lost_events), (0, "notifications", Some(0)), "{text}");
    for sighting in &summary.sightings {
        let lock = sighting.lock.as_ref().unwrap();
        assert_eq!(lock.dialect, sighting.situation.library, "{}: {}", sighting.situation.name, lock.key);
    }
    assert!(text.contains("All of it was told."), "{text}");
}

#[tokio::test]
async fn a_headless_demo_on_a_cluster_finds_everything_and_tells_what_moved() {
    let (summary, text) = watched(Shape::Cluster).await;
    check(&summary, &text);
    let done: BTreeSet<&str> = summary.acts.iter().map(|(_, act)| kind(act)).collect();
    assert_eq!(done, BTreeSet::from(["failover", "slots"]), "{text}");
    let lasting = summary.sightings.iter().find(|sighting| sighting.situation.name == "one bucket of 64").unwrap();
    assert!(lasting.changes.moved > 0, "{text}");
    assert_eq!((lasting.changes.lost, lasting.changes.released, lasting.changes.taken), (0, 0, 0), "{text}");
    assert!(text.contains(" took over from ") && text.contains(", 3 masters at "), "{text}");
}

#[tokio::test]
async fn a_headless_demo_on_a_sentinel_service_finds_everything_and_tells_the_failover() {
    let (summary, text) = watched(Shape::Sentinel).await;
    check(&summary, &text);
    let done: BTreeSet<&str> = summary.acts.iter().map(|(_, act)| kind(act)).collect();
    assert_eq!(done, BTreeSet::from(["failover"]), "{text}");
    let lasting = summary.sightings.iter().find(|sighting| sighting.situation.name == "one bucket of 64").unwrap();
    assert!(lasting.changes.moved >= 64, "all went on at the new master\n{text}");
    assert_eq!((lasting.changes.lost, lasting.changes.released, lasting.changes.taken), (0, 0, 0), "{text}");
}

fn kind(act: &Act) -> &'static str {
    match act {
        Act::Moved { .. } => "slots",
        Act::FailedOver { .. } => "failover",
        Act::Failed { .. } => "failed",
    }
}

fn start(topology: &str, tmp: &Path) -> Child {
    let mut command = Command::new(binary());
    command.env_clear().envs(clean_environment(tmp)).env("TMPDIR", tmp);
    command
        .args(["demo", "--headless", "--for", "600s", "--topology", topology])
        .arg("--server")
        .arg(program::program());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process::spawn(command).unwrap()
}

/// The child processes of this one but for the shell that cleans up.
fn servers_of(pid: u32) -> Vec<u32> {
    let server = |entry: std::fs::DirEntry| -> Option<u32> {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_string()));
        let ours = field("PPid:")?.parse() == Ok(pid) && field("Name:")? != "sh";
        entry.file_name().to_str()?.parse().ok().filter(|_| ours)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(server).collect()
}

/// Ends a demo by a signal while it runs, and waits until nothing of it is left.
#[cfg(target_os = "linux")]
fn ends_by(signal: libc::c_int, topology: &str) {
    let tmp = tempfile::tempdir().unwrap();
    let mut owner = start(topology, tmp.path());
    let mut servers = Vec::new();
    wait_until("its servers run", PATIENCE, || {
        servers = servers_of(owner.id());
        servers.len() == 6
    });
    assert!(tmp.path().read_dir().unwrap().next().is_some(), "they keep their files there");
    process::signal(&owner, signal);
    owner.wait().unwrap();
    wait_until("the servers are gone", PATIENCE, || servers.iter().all(|server| !process::is_alive(*server)));
    wait_until("their files are gone", PATIENCE, || tmp.path().read_dir().unwrap().next().is_none());
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_of_a_cluster_is_left_when_its_demo_is_ended_or_killed() {
    ends_by(libc::SIGTERM, "cluster");
    ends_by(libc::SIGKILL, "cluster");
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_of_a_sentinel_service_is_left_when_its_demo_is_ended_or_killed() {
    ends_by(libc::SIGTERM, "sentinel");
    ends_by(libc::SIGKILL, "sentinel");
}

#[test]
fn a_topology_that_the_demo_does_not_have_is_refused() {
    let output = lockscope().args(["demo", "--headless", "--topology", "redlock"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("standalone, cluster, sentinel"), "{said}");
}
