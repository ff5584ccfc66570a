//! Keyspace notifications: subscribed as narrowly as the patterns and the ACL allow.
//!
//! Four times a second we ask on the same connection for something that changes nothing. Its answer comes after all events
//! that were sent before, so that the model knows how far behind we are: silence from then on says nothing.

use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use redis::aio::{PubSub, PubSubSink};
use redis::{Msg, RedisResult};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;

use super::guard::Guard;
use super::{Ended, Follower, Hears, Standing};
use crate::base::clock::Clock;
use crate::base::glob::Globs;
use crate::base::time::Time;
use crate::model::{EventBatch, KeyEvent, Observation, Source};
use crate::server::channels::{channels, wider_channels};
use crate::topology::{ANSWER, Node, ServerConnection, in_time};

/// Pass on at most this many events at once.
const BATCH: usize = 1024;
/// How often we find out how far behind we are.
const FENCE: Duration = Duration::from_millis(250);

/// A connection that is subscribed to events.
pub struct Subscriber {
    events: PubSub,
    /// One of its channels.
    channel: String,
}

/// Subscribes to the patterns' channels, or to wider ones.
pub async fn subscribe(node: &Node, patterns: &Globs) -> RedisResult<Subscriber> {
    let mut subscriber = node.subscriber().await?;
    let narrow = channels(node.db, patterns);
    let wider = wider_channels(node.db).map(|channel| vec![channel]);
    let mut refused = None;
    for attempt in std::iter::once(narrow).chain(wider) {
        match in_time(ANSWER, subscriber.psubscribe(&attempt)).await {
            Ok(()) => {
                let channel = attempt.into_iter().next().unwrap_or_default();
                return Ok(Subscriber { events: subscriber, channel });
            }
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
        subscriber: Subscriber,
        control: ServerConnection,
        note: Option<String>,
    ) -> RedisResult<Ended> {
        let guard = Guard::post(control).await?;
        if !self.is_up(Source::Notification, note).await {
            return Ok(Ended::Unheard);
        }
        tokio::select! {
            ended = self.forward(subscriber) => ended,
            ended = guard.watch(self.post(watch::Sender::default())) => ended,
        }
    }

    /// Passes events on in batches. It never waits for the listener: events that do not fit are counted and reported,
    /// so that nothing piles up in memory.
    async fn forward(&self, subscriber: Subscriber) -> RedisResult<Ended> {
        let Subscriber { events, channel } = subscriber;
        let (mut sink, stream) = events.split();
        let mut chunks = stream.ready_chunks(BATCH);
        let mut packer = Packer::new(self.node.db, self.clock);
        let mut lost = 0u64;
        let fences = fences(&mut sink, &channel, self.clock);
        tokio::pin!(fences);
        loop {
            let heard = tokio::select! {
                biased;
                // Report the loss as soon as there is room, even if no event follows.
                room = self.out.reserve(), if lost > 0 => {
                    let Ok(room) = room else { return Ok(Ended::Unheard) };
                    room.send(Standing::Overflow { at: self.clock.now(), lost: Some(lost) }.into());
                    lost = 0;
                    continue;
                }
                messages = chunks.next() => match messages {
                    Some(messages) => Heard::Events(messages),
                    None => break,
                },
                // Where it is refused or fails, we no longer know how far we are: begin again.
                Some(until) = fences.next() => Heard::Until(until?),
            };
            let passed = match heard {
                Heard::Events(messages) => self.pass_on(packer.pack(messages), &mut lost),
                Heard::Until(until) => {
                    self.answered.came(self.clock.now());
                    let mut heard = true;
                    // What came before the answer is there by now.
                    while let Some(Some(messages)) = chunks.next().now_or_never() {
                        let all = messages.len() < BATCH;
                        heard &= self.pass_on(packer.pack(messages), &mut lost);
                        if all {
                            break;
                        }
                    }
                    // Where there is no room for it, the next one will do.
                    let _ = self.out.try_send(Observation::Heard { node: self.node.id, until }.into());
                    heard
                }
            };
            if !passed {
                return Ok(Ended::Unheard);
            }
            // A flood must not starve the listener, which may share our thread.
            tokio::task::yield_now().await;
        }
        let closed = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the server closed the event stream");
        Err(closed.into())
    }

    /// Whether anybody listens.
    fn pass_on(&self, batch: EventBatch, lost: &mut u64) -> bool {
        let count = batch.len() as u64;
        match self.out.try_send(Observation::Events { node: self.node.id, batch }.into()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                *lost += count;
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }
}

/// What came from the server.
enum Heard {
    Events(Vec<Msg>),
    /// Every event up to this time has come.
    Until(Time),
}

/// The times up to which every event has come. Subscribing once more to what we are subscribed to changes nothing, needs no
/// other permission, and is answered in its turn.
fn fences<'a>(sink: &'a mut PubSubSink, channel: &'a str, clock: Clock) -> impl Stream<Item = RedisResult<Time>> + 'a {
    futures_util::stream::unfold(sink, move |sink| async move {
        tokio::time::sleep(FENCE).await;
        let asked = clock.now();
        Some((sink.psubscribe(channel).await.map(|()| asked), sink))
    })
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
