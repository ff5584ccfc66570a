//! Questions about a [`Sight`] that several dialects share.
//!
//! The shape of a value alone is never enough, because cached tokens share it: it counts only if the key's name
//! suggests a lock, or if the user named the keyspace.

use std::time::Duration;

use super::{Sight, Strength, shape};
use crate::base::server_text::ServerText;
use crate::base::time::Ttl;
use crate::lock::RawValue;

impl<'a> Sight<'a> {
    /// The string that identifies the holder. A value that was cut is not a token, unless the user named the dialect:
    /// then its head is used.
    pub(super) fn token(&self) -> Option<&'a [u8]> {
        match self.value {
            RawValue::Str { head, .. } if self.dialect_given => Some(head),
            value => value.as_string(),
        }
    }

    /// [`Strength::Mapped`] if the user named the dialect, else what `judge` says.
    pub(super) fn told_or(&self, judge: impl FnOnce() -> Option<Strength>) -> Option<Strength> {
        if self.dialect_given { Some(Strength::Mapped) } else { judge() }
    }

    /// The strength of a value's shape: `named` for a key named like a lock, `given` for one that the user pointed at.
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

    /// Whether there is a TTL and at most this much of it is left.
    pub(super) fn ttl_within(&self, limit: Duration) -> bool {
        self.ttl.remaining().is_some_and(|left| left <= limit)
    }
}

/// A name from a value; `None` if it is empty.
pub(super) fn name(bytes: &[u8]) -> Option<ServerText> {
    (!bytes.is_empty()).then(|| bytes.into())
}

/// A process id from a value.
pub(super) fn pid(bytes: &[u8]) -> Option<u64> {
    if !shape::is_decimal(bytes) || bytes.len() > 10 {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
