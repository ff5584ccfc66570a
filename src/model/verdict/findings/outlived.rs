//! The lease ended before the work: a former holder came back too late, or most holds expire instead of being released.

use super::{Case, Lint};
use crate::model::verdict::cause::who;
use crate::model::{Ending, Finding, Notice, State};

pub const LINT: Lint = Lint {
    name: "outlived",
    words: ("expires before its work is done", "expire before their work is done"),
    said_by: &[State::Split],
    of_free: true,
    check,
};

/// At least this many holds must be over before their majority means something.
const HOLDS: usize = 4;

fn check(case: &Case<'_>) -> Option<Finding> {
    late(case).or_else(|| run_out(case))
}

/// A client tried to renew or release a lock that it no longer held.
fn late(case: &Case<'_>) -> Option<Finding> {
    let fresh = |at| case.is_within(at, case.tuning.outlived_for_s);
    case.contention()?.notices().rev().find_map(|(at, notice)| match notice {
        Notice::Late { token, address, renewal } if fresh(*at) => {
            let what = if *renewal { "renew" } else { "release" };
            let (who, ago) = (who(Some(token), address.as_ref()), case.ago(*at));
            let sentence = format!("{who} tried to {what} it {ago}, but its lease had ended before");
            Some(LINT.finding(sentence, 0.95))
        }
        _ => None,
    })
}

fn run_out(case: &Case<'_>) -> Option<Finding> {
    // If none is ever released, they are meant to expire.
    let meant = case.holds.ends.released == 0 || !case.is_worked_under();
    let all = case.lock.past().count();
    let expired = case.lock.past().filter(|hold| hold.ending == Ending::Expired).count();
    let most = all >= HOLDS && expired as f64 > case.tuning.outlived_share * all as f64;
    (most && !meant).then(|| Finding {
        settle: Some("sample with MONITOR: it shows whether its holders still try to release it".into()),
        ..LINT.finding(format!("{expired} of its last {all} holds ran out instead of being released"), 0.7)
    })
}
