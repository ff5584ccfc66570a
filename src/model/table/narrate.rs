//! Turns the occurrences found for a lock into transitions, and keeps the lock's history in step with them.

use crate::base::time::Time;
use crate::dialects;
use crate::lock::{Holder, Token};
use crate::model::history::Hold;
use crate::model::history::holds::{Mark, Over};
use crate::model::table::ours::{Freed, Ours};
use crate::model::table::resolve::Occurrence;
use crate::model::{Beats, Change, Ending, Former, HeldIs, Lock, Source, Transition};

pub(in crate::model) struct Narrator<'a> {
    lock: &'a mut Lock,
    source: Source,
    /// Who holds it after the steps so far.
    holding: Option<Token>,
    /// Who holds it at the end.
    finally: Option<Token>,
    /// How many hold it after the steps so far, and at the end.
    holders: (usize, usize),
    /// Every change was told.
    all: bool,
    /// Where the server can have lost it, it did.
    proven: bool,
    /// Who was robbed of it by the server in these steps, and when its lease would have ended.
    robbed: Option<(Option<Token>, Option<Time>)>,
    out: Vec<Transition>,
    marks: Vec<Mark>,
}

/// The result of the steps.
#[derive(Default)]
pub(in crate::model) struct Narrated {
    pub transitions: Vec<Transition>,
    /// What they add to the statistics of its kind and the figures of its pattern.
    pub marks: Vec<Mark>,
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
            all: false,
            proven: false,
            robbed: None,
            out: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Whether every change since the last look was told, so that the time between two renewals is known.
    pub fn with_all(mut self, all: bool) -> Narrator<'a> {
        self.all = all;
        self
    }

    /// Whether a loss whose end nobody saw is proven.
    pub fn with_proof(mut self, proven: bool) -> Narrator<'a> {
        self.proven = proven;
        self
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
                    let robbed = self.robbed.take();
                    self.start(Some(at).filter(|_| exact), looked_at);
                    self.marks.push(Mark::Started { holders: self.holders() });
                    if let Some((token, until)) = robbed {
                        self.take_over(token, until, at);
                    }
                    self.say(at, Change::Acquired, None);
                }
                Occurrence::PutBack { at } => {
                    self.resume(at, looked_at);
                    self.say_ours(at, Change::PutBack, None);
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
                    if self.lock.beats.get_or_insert_default().push(at) {
                        self.marks.push(renewed);
                        self.say(at, Change::Renewed, None);
                    }
                }
                Occurrence::Move { at } => self.say(at, Change::Moved, None),
                Occurrence::End { at, ending } => {
                    let until = self.lock.expires();
                    self.finish(at, ending);
                    let previous = self.holding.take();
                    if ending.is_loss() && self.proven {
                        self.robbed = Some((previous.clone(), until));
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
        let known = self.all && lock.has_one_holder();
        let resumed = lock.beats().and_then(|beats| beats.resumed);
        let given =
            lock.beats().and_then(Beats::last).or(lock.taken()).filter(|given| resumed.is_none_or(|at| at <= *given));
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

    /// Continues the hold that we ended, if it is the one that was put back.
    fn resume(&mut self, at: Time, looked_at: bool) {
        self.holding = self.finally.clone().filter(|_| looked_at);
        self.holders.0 = if looked_at { self.holders.1 } else { 1 };
        let freed = self.ours().freed.take().filter(|freed| freed.holder == self.holding);
        let hold = freed.is_some().then(|| self.lock.past.as_mut()?.resume()).flatten();
        let (Some(freed), Some(_)) = (freed, hold) else {
            // Freed before we watched: it is not a new hold, and its age is unknown.
            self.lock.beats = None;
            self.lock.set_lease(None);
            (self.lock.since, self.lock.since_is) = (at, HeldIs::AtLeast);
            self.marks.push(Mark::Started { holders: self.holders() });
            return;
        };
        self.marks.push(Mark::Resumed(freed.counted));
        (self.lock.since, self.lock.since_is) = (freed.since, freed.since_is);
        self.lock.beats = freed.beats;
        self.lock.set_lease(freed.lease);
        if let Some(beats) = &mut self.lock.beats {
            beats.resumed = Some(at);
        }
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
        if ending == Ending::Forced {
            let Lock { since, since_is, .. } = *self.lock;
            let lease = self.lock.lease();
            let (holder, beats) = (hold.holder.clone(), self.lock.beats.take());
            self.ours().freed = Some(Freed { holder, since, since_is, beats, lease, counted });
        }
        self.marks.push(Mark::Ended(counted));
        self.lock.past.get_or_insert_default().push(hold);
    }

    /// Remembers the former holder while its lease may make it believe that it still holds the lock.
    fn take_over(&mut self, token: Option<Token>, until: Option<Time>, at: Time) {
        if until.is_none_or(|until| until > at) {
            self.lock.contention.get_or_insert_default().former = Some(Former { token, until });
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
            Change::Ended(Ending::Failover | Ending::Restart | Ending::SlotTaken) => self.proven,
            Change::Ended(ending) => ending.is_loss() && ending != Ending::Unseen,
            _ => false,
        };
        self.out.push(Transition { at, space, node, key, change, holder, previous, proven, source });
    }
}
