//! Dry runs that can be performed exactly as they were shown: stored for a few minutes, in the user's own files.
//!
//! A dry run holds whole plans, comparisons included, so that performing it frees what it showed or refuses. It can be
//! performed once: a second time it would meet holds that nobody saw.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::actions::audit;
use crate::base::time::Time;

/// How long a dry run can be performed.
pub const LIFE: Duration = Duration::from_secs(600);
/// At most this many locks in one dry run.
pub const MOST: usize = 10_000;
/// The form of the files; others are not read.
const VERSION: u32 = 2;

/// What one dry run showed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DryRun {
    version: u32,
    pub id: String,
    /// The server's address without a password, and the database.
    pub target: String,
    pub db: i64,
    /// By our clock.
    made_at: i64,
    pub plans: Vec<Plan>,
}

/// The dry runs of one user on this machine.
#[derive(Debug)]
pub struct DryRuns {
    directory: PathBuf,
}

impl DryRuns {
    /// In the user's own place.
    pub fn open() -> io::Result<DryRuns> {
        DryRuns::open_in(&audit::state_directory()?)
    }

    pub fn open_in(place: &Path) -> io::Result<DryRuns> {
        let directory = place.join("plans");
        audit::make_private_directory(&directory)?;
        Ok(DryRuns { directory })
    }

    /// Keeps these plans under a new id. Those of earlier dry runs whose time is over are removed.
    pub fn keep(&self, plans: Vec<Plan>, target: &str, db: i64, now: Time) -> io::Result<String> {
        self.purge()?;
        let id = new_id()?;
        let kept = DryRun { version: VERSION, id: id.clone(), target: target.to_string(), db, made_at: now.0, plans };
        audit::write_private(&self.path(&id), &serde_json::to_vec(&kept).map_err(io::Error::other)?)?;
        Ok(id)
    }

    /// What was kept under this id, unless its time is over.
    pub fn find(&self, id: &str, now: Time) -> io::Result<Option<DryRun>> {
        // An id is a name of ours, never a path.
        if id.is_empty() || !id.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        let bytes = match std::fs::read(self.path(id)) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        let kept: DryRun = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
        Ok((kept.version == VERSION && kept.is_fresh(now)).then_some(kept))
    }

    /// Removes it before it is performed, so that it runs only once. On an error it must not be performed.
    pub fn spend(&self, dry_run: &DryRun) -> io::Result<()> {
        std::fs::remove_file(self.path(&dry_run.id))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn purge(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            let age = written.ok().and_then(|written| written.elapsed().ok());
            if age.is_some_and(|age| age > LIFE) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

impl DryRun {
    /// A clock that was set back must not extend its life.
    fn is_fresh(&self, now: Time) -> bool {
        (0..=LIFE.as_millis() as i64).contains(&(now.0 - self.made_at))
    }
}

fn new_id() -> io::Result<String> {
    let mut bytes = [0_u8; 4];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_is_found_until_its_time_is_over() {
        let place = tempfile::tempdir().unwrap();
        let runs = DryRuns::open_in(place.path()).unwrap();
        let id = runs.keep(Vec::new(), "redis://a", 3, Time(1_000_000)).unwrap();
        let found = runs.find(&id, Time(1_000_500)).unwrap().expect("a fresh one");
        assert_eq!((found.target.as_str(), found.db), ("redis://a", 3));
        assert_eq!(runs.find(&id, Time(1_000_000 + LIFE.as_millis() as i64 + 1)).unwrap(), None);
        assert_eq!(runs.find(&id, Time(999_999)).unwrap(), None, "the clock was set back");
        assert_eq!(runs.find("../audit", Time(1_000_500)).unwrap(), None);
        runs.spend(&found).unwrap();
        assert_eq!(runs.find(&id, Time(1_000_500)).unwrap(), None);
        assert!(runs.spend(&found).is_err(), "only one may perform it");
    }
}
