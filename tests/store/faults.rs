//! Files that are no store, damaged, not ours or not writable: one sentence with the fix, the right exit code, no damage.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use lockscope::base::fault::Fault;
use lockscope::metrics::Sample;
use lockscope::store::{History, Keep, Recorder};
use rusqlite::Connection;

use crate::fixtures::*;

fn read(path: &Path) -> Fault {
    History::open(path).and_then(|history| history.summary()).unwrap_err()
}

fn record(path: &Path) -> Fault {
    Recorder::open(path, &target("cache"), Keep::default()).unwrap_err()
}

/// One sentence with those words, about the file, with that exit code.
#[track_caller]
fn told(fault: &Fault, path: &Path, exit: u8, words: &str) {
    let text = fault.to_string();
    assert!(text.contains(words) && text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains(": ") && !text.contains('\n') && !text.ends_with('.'), "one sentence with the fix: {text}");
    assert_eq!(fault.exit_code(), exit, "{text}");
}

/// A closed store with a quarter of an hour in it.
fn recorded() -> Place {
    let place = Place::new();
    let mut recorder = place.recorder();
    (0..900).for_each(|second| {
        let mut moment = counted(START + second * 1_000);
        // Something beside it, so that the file is not mostly empty pages.
        let others = (0..10).map(|number| series("lockscope_missed_renewals_max", &["cache", &format!("p{number}:*")]));
        let noise = |number: i64| ((second + number) * 7_919 % 1_013) as f64;
        moment.samples.extend((0..).zip(others).map(|(n, series)| Sample { series, value: noise(n) }));
        recorder.feed(moment);
    });
    recorder.close().unwrap();
    place
}

#[test]
fn a_file_that_is_missing_empty_or_something_else_is_told() {
    let place = Place::new();
    let file = place.file();
    told(&read(&file), &file, 2, "there is no store");
    let lost = place.folder().join("nowhere").join("locks.db");
    told(&read(&lost), &lost, 2, "there is no folder");
    told(&record(&lost), &lost, 2, "there is no folder");
    told(&read(place.folder()), place.folder(), 2, "is a folder");
    told(&record(place.folder()), place.folder(), 2, "is a folder");
    fs::write(&file, b"").unwrap();
    told(&read(&file), &file, 2, "is empty");
    fs::write(&file, b"lockscope = true\n".repeat(100)).unwrap();
    told(&read(&file), &file, 2, "is not a store");
    told(&record(&file), &file, 2, "is not a store");
    assert_eq!(fs::read(&file).unwrap(), b"lockscope = true\n".repeat(100), "nothing of it was changed");
    fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE mine(a); PRAGMA user_version = 1").unwrap();
    told(&read(&file), &file, 2, "is a database of another program");
    told(&record(&file), &file, 2, "is a database of another program");
}

#[test]
fn an_empty_file_is_recorded_into() {
    let place = Place::new();
    fs::write(place.file(), b"").unwrap();
    place.recorder().feed(counted(START));
    assert_eq!(counts(&place.history()), expected([START]));
}

#[test]
fn a_store_of_a_newer_version_or_another_target_is_not_touched() {
    let place = recorded();
    let file = place.file();
    let other = Recorder::open(&file, &target("queue"), Keep::default()).unwrap_err();
    told(&other, &file, 2, "is the store of cache, and this is queue");
    Connection::open(&file).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    let before = fs::read(&file).unwrap();
    told(&read(&file), &file, 2, "was written by a newer lockscope (its format is 2");
    told(&record(&file), &file, 2, "was written by a newer lockscope");
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn a_second_recorder_is_refused_with_the_pid_of_the_first() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let words = format!("process {} already records into", std::process::id());
    told(&record(&place.file()), &place.file(), 1, &words);
    recorder.feed(counted(START));
    recorder.close().unwrap();
    place.recorder().feed(counted(START + 1_000));
    assert_eq!(counts(&place.history()), expected([START, START + 1_000]));
    assert_eq!(fs::read_dir(place.folder()).unwrap().count(), 1, "nothing is left beside the store");
}

#[test]
fn a_recorder_that_was_killed_does_not_keep_others_out() {
    let place = Place::new();
    fs::write(place.folder().join("locks.db-recorder"), b"4711").unwrap();
    place.recorder().feed(counted(START));
    assert_eq!(counts(&place.history()), expected([START]));
}

#[test]
fn only_the_owner_can_read_a_store() {
    let place = Place::new();
    let mut recorder = place.recorder();
    recorder.feed(counted(START));
    for entry in fs::read_dir(place.folder()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[test]
fn a_size_limit_that_has_no_room_for_anything_is_refused() {
    let place = Place::new();
    let keep = Keep { size_limit: 1 << 20, ..Keep::default() };
    let refused = Recorder::open(&place.file(), &target("cache"), keep).unwrap_err();
    told(&refused, &place.file(), 2, "give it 4 MiB or more");
    assert!(!place.file().exists(), "nothing was made");
}

#[test]
fn a_store_that_was_cut_short_is_damaged_and_never_wrong() {
    let place = recorded();
    let (file, whole) = (place.file(), fs::read(place.file()).unwrap());
    let right = counts(&place.history());
    for pages in 1..whole.len() / 4_096 {
        fs::write(&file, &whole[..pages * 4_096]).unwrap();
        match History::open(&file).and_then(|history| history.summary().map(|_| history)) {
            Ok(history) => assert_eq!(counts(&history), right, "{pages} pages left"),
            Err(fault) => told(&fault, &file, 3, "is damaged"),
        }
    }
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    told(&record(&file), &file, 3, "is damaged");
    fs::write(&file, &whole[..50]).unwrap();
    told(&read(&file), &file, 3, "is damaged");
    told(&record(&file), &file, 3, "is damaged");
    assert_eq!(fs::read(&file).unwrap(), whole[..50]);
}

#[test]
fn flipped_bytes_are_noticed_or_change_nothing() {
    let place = recorded();
    let (file, whole) = (place.file(), fs::read(place.file()).unwrap());
    let right = counts(&place.history());
    let mut noticed = 0;
    for round in 0..100 {
        let mut flipped = whole.clone();
        // Every page, at places that spread over it.
        let at = (round * 7_919 + round * round * 31) % whole.len();
        flipped[at..(at + 4).min(whole.len())].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&file, &flipped).unwrap();
        let asked = History::open(&file).and_then(|history| {
            history.summary()?;
            history.notables(ALL.0, ALL.1)?;
            history.series(metric("lockscope_missed_renewals_max"), &|_| true, ALL.0, ALL.1)?;
            let columns = history.series(metric("lockscope_waiters"), &|_| true, ALL.0, ALL.1)?;
            let points = columns.columns.iter().flat_map(|column| column.points(&columns.times));
            Ok(points.map(|(at, value)| (at.0, value)).collect::<Vec<_>>())
        });
        match asked {
            // A name of a label may be another one then, and a whole series may be unknown; a number is never wrong.
            Ok(points) => assert!(points.iter().all(|point| right.contains(point)), "byte {at}"),
            Err(fault) => {
                noticed += 1;
                assert!([2, 3].contains(&fault.exit_code()) && fault.to_string().contains(": "), "{fault}");
            }
        }
    }
    assert!(noticed > 10, "only {noticed} of 100 were noticed");
}

#[test]
fn a_program_that_writes_for_too_long_is_told_and_nothing_is_lost() {
    let place = Place::new();
    let mut recorder = place.recorder();
    recorder.feed(counted(START));
    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    recorder.feed(counted(START + 1_000));
    let status = recorder.status();
    let trouble = status.trouble.unwrap();
    assert!(trouble.contains("is being written by another program for too long: close that one"), "{trouble}");
    assert_eq!((status.errors, status.last_write.map(|at| at.0)), (1, Some(START)));
    other.execute_batch("ROLLBACK").unwrap();
    recorder.feed(counted(START + 4_000));
    assert_eq!(recorder.status().trouble, None);
    assert_eq!(counts(&place.history()), expected([START, START + 4_000]));
    let gaps = place.history().gaps(ALL.0, ALL.1).unwrap();
    assert_eq!(gaps.iter().map(|gap| gap.reason.name()).collect::<Vec<_>>(), ["not-written"]);
}

/// Runs the test named below as a user who is not root, to whom permissions apply.
fn as_anybody(path: &Path) -> String {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "faults::what_anybody_is_told", "--ignored", "--nocapture"])
        .env("LOCKSCOPE_TEST_STORE", path);
    if rustix::process::getuid().is_root() {
        child.uid(65_534).gid(65_534);
    }
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "started by the test below"]
fn what_anybody_is_told() {
    let Some(path) = std::env::var_os("LOCKSCOPE_TEST_STORE") else { return };
    let path = Path::new(&path);
    let read = History::open(path).map(|history| counts(&history).len());
    println!("read: {read:?}");
    match Recorder::open(path, &target("cache"), Keep::default()) {
        Ok(_) => println!("record: opened"),
        Err(fault) => println!("record: {} {fault}", fault.exit_code()),
    }
}

#[test]
fn a_store_that_can_not_be_written_is_told_and_can_still_be_read() {
    let place = recorded();
    let (file, folder) = (place.file(), place.folder());
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let refusal = format!("record: 3 {} can't be written: allow it for the file and its folder", file.display());
    // Everybody may read it, nobody may write it, nor make a file beside it.
    set(&file, 0o444);
    set(folder, 0o555);
    let said = as_anybody(&file);
    assert!(said.contains("read: Ok(900)") && said.contains(&refusal), "{said}");
    // The file may be written, but nothing can be made beside it.
    set(&file, 0o666);
    let said = as_anybody(&file);
    assert!(said.contains("read: Ok(900)") && said.contains(&refusal), "{said}");
    // Not even read.
    set(&file, 0o000);
    let said = as_anybody(&file);
    assert!(said.contains("read: Err") && said.contains(&refusal), "{said}");
    set(folder, 0o755);
}
