//! What is wrong with a store, in one sentence that names the file and the fix, with the exit code.
//!
//! A file that was named wrongly is wrong usage; what the machine does not allow or has damaged is like a server that was
//! lost; a second recorder is refused.

use std::io;
use std::path::Path;

use rusqlite::{ErrorCode, ffi};

use crate::base::fault::Fault;

/// What can be wrong with the file as such.
#[derive(Clone, Copy, Debug)]
pub enum Trouble<'a> {
    Folder,
    Missing,
    Empty,
    NotSqlite,
    /// A database, but not ours.
    Foreign,
    Newer {
        theirs: i64,
        ours: i64,
    },
    Damaged,
    ReadOnly,
    Full,
    /// A write failed, and the system did not say that the disk is full.
    NotWritten,
    Busy,
    OfAnother {
        theirs: &'a str,
        ours: &'a str,
    },
    /// Another recorder is at work; its pid, if known.
    Second(Option<u32>),
    TooSmall {
        least: u64,
    },
    Exists,
}

/// The sentence.
pub fn told(path: &Path, what: Trouble) -> Fault {
    let file = path.display();
    match what {
        Trouble::Folder => Fault::usage(format!("{file} is a folder: name a file in it, such as {file}/locks.db")),
        Trouble::Missing => Fault::usage(format!(
            "there is no store {file}: check the name, or let 'lockscope record --store {file}' make it"
        )),
        Trouble::Empty => Fault::usage(format!(
            "{file} is empty, nothing was recorded into it: 'lockscope record --store {file}' does"
        )),
        Trouble::NotSqlite => Fault::usage(format!("{file} is not a store, but some other kind of file: name another")),
        Trouble::Foreign => {
            Fault::usage(format!("{file} is a database of another program, not a store: name another file"))
        }
        Trouble::Newer { theirs, ours } => Fault::usage(format!(
            "{file} was written by a newer lockscope (its format is {theirs}, this version knows up to {ours}): \
             use that version, or record into another file"
        )),
        Trouble::Damaged => Fault::server(format!(
            "{file} is damaged: move it away and record into a new file; 'sqlite3 {file} .recover' saves what can be read"
        )),
        Trouble::ReadOnly => Fault::server(format!(
            "{file} can't be written: allow it for the file and its folder, or name another file"
        )),
        Trouble::Full => {
            Fault::server(format!("no room left on the disk to write {file}: make room; what it has is safe"))
        }
        Trouble::NotWritten => Fault::server(format!(
            "{file} can't grow: the disk is full or fails, or files may not be so large; make room; what it has is safe"
        )),
        Trouble::Busy => Fault::server(format!(
            "{file} is being written by another program for too long: close that one, or try again"
        )),
        Trouble::OfAnother { theirs, ours } => Fault::usage(format!(
            "{file} is the store of {theirs}, and this is {ours}: name another file, one for each target"
        )),
        Trouble::Second(Some(pid)) => Fault::finding(format!(
            "process {pid} already records into {file}: stop it first, or record into another file"
        )),
        Trouble::Second(None) => Fault::finding(format!(
            "another process already records into {file}: stop it first, or record into another file"
        )),
        Trouble::TooSmall { least } => {
            let least = least >> 20;
            Fault::usage(format!("the size limit of {file} is too small: give it {least} MiB or more"))
        }
        Trouble::Exists => Fault::usage(format!("{file} already exists: name a new file for the copy")),
    }
}

/// Errors of SQLite when it writes: to the file or its log, and when it makes the part larger that readers share.
const WRITES: [i32; 3] = [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_TRUNCATE];

/// The sentence on an error of SQLite.
pub fn fault(path: &Path, why: rusqlite::Error) -> Fault {
    let Some(code) = why.sqlite_error_code() else {
        // A value of a type that was never written there.
        return told(path, Trouble::Damaged);
    };
    if matches!(&why, rusqlite::Error::SqliteFailure(error, _) if WRITES.contains(&error.extended_code)) {
        return told(path, Trouble::NotWritten);
    }
    match code {
        ErrorCode::NotADatabase => told(path, Trouble::NotSqlite),
        ErrorCode::DatabaseCorrupt | ErrorCode::SchemaChanged | ErrorCode::TypeMismatch => told(path, Trouble::Damaged),
        // No such table or column, although the header says that it is ours.
        ErrorCode::Unknown => told(path, Trouble::Damaged),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => told(path, Trouble::ReadOnly),
        ErrorCode::DiskFull => told(path, Trouble::Full),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => told(path, Trouble::Busy),
        ErrorCode::CannotOpen => match std::fs::metadata(path) {
            Err(why) => of_io(path, &why),
            Ok(_) => told(path, Trouble::ReadOnly),
        },
        _ => Fault::server(format!("could not read or write {}: {why}; check the disk", path.display())),
    }
}

/// The sentence on an error of the file system.
pub fn of_io(path: &Path, why: &io::Error) -> Fault {
    match why.kind() {
        io::ErrorKind::NotFound
            if path.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir()) =>
        {
            told(path, Trouble::Missing)
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Fault::usage(format!("there is no folder for {}: make it, or name another file", path.display()))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => told(path, Trouble::ReadOnly),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => told(path, Trouble::Full),
        _ => Fault::server(format!("could not open {}: {why}; check the disk", path.display())),
    }
}

/// Whether a reader failed only because it can't make the file that readers and the writer share.
pub fn can_not_share(why: &rusqlite::Error) -> bool {
    matches!(why.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}
