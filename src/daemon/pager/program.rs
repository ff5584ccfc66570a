//! A command that is run for each alert that fires or ends, with the alert as JSON on its stdin.
//!
//! No shell is between. It has a limited time, after which it is killed with its whole process group; what it prints is read and
//! only the beginning is kept. One runs at a time.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::mpsc::Receiver;

use super::page::Page;
use super::tally::{Outcome, Tally};
use crate::base::process::{Recipient, end_with_us};
use crate::base::text::{fit, said, short_duration};

/// How often one alert is tried.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(5);
/// What is kept of its output.
const KEPT: usize = 1_024;

/// Runs it for each page until nobody is left who could send one.
pub async fn run(command: Vec<String>, timeout: Duration, tally: Tally, mut queue: Receiver<Page>) {
    while let Some(page) = queue.recv().await {
        for tried in 1..=TRIES {
            match once(&command, &page, timeout).await {
                Ok(()) => {
                    tally.count(Outcome::Sent, 1);
                    tally.well("runs again");
                    break;
                }
                Err(why) if tried < TRIES && !queue.is_closed() => {
                    tally.count(Outcome::Retried, 1);
                    tally.say(why);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(why) => {
                    tally.count(Outcome::Failed, 1);
                    tally.say(why);
                    break;
                }
            }
        }
    }
}

/// Runs it once; `Err` says what went wrong.
pub async fn once(command: &[String], page: &Page, timeout: Duration) -> Result<(), String> {
    let [program, arguments @ ..] = command else { return Err("there is no command".into()) };
    let mut command = std::process::Command::new(program);
    use std::os::unix::process::CommandExt;
    command.args(arguments).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What is for us only.
    command
        .env_remove("LOCKSCOPE_PASSWORD")
        .env_remove("LOCKSCOPE_SENTINEL_PASSWORD")
        .env_remove("LOCKSCOPE_URL")
        .env_remove("REDIS_URL");
    end_with_us(&mut command, Signal::KILL);
    let mut child = Command::from(command).spawn().map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => format!("there is no program {program:?}; write its whole path"),
        _ => format!("{program:?} can't be started: {why}"),
    })?;
    let group = child.id().map(|id| Recipient::Group(id as i32));
    let (mut input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let text = format!("{}\n", page.json());
    let work = async {
        let write = async {
            if let Some(input) = &mut input {
                // A program that does not read its input is no fault.
                let _ = input.write_all(text.as_bytes()).await;
            }
            drop(input);
        };
        let (_, _, errors) = tokio::join!(write, beginning(output), beginning(errors));
        (child.wait().await, errors)
    };
    let ended: Option<(io::Result<ExitStatus>, Vec<u8>)> = tokio::time::timeout(timeout, work).await.ok();
    // Also what it started and left behind.
    if let Some(group) = group {
        group.send(Signal::KILL);
    }
    let Some((status, errors)) = ended else {
        let _ = child.wait().await;
        return Err(format!("did not end within {} and was killed", short_duration(timeout.as_millis() as u64)));
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let text = fit(&said(&String::from_utf8_lossy(&errors)), 160);
            Err(format!("ended with {status}{}{text}", if text.is_empty() { "" } else { ": " }))
        }
        Err(why) => Err(format!("was lost: {why}")),
    }
}

/// Reads all of it, and keeps the beginning: who can't write goes no further.
async fn beginning(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return kept };
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let room = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
    kept
}
