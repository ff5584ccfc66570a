//! What must be as it was seen for a release to take it away: pure.

use crate::actions::check::{self, Check};
use crate::actions::gate::Refusal;
use crate::actions::{lease, semaphore};
use crate::dialects::{Obstacle, Premise, Release, Step};
use crate::lock::RawValue;
use crate::model::proof::LARGEST;
use crate::model::{LockView, Whole};

/// What has to be as it was seen, for each thing that is taken away.
pub fn compared(lock: &LockView, release: &Release) -> Result<Vec<Check>, Refusal> {
    let own = |key: &Vec<u8>| *key == lock.key.as_bytes();
    let mut checks: Vec<Check> = Vec::new();
    for step in &release.steps {
        match step {
            Step::Delete(key) if own(key) => {
                whole_or_refused(lock)?;
                checks.extend(check::whole(lock));
                checks.extend(lease::checks(lock, lock.holders.iter().map(|holder| &holder.token)));
            }
            Step::DeleteField { key, field } if own(key) => {
                let end = Obstacle::EndField { key: key.clone(), field: field.clone() };
                let of_field = if release.obstacles.contains(&end) { check::end_field } else { check::hash_field };
                checks.push(of_field(lock, field));
                checks.extend(lease::of_holder(lock, field));
            }
            Step::RemoveScored { key, member } if own(key) => {
                checks.push(check::scored(lock, member));
            }
            Step::RemoveMember { key, member } if own(key) => {
                checks.push(Check::Element { key: key.clone(), member: member.clone() });
            }
            Step::ReturnPermits { counter, .. } if own(counter) => checks.extend(semaphore::count(lock)),
            // Without its counter the number of permits is unknown: giving one back would create a new permit.
            Step::ReturnPermits { counter, .. } => checks.push(Check::Present(counter.clone())),
            // Keys beside the lock are not part of what was shown.
            Step::Delete(_) | Step::DeleteField { .. } | Step::RemoveScored { .. } | Step::RemoveMember { .. } => {}
            // These take no hold away. A new kind of step has to say here what is compared.
            Step::Publish { .. }
            | Step::PublishToHead { .. }
            | Step::DropWaiter { .. }
            | Step::Signal { .. }
            | Step::PushBack { .. }
            | Step::LastAsReaders { .. }
            | Step::WhenEmptied { .. } => {}
        }
    }
    let compares_own = |check: &Check| !matches!(check, Check::Present(_) | Check::Lease(_) | Check::Lapsed(_));
    if !checks.iter().any(compares_own) {
        return Err(nothing_to_compare(lock));
    }
    checks.extend(release.premises.iter().cloned().map(|premise| match premise {
        Premise::Field { key, field, value } => Check::HeldAs { key, field, value },
        Premise::Unmarked { key, mark } => Check::Unmarked { key, mark },
    }));
    checks.dedup();
    Ok(checks)
}

/// Refuses a value that was not read as a whole: what was not seen is not taken away.
fn whole_or_refused(lock: &LockView) -> Result<(), Refusal> {
    let (read, len) = match &lock.value {
        RawValue::Hash { fields, len } => (fields.len(), *len),
        RawValue::Zset { members, len } => (members.len(), *len),
        RawValue::Set { members, len } => (members.len(), *len),
        _ => return Ok(()),
    };
    if read as u64 == len {
        return Ok(());
    }
    Err(Refusal::NothingToCompare(format!(
        "{} has {len} entries, and only {read} were read; free its holders one by one",
        lock.key
    )))
}

pub fn nothing_to_compare(lock: &LockView) -> Refusal {
    if let RawValue::Str { len, .. } = &lock.value {
        let why = match &lock.proof.value {
            _ if *len > LARGEST => format!(
                "it has {len} bytes; at most {LARGEST} are compared, because hashing more would stall the server"
            ),
            Whole::Unknown(why) => why.clone(),
            Whole::NotAsked | Whole::Sha1(_) => format!("only the first of its {len} bytes were read"),
        };
        return Refusal::NothingToCompare(format!(
            "the value of {} can't be compared before it is written: {why}; nothing was changed",
            lock.key
        ));
    }
    Refusal::NothingToCompare(format!(
        "{} could not be read, so it can't be compared before the write; nothing was changed",
        lock.key
    ))
}
