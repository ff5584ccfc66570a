//! Counts the keys that have the name of a lock but are not locks, by their kind. A user who misses a lock in a list can
//! see why it is not there. Pure.

use super::{counter, shape};
use crate::lock::RawValue;

/// Why a key that was read is no lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Helper,
    List,
    Set,
    Hash,
    Zset,
    Counter,
    Text,
    Other,
}

impl Kind {
    const ALL: [Kind; 8] =
        [Kind::Helper, Kind::List, Kind::Set, Kind::Hash, Kind::Zset, Kind::Counter, Kind::Text, Kind::Other];

    fn of(key: &[u8], value: &RawValue) -> Option<Kind> {
        Some(match value {
            RawValue::List { .. } => Kind::List,
            RawValue::Set { .. } => Kind::Set,
            RawValue::Hash { .. } => Kind::Hash,
            RawValue::Zset { .. } => Kind::Zset,
            RawValue::Str { head, .. } if counter::is_tally(key, value) || shape::is_decimal(head) => Kind::Counter,
            RawValue::Str { .. } => Kind::Text,
            RawValue::Other(_) => Kind::Other,
            // Listed with its own reason.
            RawValue::Unread { .. } => return None,
        })
    }

    fn words(self, count: u64) -> String {
        let (one, many) = match self {
            Kind::Helper => ("helper key of a lock", "helper keys of locks"),
            Kind::List => ("list", "lists"),
            Kind::Set => ("set", "sets"),
            Kind::Hash => ("hash of something else", "hashes of something else"),
            Kind::Zset => ("sorted set of something else", "sorted sets of something else"),
            Kind::Counter => ("number that counts", "numbers that count"),
            Kind::Text => ("value that is no token", "values that are no token"),
            Kind::Other => ("stream or other type", "streams and other types"),
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }
}

/// How many there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftOut([u64; Kind::ALL.len()]);

impl LeftOut {
    /// Keys that belong to locks, known by their names.
    pub fn helpers(count: u64) -> LeftOut {
        let mut left_out = LeftOut::default();
        left_out.0[Kind::Helper as usize] = count;
        left_out
    }

    /// So many keys like this one, which read as no lock.
    pub fn add(&mut self, key: &[u8], value: &RawValue, keys: u64) {
        if let Some(kind) = Kind::of(key, value) {
            self.0[kind as usize] += keys;
        }
    }

    pub fn and(mut self, other: LeftOut) -> LeftOut {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
        self
    }

    /// `7 keys with such names are not locks: 5 lists, 2 helper keys of locks`; `None` where there are none.
    pub fn sentence(&self) -> Option<String> {
        let some: Vec<String> = Kind::ALL
            .iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| kind.words(count))
            .collect();
        let all: u64 = self.0.iter().sum();
        let keys = if all == 1 { "1 key with such a name is not a lock" } else { "keys with such names are not locks" };
        let count = if all == 1 { String::new() } else { format!("{all} ") };
        (!some.is_empty()).then(|| format!("{count}{keys}: {}", some.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_and_named() {
        let mut left_out = LeftOut::helpers(4);
        assert_eq!(LeftOut::default().sentence(), None);
        left_out.add(b"lock:queue", &RawValue::List { len: 3 }, 5);
        left_out.add(b"lock:fencing", &RawValue::string(b"17"), 1);
        left_out.add(b"lock:page", &RawValue::string(b"<html>"), 1);
        left_out.add(b"lock:secret", &RawValue::unread("string", "NOPERM"), 9);
        assert_eq!(
            left_out.sentence().unwrap(),
            "11 keys with such names are not locks: 4 helper keys of locks, 5 lists, 1 number that counts, 1 value that is no token"
        );
        assert_eq!(
            LeftOut::helpers(1).sentence().unwrap(),
            "1 key with such a name is not a lock: 1 helper key of a lock"
        );
    }
}
