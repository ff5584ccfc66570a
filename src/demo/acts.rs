//! What happens to the demo's topology while it is watched: every so often slots move, or a replica takes over.
//!
//! The seed says when and which. Everything done is kept, so that a summary can compare it with what was told.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{RedisError, RedisResult, cmd};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fleet::{Dice, Tempo, lasting};
use super::{cluster, sentinel};
use crate::base::text;
use crate::lock::Key;
use crate::topology::ServerConnection;

/// The first two come soon, so that a short demo has both.
const FIRST: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(5));
const LATER: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(35));
/// Nothing is begun this shortly before the end: it must be told too.
const SETTLING: Duration = Duration::from_secs(4);
/// How many are kept; the oldest are dropped.
const KEPT: usize = 64;

/// One thing that was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// These slots went to another master with their keys, among them this lock.
    Moved { first: u16, last: u16, key: Key, keys: usize, from: String, to: String },
    /// A replica took over.
    FailedOver { from: String, to: String },
    /// It was tried and failed.
    Failed { why: String },
}

impl fmt::Display for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Moved { first, last, keys, from, to, .. } => {
                let keys = text::counted(*keys as u64, "key");
                write!(out, "slots {first} to {last} moved from {from} to {to} with {keys}")
            }
            Act::FailedOver { from, to } => write!(out, "{to} took over from {from}"),
            Act::Failed { why } => write!(out, "a change of the topology failed: {why}"),
        }
    }
}

/// Who does it.
pub enum Hand {
    Cluster(cluster::Hand),
    Sentinel(sentinel::Hand),
}

impl Hand {
    async fn act(&self, number: u64, dice: &mut Dice) -> RedisResult<Act> {
        match self {
            Hand::Cluster(hand) if number.is_multiple_of(2) => hand.move_slots(&lasting(dice), dice).await,
            Hand::Cluster(hand) => hand.fail_over(dice).await,
            Hand::Sentinel(hand) => hand.fail_over(dice).await,
        }
    }
}

/// All that was done so far, each with the time since the start. It stops with this value.
#[derive(Default)]
pub struct Acts {
    done: Arc<Mutex<VecDeque<(Duration, Act)>>>,
    task: JoinSet<()>,
}

impl Acts {
    /// `for_`: how long the demo runs, if that is known.
    pub fn start(hand: Hand, seed: u64, tempo: Tempo, for_: Option<Duration>) -> Acts {
        let mut acts = Acts::default();
        let (done, began) = (acts.done.clone(), Instant::now());
        let end = for_.map(|for_| began + for_.saturating_sub(SETTLING));
        acts.task.spawn(async move {
            let mut dice = Dice::new(seed, "topology");
            for number in 0_u64.. {
                let pause = dice.duration(if number < 2 { FIRST } else { LATER });
                tokio::time::sleep(tempo.real(pause)).await;
                if end.is_some_and(|end| Instant::now() > end) {
                    return;
                }
                let act = hand.act(number, &mut dice).await;
                let act = act.unwrap_or_else(|error| Act::Failed { why: text::said(&error) });
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                if done.len() == KEPT {
                    done.pop_front();
                }
                done.push_back((began.elapsed(), act));
            }
        });
        acts
    }

    pub fn done(&self) -> Vec<(Duration, Act)> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Whether the server says that it is a master; after a moment if not.
pub(super) async fn is_master(line: &mut ServerConnection) -> RedisResult<bool> {
    let role: Vec<redis::Value> = cmd("ROLE").query_async(line).await?;
    let master = role.first().is_some_and(|word| *word == redis::Value::BulkString(b"master".to_vec()));
    if !master {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(master)
}

pub(super) fn unfinished(why: &'static str) -> RedisError {
    std::io::Error::other(why).into()
}
