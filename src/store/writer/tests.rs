//! A disk that is full, by SQLite's own limit of pages: it is told, nothing that was written is lost, and it goes on.

use std::sync::{Arc, Mutex};

use super::*;
use crate::metrics::{MetricId, Part, Sample, Series};
use crate::store::{History, Reason, schema};

const START: i64 = 1_763_013_600_000;

fn moment(second: i64) -> Moment {
    let metric = MetricId::named("lockscope_waiters").unwrap();
    // Names that are new each time, so that every moment needs room.
    let series = |number: i64| Series {
        metric,
        part: Part::Value,
        labels: ["a", &format!("{second} {number}")].map(Into::into).into(),
    };
    let samples = (0..50).map(|number| Sample { series: series(number), value: 0.1 * number as f64 });
    Moment { at: Time(START + second * 1_000), samples: samples.collect() }
}

#[test]
fn a_full_disk_is_told_and_recording_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let target = Target { name: "a".into(), server: String::new() };
    let status = Arc::new(Mutex::new(Status::default()));
    schema::make_private(&path).unwrap();
    let only = Only::take(&path).unwrap();
    let db = schema::open_to_record(&path, "a").unwrap();
    let mut writer = Writer::new(db, only, path.clone(), target, Keep::default(), status.clone()).unwrap();
    let status = move || status.lock().unwrap().clone();
    let tell = |writer: &mut Writer, second: i64| {
        writer.take(Message::Moment { moment: moment(second), jump: None });
        writer.commit();
    };
    (0..20).for_each(|second| tell(&mut writer, second));
    let pages: i64 = writer.db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let limit = |writer: &Writer, pages: i64| {
        writer.db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    };
    limit(&writer, pages + 2);
    (20..60).for_each(|second| tell(&mut writer, second));
    let full = status();
    let trouble = full.trouble.unwrap();
    assert!(trouble.contains("no room left on the disk") && trouble.contains("make room"), "{trouble}");
    assert!(full.errors > 10 && full.last_write >= Some(Time(START + 19_000)), "{} errors", full.errors);
    let times = |history: &History| {
        history.series(MetricId::named("lockscope_waiters").unwrap(), &|_| true, Time(0), Time(i64::MAX)).unwrap().times
    };
    let history = History::open(&path).unwrap();
    let written = times(&history);
    assert_eq!(written.last().copied(), full.last_write);
    limit(&writer, 100_000);
    (60..70).for_each(|second| tell(&mut writer, second));
    assert_eq!((status().trouble, status().last_write), (None, Some(Time(START + 69_000))));
    assert_eq!(times(&history)[..written.len()], written[..], "what was written stays");
    assert_eq!(times(&history).len(), written.len() + 10);
    let gaps = history.gaps(Time(0), Time(i64::MAX)).unwrap();
    let last = gaps.last().unwrap();
    assert_eq!(
        (last.reason, last.from, last.to),
        (Reason::NotWritten, written[written.len() - 1], Some(Time(START + 60_000)))
    );
    writer.finish().unwrap();
}
