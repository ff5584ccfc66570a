//! Learns of changes as they happen: by keyspace notifications if they are on, else by client-side caching broadcasts,
//! else by polling.
//!
//! [`follow`] runs while anybody listens: it connects, chooses the best source the server offers, and reports
//! [`Standing::Up`] with that source. After a lost connection it reports [`Standing::Down`] and retries with backoff.
//! Changes go out as [`Observation`]s. It never changes the server's configuration. Listeners must resync on each `Up`.

mod guard;
mod keyspace;
mod prefixes;
mod tracking;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::{mpsc, watch};

use crate::base::backoff::{Backoff, chance};
use crate::base::clock::Clock;
use crate::base::glob::Globs;
use crate::base::text;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::model::{Observation, Source};
use crate::server::{self, Coverage, Gap, Readiness, ServerFacts};
use crate::topology::{Node, ServerConnection};

use guard::Guard;
pub use prefixes::Prefixes;

/// What a source reports about itself and its server.
#[derive(Debug)]
pub enum Standing {
    /// The server's facts, asked again.
    Facts(Box<ServerFacts>),
    /// From now on this source reports changes. `note`: what is missing, and how to get it.
    Up { source: Source, note: Option<String>, at: Time },
    /// Events were dropped: the queue was full. `None`: nobody counts them, as with tracking.
    Overflow { at: Time, lost: Option<u64> },
    /// An answer is overdue, and the last one came then. The connection is kept, and so are the events on it.
    Silent { since: Time },
    /// It answers again.
    Answers,
    /// The connection is lost; the last answer came at `since`.
    Down { why: String, since: Time, at: Time },
}

/// A listener takes both in one stream, in order.
pub trait Hears: From<Observation> + From<Standing> + Send + 'static {}

impl<M: From<Observation> + From<Standing> + Send + 'static> Hears for M {}

/// What following a node needs.
pub struct Follower<M> {
    pub node: Node,
    pub recogniser: Arc<Recogniser>,
    pub clock: Clock,
    pub out: mpsc::Sender<M>,
    /// Prefixes of locks known so far, for tracking: patterns that begin with a wildcard have none of their own.
    pub known: watch::Receiver<Prefixes>,
    pub answered: Arc<LastAnswer>,
}

/// When the server last answered: a gap begins there, and not when we notice it.
#[derive(Debug, Default)]
pub struct LastAnswer(AtomicI64);

impl LastAnswer {
    /// An answer came.
    fn came(&self, at: Time) {
        self.0.fetch_max(at.0, Ordering::Relaxed);
    }

    /// The last one; `None` if there was none.
    fn at(&self) -> Option<Time> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Time)
    }
}

/// How often a lesser source checks whether a better one is available. It goes on meanwhile: each start leaves a gap.
const LOOK_FOR_BETTER: Duration = Duration::from_secs(30);
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// How the note begins where the server hides whether it reports new keys: beside `A` it does not show `n`.
pub const NEW_KEYS_UNSAID: &str = "the server does not say whether new-key events (n) are on";

/// Why following ended for now.
enum Ended {
    /// Nobody listens any more.
    Unheard,
    /// Another source may be better now.
    Choose,
}

/// Follows the node until nobody listens any more.
pub async fn follow<M: Hears>(mut follower: Follower<M>) {
    let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
    loop {
        let began = tokio::time::Instant::now();
        match follower.once().await {
            Ok(Ended::Unheard) => return,
            Ok(Ended::Choose) => backoff.reset(),
            Err(error) => {
                if began.elapsed() > LONGEST_RETRY {
                    backoff.reset();
                }
                follower.node.doubts_map();
                let at = follower.clock.now();
                let since = follower.answered.at().unwrap_or(at);
                let down = Standing::Down { why: text::said(&error), since, at };
                if !follower.tell(down).await {
                    return;
                }
                tokio::time::sleep(backoff.next(chance())).await;
            }
        }
    }
}

impl<M: Hears> Follower<M> {
    async fn once(&mut self) -> RedisResult<Ended> {
        let mut control = self.node.connect().await?;
        let facts = server::ask(&mut control, self.node.db).await?;
        let not_now = match facts.readiness.known() {
            Some(Readiness::Loading { .. }) => Some("the server is loading its data"),
            Some(Readiness::Busy) => Some("the server is busy with a script"),
            Some(Readiness::Ready) | None => None,
        };
        if let Some(why) = not_now {
            return Err(std::io::Error::other(why).into());
        }
        self.answered.came(self.clock.now());
        if !self.tell(Standing::Facts(Box::new(facts.clone()))).await {
            return Ok(Ended::Unheard);
        }
        let product = facts.product.known();
        let note = match facts.settings.events.known() {
            Some(flags) => match flags.covers_locks(product) {
                Coverage::Full => None,
                coverage => {
                    let note = missing(&coverage, &flags.wanted(product));
                    if !coverage.is_enough() {
                        return self.lesser(control, note).await;
                    }
                    Some(note)
                }
            },
            None => {
                let note = "whether notifications are on can't be asked: CONFIG GET is not permitted".to_string();
                return self.lesser(control, note).await;
            }
        };
        match keyspace::subscribe(&self.node, self.recogniser.patterns()).await {
            Ok(subscriber) => self.by_notifications(subscriber, control, note).await,
            Err(error) if error.code() == Some("NOPERM") => {
                self.lesser(control, "subscribing to keyspace events is not permitted by the ACL".into()).await
            }
            Err(error) => Err(error),
        }
    }

    /// Tracking where the server has it and permits it, else polling.
    async fn lesser(&mut self, control: ServerConnection, note: String) -> RedisResult<Ended> {
        let prefixes = self.prefixes();
        match tracking::start(&self.node, &prefixes).await {
            Ok(tracker) => self.by_tracking(tracker, note).await,
            Err(error) if error.code().is_some() => {
                let why = server::refusal(&error, "CLIENT TRACKING");
                let note = format!("{note}; client-side caching can't be used either: {why}");
                self.by_polling(control, note).await
            }
            Err(error) => Err(error),
        }
    }

    async fn by_polling(&mut self, control: ServerConnection, note: String) -> RedisResult<Ended> {
        let guard = Guard::post(control).await?;
        if !self.is_up(Source::Scan, Some(note)).await {
            return Ok(Ended::Unheard);
        }
        tokio::select! {
            ended = guard.watch(self.post(watch::Sender::default())) => ended,
            _ = better_than(&self.node, self.recogniser.patterns(), Source::Scan) => Ok(Ended::Choose),
        }
    }

    /// What a guard beside the source tells, and to whom.
    fn post(&self, asked: watch::Sender<Option<Time>>) -> guard::Post<M> {
        let (node, clock, out, answered) = (self.node.id, self.clock, self.out.clone(), self.answered.clone());
        guard::Post { node, clock, out, answered, asked }
    }

    /// Reports that the source is up. Returns whether anybody listens.
    async fn is_up(&self, source: Source, note: Option<String>) -> bool {
        self.tell(Standing::Up { source, note, at: self.clock.now() }).await
    }

    /// Returns whether anybody listens.
    async fn tell(&self, what: impl Into<M>) -> bool {
        self.out.send(what.into()).await.is_ok()
    }

    /// The literal prefixes of the patterns, and those of the locks known by now.
    fn prefixes(&mut self) -> Prefixes {
        let mut prefixes = self.known.borrow_and_update().clone();
        for glob in self.recogniser.patterns().iter() {
            prefixes.add(&glob.literal_prefix());
        }
        prefixes
    }
}

/// Returns once a better source than this one is available, such as after a change of settings or rights.
async fn better_than(node: &Node, patterns: &Globs, source: Source) {
    loop {
        tokio::time::sleep(LOOK_FOR_BETTER).await;
        // A lost server is noticed by the task that follows it.
        if is_better_there(node, patterns, source).await.unwrap_or(false) {
            return;
        }
    }
}

async fn is_better_there(node: &Node, patterns: &Globs, than: Source) -> RedisResult<bool> {
    let facts = server::ask(&mut node.connect().await?, node.db).await?;
    let product = facts.product.known();
    let covered = facts.settings.events.known().is_some_and(|flags| flags.covers_locks(product).is_enough());
    if covered && keyspace::subscribe(node, patterns).await.is_ok() {
        return Ok(true);
    }
    Ok(than == Source::Scan && tracking::start(node, &Prefixes::default()).await.is_ok())
}

fn missing(coverage: &Coverage, wanted: &str) -> String {
    let fix = format!("turn it on with: CONFIG SET notify-keyspace-events '{wanted}'");
    match coverage {
        // Beside A, the server does not show it.
        Coverage::Partial(gaps) if gaps.iter().all(|gap| !gap.sure) => {
            format!("{NEW_KEYS_UNSAID}; if not, an acquire may look like a renewal; {fix}")
        }
        Coverage::Partial(gaps) if gaps.iter().all(|gap| gap.letter == 'n') => {
            format!("new-key events (n) are off, so an acquire may look like a renewal; {fix}")
        }
        Coverage::Partial(gaps) => {
            let lost: Vec<&str> = gaps.iter().map(|gap: &Gap| gap.lost).collect();
            format!("notify-keyspace-events does not report: {}; {fix}", lost.join("; "))
        }
        _ => format!("notify-keyspace-events is off; {fix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{EventFlags, Flavor, Product, Version};

    #[test]
    fn what_the_server_does_not_say_is_not_called_off() {
        let version = Version::parse("7.4.2").unwrap();
        let product = Product { flavor: Flavor::Redis, version, compatible: version };
        let note = |set: &str| {
            let flags = EventFlags::parse(set);
            missing(&flags.covers_locks(Some(&product)), &flags.wanted(Some(&product)))
        };
        assert!(
            note("AKE").starts_with("the server does not say whether new-key events (n) are on"),
            "{}",
            note("AKE")
        );
        assert!(note("g$lshzxeK").starts_with("new-key events (n) are off"), "{}", note("g$lshzxeK"));
        assert!(note("g$lshzxK").starts_with("notify-keyspace-events does not report: "), "{}", note("g$lshzxK"));
    }
}
