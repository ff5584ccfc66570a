//! Client-side caching broadcasts (RESP3): the server names each key that changed under our prefixes.
//!
//! They need no server setting and no CONFIG permission, but do not say what happened or in which database, and several
//! changes in one event loop of the server come as one. Patterns that begin with a wildcard have no prefix: we use the
//! prefixes of locks found so far, and add new ones as scans find them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use redis::aio::SendError;
use redis::{PushInfo, PushKind, RedisError, RedisResult, Value, cmd};
use tokio::sync::{mpsc, watch};

use super::guard::Guard;
use super::{Ended, Follower, Hears, Prefixes, Standing, better_than};
use crate::lock::Key;
use crate::model::{Observation, Source};
use crate::topology::{Node, ServerConnection};

/// Limits of the queue of pushes, in number and bytes; more are dropped, and the loss is reported.
const PUSHES: usize = 65_536;
const BYTES: usize = 8 << 20;

/// A connection on which tracking is on.
pub(super) struct Tracker {
    conn: ServerConnection,
    pushes: Pushes,
    armed: Prefixes,
}

/// Pushes that wait to be read.
struct Pushes {
    queue: mpsc::Receiver<PushInfo>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    lost: AtomicBool,
}

impl Pushes {
    async fn recv(&mut self) -> Option<PushInfo> {
        let push = self.queue.recv().await;
        push.inspect(|push| self.took(push))
    }

    fn try_recv(&mut self) -> Option<PushInfo> {
        let push = self.queue.try_recv().ok();
        push.inspect(|push| self.took(push))
    }

    fn took(&self, push: &PushInfo) {
        self.waiting.bytes.fetch_sub(weight(push), Ordering::Relaxed);
    }
}

/// The bytes of the names in a push.
fn weight(push: &PushInfo) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::BulkString(name) => name.len(),
            Value::Array(values) => values.iter().map(of).sum(),
            _ => 0,
        }
    }
    push.data.iter().map(of).sum()
}

pub(super) async fn start(node: &Node, prefixes: &Prefixes) -> RedisResult<Tracker> {
    let (sender, queue) = mpsc::channel(PUSHES);
    let waiting = Arc::<Waiting>::default();
    let pushes = Pushes { queue, waiting: waiting.clone() };
    let keep = move |push: PushInfo| {
        let weight = weight(&push);
        let before = waiting.bytes.fetch_add(weight, Ordering::Relaxed);
        // An empty queue takes any push: a loss is reported only with the next push that is read.
        let fits = before == 0 || before + weight <= BYTES;
        if fits && sender.try_send(push).is_ok() {
            return Ok(());
        }
        waiting.bytes.fetch_sub(weight, Ordering::Relaxed);
        waiting.lost.store(true, Ordering::Relaxed);
        Err(SendError)
    };
    let conn = node.connect_with_pushes(keep).await?;
    let mut tracker = Tracker { conn, pushes, armed: Prefixes::default() };
    tracker.arm(prefixes).await?;
    Ok(tracker)
}

impl Tracker {
    /// Turns tracking on for exactly these prefixes. With none, only flushes are reported.
    async fn arm(&mut self, prefixes: &Prefixes) -> RedisResult<()> {
        // The server adds prefixes to those that it has. To take one away, tracking is turned off, and what changes
        // until it is on again is not reported.
        let adds = !self.armed.is_empty() && self.armed.iter().all(|old| prefixes.contains(old));
        if !adds && !self.armed.is_empty() {
            cmd("CLIENT").arg("TRACKING").arg("OFF").exec_async(&mut self.conn).await?;
        }
        let mut on = cmd("CLIENT");
        on.arg("TRACKING").arg("ON").arg("BCAST");
        if prefixes.is_empty() {
            // Without a prefix, the server would report every key.
            on.arg("PREFIX").arg("lockscope:no-such-key:");
        }
        for prefix in prefixes.iter().filter(|prefix| !(adds && self.armed.contains(prefix))) {
            on.arg("PREFIX").arg(prefix);
        }
        on.exec_async(&mut self.conn).await?;
        self.armed = prefixes.clone();
        Ok(())
    }
}

impl<M: Hears> Follower<M> {
    pub(super) async fn by_tracking(&mut self, mut tracker: Tracker, note: String) -> RedisResult<Ended> {
        // Use the same connection, so that its silent loss is noticed too.
        let guard = Guard::post(tracker.conn.clone()).await?;
        if !self.is_up(Source::Tracking, Some(note)).await {
            return Ok(Ended::Unheard);
        }
        // Pushes and answers come in order on one connection.
        let (asked, mut heard) = watch::channel(None);
        let watching = guard.watch(self.post(asked));
        tokio::pin!(watching);
        let (node, recogniser) = (self.node.clone(), self.recogniser.clone());
        let better = better_than(&node, recogniser.patterns(), Source::Tracking);
        tokio::pin!(better);
        loop {
            tokio::select! {
                ended = &mut watching => return ended,
                _ = &mut better => return Ok(Ended::Choose),
                changed = self.known.changed() => {
                    if changed.is_err() {
                        return Ok(Ended::Unheard);
                    }
                    let prefixes = self.prefixes();
                    if prefixes != tracker.armed {
                        tracker.arm(&prefixes).await?;
                    }
                }
                Ok(()) = heard.changed() => {
                    let waiting = tracker.pushes.try_recv();
                    let passed = match waiting {
                        Some(push) => self.take(push, &mut tracker.pushes).await?,
                        None => true,
                    };
                    let until = *heard.borrow_and_update();
                    if let Some(until) = until
                        && !(passed && self.tell(Observation::Heard { node: self.node.id, until }).await)
                    {
                        return Ok(Ended::Unheard);
                    }
                }
                push = tracker.pushes.recv() => match push {
                    Some(push) => {
                        if !self.take(push, &mut tracker.pushes).await? {
                            return Ok(Ended::Unheard);
                        }
                    }
                    None => return Err(closed()),
                },
            }
        }
    }

    /// Passes on what came. Returns whether anybody listens. An error means that the connection is lost: then nothing says
    /// that more came than could be read.
    async fn take(&self, first: PushInfo, more: &mut Pushes) -> RedisResult<bool> {
        let (node, at) = (self.node.id, self.clock.now());
        let mut keys = Vec::new();
        let (mut flushed, mut over) = (false, false);
        let lost = more.waiting.lost.swap(false, Ordering::Relaxed);
        let mut next = Some(first);
        while let Some(push) = next {
            match push.kind {
                PushKind::Invalidate => flushed |= !invalidated(push.data, &mut keys),
                PushKind::Disconnection => over = true,
                _ => {}
            }
            next = more.try_recv();
        }
        keys.sort_unstable();
        keys.dedup();
        let heard = (keys.is_empty() || self.tell(Observation::Touched { node, keys, at }).await)
            && (!flushed || self.tell(Observation::Flushed { node, at }).await)
            && (!lost || self.tell(Standing::Overflow { at, lost: None }).await);
        if heard && over { Err(closed()) } else { Ok(heard) }
    }
}

fn closed() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

/// Collects the keys of a push; `false` if it names none, which means all keys.
fn invalidated(data: Vec<Value>, keys: &mut Vec<Key>) -> bool {
    let Some(Value::Array(names)) = data.into_iter().next() else { return false };
    for name in names {
        if let Value::BulkString(name) = name {
            keys.push(Key::from(name));
        }
    }
    true
}
