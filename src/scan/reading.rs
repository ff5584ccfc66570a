//! The second half of a walk: reads the keys that were found by name, in pipelines, and sends what was seen.
//!
//! A page of names is settled only after all of it was read and sent, so that a new connection repeats the rest.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::{Page, Pass, Walk};
use crate::base::time::Time;
use crate::lock::{Key, NodeId, RawValue};
use crate::model::{Observation, Seen, Source};
use crate::sources::look::{Look, TOO_LARGE, Wanted, first_look, look_around};
use crate::sources::pace::Pace;
use crate::topology::ServerConnection;

/// Keys read in one pipeline. A polite walk keeps it small: the server runs its commands back to back.
const READ_FAST: usize = 512;
const READ_POLITE: usize = 16;
/// How long names are gathered for one read: reading a few keys costs the server nearly as much as reading many.
const GATHER: Duration = Duration::from_millis(50);
/// A key that was used more recently shows nothing: the server counts whole seconds.
const IDLE_LEAST: Duration = Duration::from_secs(2);
/// How often we read a key that changes each time.
const READS: usize = 4;

impl Pass {
    /// Reads the named keys page by page, until no walker sends names any more.
    pub(super) async fn read_names(
        &self,
        walk: &Walk<'_, impl From<Vec<Observation>>>,
        mut conn: ServerConnection,
        mut waiting: mpsc::Receiver<Page>,
    ) -> RedisResult<()> {
        let most = if walk.budget.pace() == Pace::Fast { READ_FAST } else { READ_POLITE };
        let mut pages = Vec::new();
        while let Some(Page { range, mut names }) = waiting.recv().await {
            pages.clear();
            pages.push(range);
            let until = Instant::now() + GATHER;
            while names.len() < most
                && let Ok(Some(page)) = timeout_at(until, waiting.recv()).await
            {
                pages.push(page.range);
                names.extend(page.names);
            }
            for batch in names.chunks(most) {
                let observations = self.observe(walk, &mut conn, batch).await?;
                if walk.out.send(observations.into()).await.is_err() {
                    return Ok(());
                }
            }
            // Settle only now: the next connection must scan again what was not read.
            pages.iter().for_each(|range| self.ranges[*range].settle());
        }
        Ok(())
    }

    async fn observe(
        &self,
        walk: &Walk<'_, impl From<Vec<Observation>>>,
        conn: &mut ServerConnection,
        names: &[Vec<u8>],
    ) -> RedisResult<Vec<Observation>> {
        let mut observations = Vec::with_capacity(names.len());
        let mut wanted: Vec<Wanted> =
            names.iter().map(|name| Wanted { key: name, hint: walk.recogniser.field_hint(name) }).collect();
        for _ in 0..READS {
            let _turn = walk.budget.turn().await;
            let asked = walk.clock.now();
            let seen = self.look(conn, &wanted).await?;
            let answered = walk.clock.now();
            let (mut again, mut elsewhere) = (Vec::new(), Vec::new());
            for (want, (seen, idle)) in wanted.iter().zip(seen) {
                if let (Look::Elsewhere(_), true) = (&seen, walk.node.is_in_cluster()) {
                    elsewhere.push(Key::from(want.key));
                    continue;
                }
                match seen.here() {
                    Some(Seen::Absent) => {}
                    // It changed while we read it.
                    None => again.push(*want),
                    Some(seen) => {
                        if let Some(why) = unread(&seen) {
                            self.progress.unread.fetch_add(1, Ordering::Relaxed);
                            self.progress.denied.fetch_add(u64::from(!why.starts_with(TOO_LARGE)), Ordering::Relaxed);
                        }
                        observations.push(read(walk.node.id, want.key, asked, answered, seen));
                        let (node, key) = (walk.node.id, want.key);
                        let idle = idle.filter(|idle| *idle >= IDLE_LEAST);
                        observations.extend(idle.map(|idle| Observation::Unused {
                            node,
                            key: Key::from(key),
                            asked,
                            idle,
                        }));
                    }
                }
            }
            if !elsewhere.is_empty() {
                // On their way here or there: the table asks their owners.
                walk.node.doubts_map();
                observations.push(Observation::Touched { node: walk.node.id, keys: elsewhere, at: answered });
            }
            wanted = again;
            if wanted.is_empty() {
                return Ok(observations);
            }
        }
        self.could_not_see(wanted.len(), "they changed each time, or were answered with nonsense");
        Ok(observations)
    }

    /// Reads the keys, in the first walk with the time for which nobody had used them.
    async fn look(
        &self,
        conn: &mut ServerConnection,
        wanted: &[Wanted<'_>],
    ) -> RedisResult<Vec<(Look, Option<Duration>)>> {
        if !self.first.load(Ordering::Relaxed) {
            return Ok(look_around(conn, wanted).await?.into_iter().map(|seen| (seen, None)).collect());
        }
        let seen = first_look(conn, wanted).await?;
        let mut there = seen.iter().filter(|(seen, _)| matches!(seen, Look::Seen(Seen::Present { .. }))).peekable();
        // The server refuses it for every key, or for none.
        if there.peek().is_some() && there.all(|(_, idle)| idle.is_none()) {
            self.first.store(false, Ordering::Relaxed);
        }
        Ok(seen)
    }
}

/// Why the value was not read, where it was not.
fn unread(seen: &Seen) -> Option<&str> {
    match seen {
        Seen::Present { value: RawValue::Unread { why, .. }, .. } => Some(why),
        _ => None,
    }
}

fn read(node: NodeId, name: &[u8], asked: Time, answered: Time, seen: Seen) -> Observation {
    Observation::Read { node, key: Key::from(name), asked, answered, seen, source: Source::Scan }
}
