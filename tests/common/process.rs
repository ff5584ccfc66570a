//! Child processes that never outlive the tests, and directories that are always cleaned up.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Once, OnceLock, mpsc};

use lockscope::base::process::end_with_us;
use rustix::process::Signal;
use tempfile::TempDir;

/// Makes the kernel kill the child when the thread that started it ends for any reason. Use [`spawn`] if the child must
/// outlive that thread.
pub fn dies_with_us(command: &mut Command) {
    end_with_us(command, Signal::KILL);
}

/// Starts a child that lives until it is killed or this process ends. The kernel ties a child to the thread that
/// started it, so one lasting thread starts all of them.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    dies_with_us(&mut command);
    let (answer, result) = mpsc::channel();
    starter.send((command, answer)).expect("the starter thread lives as long as the process");
    result.recv().expect("the starter thread answers every order")
}

/// Sends a signal to a child of ours.
pub fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: `kill` has no memory effects, and the child has not been reaped while we hold it.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// A directory that is removed with its value. The next test process removes those that killed ones left.
///
/// It is in the system's temporary directory, not under the target directory: the path of a Unix socket must be short.
pub fn temporary_directory() -> TempDir {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(sweep);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir().expect("a temporary directory")
}

/// A path for files of this test process, which the next one removes. Nothing is created there.
pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{}-{name}", std::process::id()))
}

const PREFIX: &str = "lockscope-test-";

fn sweep() {
    let Ok(entries) = std::env::temp_dir().read_dir() else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        if owner.is_some_and(|pid| !is_alive(pid)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a process with this id exists.
pub fn is_alive(pid: u32) -> bool {
    // SAFETY: signal 0 only asks whether the process exists.
    let asked = unsafe { libc::kill(pid as libc::pid_t, 0) };
    asked == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}
