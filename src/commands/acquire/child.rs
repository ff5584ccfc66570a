//! The command that runs under a lock: starts it, forwards our signals to it, stops it when the lock is lost.

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

/// The exit code for a signal, as in shells.
pub fn code_of(signal: i32) -> u8 {
    128_u8.wrapping_add(signal as u8)
}

pub struct Child {
    process: tokio::process::Child,
    pid: i32,
    place: Place,
    /// Ends the command's processes if we are killed; dropping it means that all is well.
    _watcher: Option<Watcher>,
}

/// Where the command runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In our own process group, because it may need the terminal. The terminal sends it Ctrl-C without us.
    WithUs,
    /// In its own group, with all processes that it starts.
    Apart,
}

/// LOCKSCOPE_URL for the command: the same server and user, so that a lockscope in the command uses no other server.
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
    /// `grace`: how long its processes may take to end if we are killed.
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
        // The command must not get our password.
        command.env_remove("LOCKSCOPE_PASSWORD").env_remove("LOCKSCOPE_SENTINEL_PASSWORD");
        if let Some(url) = url_without_password() {
            command.env("LOCKSCOPE_URL", url);
        }
        for (name, value) in environment {
            // A variable can't contain a NUL byte, so such a value is escaped as on the screen.
            let value = if value.contains(&0) { text::visible(value).into_bytes() } else { value.to_vec() };
            command.env(name, OsStr::from_bytes(&value));
            // The last variable is the token, which is unique.
            marker = [name.as_bytes(), b"=", &value].concat();
        }
        if place == Place::Apart {
            command.process_group(0);
        }
        let mut watcher = None;
        if on_lost == OnLost::Kill {
            // If we die nobody renews the lock, so the command must end. Only Linux can signal it directly.
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
            // If this fails, the command is dropped, which kills it.
            watcher.watch_over(&Charge { group, command: pid, marker, grace_ms })?;
        }
        Ok(Child { _watcher: watcher, ..child })
    }

    /// The exit code, or 128 plus the signal's number if a signal ended it.
    pub async fn wait(&mut self) -> u8 {
        code(self.process.wait().await)
    }

    /// Forwards a signal.
    pub fn forward(&self, signal: Signal) {
        // The terminal has already sent Ctrl-C to the command, and many programs treat a second one differently.
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
        // The processes that it started may run longer than the command itself.
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
        // Once it is reaped, its pid may belong to another process.
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

/// Whether our process group is in the terminal's foreground.
fn on_terminal() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}
