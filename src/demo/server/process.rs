//! Starts a child that never outlives this process.
//!
//! It gets a process group of its own, so that Ctrl-C in the terminal reaches us and not it: we stop it ourselves.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts the command. The kernel ties a child to the *thread* that started it, so all of them are started by one thread
/// that stays, whichever asks.
pub fn spawn(mut command: Command) -> io::Result<Child> {
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
    command.process_group(0);
    dies_with_us(&mut command);
    let (answer, result) = mpsc::channel();
    starter.send((command, answer)).map_err(|_| io::Error::other("the thread that starts servers is gone"))?;
    result.recv().map_err(|_| io::Error::other("the thread that starts servers does not answer"))?
}

/// Has the kernel kill the child when this process ends in whatever way, SIGKILL included.
#[cfg(target_os = "linux")]
fn dies_with_us(command: &mut Command) {
    let parent = std::process::id() as libc::pid_t;
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // We may have died before the call above.
            if libc::getppid() != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
}

/// Elsewhere it ends with the value that owns it.
#[cfg(not(target_os = "linux"))]
fn dies_with_us(_command: &mut Command) {}
