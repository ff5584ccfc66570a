//! One run of a script: what it did to each lock, and what that means. Pure.

use super::call::{Does, Verb};
use super::habits::{Habits, ScriptId, Scripts};
use super::line::Line;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::dialects::scripts::{MARK, OPENING};
use crate::lock::{Key, Token};
use crate::model::Address;

/// Locks of one run, inner calls for each of them, and arguments that are kept.
const KEYS: usize = 32;
const STEPS: usize = 32;
const ARGS: usize = 16;
/// Longer arguments are no holder's name.
const ARG: usize = 1024;

/// A script under way.
#[derive(Debug)]
pub struct Run {
    /// `None` where its name is cut off.
    pub script: Option<ScriptId>,
    pub address: Option<Address>,
    pub at: Time,
    /// It is an operator's, by lockscope: what it does to a lock is no attempt and no mishap.
    pub operates: bool,
    /// What it was given beside its keys, where one of those can be a lock.
    args: Vec<Vec<u8>>,
    keys: Vec<(Key, Vec<Step>)>,
}

/// One inner call about one lock.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    pub does: Does,
    pub token: Option<Vec<u8>>,
    /// Whether it took effect; `None` where nobody tells.
    pub wrote: Option<bool>,
    /// Whether the key was not there before; `None` where nobody tells.
    pub fresh: Option<bool>,
}

/// What a run did to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It tried to take it; with or without success, where that is told.
    Tried(Option<bool>),
    Renewed,
    Left,
    /// Deleted it without a look at who holds it.
    Freed,
    Late {
        renewal: bool,
    },
    /// What it means shows only when it is known what the script is for.
    Unclear(Unclear),
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclear {
    /// It only looked: an attempt that was lost, or a renewal or release that was late.
    Looked,
    /// It wrote: an attempt that was won, or a renewal that sets again.
    Wrote,
    /// It gave the lock more time: a renewal, or one more entry of the holder.
    Extended,
}

impl Deed {
    /// What it says of the script.
    pub fn habit(self) -> Option<fn(&mut Habits)> {
        match self {
            Deed::Tried(_) => Some(|habits| habits.takes = true),
            Deed::Renewed | Deed::Unclear(Unclear::Extended) => Some(|habits| habits.renews = true),
            Deed::Left => Some(|habits| habits.leaves = true),
            _ => None,
        }
    }
}

impl Run {
    pub fn open(
        verb: Verb,
        line: &Line<'_>,
        address: Option<Address>,
        at: Time,
        scripts: &mut Scripts,
        recogniser: &Recogniser,
    ) -> Run {
        let mut words = line.args();
        let name = words.next();
        let opens = name.as_ref().is_some_and(|text| text.starts_with(OPENING.as_bytes()));
        let script = name.map(|name| match verb {
            Verb::Eval => scripts.of_text(&name),
            _ => ScriptId::of_name(&name),
        });
        let count = words.next().and_then(|count| std::str::from_utf8(&count).ok()?.parse::<usize>().ok()).unwrap_or(0);
        let mut concerned = false;
        for key in words.by_ref().take(count) {
            concerned |= recogniser.may_be_lock(&key);
        }
        let args = words.take(if concerned { ARGS } else { 0 });
        let args: Vec<Vec<u8>> = args.map(|arg| if arg.len() <= ARG { arg.into_owned() } else { Vec::new() }).collect();
        let operates = opens || args.first().is_some_and(|arg| arg == MARK);
        Run { script, address, at, operates, args, keys: Vec::new() }
    }

    pub fn add(&mut self, key: &[u8], step: Step) {
        if let Some((_, steps)) = self.keys.iter_mut().find(|(known, _)| known.as_bytes() == key) {
            if steps.len() < STEPS {
                steps.push(step);
            }
        } else if self.keys.len() < KEYS {
            self.keys.push((Key::from(key), vec![step]));
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = (&Key, &[Step])> {
        self.keys.iter().map(|(key, steps)| (key, steps.as_slice()))
    }

    /// What the inner calls about one lock mean. `holders`: who is known to hold it.
    pub fn judge<'t, I: Iterator<Item = &'t Token>>(
        &self,
        steps: &[Step],
        habits: Habits,
        holders: impl Fn() -> I,
    ) -> Deed {
        let find = |does: &[Does]| steps.iter().position(|step| does.contains(&step.does));
        let looked_before = |index: usize| steps[..index].iter().any(|step| matches!(step.does, Does::Look(_)));
        let took_effect = |index: usize| steps[index].wrote != Some(false);
        let holds = |index: usize| {
            let token = steps[index].token.as_deref();
            holders().any(|holder| Some(holder.as_bytes()) == token)
        };
        let write = find(&[Does::Write]).filter(|index| took_effect(*index));
        if let Some(taken) = find(&[Does::TakeIfFree]) {
            // Who holds it already may be let in by a write after the refusal.
            let later = write.is_some_and(|write| write > taken);
            return Deed::Tried(if later { Some(true) } else { steps[taken].wrote });
        }
        if find(&[Does::Leave]).is_some_and(took_effect) {
            return Deed::Left;
        }
        if let Some(deleted) = find(&[Does::Delete, Does::DeleteIfEqual]) {
            return match steps[deleted] {
                Step { wrote: Some(false), .. } => Deed::Nothing,
                Step { does: Does::DeleteIfEqual, .. } => Deed::Left,
                _ if looked_before(deleted) => Deed::Left,
                _ => Deed::Freed,
            };
        }
        if find(&[Does::Enter]).is_some_and(took_effect) {
            return Deed::Tried(Some(true));
        }
        if let Some(write) = write {
            let before = |verb: Verb| steps[..write].iter().any(|step| step.does == Does::Look(verb));
            return match steps[write].fresh {
                Some(true) => Deed::Tried(Some(true)),
                _ if holds(write) => Deed::Renewed,
                Some(false) if before(Verb::Member) || before(Verb::Size) => Deed::Tried(Some(true)),
                Some(false) => Deed::Renewed,
                // A script that asked only whether the key is there, and then wrote it, did not find it.
                None if before(Verb::Exists) && !before(Verb::Read) => Deed::Tried(Some(true)),
                None => Deed::Unclear(Unclear::Wrote),
            };
        }
        if find(&[Does::Renew, Does::RenewIfEqual]).is_some_and(took_effect) {
            return match habits {
                Habits { takes: true, .. } => Deed::Tried(Some(true)),
                Habits { renews: true, .. } => Deed::Renewed,
                _ => Deed::Unclear(Unclear::Extended),
            };
        }
        self.looked(steps, habits)
    }

    /// Nothing was written.
    fn looked(&self, steps: &[Step], habits: Habits) -> Deed {
        let has = |verb: Verb| steps.iter().any(|step| step.does == Does::Look(verb));
        if habits.takes {
            return Deed::Tried(Some(false));
        }
        if habits.is_known() {
            return Deed::Late { renewal: habits.renews && !habits.leaves };
        }
        let shared = has(Verb::Member) && (has(Verb::Lifetime) || has(Verb::Size));
        if has(Verb::Exists) || shared {
            return Deed::Tried(Some(false));
        }
        Deed::Unclear(Unclear::Looked)
    }

    /// The name under which the run spoke of the lock.
    pub fn token<'t, I: Iterator<Item = &'t Token>>(
        &self,
        key: &Key,
        steps: &[Step],
        holders: impl Fn() -> I,
    ) -> Option<Token> {
        let written = steps.iter().filter(|step| !matches!(step.does, Does::Look(_)));
        let named = written.chain(steps).find_map(|step| step.token.as_deref());
        let known = || self.args.iter().find(|arg| holders().any(|holder| holder.as_bytes() == arg.as_slice()));
        let likely = || {
            let is_name = |arg: &&Vec<u8>| {
                !arg.is_empty() && arg.as_slice() != key.as_bytes() && !arg.iter().all(u8::is_ascii_digit)
            };
            self.args
                .iter()
                .find(is_name)
                .or_else(|| self.args.first().filter(|arg| self.args.len() == 1 && !arg.is_empty()))
        };
        named.or_else(|| known().or_else(likely).map(Vec::as_slice)).map(Token::from)
    }
}
