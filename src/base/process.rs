//! This process by its name at the servers, and other processes: signals sent to them, and children that end when we do.

use std::io;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group};

/// What the names of all lockscope connections begin with.
pub const NAME: &str = "lockscope";

/// The name of every connection of this process, `lockscope-4242-5f3a`: another process has another one.
pub fn connection_name() -> &'static str {
    static OURS: OnceLock<String> = OnceLock::new();
    OURS.get_or_init(|| {
        // The number of a process is used again, and is not unique among hosts.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        format!("{NAME}-{}-{:04x}", std::process::id(), began & 0xffff)
    })
}

/// Who gets a signal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Recipient {
    Process(i32),
    Group(i32),
}

impl Recipient {
    /// A process that is gone needs no signal; ignore the error.
    pub fn send(self, signal: Signal) {
        let _ = match self {
            Recipient::Process(id) => pid(id).and_then(|pid| Ok(kill_process(pid, signal)?)),
            Recipient::Group(id) => pid(id).and_then(|pid| Ok(kill_process_group(pid, signal)?)),
        };
    }

    pub fn is_there(self) -> bool {
        match self {
            Recipient::Process(id) => pid(id).is_ok_and(|pid| test_kill_process(pid).is_ok()),
            Recipient::Group(id) => pid(id).is_ok_and(|pid| test_kill_process_group(pid).is_ok()),
        }
    }
}

/// To the kernel, zero and negative ids mean several processes.
fn pid(id: i32) -> io::Result<Pid> {
    Pid::from_raw(id).filter(|_| id > 0).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Makes the kernel signal the child when the thread that started it ends for any reason, SIGKILL included.
#[cfg(target_os = "linux")]
pub fn end_with_us(command: &mut Command, signal: Signal) {
    use std::os::unix::process::CommandExt;

    use rustix::process::{getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(signal))?;
        // We may have died before the call above.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// Other systems can't do that: the child ends with the value that owns it, or keeps running.
#[cfg(not(target_os = "linux"))]
pub fn end_with_us(_command: &mut Command, _signal: Signal) {}
