//! Attempts that our scripts count: the counting scripts of `lua/` keep a small hash beside each lock.
//!
//! Two readings of a hash make an exact rate. One EXISTS asks about all locks without a known hash; only locks with one are
//! read one by one.

use std::collections::HashMap;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use super::counter_rate::{Reading, Readings};
use super::{Rates, has_room};
use crate::base::time::Time;
use crate::dialects::own;
use crate::lock::Key;
use crate::model::Tries;
use crate::sources::query::LockQuery;

/// The locks that have counts, with the last few readings of each.
#[derive(Default)]
pub struct Counts {
    known: HashMap<Key, Readings>,
}

impl Counts {
    /// Asks about at most [`BATCH`](crate::sources::query::BATCH) locks; those that have counts and were asked about before get their
    /// rates. What may not be asked is left out; an error means that the connection is lost.
    pub async fn ask(
        &mut self,
        conn: &mut impl ConnectionLike,
        queries: &[LockQuery],
        in_cluster: bool,
        now: Time,
    ) -> Rates {
        let (known, others): (Vec<&Key>, Vec<&Key>) =
            queries.iter().map(|query| &query.key).partition(|key| self.known.contains_key(*key));
        let mut pipe = redis::pipe();
        for key in &known {
            ask_one(&mut pipe, key);
        }
        // A cluster refuses to be asked about several slots at once.
        for keys in others.chunks(if in_cluster { 1 } else { others.len().max(1) }) {
            pipe.cmd("EXISTS");
            for key in keys {
                pipe.arg(own::counts_key(key.as_bytes()));
            }
        }
        let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
        let mut answers = answers.into_iter();
        let mut rates = Vec::new();
        for key in known {
            rates.extend(self.take(key, answers.next(), now));
        }
        let some = answers.any(|answer| matches!(answer, Ok(Value::Int(1..))));
        if some {
            let mut pipe = redis::pipe();
            for key in &others {
                ask_one(&mut pipe, key);
            }
            let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
            for (key, answer) in others.into_iter().zip(answers) {
                rates.extend(self.take(key, Some(answer), now));
            }
        }
        Ok(rates)
    }

    fn take(&mut self, key: &Key, answer: Option<RedisResult<Value>>, now: Time) -> Option<(Key, Tries)> {
        let Some(reading) = answer.and_then(|answer| Reading::read(answer.ok()?, now)) else {
            self.known.remove(key);
            return None;
        };
        if !has_room(&mut self.known, key, |readings| readings.is_fresh(now)) {
            return None;
        }
        let tries = self.known.entry(key.clone()).or_default().take(reading);
        tries.map(|tries| (key.clone(), tries))
    }
}

fn ask_one(pipe: &mut redis::Pipeline, key: &Key) {
    pipe.cmd("HMGET").arg(own::counts_key(key.as_bytes())).arg("attempts").arg("failures");
}

impl Reading {
    /// The two fields; `None` where there are none, or they are not numbers.
    fn read(answer: Value, at: Time) -> Option<Reading> {
        let (attempts, failures): (Option<u64>, Option<u64>) = redis::from_redis_value(answer).ok()?;
        Some(Reading { at, attempts: attempts?, failures: failures? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_else_in_its_place_is_no_count() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let two = |a, b| Reading::read(Value::Array(vec![a, b]), Time(0));
        assert_eq!(two(Value::Nil, Value::Nil), None);
        assert_eq!(two(text("x"), text("1")), None);
        assert_eq!(two(text("7"), text("5")), Some(Reading { at: Time(0), attempts: 7, failures: 5 }));
    }
}
