//! Turns the occurrences found for a lock into transitions, and keeps the lock's history in step with them.

use std::time::Duration;

use crate::base::time::Time;
use crate::dialects;
use crate::lock::{Holder, Kind, Token};
use crate::model::held_by::HeldBy;
use crate::model::history::Hold;
use crate::model::history::holds::{Mark, Over};
use crate::model::lock::Reading;
use crate::model::table::losses::Blame;
use crate::model::table::ours::{Freed, Ours};
use crate::model::table::resolve::Occurrence;
use crate::model::{Beats, Change, Ending, Former, HeldIs, Lock, Loss, Source, Transition};

/// How long a holder without a lease counts as working after the server lost its lock.
const UNTOLD: Duration = Duration::from_secs(60);

pub(in crate::model) struct Narrator<'a> {
    lock: &'a mut Lock,
    source: Source,
    /// Who holds it after the steps so far.
    holding: Option<Token>,
    /// Who holds it at the end.
    finally: Option<Token>,
    /// How many hold it after the steps so far, and at the end.
    holders: (usize, usize),
    heard: Heard,
    out: Vec<Transition>,
    marks: Vec<Mark>,
}

/// How much of what happened since the last look was told.
#[derive(Clone, Copy, Default)]
pub(in crate::model) struct Heard {
    /// Every change was, so that the time between two renewals is known.
    pub all: bool,
    /// Changes may have been missed.
    pub missed: bool,
    /// How it was lost, where nobody saw the end.
    pub blame: Option<Blame>,
}

/// The result of the steps.
#[derive(Default)]
pub(in crate::model) struct Narrated {
    pub transitions: Vec<Transition>,
    /// What they add to the statistics of its kind and the figures of its pattern.
    pub marks: Vec<Mark>,
}

impl Narrated {
    /// The holders whom we took out of a lock that others hold on, and when.
    pub fn taken_out(&self) -> impl Iterator<Item = (&Token, Time)> {
        let forced = |change: &&Transition| change.change == Change::Ended(Ending::Forced);
        self.transitions.iter().filter(forced).filter_map(|change| Some((change.previous.as_ref()?, change.at)))
    }

    /// The holders whom we put back into one, and when.
    pub fn put_back(&self) -> impl Iterator<Item = (&Token, Time)> {
        let back = |change: &&Transition| change.change == Change::PutBack;
        self.transitions.iter().filter(back).filter_map(|change| Some((change.holder.as_ref()?, change.at)))
    }
}

impl<'a> Narrator<'a> {
    pub fn new(lock: &'a mut Lock, source: Source, before: &[Holder], after: &[Holder]) -> Narrator<'a> {
        let first = |holders: &[Holder]| holders.first().map(|holder| holder.token.clone());
        let (holding, finally, holders) = (first(before), first(after), (before.len(), after.len()));
        Narrator {
            lock,
            source,
            holding,
            finally,
            holders,
            heard: Heard::default(),
            out: Vec::new(),
            marks: Vec::new(),
        }
    }

    pub fn having(self, heard: Heard) -> Narrator<'a> {
        Narrator { heard, ..self }
    }

    /// Narrates the steps in order. Only the last hold can be the one that was read; the holders of earlier holds in
    /// these steps are unknown.
    pub fn tell(mut self, steps: &[Occurrence]) -> Narrated {
        let last_start = steps.iter().rposition(|step| !step.goes_on() && !matches!(step, Occurrence::End { .. }));
        for (index, step) in steps.iter().enumerate() {
            let looked_at = Some(index) == last_start;
            match *step {
                Occurrence::Find => {
                    self.start(None, looked_at);
                    self.say(self.lock.confirmed, Change::Found, None);
                }
                Occurrence::Begin { at, exact } => {
                    let lost = self.forget_loss();
                    if !exact && looked_at && self.is_back(lost.is_some()) {
                        (self.holding, self.holders.0) = (self.finally.clone(), self.holders.1);
                        self.go_on(at);
                        self.say(at, Change::CameBack, None);
                        continue;
                    }
                    self.start(Some(at).filter(|_| exact), looked_at);
                    self.marks.push(Mark::Started { holders: self.holders() });
                    if let Some(Former { token, until, .. }) = lost.filter(|former| self.is_robbed(former)) {
                        self.take_over(token, until, at);
                    }
                    self.say(at, Change::Acquired, None);
                }
                Occurrence::PutBack { at, ours } => {
                    self.forget_loss();
                    self.resume(at, looked_at);
                    match ours {
                        true => self.say_ours(at, Change::PutBack, None),
                        false => self.say(at, Change::PutBack, None),
                    }
                }
                Occurrence::Take { at } => {
                    self.finish(at, Ending::Taken);
                    let previous = self.holding.take();
                    let until = self.lock.expires();
                    self.start(Some(at), looked_at);
                    self.marks.push(Mark::Started { holders: self.holders() });
                    self.take_over(previous.clone(), until, at);
                    self.say(at, Change::Taken, previous);
                }
                Occurrence::Renew { at } => {
                    let renewed = self.renewed(at);
                    self.lock.beats.get_or_insert_default().push(at);
                    self.marks.push(renewed);
                    self.say(at, Change::Renewed, None);
                }
                Occurrence::Move { at } => self.say(at, Change::Moved, None),
                Occurrence::End { at, ending } => {
                    let lost = self.loss(at, ending);
                    self.finish(at, ending);
                    let previous = self.holding.take();
                    if let Some((loss, until)) = lost {
                        let former = Former { token: previous.clone(), until: Some(until), lost: Some(loss) };
                        self.lock.contention.get_or_insert_default().former = Some(former);
                    }
                    match ending {
                        Ending::Forced => self.say_ours(at, Change::Ended(ending), previous),
                        _ => self.say(at, Change::Ended(ending), previous),
                    }
                }
            }
        }
        Narrated { transitions: self.out, marks: self.marks }
    }

    /// Tells who joined and who left a lock that several hold.
    pub fn tell_shared(mut self, before: &[Holder], after: &[Holder], at: Time) -> Narrated {
        let dialect = self.lock.reading.map(|reading| dialects::dialect(reading.dialect));
        let who = |token: &'_ Token| match dialect {
            Some(dialect) => dialect.holder_of(token.as_bytes()).to_vec(),
            None => token.as_bytes().to_vec(),
        };
        let among = |holders: &[Holder], token: &Token| holders.iter().any(|holder| who(&holder.token) == who(token));
        for holder in before.iter().filter(|holder| !among(after, &holder.token)) {
            self.holding = None;
            let previous = Some(holder.token.clone());
            let ours = self.lock.ours.as_mut().is_some_and(|ours| ours.took_out(&holder.token));
            let ending = if ours { Ending::Forced } else { Ending::Released };
            self.marks.push(Mark::Left(ending));
            match ours {
                true => self.say_ours(at, Change::Ended(ending), previous),
                false => self.say(at, Change::Ended(ending), previous),
            }
        }
        for holder in after.iter().filter(|holder| !among(before, &holder.token)) {
            self.holding = Some(holder.token.clone());
            self.marks.push(Mark::Started { holders: 1 });
            match self.lock.ours.as_mut().is_some_and(|ours| ours.put_in(&holder.token, at)) {
                true => self.say_ours(at, Change::PutBack, None),
                false => self.say(at, Change::Acquired, None),
            }
        }
        Narrated { transitions: self.out, marks: self.marks }
    }

    /// How many hold it now: one where nobody is named.
    fn holders(&self) -> u32 {
        self.holders.0.max(1) as u32
    }

    /// What a renewal at that time adds to the figures.
    fn renewed(&self, at: Time) -> Mark {
        let lock = &*self.lock;
        let known = self.heard.all && lock.has_one_holder();
        let resumed = lock.beats().and_then(|beats| beats.resumed);
        let given = lock
            .beats()
            .and_then(Beats::last)
            .or(lock.taken())
            .filter(|given| resumed.is_none_or(|resumed| resumed.at <= *given));
        let gap_ms = given.filter(|_| known).map(|given| at.since(given).as_millis() as u64);
        Mark::Renewed { gap_ms, late: gap_ms.is_some() && lock.is_late(at) }
    }

    fn start(&mut self, at: Option<Time>, looked_at: bool) {
        self.holding = self.finally.clone().filter(|_| looked_at);
        self.holders.0 = if looked_at { self.holders.1 } else { 1 };
        self.lock.beats = None;
        if let Some(ours) = &mut self.lock.ours {
            ours.begin();
        }
        if let Some(contention) = &mut self.lock.contention {
            (contention.former, contention.bare_ms) = (None, None);
            contention.fencing_token = None;
            if let Some(token) = &self.holding {
                contention.got(token, at.unwrap_or(self.lock.confirmed));
            }
        }
        let before = self.lock.past().last().filter(|before| before.ending != Ending::Taken);
        if let (Some(at), Some(before)) = (at, before) {
            self.marks.push(Mark::HandedOver(before.until, at));
        }
        self.lock.set_lease(None);
        self.lock.since = at.unwrap_or(self.lock.confirmed);
        self.lock.since_is = if at.is_some() { HeldIs::Exact } else { HeldIs::AtLeast };
    }

    /// Continues the hold that was ended, if it is the one that was put back.
    fn resume(&mut self, at: Time, looked_at: bool) {
        self.holding = self.finally.clone().filter(|_| looked_at);
        self.holders.0 = if looked_at { self.holders.1 } else { 1 };
        let freed = self.ours().freed.take().filter(|freed| freed.holder == self.holding);
        let hold = freed.is_some().then(|| self.lock.past.as_mut()?.resume()).flatten();
        let (Some(freed), Some(_)) = (freed, hold) else {
            // It was freed before we watched, or its holder was not silent.
            return self.go_on(at);
        };
        self.marks.push(Mark::Resumed(freed.counted));
        (self.lock.since, self.lock.since_is) = (freed.since, freed.since_is);
        self.lock.beats = freed.beats;
        self.lock.held_by = freed.held_by;
        self.lock.set_lease(freed.lease);
        if let Some(beats) = &mut self.lock.beats {
            beats.resume(at);
        }
        self.lock.held_by.beats_mut().for_each(|beats| beats.resume(at));
    }

    /// The last hold continues: it is no new one. Its age is known where its end was seen.
    fn go_on(&mut self, at: Time) {
        let before = self.lock.past.as_mut().and_then(|past| past.go_on(self.holding.as_ref()));
        let seen = before.map(|hold| (hold.since, if hold.exact { HeldIs::Exact } else { HeldIs::AtLeast }));
        self.lock.beats = None;
        self.lock.set_lease(None);
        (self.lock.since, self.lock.since_is) = seen.unwrap_or((at, HeldIs::AtLeast));
        self.marks.push(Mark::Started { holders: self.holders() });
    }

    /// Who holds it now held it last, by a token that is used only once, and nobody saw it being taken: the server has
    /// other data now.
    fn is_back(&self, was_lost: bool) -> bool {
        let again = self.lock.reading.is_none_or(|reading| dialects::dialect(reading.dialect).tokens_come_again());
        let last = self.lock.past().last().and_then(|hold| hold.holder.as_ref());
        (was_lost || self.heard.missed) && !again && last.is_some() && last == self.finally.as_ref()
    }

    /// What to remember of a hold whose holder may not know that the server lost it, and until when.
    fn loss(&self, at: Time, by: Ending) -> Option<(Loss, Time)> {
        let lock = &*self.lock;
        let is_hold = |reading: &Reading| reading.kind == Kind::Lock && !reading.test;
        lock.reading.filter(is_hold).filter(|_| by.is_untold())?;
        let proven = by.is_told_by_server() || self.heard.blame.is_some_and(|blame| blame.proven);
        let until = lock.expires().unwrap_or(at + UNTOLD);
        let loss = Loss {
            by,
            at,
            since: (lock.since, lock.since_is),
            given: lock.beats().and_then(Beats::last).unwrap_or(lock.since),
            proven,
            cut: self.heard.blame.and_then(|blame| blame.cut),
            holders: self.holders.0,
            alone: lock.has_one_holder(),
            leased: lock.expires().is_some(),
        };
        (until > at && !loss.reached()).then_some((loss, until))
    }

    fn finish(&mut self, at: Time, ending: Ending) {
        let forced = self.lock.ours.as_ref().filter(|_| ending == Ending::Forced).and_then(|ours| ours.forced.clone());
        let hold = Hold {
            holder: self.holding.clone(),
            since: self.lock.since,
            exact: self.lock.since_is == HeldIs::Exact,
            until: at,
            ending,
            renewals: self.lock.beats.as_ref().map_or(0, |beats| beats.count),
            forced,
        };
        let leased = self.lock.lease().is_some() || self.lock.expires().is_some();
        let counted = Over::of(&hold, leased, self.holders());
        let missed = self.lock.missed_at(at);
        // Who takes a lock away from a silent holder may put it back, also by another lockscope.
        if ending == Ending::Forced || ending == Ending::Released && missed > 0 {
            let Lock { since, since_is, .. } = *self.lock;
            let lease = self.lock.lease();
            let (holder, mut beats) = (hold.holder.clone(), self.lock.beats.take());
            beats.iter_mut().for_each(|beats| beats.pause(at, missed));
            let mut held_by = std::mem::replace(&mut self.lock.held_by, HeldBy::Nobody);
            for beats in held_by.beats_mut() {
                let missed = beats.rhythm(at).map_or(0, |rhythm| rhythm.missed);
                beats.pause(at, missed);
            }
            self.ours().freed = Some(Freed { holder, since, since_is, beats, held_by, lease, counted });
        }
        self.marks.push(Mark::Ended(counted));
        self.lock.past.get_or_insert_default().push(hold);
    }

    /// Who lost it by the server, if somebody did: the loss is over.
    fn forget_loss(&mut self) -> Option<Former> {
        self.lock.contention.as_mut()?.former.take_if(|former| former.lost.is_some())
    }

    /// Its holder was not told, and another has it now. A reader or the owner of a permit shares it anyway.
    fn is_robbed(&self, former: &Former) -> bool {
        former.lost.is_some_and(|loss| loss.proven && loss.alone) && former.token != self.holding
    }

    /// Remembers the former holder while its lease may make it believe that it still holds the lock.
    fn take_over(&mut self, token: Option<Token>, until: Option<Time>, at: Time) {
        if until.is_none_or(|until| until > at) {
            self.lock.contention.get_or_insert_default().former = Some(Former { token, until, lost: None });
        }
    }

    fn ours(&mut self) -> &mut Ours {
        self.lock.ours.get_or_insert_default()
    }

    /// A change that we made ourselves.
    fn say_ours(&mut self, at: Time, change: Change, previous: Option<Token>) {
        let told_by = std::mem::replace(&mut self.source, Source::Action);
        self.say(at, change, previous);
        self.source = told_by;
    }

    fn say(&mut self, at: Time, change: Change, previous: Option<Token>) {
        let holder = if matches!(change, Change::Ended(_)) { None } else { self.holding.clone() };
        let Lock { space, node, .. } = *self.lock;
        let (key, source) = (self.lock.key.clone(), self.source);
        let proven = match change {
            Change::Ended(ending) if ending.is_told_by_server() => true,
            Change::Ended(ending) if ending.is_loss() => self.heard.blame.is_some_and(|blame| blame.proven),
            _ => false,
        };
        self.out.push(Transition { at, space, node, key, change, holder, previous, proven, source });
    }
}
