//! A worker of the fleet: a name, its own connections, its dice, and the shared counts.
//!
//! Its [`Role`] says what it does: one round after the other, until the fleet stops. A server error ends the round; the
//! worker disconnects, pauses and starts again, as a real one would. Stopping waits for the current command, so that
//! the counts are true at the end.

use std::future::Future;
use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ScriptInvocation, ServerErrorKind};
use tokio::sync::watch;

use super::dice::Dice;
use super::line::{Line, Place};
use super::tally::{Ledger, Tally};
use super::tempo::Tempo;
use crate::base::clock::Clock;
use crate::base::time::Time;

const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often a script is loaded again because its lock has moved since.
const RELOADS: usize = 3;

/// Why a round ended early.
#[derive(Debug)]
pub enum Cut {
    /// The fleet stops.
    Stopped,
    Failed(RedisError),
}

impl From<RedisError> for Cut {
    fn from(error: RedisError) -> Cut {
        Cut::Failed(error)
    }
}

/// What a worker does.
pub trait Role: Send + 'static {
    /// One round, usually from taking a lock to its end.
    fn round(&mut self, me: &mut Worker) -> impl Future<Output = Result<(), Cut>> + Send;
}

/// What all workers of a fleet share.
#[derive(Clone)]
pub struct Site {
    pub place: Place,
    pub seed: u64,
    pub tempo: Tempo,
    pub ledger: Ledger,
    pub clock: Clock,
    pub stop: watch::Receiver<bool>,
}

pub struct Worker {
    pub name: String,
    pub dice: Dice,
    pub card: [u8; 6],
    site: Site,
    line: Line,
}

impl Worker {
    pub fn new(name: String, site: Site) -> Worker {
        let mut dice = Dice::new(site.seed, &name);
        let card = dice.network_card();
        let line = Line::new(&name, site.place.clone());
        Worker { name, dice, card, site, line }
    }

    /// Plays the role after the delay `entrance`, until the fleet stops.
    pub async fn play(mut self, entrance: Duration, mut role: impl Role) {
        if self.rest(entrance).await.is_err() {
            return;
        }
        loop {
            let cut = match role.round(&mut self).await {
                Ok(()) => continue,
                Err(cut) => cut,
            };
            let Cut::Failed(error) = cut else { return };
            self.site.ledger.failed(&self.name, &error);
            self.hang_up();
            if self.rest(AFTER_FAILURE).await.is_err() {
                return;
            }
        }
    }

    /// Sends a command and returns its reply.
    pub async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Cut> {
        Ok(command.query_async(&mut self.line).await?)
    }

    /// Runs a script.
    pub async fn call<T: FromRedisValue>(&mut self, script: &ScriptInvocation<'_>) -> Result<T, Cut> {
        let unknown = ErrorKind::Server(ServerErrorKind::NoScript);
        for _ in 0..RELOADS {
            match script.invoke_async(&mut self.line).await {
                Err(error) if error.kind() == unknown => {}
                answer => return Ok(answer?),
            }
        }
        Ok(script.invoke_async(&mut self.line).await?)
    }

    /// Sends a command that may block until somebody else acts.
    pub async fn wait_for<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Cut> {
        let mut stop = self.site.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(Cut::Stopped),
            answer = self.ask(command) => answer,
        }
    }

    pub async fn subscribe(&mut self, channel: &str) -> Result<(), Cut> {
        Ok(self.line.subscribe(channel).await?)
    }

    pub async fn unsubscribe(&mut self, channel: &str) -> Result<(), Cut> {
        Ok(self.line.unsubscribe(channel).await?)
    }

    /// Waits for a message on a subscribed channel, but no longer than this.
    pub async fn listen(&mut self, at_most: Duration) -> Result<(), Cut> {
        let bell = self.line.bell();
        tokio::select! {
            biased;
            rested = self.rest(at_most) => rested,
            _ = bell.notified() => Ok(()),
        }
    }

    /// Closes the connections, as if the process had ended.
    pub fn hang_up(&mut self) {
        self.line.hang_up();
    }

    /// Lets time pass.
    pub async fn rest(&mut self, nominal: Duration) -> Result<(), Cut> {
        let real = self.site.tempo.real(nominal);
        tokio::select! {
            biased;
            _ = self.site.stop.wait_for(|stop| *stop) => Err(Cut::Stopped),
            _ = tokio::time::sleep(real) => Ok(()),
        }
    }

    /// Lets a random time from that range pass.
    pub async fn rest_some(&mut self, range: (Duration, Duration)) -> Result<(), Cut> {
        let nominal = self.dice.duration(range);
        self.rest(nominal).await
    }

    pub fn tempo(&self) -> Tempo {
        self.site.tempo
    }

    /// A duration in real milliseconds, for a command.
    pub fn ms(&self, nominal: Duration) -> u64 {
        (self.site.tempo.real(nominal).as_millis() as u64).max(1)
    }

    pub fn now(&self) -> Time {
        self.site.clock.now()
    }

    pub fn count(&self, key: &str, change: impl FnOnce(&mut Tally)) {
        self.site.ledger.count(key, change);
    }

    /// Counts an attempt with its outcome, and returns the outcome.
    pub fn tried(&self, key: &str, got: bool) -> bool {
        self.count(key, |tally| {
            tally.attempts += 1;
            tally.acquired += u64::from(got);
            tally.refused += u64::from(!got);
        });
        got
    }

    /// Counts a release, or a loss if the lock was no longer ours, and returns which.
    pub fn let_go(&self, key: &str, was_mine: bool) -> bool {
        self.count(key, |tally| {
            tally.released += u64::from(was_mine);
            tally.lost += u64::from(!was_mine);
        });
        was_mine
    }

    /// Counts a renewal, or a loss if the lock was no longer ours, and returns which.
    pub fn prolonged(&self, key: &str, still_mine: bool) -> bool {
        self.count(key, |tally| {
            tally.renewed += u64::from(still_mine);
            tally.lost += u64::from(!still_mine);
        });
        still_mine
    }
}
