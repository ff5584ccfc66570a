//! The tables of the file, and opening it: whose file it is, and whether this version can read it.
//!
//! Series, patterns, states and endings are kept by name, so that new ones need no new format. Any change that an older
//! reader would misread needs another [`FORMAT`].

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::base::fault::Fault;
use crate::store::faults::{self, Trouble};

/// "lksc": what says that a database is ours.
const APPLICATION: i64 = 0x6c6b_7363;
/// The version that is written, and the newest that is read.
const FORMAT: i64 = 1;
/// How long to wait for others that write.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE target(name TEXT NOT NULL) STRICT;
-- Metrics and patterns.
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
-- Labels as a JSON object; seen: the day, in ms, when it last had a value.
CREATE TABLE series(id INTEGER PRIMARY KEY, metric INTEGER NOT NULL, pattern INTEGER NOT NULL, part TEXT NOT NULL,
    labels TEXT NOT NULL, seen INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX series_by_labels ON series(metric, labels, part);
-- Times are in ms since 1970. What kept the run from continuing the one before is in after.
CREATE TABLE runs(id INTEGER PRIMARY KEY, began INTEGER NOT NULL, after TEXT NOT NULL, version TEXT NOT NULL,
    target TEXT NOT NULL, server TEXT NOT NULL) STRICT;
-- The newest moments, one row each, until they are packed.
CREATE TABLE tail(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
-- Packed moments of one run; step in ms, moments: how many there were before they were thinned out.
CREATE TABLE blocks(id INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL, run INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, moments INTEGER NOT NULL, times BLOB NOT NULL) STRICT;
CREATE TABLE columns(metric INTEGER NOT NULL, block INTEGER NOT NULL, pattern INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY(metric, block, pattern)) STRICT, WITHOUT ROWID;
-- ended is NULL while a gap lasts, node is NULL if it concerns everything.
CREATE TABLE gaps(id INTEGER PRIMARY KEY, began INTEGER NOT NULL, ended INTEGER, reason TEXT NOT NULL, node TEXT) STRICT;
-- What was left out because too much came, by minute.
CREATE TABLE omitted(minute INTEGER NOT NULL, what TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY(minute, what)) STRICT, WITHOUT ROWID;
CREATE TABLE notables(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, what TEXT NOT NULL, key BLOB, body TEXT NOT NULL) STRICT;
CREATE INDEX notables_by_time ON notables(at);
CREATE TABLE alerts(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, rule TEXT NOT NULL, state TEXT NOT NULL, value REAL,
    threshold REAL, body TEXT NOT NULL) STRICT;
CREATE INDEX alerts_by_time ON alerts(at);
CREATE TABLE actions(at INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY(at, body)) STRICT, WITHOUT ROWID;
CREATE TABLE labels(rule TEXT NOT NULL, labels TEXT NOT NULL, began INTEGER NOT NULL, ended INTEGER NOT NULL, verdict TEXT,
    note TEXT NOT NULL, by TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY(rule, labels, began)) STRICT, WITHOUT ROWID;
";

/// Opens the file to record into it; makes it if it is not there or empty.
pub fn open_to_record(path: &Path, target: &str) -> Result<Connection, Fault> {
    let trouble = |why| faults::fault(path, why);
    make_private(path)?;
    let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(trouble)?;
    if length(path) == 0 && is_empty(&db).map_err(trouble)? {
        create(&mut db, target).map_err(trouble)?;
    }
    check(path, &db)?;
    let theirs: String = db.query_row("SELECT name FROM target", [], |row| row.get(0)).map_err(trouble)?;
    if theirs != target {
        let what = Trouble::OfAnother { theirs: &theirs, ours: target };
        return Err(faults::told(path, what));
    }
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216")
        .map_err(trouble)?;
    Ok(db)
}

/// Opens the file to read it.
pub fn open_to_read(path: &Path) -> Result<Connection, Fault> {
    let trouble = |why| faults::fault(path, why);
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(faults::told(path, Trouble::Folder)),
        Ok(about) if about.len() == 0 => return Err(faults::told(path, Trouble::Empty)),
        Ok(_) => {}
        Err(why) => return Err(faults::of_io(path, &why)),
    }
    // One that may write takes away the files beside the store when it is the last to close it.
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(trouble)?;
    // A reader needs a file for shared memory beside the store. Where it can't make one, and nobody writes, it does without.
    let db = match db.query_row("PRAGMA user_version", [], |_| Ok(())) {
        Err(why) if faults::can_not_share(&why) && !has_log(path) => connect_unshared(path).map_err(trouble)?,
        Err(why) => return Err(trouble(why)),
        Ok(()) => db,
    };
    check(path, &db)?;
    Ok(db)
}

/// Opens the file to write a label into it.
pub fn open_to_label(path: &Path) -> Result<Connection, Fault> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|why| faults::fault(path, why))?;
    check(path, &db)?;
    Ok(db)
}

fn connect(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(PATIENCE)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

fn connect_unshared(path: &Path) -> rusqlite::Result<Connection> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let escaped: String =
        bytes.map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect();
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), access)
}

/// Whether a log with changes is beside the file.
fn has_log(path: &Path) -> bool {
    length(&beside(path, "-wal")) > 0
}

/// Of a file, in bytes; zero if it is not there.
pub fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |about| about.len())
}

/// A file that belongs to the store, by the end of its name.
pub fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A new file only its owner can read: names of locks may be private. SQLite gives the files beside it the same mode.
pub fn make_private(path: &Path) -> Result<(), Fault> {
    if path.is_dir() {
        return Err(faults::told(path, Trouble::Folder));
    }
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(why) if why.kind() != std::io::ErrorKind::AlreadyExists => Err(faults::of_io(path, &why)),
        _ => Ok(()),
    }
}

fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application: i64 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    Ok(tables == 0 && application == 0)
}

fn create(db: &mut Connection, target: &str) -> rusqlite::Result<()> {
    // Before the first table, or it has no effect.
    db.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    let all = db.transaction()?;
    all.execute_batch(TABLES)?;
    all.execute("INSERT INTO target(name) VALUES (?1)", [target])?;
    all.execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}"))?;
    all.commit()
}

/// Whether the file is a store, and one that this version reads.
fn check(path: &Path, db: &Connection) -> Result<(), Fault> {
    let number = |pragma: &str| db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
    let trouble = |why| faults::fault(path, why);
    if number("application_id").map_err(trouble)? != APPLICATION {
        // Less than a page of a database is what is left of one.
        let left = length(path) < 512;
        return Err(faults::told(path, if left { Trouble::Damaged } else { Trouble::Foreign }));
    }
    let theirs = number("user_version").map_err(trouble)?;
    if theirs > FORMAT {
        return Err(faults::told(path, Trouble::Newer { theirs, ours: FORMAT }));
    }
    let target = db.query_row("SELECT 1 FROM target", [], |_| Ok(())).optional().map_err(trouble)?;
    target.ok_or_else(|| faults::told(path, Trouble::Damaged))
}
