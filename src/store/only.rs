//! The one recorder of a file: a locked file beside the store, with the pid of the process that has it.
//!
//! The system drops the lock when the process ends, however it ends. The store itself can't carry the lock: closing any
//! other handle of a file drops the locks that SQLite has on it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::fault::Fault;
use crate::store::faults::{Trouble, of_io, told};
use crate::store::schema::beside;

/// Held while a recorder is at work.
#[derive(Debug)]
pub struct Only {
    path: PathBuf,
    _file: File,
}

impl Only {
    pub fn take(store: &Path) -> Result<Only, Fault> {
        let path = beside(store, "-recorder");
        let mut tries = 0;
        loop {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
            let mut file = opened.map_err(|why| of_io(store, &why))?;
            match file.try_lock() {
                // A reader that asks who records has it for an instant.
                Err(TryLockError::WouldBlock) if tries < 5 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(told(store, Trouble::Second(pid_in(&mut file)))),
                Err(TryLockError::Error(why)) => return Err(of_io(store, &why)),
                Ok(()) => {}
            }
            // The one before us may have removed it between opening and locking.
            let is_it = |now: std::fs::Metadata| file.metadata().is_ok_and(|ours| ours.ino() == now.ino());
            if !std::fs::metadata(&path).is_ok_and(is_it) {
                continue;
            }
            let written = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
            written.map_err(|why| of_io(store, &why))?;
            return Ok(Only { path, _file: file });
        }
    }

    /// The pid of the process that records into a store, if one does.
    pub fn at_work(store: &Path) -> Option<u32> {
        let mut file = File::open(beside(store, "-recorder")).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => pid_in(&mut file),
            _ => None,
        }
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        // Without it the next recorder takes the file as it is.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.take(20).read_to_string(&mut text)).ok()?;
    text.trim().parse().ok()
}
