//! Decides what clients did to locks: who tried, who got it, who came too late.
//!
//! Takes key events and MONITOR lines in the order in which the server sent them. The events of a command come right
//! before its line, so a `SET … NX` without a `set` before it was refused; a script's own line is followed by its inner
//! calls, each with its events before it. It works for any library: only what happens to the key counts. Pure.

mod state;

use std::collections::HashMap;

use self::state::{Reported, State};
use super::act::{Act, Outcome, What};
use super::call::{Call, Does, Verb};
use super::habits::{ScriptId, Scripts};
use super::line::{By, Line};
use super::run::{Deed, InnerCall, Run, Unclear};
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::{Key, Token};
use crate::model::Address;

/// At most this many events are kept until the line of their command comes.
const EVENTS: usize = 256;
/// At most this many locks have a state, and this many script runs wait until their script's purpose is known.
const LOCKS: usize = 20_000;
const UNDECIDED: usize = 10_000;
/// A client that is late runs its script once. One that is repeated this often in a burst, and only reads, takes.
const SPINS: usize = 3;
/// Some libraries run their release after a failed attempt. A release this soon after the start of a burst may belong to
/// an attempt before it.
const SETTLED_MS: u64 = 250;

pub struct Judge<'a> {
    recogniser: &'a Recogniser,
    scripts: &'a mut Scripts,
    db: u32,
    /// The channel of a key's events, without the key.
    prefix: Vec<u8>,
    reported: Reported,
    /// The server is configured to report every change, so a change without an event did not happen.
    sure: bool,
    began: Time,
    events: Vec<(Vec<u8>, Vec<u8>)>,
    /// More events came than we keep.
    missed: bool,
    run: Option<Run>,
    states: HashMap<Key, State>,
    undecided: Vec<(ScriptId, Unclear, Act)>,
}

impl<'a> Judge<'a> {
    /// `notified`: the server is configured to report every change of a lock. Where that is not known, the first events of
    /// each kind show it.
    pub fn new(
        recogniser: &'a Recogniser,
        scripts: &'a mut Scripts,
        db: i64,
        notified: bool,
        began: Time,
    ) -> Judge<'a> {
        Judge {
            recogniser,
            scripts,
            db: u32::try_from(db).unwrap_or(0),
            prefix: format!("__keyspace@{db}__:").into_bytes(),
            reported: Reported::configured(notified),
            sure: notified,
            began,
            events: Vec::new(),
            missed: false,
            run: None,
            states: HashMap::new(),
            undecided: Vec::new(),
        }
    }

    /// A message of the subscription.
    pub fn message(&mut self, channel: &[u8], event: &[u8]) {
        // Wider subscriptions include other databases, which have another prefix.
        let Some(key) = channel.strip_prefix(self.prefix.as_slice()) else { return };
        self.reported.learn(event);
        if matches!(event, b"del" | b"expired" | b"evicted") {
            let missed = self.events.len() == EVENTS;
            if let Some(state) = self.state(&Key::from(key)) {
                state.there = Some(false).filter(|_| !missed);
                if event != b"del" {
                    // After a `del` we still need to know who held it.
                    state.holders.clear();
                }
            }
        }
        if matches!(event, b"expired" | b"evicted") {
            return;
        }
        if self.events.len() == EVENTS {
            self.missed = true;
        } else {
            self.events.push((key.to_vec(), event.to_vec()));
        }
    }

    /// A line of MONITOR. `at`: its time by our clock.
    pub fn line(&mut self, line: &Line<'_>, at: Time, each: &mut impl FnMut(Act)) {
        if line.by != By::Script {
            self.close(each);
        } else if let Some(run) = &mut self.run {
            run.ran = true;
        }
        if let Some(verb) = Verb::parse(line.command)
            && line.db == self.db
        {
            match line.by {
                By::Script => self.inner(verb, line),
                By::Client(address) if verb.acts() => self.command(verb, line, address, at, each),
                By::Client(_) => {}
            }
        }
        self.settle();
    }

    /// All events of a line have come.
    fn settle(&mut self) {
        if self.missed {
            self.states.values_mut().for_each(|state| state.there = None);
        }
        let mut events = std::mem::take(&mut self.events);
        for (key, event) in events.drain(..).filter(|(_, event)| event != b"del") {
            // A key that gets a lease exists; one that lost a member may be gone.
            let there = !matches!(event.as_slice(), b"hdel" | b"zrem" | b"zrembyscore" | b"srem" | b"rename_from");
            if let Some(state) = self.state(&Key::from(key)) {
                state.there = Some(true).filter(|_| there);
            }
        }
        (self.events, self.missed) = (events, false);
    }

    /// Scripts of which a run only read a lock, and nothing shows yet what they are for.
    pub(super) fn not_understood(&self) -> Vec<ScriptId> {
        let open = |unclear: &Unclear| matches!(unclear, Unclear::Looked | Unclear::Asked);
        let runs = self.undecided.iter().filter(|(_, unclear, _)| open(unclear)).map(|(script, ..)| *script);
        let mut all: Vec<ScriptId> = Vec::new();
        for script in runs {
            let habits = self.scripts.habits(script);
            if !habits.is_known() && !habits.takes_nothing && !all.contains(&script) {
                all.push(script);
            }
        }
        all
    }

    /// The clients that only read a lock by such a script, by the lock and their token.
    pub(super) fn repeated(&self) -> Vec<(Key, Token)> {
        let mut all: Vec<(Key, Token)> = Vec::new();
        for (script, unclear, act) in &self.undecided {
            let habits = self.scripts.habits(*script);
            let open = *unclear == Unclear::Looked && !habits.is_known() && !habits.takes_nothing;
            if let (true, Some(token)) = (open, &act.token)
                && !all.iter().any(|(key, other)| (key, other) == (&act.key, token))
            {
                all.push((act.key.clone(), token.clone()));
            }
        }
        all
    }

    /// These clients hold the lock: what only read it need not be an attempt.
    pub(super) fn ask_by(&mut self, holders: &[(Key, Token)]) {
        for (_, unclear, act) in &mut self.undecided {
            let holds = holders.iter().any(|(key, token)| *key == act.key && Some(token) == act.token.as_ref());
            if *unclear == Unclear::Looked && holds {
                *unclear = Unclear::Asked;
            }
        }
    }

    pub(super) fn scripts(&mut self) -> &mut Scripts {
        self.scripts
    }

    /// The last line was read: decides about the run that it ended. `whole`: all calls of the last script were seen.
    pub(super) fn close_last(&mut self, whole: bool, each: &mut impl FnMut(Act)) {
        if whole {
            self.close(each);
        }
        self.run = None;
    }

    /// The burst is over: decides what is still open. `whole`: all calls of the last script were seen.
    pub fn end(mut self, whole: bool, each: &mut impl FnMut(Act)) {
        if whole {
            self.close(each);
        }
        self.learn_spins();
        for (script, unclear, act) in std::mem::take(&mut self.undecided) {
            let habits = self.scripts.habits(script);
            let what = match unclear {
                Unclear::Looked | Unclear::Asked if habits.takes => What::Tried(Outcome::Lost),
                Unclear::Looked | Unclear::Asked if habits.leaves => What::Late { renewal: false },
                Unclear::Looked | Unclear::Asked if habits.takes_nothing && !habits.renews => continue,
                Unclear::Looked if habits.spins => What::Tried(Outcome::Lost),
                Unclear::Looked | Unclear::Asked if habits.renews => What::Late { renewal: true },
                Unclear::Looked | Unclear::Asked => What::Unclear,
                Unclear::Wrote | Unclear::Extended if habits.takes => What::Tried(Outcome::Won),
                _ => continue,
            };
            match what {
                What::Late { renewal } => self.late(act, renewal).into_iter().for_each(&mut *each),
                what => each(Act { what, ..act }),
            }
        }
    }

    /// Clients that do not hold a lock repeat a script that only reads it: they want it.
    fn learn_spins(&mut self) {
        let mut runs: HashMap<(ScriptId, &Key), usize> = HashMap::new();
        for (script, unclear, act) in &self.undecided {
            if *unclear == Unclear::Looked && act.token.is_some() {
                *runs.entry((*script, &act.key)).or_default() += 1;
            }
        }
        for ((script, _), _) in runs.into_iter().filter(|(_, runs)| *runs >= SPINS) {
            self.scripts.learn(script, |habits| habits.spins = true);
        }
    }

    /// A command that a client sent, outside of a script.
    fn command(&mut self, verb: Verb, line: &Line<'_>, address: &[u8], at: Time, each: &mut impl FnMut(Act)) {
        if matches!(verb, Verb::Eval | Verb::Run) {
            self.run = Some(Run::open(verb, line, Address::from_line(address), at, self.scripts, self.recogniser));
            return;
        }
        if !line.whole {
            return;
        }
        let every = verb.keys_every(line.command).unwrap_or(usize::MAX);
        for (index, key) in line.args().enumerate().step_by(every) {
            if !self.recogniser.may_be_lock(&key) {
                continue;
            }
            let address = Address::from_line(address);
            if verb == Verb::Watch {
                if let Some(state) = self.state(&Key::from(&*key)) {
                    state.watcher = address;
                }
                continue;
            }
            let call = Call::parse(verb, line, index);
            let wrote = self.wrote(&key, verb, &call, line.command);
            let token = call.token.as_deref().map(Token::from);
            let what = match (call.does, wrote) {
                (Does::TakeIfFree, wrote) => What::Tried(Outcome::by(wrote)),
                (Does::Renew | Does::RenewIfEqual, Some(true)) => What::Renewed,
                (Does::RenewIfEqual, Some(false)) => What::Late { renewal: true },
                (Does::DeleteIfEqual, Some(true)) => What::Released,
                (Does::DeleteIfEqual, Some(false)) => What::Late { renewal: false },
                (Does::Delete, Some(true)) => What::FreedBy { holder: None },
                _ => continue,
            };
            self.report(Act { key: Key::from(&*key), at, token, address, what }, each);
        }
    }

    /// A call of the running script.
    fn inner(&mut self, verb: Verb, line: &Line<'_>) {
        let Some(mut run) = self.run.take() else { return };
        let every = verb.keys_every(line.command).unwrap_or(usize::MAX);
        for (index, key) in line.args().enumerate().step_by(every) {
            if !self.recogniser.may_be_lock(&key) {
                continue;
            }
            let call = Call::parse(verb, line, index);
            let wrote = self.wrote(&key, verb, &call, line.command);
            let fresh = self.is_fresh(&key);
            run.add(&key, InnerCall { does: call.does, token: call.token, wrote, fresh });
        }
        self.run = Some(run);
    }

    /// The running script has ended.
    fn close(&mut self, each: &mut impl FnMut(Act)) {
        let Some(run) = self.run.take() else { return };
        if run.operates {
            return;
        }
        let habits = run.script.map(|script| self.scripts.habits(script)).unwrap_or_default();
        let mut deeds = Vec::new();
        for (key, steps) in run.keys() {
            let known = self.states.get(key);
            let holders = || known.iter().flat_map(|state| &state.holders).map(|(token, _)| token);
            deeds.push((key, run.judge(steps, habits, holders), run.token(key, steps, holders)));
        }
        let changed = deeds.iter().any(|(_, deed, _)| deed.is_change());
        for (key, deed, token) in deeds.into_iter().filter(|(_, deed, _)| !(changed && deed.is_passing_by())) {
            if let (Some(script), Some(habit)) = (run.script, deed.habit()) {
                self.scripts.learn(script, habit);
            }
            let what = match deed {
                Deed::Nothing => continue,
                Deed::Tried(wrote) => What::Tried(Outcome::by(wrote)),
                Deed::Renewed => What::Renewed,
                Deed::Left => What::Released,
                Deed::Freed => What::FreedBy { holder: None },
                Deed::Late { renewal } => What::Late { renewal },
                Deed::Unclear(_) => What::Renewed,
            };
            let act = Act { key: key.clone(), at: run.at, token, address: run.address.clone(), what };
            let Deed::Unclear(mut unclear) = deed else {
                self.report(act, each);
                continue;
            };
            let wrote = deed.is_change();
            // The client that wrote holds it, whether it was an attempt or not.
            if wrote {
                self.report(act.clone(), each);
            }
            let state = self.states.get(&act.key).zip(act.token.as_ref());
            if let (false, Some(script), Some((state, token))) = (wrote, run.script, state) {
                if state.losers.contains(token) {
                    // It follows an attempt that another call made.
                    self.scripts.learn(script, |habits| habits.takes_nothing = true);
                }
                if state.holders.iter().any(|(holder, _)| holder == token) {
                    unclear = Unclear::Asked;
                }
            }
            match run.script {
                Some(script) if self.undecided.len() < UNDECIDED => self.undecided.push((script, unclear, act)),
                _ if !wrote => each(Act { what: What::Unclear, ..act }),
                _ => {}
            }
        }
    }

    /// Reports an act, completed with what is known of the lock, and updates the lock's state.
    fn report(&mut self, mut act: Act, each: &mut impl FnMut(Act)) {
        if let What::Late { renewal } = act.what {
            if let Some(late) = self.late(act, renewal) {
                each(late);
            }
            return;
        }
        if let Some(state) = self.state(&act.key) {
            match (&mut act.what, &act.token) {
                (What::Tried(Outcome::Won) | What::Renewed, Some(token)) => state.held(token, &act.address),
                (What::Tried(Outcome::Lost), Some(token)) => state.lost(token),
                (What::Released, Some(token)) => state.holders.retain(|(other, _)| other != token),
                (What::Released, None) => state.holders.clear(),
                (What::FreedBy { holder }, _) => {
                    let holders = std::mem::take(&mut state.holders);
                    let own = |(_, address): &(Token, Option<Address>)| address.is_some() && *address == act.address;
                    if holders.iter().any(own) || (act.address.is_some() && state.watcher == act.address) {
                        act.what = What::Released;
                    } else if let [(token, Some(_))] = holders.as_slice()
                        && act.address.is_some()
                    {
                        *holder = Some(token.clone());
                    }
                }
                _ => {}
            }
        }
        each(act);
    }

    /// `None` where it was not late: it held the lock all along, or it cleans up after a lost attempt.
    fn late(&self, act: Act, renewal: bool) -> Option<Act> {
        let token = act.token.as_ref()?;
        let state = self.states.get(&act.key);
        let holds = state.is_some_and(|state| state.holders.iter().any(|(holder, _)| holder == token));
        let tried = state.is_some_and(|state| state.losers.contains(token));
        let settled = act.at.since(self.began).as_millis() as u64 >= SETTLED_MS;
        let late = !holds && !tried && (renewal || settled);
        late.then_some(Act { what: What::Late { renewal }, ..act })
    }

    fn state(&mut self, key: &Key) -> Option<&mut State> {
        if self.states.len() >= LOCKS && !self.states.contains_key(key) {
            return None;
        }
        Some(self.states.entry(key.clone()).or_default())
    }

    /// Whether the call took effect; `None` where that is not known.
    fn wrote(&self, key: &[u8], verb: Verb, call: &Call, command: &[u8]) -> Option<bool> {
        if let Does::Look(_) = call.does {
            return Some(false);
        }
        let seen = self.has_event(key, |event| call.is_shown_by(verb, event));
        (seen || (self.reported.covers(verb, call, command) && !self.missed)).then_some(seen)
    }

    /// Whether the call created the key; `None` where that is not known.
    fn is_fresh(&self, key: &[u8]) -> Option<bool> {
        if self.reported.new {
            return Some(self.has_event(key, |event| event == b"new"));
        }
        let known = self.states.get(key).filter(|_| self.sure && !self.missed)?;
        known.there.map(|there| !there)
    }

    fn has_event(&self, key: &[u8], is: impl Fn(&[u8]) -> bool) -> bool {
        self.events.iter().any(|(of, event)| of == key && is(event))
    }
}

#[cfg(test)]
mod tests;
