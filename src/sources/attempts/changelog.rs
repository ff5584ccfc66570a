//! Attempts from the changelog of sidekiq-unique-jobs: a sorted set of the last thousand things its scripts did, each with
//! the digest of a lock and a word for the outcome.
//!
//! Only new entries are read, and only outcomes count: a job that meets its own lock again is not an attempt. A digest
//! without entries has no rate, since its workers may not write any.

use std::collections::{HashMap, HashSet};

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};
use serde::Deserialize;

use super::counter_rate::{Reading, Readings};
use super::{Rates, has_room};
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::Tries;
use crate::sources::query::LockQuery;

const CHANGELOG: &str = "uniquejobs:changelog";
const LOCKED: &[u8] = b":LOCKED";
/// The library keeps this many entries by default, and we read at most this many at once.
const ENTRIES: usize = 1_000;
/// An entry has the time of the worker that wrote it; we allow the workers' clocks to differ by this much.
const APART_S: f64 = 3.0;

/// What was read so far.
#[derive(Default)]
pub struct Changelog {
    /// The newest entry's time, by the clock of its worker; `None` before the first read.
    newest: Option<f64>,
    /// Entries that will be read again.
    seen: HashSet<Vec<u8>>,
    digests: HashMap<Vec<u8>, Counted>,
}

#[derive(Default)]
struct Counted {
    attempts: u64,
    failures: u64,
    readings: Readings,
}

/// The fields of an entry that we need.
#[derive(Deserialize)]
struct Entry {
    digest: String,
    message: String,
}

impl Entry {
    /// Whether the attempt failed; `None` where it was no attempt.
    fn failed(&self) -> Option<bool> {
        match self.message.as_str() {
            "Locked" => Some(false),
            "Limited" | "Limit exceeded" => Some(true),
            _ => None,
        }
    }
}

impl Changelog {
    /// The rates of the locks that have entries. Sends nothing if no lock is of that library. An error means that the
    /// connection is lost.
    pub async fn ask(&mut self, conn: &mut impl ConnectionLike, queries: &[LockQuery], now: Time) -> Rates {
        let keys: Vec<&Key> = queries.iter().filter(|query| query.publishes).map(|asked| &asked.key).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        match self.newest {
            None => pipe.cmd("ZRANGE").arg(CHANGELOG).arg(-1).arg(-1).arg("WITHSCORES"),
            Some(newest) => pipe
                .cmd("ZRANGEBYSCORE")
                .arg(CHANGELOG)
                .arg(newest - APART_S)
                .arg("+inf")
                .arg("WITHSCORES")
                .arg("LIMIT")
                .arg(0)
                .arg(ENTRIES),
        };
        let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
        let answer = answers.into_iter().next().and_then(Result::ok);
        let entries: Option<Vec<(Vec<u8>, f64)>> = answer.and_then(|answer| redis::from_redis_value(answer).ok());
        // It does not exist, or we may not read it.
        let Some(entries) = entries else { return Ok(Vec::new()) };
        self.take(entries, now);
        Ok(keys.into_iter().filter_map(|key| Some((key.clone(), self.rate(key, now)?))).collect())
    }

    fn take(&mut self, entries: Vec<(Vec<u8>, f64)>, now: Time) {
        let is_first = self.newest.is_none();
        // All known entries are gone, or there were too many to read: we missed some.
        let missed = entries.len() >= ENTRIES || !entries.iter().any(|(entry, _)| self.seen.contains(entry));
        if missed && !entries.is_empty() {
            self.digests.clear();
        }
        let newest = entries
            .iter()
            .map(|(_, score)| *score)
            .fold(self.newest, |newest, score| Some(newest.map_or(score, |newest| newest.max(score))));
        for (entry, _) in entries.iter().filter(|(entry, _)| !is_first && !missed && !self.seen.contains(entry)) {
            let Ok(entry) = serde_json::from_slice::<Entry>(entry) else { continue };
            let Some(failed) = entry.failed() else { continue };
            let digest = entry.digest.into_bytes();
            if has_room(&mut self.digests, &digest, |counted| counted.readings.is_fresh(now)) {
                let counted = self.digests.entry(digest).or_default();
                counted.attempts += 1;
                counted.failures += u64::from(failed);
            }
        }
        let again = |score: f64| newest.is_some_and(|newest| score >= newest - APART_S);
        self.seen = entries.into_iter().filter(|(_, score)| again(*score)).map(|(entry, _)| entry).collect();
        self.newest = newest;
    }

    fn rate(&mut self, key: &Key, at: Time) -> Option<Tries> {
        let digest = key.as_bytes().strip_suffix(LOCKED)?;
        let Counted { attempts, failures, readings } = self.digests.get_mut(digest)?;
        readings.take(Reading { at, attempts: *attempts, failures: *failures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "uniquejobs:0123456789abcdef0123456789abcdef";

    fn entry(number: u32, message: &str, at: f64) -> (Vec<u8>, f64) {
        let text = format!(
            r#"{{"digest":"{DIGEST}","job_id":"{number}","script":"lock.lua","message":"{message}","time":{at}}}"#
        );
        (text.into_bytes(), at)
    }

    fn rate(changelog: &mut Changelog, at_s: i64) -> Option<(u64, u64)> {
        let key = Key::from(format!("{DIGEST}:LOCKED").as_str());
        changelog.rate(&key, Time(at_s * 1_000)).map(|tries| (tries.attempts, tries.failures))
    }

    #[test]
    fn outcomes_are_counted_once_and_nothing_else_is() {
        let mut changelog = Changelog::default();
        let old = entry(0, "Limited", 100.0);
        changelog.take(vec![old.clone()], Time(0));
        assert_eq!(rate(&mut changelog, 0), None, "what was there before says nothing of now");
        let first = [old, entry(1, "Limited", 101.0), entry(2, "Queued", 101.0), entry(2, "Locked", 101.5)];
        changelog.take(first.to_vec(), Time(2_000));
        assert_eq!(rate(&mut changelog, 2), None, "one look makes no rate");
        let more = [entry(3, "Limit exceeded", 102.0), entry(2, "Duplicate", 102.0)];
        changelog.take([&first[..], &more].concat(), Time(4_000));
        assert_eq!(rate(&mut changelog, 4), Some((1, 1)));
        changelog.take([&first[..], &more].concat(), Time(6_000));
        assert_eq!(rate(&mut changelog, 6), Some((1, 1)), "read again, not counted again");
    }

    #[test]
    fn where_entries_were_missed_counting_begins_anew() {
        let mut changelog = Changelog::default();
        changelog.take(vec![entry(0, "Limited", 100.0)], Time(0));
        changelog.take(vec![entry(0, "Limited", 100.0), entry(1, "Limited", 101.0)], Time(2_000));
        rate(&mut changelog, 2);
        // All entries that we knew were trimmed.
        changelog.take(vec![entry(8, "Limited", 103.0)], Time(4_000));
        assert_eq!(rate(&mut changelog, 4), None);
    }

    #[test]
    fn rubbish_is_left_out() {
        let mut changelog = Changelog::default();
        let known = entry(0, "Limited", 100.0);
        changelog.take(vec![known.clone()], Time(0));
        changelog.take(vec![known, (b"\xff{".to_vec(), 101.0), (b"[]".to_vec(), 102.0)], Time(2_000));
        assert!(changelog.digests.is_empty());
    }
}
