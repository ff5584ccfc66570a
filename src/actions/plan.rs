//! Plans what will be done from what the operator saw: pure.
//!
//! `compared` says what must be as it was seen for each thing that is taken away.

mod compared;
mod extend;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::compared::{compared, nothing_to_compare};
use super::check::Check;
use super::gate::Refusal;
use super::keyspace::Keyspace;
use super::queue;
use super::semaphore;
use super::staying::Staying;
use super::write::Write;
use crate::base::serial::Name;
use crate::base::text::short_duration;
use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Claim, Obstacle, Release, Sight, Step};
use crate::lock::{Key, KeyspaceId, Token};
use crate::model::guesses;
use crate::model::{Act, End, LockView, Pulse, Safe};

pub use self::extend::{extend, may_extend_by};

/// What is done to a lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub action: Action,
    /// With the key, it identifies the lock.
    #[serde(rename = "node")]
    pub space: KeyspaceId,
    /// The keyspace is a cluster: one script reaches the keys of one slot.
    #[serde(default)]
    pub clustered: bool,
    pub key: Key,
    #[serde(deserialize_with = "dialects::known_name")]
    pub dialect: Name,
    /// The library is a guess.
    #[serde(default)]
    pub guessed: bool,
    /// Whether the lock is safe to free; `None` for an undo.
    #[serde(default)]
    pub safe: Option<Safe>,
    /// The holders that lose the lock, or keep it longer.
    pub holders: Vec<Token>,
    /// The holders that keep it, if only a share of it is freed.
    #[serde(default)]
    pub staying: Staying,
    pub ttl: Ttl,
    pub checks: Vec<Check>,
    pub writes: Vec<Write>,
    /// Sentences to be read first.
    pub hazards: Vec<String>,
    /// What prevents an undo of the release.
    pub obstacles: Vec<Obstacle>,
    /// Why it needs force, if it does.
    #[serde(skip)]
    pub only_by_force: Option<&'static str>,
    /// What is unknown about the lock and could make the plan wrong: a person is asked, a script needs an option.
    pub doubt: Option<String>,
    /// When its key expires, as it was shown; `None` if unknown.
    pub end: Option<End>,
    /// The identity of the data that it is meant for; `None`: any data at the address.
    pub keyspace: Option<Keyspace>,
    /// Whether it can be undone, or why not; `None` where that was not asked.
    pub undo: Option<Result<(), String>>,
    /// Waiters that leave the queue; of an undo, those that left it and are not put back.
    #[serde(default)]
    pub dropped: Vec<Token>,
    /// Of an undo: how many left the queue then since their deadline had passed.
    #[serde(default)]
    pub overdue: u64,
}

impl Plan {
    /// The same plan, without the comparison of the lease.
    pub fn even_if_renewed(mut self) -> Plan {
        let members = |check| match check {
            Check::Score { key, member, .. } => Check::Member { key, member },
            Check::FieldEnd { key, field, .. } => Check::Field { key, field },
            other => other,
        };
        self.checks.retain(|check| !matches!(check, Check::Lease(_) | Check::Lapsed(_)));
        self.checks = self.checks.into_iter().map(members).collect();
        self
    }

    fn doubting(mut self, doubt: Option<String>) -> Plan {
        self.hazards.splice(0..0, doubt.clone());
        Plan { doubt, ..self }
    }

    /// The same plan, for a user who has settled the doubt.
    pub fn beyond_doubt(mut self) -> Plan {
        if let Some(doubt) = self.doubt.take() {
            self.hazards.retain(|hazard| *hazard != doubt);
        }
        self
    }

    /// What it does to the lock, as reported to the model.
    pub fn act(&self) -> Act {
        let own = |key: &Vec<u8>| *key == self.key.as_bytes();
        match self.action {
            Action::Free => Act::Free {
                whole: self.writes.iter().any(|write| matches!(write, Write::Step(Step::Delete(key)) if own(key))),
            },
            Action::Extend(by) => Act::Extend(by),
            Action::Undo(_) => Act::PutBack {
                whole: self.writes.iter().any(|write| matches!(write, Write::Restore { key, .. } if own(key))),
            },
        }
    }

    /// How many permits it gives back to a counter, or takes back from it, if that is all it does.
    pub fn permits(&self) -> Option<u64> {
        match self.writes.as_slice() {
            [Write::Step(Step::ReturnPermits { permits, .. }) | Write::TakePermits { permits, .. }] => Some(*permits),
            _ => None,
        }
    }

    /// The same in words: `1 permit`.
    pub fn permits_words(&self) -> Option<String> {
        self.permits().map(semaphore::words)
    }

    /// The library, with a `?` if it is a guess, as in the list.
    pub fn library(&self) -> String {
        format!("{}{}", self.dialect, if self.guessed { "?" } else { "" })
    }

    /// What an undo would come to, or why there is none, in a clause; `None` where that was not asked.
    pub fn undoing(&self) -> Option<Result<String, &str>> {
        let may = |()| {
            if let Some(permits) = self.permits_words() {
                return format!("possible while at least {permits} can be taken back");
            }
            let dropped = if self.dropped.is_empty() { "" } else { "; the dropped waiters are not put back" };
            let lease = if self.ttl == Ttl::Never { "" } else { " and its lease would still run" };
            format!("possible while nobody takes the lock{lease}{dropped}")
        };
        Some(self.undo.as_ref()?.as_ref().copied().map(may).map_err(String::as_str))
    }

    /// What an undo does not put back, as a clause. `named`: by ids, else by numbers.
    pub fn not_put_back(&self, named: bool) -> Option<String> {
        matches!(self.action, Action::Undo(_)).then(|| queue::not_put_back(&self.dropped, self.overdue, named))?
    }

    /// What runs, one line each: the comparisons, then the commands.
    pub fn commands(&self) -> Vec<String> {
        self.writes.iter().map(Write::describe).collect()
    }

    /// The conditions for writing, as one line.
    pub fn conditions(&self) -> String {
        let clauses: Vec<String> = self.checks.iter().map(Check::describe).collect();
        clauses.join(" and ")
    }
}

/// What somebody asks for when they free a lock.
#[derive(Clone, Copy, Default)]
pub struct Freeing<'a> {
    /// Only this holder's share; `None`: all holders that were seen.
    pub holder: Option<&'a [u8]>,
    /// Waiters that no longer listen: they are removed from the queue, so that the first living one is woken.
    pub dead_waiters: &'a [Vec<u8>],
    pub force: bool,
}

/// Frees a lock as it was seen.
pub fn free(lock: &LockView, asked: Freeing<'_>, now: Time) -> Result<Plan, Refusal> {
    let release = release(lock, asked, now)?;
    let holders = holders(lock, asked.holder)?;
    let mut checks = compared(lock, &release)?;
    let writes = writes(lock, &release);
    // Nobody waited: a waiter that came since would not be woken.
    if deletes(lock, &release) && lock.proof.blocked == Some(false) && guesses::may_be_popped(lock) {
        checks.push(Check::NobodyBlocked);
    }
    checks.extend(semaphore::unheard(lock));
    let (hazards, dropped) = (hazards(lock, &release), queue::dropped_by(&release));
    let only_by_force = release.only_by_force.filter(|_| !asked.force);
    let is_share = asked.holder.is_some() && !deletes(lock, &release);
    let plan = Plan {
        action: Action::Free,
        staying: if is_share { Staying::beside(lock, &holders) } else { Staying::default() },
        writes,
        obstacles: release.obstacles,
        only_by_force,
        dropped,
        ..about(lock, holders, checks, hazards)
    }
    .doubting(semaphore::doubt(lock))
    .within_slots()?;
    Ok(if asked.force { plan.beyond_doubt() } else { plan })
}

/// What freeing a lock would run, and what to know before.
pub struct Preview {
    pub commands: Vec<String>,
    pub hazards: Vec<String>,
}

/// What [`free`] would do, for a reader: the lock need not be comparable yet. Its only holder loses it, or all holders do.
pub fn preview(lock: &LockView, dead_waiters: &[Vec<u8>], now: Time) -> Result<Preview, Refusal> {
    let holder = match lock.holders.as_slice() {
        [one] => Some(one.token.as_bytes()),
        _ => None,
    };
    let release = release(lock, Freeing { holder, dead_waiters, force: false }, now)?;
    let plan = Plan { writes: writes(lock, &release), ..about(lock, Vec::new(), Vec::new(), hazards(lock, &release)) };
    let plan = plan.doubting(semaphore::doubt(lock)).within_slots()?;
    Ok(Preview { commands: plan.commands(), hazards: plan.hazards })
}

/// What the library's release takes, with the waiters that are dropped.
fn release(lock: &LockView, asked: Freeing<'_>, now: Time) -> Result<Release, Refusal> {
    let (dialect, sight) = read(lock, now)?;
    semaphore::refuse(lock)?;
    let release = match asked.holder {
        Some(token) => dialect.release_holder(&sight, token),
        None => dialect.release(&sight),
    };
    Ok(release.dropping(asked.dead_waiters))
}

fn hazards(lock: &LockView, release: &Release) -> Vec<String> {
    let dropped = queue::warning(&queue::dropped_by(release));
    let own = release.hazards.iter().copied().map(String::from);
    signs_of_life(lock).into_iter().chain(dropped).chain(own).collect()
}

/// Where the library is a guess, does what the others that it may be of need too, if that does no harm to anybody.
fn writes(lock: &LockView, release: &Release) -> Vec<Write> {
    let guessed = lock.dialect_confidence < Claim::SURE;
    let steps = release.steps.iter().cloned();
    let mut writes: Vec<Write> = steps.map(|step| if guessed { by_guess(step) } else { Write::Step(step) }).collect();
    if deletes(lock, release) {
        for write in guesses::wakes(lock).into_iter().map(by_guess) {
            if !writes.contains(&write) {
                writes.push(write);
            }
        }
    }
    writes
}

/// The lock goes as a whole.
fn deletes(lock: &LockView, release: &Release) -> bool {
    release.steps.contains(&Step::Delete(lock.key.as_bytes().to_vec()))
}

/// A step of a library that the lock may belong to. A user without the right to send its message can still free it.
fn by_guess(step: Step) -> Write {
    match step {
        Step::Publish { channel, message } => Write::Tell { channel, message },
        step => Write::Step(step),
    }
}

/// Gives permits back to the semaphore whose counter this is, and notifies those who wait for one.
pub fn give_back(lock: &LockView, permits: u64, now: Time) -> Result<Plan, Refusal> {
    read(lock, now)?;
    let release = semaphore::give_back(lock, permits)?;
    let checks = compared(lock, &release)?;
    let hazards = release.hazards.into_iter().map(String::from).collect();
    let writes = release.steps.into_iter().map(Write::Step).collect();
    Plan { writes, ..about(lock, Vec::new(), checks, hazards) }.doubting(semaphore::token_doubt(lock)).within_slots()
}

/// Gives one permit back, if the lock is known to be a counter of permits.
pub fn returned(lock: &LockView, now: Time) -> Option<Plan> {
    semaphore::counts(lock)?;
    give_back(lock, 1, now).ok()
}

fn about(lock: &LockView, holders: Vec<Token>, checks: Vec<Check>, hazards: Vec<String>) -> Plan {
    Plan {
        action: Action::Free,
        space: lock.space,
        clustered: lock.clustered,
        key: lock.key.clone(),
        dialect: lock.dialect,
        guessed: lock.dialect_confidence < Claim::SURE,
        safe: Some(Safe::of(lock)),
        holders,
        staying: Staying::default(),
        ttl: lock.ttl,
        checks,
        writes: Vec::new(),
        hazards,
        obstacles: Vec::new(),
        only_by_force: None,
        doubt: None,
        end: lock.proof.end,
        keyspace: None,
        undo: None,
        dropped: Vec::new(),
        overdue: 0,
    }
}

fn read(lock: &LockView, now: Time) -> Result<(&'static dyn dialects::Dialect, Sight<'_>), Refusal> {
    if let Some(lost) = &lock.lost {
        return Err(Refusal::NotSo(format!("{}: {}", lock.key, lost.nothing_to_free())));
    }
    let id = dialects::by_name(lock.dialect).ok_or_else(|| nothing_to_compare(lock))?;
    Ok((dialects::dialect(id), lock.sight(now)))
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

/// Evidence that the holder is alive.
fn signs_of_life(lock: &LockView) -> Vec<String> {
    let mut signs = Vec::new();
    if let Pulse::Renews { last_ms } = Pulse::of(lock) {
        signs.push(format!("It was renewed {} ago, on time: its holder seems to live.", short_duration(last_ms)));
    }
    if lock.stale {
        signs.push("What is shown here is stale: the server has not confirmed it lately.".into());
    }
    signs
}
