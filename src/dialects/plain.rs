//! A string that says "taken": `SET key token NX PX ttl`, the same in Lua, `SETNX` with or without `EXPIRE`.
//!
//! The dialect of everybody who wrote it by hand, and the last choice for strings no library is recognised in.

use std::time::Duration;

use super::{Claim, Dialect, Release, Renewal, Sight, Waiting, shape};

pub struct Plain;

impl Dialect for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*[Ll][Oo][Cc][Kk]*", "*[Mm][Uu][Tt][Ee][Xx]*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        if sight.given || sight.told {
            // Any string is a lock there; one too long to be fetched whole is known by its head.
            return match sight.value {
                crate::model::RawValue::Str { head, .. } => Some(Claim::exclusive(0.3, head)),
                _ => None,
            };
        }
        let token = sight.value.as_string()?;
        (shape::names_a_lock(sight.key) && shape::could_be_token(token)).then(|| Claim::exclusive(0.45, token))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None::<Duration> }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
    }
}
