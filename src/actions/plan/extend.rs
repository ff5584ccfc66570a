//! Plans to give a lock more time, or a TTL where it has none.

use std::time::Duration;

use super::compared::nothing_to_compare;
use super::{Action, Plan, about, holders, read};
use crate::actions::check::{self, Check};
use crate::actions::gate::Refusal;
use crate::actions::write::Write;
use crate::actions::{lease, semaphore};
use crate::base::text::short_duration;
use crate::base::time::{Time, Ttl};
use crate::dialects;
use crate::lock::RawValue;
use crate::model::LockView;

/// The times that a lock can be given: nothing that would end it before anybody notices, nothing that is a slip.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// Refuses a time outside these limits.
pub fn may_extend_by(by: Duration) -> Result<(), Refusal> {
    if (SHORTEST..=LONGEST).contains(&by) {
        return Ok(());
    }
    Err(Refusal::NotSo("a new TTL is from 1s to 30 days; 'release' frees a lock".into()))
}

/// Extends a lock's TTL, or gives one to a lock without a TTL.
pub fn extend(lock: &LockView, holder: Option<&[u8]>, by: Duration, now: Time) -> Result<Plan, Refusal> {
    may_extend_by(by)?;
    let (dialect, sight) = read(lock, now)?;
    semaphore::refuse(lock)?;
    let holders = holders(lock, holder)?;
    let key = || lock.key.as_bytes().to_vec();
    let ms = by.as_millis() as u64;
    if let Some(holder) = lock.holders.iter().find(|held| held.until.is_some() && holders.contains(&held.token)) {
        return Err(Refusal::NotSo(format!(
            "each holder of a {} lock keeps its own lease in the value; {} can't be extended from outside",
            lock.dialect, holder.token
        )));
    }
    if !dialects::is_freed_by_time(dialect, &sight) {
        return Err(Refusal::NotSo(format!(
            "a {} lock can't be given a TTL: it is not freed when its key expires, because {} holds more than this \
             hold, or other keys count it",
            lock.dialect, lock.key
        )));
    }
    let mut checks = match (&lock.value, holders.as_slice()) {
        (RawValue::Hash { .. }, tokens) if !tokens.is_empty() => {
            tokens.iter().map(|token| check::hash_field(lock, token.as_bytes())).collect()
        }
        _ => check::whole(lock),
    };
    if checks.is_empty() {
        return Err(nothing_to_compare(lock));
    }
    checks.push(match lock.ttl {
        Ttl::Never => Check::NoTtl(key()),
        Ttl::In(left) if left.as_millis() as u64 > ms => {
            return Err(Refusal::NotSo(format!(
                "{} has {} left, more than {}; extending never shortens a lease",
                lock.key,
                short_duration(left.as_millis() as u64),
                short_duration(ms)
            )));
        }
        Ttl::In(_) => Check::TtlAtMost { key: key(), ms },
    });
    checks.extend(lease::checks(lock, &holders));
    let leases = holders.iter().flat_map(|token| dialect.leases(&sight, token.as_bytes()));
    let keys: Vec<Vec<u8>> = [key()].into_iter().chain(leases).collect();
    let mut hazards = vec!["A holder that renews sets the TTL back to its own lease.".to_string()];
    if lock.ttl == Ttl::Never {
        let end = "If it expires before the holder is done, a second holder can get in.";
        hazards = vec![end.into()];
    }
    let writes = keys.into_iter().map(|key| Write::Expire { key, ms }).collect();
    let plan = Plan { action: Action::Extend(by), writes, ..about(lock, holders, checks, hazards) };
    plan.doubting(semaphore::doubt(lock)).within_slots()
}
