//! One run of a script: what it did to each lock, and what that means. Pure.

use super::call::{Does, Verb};
use super::habits::{Called, Habits, ScriptId, Scripts};
use super::line::Line;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::dialects::scripts::{MARK, OPENING};
use crate::lock::{Key, Token};
use crate::model::Address;

/// Limits of one run: locks, inner calls for each lock, and arguments that we keep. Redisson renews 100 locks at once.
const KEYS: usize = 128;
const CALLS: usize = 32;
const ARGS: usize = 16;
/// Longer arguments are not tokens.
const ARG: usize = 1024;

/// A script that is running.
#[derive(Debug)]
pub struct Run {
    /// `None` where its name is cut off.
    pub script: Option<ScriptId>,
    pub address: Option<Address>,
    pub at: Time,
    /// An operator runs it, by lockscope: what it does to a lock is neither an attempt nor a mistake.
    pub operates: bool,
    /// Its arguments after the keys, where one of the keys may be a lock.
    args: Vec<Vec<u8>>,
    /// It made an inner call: the server knows the script.
    pub ran: bool,
    /// The locks that it named or called about, each with the calls.
    keys: Vec<(Key, Vec<InnerCall>)>,
}

/// One inner call about one lock.
#[derive(Clone, PartialEq, Debug)]
pub struct InnerCall {
    pub does: Does,
    pub token: Option<Vec<u8>>,
    /// Whether it took effect; `None` where that is not known.
    pub wrote: Option<bool>,
    /// Whether it created the key; `None` where that is not known.
    pub fresh: Option<bool>,
}

/// What a run did to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It tried to take it, and whether it succeeded where that is known.
    Tried(Option<bool>),
    Renewed,
    Left,
    /// Deleted it without comparing the holder.
    Freed,
    Late {
        renewal: bool,
    },
    /// Its meaning depends on what the script is for.
    Unclear(Unclear),
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclear {
    /// It only read: a lost attempt, or a late renewal or release.
    Looked,
    /// It asked for the time left, or for what we do not know, or its holder asked: that need not be an attempt.
    Asked,
    /// It wrote: a won attempt, or a renewal that sets the key again.
    Wrote,
    /// It extended the lease: a renewal, or the holder entered once more.
    Extended,
}

impl Deed {
    /// What we learn about the script from it.
    pub fn habit(self) -> Option<fn(&mut Habits)> {
        match self {
            Deed::Tried(_) => Some(|habits| habits.takes = true),
            Deed::Renewed | Deed::Unclear(Unclear::Extended) => Some(|habits| habits.renews = true),
            Deed::Left => Some(|habits| habits.leaves = true),
            _ => None,
        }
    }

    /// Whether it changed the lock.
    pub fn is_change(self) -> bool {
        let wrote = matches!(self, Deed::Unclear(Unclear::Wrote | Unclear::Extended));
        wrote || matches!(self, Deed::Tried(Some(true)) | Deed::Renewed | Deed::Left | Deed::Freed)
    }

    /// Whether it came to nothing, because the run turned to another lock: a free slot, or the one that it holds.
    pub fn is_passing_by(self) -> bool {
        let looked = matches!(self, Deed::Unclear(Unclear::Looked | Unclear::Asked));
        looked || matches!(self, Deed::Tried(Some(false)) | Deed::Late { renewal: false })
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
            _ if line.command.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"FCALL")) => {
                scripts.called(&name, Called::Function)
            }
            _ => scripts.called(&name, Called::Hash),
        });
        let count = words.next().and_then(|count| std::str::from_utf8(&count).ok()?.parse::<usize>().ok()).unwrap_or(0);
        let named = words.by_ref().take(count).filter(|key| recogniser.may_be_lock(key));
        let mut keys: Vec<(Key, Vec<InnerCall>)> = Vec::new();
        for key in named {
            if keys.len() < KEYS && !keys.iter().any(|(known, _)| known.as_bytes() == &*key) {
                keys.push((Key::from(&*key), Vec::new()));
            }
        }
        // A function may name its locks among its arguments only.
        let concerned = count == 0 || !keys.is_empty();
        let args = words.take(if concerned { ARGS } else { 0 });
        let args: Vec<Vec<u8>> = args.map(|arg| if arg.len() <= ARG { arg.into_owned() } else { Vec::new() }).collect();
        let operates = opens || args.first().is_some_and(|arg| arg == MARK);
        Run { script, address, at, operates, args, ran: false, keys }
    }

    pub fn add(&mut self, key: &[u8], call: InnerCall) {
        if let Some((_, calls)) = self.keys.iter_mut().find(|(known, _)| known.as_bytes() == key) {
            if calls.len() < CALLS {
                calls.push(call);
            }
        } else if self.keys.len() < KEYS {
            self.keys.push((Key::from(key), vec![call]));
        }
    }

    /// The locks that it was about. Those that it only named count where it called about no other.
    pub fn keys(&self) -> impl Iterator<Item = (&Key, &[InnerCall])> {
        let called = self.keys.iter().any(|(_, calls)| !calls.is_empty());
        let keys = self.keys.iter().filter(move |(_, calls)| self.ran && (!called || !calls.is_empty()));
        keys.map(|(key, calls)| (key, calls.as_slice()))
    }

    /// What the inner calls about one lock mean. `holders`: who is known to hold it.
    pub fn judge<'t, I: Iterator<Item = &'t Token>>(
        &self,
        calls: &[InnerCall],
        habits: Habits,
        holders: impl Fn() -> I,
    ) -> Deed {
        let find = |does: &[Does]| calls.iter().position(|call| does.contains(&call.does));
        let looked_before = |index: usize| calls[..index].iter().any(|call| matches!(call.does, Does::Look(_)));
        let took_effect = |index: usize| calls[index].wrote != Some(false);
        let holds = |index: usize| {
            let token = calls[index].token.as_deref();
            holders().any(|holder| Some(holder.as_bytes()) == token)
        };
        let write = find(&[Does::Write]).filter(|index| took_effect(*index));
        if let Some(taken) = find(&[Does::TakeIfFree]) {
            // A script may let the current holder in again by a write after the refused one.
            let later = write.is_some_and(|write| write > taken);
            return Deed::Tried(if later { Some(true) } else { calls[taken].wrote });
        }
        if find(&[Does::Leave]).is_some_and(took_effect) {
            return Deed::Left;
        }
        if let Some(deleted) = find(&[Does::Delete, Does::DeleteIfEqual]) {
            return match calls[deleted] {
                InnerCall { wrote: Some(false), .. } => Deed::Nothing,
                InnerCall { does: Does::DeleteIfEqual, .. } => Deed::Left,
                _ if looked_before(deleted) => Deed::Left,
                _ => Deed::Freed,
            };
        }
        let counted_down = find(&[Does::CountDown]).filter(|index| looked_before(*index));
        if find(&[Does::Enter]).or(counted_down).is_some_and(took_effect) {
            return Deed::Tried(Some(true));
        }
        if let Some(write) = write {
            let before = |verb: Verb| calls[..write].iter().any(|call| call.does == Does::Look(verb));
            return match calls[write].fresh {
                Some(true) => Deed::Tried(Some(true)),
                _ if holds(write) => Deed::Renewed,
                Some(false) if before(Verb::Member) || before(Verb::Size) => Deed::Tried(Some(true)),
                Some(false) => Deed::Renewed,
                // A script that checked only EXISTS, and then wrote, did not find the key.
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
        self.looked(calls, habits)
    }

    /// Nothing was written.
    fn looked(&self, calls: &[InnerCall], habits: Habits) -> Deed {
        let has = |verb: Verb| calls.iter().any(|call| call.does == Does::Look(verb));
        if habits.takes {
            return Deed::Tried(Some(false));
        }
        if habits.is_known() && !habits.is_open() {
            return Deed::Late { renewal: false };
        }
        let shared = has(Verb::Member) && (has(Verb::Lifetime) || has(Verb::Size));
        let pruned = has(Verb::Prune) && has(Verb::Size);
        if !habits.renews && (has(Verb::Exists) || shared || pruned) {
            return Deed::Tried(Some(false));
        }
        let asked = calls.is_empty() || has(Verb::Lifetime);
        Deed::Unclear(if asked { Unclear::Asked } else { Unclear::Looked })
    }

    /// The token that the run used for the lock.
    pub fn token<'t, I: Iterator<Item = &'t Token>>(
        &self,
        key: &Key,
        calls: &[InnerCall],
        holders: impl Fn() -> I,
    ) -> Option<Token> {
        let written = calls.iter().filter(|call| !matches!(call.does, Does::Look(_)));
        let named = written.chain(calls).find_map(|call| call.token.as_deref());
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
