//! StackExchange.Redis' `LockTake` (.NET): the caller's key and the caller's value, always a TTL.
//!
//! Most callers pass the machine's name. That proves nothing, so this is only ever a second choice.

use super::{Claim, Dialect, IfFreed, Sight, Strength, Waiting, shape, sight};
use crate::lock::{Holder, Mode};

pub struct StackExchange;

fn could_be_machine(value: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let random = shape::is_uuid(value) || (value.len() >= 16 && value.iter().all(u8::is_ascii_hexdigit));
    let flag =
        [&b"true"[..], b"locked", b"lock", b"taken", b"yes", b"ok"].iter().any(|f| value.eq_ignore_ascii_case(f));
    value.len() <= 63
        && value.iter().all(allowed)
        && value.iter().any(u8::is_ascii_alphabetic)
        && value[0].is_ascii_alphanumeric()
        && !random
        && !flag
}

impl Dialect for StackExchange {
    fn name(&self) -> &'static str {
        "stackexchange"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let value = sight.token()?;
        let machine = could_be_machine(value);
        let strength =
            sight.told_or(|| if machine && sight.has_ttl() { sight.guess(Strength::Faint) } else { None })?;
        let host = if machine { sight::name(value) } else { None };
        Some(Claim::lock(strength, Mode::Exclusive, vec![Holder { host, ..Holder::new(value) }]))
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its LockExtend() and LockRelease() return false")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Nobody
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn a_machine_name_is_only_a_second_choice() {
        assert_eq!(names(&found("import-lock", "WEB-EU-1", seconds(30))), ("plain", "stackexchange"));
        assert_eq!(names(&given("import", "WEB-EU-1", seconds(30))), ("plain", "stackexchange"));
        assert_eq!(names(&found("import-lock", "WEB-EU-1", Ttl::Never)), ("plain", ""));
    }

    #[test]
    fn where_we_were_told_the_machine_is_the_host() {
        let claim = mapped("stackexchange", "import", &RawValue::string(b"WEB-EU-1")).unwrap();
        assert_eq!(claim.holders[0].host.as_ref().map(|text| text.visible()).as_deref(), Some("WEB-EU-1"));
    }

    #[test]
    fn flags_and_numbers_are_no_machines() {
        for value in ["1", "true", "locked", "1760000000"] {
            assert_ne!(names(&found("import-lock", value, seconds(30))).1, "stackexchange", "{value}");
        }
        assert_no_garbage("stackexchange", "import-lock");
    }
}
