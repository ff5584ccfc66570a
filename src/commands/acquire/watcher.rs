//! Watches over a command that runs under a lock: if we are killed and nobody renews the lock any more, it ends all
//! processes in the command's group.
//!
//! The watcher is this program in a second process, connected by a pipe. We write a last word when all is well; a pipe
//! that closes without it means that we are dead. Processes that left the group (setsid) are out of its reach.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::base::process::Recipient;

/// The argument that starts the program as a watcher. Not a command for users.
pub const WORD: &str = "__watch-over";

const ALL_IS_WELL: &[u8] = b"done\n";
const PAUSE: Duration = Duration::from_millis(20);

/// What to end, and how.
#[derive(Serialize, Deserialize, Debug)]
pub struct Charge {
    pub group: i32,
    /// The command itself. On Linux the kernel signals it when we die.
    pub command: i32,
    /// The environment entry that marks the command's processes, if the group has others too.
    pub marker: Option<Vec<u8>>,
    pub grace_ms: u64,
}

pub struct Watcher {
    process: Child,
}

impl Watcher {
    pub fn start() -> io::Result<Watcher> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORD).env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In its own group, so that the terminal does not send it Ctrl-C.
        command.process_group(0);
        Ok(Watcher { process: command.spawn()? })
    }

    pub fn watch_over(&mut self, charge: &Charge) -> io::Result<()> {
        let mut line = serde_json::to_vec(charge).map_err(io::Error::other)?;
        line.push(b'\n');
        self.say(&line)
    }

    fn say(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.process.stdin {
            Some(pipe) => pipe.write_all(line),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Watcher {
    /// All is well: the command has ended, or we ended it.
    fn drop(&mut self) {
        let _ = self.say(ALL_IS_WELL);
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Runs the watcher: waits for the end of the pipe, then acts. Returns the exit code of its process.
pub fn run() -> u8 {
    let mut pipe = io::stdin().lock();
    let mut line = Vec::new();
    if pipe.read_until(b'\n', &mut line).is_err() || line.is_empty() {
        return 0;
    }
    let Ok(charge) = serde_json::from_slice::<Charge>(&line) else { return 2 };
    let mut said = Vec::new();
    let _ = pipe.read_to_end(&mut said);
    if said != ALL_IS_WELL {
        end(&charge);
    }
    0
}

/// Asks all processes to end, and kills those left after the grace period.
fn end(charge: &Charge) {
    let until = Instant::now() + Duration::from_millis(charge.grace_ms);
    let mut asked = BTreeSet::new();
    if cfg!(target_os = "linux") {
        asked.insert(Recipient::Process(charge.command));
    }
    loop {
        let members = members(charge);
        let late = Instant::now() >= until;
        for member in &members {
            if late {
                member.send(Signal::KILL);
            } else if asked.insert(*member) {
                member.send(Signal::TERM);
            }
        }
        if late || members.is_empty() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The living processes of the group that belong to the command.
#[cfg(target_os = "linux")]
fn members(charge: &Charge) -> Vec<Recipient> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return whole_group(charge) };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = pids.filter(|pid| is_in_group(*pid, charge.group) && is_marked(*pid, charge.marker.as_deref()));
    ours.map(Recipient::Process).collect()
}

#[cfg(target_os = "linux")]
fn is_in_group(pid: i32, group: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name in parentheses may itself contain spaces and parentheses.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let is_alive = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    is_alive && fields.nth(1).and_then(|group| group.parse().ok()) == Some(group)
}

#[cfg(target_os = "linux")]
fn is_marked(pid: i32, marker: Option<&[u8]>) -> bool {
    let Some(marker) = marker else { return true };
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == marker)
}

#[cfg(not(target_os = "linux"))]
fn members(charge: &Charge) -> Vec<Recipient> {
    whole_group(charge)
}

/// The group as a whole, if its members can't be listed: only if the group belongs to the command.
fn whole_group(charge: &Charge) -> Vec<Recipient> {
    let group = Recipient::Group(charge.group);
    if charge.marker.is_none() && group.is_there() { vec![group] } else { Vec::new() }
}
