//! Bounded memory of one lock: the renewals of the current hold, and the holds before it.

pub mod cadence;
pub(in crate::model) mod holds;
pub(in crate::model) mod pattern;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::serial;
use crate::base::time::Time;
use crate::lock::Token;
use crate::model::history::cadence::{Resumed, Rhythm};
use crate::model::{Ending, OwnWrite};

/// A holder has found the new master this long after a failover: sentinels let a master that they replaced take writes for
/// ten seconds.
const FOUND: Duration = Duration::from_secs(12);

/// The renewals of the current hold: how many in all, and the times of the last few.
#[derive(Clone, Debug, Default)]
pub struct Beats {
    pub count: u64,
    recent: VecDeque<Time>,
    /// The newest of them, kept beside them: every verdict asks for it.
    last: Option<Time>,
    /// Their holder joined others, so that it is not known when it took the lock.
    joined: bool,
    /// The lock was freed and put back, so that no renewal could come in between.
    pub(super) resumed: Option<Resumed>,
    /// The time between renewals, cached because every verdict needs it; `None` until there is a rhythm.
    pub(super) period_ms: Option<u64>,
}

impl Beats {
    const KEPT: usize = 16;

    /// For a holder that shares the lock with others: this many renewals were seen, but not whose they were.
    pub(super) fn of_joined(count: u64) -> Beats {
        Beats { count, joined: true, ..Beats::default() }
    }

    /// Notes a renewal. Several may be told at the same moment: each counts, and their distance says nothing.
    pub fn push(&mut self, at: Time) {
        self.count += 1;
        // Who was waited for is there.
        self.resumed.take_if(|resumed| resumed.at > at);
        if self.last.is_some_and(|last| at <= last) {
            return;
        }
        if self.recent.len() == Self::KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(at);
        self.last = Some(at);
    }

    /// The lock was freed at that time, when so many renewals were missed.
    pub(super) fn pause(&mut self, at: Time, missed: u64) {
        self.resumed = Some(Resumed { at, missed });
    }

    /// The lock was put back at that time.
    pub(super) fn resume(&mut self, at: Time) {
        self.resumed = Some(Resumed { at, missed: self.resumed.map_or(0, |paused| paused.missed) });
    }

    /// The lock outlived a failover at that time. Its holder may take a while to find the new master, and renew at the one
    /// that was replaced meanwhile; what it had missed long before stays missed.
    pub(super) fn outlives(&mut self, failover: Time) {
        self.excuse(failover - FOUND, failover + FOUND);
    }

    /// The server let nobody renew in that time, and clients need a while to notice that it does again.
    pub(super) fn outlasts(&mut self, began: Time, ended: Time) {
        self.excuse(began, ended + FOUND);
    }

    /// No renewal is missed in that time; what was missed before stays missed.
    fn excuse(&mut self, from: Time, until: Time) {
        let missed = self.rhythm(from).map_or(0, |rhythm| rhythm.missed);
        self.resumed = Some(Resumed { at: until, missed });
    }

    /// The rhythm at that time; `None` until there is one.
    pub(super) fn rhythm(&self, now: Time) -> Option<Rhythm> {
        let rhythm = Rhythm::at(self.period_ms?, self.last?, now);
        Some(self.resumed.map_or(rhythm, |resumed| rhythm.resumed(resumed, now)))
    }

    pub fn recent(&self) -> impl Iterator<Item = Time> + '_ {
        self.recent.iter().copied()
    }

    pub fn last(&self) -> Option<Time> {
        self.last
    }

    /// When the lease was given, as far back as is known: when the lock was taken, if none of its renewals is left out
    /// in between, and the renewals.
    pub fn given(&self, taken: Option<Time>) -> impl Iterator<Item = Time> + '_ {
        let from_the_start = taken.filter(|_| !self.joined && self.count <= Self::KEPT as u64);
        from_the_start.into_iter().chain(self.recent())
    }
}

/// The last holds that are over, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Past(VecDeque<Hold>);

impl Past {
    const KEPT: usize = 8;

    pub fn push(&mut self, hold: Hold) {
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back(hold);
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Hold> {
        self.0.iter()
    }

    /// Takes out the last hold if it was freed, because it continues.
    pub(super) fn resume(&mut self) -> Option<Hold> {
        let freed = |hold: &Hold| matches!(hold.ending, Ending::Forced | Ending::Released);
        if self.0.back().is_some_and(freed) { self.0.pop_back() } else { None }
    }

    /// Takes out the last hold if this was its holder, who has it again.
    pub(super) fn go_on(&mut self, holder: Option<&Token>) -> Option<Hold> {
        let is_it = holder.is_some() && self.0.back().is_some_and(|hold| hold.holder.as_ref() == holder);
        if is_it { self.0.pop_back() } else { None }
    }
}

/// A hold that is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hold {
    pub holder: Option<Token>,
    pub since: Time,
    /// Whether `since` is when it was taken, or only when we first saw it.
    pub exact: bool,
    pub until: Time,
    pub ending: Ending,
    pub renewals: u64,
    /// The write of ours that ended it, where one did.
    #[serde(with = "serial::optional_shared")]
    pub forced: Option<Arc<OwnWrite>>,
}
