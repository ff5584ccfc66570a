//! Keyspace notifications: subscribed as narrowly as the patterns and the ACL allow.

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{Msg, RedisResult};
use tokio::sync::mpsc::error::TrySendError;

use super::guard::Guard;
use super::{Ended, Follower, Hears, Standing};
use crate::base::clock::Clock;
use crate::base::glob::Globs;
use crate::model::{EventBatch, KeyEvent, Observation, Source};
use crate::server::channels::{channels, wider_channels};
use crate::topology::{ANSWER, Node, ServerConnection, in_time};

/// Pass on at most this many events at once.
const BATCH: usize = 1024;

/// Subscribes to the patterns' channels, or to wider ones.
pub async fn subscribe(node: &Node, patterns: &Globs) -> RedisResult<PubSub> {
    let mut subscriber = node.subscriber().await?;
    let narrow = channels(node.db, patterns);
    let wider = wider_channels(node.db).map(|channel| vec![channel]);
    let mut refused = None;
    for attempt in std::iter::once(narrow).chain(wider) {
        match in_time(ANSWER, subscriber.psubscribe(&attempt)).await {
            Ok(()) => return Ok(subscriber),
            Err(error) if error.code() == Some("NOPERM") => {
                // A connection that was refused in the middle of a list may be subscribed to a part of it.
                subscriber = node.subscriber().await?;
                refused = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(refused.expect("every attempt was refused"))
}

impl<M: Hears> Follower<M> {
    pub(super) async fn by_notifications(
        &mut self,
        subscriber: PubSub,
        control: ServerConnection,
        note: Option<String>,
    ) -> RedisResult<Ended> {
        let guard = Guard::post(control).await?;
        if !self.is_up(Source::Notification, note).await {
            return Ok(Ended::Unheard);
        }
        tokio::select! {
            ended = self.forward(subscriber) => ended,
            ended = guard.watch(self.node.id, self.clock, self.out.clone()) => ended,
        }
    }

    /// Passes events on in batches. It never waits for the listener: events that do not fit are counted and reported,
    /// so that nothing piles up in memory.
    async fn forward(&self, subscriber: PubSub) -> RedisResult<Ended> {
        let (_sink, stream) = subscriber.split();
        let mut chunks = stream.ready_chunks(BATCH);
        let mut packer = Packer::new(self.node.db, self.clock);
        let mut lost = 0u64;
        loop {
            let messages = tokio::select! {
                biased;
                // Report the loss as soon as there is room, even if no event follows.
                room = self.out.reserve(), if lost > 0 => {
                    let Ok(room) = room else { return Ok(Ended::Unheard) };
                    room.send(Standing::Overflow { at: self.clock.now(), lost }.into());
                    lost = 0;
                    continue;
                }
                messages = chunks.next() => match messages {
                    Some(messages) => messages,
                    None => break,
                },
            };
            let batch = packer.pack(messages);
            let count = batch.len() as u64;
            match self.out.try_send(Observation::Events { node: self.node.id, batch }.into()) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => lost += count,
                Err(TrySendError::Closed(_)) => return Ok(Ended::Unheard),
            }
            // A flood must not starve the listener, which may share our thread.
            tokio::task::yield_now().await;
        }
        let closed = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the server closed the event stream");
        Err(closed.into())
    }
}

/// Packs messages into batches, each event once.
struct Packer {
    prefix: Vec<u8>,
    clock: Clock,
    /// The last event that was packed, and its channel.
    last: Option<(Msg, Vec<u8>)>,
}

impl Packer {
    fn new(db: i64, clock: Clock) -> Packer {
        Packer { prefix: format!("__keyspace@{db}__:").into_bytes(), clock, last: None }
    }

    fn pack(&mut self, messages: Vec<Msg>) -> EventBatch {
        let mut batch = EventBatch::new(self.clock.now());
        for message in messages {
            let Ok(channel) = message.get_channel::<Vec<u8>>() else { continue };
            // Wider subscriptions include other databases and event channels, which have another prefix.
            let Some(key) = channel.strip_prefix(self.prefix.as_slice()) else { continue };
            if self.is_echo(&message, &channel) {
                continue;
            }
            batch.push(key, KeyEvent::from_name(message.get_payload_bytes()));
            self.last = Some((message, channel));
        }
        batch
    }

    /// A key that matches several patterns is reported once for each, in direct succession.
    fn is_echo(&self, message: &Msg, channel: &[u8]) -> bool {
        let pattern = |message: &Msg| message.get_pattern::<Vec<u8>>().ok();
        self.last.as_ref().is_some_and(|(last, last_channel)| {
            last_channel == channel
                && last.get_payload_bytes() == message.get_payload_bytes()
                && pattern(last) != pattern(message)
        })
    }
}
