//! The agenda of reads: which keys to read, now or later, and when the next one is due.
//!
//! The engine takes [`Ticket`]s from [`Table::to_read`] and reads those keys. A lock is on the agenda because it
//! changed, because an unexplained read is repeated in a moment, or because its deadline has passed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use crate::base::time::{MaybeTime, Time};
use crate::lock::{Key, NodeId};
use crate::model::Lock;
use crate::model::table::Table;
use crate::model::table::slots::LockRef;

/// How long a read that no event explains waits for its event.
pub(in crate::model) const GRACE: Duration = Duration::from_millis(40);

/// A request to read one key. It records how many events had arrived when it was issued.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub node: NodeId,
    pub key: Key,
    pub(super) place: LockRef,
    pub(super) seq: u64,
}

#[derive(Default)]
pub(super) struct Agenda {
    /// Locks to read, in order.
    queue: VecDeque<LockRef>,
    /// Locks to read again, not before the time given.
    later: VecDeque<(Time, LockRef)>,
    deadlines: BinaryHeap<Reverse<(Time, LockRef)>>,
}

impl Table {
    /// Up to `most` keys of the node that must be read now: changed ones, then those whose deadline has passed.
    pub fn to_read(&mut self, node: NodeId, most: usize, now: Time) -> Vec<Ticket> {
        while let Some(&(at, place)) = self.agenda.later.front()
            && at <= now
        {
            self.agenda.later.pop_front();
            self.enqueue(place);
        }
        while let Some(&Reverse((at, place))) = self.agenda.deadlines.peek()
            && at <= now
        {
            self.agenda.deadlines.pop();
            let Some(lock) = self.at(place).filter(|lock| lock.scheduled.get() == Some(at)) else { continue };
            lock.scheduled = MaybeTime::NONE;
            match lock.next_end() {
                Some(end) if lock.is_held() && end <= now => self.enqueue(place),
                _ => self.schedule(place),
            }
        }
        while let Some((node, key)) = self.ignored.next_changed(now) {
            // Its node may have left meanwhile.
            if self.known(node).is_some() {
                let place = self.find_or_insert(node, key.as_bytes(), now);
                place.into_iter().for_each(|place| self.enqueue(place));
            }
        }
        let mut tickets = Vec::new();
        for _ in 0..self.agenda.queue.len() {
            if tickets.len() >= most {
                break;
            }
            let Some(place) = self.agenda.queue.pop_front() else { break };
            let seq = self.seq;
            let Some(lock) = self.at(place) else { continue };
            if lock.node != node {
                self.agenda.queue.push_back(place);
                continue;
            }
            lock.queued = false;
            tickets.push(Ticket { node, key: lock.key.clone(), place, seq });
        }
        tickets
    }

    /// Queues up to `most` held locks of the node that were not confirmed since `before`, in rotation. For sources that
    /// don't report changes.
    pub fn poll(&mut self, node: NodeId, most: usize, before: Time) -> usize {
        let due = |lock: &Lock| lock.node == node && lock.is_held() && lock.confirmed < before && !lock.queued;
        let places = self.slots.next_round(most, due);
        for place in &places {
            self.enqueue(*place);
        }
        places.len()
    }

    /// When [`Table::to_read`] will next have something that it does not have now.
    pub fn next_due(&self) -> Option<Time> {
        let later = self.agenda.later.front().map(|(at, _)| *at);
        let deadline = self.agenda.deadlines.peek().map(|Reverse((at, _))| *at);
        [later, deadline, self.ignored.next_due()].into_iter().flatten().min()
    }

    /// Keys waiting to be read right now.
    pub fn waiting(&self) -> usize {
        self.agenda.queue.len()
    }

    /// Keys are to be read again in a moment.
    pub fn is_putting_off(&self) -> bool {
        !self.agenda.later.is_empty()
    }

    pub(in crate::model) fn enqueue(&mut self, place: LockRef) {
        if let Some(lock) = self.at(place)
            && !lock.queued
        {
            lock.queued = true;
            self.agenda.queue.push_back(place);
        }
    }

    /// Reads the key again in a moment.
    pub(in crate::model) fn put_off(&mut self, place: LockRef, now: Time) {
        self.agenda.later.push_back((now + GRACE, place));
    }

    /// Watches the lock's deadline: `expired` may come minutes late.
    pub(in crate::model) fn schedule(&mut self, place: LockRef) {
        let Some(lock) = self.at(place).filter(|lock| lock.is_held()) else { return };
        let Some(due) = lock.next_end().map(|end| end + Duration::from_millis(2)) else { return };
        // A deadline that moved ahead is found when the entry comes up; one that moved closer needs its own.
        if lock.scheduled.get().is_none_or(|scheduled| due < scheduled) {
            lock.scheduled = Some(due).into();
            self.agenda.deadlines.push(Reverse((due, place)));
            if self.agenda.deadlines.len() > 2 * self.slots.len() + 64 {
                self.drop_old_deadlines();
            }
        }
    }

    /// Removes stale entries, which shrinking leases leave behind.
    fn drop_old_deadlines(&mut self) {
        let mut deadlines = std::mem::take(&mut self.agenda.deadlines);
        deadlines.retain(|Reverse((at, place))| self.at(*place).is_some_and(|lock| lock.scheduled.get() == Some(*at)));
        self.agenda.deadlines = deadlines;
    }
}
