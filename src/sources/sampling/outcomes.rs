//! Judges what clients do to locks: who tried, who got it, who came too late.
//!
//! Takes key events and MONITOR lines in the order in which the server sent them. The events of a command come right
//! before its line, so a `SET … NX` without a `set` before it was refused; a script's own line is followed by its inner
//! calls, each with its events before it. General over libraries: only what is done to the key counts. Pure.

use std::collections::HashMap;

use super::call::{Call, Does, Verb};
use super::habits::{ScriptId, Scripts};
use super::line::{By, Line};
use super::run::{Deed, Run, Step, Unclear};
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::{Key, Token};
use crate::model::Address;

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Won,
    Lost,
    /// The server does not tell which writes took effect: its notifications are off.
    Unknown,
}

/// One thing that a client did to a lock.
#[derive(Clone, PartialEq, Debug)]
pub struct Act {
    pub key: Key,
    pub at: Time,
    /// Under which name, where it gave one.
    pub token: Option<Token>,
    pub address: Option<Address>,
    pub what: What,
}

#[derive(Clone, PartialEq, Debug)]
pub enum What {
    Tried(Outcome),
    Renewed,
    Released,
    /// A renewal or release that found somebody else, or nobody, where it wanted to find itself.
    Late {
        renewal: bool,
    },
    /// Deleted without comparing the holder, by somebody who was not seen to hold it. The holder is named only where
    /// another client was seen to be it.
    FreedBy {
        holder: Option<Token>,
    },
}

/// Events of one command that are kept until its line comes.
const EVENTS: usize = 256;
/// Locks of which a state is kept, and looks that wait to be understood.
const LOCKS: usize = 20_000;
const UNDECIDED: usize = 10_000;
/// Some libraries run their release after an attempt that failed. One at the start of a burst may belong to an attempt
/// from before it.
const SETTLED_MS: u64 = 250;

pub struct Judge<'a> {
    recogniser: &'a Recogniser,
    scripts: &'a mut Scripts,
    db: u32,
    /// The channel of a key's events, up to the key.
    prefix: Vec<u8>,
    told: Told,
    /// It is set to tell of every change, so that what was not told has not happened.
    sure: bool,
    began: Time,
    events: Vec<(Vec<u8>, Vec<u8>)>,
    /// More events came than are kept.
    missed: bool,
    run: Option<Run>,
    states: HashMap<Key, State>,
    undecided: Vec<(ScriptId, Unclear, Act)>,
}

/// Of which changes the server tells: as it is set, or as it was seen to do.
#[derive(Clone, Copy, Debug)]
struct Told {
    strings: bool,
    hashes: bool,
    generic: bool,
    /// Keys that were not there before.
    new: bool,
}

impl Told {
    fn see(&mut self, event: &[u8]) {
        match event {
            b"set" => self.strings = true,
            b"hset" | b"hincrby" => self.hashes = true,
            b"del" | b"expire" => self.generic = true,
            b"new" => self.new = true,
            _ => {}
        }
    }

    fn of(&self, verb: Verb, call: &Call, command: &[u8]) -> bool {
        match call.does {
            Does::TakeIfFree if command.eq_ignore_ascii_case(b"HSETNX") => self.hashes,
            Does::TakeIfFree | Does::RenewIfEqual => self.strings,
            Does::Renew if verb == Verb::Set => self.strings,
            _ => self.generic && self.strings && self.hashes,
        }
    }
}

/// What is known of a lock since the burst began.
#[derive(Debug, Default)]
struct State {
    /// Who got it or renewed it, and did not leave.
    holders: Vec<(Token, Option<Address>)>,
    /// Who lost an attempt.
    losers: Vec<Token>,
    /// Whether the key is there, as far as events told.
    there: Option<bool>,
    /// Who watches it, to compare by itself before it writes.
    watcher: Option<Address>,
}

impl State {
    const KEPT: usize = 16;

    fn held(&mut self, token: &Token, address: &Option<Address>) {
        self.holders.retain(|(other, _)| other != token);
        if self.holders.len() < Self::KEPT {
            self.holders.push((token.clone(), address.clone()));
        }
        self.losers.retain(|other| other != token);
    }

    fn lost(&mut self, token: &Token) {
        if !self.losers.contains(token) {
            if self.losers.len() == Self::KEPT {
                self.losers.remove(0);
            }
            self.losers.push(token.clone());
        }
    }
}

impl<'a> Judge<'a> {
    /// `told`: the server is set to tell of what changes a lock. Where that is not known, it shows as soon as it does.
    pub fn new(recogniser: &'a Recogniser, scripts: &'a mut Scripts, db: i64, told: bool, began: Time) -> Judge<'a> {
        Judge {
            recogniser,
            scripts,
            db: u32::try_from(db).unwrap_or(0),
            prefix: format!("__keyspace@{db}__:").into_bytes(),
            told: Told { strings: told, hashes: told, generic: told, new: false },
            sure: told,
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
        // Wider subscriptions bring other databases too: those have another prefix.
        let Some(key) = channel.strip_prefix(self.prefix.as_slice()) else { return };
        self.told.see(event);
        if matches!(event, b"del" | b"expired" | b"evicted") {
            let missed = self.events.len() == EVENTS;
            if let Some(state) = self.state(&Key::from(key)) {
                state.there = Some(false).filter(|_| !missed);
                if event != b"del" {
                    // Who held it is still asked for where somebody deleted it.
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
        }
        if let Some(verb) = Verb::of(line.command)
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

    /// The events of a line are over.
    fn settle(&mut self) {
        if self.missed {
            self.states.values_mut().for_each(|state| state.there = None);
        }
        let mut events = std::mem::take(&mut self.events);
        for (key, event) in events.drain(..).filter(|(_, event)| event != b"del") {
            // A key that is given a lease is there; one that loses a part of itself may not be.
            let there = !matches!(event.as_slice(), b"hdel" | b"zrem" | b"srem" | b"rename_from");
            if let Some(state) = self.state(&Key::from(key)) {
                state.there = Some(true).filter(|_| there);
            }
        }
        (self.events, self.missed) = (events, false);
    }

    /// Nothing more comes: what was left open is judged, `whole` where the last script's calls are all there.
    pub fn end(mut self, whole: bool, each: &mut impl FnMut(Act)) {
        if whole {
            self.close(each);
        }
        for (script, unclear, act) in std::mem::take(&mut self.undecided) {
            let habits = self.scripts.habits(script);
            let what = match unclear {
                Unclear::Looked if habits.takes => What::Tried(Outcome::Lost),
                Unclear::Looked if habits.is_known() => What::Late { renewal: habits.renews && !habits.leaves },
                Unclear::Wrote | Unclear::Extended if habits.takes => What::Tried(Outcome::Won),
                _ => continue,
            };
            match what {
                What::Late { renewal } => self.late(act, renewal).into_iter().for_each(&mut *each),
                what => each(Act { what, ..act }),
            }
        }
    }

    /// A command that a client sent by itself.
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
            let call = Call::of(verb, line, index);
            let wrote = self.wrote(&key, verb, &call, line.command);
            let token = call.token.as_deref().map(Token::from);
            let what = match (call.does, wrote) {
                (Does::TakeIfFree, wrote) => What::Tried(outcome(wrote)),
                (Does::Renew | Does::RenewIfEqual, Some(true)) => What::Renewed,
                (Does::RenewIfEqual, Some(false)) => What::Late { renewal: true },
                (Does::DeleteIfEqual, Some(true)) => What::Released,
                (Does::DeleteIfEqual, Some(false)) => What::Late { renewal: false },
                (Does::Delete, Some(true)) => What::FreedBy { holder: None },
                _ => continue,
            };
            self.tell(Act { key: Key::from(&*key), at, token, address, what }, each);
        }
    }

    /// A call of the script under way.
    fn inner(&mut self, verb: Verb, line: &Line<'_>) {
        let Some(mut run) = self.run.take() else { return };
        let every = verb.keys_every(line.command).unwrap_or(usize::MAX);
        for (index, key) in line.args().enumerate().step_by(every) {
            if !self.recogniser.may_be_lock(&key) {
                continue;
            }
            let call = Call::of(verb, line, index);
            let wrote = self.wrote(&key, verb, &call, line.command);
            let fresh = self.is_fresh(&key);
            run.add(&key, Step { does: call.does, token: call.token, wrote, fresh });
        }
        self.run = Some(run);
    }

    /// The script under way is over.
    fn close(&mut self, each: &mut impl FnMut(Act)) {
        let Some(run) = self.run.take() else { return };
        let habits = run.script.map(|script| self.scripts.habits(script)).unwrap_or_default();
        if habits.operates {
            return;
        }
        for (key, steps) in run.keys() {
            let known = self.states.get(key);
            let holders = || known.iter().flat_map(|state| &state.holders).map(|(token, _)| token);
            let deed = run.judge(steps, habits, holders);
            let token = run.token(key, steps, holders);
            if let (Some(script), Some(habit)) = (run.script, deed.habit()) {
                self.scripts.learn(script, habit);
            }
            let what = match deed {
                Deed::Nothing => continue,
                Deed::Tried(wrote) => What::Tried(outcome(wrote)),
                Deed::Renewed => What::Renewed,
                Deed::Left => What::Released,
                Deed::Freed => What::FreedBy { holder: None },
                Deed::Late { renewal } => What::Late { renewal },
                Deed::Unclear(_) => What::Renewed,
            };
            let act = Act { key: key.clone(), at: run.at, token, address: run.address.clone(), what };
            let Deed::Unclear(unclear) = deed else {
                self.tell(act, each);
                continue;
            };
            // Whether it was an attempt as well or not, who wrote holds it.
            if unclear != Unclear::Looked {
                self.tell(act.clone(), each);
            }
            if let Some(script) = run.script
                && self.undecided.len() < UNDECIDED
            {
                self.undecided.push((script, unclear, act));
            }
        }
    }

    /// Hands an act on, with what is known of the lock, and keeps what it says of it.
    fn tell(&mut self, mut act: Act, each: &mut impl FnMut(Act)) {
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

    /// Whether it was late: not where it has held the lock all along, nor where it cleans up after a lost attempt.
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

    /// Whether the call took effect; `None` where nobody tells.
    fn wrote(&self, key: &[u8], verb: Verb, call: &Call, command: &[u8]) -> Option<bool> {
        if let Does::Look(_) = call.does {
            return Some(false);
        }
        let seen = self.has_event(key, |event| call.is_told_by(verb, event));
        (seen || (self.told.of(verb, call, command) && !self.missed)).then_some(seen)
    }

    /// Whether the key was not there before the call; `None` where nobody tells.
    fn is_fresh(&self, key: &[u8]) -> Option<bool> {
        if self.told.new {
            return Some(self.has_event(key, |event| event == b"new"));
        }
        let known = self.states.get(key).filter(|_| self.sure && !self.missed)?;
        known.there.map(|there| !there)
    }

    fn has_event(&self, key: &[u8], is: impl Fn(&[u8]) -> bool) -> bool {
        self.events.iter().any(|(of, event)| of == key && is(event))
    }
}

fn outcome(wrote: Option<bool>) -> Outcome {
    match wrote {
        Some(true) => Outcome::Won,
        Some(false) => Outcome::Lost,
        None => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests;
