//! Whether the console may write, and what the writing keys do. It is read-only until `:write`, and again after some
//! time without a key.

use std::time::Duration;

use super::dialog::{Choice, Dialog, Sight};
use super::{App, Effect, LockId, Overlay, Since};
use crate::actions::{Action, Cleared, Freeing, Kept, Outcome, Performed, Plan, Refusal, plan};
use crate::base::text::{self, short_duration};
use crate::base::time::{Time, Ttl};
use crate::lock::Token;
use crate::model::LockView;
use crate::settings::cli::Environment;
use crate::sources::inspect::Inspection;

/// Writing turns off after this long without a key.
pub const IDLE: Duration = Duration::from_secs(300);
/// The TTLs to choose from.
const TTLS: [Duration; 4] =
    [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_800), Duration::from_secs(7_200)];
/// The first TTL offered for a lock without one.
const FIRST_TTL: Duration = Duration::from_secs(300);
/// At most this many holders are offered one by one.
const HOLDERS: usize = 8;
/// For at most this many plans the dialog asks ahead whether they could be undone.
const FORESEEN: usize = 500;
/// At most this many locks are freed at once.
pub const MOST: usize = 10_000;

/// What the user wants to do to locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    Free,
    /// To a TTL that was typed, or one of the usual ones.
    Extend(Option<Duration>),
}

/// The result of one write, in a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Came {
    pub line: String,
    pub ended: Ended,
    /// More came of it than a line at the bottom tells.
    pub to_be_read: bool,
}

/// How a write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Done,
    /// The server may or may not have done it.
    Unknown,
    /// Refused, or stopped before it began.
    NotDone,
}

#[derive(Debug, Default)]
pub struct Writing {
    /// Why the target may never be written, if that is so.
    pub never: Option<String>,
    until: Option<Time>,
    /// The lock that is being inspected before the dialog opens.
    pending: Option<(Wish, Box<LockView>)>,
    /// The results so far, while several plans are performed.
    pub results: Vec<Came>,
    /// What was refused of it, since the lock was not what was shown: it can be looked at again.
    moved: Vec<(Action, LockId)>,
    /// How many are being performed.
    pub running: Option<usize>,
    /// The record that the undo question is about.
    pub recalled: Option<Box<Kept>>,
}

impl Writing {
    pub fn new(never: Option<String>, on: bool, now: Time) -> Writing {
        Writing { until: (on && never.is_none()).then(|| now + IDLE), never, ..Writing::default() }
    }

    pub fn is_on(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    /// Whether something was refused that can be looked at again.
    pub fn can_look_again(&self) -> bool {
        !self.moved.is_empty()
    }

    fn again(&self) -> Option<Effect> {
        let (action, _) = self.moved.first()?;
        let wish = match action {
            Action::Free => Wish::Free,
            Action::Extend(by) => Wish::Extend(Some(*by)),
            Action::Undo(_) => return Some(Effect::Recall),
        };
        Some(Effect::See(wish, self.moved.iter().map(|(_, id)| id.clone()).collect()))
    }
}

impl App {
    /// Whether writing is on.
    pub fn writes(&self) -> bool {
        self.writing.until.is_some()
    }

    /// A key keeps writing on; without one it turns off by itself.
    pub(super) fn keep_writing(&mut self, pressed: bool, now: Time) {
        match self.writing.until {
            Some(until) if until <= now => {
                self.writing.until = None;
                if matches!(self.overlay, Overlay::Dialog(_) | Overlay::Acquire(_)) {
                    self.overlay = Overlay::None;
                }
                let idle = short_duration(IDLE.as_millis() as u64);
                let kept = self.kept_tests();
                self.say(format!("read-only again, after {idle} without a key{kept}"), now);
            }
            Some(_) if pressed => self.writing.until = Some(now + IDLE),
            _ => {}
        }
    }

    /// `:write`, and again to turn it off.
    pub(super) fn toggle_writing(&mut self, now: Time) {
        if let Some(why) = self.writing.never.clone() {
            return self.say(why, now);
        }
        self.writing.until = if self.writes() { None } else { Some(now + IDLE) };
        let text = match self.writes() {
            true => format!("writing is on until {} pass without a key", short_duration(IDLE.as_millis() as u64)),
            false => format!("read-only again{}", self.kept_tests()),
        };
        self.say(text, now);
    }

    /// Asks for the locks as they are now: the marked ones, or the one that is selected or opened.
    pub(super) fn wish(&mut self, wish: Wish, now: Time) -> Vec<Effect> {
        if !self.may_write(now) {
            return Vec::new();
        }
        let one = self.page.opened.clone().or_else(|| self.list.selected.clone());
        let marked: Vec<LockId> = self.list.marked.iter().cloned().collect();
        let ids = if wish == Wish::Free && self.page.opened.is_none() && !marked.is_empty() {
            marked
        } else {
            one.into_iter().collect()
        };
        if ids.is_empty() {
            self.say("there is no lock to do that to".into(), now);
            return Vec::new();
        }
        vec![Effect::See(wish, ids)]
    }

    /// Asks once more, by what is there now: from a question, or from what was refused after one.
    pub(super) fn look_again(&mut self, now: Time) -> Vec<Effect> {
        if !self.may_write(now) {
            return Vec::new();
        }
        let again = match &self.overlay {
            Overlay::Dialog(dialog) => Some(dialog.again()),
            Overlay::Results { .. } => self.writing.again(),
            _ => None,
        };
        self.overlay = Overlay::None;
        again.into_iter().collect()
    }

    pub(super) fn wish_undo(&mut self, now: Time) -> Vec<Effect> {
        if self.may_write(now) { vec![Effect::Recall] } else { Vec::new() }
    }

    pub(super) fn may_write(&mut self, now: Time) -> bool {
        if self.writing.running.is_some() {
            self.say("something is being done still".into(), now);
            return false;
        }
        if self.writes() {
            return true;
        }
        let why = self.writing.never.clone();
        self.say(why.unwrap_or("lockscope is read-only now; :write turns writing on".into()), now);
        false
    }

    /// Takes the locks from the table. A single lock is inspected first: its preview names who waits.
    pub(super) fn take_seen(&mut self, wish: Wish, mut locks: Vec<LockView>, now: Time) -> Vec<Effect> {
        match locks.len() {
            0 => self.say("the lock is gone".into(), now),
            1 => {
                let lock = locks.remove(0);
                let id = LockId::of(&lock);
                self.writing.pending = Some((wish, Box::new(lock)));
                return vec![Effect::Inspect(id)];
            }
            _ => return self.open_dialog(Some(wish), free_many(&locks, now), None, now),
        }
        Vec::new()
    }

    /// Opens the dialog after the inspection that it waited for.
    pub(super) fn take_closer_look(&mut self, id: &LockId, found: &Inspection, now: Time) -> Vec<Effect> {
        let Some((wish, lock)) = self.writing.pending.take_if(|(_, lock)| id.is(lock)) else { return Vec::new() };
        if !self.writes() {
            return Vec::new();
        }
        let choices = match wish {
            Wish::Free => free_choices(&lock, found, now),
            Wish::Extend(ttl) => extend_choices(&lock, ttl, now),
        };
        self.open_dialog(Some(wish), choices, Some(found.waiters.describe()), now)
    }

    pub(super) fn take_recalled(&mut self, kept: Result<Option<Box<Kept>>, String>, now: Time) -> Vec<Effect> {
        match kept {
            Err(why) => self.say(why, now),
            Ok(None) => self.say("nothing was freed here that could be put back".into(), now),
            Ok(Some(kept)) => return vec![Effect::Retrace(kept)],
        }
        Vec::new()
    }

    /// A lock that others have held since is not put back. If it was not watched, the question says so.
    pub(super) fn take_retraced(&mut self, kept: Box<Kept>, since: Since, now: Time) {
        let doubt = match since {
            Since::Held(why) => return self.say(format!("not put back: {why}"), now),
            Since::Unwatched(why) => Some(why),
            Since::Nobody => None,
        };
        let plan = kept.plan(now).map(|mut plan| {
            plan.hazards.extend(doubt);
            vec![Choice::of("put it back", plan)]
        });
        self.writing.recalled = Some(kept);
        self.open_dialog(None, plan, None, now);
    }

    /// What was drawn of the question.
    pub fn was_shown(&mut self, sight: Option<Sight>) {
        if let (Overlay::Dialog(dialog), Some(sight)) = (&mut self.overlay, sight) {
            dialog.was_shown(sight);
        }
    }

    pub(super) fn take_foreseen(&mut self, plans: &[Plan]) {
        if let Overlay::Dialog(dialog) = &mut self.overlay {
            dialog.foresee(plans);
        }
    }

    /// Opens the question, and asks meanwhile whether each release could be undone.
    fn open_dialog(
        &mut self,
        wish: Option<Wish>,
        choices: Result<Vec<Choice>, Refusal>,
        waiters: Option<String>,
        now: Time,
    ) -> Vec<Effect> {
        match choices {
            Ok(choices) => {
                let plans = choices.iter().flat_map(|choice| &choice.plans);
                let frees: Vec<Plan> =
                    plans.filter(|plan| plan.action == Action::Free).take(FORESEEN).cloned().collect();
                let production = self.title.environment == Some(Environment::Prod);
                self.overlay = Overlay::Dialog(Box::new(Dialog::new(wish, choices, waiters, production)));
                if frees.is_empty() { Vec::new() } else { vec![Effect::Foresee(frees)] }
            }
            Err(why) => {
                self.say(why.to_string(), now);
                Vec::new()
            }
        }
    }

    /// Performs the confirmed plans.
    pub(super) fn confirmed(&mut self, plans: Vec<Plan>, reason: Option<String>) -> Vec<Effect> {
        self.overlay = Overlay::None;
        self.writing.results.clear();
        self.writing.moved.clear();
        self.writing.running = Some(plans.len());
        vec![Effect::Perform(plans, reason)]
    }

    pub(super) fn take_performed(&mut self, plan: &Plan, performed: &Performed, now: Time) {
        let ended = match performed.outcome {
            Outcome::Done { .. } => Ended::Done,
            Outcome::Unknown(_) => Ended::Unknown,
            Outcome::Refused(_) => Ended::NotDone,
        };
        if let Outcome::Refused(Refusal::Moved(_) | Refusal::AnotherLease(_)) = performed.outcome {
            self.writing.moved.push((plan.action.clone(), LockId::of_plan(plan)));
        }
        let line = told(plan, performed, !self.display.private);
        self.say(line.clone(), now);
        let to_be_read =
            ended != Ended::Done || performed.queue != Cleared::default() || plan.not_put_back(false).is_some();
        self.writing.results.push(Came { line, ended, to_be_read });
        // What was freed needs no mark any more.
        if ended == Ended::Done {
            self.list.marked.retain(|id| id.key != plan.key || id.space != plan.space);
        }
    }

    /// How many plans are still to do, and of how many, while they are performed.
    pub fn undone(&self) -> Option<(usize, usize)> {
        self.writing.running.map(|asked| (asked.saturating_sub(self.writing.results.len()), asked))
    }

    /// Shows one result as a line at the bottom, unless it must be read; several as a list.
    pub(super) fn all_performed(&mut self) {
        let asked = self.writing.running.take().unwrap_or(0);
        if matches!(self.overlay, Overlay::Leave) {
            // Nothing is running any more, so there is nothing to ask.
            self.overlay = Overlay::None;
        }
        let results = &mut self.writing.results;
        let untouched = asked.saturating_sub(results.len());
        if untouched > 0 {
            let line = format!("stopped: {untouched} of {asked} were not touched");
            results.push(Came { line, ended: Ended::NotDone, to_be_read: true });
        }
        let to_be_read = results.len() > 1 || results.iter().any(|came| came.to_be_read);
        if to_be_read && matches!(self.overlay, Overlay::None) {
            self.overlay = Overlay::Results { scroll: 0 };
            self.notice = None;
        }
    }
}

/// What came of it, in a line.
fn told(plan: &Plan, performed: &Performed, named: bool) -> String {
    let key = &plan.key;
    match &performed.outcome {
        Outcome::Refused(why) => format!("refused: {key}: {why}"),
        Outcome::Unknown(why) => format!("unknown: {key}: {why}"),
        Outcome::Done { woken, silent } => {
            let what = performed.freed_share(plan, named).unwrap_or_else(|| format!("{} {key}", plan.action.name()));
            let mut line = format!("done: {what}");
            match (woken, silent) {
                (_, Some(why)) => line.push_str(&format!("; waiters were not told: {why}")),
                (0, None) => {}
                (1, None) => line.push_str("; told 1 waiter"),
                (woken, None) => line.push_str(&format!("; told {woken} waiters")),
            }
            line.push_str(&performed.queue.describe(named));
            line.extend(plan.not_put_back(named).map(|what| format!("; {what}")));
            match (&plan.action, &performed.undo) {
                (Action::Free, Ok(())) => line.push_str(&format!("; undo puts it back{}", performed.queue.undone())),
                (Action::Free, Err(why)) => line.push_str(&format!("; it can't be undone: {why}")),
                _ => {}
            }
            line.extend(performed.renewed.iter().flat_map(|renewed| ["; ", renewed]));
            line
        }
    }
}

/// Offers the gentler choice first: a TTL for a lock that never expires.
fn free_choices(lock: &LockView, found: &Inspection, now: Time) -> Result<Vec<Choice>, Refusal> {
    let mut choices = Vec::new();
    if lock.ttl == Ttl::Never {
        choices.extend(extend_choices(lock, Some(FIRST_TTL), now).unwrap_or_default());
    }
    let dead = found.waiters.deaf();
    let free = |holder: Option<&Token>| {
        let asked = Freeing { holder: holder.map(Token::as_bytes), dead_waiters: &dead, force: false };
        let plan = plan::free(lock, asked, now)?;
        match plan.only_by_force {
            Some(why) => Err(Refusal::OnlyByForce(why)),
            None => Ok(plan),
        }
    };
    if let Some(permit) = plan::returned(lock, now) {
        return Ok(vec![Choice::of("give one permit back", permit)]);
    }
    match lock.holders.as_slice() {
        [] => choices.push(Choice::of("free it", free(None)?)),
        [one] => choices.push(Choice::of("free it", free(Some(&one.token))?)),
        many => {
            for holder in many.iter().take(HOLDERS) {
                let label = format!("free the hold of {}", text::short_token(&holder.token.to_string()));
                choices.push(Choice::of(label, free(Some(&holder.token))?));
            }
            choices.push(Choice::of(format!("free all {} holds", many.len()), free(None)?));
        }
    }
    Ok(choices)
}

fn extend_choices(lock: &LockView, typed: Option<Duration>, now: Time) -> Result<Vec<Choice>, Refusal> {
    let ttls = typed.map_or(TTLS.to_vec(), |ttl| vec![ttl]);
    let mut refused = None;
    let mut choices = Vec::new();
    for ttl in ttls {
        let label = format!("give it {}", short_duration(ttl.as_millis() as u64));
        match plan::extend(lock, None, ttl, now) {
            Ok(plan) => choices.push(Choice::of(label, plan)),
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if choices.is_empty() => Err(why),
        _ => Ok(choices),
    }
}

/// Frees all at once. Locks that can't be freed are left out and named.
fn free_many(locks: &[LockView], now: Time) -> Result<Vec<Choice>, Refusal> {
    let (mut plans, mut left_out) = (Vec::new(), Vec::new());
    for lock in locks.iter().take(MOST) {
        match plan::free(lock, Freeing::default(), now) {
            Ok(Plan { only_by_force: Some(why), key, .. }) => left_out.push(format!("{key}: {why}")),
            Ok(plan) => plans.push(plan),
            Err(why) => left_out.push(why.to_string()),
        }
    }
    if plans.is_empty() {
        return Err(Refusal::NotSo(left_out.into_iter().next().unwrap_or_default()));
    }
    Ok(vec![Choice { label: format!("free {} locks", plans.len()), plans, left_out }])
}

#[cfg(test)]
mod tests;
