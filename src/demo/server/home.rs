//! A directory for servers that keep files in it: a cluster node or a sentinel ends when it can't write its configuration.
//!
//! It is removed with its value. If this process is killed, a shell that waits for that removes it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Its input ends when we do, however that happens. The servers are killed at that moment, and one of them may still write
/// while its files are removed.
const SWEEP: &str = "trap '' HUP INT TERM; read -r _; \
    for _ in 1 2 3 4 5 6 7 8 9; do rm -rf -- \"$1\"; [ -e \"$1\" ] || exit 0; sleep 0.1; done";

pub struct Home {
    directory: TempDir,
    sweeper: Option<Child>,
}

impl Home {
    pub fn make() -> io::Result<Home> {
        let directory = tempfile::Builder::new().prefix("lockscope-demo-").tempdir()?;
        let mut sweeper = Command::new("/bin/sh");
        sweeper.args(["-c", SWEEP, "lockscope-demo"]).arg(directory.path());
        sweeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // Without a shell, only a killed demo leaves something behind.
        let sweeper = sweeper.current_dir("/").spawn().ok();
        Ok(Home { directory, sweeper })
    }

    /// A new directory in it.
    pub fn room(&self, name: &str) -> io::Result<PathBuf> {
        let room = self.path().join(name);
        std::fs::create_dir_all(&room)?;
        Ok(room)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(mut sweeper) = self.sweeper.take() {
            drop(sweeper.stdin.take());
            let _ = sweeper.wait();
        }
    }
}
