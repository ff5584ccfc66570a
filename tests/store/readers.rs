//! Readers beside a recorder: each moment is there once, whatever is being packed.

use std::sync::atomic::{AtomicBool, Ordering};

use lockscope::store::{History, Keep, Label, Verdict};

use crate::fixtures::*;

/// A second is two, so that there is a block for each 300 moments.
const STEP: i64 = 2_000;

#[test]
fn a_reader_sees_each_second_once_while_it_is_packed() {
    let place = Place::new();
    let mut recorder = place.recorder();
    recorder.feed(counted(START));
    let done = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let history = place.history();
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks == 0 {
                let found = counts(&history);
                let whole = expected((0..found.len() as i64).map(|second| START + second * STEP));
                assert!(found == whole, "of {} moments some are missing or there twice", found.len());
                looks += 1;
            }
            looks
        });
        for second in 1..6_000 {
            recorder.feed(counted(START + second * STEP));
        }
        recorder.settle();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(looks > 5, "only {looks} looks");
    assert_eq!(counts(&place.history()).len(), 6_000);
    assert_eq!(recorder.status().omitted, 0);
}

#[test]
fn a_copy_made_while_recording_is_what_was_recorded() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mut recorder = place.recorder();
    let copy = |number: usize| place.folder().join(format!("copy-{number}.db"));
    recorder.feed(counted(START));
    std::thread::scope(|scope| {
        let copier = scope.spawn(|| {
            let history = place.history();
            (0..5).for_each(|number| history.copy_to(&copy(number)).unwrap());
        });
        let mut second = 1;
        while !copier.is_finished() {
            recorder.feed(counted(START + second * STEP));
            second += 1;
        }
        copier.join().unwrap();
    });
    recorder.settle();
    let all = counts(&place.history());
    let mut before = 0;
    for number in 0..5 {
        let found = counts(&History::open(&copy(number)).unwrap());
        assert!(found == all[..found.len()] && found.len() >= before, "copy {number}");
        before = found.len();
        let mode = std::fs::metadata(copy(number)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "names of locks may be private");
    }
    let refused = place.history().copy_to(&copy(0)).unwrap_err();
    assert!(refused.to_string().ends_with("already exists: name a new file for the copy"), "{refused}");
}

#[test]
fn a_copy_can_be_recorded_into() {
    let place = Place::new();
    let mut recorder = place.recorder();
    recorder.feed(counted(START));
    let copy = place.folder().join("copy.db");
    place.history().copy_to(&copy).unwrap();
    let mut second = lockscope::store::Recorder::open(&copy, &target("cache"), Keep::default()).unwrap();
    second.feed(counted(START + 1_000));
    second.close().unwrap();
    assert_eq!(counts(&History::open(&copy).unwrap()), expected([START, START + 1_000]));
    assert_eq!(counts(&place.history()), expected([START]));
}

#[test]
fn a_label_is_written_while_it_is_recorded_and_replaces_the_one_before() {
    let place = Place::new();
    let mut recorder = place.recorder();
    recorder.feed(counted(START));
    let history = place.history();
    let label = |verdict, note: &str| Label {
        rule: "LockOrphan".into(),
        labels: [("pattern".to_string(), "lock:*".to_string())].into(),
        from: lockscope::base::time::Time(START),
        to: lockscope::base::time::Time(START + 60_000),
        verdict,
        note: note.into(),
        by: "ops".into(),
        at: lockscope::base::time::Time(START + 90_000),
    };
    history.label(&label(Some(Verdict::Noise), "a deployment")).unwrap();
    recorder.feed(counted(START + 1_000));
    history.label(&label(Some(Verdict::Real), "the worker was killed")).unwrap();
    recorder.settle();
    assert_eq!(history.labels("LockOrphan").unwrap(), [label(Some(Verdict::Real), "the worker was killed")]);
    assert_eq!(history.labels("LockSplit").unwrap(), []);
    let named = label(None, "");
    history.unlabel("LockOrphan", &named.labels, named.from).unwrap();
    assert_eq!(history.labels("LockOrphan").unwrap(), []);
    assert_eq!(recorder.close().unwrap().errors, 0);
}
