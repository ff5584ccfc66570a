//! The inventory: walks the keyspace with SCAN and reads every key that may be a lock.
//!
//! One walk serves all patterns: the server matches a single pattern, we match several. Reads overlap with the next SCAN
//! call. A [`Pass`] remembers which keys were read, so that after a lost connection the walk continues from there. Pauses
//! and the size of calls come from [`pace`](crate::sources::pace).

mod limit;
mod range;
mod reading;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{try_join, try_join_all};
use redis::{RedisResult, Value, cmd};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::base::clock::Clock;
use crate::base::glob::Glob;
use crate::dialects::Recogniser;
use crate::lock::Key;
use crate::model::Observation;
use crate::server::InfoText;
use crate::sources::pace::{Budget, Pace};
use crate::topology::{Node, ServerConnection};

pub use limit::Shortfall;
use limit::{Course, Limit};
use range::Range;

/// Fewer keys than this are not worth a second walker.
const SPLIT_FROM: u64 = 100_000;
/// Pages of names that wait to be read.
const NAMES_WAITING: usize = 64;
/// One walk of a node's keyspace, as far as it has come.
#[derive(Debug)]
pub struct Pass {
    ranges: Vec<Range>,
    progress: Arc<Progress>,
    limit: Limit,
    unseen: Mutex<Unseen>,
    /// Ask the server how long nobody had used the keys. It makes sense only before our own first look.
    first: AtomicBool,
}

/// Keys that could not be read: how many, and the reason for the first.
#[derive(Debug, Default)]
struct Unseen {
    keys: u64,
    why: String,
}

/// How far a walk has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Keys walked over, by the sum of COUNT.
    pub walked: AtomicU64,
    /// Keys whose name may be a lock's.
    pub matched: AtomicU64,
    /// Keys under the patterns whose names say that they only belong to locks.
    pub helpers: AtomicU64,
    /// SCAN calls made.
    pub calls: AtomicU64,
    /// COUNT of the last call.
    pub count: AtomicU64,
    /// Keys that exist but could not be read.
    pub unread: AtomicU64,
    /// Those of them where the server refused it.
    pub denied: AtomicU64,
}

impl Progress {
    fn reset(&self) {
        for counter in
            [&self.walked, &self.matched, &self.helpers, &self.calls, &self.count, &self.unread, &self.denied]
        {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Names of one range that were read together.
struct Page {
    range: usize,
    names: Vec<Vec<u8>>,
}

/// What a walk needs.
pub struct Walk<'a, M> {
    pub node: &'a Node,
    /// Where the names of the keys are scanned: the node itself, or a replica of it.
    pub names: &'a Node,
    pub recogniser: &'a Recogniser,
    pub budget: &'a Budget,
    pub clock: Clock,
    /// The server's cursors allow a walk to be split.
    pub splittable: bool,
    /// Where what was seen goes, a page at a time.
    pub out: mpsc::Sender<M>,
}

impl Pass {
    pub fn new(progress: Arc<Progress>) -> Pass {
        progress.reset();
        let (limit, unseen) = (Limit::default(), Mutex::default());
        Pass { ranges: Vec::new(), progress, limit, unseen, first: AtomicBool::new(false) }
    }

    /// The first walk of all: our own looks have not yet reset for how long the keys were not used.
    pub fn first(progress: Arc<Progress>) -> Pass {
        Pass { first: AtomicBool::new(true), ..Pass::new(progress) }
    }

    /// Keys walked over and read: a new connection does not repeat them.
    pub fn settled(&self) -> u64 {
        self.ranges.iter().map(Range::settled).sum()
    }

    /// Why not everything was seen; `None` if it was.
    pub fn shortfall(&self) -> Option<Shortfall> {
        let unseen = self.unseen();
        match self.limit.exceeded() {
            Some(exceeded) => Some(exceeded.clone()),
            None if unseen.keys > 0 => Some(Shortfall::Unseen { keys: unseen.keys, why: unseen.why.clone() }),
            None => None,
        }
    }

    fn unseen(&self) -> std::sync::MutexGuard<'_, Unseen> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn could_not_see(&self, keys: usize, why: &str) {
        let mut unseen = self.unseen();
        if unseen.keys == 0 {
            unseen.why = why.to_string();
        }
        unseen.keys += keys as u64;
    }

    /// Continues to the end. After an error, call it again with a new connection.
    pub async fn walk(&mut self, walk: &Walk<'_, impl From<Vec<Observation>>>) -> RedisResult<()> {
        let looker = walk.node.connect().await?;
        if self.ranges.is_empty() {
            self.ranges = self.plan(walk, looker.clone()).await?;
        }
        self.ranges.iter().for_each(|range| range.go_back(&self.progress));
        let pass = &*self;
        let (names, waiting) = mpsc::channel(NAMES_WAITING);
        let ranges = pass.ranges.iter().enumerate().filter(|(_, range)| !range.is_done());
        let walkers = ranges.map(|(index, range)| {
            let names = names.clone();
            async move {
                let conn = walk.names.connect().await?;
                pass.walk_range(walk, (index, range), conn, names, |name| pass.keeps(walk.recogniser, name)).await
            }
        });
        let walkers: Vec<_> = walkers.collect();
        drop(names);
        try_join(try_join_all(walkers), pass.read_names(walk, looker, waiting)).await?;
        Ok(())
    }

    /// Reads these keys instead of walking the keyspace.
    pub async fn visit(&mut self, walk: &Walk<'_, impl From<Vec<Observation>>>, keys: &[Key]) -> RedisResult<()> {
        let conn = walk.node.connect().await?;
        let (names, waiting) = mpsc::channel(1);
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        self.progress.matched.store(keys.len() as u64, Ordering::Relaxed);
        self.ranges = vec![Range::whole()];
        self.ranges[0].hand_on();
        self.ranges[0].stop();
        let _ = names.try_send(Page { range: 0, names: keys });
        drop(names);
        self.read_names(walk, conn, waiting).await
    }

    /// Only the names that match the patterns, without reading the keys, until `take` breaks.
    pub async fn names(
        &mut self,
        walk: &Walk<'_, impl From<Vec<Observation>>>,
        mut take: impl FnMut(Vec<u8>) -> ControlFlow<()>,
    ) -> RedisResult<()> {
        let conn = walk.names.connect().await?;
        let (names, mut pages) = mpsc::channel::<Page>(1);
        let range = Range::whole();
        let taking = async {
            while let Some(page) = pages.recv().await {
                if page.names.into_iter().try_for_each(&mut take).is_break() {
                    break;
                }
                range.settle();
            }
            // A closed channel ends the walker.
            pages.close();
            Ok(())
        };
        let patterns = walk.recogniser.patterns();
        let walking = self.walk_range(walk, (0, &range), conn, names, |name| patterns.matches(name));
        try_join(walking, taking).await?;
        Ok(())
    }

    async fn plan(
        &self,
        walk: &Walk<'_, impl From<Vec<Observation>>>,
        mut conn: ServerConnection,
    ) -> RedisResult<Vec<Range>> {
        if walk.budget.pace() != Pace::Fast || !walk.splittable {
            return Ok(vec![Range::whole()]);
        }
        let keys: u64 = cmd("DBSIZE").query_async(&mut conn).await.unwrap_or(0);
        Ok(if keys >= SPLIT_FROM { Range::halves() } else { vec![Range::whole()] })
    }

    async fn walk_range(
        &self,
        walk: &Walk<'_, impl From<Vec<Observation>>>,
        (index, range): (usize, &Range),
        mut conn: ServerConnection,
        names: mpsc::Sender<Page>,
        keep: impl Fn(&[u8]) -> bool,
    ) -> RedisResult<()> {
        let progress: &Progress = &self.progress;
        let patterns = walk.recogniser.patterns();
        let single: Option<&Glob> = if patterns.len() == 1 { patterns.iter().next() } else { None };
        let mut course = Course::default();
        while let Some(from) = range.next() {
            let due = walk.budget.call_size().wants_figures();
            if due {
                let figures = scan_figures(&mut conn).await?;
                walk.budget.call_size().figures(figures);
            }
            let count = walk.budget.call_size().count();
            let mut call = cmd("SCAN");
            call.arg(from).arg("COUNT").arg(count);
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
            let walked = progress.walked.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
            let names_here = self.names_of(page, &keep);
            let matched = names_here.len();
            if matched > 0 {
                progress.matched.fetch_add(matched as u64, Ordering::Relaxed);
                range.hand_on();
            }
            range.move_to(cursor, count as u64, matched as u64);
            // Waits while reading is behind, so that the names in memory stay bounded.
            if matched > 0 && names.send(Page { range: index, names: names_here }).await.is_err() {
                return Ok(());
            }
            course.take(cursor);
            if !self.limit.permits(&mut course, walked, &mut conn).await? {
                range.stop();
            }
        }
        Ok(())
    }

    /// Whether the key can be a lock by its name. Helpers are counted.
    fn keeps(&self, recogniser: &Recogniser, name: &[u8]) -> bool {
        let named = recogniser.patterns().matches(name);
        let helper = named && recogniser.is_helper(name);
        if helper {
            self.progress.helpers.fetch_add(1, Ordering::Relaxed);
        }
        named && !helper
    }

    fn names_of(&self, page: Vec<Value>, keep: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let mut nameless = 0;
        let mut kept = |name| match name {
            Value::BulkString(name) => Some(name).filter(|name| keep(name)),
            _ => {
                nameless += 1;
                None
            }
        };
        let names = page.into_iter().filter_map(&mut kept).collect();
        if nameless > 0 {
            self.could_not_see(nameless, "SCAN named them by something that is no string");
        }
        names
    }
}

/// What SCAN has cost the server so far: calls and microseconds. `None` where we may not ask.
async fn scan_figures(conn: &mut ServerConnection) -> RedisResult<Option<(u64, u64)>> {
    let stats: String = match cmd("INFO").arg("commandstats").query_async(conn).await {
        Ok(stats) => stats,
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let info = InfoText::parse(&stats);
    let figure = |part| info.part_number("cmdstat_scan", part).unwrap_or(0);
    Ok(Some((figure("calls"), figure("usec"))))
}
