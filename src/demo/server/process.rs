//! Starts a child that never outlives this process.
//!
//! It gets its own process group, so that Ctrl-C in the terminal reaches us and not it: we stop it ourselves.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};

use rustix::process::Signal;

use crate::base::process::end_with_us;

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts the command. The kernel ties a child to the *thread* that started it, so one lasting thread starts all of
/// them.
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
    end_with_us(&mut command, Signal::KILL);
    let (answer, result) = mpsc::channel();
    starter.send((command, answer)).map_err(|_| io::Error::other("the thread that starts servers is gone"))?;
    result.recv().map_err(|_| io::Error::other("the thread that starts servers does not answer"))?
}
