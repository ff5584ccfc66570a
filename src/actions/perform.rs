//! Performs exactly what was planned, and reports the outcome.
//!
//! In this order: the gate, the record for undo, the audit file, the server, and the recorded outcome. `attempt` speaks
//! to the server, `returned` parses what the script returns.

mod attempt;
mod returned;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use self::attempt::Attempt;
use super::comparisons;
use super::gate::{Gate, Refusal};
use super::journal::{Context, Journal};
use super::keep;
use super::plan::{Action, Plan};
use super::queue::Cleared;
use crate::base::clock::Clock;
use crate::base::text;
use crate::lock::NodeId;
use crate::model::End;
use crate::topology::{Owner, Topology};

/// How long an answer may take before the outcome is unknown.
const ANSWER: Duration = Duration::from_secs(5);

/// The result of an action.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// All of it was written. `silent`: why waiters were not notified, if they were not.
    Done { woken: u64, silent: Option<String> },
    /// Nothing was written, and why.
    Refused(Refusal),
    /// The server did not answer; what is there now, as far as known.
    Unknown(String),
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done { .. } => "done",
            Outcome::Refused(_) => "refused",
            Outcome::Unknown(_) => "unknown",
        }
    }

    /// Why it was not done, or which part is missing.
    pub fn why(&self) -> Option<String> {
        match self {
            Outcome::Done { silent, .. } => silent.clone(),
            Outcome::Refused(why) => Some(why.to_string()),
            Outcome::Unknown(why) => Some(why.clone()),
        }
    }
}

/// An action and its result.
#[derive(Clone, PartialEq, Debug)]
pub struct Performed {
    pub id: String,
    pub outcome: Outcome,
    /// It can be undone, or why not.
    pub undo: Result<(), String>,
    /// Its lease was not the one that was shown: as a clause.
    pub renewed: Option<String>,
    /// What became of the waiters in its queue.
    pub queue: Cleared,
    /// More waiters may have been notified than were counted: a node of a cluster counts its own clients only.
    pub at_least: bool,
    /// The last holder of several went with it, and so the lock.
    pub emptied: bool,
}

/// Passes the gate, puts it on record, writes, and puts the outcome on record.
pub async fn perform(
    plan: &Plan,
    gate: &Gate,
    topology: &Topology,
    journal: &mut Journal,
    context: &Context,
) -> Performed {
    let clock = Clock::start();
    let id = journal.number(clock.now());
    let refused = Performed::refused;
    let admission = match gate.admit_plan(plan) {
        Ok(admission) => admission,
        Err(why) => return refused(id, why),
    };
    // The question may have been open for long: if the record is gone, it was already put back.
    if let Action::Undo(undone) = &plan.action
        && comparisons::is_made("on_record")
        && !matches!(journal.kept(undone), Ok(Some(_)))
    {
        return refused(id, Refusal::NotSo(format!("nothing is kept under {undone}: it was put back already")));
    }
    let kept = Err("only a release can be undone".into());
    let mut attempt = Attempt::new(plan, admission, topology, kept);
    let began = attempt.prepare(&id, context, &clock).await;
    let place = || topology.place(plan.space, &plan.key);
    let node = began.as_ref().map_or_else(|_| place(), |owner| owner.node().clone());
    if let Ok(kept) = &mut attempt.kept {
        kept.about.batch = journal.batch();
    }
    let record = match &began {
        Ok(_) => json!({ "phase": "intent" }),
        Err(why) => json!({ "phase": "outcome", "outcome": "refused", "why": why.to_string() }),
    };
    // The undo record comes first: an intent in the audit file means that everything was ready.
    let kept = attempt.kept.as_ref().map_or(Ok(()), |kept| journal.keep(kept));
    if let Err(why) = kept.and_then(|()| journal.write(clock.now(), &id, plan, &node, context, record)) {
        journal.forget(&id);
        return refused(id, Refusal::Audit(why.to_string()));
    }
    let mut owner = match began {
        Ok(owner) => owner,
        Err(why) => {
            journal.forget(&id);
            return refused(id, why);
        }
    };
    let outcome = attempt.write(&mut owner, &clock).await;
    attempt.settle(&outcome, &id, journal);
    if let (Outcome::Done { .. }, Action::Undo(undone)) = (&outcome, &plan.action) {
        journal.forget(undone);
    }
    let mut record = json!({ "phase": "outcome", "outcome": outcome.name(), "why": outcome.why() });
    if let Value::Object(record) = &mut record {
        attempt.queue.put_into(record);
    }
    // It is done, even if the second line can't be written.
    let _ = journal.write(clock.now(), &id, plan, owner.node(), context, record);
    let undo = match &outcome {
        Outcome::Refused(_) => Err("nothing was changed".into()),
        _ => attempt.kept.as_ref().map(|_| ()).map_err(String::clone),
    };
    let renewed = attempt.ended.filter(|_| matches!(outcome, Outcome::Done { .. })).and_then(|end| renewed(plan, end));
    let Attempt { at_least, emptied, queue, .. } = attempt;
    Performed { id, outcome, undo, renewed, at_least, emptied, queue }
}

impl Performed {
    /// What the plan freed, if that was not the whole lock. `named`: with the name of its holder.
    pub fn freed_share(&self, plan: &Plan, named: bool) -> Option<String> {
        let is_free = plan.staying.is_nobody() || self.emptied;
        (!is_free).then(|| plan.staying.freed(plan.holders.first().filter(|_| named), &plan.key))
    }

    /// The rest of the result, each part as a clause after a semicolon: who was notified, what happened to the queue, and
    /// whether `undo` puts it back. `named`: by ids, else by numbers.
    pub fn aftermath(&self, plan: &Plan, named: bool, undo: &str) -> String {
        let Outcome::Done { woken, silent } = &self.outcome else { return String::new() };
        let at_least = if self.at_least { "at least " } else { "" };
        let mut line = match woken {
            0 => String::new(),
            woken => format!("; notified {at_least}{}", text::counted(*woken, "waiter")),
        };
        line.extend(silent.iter().map(|why| format!("; waiters were not notified: {why}")));
        line.push_str(&self.queue.describe(named));
        line.extend(plan.not_put_back(named).map(|what| format!("; {what}")));
        match (&plan.action, &self.undo) {
            (Action::Free, Ok(())) if plan.permits().is_some() => {
                line.push_str(&format!("; {undo} takes them back"));
            }
            (Action::Free, Ok(())) => line.push_str(&format!("; {undo} puts it back{}", self.queue.undone())),
            (Action::Free, Err(why)) => line.push_str(&format!("; it can't be undone: {why}")),
            _ => {}
        }
        line.extend(self.renewed.iter().flat_map(|renewed| ["; ", renewed]));
        line
    }

    /// Nothing was written.
    pub fn refused(id: String, why: Refusal) -> Performed {
        let (outcome, undo) = (Outcome::Refused(why), Err("nothing was changed".into()));
        Performed { id, outcome, undo, renewed: None, queue: Cleared::default(), at_least: false, emptied: false }
    }
}

/// Asks, for each of these, whether undo will be possible, so that it is in the preview.
pub async fn foresee(topology: &Topology, plans: impl IntoIterator<Item = &mut Plan>) {
    let mut readers: HashMap<NodeId, Option<Owner>> = HashMap::new();
    for plan in plans {
        let place = topology.place(plan.space, &plan.key).id;
        if let std::collections::hash_map::Entry::Vacant(new) = readers.entry(place) {
            new.insert(timeout(ANSWER, topology.reader(plan.space, &plan.key)).await.ok().and_then(Result::ok));
        }
        plan.undo = match readers.get_mut(&place) {
            Some(Some(owner)) => match timeout(ANSWER, keep::foresee(owner, plan)).await {
                Ok(Ok(foreseen)) => Some(foreseen),
                Ok(Err(error)) => Some(Err(format!("the server could not be asked: {}", text::said(&error)))),
                Err(_) => Some(Err("the server does not answer".into())),
            },
            _ => Some(Err("the server could not be asked".into())),
        };
    }
}

/// A clause if the lease was not the one that was shown and that did not stop the write.
fn renewed(plan: &Plan, found: i64) -> Option<String> {
    /// Two readings of the same end may differ by this much.
    const GRAIN_MS: i64 = 50;
    let later = match plan.end? {
        End::Never => found >= 0,
        End::At { ms, within } => found < 0 || (found - ms).abs() > within + GRAIN_MS,
    };
    later.then(|| "it was renewed, or taken again by the same token, while you decided".into())
}
