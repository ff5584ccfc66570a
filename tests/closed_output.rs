//! Closed pipes and full disks on stdout and stderr, for every command: never a panic or a signal. A reader that left
//! is not an error; a full disk is one. Also durations too long for any clock.

mod common;

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::LazyLock;

use common::process::{scratch, spawn, temporary_directory};
use common::{Server, lockscope, lockscope_process};

/// The target of an output stream.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sink {
    /// Somebody reads it.
    Read,
    /// Nobody does: a pipe whose other end is closed.
    Gone,
    /// `/dev/full`: every write fails.
    Full,
}

struct Ended {
    status: ExitStatus,
    out: String,
    err: String,
}

fn sink(of: Sink) -> (Stdio, Option<std::io::PipeReader>) {
    match of {
        Sink::Full => (OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into(), None),
        Sink::Read | Sink::Gone => {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            (writer.into(), (of == Sink::Read).then_some(reader))
        }
    }
}

/// A recorded hour and rules of Prometheus, for the commands that read such files.
static KEPT: LazyLock<PathBuf> = LazyLock::new(|| {
    let kept = scratch("kept");
    std::fs::create_dir_all(&kept).expect("a folder");
    common::history::record(&kept.join("history"));
    let exported = lockscope().args(["rules", "export"]).output().expect("lockscope runs");
    std::fs::write(kept.join("rules.yml"), exported.stdout).expect("a file");
    kept
});

/// `NEW` in an argument is a place of this run alone, and `KEPT` the folder of what was recorded before.
fn run(arguments: &[&str], out: Sink, err: Sink) -> Ended {
    let home = temporary_directory();
    let mut command = lockscope_process(home.path());
    let ((stdout, read_out), (stderr, read_err)) = (sink(out), sink(err));
    let new = home.path().join("new");
    let placed = |word: &&str| word.replace("NEW", new.to_str().unwrap()).replace("KEPT", KEPT.to_str().unwrap());
    command.args(arguments.iter().map(placed)).stdout(stdout).stderr(stderr);
    let mut child = spawn(command).expect("lockscope starts");
    let text = |reader: Option<std::io::PipeReader>| {
        let mut bytes = Vec::new();
        if let Some(mut reader) = reader {
            reader.read_to_end(&mut bytes).expect("the output can be read");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let err = std::thread::spawn(move || text(read_err));
    let out = text(read_out);
    Ended { status: child.wait().expect("a child of ours"), out, err: err.join().expect("no panic") }
}

/// Every command that ends by itself, as short as possible.
const SERVED: [&[&str]; 38] = [
    &["ls"],
    &["ls", "-v", "--json"],
    &["ls", "--csv"],
    &["ls", "--filter", "key:nothing"],
    &["ls", "--filter", "sttae:held"],
    &["show", "lock:a"],
    &["show", "lock:a", "--json"],
    &["show", "lock:none"],
    &["watch", "--for", "300ms"],
    &["watch", "--for", "300ms", "--json"],
    &["watch", "--for", "300ms", "--notable"],
    &["contention", "--for", "300ms"],
    &["check", "--for", "1s"],
    &["check", "--for", "1s", "--json"],
    &["serve", "--listen", "127.0.0.1:0", "--for", "1s"],
    &["record", "--store", "NEW", "--for", "300ms"],
    &["bundle", "lock:a", "--out", "NEW"],
    &["bundle", "lock:none", "--out", "NEW"],
    &["bundle", "lock:a", "--out", "KEPT/history"],
    &["contention", "--for", "300ms", "--json"],
    &["discover"],
    &["discover", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["release", "lock:a"],
    &["release", "lock:a", "--holder", "t", "--dry-run"],
    &["release", "lock:a", "--holder", "t", "--dry-run", "--json"],
    &["release", "lock:a", "--holder", "other", "--yes", "--json"],
    &["release", "--filter", "key:lock:a"],
    &["extend", "lock:a", "--holder", "t", "--ttl", "1h", "--yes"],
    &["extend", "lock:a", "--holder", "t", "--ttl", "1h", "--yes", "--json"],
    &["undo"],
    &["acquire", "lock:a", "--ttl", "1s"],
    &["acquire", "lock:mine", "--ttl", "5s", "--hold", "50ms"],
    &["acquire", "lock:mine", "--ttl", "5s", "--hold", "50ms", "--json"],
    &["acquire", "lock:mine", "--ttl", "5s", "--", "true"],
    &["probe", "--for", "200ms", "--ttl", "3s"],
    &["probe", "--for", "200ms", "--ttl", "3s", "--json"],
];

const UNSERVED: [&[&str]; 41] = [
    &["--help"],
    &["-h"],
    &["--version"],
    &["ls", "--help"],
    &["release", "-h"],
    &["completions", "bash"],
    &["completions", "zsh"],
    &["completions", "fish"],
    &["man"],
    &["man", "ls"],
    &["man", "nothing"],
    &["config", "template"],
    &["config"],
    &["rules", "template"],
    &["rules"],
    &["rules", "export"],
    &["rules", "export", "--out", "NEW"],
    &["rules", "export", "--tests", "--store", "KEPT/history", "--out", "NEW"],
    &["rules", "import", "KEPT/rules.yml"],
    &["rules", "import", "KEPT/history"],
    &["rules", "fire", "LockOrphan", "--test", "--alertmanager", "http://127.0.0.1:1"],
    &["record", "--store", "KEPT/history", "--info"],
    &["record", "--store", "KEPT/history", "--copy-to", "NEW"],
    &["check", "--store", "KEPT/history"],
    &["check", "--store", "KEPT/history", "--json"],
    &["tune", "--store", "KEPT/history"],
    &["tune", "--store", "KEPT/history", "--rule", "LockManyWaiters", "--json"],
    &["tune", "--store", "NEW"],
    &["tune", "--prometheus", "http://127.0.0.1:1"],
    &["bundle", "--episode", "7", "--store", "KEPT/history", "--out", "NEW"],
    &["info"],
    &["scripts"],
    &["scripts", "--json"],
    &["scripts", "acquire"],
    &["scripts", "nothing"],
    &["audit"],
    &["audit", "--json"],
    &["--no-such-option"],
    &["no-such-command"],
    &["ls", "-u", "redis://127.0.0.1:1"],
    &["ls", "-u", "nonsense"],
];

fn server() -> Server {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    server
}

#[track_caller]
fn holds(arguments: &[&str]) {
    let usual = run(arguments, Sink::Read, Sink::Read);
    assert!(usual.status.code().is_some_and(|code| code < 4), "{arguments:?}: {:?} {}", usual.status, usual.err);
    for out in [Sink::Read, Sink::Gone, Sink::Full] {
        for err in [Sink::Read, Sink::Gone, Sink::Full] {
            let ended = run(arguments, out, err);
            let context = format!("{arguments:?} with stdout {out:?} and stderr {err:?}: {}", ended.err);
            assert_eq!(ended.status.signal(), None, "{context}");
            let expected = match out {
                // What is printed within so short a time depends on the machine.
                Sink::Full if arguments.contains(&"300ms") => vec![Some(3), usual.status.code()],
                // The output is lost, which is an error.
                Sink::Full if !usual.out.is_empty() => vec![Some(3)],
                _ => vec![usual.status.code()],
            };
            assert!(expected.contains(&ended.status.code()), "{context}: {} and not {expected:?}", ended.status);
            assert!(!ended.err.contains("panicked"), "{context}");
            if out == Sink::Gone {
                assert!(!ended.err.contains("could not write"), "{context}");
            }
            if out == Sink::Full && err == Sink::Read && !usual.out.is_empty() {
                assert!(ended.err.contains("could not write the output"), "{context}");
            }
        }
    }
}

#[test]
fn no_command_without_a_server_minds_who_reads() {
    for arguments in UNSERVED {
        holds(arguments);
    }
}

#[test]
fn no_command_on_a_server_minds_who_reads() {
    let server = server();
    let url = server.url();
    for arguments in SERVED {
        holds(&[&["-u", &url], arguments].concat());
    }
}

#[test]
fn a_release_and_its_undo_mind_no_reader_either() {
    let server = server();
    let url = server.url();
    for (out, err) in [(Sink::Gone, Sink::Gone), (Sink::Full, Sink::Full), (Sink::Read, Sink::Full)] {
        server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
        let release = ["-u", &url, "release", "lock:a", "--holder", "t", "--yes"];
        let ended = run(&release, out, err);
        assert_eq!(ended.status.code(), Some(if out == Sink::Full { 3 } else { 0 }), "{out:?}: {}", ended.err);
        assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]), "told or not, it was freed");
    }
}

#[test]
fn a_release_that_can_not_be_told_on_stdout_is_told_on_stderr() {
    let server = server();
    let url = server.url();
    for way in [&["lock:a", "--holder", "t"][..], &["lock:a", "--holder", "t", "--json"], &["--filter", "key:lock:a"]] {
        server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
        let ended = run(&[&["-u", &url, "release", "--yes"], way].concat(), Sink::Full, Sink::Read);
        assert_eq!(ended.status.code(), Some(3), "{way:?}: {}", ended.err);
        assert!(ended.err.contains("freed lock:a; 'lockscope undo "), "{way:?}: {}", ended.err);
        assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]));
    }
}

#[test]
fn a_duration_that_no_clock_can_hold_is_refused() {
    let server = server();
    let url = server.url();
    for long in ["18446744073709551615s", "18446744073709551614s", "9223372036854775807s", "584542046090y", "300y"] {
        for arguments in [
            &["ls", "--observe", long][..],
            &["show", "lock:a", "--observe", long],
            &["watch", "--for", long],
            &["contention", "--for", long],
            &["contention", "--monitor", "--for", long],
            &["release", "--filter", "key:a", "--observe", long],
            &["extend", "lock:a", "--holder", "t", "--yes", "--ttl", long],
            &["acquire", "lock:a", "--ttl", long],
            &["acquire", "lock:a", "--ttl", "1s", "--wait", long],
            &["acquire", "lock:b", "--ttl", "1s", "--hold", long],
            &["acquire", "lock:b", "--ttl", "1s", "--grace", long, "--", "true"],
            &["probe", "--for", long],
            &["probe", "--ttl", long],
            &["demo", "--headless", "--for", long],
            &["check", "--for", long],
            &["serve", "--listen", "127.0.0.1:0", "--for", long],
            &["record", "--store", "NEW", "--for", long],
            &["bundle", "lock:a", "--out", "NEW", "--observe", long],
            &["tune", "--store", "NEW", "--from", long],
            &["tune", "--prometheus", "http://127.0.0.1:1", "--timeout", long],
            &["rules", "export", "--tests", "--store", "NEW", "--out", "NEW", "--interval", long],
        ] {
            let ended = run(&[&["-u", &url], arguments].concat(), Sink::Read, Sink::Read);
            assert_eq!((ended.status.code(), ended.out.as_str()), (Some(2), ""), "{arguments:?}: {}", ended.err);
            assert!(ended.err.starts_with("lockscope: ") && ended.err.lines().count() == 1, "{}", ended.err);
        }
        for filter in [format!("ttl<{long}"), format!("held>{long}")] {
            let ended = run(&["-u", &url, "ls", "--filter", &filter], Sink::Read, Sink::Read);
            assert!(ended.status.code().is_some_and(|code| code < 4), "{filter}: {}", ended.err);
        }
    }
}

#[test]
fn a_lease_that_no_clock_can_hold_is_shown() {
    let server = server();
    let url = server.url();
    server.cli(&["SET", "lock:long", "t"]);
    server.cli(&["SET", "lock:zero", "t", "PX", "600000"]);
    for at in ["9223372036854775807", "9223372036854775000", "4611686018427387904", "253402300800000"] {
        server.cli(&["PEXPIREAT", "lock:long", at]);
        for arguments in [
            &["ls"][..],
            &["ls", "--json", "--observe", "200ms"],
            &["ls", "--csv"],
            &["ls", "--filter", "ttl>1s"],
            &["show", "lock:long"],
            &["show", "lock:long", "--json", "--observe", "200ms"],
            &["watch", "--for", "200ms"],
            &["contention", "--for", "200ms"],
            &["discover"],
            &["check", "--for", "1s"],
            &["bundle", "lock:long", "--out", "NEW"],
            &["release", "lock:long", "--holder", "t", "--dry-run"],
            &["acquire", "lock:long", "--ttl", "1s"],
            &["acquire", "lock:long", "--ttl", "1s", "--wait", "50ms"],
        ] {
            let ended = run(&[&["-u", &url], arguments].concat(), Sink::Read, Sink::Read);
            assert!(ended.status.code().is_some_and(|code| code < 2), "{at} {arguments:?}: {}", ended.err);
            assert!(!ended.err.contains("panicked"), "{at} {arguments:?}: {}", ended.err);
        }
        let ended =
            run(&["-u", &url, "extend", "lock:long", "--holder", "t", "--ttl", "1h", "--yes"], Sink::Read, Sink::Read);
        assert_eq!(ended.status.code(), Some(1), "{at}: {}", ended.err);
    }
    // It can be freed and put back, even with its distant end.
    let freed = run(&["-u", &url, "release", "lock:long", "--holder", "t", "--yes", "--json"], Sink::Read, Sink::Read);
    assert_eq!(freed.status.code(), Some(0), "{}{}", freed.out, freed.err);
}
