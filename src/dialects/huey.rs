//! Huey (Python): task locks, as fields of the hash that also holds task results, or as strings beside them.
//!
//! The hash is `huey.results.<name>`, and each field `<huey>.lock.<lock>` of it is one held lock; the hash may be huge,
//! so only such fields are asked for, and it must never be deleted. With expiring results each lock is a string
//! `huey.r.<name>.<huey>.lock.<lock>`. Neither has a TTL, nor says who holds it.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Step, Strength, Waiting};
use crate::base::server_text::ServerText;
use crate::lock::{Holder, Mode, RawValue};

const RESULTS: &[u8] = b"huey.results.";
const EXPIRING_RESULTS: &[u8] = b"huey.r.";
const LOCK: &[u8] = b".lock.";
const NO_HOLDER: &str =
    "Huey does not store who holds a lock: a task that took it again meanwhile looks the same as the one that you saw.";

pub struct Huey;

impl Dialect for Huey {
    fn name(&self) -> &'static str {
        "huey"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["huey.results.*", "huey.r.*.lock.*"]
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        key.starts_with(b"huey.redis.")
            || key.starts_with(b"huey.schedule.")
            || key.strip_prefix(EXPIRING_RESULTS).is_some_and(|rest| lock_name(rest).is_none())
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        match sight.value {
            RawValue::Hash { fields, .. } if sight.key.starts_with(RESULTS) || sight.dialect_given => {
                let holders: Vec<Holder> = fields
                    .iter()
                    .filter_map(|(field, _)| Some(Holder { client: Some(lock_name(field)?), ..Holder::new(field) }))
                    .collect();
                (!holders.is_empty()).then(|| Claim::lock(Strength::Certain, Mode::Exclusive, holders))
            }
            RawValue::Str { head, .. } => {
                let name = lock_name(sight.key.strip_prefix(EXPIRING_RESULTS)?)?;
                let holder = Holder { client: Some(name), ..Holder::new(head) };
                Some(Claim::lock(Strength::Certain, Mode::Exclusive, vec![holder]))
            }
            _ => None,
        }
    }

    fn tokens_come_again(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::NoLease
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("frees the lock of the next one when its task ends")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Nobody
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = match sight.value {
            RawValue::Hash { fields, .. } => {
                let locks = fields.iter().filter(|(field, _)| lock_name(field).is_some());
                let steps = locks.map(|(field, _)| take_out(sight.key, field)).collect();
                Release { steps, ..Release::default() }
            }
            _ => Release::delete(sight.key),
        };
        release.warn(NO_HOLDER)
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        match sight.value {
            RawValue::Hash { .. } => Release::default().and(take_out(sight.key, token)).warn(NO_HOLDER),
            _ => self.release(sight),
        }
    }

    fn field_hint(&self, key: &[u8]) -> Option<&'static str> {
        key.starts_with(RESULTS).then_some("*.lock.*")
    }
}

fn take_out(key: &[u8], field: &[u8]) -> Step {
    Step::DeleteField { key: key.to_vec(), field: field.to_vec() }
}

/// The lock's name in `<huey>.lock.<lock>`.
fn lock_name(text: &[u8]) -> Option<ServerText> {
    let at = text.windows(LOCK.len()).position(|window| window == LOCK)?;
    let name = &text[at + LOCK.len()..];
    (at > 0 && !name.is_empty()).then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::testing::{hash, recognised, sight};

    const ONE: &str = "K\u{1}.";

    #[test]
    fn each_lock_field_is_held_and_results_are_left_alone() {
        let value = hash(&[
            ("5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f", "result"),
            ("my-app.lock.backup", ONE),
            ("my-app.lock.mail.lock.x", ONE),
        ]);
        let (dialect, claim) = recognised(b"huey.results.myapp", &value).unwrap();
        assert_eq!(dialect, "huey");
        let names: Vec<_> = claim.holders.iter().map(|holder| holder.client.as_ref().unwrap().visible()).collect();
        assert_eq!(names, ["backup", "mail.lock.x"]);
        assert_eq!(claim.holders[0].token.as_bytes(), b"my-app.lock.backup");
        let sight = sight(b"huey.results.myapp", &value);
        assert_eq!(
            Huey.release(&sight).describe(),
            ["HDEL huey.results.myapp my-app.lock.backup", "HDEL huey.results.myapp my-app.lock.mail.lock.x"]
        );
        assert_eq!(
            Huey.release_holder(&sight, b"my-app.lock.backup").describe(),
            ["HDEL huey.results.myapp my-app.lock.backup"]
        );
    }

    #[test]
    fn a_huge_hash_is_read_by_its_lock_fields_alone() {
        let RawValue::Hash { fields, .. } = hash(&[("app.lock.backup", ONE)]) else { unreachable!() };
        let value = RawValue::Hash { fields, len: 2_000_000 };
        assert_eq!(recognised(b"huey.results.app", &value).unwrap().1.holders.len(), 1);
        assert_eq!(Huey.field_hint(b"huey.results.app"), Some("*.lock.*"));
        assert_eq!(Huey.field_hint(b"lock:a"), None);
    }

    #[test]
    fn a_string_beside_expiring_results() {
        let value = RawValue::string(ONE.as_bytes());
        let (dialect, claim) = recognised(b"huey.r.app.app.lock.backup", &value).unwrap();
        assert_eq!(dialect, "huey");
        assert_eq!(claim.holders[0].client.as_ref().map(|text| text.visible()).as_deref(), Some("backup"));
        assert_eq!(claim.holders[0].token.as_bytes(), ONE.as_bytes());
        let release = Huey.release(&sight(b"huey.r.app.app.lock.backup", &value));
        assert_eq!(release.describe(), ["DEL huey.r.app.app.lock.backup"]);
    }

    #[test]
    fn results_and_other_hashes_are_no_locks() {
        let results = hash(&[("5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f", "result"), (".lock.x", "1"), ("a.lock.", "1")]);
        assert_eq!(recognised(b"huey.results.app", &results), None);
        assert_eq!(Huey.read(&sight(b"app.results", &hash(&[("app.lock.backup", ONE)]))), None);
        assert!(Huey.is_helper(b"huey.r.locksmith.5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f"));
        assert!(!Huey.is_helper(b"huey.r.app.app.lock.backup"));
        assert!(!Huey.is_helper(b"huey.results.app"));
    }
}
