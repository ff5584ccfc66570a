//! Keeps the timeline: visits the held locks, a slice at a time, and reports whose verdict has changed.
//!
//! Verdicts change with time alone, and with what is learnt of clients, so no event reports them. A round begins at most
//! once a second; with very many locks it takes longer. The end of a hold is reported at once, because the patrol does
//! not meet locks that are gone. Losses are gathered: a restart that took 5,000 locks is one entry.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, NodeId, Token};
use crate::model::table::Table;
use crate::model::table::slots::LockRef;
use crate::model::verdict::judge::is_without_lease;
use crate::model::{Change, Ending, Lock, LostBy, Notable, OwnWrite, State, Timeline, Transition, What};

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(1_000);
/// A lock that gets its TTL by a second command has none for a moment.
const BARE: Duration = Duration::from_millis(1_000);
/// A contended lock is contended again with each hold: the end of it is reported only after this long without contention.
const CALM: Duration = Duration::from_secs(15);
/// Losses belong together until none came for this long, or for this long in all.
const QUIET: Duration = Duration::from_millis(1_000);
const LONGEST: Duration = Duration::from_secs(10);
/// How many of the lost locks are named.
const NAMED: usize = 3;
/// Findings cost more than a state: of so many locks, one is asked for them.
const INQUIRED: usize = 10;
/// Characters of a sentence that are kept.
const SENTENCE: usize = 300;

#[derive(Default)]
pub(in crate::model) struct Patrol {
    /// The first slot that this round has not visited.
    slot: usize,
    began: Option<Time>,
    losses: Vec<Loss>,
    /// The state of each lock that the timeline knows, by its slot; `None`: none yet. A byte for each lock.
    noted: Vec<Option<State>>,
    /// Locks that many wanted, and since when nobody does.
    calm: HashMap<LockRef, Time>,
    /// The ends of contended locks: reported if nobody takes them for as long.
    ended: HashMap<LockRef, Notable>,
}

impl Patrol {
    fn noted(&self, place: LockRef) -> Option<State> {
        self.noted.get(place.slot()).copied().flatten()
    }

    pub fn note(&mut self, place: LockRef, state: Option<State>) {
        if self.noted.len() <= place.slot() {
            self.noted.resize(place.slot() + 1, None);
        }
        self.noted[place.slot()] = state;
    }
}

/// Locks that were lost together.
struct Loss {
    space: KeyspaceId,
    node: NodeId,
    cause: LostBy,
    first: Time,
    last: Time,
    locks: u64,
    some: Vec<Key>,
    /// Who held the first.
    previous: Option<Token>,
}

/// Whether an operator should know of it. A lease that ends is how most locks end.
fn is_trouble(state: State) -> bool {
    state < State::Expiring
}

impl Table {
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Visits up to `most` locks. Returns whether the timeline has grown.
    pub fn patrol(&mut self, most: usize, now: Time) -> bool {
        let before = self.timeline.end();
        self.timeline.age(now);
        self.forget_lost(now);
        self.tell_losses(now);
        self.tell_ended(now);
        self.inquire(most / INQUIRED, now);
        if self.patrol.slot == 0 && self.patrol.began.is_some_and(|began| now.since(began) < ROUND) {
            return self.timeline.end() > before;
        }
        if self.patrol.slot == 0 {
            self.patrol.began = Some(now);
            self.figures.begin_round(now);
            let mut calm = std::mem::take(&mut self.patrol.calm);
            calm.retain(|place, _| self.lock_at(*place).is_some_and(|lock| self.state(lock, now) != State::Contended));
            self.patrol.calm = calm;
        }
        let slots = self.patrol.slot..self.patrol.slot.saturating_add(most).min(self.slots());
        self.patrol.slot = if slots.end < self.slots() { slots.end } else { 0 };
        let changed = self.visit(slots, now);
        if self.patrol.slot == 0 {
            self.finish_round(now);
        }
        for (place, state) in changed {
            if !self.is_calming(place, state, now) {
                self.note_state(place, state, now);
            }
        }
        self.timeline.end() > before
    }

    /// Counts the locks in these slots, and returns those whose state is another than the timeline knows.
    fn visit(&mut self, slots: Range<usize>, now: Time) -> Vec<(LockRef, State)> {
        let (mut round, mut changed) = (self.figures.take_round(), Vec::new());
        for (place, lock) in self.slots.known_in(slots) {
            if !lock.is_held() {
                round.see_gone(self, lock, now);
                continue;
            }
            let state = self.state(lock, now);
            round.see(self, lock, state, now);
            let state = match state {
                State::Expiring => State::Held,
                State::NoTtl if is_without_lease(lock) => State::Held,
                state => state,
            };
            let bare = state == State::NoTtl && now.since(lock.since) < BARE;
            if self.patrol.noted(place) != Some(state) && !bare && self.is_settled(lock, now) {
                changed.push((place, state));
            }
        }
        self.figures.keep_round(round);
        changed
    }

    /// Every lock was visited.
    fn finish_round(&mut self, now: Time) {
        let stale = self.figures.finish_round(now);
        for (node, known) in self.nodes.iter_mut().enumerate() {
            known.iter_mut().for_each(|known| known.stale = stale.contains(&NodeId(node as u16)));
        }
        for group in self.figures.to_admit() {
            self.figures.admit(group, self.groups.get(group).pattern(), now);
        }
    }

    /// What is known of it is the truth: no event or answer is under way, and nothing was missed.
    fn is_settled(&self, lock: &Lock, now: Time) -> bool {
        lock.pending.is_none() && !self.missed(lock) && !lock.ours.as_ref().is_some_and(|ours| ours.is_open(now))
    }

    /// Many wanted it a moment ago, and may again.
    fn is_calming(&mut self, place: LockRef, state: State, now: Time) -> bool {
        if self.patrol.noted(place) != Some(State::Contended) || is_trouble(state) {
            return false;
        }
        let since = *self.patrol.calm.entry(place).or_insert(now);
        now.since(since) < CALM
    }

    fn note_state(&mut self, place: LockRef, to: State, now: Time) {
        let noted = self.patrol.noted(place);
        self.patrol.note(place, Some(to));
        // What a lock was when it was found is nothing that happened.
        let Some(from) = noted.filter(|from| is_trouble(*from) || is_trouble(to)) else { return };
        let Some(lock) = self.lock_at(place) else { return };
        let holder = self.holders(lock, now).into_iter().next().map(|holder| holder.token);
        let why = is_trouble(to).then(|| self.judge(lock, now).evidence.into_iter().next()).flatten();
        // The numbers are those of that moment.
        let why = why.map(|why| why.replace(" ago", " earlier").chars().take(SENTENCE).collect());
        let (space, node, key) = (lock.space, lock.node, Some(lock.key.clone()));
        let what = What::State { from, to, holder, ending: None, why };
        self.timeline.push(Notable { at: now, space, node, key, what });
    }

    /// What these changes of the lock mean for the timeline.
    pub(super) fn note_changes(&mut self, place: LockRef, changes: &[Transition]) {
        for change in changes {
            let noted = self.patrol.noted(place);
            let now = match change.change {
                Change::Found | Change::PutBack | Change::CameBack => None,
                Change::Renewed | Change::Moved => noted,
                // Who wants it does not change with its holder.
                Change::Acquired if noted == Some(State::Contended) => {
                    self.patrol.ended.remove(&place);
                    continue;
                }
                Change::Ended(ending @ (Ending::Released | Ending::Expired)) if noted == Some(State::Contended) => {
                    let (from, holder) = (State::Contended, change.previous.clone());
                    let what = What::State { from, to: State::Free, holder, ending: Some(ending), why: None };
                    let Transition { at, space, node, .. } = *change;
                    let entry = Notable { at, space, node, key: Some(change.key.clone()), what };
                    self.patrol.ended.insert(place, entry);
                    continue;
                }
                Change::Acquired | Change::Taken => Some(State::Held),
                Change::Ended(_) => Some(State::Free),
            };
            self.patrol.note(place, now);
            let what = match change.change {
                Change::Taken => What::Taken { holder: change.holder.clone(), previous: change.previous.clone() },
                Change::Ended(ending) => {
                    match (lost_by(ending, change.proven), noted.filter(|state| is_trouble(*state))) {
                        (Some(cause), _) => {
                            self.lose(change, cause);
                            continue;
                        }
                        (None, Some(from)) if ending != Ending::Forced => {
                            let (holder, ending) = (change.previous.clone(), Some(ending));
                            What::State { from, to: State::Free, holder, ending, why: None }
                        }
                        _ => continue,
                    }
                }
                Change::Found | Change::Acquired | Change::Renewed => continue,
                Change::PutBack | Change::CameBack | Change::Moved => continue,
            };
            let Transition { at, space, node, .. } = *change;
            self.timeline.push(Notable { at, space, node, key: Some(change.key.clone()), what });
        }
    }

    /// A write of ours that the server confirmed.
    pub(super) fn note_write(&mut self, place: LockRef, write: &OwnWrite, at: Time) {
        let Some(lock) = self.lock_at(place) else { return };
        let (space, node, key) = (lock.space, lock.node, Some(lock.key.clone()));
        // An event of the write itself may have been heard already: what it was before is what was noted last.
        let from = self.patrol.noted(place).unwrap_or_else(|| self.state(lock, at));
        let what = What::Wrote { from, write: Box::new(write.clone()) };
        self.timeline.push(Notable { at, space, node, key, what });
    }

    /// Something happened to a whole server, or to how it is watched.
    pub(super) fn note(&mut self, node: NodeId, at: Time, what: What) {
        if what == What::Restarted {
            self.node(node).restarted = Some(at);
            self.clients.cut_off(node, at);
        }
        let held = |lock: &&Lock| lock.node == node && lock.is_held();
        let locks = matches!(what, What::Failover { .. }).then(|| self.locks().filter(held).count() as u64);
        let space = self.space(node);
        self.timeline.push_served(Notable { at, space, node, key: None, what }, locks);
    }

    pub(super) fn lose(&mut self, change: &Transition, cause: LostBy) {
        let Transition { at, space, node, .. } = *change;
        let losses = &mut self.patrol.losses;
        let known = losses.iter().position(|loss| loss.node == node && loss.cause == cause);
        let index = known.unwrap_or_else(|| {
            let (some, previous) = (Vec::new(), change.previous.clone());
            losses.push(Loss { space, node, cause, first: at, last: at, locks: 0, some, previous });
            losses.len() - 1
        });
        let loss = &mut losses[index];
        loss.locks += 1;
        loss.last = loss.last.max(at);
        if loss.some.len() < NAMED {
            loss.some.push(change.key.clone());
        }
    }

    /// Tells of contended locks that ended and that nobody took since.
    fn tell_ended(&mut self, now: Time) {
        let over = |_: &LockRef, entry: &mut Notable| now.since(entry.at) >= CALM;
        let over: Vec<(LockRef, Notable)> = self.patrol.ended.extract_if(over).collect();
        for (place, entry) in over {
            if self.lock_at(place).is_some_and(|lock| !lock.is_held()) {
                self.patrol.note(place, Some(State::Free));
                self.timeline.push(entry);
            }
        }
    }

    /// Tells of losses that are over.
    fn tell_losses(&mut self, now: Time) {
        let over = |loss: &mut Loss| now.since(loss.last) >= QUIET || now.since(loss.first) >= LONGEST;
        let over: Vec<Loss> = self.patrol.losses.extract_if(.., over).collect();
        for Loss { space, node, cause, first, locks, some, previous, .. } in over {
            let key = some.first().filter(|_| locks == 1).cloned();
            let what = What::Lost { cause, locks, some, previous: previous.filter(|_| locks == 1) };
            self.timeline.push(Notable { at: first, space, node, key, what });
        }
    }
}

fn lost_by(ending: Ending, proven: bool) -> Option<LostBy> {
    match ending {
        Ending::Flushed => Some(LostBy::Flush),
        Ending::Evicted => Some(LostBy::Eviction),
        Ending::Renamed => Some(LostBy::Rename),
        Ending::Restart => Some(LostBy::Restart),
        Ending::Failover => Some(LostBy::Failover { proven }),
        Ending::SlotTaken => Some(LostBy::SlotTaken),
        Ending::Unseen => Some(LostBy::Unseen),
        Ending::Released | Ending::Expired | Ending::Taken | Ending::Forced => None,
    }
}
