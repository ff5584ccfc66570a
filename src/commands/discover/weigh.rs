//! Weighs the evidence: does a keyspace hold locks, how sure is that, and why. Pure.
//!
//! If most keys are recognised as a library's locks, that decides. Otherwise no single sign is enough: tokens, short
//! TTLs and the words of the name must come together, because sessions and caches share each of them.

use std::time::Duration;

use super::evidence::{Evidence, Reading, Sort};
use super::words;
use crate::base::text::short_duration;
use crate::dialects::{Claim, dialect};
use crate::lock::Kind;

/// A keyspace is proposed at this confidence or more.
const LEAST: f32 = 0.5;
/// Weighed evidence never gives more confidence than this.
const MOST: f32 = 0.9;

/// A keyspace that looks like locks.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    pub dialect: &'static str,
    pub dialect_confidence: f32,
    /// How sure it is that these are locks.
    pub confidence: f32,
    /// `ls` lists them without any option.
    pub covered: bool,
    pub why: String,
}

/// The proposal on a keyspace whose names have `pattern`, if it looks like locks.
pub fn weigh(pattern: &str, evidence: &Evidence) -> Option<Proposal> {
    if evidence.looked == 0 {
        return None;
    }
    recognised(evidence).or_else(|| weighed(pattern, evidence))
}

/// At least half of the keys are recognised as locks of a known library.
fn recognised(evidence: &Evidence) -> Option<Proposal> {
    let reading = evidence.recognised.filter(|reading| reading.keys * 2 >= evidence.looked)?;
    let name = dialect(reading.dialect).name();
    let read = match (reading.kind, evidence.looked) {
        (Kind::Marker, 1) => "it reads as a marker of work that is done".into(),
        (Kind::Marker, all) => format!("{} read as markers of work that is done", share(reading.keys, all)),
        (Kind::Lock, 1) => format!("it reads as a lock {}", whose(&reading)),
        (Kind::Lock, all) => format!("{} read as locks {}", share(reading.keys, all), whose(&reading)),
    };
    Some(Proposal {
        dialect: name,
        dialect_confidence: reading.confidence,
        confidence: reading.confidence * reading.keys as f32 / evidence.looked as f32,
        covered: evidence.listed * 2 >= evidence.looked,
        why: format!("{read}; {}", expiry(evidence)),
    })
}

fn weighed(pattern: &str, evidence: &Evidence) -> Option<Proposal> {
    let reading = evidence.guessed.filter(|reading| reading.keys * 10 >= evidence.looked * 9)?;
    // Locks of one kind do not have mixed values.
    if evidence.of_sort * 10 < evidence.looked * 9 {
        return None;
    }
    let word = words::of_a_lock(pattern);
    let other = words::of_something_else(pattern);
    let score = weight_of_values(evidence)?
        + weight_of_expiry(evidence)
        + if word.is_some() { 0.3 } else { 0.0 }
        + if other.is_some() { -0.4 } else { 0.0 }
        + if evidence.looked < 3 { -0.1 } else { 0.0 };
    if score < LEAST - f32::EPSILON {
        return None;
    }
    let mut why: Vec<String> = word.map(|word| format!("its name says {word:?}")).into_iter().collect();
    why.push(values(evidence));
    why.push(expiry(evidence));
    Some(Proposal {
        dialect: dialect(reading.dialect).name(),
        dialect_confidence: reading.confidence,
        confidence: score.min(MOST),
        covered: false,
        why: why.join("; "),
    })
}

fn weight_of_values(evidence: &Evidence) -> Option<f32> {
    match evidence.sort {
        Sort::Token => Some(0.35),
        Sort::Worker => Some(0.25),
        Sort::Moment => Some(0.2),
        Sort::Flag => Some(0.1),
        Sort::Text => Some(0.0),
        Sort::Number | Sort::Document => None,
    }
}

/// Locks are short-lived. A key that lives for an hour may be one; for a day, hardly.
fn weight_of_expiry(evidence: &Evidence) -> f32 {
    const MINUTE: u64 = 60;
    if evidence.with_ttl * 10 < evidence.looked * 8 {
        return -0.3;
    }
    let left = evidence.median_ttl.unwrap_or(Duration::MAX).as_secs();
    match left {
        _ if left < 2 * MINUTE => 0.35,
        _ if left < 15 * MINUTE => 0.25,
        _ if left < 60 * MINUTE => 0.15,
        _ if left < 24 * 60 * MINUTE => -0.05,
        _ => -0.25,
    }
}

/// The library, and how sure that is.
fn whose(reading: &Reading) -> String {
    match dialect(reading.dialect).name() {
        "plain" | "reentrant" => "of no known library".into(),
        name if reading.confidence < Claim::SURE => format!("of {name} (a guess)"),
        name => format!("of {name}"),
    }
}

fn share(part: usize, whole: usize) -> String {
    format!("{part} of {whole}")
}

fn values(evidence: &Evidence) -> String {
    if evidence.looked == 1 && evidence.of_sort == 1 {
        return match evidence.sort {
            Sort::Token => "its value is a random token".into(),
            Sort::Worker => "its value names a machine or worker".into(),
            Sort::Moment => "its value is a recent time".into(),
            Sort::Flag => "its value is a flag".into(),
            _ => "its value is a short text".into(),
        };
    }
    let all = share(evidence.of_sort, evidence.looked);
    let different = format!("{} different", evidence.distinct);
    match evidence.sort {
        Sort::Token => format!("{all} values are random tokens, {different}"),
        Sort::Worker => format!("{all} values name a machine or worker, {different}"),
        Sort::Moment => format!("{all} values are recent times"),
        Sort::Flag => format!("{all} values are a flag"),
        _ => format!("{all} values are short texts, {different}"),
    }
}

fn expiry(evidence: &Evidence) -> String {
    match evidence.median_ttl {
        None if evidence.looked == 1 => "it never expires".into(),
        None => "none expires".into(),
        Some(median) => {
            let (all, within) = (share(evidence.with_ttl, evidence.looked), short_duration(median.as_millis() as u64));
            if evidence.looked == 1 {
                format!("it expires in {within}")
            } else if evidence.with_ttl == 1 {
                format!("{all} expires, in {within}")
            } else {
                format!("{all} expire, half of them within {within}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Looked;
    use super::*;
    use crate::base::glob::Glob;
    use crate::base::time::{Time, Ttl};
    use crate::dialects::Recogniser;
    use crate::lock::{Key, RawValue};

    const UUID: &str = "3f2a8c00-1111-4222-8333-44445555";

    fn proposal(pattern: &str, ttl: Option<u64>, value: impl Fn(usize) -> String) -> Option<Proposal> {
        let known = Recogniser::new(Vec::new(), Vec::new(), Vec::new());
        let asked = Recogniser::new(vec![Glob::new("*").unwrap()], Vec::new(), Vec::new());
        let keys: Vec<Looked> = (0..20)
            .map(|i| Looked {
                key: Key::from(pattern.replace('*', &i.to_string()).as_str()),
                value: RawValue::string(value(i).as_bytes()),
                ttl: ttl.map_or(Ttl::Never, |seconds| Ttl::In(Duration::from_secs(seconds))),
            })
            .collect();
        weigh(pattern, &Evidence::of(&keys, &known, &asked, Time(1_760_000_000_000)))
    }

    fn uuid(i: usize) -> String {
        format!("{UUID}{i:04x}")
    }

    #[test]
    fn locks_without_the_word_are_found() {
        let guard = proposal("billing:guard:*", Some(30), uuid).unwrap();
        assert!(!guard.covered && guard.confidence >= 0.9, "{guard:?}");
        assert_eq!(
            guard.why,
            "its name says \"guard\"; 20 of 20 values are random tokens, 20 different; \
             20 of 20 expire, half of them within 30.0s"
        );
        assert!(proposal("orders:*", Some(10), uuid).is_some());
        assert!(proposal("import:*", Some(30), |i| format!("web-{i}:4242")).is_some());
        assert!(proposal("processing:*", Some(60), |_| "1".into()).is_some());
        assert!(proposal("import:running:*", Some(60), |i| format!("17599990{i:02}")).is_some());
    }

    #[test]
    fn what_ls_lists_anyway_is_said_to_be_covered() {
        let lock = proposal("lock:*", Some(30), uuid).unwrap();
        assert!(lock.covered && lock.why.starts_with("20 of 20 read as locks of "), "{lock:?}");
        let marker = proposal("completed:*", Some(86_400), |_| "1".into()).unwrap();
        assert!(marker.covered && marker.why.contains("work that is done"), "{marker:?}");
    }

    #[test]
    fn sessions_caches_and_counters_are_no_locks() {
        type Value = fn(usize) -> String;
        let cases: [(&str, Option<u64>, Value); 16] = [
            ("session:*", Some(1800), uuid),
            ("session:*", Some(30), uuid),
            ("sess:*", Some(1800), |i| format!("{{\"user\":{i}}}")),
            ("csrf:*", Some(3600), uuid),
            ("otp:*", Some(300), |i| format!("{:06}", i * 7919)),
            ("refresh:*", Some(2_592_000), uuid),
            ("page:*", Some(60), |_| "<html></html>".into()),
            ("cache:user:*", Some(60), |i| format!("user-{i}")),
            ("geo:*", Some(60), |_| "Berlin".into()),
            ("views:*", None, |i| i.to_string()),
            ("rate:*", Some(30), |_| "1".into()),
            ("visits:*", Some(30), |i| (i + 1).to_string()),
            ("order:*", None, uuid),
            ("heartbeat:*", Some(30), |i| format!("17599990{i:02}")),
            ("user:*:email", None, |i| format!("user{i}@example.com")),
            ("greeting:*", Some(60), |_| "hello dear reader of this page".into()),
        ];
        for (pattern, ttl, value) in cases {
            assert_eq!(proposal(pattern, ttl, value), None, "{pattern}");
        }
    }
}
