//! What deposed masters have, kept beside the locks and never as locks.
//!
//! Most of what such a server has is a copy of what was true when it was replaced, and says nothing: its holders may have
//! released or handed it over at the new master. Only what changes there shows that a client still works with it. So the
//! first look at a key is only compared with; a holder counts once it was seen to take or renew the lock there after that.
//! Bounded in servers and keys, and by the ends of the leases.

use std::collections::HashMap;

use crate::base::time::{Time, Ttl};
use crate::dialects::Recogniser;
use crate::lock::{Key, Kind, NodeId, Token};
use crate::model::table::Table;
use crate::model::verdict::cause::Second;
use crate::model::{
    Change, Ending, Fall, Hold, Lock, LostBy, Observation, OfDeposed, Seen, ServerNews, Source, Succession, Transition,
    What,
};

/// More of them are not kept.
const NODES: usize = 8;
/// Keys that are kept of each.
const KEYS: usize = 8_192;
/// An end that moved ahead by less was not renewed: clocks do not run alike to the millisecond.
const SLACK_MS: i64 = 100;
/// A hold that ended at the new master this long before it was known to be one was there too.
const BEFORE_MS: i64 = 5_000;

/// One deposed master.
#[derive(Debug)]
pub(in crate::model) struct Deposed {
    node: NodeId,
    succession: Succession,
    since: Time,
    /// Every key that it had then is known, so that a new one was written since.
    walked: bool,
    /// Keys were left out.
    full: bool,
    copies: HashMap<Key, Copy>,
    /// It was told that clients still write there.
    told: bool,
}

/// What it has under a key.
#[derive(Clone, Debug)]
struct Copy {
    /// With their re-entrancy counts; empty: nobody holds it there.
    holders: Vec<(Token, Option<i64>)>,
    /// Its time is up between these; `None`: never.
    ends: Option<(Time, Time)>,
    /// When this was asked.
    asked: Time,
    /// When a client was last seen to have taken or renewed it there.
    written: Option<Written>,
}

/// A client has taken or renewed a lock there.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Not before this.
    after: Time,
    seen: Time,
}

impl Copy {
    fn of(recogniser: &Recogniser, key: &Key, seen: Seen, (asked, answered): (Time, Time)) -> Copy {
        let nothing = Copy { holders: Vec::new(), ends: None, asked, written: None };
        let Seen::Present { value, ttl } = seen else { return nothing };
        let best = recogniser.read(key.as_bytes(), &value, ttl, answered);
        let Some(claim) = best.map(|best| best.claim).filter(|claim| claim.kind == Kind::Lock) else { return nothing };
        let holders = claim.holders.into_iter().map(|holder| (holder.token, holder.count)).collect();
        let ends = match ttl {
            Ttl::Never => None,
            Ttl::In(left) => Some((asked + left, answered + left)),
        };
        Copy { holders, ends, asked, written: None }
    }

    /// A client has taken or renewed it between the two looks.
    fn was_written_since(&self, before: &Copy) -> bool {
        let later = match (before.ends, self.ends) {
            (Some((_, latest)), Some((earliest, _))) => earliest.0 > latest.0.saturating_add(SLACK_MS),
            (before, now) => before.is_some() != now.is_some(),
        };
        !self.holders.is_empty() && (self.holders != before.holders || later)
    }

    /// Its lease still runs, as far as that is known.
    fn is_on(&self, now: Time) -> bool {
        self.ends.is_none_or(|(earliest, _)| earliest > now)
    }

    /// A client works with it there, as was seen.
    fn is_at_work(&self, now: Time) -> bool {
        self.written.is_some() && !self.holders.is_empty() && self.is_on(now)
    }
}

impl Table {
    pub(super) fn take_of_deposed(&mut self, node: NodeId, told: OfDeposed) {
        match told {
            OfDeposed::Reigns { succession, at } => self.depose(node, *succession, at),
            OfDeposed::Has { key, asked, answered, seen } => self.take_copy(node, key, (asked, answered), seen),
            OfDeposed::Walked => {
                for deposed in self.deposed.iter_mut().filter(|deposed| deposed.node == node && !deposed.full) {
                    deposed.walked = true;
                    deposed.copies.retain(|_, copy| !copy.holders.is_empty());
                }
            }
            OfDeposed::Ended { fall, at } => self.end_reign(node, fall, at),
        }
    }

    /// What is known of it from before may be over, except that its clients were at work.
    fn depose(&mut self, node: NodeId, succession: Succession, at: Time) {
        if let Some(known) = self.deposed.iter_mut().find(|deposed| deposed.node == node) {
            (known.succession, known.walked, known.full) = (succession, false, false);
            known.copies.retain(|_, copy| copy.written.is_some());
        } else if self.deposed.len() < NODES {
            let (walked, full, copies, told) = (false, false, HashMap::new(), false);
            self.deposed.push(Deposed { node, succession, since: at, walked, full, copies, told });
        }
    }

    fn take_copy(&mut self, node: NodeId, key: Key, (asked, answered): (Time, Time), seen: Seen) {
        let recogniser = self.recogniser.clone();
        let Some(deposed) = self.deposed.iter_mut().find(|deposed| deposed.node == node) else { return };
        let mut copy = Copy::of(&recogniser, &key, seen, (asked, answered));
        let before = deposed.copies.get(&key);
        let after = match before {
            Some(before) => copy.was_written_since(before).then_some(before.asked),
            None => Some(deposed.since).filter(|_| deposed.walked && !copy.holders.is_empty()),
        };
        // Another holder has not written yet what this one did.
        let earlier = before.filter(|before| before.holders == copy.holders).and_then(|before| before.written);
        copy.written = after.map(|after| Written { after, seen: answered }).or(earlier);
        let at_work = copy.is_at_work(answered);
        if copy.holders.is_empty() && deposed.walked {
            deposed.copies.remove(&key);
        } else if deposed.copies.len() < KEYS || deposed.copies.contains_key(&key) {
            deposed.copies.insert(key.clone(), copy);
        } else {
            (deposed.full, deposed.walked) = (true, false);
        }
        if at_work && !std::mem::replace(&mut deposed.told, true) {
            let Succession { space, old, new } = deposed.succession.clone();
            let what = What::Server(ServerNews::SplitBrain { old: old.name, new: new.name });
            let heir = self.home(space, node, key.as_bytes());
            self.note(heir, answered, what);
        }
    }

    /// A client that holds the lock at a deposed master, while another holds it where it is.
    pub(in crate::model) fn held_elsewhere(&self, lock: &Lock, now: Time) -> Option<Second<'_>> {
        self.deposed.iter().find_map(|deposed| {
            let elsewhere = deposed.succession.space == lock.space && deposed.node != lock.node;
            let copy = deposed.copies.get(&lock.key).filter(|copy| elsewhere && copy.is_at_work(now))?;
            let holders = self.holders(lock, lock.confirmed);
            let is_here = |token: &Token| holders.iter().any(|holder| holder.token == *token);
            let (token, _) = copy.holders.first().filter(|(token, _)| !holders.is_empty() && !is_here(token))?;
            let Written { after, seen } = copy.written?;
            // It has followed to the new master since, and was done there.
            let followed = |hold: &Hold| hold.holder.as_ref() == Some(token) && hold.until >= after;
            let is_done = lock.past().any(|hold| hold.ending == Ending::Released && followed(hold));
            (!is_done).then_some(Second::Elsewhere { token, at: seen, succession: &deposed.succession })
        })
    }

    /// Tells what was written there and is lost now.
    fn end_reign(&mut self, node: NodeId, fall: Fall, at: Time) {
        let Some(index) = self.deposed.iter().position(|deposed| deposed.node == node) else { return };
        let Deposed { succession, since, copies, .. } = self.deposed.swap_remove(index);
        if fall == Fall::Restored {
            return;
        }
        let mut lost: Vec<(Key, Token)> = copies
            .into_iter()
            .filter(|(_, copy)| copy.is_at_work(at))
            .filter_map(|(key, copy)| Some((key, copy.holders.into_iter().next()?.0)))
            .collect();
        lost.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let space = succession.space;
        for (key, token) in lost {
            let lock = self.place_named(space, key.as_bytes()).and_then(|place| self.lock_at(place));
            // It holds it at the new master too, or did, and its end there was told.
            let was_here = |lock: &Lock| {
                let lately = |until: Time| until.0 >= since.0.saturating_sub(BEFORE_MS);
                self.holders(lock, lock.confirmed).iter().any(|holder| holder.token == token)
                    || lock.past().any(|hold| hold.holder.as_ref() == Some(&token) && lately(hold.until))
            };
            if lock.is_some_and(was_here) {
                continue;
            }
            let heir = self.home(space, node, key.as_bytes());
            let (demoted, previous) = (fall == Fall::Demoted, Some(token));
            let (change, holder, source) = (Change::Ended(Ending::Failover), None, Source::Scan);
            let proven = demoted;
            let lost = Transition { at, space, node: heir, key, change, holder, previous, proven, source };
            self.lose(&lost, LostBy::Deposed { demoted });
            self.report(lost);
        }
    }

    /// What says this to another table; what they have comes with the next looks.
    pub(in crate::model) fn deposed_observations(&self) -> Vec<Observation> {
        let reigns = |deposed: &Deposed| {
            let (succession, at) = (Box::new(deposed.succession.clone()), deposed.since);
            Observation::Deposed { node: deposed.node, told: OfDeposed::Reigns { succession, at } }
        };
        self.deposed.iter().map(reigns).collect()
    }
}
