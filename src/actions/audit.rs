//! What was done, by whom, when and why: JSON lines in a file of the user's own, appended and synced one by one.
//!
//! A line is written before the server is touched and another one when the outcome is known; a write that can't be
//! recorded does not happen.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde_json::{Value, json};

use crate::base::json::write_value;
use crate::base::time::Time;

/// Where the files of this machine's user are kept; `None` without a home directory.
pub fn state_directory() -> io::Result<PathBuf> {
    let places = etcetera::choose_base_strategy().map_err(|_| io::Error::other("there is no home directory"))?;
    Ok(places.state_dir().unwrap_or_else(|| places.data_dir()).join("lockscope"))
}

/// The file, open for appending.
#[derive(Debug)]
pub struct Audit {
    file: File,
}

impl Audit {
    /// In its usual place.
    pub fn open() -> io::Result<Audit> {
        let directory = state_directory()?;
        Audit::open_in(&directory)
    }

    pub fn open_in(directory: &Path) -> io::Result<Audit> {
        make_private_directory(directory)?;
        let path = directory.join("audit.jsonl");
        let mut file = private(OpenOptions::new().read(true).append(true).create(true)).open(path)?;
        // A line that a crash cut short ends here, so that the next entry begins its own line.
        if file.metadata()?.len() > 0 && !ends_a_line(&mut file)? {
            file.write_all(b"\n")?;
        }
        Ok(Audit { file })
    }

    /// Appends one entry; when this returns it is on the disk. Who and when are added.
    pub fn write(&mut self, at: Time, mut entry: Value) -> io::Result<()> {
        let who = json!({ "schema": "lockscope/1", "at": at.rfc3339(), "user": user(), "host": host() });
        if let (Value::Object(entry), Value::Object(who)) = (&mut entry, who) {
            entry.extend(who);
        }
        // One write for the whole line: what others append at the same time comes before or after it.
        let mut line = Vec::new();
        write_value(&mut line, &entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(io::SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// All entries, oldest first. A broken line (cut short by a crash) is left out and counted.
pub fn read(directory: &Path) -> io::Result<(Vec<Value>, usize)> {
    let file = match File::open(directory.join("audit.jsonl")) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(why) => return Err(why),
    };
    let (mut entries, mut broken) = (Vec::new(), 0);
    for line in BufReader::new(file).split(b'\n') {
        match serde_json::from_slice(&line?) {
            Ok(entry) => entries.push(entry),
            Err(_) => broken += 1,
        }
    }
    Ok((entries, broken))
}

/// Makes the state directory private to its owner, and returns which records in it were open to others.
/// Fails if it can't: the records are nobody else's business.
pub fn narrow(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut narrowed = Vec::new();
    if directory.is_dir() {
        narrow_into(directory, 0, &mut narrowed)?;
    }
    Ok(narrowed)
}

fn narrow_into(path: &Path, depth: usize, narrowed: &mut Vec<PathBuf>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // A path that is missing, unreadable or not a file is reported by the code that opens it. Links to files are
    // followed, but not links to directories.
    let Ok(about) = std::fs::metadata(path) else { return Ok(()) };
    if !about.is_file() && (!about.is_dir() || depth > 0 && path.is_symlink()) {
        return Ok(());
    }
    let mode = about.permissions().mode();
    if mode & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o700)).map_err(|why| {
            let path = path.display();
            io::Error::new(
                why.kind(),
                format!("others can read {path}, and that can't be changed ({why}): chmod go= {path}"),
            )
        })?;
        if about.is_file() && about.len() > 0 {
            narrowed.push(path.to_path_buf());
        }
    }
    if about.is_dir() && depth < 2 {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            narrow_into(&entry.path(), depth + 1, narrowed)?;
        }
    }
    Ok(())
}

/// One sentence on what was made private, if anything was.
pub fn narrowed_sentence(narrowed: &[PathBuf]) -> Option<String> {
    let (first, more) = (narrowed.first()?, narrowed.len() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("others could read {}{more} until now; only you can from now on", first.display()))
}

/// A directory that only its owner can look into.
pub fn make_private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Writes a file that only its owner can read, atomically: the new content is on disk, or the old one remains.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let mut file = private(OpenOptions::new().write(true).create(true).truncate(true)).open(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(new, path)
}

/// A file that only its owner can read.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// The user of this machine.
pub fn user() -> String {
    let named = |name: &&str| std::env::var(name).ok().filter(|name| !name.is_empty());
    let named_by = ["USER", "LOGNAME", "USERNAME"].iter().find_map(named);
    let id = rustix::process::getuid().as_raw();
    named_by.or_else(|| name_of(id)).unwrap_or_else(|| id.to_string())
}

/// The user's name in the system's list of users: under cron and in containers no variable has it.
fn name_of(id: u32) -> Option<String> {
    let list = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut users = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = users.find(|fields| fields.get(2).is_some_and(|field| field.parse() == Ok(id)))?;
    Some(crate::base::text::visible(user[0].as_bytes())).filter(|name| !name.is_empty())
}

/// The name of this machine.
pub fn host() -> String {
    crate::base::text::visible(rustix::system::uname().nodename().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_appended_and_read_back() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state");
        for number in 0..2 {
            let mut audit = Audit::open_in(&directory).unwrap();
            audit.write(Time(0), json!({ "number": number })).unwrap();
        }
        let (entries, broken) = read(&directory).unwrap();
        assert_eq!(broken, 0);
        assert_eq!(entries.iter().map(|entry| entry["number"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
        assert!(entries[0]["at"].is_string() && entries[0]["user"].is_string() && entries[0]["host"].is_string());
    }

    #[test]
    fn nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state");
        Audit::open_in(&directory).unwrap();
        let file = directory.join("audit.jsonl");
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn nothing_is_narrowed_that_is_not_ours() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let place = tempfile::tempdir().unwrap();
        let (state, other) = (place.path().join("state"), place.path().join("other"));
        std::fs::create_dir_all(&state).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in [&state, &other] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(other.join("file"), b"").unwrap();
        symlink(&other, state.join("link")).unwrap();
        // Stands for a device such as /dev/full, whose permissions must not change.
        let socket = place.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
        symlink(&socket, state.join("audit.jsonl")).unwrap();
        assert_eq!(narrow(&state).unwrap(), [""; 0].map(PathBuf::from), "nothing was there to be read");
        assert_eq!((mode(&state), mode(&other), mode(&socket)), (0o700, 0o755, 0o666));
        assert_eq!(narrow(&other.join("file")).unwrap(), [""; 0].map(PathBuf::from), "no directory, no records");
    }

    #[test]
    fn a_line_cut_short_does_not_hide_the_others() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("audit.jsonl"), b"{\"a\":1}\n{\"b\":\n{\"c\":2}\n").unwrap();
        let (entries, broken) = read(place.path()).unwrap();
        assert_eq!((entries.len(), broken), (2, 1));
        assert_eq!(read(&place.path().join("nowhere")).unwrap().0.len(), 0);
    }
}
