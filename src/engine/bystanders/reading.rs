//! Reads what a deposed master has: the keys that are held where they are, and those met on walks of its keyspace.
//!
//! It serves nobody who should be served, so its time is not budgeted; but each round is short. A walk of a large keyspace
//! takes several rounds.

use std::collections::BTreeSet;

use redis::{RedisResult, cmd};

use super::attend::Post;
use crate::lock::Key;
use crate::model::{OfDeposed, Seen};
use crate::sources::look::{Look, Wanted, look_around};
use crate::topology::ServerConnection;

/// Keys that are met on walks and kept.
const MET: usize = 4_096;
/// Calls of SCAN in a round, and the keys of each.
const CALLS: usize = 10;
const COUNT: usize = 1_000;
/// Keys read together.
const BATCH: usize = 256;

/// The reading of one deposed master.
#[derive(Default)]
pub(super) struct Reading {
    met: BTreeSet<Key>,
    /// The cursor of the walk under way.
    cursor: u64,
    /// This walk left keys out.
    short: bool,
    begun: bool,
}

impl Reading {
    /// Something was read.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    pub async fn read(&mut self, conn: &mut ServerConnection, post: &Post) -> RedisResult<Vec<OfDeposed>> {
        self.begun = true;
        let walked = self.walk(conn, post).await?;
        let named = post.wanted.borrow().clone();
        let keys: Vec<Key> = self.met.iter().cloned().chain(named).collect::<BTreeSet<Key>>().into_iter().collect();
        let mut page = Vec::with_capacity(keys.len() + 1);
        for batch in keys.chunks(BATCH) {
            let hint = |key: &'_ Key| post.recogniser.field_hint(key.as_bytes());
            let wanted: Vec<Wanted> = batch.iter().map(|key| Wanted { key: key.as_bytes(), hint: hint(key) }).collect();
            let asked = post.clock.now();
            let looks = match look_around(conn, &wanted).await {
                Ok(looks) => looks,
                // It serves nobody: its clients work on with what they hold.
                Err(error) if error.code().is_some() => {
                    self.short = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let answered = post.clock.now();
            for (key, look) in batch.iter().zip(looks) {
                match look {
                    Look::Seen(seen) => {
                        if seen == Seen::Absent {
                            self.met.remove(key);
                        }
                        page.push(OfDeposed::Has { key: key.clone(), asked, answered, seen });
                    }
                    Look::Changed | Look::Elsewhere(_) => self.short = true,
                }
            }
        }
        if walked && !std::mem::take(&mut self.short) {
            page.push(OfDeposed::Walked);
        }
        Ok(page)
    }

    /// Goes on with the walk; returns whether it has come to the end. Then the next round begins.
    async fn walk(&mut self, conn: &mut ServerConnection, post: &Post) -> RedisResult<bool> {
        for _ in 0..CALLS {
            let (cursor, names): (u64, Vec<Vec<u8>>) =
                match cmd("SCAN").arg(self.cursor).arg("COUNT").arg(COUNT).query_async(conn).await {
                    Ok(answer) => answer,
                    // Not permitted, or not now: then only what the table names is read.
                    Err(error) if error.code().is_some() => {
                        self.short = true;
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                };
            for name in names.into_iter().filter(|name| post.recogniser.may_be_lock(name)) {
                if self.met.len() < MET {
                    self.met.insert(Key::from(name));
                } else {
                    self.short = true;
                }
            }
            self.cursor = cursor;
            if cursor == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
