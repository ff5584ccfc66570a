//! Sights and readings for the tests of the dialects.

use std::time::Duration;

use super::{Best, Claim, Recogniser, Sight, dialect};
use crate::base::time::{Time, Ttl};
use crate::lock::RawValue;

/// The current time in all of these tests.
pub const NOW: Time = Time(1_750_000_000_000);

/// A key with a TTL, found under the default patterns.
pub fn sight<'a>(key: &'a [u8], value: &'a RawValue) -> Sight<'a> {
    Sight { key, value, ttl: Ttl::In(Duration::from_secs(30)), now: NOW, given: false, dialect_given: false }
}

/// The same key in a keyspace for which the user named the dialect.
pub fn mapped<'a>(key: &'a [u8], value: &'a RawValue) -> Sight<'a> {
    Sight { dialect_given: true, ..sight(key, value) }
}

/// How the default recogniser reads a key, with all dialects competing.
pub fn recognised(key: &[u8], value: &RawValue) -> Option<(&'static str, Claim)> {
    let recogniser = Recogniser::new(Vec::new(), Vec::new(), Vec::new());
    let Best { dialect: id, claim, .. } = recogniser.read(key, value, Ttl::In(Duration::from_secs(30)), NOW)?;
    Some((dialect(id).name(), claim))
}

/// A whole hash, from text.
pub fn hash(fields: &[(&str, &str)]) -> RawValue {
    RawValue::hash(fields.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())))
}
