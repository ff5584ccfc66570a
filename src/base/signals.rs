//! Signals that ask us to end. Callers catch them to give back what they took, or to pass them on to a child.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The signals that ask a process to end.
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    quit: unix::Signal,
    /// A file that may not grow is told as a write that failed; without this it would end us.
    _file_size: unix::Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            _file_size: signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.quit.recv() => Signal::QUIT,
        }
    }
}

/// Its name, as people know it.
pub fn name_of(signal: Signal) -> &'static str {
    match signal {
        Signal::TERM => "SIGTERM",
        Signal::INT => "SIGINT",
        Signal::HUP => "SIGHUP",
        Signal::QUIT => "SIGQUIT",
        _ => "a signal",
    }
}
