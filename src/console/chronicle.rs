//! The store beside the console: what is read of it (`--store`), and what is recorded into it (`:record`).
//!
//! Opening, reading and closing a file may take time, so threads do it, and the loop only takes their results. Reading is
//! repeated every few seconds while the console runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::alerts::AlertChange;
use crate::app::scene::Trends;
use crate::app::{DAY, Event, Past, Recorded};
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::daemon::Archive;
use crate::engine::Engine;
use crate::metrics::{MetricId, Moment};
use crate::model::GroupName;
use crate::model::figures::OTHER;
use crate::store::History;

/// Time between two readings of the store.
const AGAIN: Duration = Duration::from_secs(5);
/// At most this many firings are listed: the newest.
const MOST: usize = 1_000;
const LOCKS: MetricId = MetricId::of("lockscope_locks");

/// What the threads report.
enum Report {
    Past(Box<Past>),
    Opened(Result<Box<Archive>, Fault>),
    Closed(Result<(), Fault>),
}

pub struct Chronicle {
    reports: (mpsc::Sender<Report>, mpsc::Receiver<Report>),
    archive: Option<Box<Archive>>,
    /// A thread opens or closes a file now.
    busy: bool,
    /// The store that is read.
    store: Option<PathBuf>,
}

impl Default for Chronicle {
    fn default() -> Chronicle {
        Chronicle { reports: mpsc::channel(4), archive: None, busy: false, store: None }
    }
}

impl Chronicle {
    /// Reads this store from now on, until the console ends.
    pub fn read(&mut self, history: History) -> Result<(), Fault> {
        self.store = Some(history.path().to_path_buf());
        let reports = self.reports.0.clone();
        let follow = move || {
            let mut counted = false;
            loop {
                let past = past(&history, counted);
                counted |= past.trouble.is_none();
                // Nobody listens any more when the console has ended.
                if reports.blocking_send(Report::Past(Box::new(past))).is_err() {
                    return;
                }
                std::thread::sleep(AGAIN);
            }
        };
        let thread = std::thread::Builder::new().name("history".into()).spawn(follow);
        thread.map(drop).map_err(|why| Fault::server(format!("could not start a thread to read the store: {why}")))
    }

    /// The store that is read, else the one that is recorded into.
    pub fn store(&self) -> Option<&Path> {
        self.store.as_deref().or_else(|| self.archive.as_ref().map(|archive| archive.path()))
    }

    /// Begins to record into this file.
    pub fn begin(&mut self, path: PathBuf, name: &str, address: &str, engine: &Engine) {
        let (target, address, reports) = (Archive::target(name, engine), address.to_string(), self.reports.0.clone());
        self.busy = true;
        spawn_blocking(move || {
            let opened = Archive::open(&path, &target, &address).map(Box::new);
            // If the console has ended meanwhile, dropping it closes it.
            let _ = reports.blocking_send(Report::Opened(opened));
        });
    }

    /// Ends it.
    pub fn end(&mut self) {
        let Some(archive) = self.archive.take() else { return };
        let reports = self.reports.0.clone();
        self.busy = true;
        spawn_blocking(move || {
            let closed = archive.close().map(drop);
            let _ = reports.blocking_send(Report::Closed(closed));
        });
    }

    pub fn is_recording(&self) -> bool {
        self.archive.is_some()
    }

    /// Adds how recording goes.
    pub fn add(&self, moment: &mut Moment) {
        if let Some(archive) = &self.archive {
            archive.add(moment);
        }
    }

    /// Records a moment, and what happened since the last one.
    pub fn write(&mut self, engine: &Engine, moment: Moment, changes: &[AlertChange]) -> Option<Event> {
        let archive = self.archive.as_mut()?;
        archive.write(engine, moment, changes)?;
        Some(Event::Recorded(Recorded::Trouble(archive.trouble().map(String::from))))
    }

    /// The next result of a thread.
    pub async fn next(&mut self) -> Event {
        let Some(report) = self.reports.1.recv().await else { return std::future::pending().await };
        self.busy &= matches!(report, Report::Past(_));
        match report {
            Report::Past(past) => Event::Past(past),
            Report::Opened(Ok(archive)) => {
                let store = archive.path().to_path_buf();
                self.archive = Some(archive);
                Event::Recorded(Recorded::Began(store))
            }
            Report::Opened(Err(why)) => Event::Recorded(Recorded::Ended(Some(why.to_string()))),
            Report::Closed(closed) => Event::Recorded(Recorded::Ended(closed.err().map(|why| why.to_string()))),
        }
    }

    /// Ends everything with the console, and waits until it is on disk.
    pub async fn finish(&mut self) -> Result<(), Fault> {
        self.end();
        while self.busy {
            match self.reports.1.recv().await {
                Some(Report::Opened(Ok(archive))) => {
                    self.archive = Some(archive);
                    self.end();
                }
                Some(Report::Closed(closed)) => return closed,
                Some(Report::Opened(Err(_))) | None => break,
                Some(Report::Past(_)) => {}
            }
        }
        Ok(())
    }
}

/// Reads what there is now. What the trends need is read only once: later the console counts itself.
fn past(history: &History, counted: bool) -> Past {
    let now = Clock::start().now();
    let store = history.path().to_path_buf();
    let read = || -> Result<Past, Fault> {
        let mut firings = history.firings(now - DAY, now)?;
        firings.drain(..firings.len().saturating_sub(MOST));
        let summary = history.summary()?;
        let counts = if counted { BTreeMap::new() } else { counts(history, now)? };
        let (oldest, newest) = (summary.oldest, summary.newest);
        Ok(Past { store: store.clone(), firings, counts, oldest, newest, trouble: None })
    };
    read().unwrap_or_else(|why| Past { store: store.clone(), trouble: Some(why.to_string()), ..Past::default() })
}

/// The most locks of each pattern in each cell of the last minutes.
fn counts(history: &History, now: Time) -> Result<BTreeMap<i64, BTreeMap<GroupName, u32>>, Fault> {
    let mut moments: BTreeMap<(Time, &str), f64> = BTreeMap::new();
    let held = |series: &crate::metrics::Series| series.label("state") != Some("free");
    let found = history.series(LOCKS, &held, now - Trends::REACH, now)?;
    for column in &found.columns {
        let Some(pattern) = column.series.label("pattern") else { continue };
        for (at, value) in column.points(&found.times) {
            *moments.entry((at, pattern)).or_default() += value;
        }
    }
    let mut cells: BTreeMap<i64, BTreeMap<GroupName, u32>> = BTreeMap::new();
    // A cell in which something was recorded is counted, also for a pattern without locks.
    cells.extend(found.times.iter().map(|at| (Trends::cell(*at), BTreeMap::new())));
    for ((at, pattern), locks) in moments {
        let name = if pattern == OTHER { GroupName::OtherPatterns } else { GroupName::Pattern(pattern.into()) };
        let most = cells.entry(Trends::cell(at)).or_default().entry(name).or_default();
        *most = (*most).max(locks as u32);
    }
    Ok(cells)
}

/// Opens a store to be read beside the console. It has to be of the same target.
pub fn open(path: &Path, target: &str) -> Result<History, Fault> {
    let history = History::open(path)?;
    history.check_target(target)?;
    Ok(history)
}
