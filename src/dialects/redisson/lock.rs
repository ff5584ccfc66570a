//! RLock and its kin: one hash field per holder, `<instance uuid>:<thread id>`, whose value counts re-entries.
//!
//! Spin locks, fenced locks and fair locks store the same hash; a fair lock is known by its queue only (`fair.rs`).

use super::{Fields, fair, names};
use crate::dialects::release::DEAD_HEADS;
use crate::dialects::{Claim, Release, Step, Strength, shape};
use crate::lock::{Holder, Mode};

pub const UNLOCKED: &[u8] = b"0";

/// Every field must look like a holder and have a count; if the user named the dialect, a count is enough.
pub fn read(fields: Fields<'_>, mapped: bool) -> Option<Claim> {
    let holders: Option<Vec<Holder>> = fields
        .iter()
        .map(|(field, value)| {
            let count = count(value)?;
            let holder = holder(field).or_else(|| mapped.then(|| Holder::new(field)))?;
            Some(Holder { count: Some(count), ..holder })
        })
        .collect();
    Some(Claim::lock(Strength::Sure, Mode::Exclusive, holders?))
}

pub fn release(name: &[u8]) -> Release {
    Release::delete(name)
        .and(Step::Publish { channel: names::channel(name), message: UNLOCKED.to_vec() })
        .and(fair::wake_head(name))
        .warn(DEAD_HEADS)
}

/// A holder by its id, `uuid:thread`.
pub fn holder(id: &[u8]) -> Option<Holder> {
    let colon = id.iter().rposition(|byte| *byte == b':')?;
    let (instance, thread) = (&id[..colon], &id[colon + 1..]);
    if !shape::is_uuid(instance) || !shape::is_decimal(thread) {
        return None;
    }
    Some(Holder { client: Some(instance.into()), thread: Some(thread.into()), ..Holder::new(id) })
}

/// A positive decimal number.
pub fn count(value: &[u8]) -> Option<i64> {
    if !shape::is_decimal(value) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::super::Redisson;
    use super::super::tests::{A, A57};
    use crate::dialects::testing::{hash, mapped, recognised, sight};
    use crate::dialects::{Dialect, Strength, Waiting};
    use crate::lock::{Mode, RawValue};

    #[test]
    fn a_lock_is_known_by_its_shape_whatever_its_name() {
        let value = hash(&[(A57, "2")]);
        for key in [&b"lock:a"[..], b"orders-block", b"{map}:aGk=:lock"] {
            let (dialect, claim) = recognised(key, &value).unwrap();
            assert_eq!(dialect, "redisson");
            assert!(claim.strength >= Strength::Sure);
            assert_eq!(claim.mode, Mode::Exclusive);
            let [holder] = claim.holders.as_slice() else { panic!("{:?}", claim.holders) };
            assert_eq!(holder.token.as_bytes(), A57.as_bytes());
            assert_eq!(holder.client.as_ref().map(|text| text.visible()).as_deref(), Some(A));
            assert_eq!(holder.thread.as_ref().map(|text| text.visible()).as_deref(), Some("57"));
            assert_eq!(holder.count, Some(2));
        }
    }

    #[test]
    fn other_hashes_are_not_taken() {
        for fields in [
            &[(A57, "many")][..],
            &[(A57, "0")],
            &[(A57, "-1")],
            &[(A57, "1"), ("total", "3")],
            &[(A, "1")],
            &[("2f1c6e9a:57", "1")],
            &[("user:57", "1")],
        ] {
            let value = hash(fields);
            assert_eq!(Redisson.read(&sight(b"lock:a", &value)), None, "{fields:?}");
        }
        assert_eq!(Redisson.read(&sight(b"lock:a", &RawValue::hash([]))), None);
        assert_eq!(Redisson.read(&sight(b"lock:a", &RawValue::string(A57.as_bytes()))), None);
    }

    #[test]
    fn what_the_user_says_is_redisson_only_has_to_count() {
        let claim = Redisson.read(&mapped(b"job", &hash(&[("node-1", "1")]))).unwrap();
        assert_eq!(claim.holders[0].count, Some(1));
        assert_eq!(Redisson.read(&mapped(b"job", &hash(&[("name", "x")]))), None);
    }

    #[test]
    fn freeing_wakes_plain_and_fair_waiters_and_keeps_the_fencing_counter() {
        let value = hash(&[(A57, "1")]);
        let sight = sight(b"lock:a", &value);
        let release = Redisson.release(&sight);
        assert_eq!(release.describe()[..2], ["DEL lock:a", "PUBLISH redisson_lock__channel:{lock:a} 0"]);
        assert!(release.describe()[2].contains("redisson_lock_queue:{lock:a}"));
        assert_eq!(release.steps.len(), 3);
        assert_eq!(Redisson.fencing_key(b"lock:a").unwrap(), b"redisson_lock_token:{lock:a}");
        assert_eq!(
            Redisson.waiting(&sight),
            Waiting::Queue {
                channel: b"redisson_lock__channel:{lock:a}".to_vec(),
                list: b"redisson_lock_queue:{lock:a}".to_vec(),
                deadlines: b"redisson_lock_timeout:{lock:a}".to_vec(),
                channel_prefix: b"redisson_lock__channel:{lock:a}:".to_vec(),
            }
        );
    }
}
