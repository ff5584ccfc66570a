//! The command that runs under a lock: started, sent the signals that we get, stopped when the lock is lost.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use super::watcher::{Charge, Watcher};
use crate::base::fault::shown;
use crate::base::process::{Recipient, end_with_us};
use crate::base::text;
use crate::settings::cli::OnLost;

/// The exit code that tells of a signal, as shells have it.
pub fn code_of(signal: i32) -> u8 {
    128_u8.wrapping_add(signal as u8)
}

pub struct Child {
    process: tokio::process::Child,
    pid: i32,
    place: Place,
    /// Ends what the command has started, should we be killed; it rests when it is dropped.
    _watcher: Option<Watcher>,
}

/// Where the command runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In our own process group, since it may want the terminal. What is typed there reaches it without us.
    WithUs,
    /// In a group of its own, with all that it starts.
    Apart,
}

/// What takes the place of LOCKSCOPE_URL: the same server and user, so that a lockscope under the lock asks no other one.
fn url_without_password() -> Option<String> {
    let text = std::env::var("LOCKSCOPE_URL").ok().filter(|text| !text.is_empty())?;
    let Ok(mut url) = Url::parse(text.trim()) else { return Some(shown(&text)) };
    if url.password().is_some() && url.set_password(None).is_err() {
        return Some(shown(&text));
    }
    let is_told = |(name, _): &(String, String)| ["db", "user", "username"].contains(&name.as_str());
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().filter(is_told).collect();
    url.set_query(None);
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    Some(url.into())
}

impl Child {
    /// `grace`: how long what is left of it may take to end, should we be killed.
    pub fn start(
        words: &[OsString],
        environment: &[(&str, &[u8])],
        on_lost: OnLost,
        grace: Duration,
    ) -> io::Result<Child> {
        let place = if on_terminal() { Place::WithUs } else { Place::Apart };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).kill_on_drop(true);
        let mut marker = Vec::new();
        // Ours alone: whoever runs under the lock has no business with our password.
        command.env_remove("LOCKSCOPE_PASSWORD");
        if let Some(url) = url_without_password() {
            command.env("LOCKSCOPE_URL", url);
        }
        for (name, value) in environment {
            // No variable can hold a nought; the value is written there as everywhere it is shown.
            let value = if value.contains(&0) { text::visible(value).into_bytes() } else { value.to_vec() };
            command.env(name, OsStr::from_bytes(&value));
            // The last one is the token: nobody else has it.
            marker = [name.as_bytes(), b"=", &value].concat();
        }
        if place == Place::Apart {
            command.process_group(0);
        }
        let mut watcher = None;
        if on_lost == OnLost::Kill {
            // Nobody renews its lock any more then. Elsewhere than on Linux it goes on, and its lock ends with the lease.
            end_with_us(command.as_std_mut(), Signal::TERM);
            watcher = Some(Watcher::start()?);
        }
        let process = command.spawn()?;
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| io::Error::other("it has no process id"))?;
        let child = Child { process, pid, place, _watcher: None };
        if let Some(watcher) = &mut watcher {
            let ours = getpgrp().as_raw_pid();
            let (group, marker) = if place == Place::Apart { (pid, None) } else { (ours, Some(marker)) };
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            // Where this fails, the command is dropped, which kills it.
            watcher.watch_over(&Charge { group, command: pid, marker, grace_ms })?;
        }
        Ok(Child { _watcher: watcher, ..child })
    }

    /// The exit code, 128 and the signal's number if one ended it.
    pub async fn wait(&mut self) -> u8 {
        code(self.process.wait().await)
    }

    /// Hands a signal on.
    pub fn forward(&self, signal: Signal) {
        // What was typed at the terminal has reached the command already, and twice means something else to many.
        let typed = matches!(signal, Signal::INT | Signal::QUIT);
        if self.place == Place::WithUs && typed && on_terminal() {
            return;
        }
        self.send(signal);
    }

    /// Ends it: asks, and after `grace` kills.
    pub async fn stop(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        self.send(Signal::TERM);
        if timeout(grace, self.process.wait()).await.is_err() {
            self.send(Signal::KILL);
            let _ = self.process.wait().await;
        }
        // What it started may take longer than itself.
        let group = Recipient::Group(self.pid);
        while self.place == Place::Apart && group.is_there() {
            if Instant::now() >= until {
                group.send(Signal::KILL);
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn send(&self, signal: Signal) {
        // Once it is reaped its number may be another's.
        if self.process.id().is_some() {
            match self.place {
                Place::Apart => Recipient::Group(self.pid).send(signal),
                Place::WithUs => Recipient::Process(self.pid).send(signal),
            }
        }
    }
}

fn code(status: io::Result<ExitStatus>) -> u8 {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => code as u8,
            (None, Some(signal)) => code_of(signal),
            (None, None) => 1,
        },
        Err(_) => 1,
    }
}

/// Whether a terminal sends what is typed to our process group.
fn on_terminal() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}
