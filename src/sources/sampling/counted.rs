//! Attempts that are counted where they are made: the counting scripts of `lua/` keep a small hash beside each lock.
//!
//! Two looks at a hash make a rate, in which each attempt is. Locks without such a hash are asked about together, in one
//! command for all of them; only those that have one are asked alone.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use super::Question;
use crate::base::rate::Growth;
use crate::base::time::Time;
use crate::dialects::own;
use crate::lock::Key;
use crate::model::{Tries, TriesFrom};

/// As many locks with counts as are kept.
const MOST: usize = 4_096;

/// Rates are of so long at most: what was counted before says little of now.
const SPAN: Duration = Duration::from_secs(12);
/// Two looks closer than this make no rate.
const SHORTEST: Duration = Duration::from_millis(500);
/// What was not looked at for so long is begun anew.
const OLD: Duration = Duration::from_secs(60);

/// The counts of one lock at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Look {
    pub at: Time,
    pub attempts: u64,
    pub failures: u64,
}

/// The last few looks at the counts of one lock.
pub(super) struct Looks(Growth<2>);

impl Default for Looks {
    fn default() -> Looks {
        Looks(Growth::over(SPAN))
    }
}

impl Looks {
    /// Whether the next look would still make a rate.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.0.last().is_some_and(|last| now.since(last) < OLD)
    }

    /// Adds a look; the rate from the oldest that still counts.
    pub fn take(&mut self, look: Look) -> Option<Tries> {
        if self.0.last().is_some_and(|last| look.at.since(last) > OLD) {
            *self = Looks::default();
        }
        self.0.note(look.at, [look.attempts, look.failures]);
        let (span, [attempts, failures]) = self.0.added().filter(|(span, _)| *span >= SHORTEST)?;
        let (from, at) = (TriesFrom::Counted, look.at);
        Some(Tries { attempts, failures, unjudged: 0, looked: span, span, margin_per_s: 0.0, from, at })
    }
}

/// The locks that have counts, and what those were at the last few looks.
#[derive(Default)]
pub struct Counts {
    known: HashMap<Key, Looks>,
}

impl Counts {
    /// Asks about at most [`BATCH`](super::BATCH) locks; those that have counts and were asked about before get their
    /// rates. What may not be asked is left out; an error means that the connection is lost.
    pub async fn ask(
        &mut self,
        conn: &mut impl ConnectionLike,
        questions: &[Question],
        now: Time,
    ) -> RedisResult<Vec<(Key, Tries)>> {
        let (known, others): (Vec<&Key>, Vec<&Key>) =
            questions.iter().map(|question| &question.key).partition(|key| self.known.contains_key(*key));
        let mut pipe = redis::pipe();
        for key in &known {
            ask_one(&mut pipe, key);
        }
        if !others.is_empty() {
            pipe.cmd("EXISTS");
            for key in &others {
                pipe.arg(own::counts_key(key.as_bytes()));
            }
        }
        let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
        let mut answers = answers.into_iter();
        let mut rates = Vec::new();
        for key in known {
            rates.extend(self.take(key, answers.next(), now));
        }
        let some = matches!(answers.next(), Some(Ok(Value::Int(1..))));
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
        let Some(look) = answer.and_then(|answer| Look::read(answer.ok()?, now)) else {
            self.known.remove(key);
            return None;
        };
        if self.known.len() >= MOST && !self.known.contains_key(key) {
            self.known.retain(|_, looks| looks.is_fresh(now));
            if self.known.len() >= MOST {
                return None;
            }
        }
        let tries = self.known.entry(key.clone()).or_default().take(look);
        tries.map(|tries| (key.clone(), tries))
    }
}

fn ask_one(pipe: &mut redis::Pipeline, key: &Key) {
    pipe.cmd("HMGET").arg(own::counts_key(key.as_bytes())).arg("attempts").arg("failures");
}

impl Look {
    /// The two fields; `None` where there are no counts, or something else stands in their place.
    fn read(answer: Value, at: Time) -> Option<Look> {
        let (attempts, failures): (Option<u64>, Option<u64>) = redis::from_redis_value(answer).ok()?;
        Some(Look { at, attempts: attempts?, failures: failures? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(s: i64, attempts: u64, failures: u64) -> Look {
        Look { at: Time(s * 1_000), attempts, failures }
    }

    #[test]
    fn one_look_makes_no_rate_and_two_do() {
        let mut looks = Looks::default();
        assert_eq!(looks.take(look(0, 1_000, 900)), None);
        let tries = looks.take(look(2, 1_010, 908)).unwrap();
        assert_eq!((tries.attempts_per_s(), tries.failures_per_s(), tries.coverage()), (5.0, 4.0, 1.0));
        assert_eq!((tries.from, tries.margin_per_s), (TriesFrom::Counted, 0.0));
    }

    #[test]
    fn counts_that_went_down_make_no_rate() {
        let mut looks = Looks::default();
        looks.take(look(0, 1_000, 900));
        assert_eq!(looks.take(look(2, 3, 2)), None);
        assert_eq!(looks.take(look(4, 5, 2)).unwrap().attempts, 2);
    }

    #[test]
    fn a_rate_is_of_the_last_seconds() {
        let mut looks = Looks::default();
        for s in (0..60).step_by(2) {
            looks.take(look(s, 100, 100));
        }
        let tries = looks.take(look(60, 112, 112)).unwrap();
        assert_eq!((tries.failures, tries.span), (12, SPAN));
        assert_eq!(looks.take(look(300, 500, 500)), None, "what happened long ago says nothing of now");
    }

    #[test]
    fn something_else_in_its_place_is_no_count() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let two = |a, b| Look::read(Value::Array(vec![a, b]), Time(0));
        assert_eq!(two(Value::Nil, Value::Nil), None);
        assert_eq!(two(text("x"), text("1")), None);
        assert_eq!(two(text("7"), text("5")), Some(Look { at: Time(0), attempts: 7, failures: 5 }));
    }
}
