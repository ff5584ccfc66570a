//! What will be done, worked out from what the operator saw: pure.

use std::time::Duration;

use super::check::{self, Check};
use super::gate::Refusal;
use super::keyspace::Keyspace;
use super::program::Write;
use crate::dialects::{self, Obstacle, Release, Renewal, Sight, Step};
use crate::model::{Key, Kind, LockView, NodeId, RawValue, Time, Token, Ttl};
use crate::text::short_duration;

/// What is done to a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Free,
    Extend(Duration),
    /// Takes back what was done under this id.
    Undo(String),
}

impl Action {
    pub fn name(&self) -> &'static str {
        match self {
            Action::Free => "release",
            Action::Extend(_) => "extend",
            Action::Undo(_) => "undo",
        }
    }
}

/// Exactly what is shown and exactly what runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub action: Action,
    pub node: NodeId,
    pub key: Key,
    pub dialect: &'static str,
    /// The holders that lose the lock, or keep it longer.
    pub holders: Vec<Token>,
    pub ttl: Ttl,
    pub checks: Vec<Check>,
    pub writes: Vec<Write>,
    /// Sentences to be read first.
    pub hazards: Vec<String>,
    /// What keeps the release from being taken back.
    pub obstacles: Vec<Obstacle>,
    /// Why it takes force, where it does.
    pub only_by_force: Option<&'static str>,
    /// The data that it is meant for, whatever the address leads to by then; `None`: whatever is there.
    pub keyspace: Option<Keyspace>,
    /// Whether it can be undone, or why not; `None` where that was not asked.
    pub undo: Option<Result<(), String>>,
}

impl Plan {
    /// What runs, one line each: the comparisons, then the commands.
    pub fn commands(&self) -> Vec<String> {
        self.writes.iter().map(Write::describe).collect()
    }

    /// What must be so for anything to be written, as one line.
    pub fn conditions(&self) -> String {
        let clauses: Vec<String> = self.checks.iter().map(Check::describe).collect();
        clauses.join(" and ")
    }
}

/// What somebody asks for when they free a lock.
#[derive(Clone, Copy, Default)]
pub struct Freeing<'a> {
    /// Only this holder's share; all that were seen without it.
    pub holder: Option<&'a [u8]>,
    /// Waiters whom nobody hears any more: they leave the queue, so that the first living one is woken.
    pub dead_waiters: &'a [Vec<u8>],
    pub force: bool,
}

/// Frees a lock as it was seen.
pub fn free(lock: &LockView, asked: Freeing<'_>, now: Time) -> Result<Plan, Refusal> {
    let (dialect, sight) = read(lock, now)?;
    let holders = holders(lock, asked.holder)?;
    let release = match asked.holder {
        Some(token) => dialect.release_holder(&sight, token),
        None => dialect.release(&sight),
    };
    let release = release.dropping(asked.dead_waiters);
    let only_by_force = release.only_by_force.filter(|_| !asked.force);
    let checks = compared(lock, &release)?;
    let Release { steps, hazards, obstacles, .. } = release;
    let mut hazards: Vec<String> = hazards.into_iter().map(String::from).collect();
    hazards.splice(0..0, signs_of_life(lock));
    Ok(Plan {
        action: Action::Free,
        writes: steps.into_iter().map(Write::Step).collect(),
        obstacles,
        only_by_force,
        ..about(lock, holders, checks, hazards)
    })
}

/// Gives a lock more time, or one without a TTL a time at all.
pub fn extend(lock: &LockView, holder: Option<&[u8]>, by: Duration, now: Time) -> Result<Plan, Refusal> {
    let (dialect, sight) = read(lock, now)?;
    let holders = holders(lock, holder)?;
    let key = || lock.key.as_bytes().to_vec();
    let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64 / 4);
    if let Some(holder) = lock.holders.iter().find(|held| held.until.is_some() && holders.contains(&held.token)) {
        return Err(Refusal::NotSo(format!(
            "each holder of a {} lock has a lease of its own, kept in the value: {} can't be extended from outside",
            lock.dialect, holder.token
        )));
    }
    let freed_by_time = dialect.renewal() != Renewal::NoLease || dialect.release(&sight).steps == [Step::Delete(key())];
    if !freed_by_time {
        return Err(Refusal::NotSo(format!(
            "a {} lock is not freed when its key runs out: {} holds more than this hold, or other keys count it; it can't \
             be given a TTL",
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
    let leases = holders.iter().flat_map(|token| dialect.leases(&sight, token.as_bytes()));
    let keys: Vec<Vec<u8>> = [key()].into_iter().chain(leases).collect();
    let mut hazards = vec!["A holder that renews sets the TTL back to its own lease.".to_string()];
    if lock.ttl == Ttl::Never {
        let end = "When it runs out before the holder is done, another one gets in beside it.";
        hazards = vec![end.into()];
    }
    Ok(Plan {
        action: Action::Extend(by),
        writes: keys.into_iter().map(|key| Write::Expire { key, ms }).collect(),
        ..about(lock, holders, checks, hazards)
    })
}

fn about(lock: &LockView, holders: Vec<Token>, checks: Vec<Check>, hazards: Vec<String>) -> Plan {
    Plan {
        action: Action::Free,
        node: lock.node,
        key: lock.key.clone(),
        dialect: lock.dialect,
        holders,
        ttl: lock.ttl,
        checks,
        writes: Vec::new(),
        hazards,
        obstacles: Vec::new(),
        only_by_force: None,
        keyspace: None,
        undo: None,
    }
}

fn read(lock: &LockView, now: Time) -> Result<(&'static dyn dialects::Dialect, Sight<'_>), Refusal> {
    let id = dialects::by_name(lock.dialect).ok_or_else(|| nothing_to_compare(lock))?;
    Ok((dialects::dialect(id), Sight::of(lock, now)))
}

fn nothing_to_compare(lock: &LockView) -> Refusal {
    Refusal::NothingToCompare(format!(
        "what {} holds could not be read, so that nothing could be compared before it is written; nothing was changed",
        lock.key
    ))
}

/// The holders this is about: the one that was named, or all of them.
fn holders(lock: &LockView, named: Option<&[u8]>) -> Result<Vec<Token>, Refusal> {
    let all = lock.holders.iter().map(|holder| holder.token.clone());
    let Some(named) = named else { return Ok(all.collect()) };
    let its: Vec<Token> = all.clone().filter(|token| token.as_bytes() == named).collect();
    if its.is_empty() {
        let holders = all.map(|token| token.to_string()).collect();
        return Err(Refusal::NotTheHolder { key: lock.key.clone(), holders });
    }
    Ok(its)
}

/// What has to be as it was seen, for each thing that is taken away.
fn compared(lock: &LockView, release: &Release) -> Result<Vec<Check>, Refusal> {
    let own = |key: &Vec<u8>| *key == lock.key.as_bytes();
    let mut checks: Vec<Check> = Vec::new();
    for step in &release.steps {
        match step {
            Step::Delete(key) if own(key) => checks.extend(check::whole(lock)),
            Step::DeleteField { key, field } if own(key) => checks.push(check::hash_field(lock, field)),
            Step::RemoveScored { key, member } if own(key) => {
                checks.push(Check::Member { key: key.clone(), member: member.clone() });
            }
            Step::RemoveMember { key, member } if own(key) => {
                checks.push(Check::Element { key: key.clone(), member: member.clone() });
            }
            Step::ReturnPermits { counter, .. } if own(counter) => checks.extend(check::whole(lock)),
            // Without its counter nobody knows how many permits there are: one out of nothing would be a new one.
            Step::ReturnPermits { counter, .. } => checks.push(Check::Present(counter.clone())),
            _ => {}
        }
    }
    let compares_own = |check: &Check| !matches!(check, Check::Present(_));
    if !checks.iter().any(compares_own) {
        return Err(nothing_to_compare(lock));
    }
    checks.dedup();
    Ok(checks)
}

/// What speaks against a dead holder.
fn signs_of_life(lock: &LockView) -> Vec<String> {
    let mut signs = Vec::new();
    let renewed = lock.renewals.as_ref().and_then(|renewals| renewals.last_ms.zip(renewals.missed.or(Some(0))));
    if let Some((ago, 0)) = renewed.filter(|_| lock.kind == Kind::Lock) {
        signs.push(format!("It was renewed {} ago, in time: its holder seems to live.", short_duration(ago)));
    }
    if lock.stale {
        signs.push("What is shown here is stale: the server has not confirmed it lately.".into());
    }
    signs
}

#[cfg(test)]
mod tests;
