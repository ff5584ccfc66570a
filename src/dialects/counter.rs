//! Numbers that may count the permits of a semaphore. Pure.
//!
//! A small number alone may be a count or a token: Redisson keeps the permits that are left in a string, and some job
//! queues store `1` for "taken". Only its surroundings decide: who listens, and how it changes.

use super::redisson;
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
}
