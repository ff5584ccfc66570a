//! The reader of a store: any number of them, also while it is recorded.
//!
//! Each question is answered from one state of the file, so that nothing is seen twice or not at all while it is packed.
//! Only labels are written, in short transactions.

mod firings;
mod labels;
mod log;
mod moments;
mod scraped;
mod series;
mod summary;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::base::fault::Fault;
use crate::store::faults::{self, Trouble, told};
use crate::store::schema;

pub use firings::{End, Firing};
pub use log::Omission;
pub use moments::Moments;
pub use summary::{Reach, Summary, covered};

/// A store that is read.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    db: Connection,
}

/// Why a question was not answered.
enum Why {
    Sqlite(rusqlite::Error),
    /// A checksum is wrong, or what is under it makes no sense.
    Damaged,
}

impl From<rusqlite::Error> for Why {
    fn from(why: rusqlite::Error) -> Why {
        Why::Sqlite(why)
    }
}

impl History {
    pub fn open(path: &Path) -> Result<History, Fault> {
        Ok(History { path: path.to_path_buf(), db: schema::open_to_read(path)? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole store into a new file that only its owner can read, also while it is recorded.
    pub fn copy_to(&self, file: &Path) -> Result<(), Fault> {
        if std::fs::symlink_metadata(file).is_ok() {
            return Err(told(file, Trouble::Exists));
        }
        schema::make_private(file)?;
        let name = file.to_str().ok_or_else(|| Fault::usage("the name of the copy must be valid UTF-8"))?;
        self.db.execute("VACUUM INTO ?1", [name]).map(|_| ()).map_err(|why| {
            // A copy that is not whole is worse than none.
            let _ = std::fs::remove_file(file);
            faults::fault(self.culprit(&why, file), why)
        })
    }

    /// Which of the two files an error of copying is about.
    fn culprit<'a>(&'a self, why: &rusqlite::Error, copy: &'a Path) -> &'a Path {
        use rusqlite::ErrorCode::{CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure};
        match why.sqlite_error_code() {
            Some(CannotOpen | DiskFull | PermissionDenied | ReadOnly | SystemIoFailure) => copy,
            _ => &self.path,
        }
    }

    /// Answers from one state of the file.
    fn ask<T>(&self, question: impl FnOnce(&Connection) -> Result<T, Why>) -> Result<T, Fault> {
        let asked = self.db.unchecked_transaction().map_err(Why::from).and_then(|state| {
            let answer = question(&state)?;
            state.finish()?;
            Ok(answer)
        });
        asked.map_err(|why| match why {
            Why::Sqlite(why) => faults::fault(&self.path, why),
            Why::Damaged => told(&self.path, Trouble::Damaged),
        })
    }
}
