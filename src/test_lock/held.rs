//! A test lock that we hold: renewed while it is watched, and given back at the end.

use std::fmt;
use std::time::{Duration, Instant};

use redis::RedisError;

use super::wire::{Failure, Reply, Wire};
use super::{Lease, Other, Request};
use crate::base::text;

/// How long giving a lock back may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// If dropped, the lock stays on the server until its lease ends.
pub struct Held {
    wire: Wire,
    request: Request,
    lease: Lease,
    entries: u64,
    renewals: u64,
    /// When the watchdog last woke to send a renewal.
    woke: Instant,
    /// Why the last renewal failed.
    trouble: Option<String>,
}

/// The result of one round of the watchdog.
#[derive(Debug)]
pub enum Turn {
    Renewed,
    /// It failed, and is retried while the lease lasts.
    Trouble(RedisError),
    Lost(Loss),
}

/// Why a lock is no longer ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nobody holds it: it was deleted, or its lease ended.
    Gone,
    Taken(Other),
    /// Its lease may have ended on the server, and no renewal was confirmed in time.
    Unconfirmed {
        ttl: Duration,
        why: Option<String>,
    },
}

/// The result of a release.
#[derive(Debug)]
pub enum Released {
    /// `entries`: how many entries of the same token are left; zero unless it entered more than once.
    Done { entries: u64 },
    /// It was no longer ours.
    Lost(Loss),
    /// The server did not answer. If the lock is still there, it ends with its lease.
    Unknown(RedisError),
}

impl Held {
    pub(super) fn new(wire: Wire, request: Request, lease: Lease, entries: u64) -> Held {
        Held { wire, request, lease, entries, renewals: 0, woke: lease.confirmed(), trouble: None }
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// How often its token has entered; 1 for a plain lock.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// How often it was renewed.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }

    /// When the watchdog last woke to send a renewal; later than planned if this process could not run.
    pub fn woke(&self) -> Instant {
        self.woke
    }

    /// The connection, to reuse for the next lock.
    pub fn into_wire(self) -> Wire {
        self.wire
    }

    /// One round of the watchdog: waits until the renewal is due, sends it, and judges the reply. It can be dropped and
    /// called again at any time: only a confirmed renewal counts, and an unconfirmed one is sent again.
    pub async fn renew(&mut self) -> Turn {
        tokio::time::sleep_until(self.lease.next_renewal().into()).await;
        self.renew_now().await
    }

    /// Sends a renewal at once, and judges the reply.
    pub async fn renew_now(&mut self) -> Turn {
        let now = Instant::now();
        self.woke = now;
        if !self.lease.stands(now) {
            return Turn::Lost(self.unconfirmed());
        }
        let patience = self.lease.patience(now);
        let called = self.wire.call(self.request.form.renew(), &self.request, patience).await;
        match called {
            Ok((Reply::Done(_), sent)) if self.lease.renewed(sent, Instant::now()) => {
                self.renewals += 1;
                self.trouble = None;
                Turn::Renewed
            }
            Ok((Reply::Done(_), _)) => Turn::Lost(self.unconfirmed()),
            Ok((Reply::Other(other), _)) => Turn::Lost(Loss::Taken(other)),
            Ok((Reply::Gone, _)) => Turn::Lost(Loss::Gone),
            Err(failure) => {
                let error = failure.error();
                let now = Instant::now();
                self.trouble = Some(text::said(&error));
                if !self.lease.stands(now) {
                    return Turn::Lost(self.unconfirmed());
                }
                self.lease.postponed(now);
                Turn::Trouble(error)
            }
        }
    }

    /// Without a watchdog: waits until the lease has ended.
    pub async fn run_out(&self) -> Loss {
        tokio::time::sleep_until(self.lease.ends().into()).await;
        self.unconfirmed()
    }

    /// Gives it back if it is still ours. Retries if there was no reply.
    pub async fn release(&mut self) -> Released {
        let script = self.request.form.release();
        let mut unsure = false;
        let until = Instant::now() + PATIENCE;
        loop {
            let patience = (PATIENCE / 2).min(until.saturating_duration_since(Instant::now()));
            match self.wire.call(script, &self.request, patience).await {
                // An abandoned attempt took effect late and has entered it too.
                Ok((Reply::Done(1..), _)) if self.request.unique => {}
                Ok((Reply::Done(entries), _)) => return Released::Done { entries },
                // The release without a reply took effect after all.
                Ok((Reply::Gone, _)) if unsure => return Released::Done { entries: 0 },
                Ok((Reply::Gone, _)) => return Released::Lost(Loss::Gone),
                Ok((Reply::Other(other), _)) => return Released::Lost(Loss::Taken(other)),
                Err(failure) => {
                    let in_doubt = matches!(failure, Failure::Unknown(_));
                    // The lock was entered more than once, so leaving twice might remove an entry of somebody else.
                    let once = in_doubt && self.entries > 1 && !self.request.unique;
                    let over = Instant::now() >= until || (!in_doubt && self.wire.is_open());
                    if once || over {
                        return Released::Unknown(failure.error());
                    }
                    unsure |= in_doubt;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn unconfirmed(&self) -> Loss {
        Loss::Unconfirmed { ttl: self.request.ttl, why: self.trouble.clone() }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("request", &self.request).field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// As the end of a sentence: "lost lock:a: …".
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Gone => write!(f, "it is not there any more; somebody deleted it, or it expired"),
            Loss::Taken(other) => write!(f, "it is {other}"),
            Loss::Unconfirmed { ttl, why } => {
                write!(f, "its lease of {} ended without a renewal", humantime::format_duration(*ttl))?;
                match why {
                    Some(why) => write!(f, " ({})", why),
                    None => Ok(()),
                }
            }
        }
    }
}
