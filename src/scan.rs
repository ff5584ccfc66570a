//! The inventory: walks the keyspace with SCAN and looks at every key that may be a lock.
//!
//! The keyspace is walked once, however many patterns there are: a single pattern is left to the server, several are
//! matched here. Looks overlap with the next SCAN call. A [`Pass`] keeps its cursors, so that a walk cut short by a lost
//! connection goes on where it was. Pauses and the size of calls come from [`pace`](crate::pace).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value, cmd};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::clock::Clock;
use crate::dialects::Recogniser;
use crate::glob::Glob;
use crate::look::{Wanted, look};
use crate::model::{Key, NodeId, Observation, Seen, Source, Time};
use crate::pace::{Budget, Pace};
use crate::servers::InfoText;
use crate::topology::Node;

/// Keys looked at in one pipeline. A polite walk keeps it small: its commands run back to back on the server.
const LOOK_FAST: usize = 512;
const LOOK_POLITE: usize = 16;
/// Fewer keys than this are not worth a second walker.
const SPLIT_FROM: u64 = 100_000;
/// Names that wait for a look, in pages.
const NAMES_WAITING: usize = 64;
/// How long names are gathered for one look: a look at a few of them costs the server nearly as much as one at many.
const GATHER: Duration = Duration::from_millis(50);

/// One walk of a node's keyspace, as far as it has come.
#[derive(Debug)]
pub struct Pass {
    pub started: Time,
    ranges: Vec<Range>,
    progress: Arc<Progress>,
}

/// How far a walk has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Keys walked over, as far as COUNT tells.
    pub walked: AtomicU64,
    /// Keys whose name made them worth a look.
    pub matched: AtomicU64,
    /// SCAN calls made.
    pub calls: AtomicU64,
    /// COUNT of the last call.
    pub count: AtomicU64,
    /// Keys that were there but could not be read.
    pub unread: AtomicU64,
}

impl Progress {
    fn reset(&self) {
        for counter in [&self.walked, &self.matched, &self.calls, &self.count, &self.unread] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// A part of the keyspace, by cursor. On a standalone server cursors count with their bits reversed, so that the upper
/// half of the keyspace begins at cursor 1.
#[derive(Debug)]
struct Range {
    cursor: u64,
    /// The reversed cursor at which the next range begins.
    end: Option<u64>,
    done: bool,
}

impl Range {
    fn whole() -> Range {
        Range { cursor: 0, end: None, done: false }
    }

    fn halves() -> Vec<Range> {
        let middle = 1u64 << 63;
        vec![
            Range { cursor: 0, end: Some(middle), done: false },
            Range { cursor: middle.reverse_bits(), end: None, done: false },
        ]
    }

    fn move_to(&mut self, cursor: u64) {
        self.cursor = cursor;
        self.done = cursor == 0 || self.end.is_some_and(|end| cursor.reverse_bits() >= end);
    }
}

/// What a walk needs.
pub struct Walk<'a> {
    pub node: &'a Node,
    pub recogniser: &'a Recogniser,
    pub budget: &'a Budget,
    pub clock: Clock,
    /// The server numbers its cursors in the way that lets a walk be split.
    pub splittable: bool,
    pub out: mpsc::Sender<Vec<Observation>>,
}

impl Pass {
    pub fn new(started: Time, progress: Arc<Progress>) -> Pass {
        progress.reset();
        Pass { started, ranges: Vec::new(), progress }
    }

    pub fn is_done(&self) -> bool {
        !self.ranges.is_empty() && self.ranges.iter().all(|range| range.done)
    }

    /// Walks on to the end. After an error the same pass can be walked on with a new connection.
    pub async fn walk(&mut self, walk: &Walk<'_>) -> RedisResult<()> {
        let looker = walk.node.connect().await?;
        if self.ranges.is_empty() {
            self.ranges = self.plan(walk, looker.clone()).await?;
        }
        let Pass { ranges, progress, .. } = self;
        let progress: &Progress = progress;
        let (names, waiting) = mpsc::channel(NAMES_WAITING);
        let walkers = ranges.iter_mut().filter(|range| !range.done).map(|range| {
            let names = names.clone();
            async move {
                let conn = walk.node.connect().await?;
                walk_range(walk, range, conn, names, |name| walk.recogniser.may_be_lock(name), progress).await
            }
        });
        let walkers: Vec<_> = walkers.collect();
        drop(names);
        try_join(try_join_all(walkers), look_at_names(walk, looker, waiting, progress)).await?;
        Ok(())
    }

    /// Looks at these keys instead of walking the keyspace.
    pub async fn visit(&mut self, walk: &Walk<'_>, keys: &[Key]) -> RedisResult<()> {
        let conn = walk.node.connect().await?;
        let (names, waiting) = mpsc::channel(1);
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        self.progress.matched.store(keys.len() as u64, Ordering::Relaxed);
        let _ = names.try_send(keys);
        drop(names);
        look_at_names(walk, conn, waiting, &self.progress).await
    }

    /// The names under the patterns alone, without a look at the keys, until `take` has had enough.
    pub async fn names(
        &mut self,
        walk: &Walk<'_>,
        mut take: impl FnMut(Vec<u8>) -> ControlFlow<()>,
    ) -> RedisResult<()> {
        let conn = walk.node.connect().await?;
        let (names, mut pages) = mpsc::channel::<Vec<Vec<u8>>>(1);
        let taking = async {
            while let Some(page) = pages.recv().await {
                if page.into_iter().try_for_each(&mut take).is_break() {
                    break;
                }
            }
            // A walker that can't hand on its names ends.
            pages.close();
            Ok(())
        };
        let patterns = walk.recogniser.patterns();
        let mut range = Range::whole();
        let walking = walk_range(walk, &mut range, conn, names, |name| patterns.matches(name), &self.progress);
        try_join(walking, taking).await?;
        Ok(())
    }

    async fn plan(&self, walk: &Walk<'_>, mut conn: MultiplexedConnection) -> RedisResult<Vec<Range>> {
        if walk.budget.pace() != Pace::Fast || !walk.splittable {
            return Ok(vec![Range::whole()]);
        }
        let keys: u64 = cmd("DBSIZE").query_async(&mut conn).await.unwrap_or(0);
        Ok(if keys >= SPLIT_FROM { Range::halves() } else { vec![Range::whole()] })
    }
}

async fn walk_range(
    walk: &Walk<'_>,
    range: &mut Range,
    mut conn: MultiplexedConnection,
    names: mpsc::Sender<Vec<Vec<u8>>>,
    keep: impl Fn(&[u8]) -> bool,
    progress: &Progress,
) -> RedisResult<()> {
    let patterns = walk.recogniser.patterns();
    let single: Option<&Glob> = if patterns.len() == 1 { patterns.iter().next() } else { None };
    while !range.done {
        let due = walk.budget.call_size().wants_figures();
        if due {
            let figures = scan_figures(&mut conn).await?;
            walk.budget.call_size().figures(figures);
        }
        let count = walk.budget.call_size().count();
        let mut call = cmd("SCAN");
        call.arg(range.cursor).arg("COUNT").arg(count);
        if let Some(glob) = single {
            call.arg("MATCH").arg(glob.as_str());
        }
        let (cursor, page): (u64, Vec<Value>) = {
            let _turn = walk.budget.turn().await;
            let asked = Instant::now();
            let answer = call.query_async(&mut conn).await?;
            walk.budget.call_size().called(count, asked.elapsed());
            answer
        };
        progress.calls.fetch_add(1, Ordering::Relaxed);
        progress.count.store(count as u64, Ordering::Relaxed);
        progress.walked.fetch_add(count as u64, Ordering::Relaxed);
        let kept = |name| match name {
            Value::BulkString(name) if keep(&name) => Some(name),
            _ => None,
        };
        let page: Vec<Vec<u8>> = page.into_iter().filter_map(kept).collect();
        if !page.is_empty() {
            progress.matched.fetch_add(page.len() as u64, Ordering::Relaxed);
            // Waits when the looks are behind: names in memory stay bounded.
            if names.send(page).await.is_err() {
                return Ok(());
            }
        }
        range.move_to(cursor);
    }
    Ok(())
}

async fn look_at_names(
    walk: &Walk<'_>,
    mut conn: MultiplexedConnection,
    mut waiting: mpsc::Receiver<Vec<Vec<u8>>>,
    progress: &Progress,
) -> RedisResult<()> {
    let most = if walk.budget.pace() == Pace::Fast { LOOK_FAST } else { LOOK_POLITE };
    while let Some(mut names) = waiting.recv().await {
        let until = Instant::now() + GATHER;
        while names.len() < most
            && let Ok(Some(page)) = timeout_at(until, waiting.recv()).await
        {
            names.extend(page);
        }
        for batch in names.chunks(most) {
            let observations = observe(walk, &mut conn, batch, progress).await?;
            if walk.out.send(observations).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn observe(
    walk: &Walk<'_>,
    conn: &mut MultiplexedConnection,
    names: &[Vec<u8>],
    progress: &Progress,
) -> RedisResult<Vec<Observation>> {
    let _turn = walk.budget.turn().await;
    let wanted: Vec<Wanted> =
        names.iter().map(|name| Wanted { key: name, hint: walk.recogniser.field_hint(name) }).collect();
    let asked = walk.clock.now();
    let seen = look(conn, &wanted).await?;
    let answered = walk.clock.now();
    let mut observations = Vec::with_capacity(seen.len());
    for (name, seen) in names.iter().zip(seen) {
        match seen {
            // Changed or gone while we looked: nothing to report; events or the next walk will.
            None | Some(Seen::Absent) => {}
            Some(seen) => {
                if is_unread(&seen) {
                    progress.unread.fetch_add(1, Ordering::Relaxed);
                }
                observations.push(read(walk.node.id, name, asked, answered, seen));
            }
        }
    }
    Ok(observations)
}

fn is_unread(seen: &Seen) -> bool {
    matches!(seen, Seen::Present { value: crate::model::RawValue::Unread { .. }, .. })
}

fn read(node: NodeId, name: &[u8], asked: Time, answered: Time, seen: Seen) -> Observation {
    Observation::Read { node, key: Key::from(name), asked, answered, seen, source: Source::Scan }
}

/// What SCAN has cost the server so far: calls and microseconds. `None` where it may not be asked.
async fn scan_figures(conn: &mut MultiplexedConnection) -> RedisResult<Option<(u64, u64)>> {
    let stats: String = match cmd("INFO").arg("commandstats").query_async(conn).await {
        Ok(stats) => stats,
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let info = InfoText::parse(&stats);
    let figure = |part| info.part("cmdstat_scan", part).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(Some((figure("calls"), figure("usec"))))
}
