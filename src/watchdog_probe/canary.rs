//! Our own lock, taken, renewed and given back again and again, to see how the server treats locks.
//!
//! It does what an application does, with the same scripts, and survives what an application should survive: a server
//! that pauses, restarts, forgets its scripts, or gives the lock to somebody else. `probe` runs it; it prints nothing.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::Shared;
use redis::RedisError;
use tokio::time::{sleep, sleep_until, timeout};

use super::tally::{Renewal, Tally};
use crate::base::clock::Clock;
use crate::base::text;
use crate::base::time::{Time, Ttl};
use crate::lock::{Key, KeyspaceId};
use crate::test_lock::{Backoff, Held, Loss, Released, Request, Taken, Turn, Wire, random, take_on};
use crate::topology::Topology;

/// Renewals in each cycle.
pub const RENEWALS: u32 = 3;

/// How long the server may take to identify itself; nothing depends on it.
const INTRODUCTION: Duration = Duration::from_secs(1);

/// How long we wait for a renewal that was sent when the time is up.
const LAST_ANSWER: Duration = Duration::from_millis(500);

/// What a canary saw.
#[derive(Debug)]
pub struct Report {
    pub began: Time,
    pub ran: Duration,
    pub end: End,
    pub tally: Tally,
    /// How often connecting failed.
    pub failed_connections: u64,
    /// Whether the server answered at the end.
    pub answers: bool,
}

/// Why it ended.
#[derive(Clone, Debug)]
pub enum End {
    TimeIsUp,
    Stopped,
    /// The lock was never taken: the server can't be reached, or does not permit it.
    Failed(RedisError),
}

/// Runs for `duration`, or until `stop`. In both cases it gives the lock back.
pub async fn run(topology: &Topology, request: &Request, duration: Duration, stop: impl Future<Output = ()>) -> Report {
    let (clock, began) = (Clock::start(), Instant::now());
    let over = async {
        tokio::select! {
            biased;
            () = stop => End::Stopped,
            () = sleep_until((began + duration).into()) => End::TimeIsUp,
        }
    };
    let process = process(topology, request.key()).await;
    let tally = Tally::new(clock, request.ttl());
    let mut canary = Canary { topology, request, tally, over: over.shared(), process, back: None };
    let mut wire = Wire::new(topology, request.key());
    let end = canary.live(&mut wire).await;
    let ended = Instant::now();
    let answers = canary.tally.close(ended);
    Report {
        began: clock.at(began),
        ran: ended.duration_since(began),
        end,
        tally: canary.tally,
        failed_connections: wire.failed(),
        answers,
    }
}

struct Canary<'a, F: Future<Output = End>> {
    topology: &'a Topology,
    request: &'a Request,
    tally: Tally,
    over: Shared<F>,
    /// The owner of the lock and its process; `None` if it does not say.
    process: Option<(String, String)>,
    /// When it answered again after a silence, until we have checked whether it restarted.
    back: Option<Instant>,
}

impl<F: Future<Output = End>> Canary<'_, F> {
    /// Runs cycles until the end.
    async fn live(&mut self, wire: &mut Wire) -> End {
        let mut backoff = Backoff::default();
        loop {
            if let Some(end) = self.over.peek() {
                return end.clone();
            }
            let (asked, was_open) = (Instant::now(), wire.is_open());
            let stop = self.over.clone().map(drop);
            let taken = take_on(wire, self.request.clone(), None, stop).await;
            let now = Instant::now();
            match taken {
                Taken::Held(mut held) => {
                    // Connecting is not part of taking a lock.
                    let sent = if was_open { asked } else { held.lease().confirmed() };
                    self.tally.acquire.latencies.add(now.duration_since(sent));
                    self.tally.free(now);
                    self.hear(asked, now);
                    self.hold(&mut held).await;
                    *wire = held.into_wire();
                    backoff = Backoff::default();
                    continue;
                }
                Taken::Refused(other) => {
                    self.tally.refused(now, other.to_string());
                    self.hear(asked, now);
                    self.recognise().await;
                }
                Taken::Failed(error) if self.tally.acquire.latencies.count() == 0 && self.tally.refused == 0 => {
                    return End::Failed(error);
                }
                Taken::Failed(error) | Taken::Unknown(error) => {
                    self.tally.acquire.failed += 1;
                    self.tally.failed(asked, text::said(&error));
                }
                Taken::Stopped => return self.over.clone().await,
            }
            let pause = backoff.next(Ttl::Never, random::<1>().map_or(0, |[byte]| byte));
            tokio::select! {
                biased;
                _ = self.over.clone() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Renews the lock a few times and gives it back, unless it is lost or the time is up first.
    async fn hold(&mut self, held: &mut Held) {
        let mut lost = false;
        for _ in 0..RENEWALS {
            match self.renew(held).await {
                Renewed::Confirmed => {}
                Renewed::Over => break,
                Renewed::Lost(Loss::Unconfirmed { .. }) => {
                    // It may still exist.
                    lost = true;
                    break;
                }
                Renewed::Lost(_) => return,
            }
        }
        let asked = Instant::now();
        let released = held.release().await;
        let now = Instant::now();
        match released {
            Released::Done { .. } => {
                self.tally.release.latencies.add(now.duration_since(asked));
                self.hear(asked, now);
                self.recognise().await;
            }
            Released::Lost(loss) => {
                self.hear(asked, now);
                let restarted = self.recognise().await;
                if !lost {
                    self.tally.lost(now, reason(&loss, restarted));
                }
            }
            Released::Unknown(error) => {
                self.tally.release.failed += 1;
                self.tally.failed(asked, text::said(&error));
            }
        }
    }

    /// One renewal, however many attempts it takes.
    async fn renew(&mut self, held: &mut Held) -> Renewed {
        let due = held.lease().due();
        let (mut first, mut own) = (None, Duration::ZERO);
        loop {
            let planned = held.lease().next_renewal();
            tokio::select! {
                biased;
                _ = self.over.clone() => return Renewed::Over,
                () = sleep_until(planned.into()) => {}
            }
            // When the time is up, wait a little for the renewal that was sent: its reply may have come already.
            let turn = {
                let mut sent = pin!(held.renew());
                tokio::select! {
                    biased;
                    turn = &mut sent => Some(turn),
                    _ = self.over.clone() => timeout(LAST_ANSWER, sent).await.ok(),
                }
            };
            let Some(turn) = turn else {
                self.tally.renew.failed += 1;
                self.tally.failed(held.woke(), "no answer when the time was up");
                return Renewed::Over;
            };
            let (woke, now) = (held.woke(), Instant::now());
            own += woke.saturating_duration_since(planned);
            let sent = *first.get_or_insert(woke);
            match turn {
                Turn::Renewed => {
                    self.tally.renewed(Renewal { due, sent, own, answered: now });
                    self.hear(woke, now);
                    return Renewed::Confirmed;
                }
                Turn::Trouble(error) => {
                    self.tally.renew.failed += 1;
                    self.tally.failed(woke, text::said(&error));
                }
                Turn::Lost(loss) => {
                    let restarted = match &loss {
                        // We slept through the lease ourselves; it is not the server's fault.
                        Loss::Unconfirmed { why: None, .. } if own >= self.request.ttl() / 2 => {
                            let kept = text::short_duration(own.as_millis() as u64);
                            self.tally.lost(now, format!("lockscope itself did not run for {kept}"));
                            return Renewed::Lost(loss);
                        }
                        Loss::Unconfirmed { why, .. } => {
                            let why = why.clone().unwrap_or_else(|| "the answer came after the lease".into());
                            self.tally.failed(woke, why);
                            false
                        }
                        Loss::Gone | Loss::Taken(_) => {
                            self.hear(woke, now);
                            self.recognise().await
                        }
                    };
                    self.tally.lost(now, reason(&loss, restarted));
                    return Renewed::Lost(loss);
                }
            }
        }
    }

    /// The server answered.
    fn hear(&mut self, asked: Instant, now: Instant) {
        if self.tally.answered(asked, now) {
            self.back = Some(now);
        }
    }

    /// Whether the server came back as another process. We do not ask while we hold the lock, since that would delay
    /// renewals.
    async fn recognise(&mut self) -> bool {
        let Some(back) = self.back.take() else { return false };
        let Some(process) = process(self.topology, self.request.key()).await else { return false };
        let before = self.process.replace(process.clone());
        // In a cluster another node may own the lock by now.
        let restarted = before.is_some_and(|(node, run_id)| node == process.0 && run_id != process.1);
        if restarted {
            self.tally.restarted(back);
        }
        restarted
    }
}

enum Renewed {
    Confirmed,
    Lost(Loss),
    /// The time is up.
    Over,
}

fn reason(loss: &Loss, restarted: bool) -> String {
    match loss {
        Loss::Gone if restarted => "gone after a restart of the server".into(),
        _ => loss.to_string(),
    }
}

/// The node that owns the lock, and its process; `None` if it does not say.
async fn process(topology: &Topology, key: &Key) -> Option<(String, String)> {
    let asking = async {
        let mut conn = topology.reader(KeyspaceId::FIRST, key).await.ok()?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await.ok()?;
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?;
        Some((conn.node().name.clone(), run_id.to_string()))
    };
    timeout(INTRODUCTION, asking).await.ok().flatten()
}
