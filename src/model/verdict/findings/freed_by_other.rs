//! A client that did not hold it deleted it.

use super::{Case, Lint};
use crate::model::verdict::cause::who;
use crate::model::{Finding, Notice};

pub const LINT: Lint = Lint {
    name: "freed-by-other",
    words: ("was freed by somebody who did not hold it", "were freed by somebody who did not hold them"),
    said_by: &[],
    of_free: true,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let fresh = |at| case.is_within(at, case.tuning.freed_by_other_for_s);
    case.contention()?.notices().rev().find_map(|(at, notice)| match notice {
        // With an unknown holder, the holder itself may have deleted it, by a library that does not compare.
        Notice::FreedBy { holder: Some(holder), address } if fresh(*at) => {
            let (by, from) = (who(None, address.as_ref()), who(Some(holder), None));
            Some(LINT.finding(format!("deleted {} by {by} while {from} held it", case.ago(*at)), 0.9))
        }
        _ => None,
    })
}
