//! What the writing commands share: the gate, the records, the question before, and the result after.

mod eval;
mod wording;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::wording::{outcome_line, preview, why_not};
use super::session::Session;
use crate::actions::{
    Action, Cleared, Context, DryRuns, Gate, Journal, Keyspace, Outcome, Performed, Plan, Refusal, Tally, dry_run,
    perform, safe_to_free,
};
use crate::base::clock::Clock;
use crate::base::fault::{Exit, Fault};
use crate::base::json::{put, put_all};
use crate::base::signals::{self, Signals};
use crate::base::talk;
use crate::base::text;
use crate::lock::Token;
use crate::model::LockView;
use crate::output;
use crate::settings::cli::Environment;
use crate::test_lock::joined;

pub use self::wording::in_doubt;

/// Pause between two of many writes.
const BREATHER: Duration = Duration::from_millis(20);

/// Performs the writes of a command.
pub struct Actor<'a> {
    session: &'a Session,
    gate: Gate,
    journal: Journal,
    context: Context,
    json: bool,
    /// Listened to from the first write on, so that a signal does not interrupt the write under way.
    signals: Option<Signals>,
}

impl<'a> Actor<'a> {
    /// Refuses at once if nothing may be written, or nothing can be recorded.
    pub fn new(session: &'a Session, reason: Option<&str>, json: bool) -> Result<Actor<'a>, Fault> {
        match session.settings.gate().closed() {
            Some(why) => Err(Fault::finding(why.to_string())),
            None => Actor::who_looks(session, reason, json),
        }
    }

    /// For a dry run, which says for each lock whether it may be written. It does not open the gate.
    pub fn who_looks(session: &'a Session, reason: Option<&str>, json: bool) -> Result<Actor<'a>, Fault> {
        let gate = session.settings.gate();
        let journal = Journal::open().map_err(|why| Fault::finding(Refusal::Audit(why.to_string()).to_string()))?;
        let context = Context {
            target: session.shown.clone(),
            environment: session.settings.environment.map(Environment::name),
            reason: reason.map(|reason| text::visible(reason.as_bytes())),
        };
        Ok(Actor { session, gate, journal, context, json, signals: None })
    }

    /// Stores the admitted plans of a dry run; returns the id with which they can be performed.
    pub async fn keep_plans(&self, plans: &[&Plan]) -> Result<String, Fault> {
        // The plans hold for this data only; the address may lead to another server later.
        let mut plans: Vec<Plan> = plans.iter().filter(|plan| self.refusal(plan).is_none()).copied().cloned().collect();
        let here = self.keyspaces(&plans).await?;
        plans.iter_mut().zip(here).for_each(|(plan, here)| plan.keyspace = here);
        if plans.is_empty() {
            return Err(Fault::finding("none of this may be done"));
        }
        if plans.len() > dry_run::MOST {
            let most = dry_run::MOST;
            return Err(Fault::finding(format!("a plan holds at most {most} locks; narrow the filter or add --limit")));
        }
        let kept = DryRuns::open()
            .and_then(|runs| runs.keep(plans, &self.context.target, self.session.topology.db(), Clock::start().now()));
        kept.map_err(|why| Fault::finding(format!("the plan can't be kept: {why}")))
    }

    /// Refuses plans that were made for other data, before the stored dry run is used up.
    pub async fn is_in_data_of(&self, plans: &[Plan]) -> Result<(), Fault> {
        let here = self.keyspaces(plans).await?;
        let moved = plans.iter().zip(&here).find_map(|(plan, here)| match (&plan.keyspace, here) {
            (Some(then), Some(here)) => here.continues(then).err(),
            (Some(_), None) => Some("the server does not identify itself".into()),
            (None, _) => None,
        });
        moved.map_or(Ok(()), |why| Err(Fault::finding(format!("{why}; nothing was changed, and the plan is kept"))))
    }

    /// For each plan, the identity of the data that it would change; `None` if its server does not report it.
    async fn keyspaces(&self, plans: &[Plan]) -> Result<Vec<Option<Keyspace>>, Fault> {
        let (mut asked, mut found) = (HashMap::new(), Vec::new());
        for plan in plans {
            let node = self.session.topology.place(plan.space, &plan.key);
            let here = match asked.entry(node.id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => {
                    let topology = &self.session.topology;
                    let asking = async { Keyspace::read(&mut topology.reader(plan.space, &plan.key).await?).await };
                    vacant.insert(asking.await.map_err(|error| self.session.fault(&error))?.ok())
                }
            };
            found.push(here.clone());
        }
        Ok(found)
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Performs the plans one after the other. Stops after the current one on a signal, a missing answer or a failure
    /// to print; then reports and records how many were not touched.
    pub async fn perform_all(&mut self, plans: &[&Plan]) -> Result<u8, Fault> {
        let Some(first) = plans.first() else { return Ok(0) };
        let (mut tally, mut code, mut stopped) = (Tally::of(plans.len(), &first.action), 0, None);
        for (number, plan) in plans.iter().enumerate() {
            stopped = stopped.or(if number == 0 { None } else { self.told_to_end(BREATHER).await });
            if stopped.is_some() {
                break;
            }
            let performed = self.attempt(plan).await?;
            tally.count(&performed.outcome);
            code = code.max(exit_code(&performed.outcome));
            stopped = match (self.tell(plan, &performed), &performed.outcome) {
                (Err(fault), _) => {
                    code = code.max(fault.exit_code());
                    Some(format!("a failure ({fault})"))
                }
                (Ok(()), Outcome::Unknown(_)) => Some("a missing answer".into()),
                (Ok(()), _) => None,
            };
        }
        if tally.untouched() > 0 {
            let why = stopped.unwrap_or_default();
            // The terminal may be gone; the record below must still be written.
            let _ = writeln!(io::stderr(), "stopped by {why}: {tally}");
            let now = Clock::start().now();
            let node = self.session.topology.place(first.space, &first.key);
            let noted = self.journal.write_stopped(now, &node, &self.context, &tally, &format!("stopped by {why}"));
            noted.map_err(|why| Fault::finding(format!("the audit file can't be written: {why}")))?;
            code = code.max(1);
        }
        Ok(code)
    }

    /// Waits for the pause; returns the name of a signal that came meanwhile.
    async fn told_to_end(&mut self, pause: Duration) -> Option<String> {
        let signals = self.signals.as_mut()?;
        tokio::select! {
            biased;
            signal = signals.next() => Some(signals::name_of(signal).to_string()),
            () = tokio::time::sleep(pause) => None,
        }
    }

    /// Performs the plan and reports the result.
    pub async fn perform(&mut self, plan: &Plan) -> Result<Outcome, Fault> {
        let performed = self.attempt(plan).await?;
        self.tell(plan, &performed)?;
        Ok(performed.outcome)
    }

    async fn attempt(&mut self, plan: &Plan) -> Result<Performed, Fault> {
        if self.signals.is_none() {
            self.signals = Some(Signals::listen()?);
        }
        Ok(perform(plan, &self.gate, &self.session.topology, &mut self.journal, &self.context).await)
    }

    /// Says what would be done.
    pub fn show(&self, plan: &Plan, kept: Option<&str>) -> Result<(), Fault> {
        let refusal = self.refusal(plan);
        if self.json {
            let mut shown = self.result(plan, None, None, None, None);
            if let Value::Object(shown) = &mut shown {
                put_all(shown, "dropped", plan.dropped.iter().map(Token::as_bytes));
            }
            shown["dry_run"] = json!(true);
            shown["plan"] = json!(kept.filter(|_| refusal.is_none()));
            shown["refused"] = json!(refusal.map(|why| why.to_string()));
            if plan.action == Action::Free {
                shown["safe_to_free"] = json!(plan.safe.as_ref().map(output::Safety::of));
            }
            shown["hazards"] = json!(plan.hazards);
            shown["conditions"] = json!(plan.conditions());
            shown["undo"] = json!(plan.undo.as_ref().map(undo_json));
            return print_json(&shown);
        }
        super::print(|out| preview(plan, refusal.as_ref(), &self.session.style(), out)).map(drop)
    }

    /// Says what would be done to many: a table, and each hazard once.
    pub fn show_all(&self, plans: &[(&LockView, Plan)], kept: Option<&str>) -> Result<(), Fault> {
        if self.json {
            return plans.iter().try_for_each(|(_, plan)| self.show(plan, kept));
        }
        let locks: Vec<LockView> = plans.iter().map(|(lock, _)| (*lock).clone()).collect();
        let hazards: BTreeSet<&String> = plans.iter().flat_map(|(_, plan)| &plan.hazards).collect();
        let refusals = plans.iter().filter_map(|(_, plan)| Some((plan, self.refusal(plan)?)));
        let for_good = plans.iter().filter_map(|(_, plan)| Some((plan, plan.undo.as_ref()?.as_ref().err()?)));
        super::print(|out| {
            output::table::write(out, &locks, &self.session.style())?;
            for line in safe_to_free(plans.iter().map(|(_, plan)| plan)) {
                writeln!(out, "{} {line}", output::FREE_IT)?;
            }
            hazards.iter().try_for_each(|hazard| writeln!(out, "beware: {hazard}"))?;
            for (plan, why) in refusals {
                writeln!(out, "{} can't be freed: {why}", plan.key)?;
            }
            for (plan, why) in for_good {
                writeln!(out, "freeing {} can't be undone: {why}", plan.key)?;
            }
            Ok(())
        })
        .map(drop)
    }

    /// Why it would be refused, as far as known without the server.
    pub fn refusal(&self, plan: &Plan) -> Option<Refusal> {
        self.gate.admit_plan(plan).err()
    }

    /// Asks for confirmation after the preview: on production, the lock's name. Without a terminal it can't ask.
    pub fn asks(&self, plan: &Plan, yes: bool) -> Result<bool, Fault> {
        if let Some(why) = self.refusal(plan) {
            return Err(Fault::finding(why.to_string()));
        }
        if yes {
            return in_doubt(plan).map_or(Ok(true), |why| Err(Fault::finding(why)));
        }
        if !io::stdin().is_terminal() {
            let look = match plan.action {
                Action::Undo(_) => "'lockscope undo --list'",
                Action::Free | Action::Extend(_) => "--dry-run",
            };
            return Err(Fault::usage(format!(
                "{} asks before it writes, and there is no terminal to ask on; add --yes, or look first with {look}",
                plan.action.name()
            )));
        }
        let mut shown = Vec::new();
        preview(plan, None, &self.session.style(), &mut shown)?;
        talk::say_all(&String::from_utf8_lossy(&shown));
        if self.session.settings.environment == Some(Environment::Prod) {
            talk::ask(&format!("This is production. Type the lock's name to {} it: ", plan.action.name()));
            return Ok(answer()? == text::visible(plan.key.as_bytes()));
        }
        talk::ask("Do that? [y/N] ");
        Ok(matches!(answer()?.to_lowercase().as_str(), "y" | "yes"))
    }

    /// Reports the result. If stdout can't be written it goes to stderr, because the write has already happened.
    fn tell(&self, plan: &Plan, performed: &Performed) -> Result<(), Fault> {
        self.print_outcome(plan, performed)
            .inspect_err(|_| talk::say(&outcome_line(plan, performed, &self.session.settings.again)))
    }

    fn print_outcome(&self, plan: &Plan, performed: &Performed) -> Result<(), Fault> {
        let Performed { id, outcome, undo, renewed, queue, at_least, .. } = performed;
        if self.json {
            let woke = match outcome {
                Outcome::Done { woken, .. } => Some(*woken),
                _ => None,
            };
            let mut result = self.result(plan, Some(id), Some(outcome.name()), why_not(outcome).as_deref(), woke);
            if let Value::Object(result) = &mut result {
                // An undo drops nobody: it names those that it does not put back.
                let undone = Cleared { dropped: plan.dropped.clone(), overdue: plan.overdue, ..Cleared::default() };
                let undoes = matches!((&plan.action, outcome), (Action::Undo(_), Outcome::Done { .. }));
                if undoes { &undone } else { queue }.put_into(result);
            }
            if woke.is_some() {
                result["woke_at_least"] = json!(at_least);
            }
            result["renewed"] = json!(renewed.is_some());
            if plan.action == Action::Free {
                result["undo"] = undo_json(undo);
            }
            return print_json(&result);
        }
        super::print(|out| writeln!(out, "{}", outcome_line(plan, performed, &self.session.settings.again))).map(drop)
    }

    fn result(
        &self,
        plan: &Plan,
        id: Option<&str>,
        outcome: Option<&str>,
        why: Option<&str>,
        woke: Option<u64>,
    ) -> Value {
        let mut result = Map::new();
        put(&mut result, "key", plan.key.as_bytes());
        put_all(&mut result, "holders", plan.holders.iter().map(Token::as_bytes));
        let more = json!({
            "schema": "lockscope/1",
            "id": id,
            "action": plan.action.name(),
            "outcome": outcome,
            "why": why,
            "commands": plan.commands(),
            "woke": woke,
        });
        joined(&result, &more)
    }
}

/// How a command on one lock ends. With --json, an early refusal is printed as a result too.
pub fn ended(result: Result<u8, Fault>, action: &str, key: Option<&str>, json: bool) -> Result<u8, Fault> {
    match result {
        Err(fault) if json && fault.exit == Exit::Finding => {
            let mut about = Map::new();
            match key.map(|typed| text::unescape(typed).unwrap_or_else(|_| typed.into())) {
                Some(key) => put(&mut about, "key", &key),
                None => drop(about.insert("key".into(), Value::Null)),
            }
            let refused = json!({
                "schema": "lockscope/1",
                "id": null,
                "action": action,
                "holders": [],
                "outcome": "refused",
                "why": fault.to_string(),
                "commands": [],
                "woke": null,
            });
            print_json(&joined(&about, &refused))?;
            Ok(fault.exit_code())
        }
        result => result,
    }
}

fn undo_json(undo: &Result<(), String>) -> Value {
    json!({ "possible": undo.is_ok(), "why": undo.as_ref().err() })
}

/// The exit code for an outcome.
pub fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Done { .. } => 0,
        Outcome::Refused(why) if !why.is_the_server_s() => 1,
        Outcome::Refused(_) | Outcome::Unknown(_) => 3,
    }
}

fn answer() -> Result<String, Fault> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_string())
}

fn print_json(value: &Value) -> Result<(), Fault> {
    super::print(|out| {
        crate::base::json::write_value(out, value)?;
        writeln!(out)
    })
    .map(drop)
}
