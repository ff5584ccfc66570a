//! Numbers that may count the permits of a semaphore. Pure.
//!
//! A small number alone may be a count or a token: Redisson keeps the permits that are left in a string, and some job
//! queues store `1` for "taken". Only its surroundings decide: who listens, and how it changes.

use super::{redisson, shape};
use crate::lock::RawValue;

/// Larger numbers are process ids, times, or anything but permits.
const MOST: i64 = 99_999;

/// The number that the value is, if it is one that could count permits.
pub fn number(value: &RawValue) -> Option<i64> {
    let text = std::str::from_utf8(value.as_string()?).ok()?;
    let number: i64 = text.parse().ok()?;
    // As INCR writes it: no sign before a positive one, no zeros in front.
    (number.to_string() == text && number.abs() <= MOST).then_some(number)
}

/// Names of numbers that count something and are held by nobody: fencing tokens, statistics.
const TALLIES: [&str; 14] = [
    "attempts", "count", "counter", "counters", "counts", "failures", "fence", "fencing", "hits", "seq", "sequence",
    "stats", "total", "version",
];

/// Whether it is a number under a name that says that it counts.
pub fn is_tally(key: &[u8], value: &RawValue) -> bool {
    let number = value.as_string().is_some_and(|text| text.len() <= 18 && shape::is_decimal(text));
    number && shape::words(key).iter().any(|word| TALLIES.contains(&word.as_str()))
}

/// Whether it can only be a count: no token of a lock is zero or negative.
pub fn is_spent(value: &RawValue) -> bool {
    number(value).is_some_and(|number| number <= 0)
}

/// Whether a string that was the one number and is now the other, with no end in between, counts: permits in use go up
/// and down one by one.
pub fn steps(before: &RawValue, after: &RawValue) -> bool {
    /// A larger number is a process that took a lock over from another.
    const MOST: i64 = 999;
    let (Some(before), Some(after)) = (number(before), number(after)) else { return false };
    before != after && before.abs().max(after.abs()) <= MOST
}

/// The channel on which a semaphore of this name announces returned permits.
pub fn channel(key: &[u8]) -> Vec<u8> {
    redisson::permits_channel(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_whole_numbers_can_count_permits() {
        for text in ["0", "1", "12", "-3", "99999"] {
            assert_eq!(number(&RawValue::string(text.as_bytes())), text.parse().ok());
        }
        for text in ["", "01", "+1", "1.0", "1e3", "one", "1759999000", "100000", " 1"] {
            assert_eq!(number(&RawValue::string(text.as_bytes())), None, "{text:?}");
        }
        assert_eq!(number(&RawValue::hash([])), None);
    }

    #[test]
    fn a_number_whose_name_says_that_it_counts_is_no_lock() {
        let value = RawValue::string(b"4711");
        for key in ["lock:fencing-tokens", "@simple-redis-mutex:fencing-tokens", "lock:failures", "mutexCount"] {
            assert!(is_tally(key.as_bytes(), &value), "{key}");
        }
        assert!(!is_tally(b"lock:import", &value) && !is_tally(b"lock:count", &RawValue::string(b"worker-7")));
        assert!(steps(&value, &value) == is_spent(&value));
        let [one, two, zero] = ["1", "2", "0"].map(|text| RawValue::string(text.as_bytes()));
        assert!(steps(&one, &two) && is_spent(&zero) && !is_spent(&one) && !steps(&one, &value));
    }
}
