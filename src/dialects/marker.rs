//! Idempotency markers: `completed:<id>` and the like, a short string with a TTL that says "this has been done".
//!
//! Nobody holds them; they exist beside locks, and deleting one lets the work be done again. The word must be the whole
//! first part of the name.

use super::{Claim, Dialect, Release, Sight, Strength, Waiting, shape};
use crate::lock::{Kind, Mode, RawValue};

pub struct Marker;

const LONGEST: usize = 64;

/// The strength of the name's first part as evidence.
fn weight(key: &[u8]) -> Option<Strength> {
    let end = key.iter().position(|byte| *byte == b':')?;
    if end + 1 == key.len() {
        return None;
    }
    match &key[..end] {
        b"completed" | b"idempotency" | b"idempotent" | b"idempotency-key" | b"idempotency_key" => Some(Strength::Sure),
        b"processed" | b"done" => Some(Strength::Likely),
        _ => None,
    }
}

impl Dialect for Marker {
    fn name(&self) -> &'static str {
        "marker"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &[
            "completed:*",
            "processed:*",
            "done:*",
            "idempotency:*",
            "idempotency-key:*",
            "idempotency_key:*",
            "idempotent:*",
        ]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let strength = if sight.dialect_given {
            matches!(sight.value, RawValue::Str { .. }).then_some(Strength::Mapped)
        } else {
            let value = sight.value.as_string()?;
            let short = value.len() <= LONGEST && shape::could_be_token(value);
            if short && sight.has_ttl() { weight(sight.key) } else { None }
        };
        Some(Claim { kind: Kind::Marker, mode: Mode::Exclusive, strength: strength?, holders: Vec::new() })
    }

    /// Staying is its purpose.
    fn stays(&self, _key: &[u8]) -> bool {
        true
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Nobody
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn("It says that the work is done. If you delete it, the work can be done a second time.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;
    use crate::lock::{Kind, RawValue};

    #[test]
    fn work_that_is_done_has_a_marker_and_no_holder() {
        let best = found("completed:payment:17", "1", seconds(86_400));
        assert!(surely(&best, "marker"));
        let claim = best.unwrap().claim;
        assert_eq!((claim.kind, claim.holders.len()), (Kind::Marker, 0));
        assert!(surely(&found("idempotency:4f1c", UUID4, seconds(86_400)), "marker"));
        assert!(perhaps(&found("done:job:17", "ok", seconds(86_400)), "marker"));
    }

    #[test]
    fn a_lock_that_speaks_of_completion_is_still_a_lock() {
        assert_eq!(found("lock:completed:17", "1", seconds(60)).unwrap().claim.kind, Kind::Lock);
    }

    #[test]
    fn what_has_no_ttl_or_is_a_document_is_no_marker() {
        assert_eq!(names(&found("completed:payment:17", "1", Ttl::Never)), ("", ""));
        assert_eq!(names(&found("completed-orders:17", "1", seconds(60))), ("", ""));
        assert_eq!(names(&found("completed:", "1", seconds(60))), ("", ""));
        assert_no_garbage("marker", "completed:payment:17");
    }

    #[test]
    fn where_we_were_told_every_string_is_one_and_nothing_else() {
        assert!(mapped("marker", "seen/17", &RawValue::string(b"")).is_some());
        assert!(mapped("marker", "seen/17", &RawValue::List { len: 1 }).is_none());
    }
}
