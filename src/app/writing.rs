//! Whether the console may write, and what the writing keys do. It is read-only until `:write`, and again after some
//! time without a key.

mod choices;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};

use self::choices::{back_choice, extend_choices, extend_many, free_choices, free_marked, waiting};
use super::dialog::{Choice, Dialog, Sight};
use super::{App, Batch, Effect, LockId, Overlay, Since};
use crate::actions::{Action, Cleared, Kept, Outcome, Performed, Plan, Refusal};
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::model::LockView;
use crate::settings::cli::Environment;
use crate::settings::keys::Command;
use crate::sources::inspect::Inspection;

/// Writing turns off after this long without a key.
pub const IDLE: Duration = Duration::from_secs(300);
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

/// How long a server is waited for before a question.
const ANSWER: Duration = Duration::from_secs(10);

/// What was asked of servers before the question can open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asking {
    wish: Wish,
    ids: Vec<LockId>,
    /// Whom, and about what: `cache-1:7000 about lock:a`.
    pub about: String,
    since: Time,
}

/// The result of one write, in a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Came {
    pub line: String,
    pub ended: Ended,
    /// The result is longer than the line at the bottom.
    pub to_be_read: bool,
    /// It can be put back.
    pub undoes: bool,
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
    /// The records that the undo question is about.
    pub recalled: Vec<Kept>,
    /// What was left out of what is being done, each with the reason.
    left_out: Vec<String>,
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
                if matches!(self.overlay, Overlay::Dialog(_) | Overlay::Acquire(_) | Overlay::Asking(_)) {
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
            true => format!("writing is on; it ends after {} without a key", short_duration(IDLE.as_millis() as u64)),
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
            self.say("no lock is selected".into(), now);
            return Vec::new();
        }
        let shown = self.scene.lock.as_ref().filter(|lock| matches!(ids.as_slice(), [one] if one.is(lock)));
        if let Some((lock, lost)) = shown.and_then(|lock| Some((lock, lock.lost.as_ref()?))) {
            let why = self.without_holders(lock, format!("{}: {}", lock.key, lost.nothing_to_free()));
            self.say(why, now);
            return Vec::new();
        }
        self.ask(wish, ids, now)
    }

    /// Asks for what the locks are now. A server may take its time: until it has answered, the last line says whom we
    /// ask, and nothing else is done.
    fn ask(&mut self, wish: Wish, ids: Vec<LockId>, now: Time) -> Vec<Effect> {
        let about = match ids.as_slice() {
            [one] => {
                let lock = self.scene.lock.as_ref().filter(|lock| one.is(lock));
                let node = lock.and_then(|lock| self.scene.nodes.iter().find(|node| node.id == lock.node));
                let name = node.map_or("the server".into(), |node| node.name.clone());
                let away = node.filter(|node| node.is_away()).map_or("", |_| ", which does not answer now");
                format!("{name} about {}{away}", one.key)
            }
            many => format!("the servers about {} locks", many.len()),
        };
        self.overlay = Overlay::Asking(Asking { wish, ids: ids.clone(), about, since: now });
        vec![Effect::See(wish, ids)]
    }

    /// A key while a server is asked.
    pub(super) fn stop_asking(&mut self, key: KeyEvent, now: Time) -> Vec<Effect> {
        if key.code == KeyCode::Esc {
            (self.overlay, self.writing.pending) = (Overlay::None, None);
            self.say("not asked any more; nothing was changed".into(), now);
        }
        Vec::new()
    }

    /// A server that does not answer for long does not hold up the console.
    pub(super) fn give_up_asking(&mut self, now: Time) {
        let Overlay::Asking(Asking { about, since, .. }) = &self.overlay else { return };
        if now.since(*since) < ANSWER {
            return;
        }
        let waited = short_duration(ANSWER.as_millis() as u64);
        let why = format!("asked {about} for {waited}, without an answer; nothing was changed");
        (self.overlay, self.writing.pending) = (Overlay::None, None);
        self.say(why, now);
    }

    /// Whether the answer is to what is being asked: one that comes late must not open over something else.
    fn is_asked(&self, wish: Wish, locks: &[LockView]) -> bool {
        let Overlay::Asking(asking) = &self.overlay else { return false };
        asking.wish == wish && locks.iter().all(|lock| asking.ids.iter().any(|id| id.is(lock)))
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
        match again {
            Some(Effect::See(wish, ids)) => self.ask(wish, ids, now),
            again => again.into_iter().collect(),
        }
    }

    pub(super) fn wish_undo(&mut self, now: Time) -> Vec<Effect> {
        if self.may_write(now) { vec![Effect::Recall] } else { Vec::new() }
    }

    pub(super) fn may_write(&mut self, now: Time) -> bool {
        if self.writing.running.is_some() {
            self.say("a write is still under way".into(), now);
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
        if !self.is_asked(wish, &locks) {
            return Vec::new();
        }
        match locks.len() {
            0 => {
                self.overlay = Overlay::None;
                self.say("the lock is gone".into(), now);
            }
            1 => {
                let lock = locks.remove(0);
                let id = LockId::of(&lock);
                self.writing.pending = Some((wish, Box::new(lock)));
                return vec![Effect::Inspect(id)];
            }
            _ => {
                let waiting = waiting(&locks);
                let choices = match wish {
                    Wish::Extend(ttl) => extend_many(&locks, ttl, now),
                    Wish::Free => {
                        let (seen, hidden): (Vec<_>, Vec<_>) =
                            locks.into_iter().partition(|lock| self.page.opened.is_some() || self.shows(lock));
                        free_marked(&seen, &hidden, now)
                    }
                };
                return self.open_dialog(Some(wish), choices, Some(waiting), now);
            }
        }
        Vec::new()
    }

    /// Opens the dialog after the inspection that it waited for.
    pub(super) fn take_closer_look(&mut self, id: &LockId, found: &Inspection, now: Time) -> Vec<Effect> {
        let Some((wish, lock)) = self.writing.pending.take_if(|(_, lock)| id.is(lock)) else { return Vec::new() };
        if !self.is_asked(wish, std::slice::from_ref(&*lock)) {
            return Vec::new();
        }
        if !self.writes() {
            self.overlay = Overlay::None;
            return Vec::new();
        }
        let mut lock = lock;
        let waiters = found.waiters.beside(&lock);
        lock.proof.waiting = Some(waiters.in_short());
        let mut choices = match wish {
            Wish::Free => free_choices(&lock, found, now),
            Wish::Extend(ttl) => extend_choices(&lock, ttl, now),
        };
        if self.page.opened.is_none() && self.list.marked.contains(id) && !self.shows(&lock) {
            choices.iter_mut().flatten().for_each(|choice| choice.hidden.push(lock.key.clone()));
        }
        self.open_dialog(Some(wish), choices, Some(waiters.describe()), now)
    }

    pub(super) fn take_recalled(&mut self, batch: Result<Batch, String>, now: Time) -> Vec<Effect> {
        match batch {
            Err(why) => self.say(why, now),
            Ok(batch) if batch == Batch::default() => {
                self.say("nothing that was freed here can be put back".into(), now);
            }
            Ok(batch) => return vec![Effect::Retrace(batch)],
        }
        Vec::new()
    }

    /// A lock that others have held since is not put back. If it was not watched, the question says so.
    pub(super) fn take_retraced(&mut self, batch: Batch, since: &[Since], now: Time) -> Vec<Effect> {
        let choice = back_choice(&batch, since, now);
        self.writing.recalled = batch.kept;
        self.open_dialog(None, choice.map(|choice| vec![choice]), None, now)
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
        // The console has gone to another target meanwhile.
        if matches!(self.overlay, Overlay::Going(_)) {
            return Vec::new();
        }
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
                if matches!(self.overlay, Overlay::Asking(_)) {
                    self.overlay = Overlay::None;
                }
                self.say(why.to_string(), now);
                Vec::new()
            }
        }
    }

    /// Performs the confirmed plans.
    pub(super) fn confirmed(&mut self, plans: Vec<Plan>, left_out: Vec<String>, reason: Option<String>) -> Vec<Effect> {
        self.overlay = Overlay::None;
        self.writing.results.clear();
        self.writing.moved.clear();
        self.writing.left_out = left_out;
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
        let line = result_line(plan, performed, !self.display.private, &self.key_of(Command::Undo));
        self.say(line.clone(), now);
        let to_be_read =
            ended != Ended::Done || performed.queue != Cleared::default() || plan.not_put_back(false).is_some();
        let undoes = plan.action == Action::Free && performed.undo.is_ok();
        self.writing.results.push(Came { line, ended, to_be_read, undoes });
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
            let line = format!("stopped: {untouched} of {asked} not touched");
            results.push(Came { line, ended: Ended::NotDone, to_be_read: true, undoes: false });
        }
        for why in self.writing.left_out.drain(..) {
            results.push(Came {
                line: format!("left out: {why}"),
                ended: Ended::NotDone,
                to_be_read: true,
                undoes: false,
            });
        }
        let to_be_read = results.len() > 1 || results.iter().any(|came| came.to_be_read);
        if to_be_read && matches!(self.overlay, Overlay::None) {
            self.overlay = Overlay::Results { scroll: 0 };
            self.notice = None;
        }
    }
}

/// The result in a line. `undo`: the key that puts back what was freed.
fn result_line(plan: &Plan, performed: &Performed, named: bool, undo: &str) -> String {
    match &performed.outcome {
        Outcome::Refused(why) => plan.not_done(&why.to_string()),
        Outcome::Unknown(why) => plan.perhaps_done(why),
        Outcome::Done { .. } => format!("{}{}", performed.done(plan, named), performed.aftermath(plan, named, undo)),
    }
}

#[cfg(test)]
mod many;
#[cfg(test)]
mod tests;
