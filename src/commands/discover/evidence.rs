//! What some keys of a keyspace show: readings, values, TTLs. Pure.

use std::collections::HashSet;
use std::time::Duration;

use super::shape::{is_random, is_random_base64};
use crate::base::time::{Time, Ttl};
use crate::dialects::{Best, DialectId, Recogniser, shape};
use crate::lock::{Key, Kind, RawValue};

/// One key that was read.
#[derive(Clone, Debug)]
pub struct Looked {
    pub key: Key,
    pub value: RawValue,
    pub ttl: Ttl,
}

/// The kind of the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Random, as a lock's token is.
    Token,
    /// The name of a machine, a process or a worker.
    Worker,
    /// A word that says "taken".
    Flag,
    /// A time of about now.
    Moment,
    Number,
    /// Some other short text.
    Text,
    /// Too long or too structured, or of a type that says nothing by itself.
    Document,
}

/// A library that keys were read as.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    pub dialect: DialectId,
    /// How many keys have this reading.
    pub keys: usize,
    /// The mean confidence of the readings.
    pub confidence: f32,
    pub kind: Kind,
}

/// What the keys of a keyspace show together.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// Keys whose value was seen.
    pub looked: usize,
    /// The library that most keys are read as: by themselves, and as if the user had named the keyspace.
    pub recognised: Option<Reading>,
    pub guessed: Option<Reading>,
    /// Keys that `ls` lists without any option.
    pub listed: usize,
    pub sort: Sort,
    /// How many are of that sort.
    pub of_sort: usize,
    pub distinct: usize,
    pub with_ttl: usize,
    /// The median TTL of the keys that have one.
    pub median_ttl: Option<Duration>,
}

impl Evidence {
    /// `known` reads as `ls` does by itself, `asked` as if the user had named the keyspace.
    pub fn of(keys: &[Looked], known: &Recogniser, asked: &Recogniser, now: Time) -> Evidence {
        let read = |by: &Recogniser, looked: &Looked| by.read(looked.key.as_bytes(), &looked.value, looked.ttl, now);
        let by_itself: Vec<Option<Best>> = keys.iter().map(|looked| read(known, looked)).collect();
        let pointed_at: Vec<Option<Best>> = keys.iter().map(|looked| read(asked, looked)).collect();
        let listed = keys
            .iter()
            .zip(&by_itself)
            .filter(|(looked, best)| best.is_some() && known.may_be_lock(looked.key.as_bytes()))
            .count();
        let tokens: Vec<Option<&[u8]>> =
            keys.iter().zip(&pointed_at).map(|(looked, best)| token(looked, best.as_ref())).collect();
        let (sort, of_sort) = dominant(&tokens, now);
        let distinct = tokens.iter().flatten().collect::<HashSet<_>>().len();
        let mut ttls: Vec<Duration> = keys.iter().filter_map(|looked| looked.ttl.remaining()).collect();
        ttls.sort();
        Evidence {
            looked: keys.len(),
            recognised: most_read(&by_itself),
            guessed: most_read(&pointed_at),
            listed,
            sort,
            of_sort,
            distinct,
            with_ttl: ttls.len(),
            median_ttl: ttls.get(ttls.len() / 2).copied(),
        }
    }
}

fn most_read(readings: &[Option<Best>]) -> Option<Reading> {
    let mut found: Vec<Reading> = Vec::new();
    for best in readings.iter().flatten() {
        match found.iter_mut().find(|reading| reading.dialect == best.dialect) {
            Some(reading) => {
                reading.keys += 1;
                reading.confidence += best.claim.strength.number();
            }
            None => found.push(Reading {
                dialect: best.dialect,
                keys: 1,
                confidence: best.claim.strength.number(),
                kind: best.claim.kind,
            }),
        }
    }
    let mut most = found.into_iter().max_by_key(|reading| reading.keys)?;
    most.confidence /= most.keys as f32;
    Some(most)
}

/// The value in the holder's place: the string, or the first holder that a library finds in a collection.
fn token<'a>(looked: &'a Looked, best: Option<&'a Best>) -> Option<&'a [u8]> {
    match &looked.value {
        RawValue::Str { .. } => looked.value.as_string(),
        _ => best.and_then(|best| best.claim.holders.first()).map(|holder| holder.token.as_bytes()),
    }
}

/// The sort of most values. Numbers are flags if they are all `1`, and moments if they are all times.
fn dominant(tokens: &[Option<&[u8]>], now: Time) -> (Sort, usize) {
    let sorts: Vec<Sort> = tokens.iter().map(|token| token.map_or(Sort::Document, |token| sort(token, now))).collect();
    let all = [Sort::Token, Sort::Worker, Sort::Flag, Sort::Moment, Sort::Number, Sort::Text, Sort::Document];
    let count = |sort: Sort| sorts.iter().filter(|other| **other == sort).count();
    if count(Sort::Number) > 0 && count(Sort::Flag) > 0 {
        return (Sort::Number, count(Sort::Number) + count(Sort::Flag));
    }
    all.into_iter().map(|sort| (sort, count(sort))).max_by_key(|(_, count)| *count).unwrap_or((Sort::Document, 0))
}

fn sort(value: &[u8], now: Time) -> Sort {
    if !shape::could_be_token(value) {
        return Sort::Document;
    }
    let Ok(text) = std::str::from_utf8(value) else { return Sort::Token };
    if is_flag(text) {
        Sort::Flag
    } else if shape::plausible_epoch(value, now).is_some() {
        Sort::Moment
    } else if text.parse::<f64>().is_ok() {
        Sort::Number
    } else if is_token(value) {
        Sort::Token
    } else if is_worker(text) {
        Sort::Worker
    } else {
        Sort::Text
    }
}

fn is_flag(text: &str) -> bool {
    const FLAGS: [&str; 11] = ["1", "true", "yes", "ok", "locked", "lock", "taken", "busy", "running", "held", "x"];
    FLAGS.iter().any(|flag| text.eq_ignore_ascii_case(flag))
}

/// Whether the value is random, as a whole or in a part beside a host or a thread.
fn is_token(value: &[u8]) -> bool {
    let random = |part: &[u8]| {
        let hex = part.len() >= 16 && part.iter().all(u8::is_ascii_hexdigit) && part.iter().any(u8::is_ascii_digit);
        shape::is_uuid(part) || hex || (part.len() >= 10 && is_random(part))
    };
    let base64 = value.len() >= 16 && is_random_base64(value);
    let uuid = value.windows(36).any(shape::is_uuid);
    base64 || uuid || value.split(|byte| b":/@|, ".contains(byte)).any(random)
}

/// `worker-7`, `web-1:4242`, `10.0.3.7:51322`: a name and a number, but not a path, a URL or a date.
fn is_worker(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-._@#".contains(c);
    let mut parts = text.split([':', '-', '.', '_', '@', '#']).filter(|part| !part.is_empty());
    let named = parts.next().is_some_and(|first| first.starts_with(|c: char| c.is_ascii_alphabetic()));
    let numbered = parts.any(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let address = text.rsplit_once(':').map_or(text, |(host, _)| host).parse::<std::net::IpAddr>().is_ok();
    text.len() <= 100 && text.chars().all(allowed) && (named && numbered || address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_760_000_000_000);

    #[test]
    fn values_are_told_apart() {
        for (value, expected) in [
            ("3f2a8c00-1111-4222-8333-444455556666", Sort::Token),
            ("3f2a8c00-1111-4222-8333-444455556666:57", Sort::Token),
            ("c232ab00941411ecb3c89f6bdeced846", Sort::Token),
            ("web-1:9f8a7c6b5d4e3f21", Sort::Token),
            ("q8Zr2mK0vT5bXw1Lc7Yd", Sort::Token),
            ("worker-7", Sort::Worker),
            ("web-1.eu:4242", Sort::Worker),
            ("10.0.3.7:51322", Sort::Worker),
            ("1", Sort::Flag),
            ("locked", Sort::Flag),
            ("1759999000", Sort::Moment),
            ("17", Sort::Number),
            ("3.25", Sort::Number),
            ("Berlin", Sort::Text),
            ("/img/17", Sort::Text),
            ("2024-11-05", Sort::Text),
            ("https://example.com/17", Sort::Text),
            ("{\"a\":1}", Sort::Document),
            ("<html>", Sort::Document),
            ("the quick brown fox jumps over", Sort::Document),
        ] {
            assert_eq!(sort(value.as_bytes(), NOW), expected, "{value}");
        }
        assert_eq!(sort(&[0xff; 20], NOW), Sort::Token);
    }

    #[test]
    fn a_one_among_numbers_is_a_number() {
        let values = |values: &[&'static str]| {
            let tokens: Vec<Option<&[u8]>> = values.iter().map(|value| Some(value.as_bytes())).collect();
            dominant(&tokens, NOW)
        };
        assert_eq!(values(&["1", "1", "4"]), (Sort::Number, 3));
        assert_eq!(values(&["1", "1", "1"]), (Sort::Flag, 3));
    }
}
