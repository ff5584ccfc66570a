//! Samples the commands of a node in bursts, while somebody wants it: who tries to take which lock.
//!
//! Off until requested. A burst costs a busy server some of its throughput, so we pause between two. Turning it off
//! ends a burst in progress at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::task::{Incoming, Task};
use crate::base::text::{self, short_duration};
use crate::base::time::Time;
use crate::lock::{Key, NodeId};
use crate::model::{Observation, Sample};
use crate::sources::sampling::Scripts;
use crate::sources::sampling::burst::{self, Bounds, Burst, Cut, NoBurst};
use crate::sources::sampling::burst_rates::Rates;

/// The pause after a failed burst.
const RETRY: Duration = Duration::from_secs(2);

/// How much of the time we sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duty {
    pub burst: Bounds,
    /// From the end of a burst to the start of the next.
    pub pause: Duration,
    /// Sample for at most this long in total.
    pub most: Option<Duration>,
}

impl Default for Duty {
    /// One second in ten: the cost on the server is too small to notice.
    fn default() -> Duty {
        Duty { burst: Bounds::default(), pause: Duration::from_secs(9), most: None }
    }
}

/// The state of a node's sampling.
#[derive(Clone, Debug)]
pub enum Sampling {
    /// The first burst is not over.
    Starting,
    On(Box<Sampled>),
    /// The server refuses it; it is not retried.
    Refused(String),
    /// The last burst failed; it is retried.
    Failed(String),
}

impl Sampling {
    /// For the top of the screen.
    pub fn word(&self) -> String {
        match self {
            Sampling::Starting => "MONITOR".into(),
            Sampling::On(sampled) => format!("MONITOR {:.0}%", sampled.coverage * 100.0),
            Sampling::Refused(_) => "MONITOR refused".into(),
            Sampling::Failed(_) => "MONITOR failed".into(),
        }
    }

    pub fn sentence(&self, now: Time) -> String {
        match self {
            Sampling::Starting => "the first burst of MONITOR is under way".into(),
            Sampling::On(sampled) => {
                let ago = short_duration(now.since(sampled.at).as_millis() as u64);
                let cut = sampled.cut.map(|cut| format!(", and ended early: {}", cut.why())).unwrap_or_default();
                let unjudged = if sampled.judged {
                    ""
                } else {
                    "; notifications are off or can't be read, so outcomes may not be known"
                };
                let share = sampled.coverage * 100.0;
                format!(
                    "the last burst, {ago} ago, saw {} commands{cut}; {share:.0} % of the time is sampled{unjudged}",
                    sampled.lines
                )
            }
            Sampling::Refused(why) | Sampling::Failed(why) => why.clone(),
        }
    }
}

/// The results of the bursts so far.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// When the last burst ended.
    pub at: Time,
    /// Commands that the last burst saw, on locks or not.
    pub lines: u64,
    /// Why it ended before its time.
    pub cut: Option<Cut>,
    /// Outcomes are known. They are not if the server's notifications are off.
    pub judged: bool,
    /// The share of the time that was sampled, over the bursts that count.
    pub coverage: f64,
    /// The total time sampled since it was turned on.
    pub looked: Duration,
    /// The locks that somebody tried to take recently.
    pub wanted: Arc<[Key]>,
}

pub(super) async fn run(task: Task, mut orders: watch::Receiver<Option<Duty>>) {
    let mut scripts = Scripts::default();
    let mut rates = Rates::default();
    let mut looked = Duration::ZERO;
    loop {
        let Some(duty) = *orders.borrow_and_update() else {
            (rates, looked) = (Rates::default(), Duration::ZERO);
            if orders.changed().await.is_err() {
                return;
            }
            continue;
        };
        let left = duty.most.map_or(Duration::MAX, |most| most.saturating_sub(looked));
        let bounds = Bounds { time: duty.burst.time.min(left), ..duty.burst };
        let burst = tokio::select! {
            burst = burst::run(&task.node, &task.recogniser, &mut scripts, bounds, task.clock), if !left.is_zero() => burst,
            changed = orders.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let (state, pause) = match burst {
            Ok(burst) => {
                looked += burst.looked;
                rates.take(burst.began, burst.ended, burst.looked, burst.locks.iter());
                let state = Sampling::On(Box::new(account(&burst, &rates, looked)));
                if !task.tell(observations(task.node.id, burst, &rates)).await {
                    return;
                }
                (state, Some(duty.pause))
            }
            Err(NoBurst::Refused(why)) => (Sampling::Refused(why), None),
            Err(NoBurst::Lost(error)) => (Sampling::Failed(text::said(&error)), Some(RETRY)),
        };
        if !task.tell(Incoming::Sampled(state)).await {
            return;
        }
        let rest = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = rest => {}
            changed = orders.changed() => if changed.is_err() { return },
        }
    }
}

fn account(burst: &Burst, rates: &Rates, looked: Duration) -> Sampled {
    let any = rates.quiet().or_else(|| rates.tries(rates.keys().next()?));
    Sampled {
        at: burst.ended,
        lines: burst.lines,
        cut: burst.cut,
        judged: burst.judged,
        coverage: any.map_or(0.0, |tries| tries.coverage()),
        looked,
        wanted: rates.keys().cloned().collect(),
    }
}

/// What the burst saw of each lock, and the rates of locks that only earlier bursts saw.
fn observations(node: NodeId, burst: Burst, rates: &Rates) -> Vec<Observation> {
    let quiet = Observation::Quiet { node, tries: rates.quiet().filter(|_| burst.left_out == 0) };
    let only_before = rates.keys().filter(|key| !burst.locks.contains_key(*key));
    let before: Vec<(Key, Sample)> =
        only_before.map(|key| (key.clone(), Sample { tries: rates.tries(key), ..Sample::default() })).collect();
    let now = burst.locks.into_iter().map(|(key, seen)| {
        let tries = rates.tries(&key);
        let sample =
            Sample { tries, contenders: seen.contenders, spoke: seen.spoke, held: seen.held, notices: seen.notices };
        (key, sample)
    });
    let all = now.chain(before);
    let sampled = all.map(|(key, sample)| Observation::Sampled { node, key, sample: Box::new(sample) });
    std::iter::once(quiet).chain(sampled).collect()
}
