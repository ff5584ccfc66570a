//! Questions that the dialects ask of a [`Sight`] in the same way.
//!
//! The shape of a value alone never makes a lock of a cached token: it weighs only where the key's name speaks of a
//! lock, or where the user pointed at the keyspace.

use std::time::Duration;

use super::{Sight, Strength, shape};
use crate::base::server_text::ServerText;
use crate::base::time::Ttl;
use crate::lock::RawValue;

impl<'a> Sight<'a> {
    /// The string by which the holder is known. A value that was cut is no token, unless we were told so: then its head
    /// must do.
    pub(super) fn token(&self) -> Option<&'a [u8]> {
        match self.value {
            RawValue::Str { head, .. } if self.dialect_given => Some(head),
            value => value.as_string(),
        }
    }

    /// Certainty where the user named the dialect, else what `judge` says.
    pub(super) fn told_or(&self, judge: impl FnOnce() -> Option<Strength>) -> Option<Strength> {
        if self.dialect_given { Some(Strength::Told) } else { judge() }
    }

    /// The weight of a value's shape: one for keys that are named like a lock, one for others that the user pointed at.
    pub(super) fn weigh(&self, named: Strength, given: Strength) -> Option<Strength> {
        if shape::names_a_lock(self.key) { Some(named) } else { self.given.then_some(given) }
    }

    /// [`Sight::weigh`] for shapes that many things share.
    pub(super) fn guess(&self, named: Strength) -> Option<Strength> {
        self.weigh(named, named.weaker())
    }

    pub(super) fn has_ttl(&self) -> bool {
        self.ttl != Ttl::Never
    }

    /// There is a TTL, and no more than this is left of it.
    pub(super) fn ttl_within(&self, limit: Duration) -> bool {
        self.ttl.remaining().is_some_and(|left| left <= limit)
    }
}

/// A name out of a value; `None` where it is empty.
pub(super) fn name(bytes: &[u8]) -> Option<ServerText> {
    (!bytes.is_empty()).then(|| bytes.into())
}

/// A process id out of a value.
pub(super) fn pid(bytes: &[u8]) -> Option<u64> {
    if !shape::is_decimal(bytes) || bytes.len() > 10 {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
