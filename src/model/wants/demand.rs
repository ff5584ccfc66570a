//! Which locks are in demand: noted as observations arrive, so that finding them needs no walk over a million locks.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::serial;
use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::table::Table;
use crate::model::table::slots::LockRef;
use crate::model::{Lock, LockView};

/// At most this many are remembered.
const MOST: usize = 10_000;

/// While it is full, those that nobody wants any more are looked for this often, and not with each new one.
const TIDIED_EVERY: Duration = Duration::from_secs(1);

/// Locks that were in demand at their last observation.
#[derive(Default)]
pub(in crate::model) struct InDemand {
    places: BTreeSet<LockRef>,
    tidied: Option<Time>,
}

/// How hard a lock is wanted.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Demand {
    /// As many wait, as far as they were counted or seen.
    pub waiting: u32,
    /// `None` where nobody counted or sampled, or not every outcome is known.
    #[serde(with = "serial::optional_float")]
    pub failures_per_s: Option<f64>,
    /// Somebody looked at it lately who does not hold it, or tried to take it with an outcome that nobody knows, or is
    /// blocked where its waiters are.
    pub polled: bool,
}

impl Demand {
    pub fn is_any(&self) -> bool {
        self.waiting > 0 || self.polled || self.failures_per_s.is_some_and(|rate| rate > 0.0)
    }

    /// The most wanted first.
    pub fn compare(&self, other: &Demand) -> Ordering {
        let rate = |demand: &Demand| demand.failures_per_s.unwrap_or(0.0);
        let by_waiting = other.waiting.cmp(&self.waiting);
        by_waiting.then_with(|| rate(other).total_cmp(&rate(self))).then_with(|| other.polled.cmp(&self.polled))
    }
}

impl Lock {
    /// How much it is wanted.
    pub fn demand(&self, now: Time) -> Demand {
        let Some(contention) = self.contention() else {
            return Demand::default();
        };
        let tries = self.tries(now);
        let waits = self.waits(now);
        let counted = waits.filter(|waits| !waits.is_at_most()).map_or(0, |waits| waits.count);
        let seen = contention.trying(now) as u32;
        Demand {
            waiting: counted.max(seen),
            failures_per_s: tries.and_then(|tries| tries.known_failures_per_s()),
            polled: self.wanted(now).is_some()
                || waits.is_some_and(|waits| waits.is_at_most())
                || tries.is_some_and(|tries| tries.unknown_why().is_some()),
        }
    }
}

impl LockView {
    /// The rank by failures: refused attempts in a thousand seconds; `None` if unknown.
    pub fn failures_rank(&self) -> Option<u64> {
        self.tries.and_then(|tries| tries.known_rank())
    }
}

impl Table {
    /// The locks in demand at `now`, the most wanted first, at most `most`.
    pub fn in_demand(&self, most: usize, now: Time) -> Vec<LockRef> {
        let demand = |place: &LockRef| {
            let lock = self.lock_at(*place).filter(|lock| lock.is_held())?;
            Some((lock.demand(now), &lock.key, *place)).filter(|(demand, ..)| demand.is_any())
        };
        let mut found: Vec<_> = self.in_demand.places.iter().filter_map(demand).collect();
        found.sort_unstable_by(|(a, a_key, _), (b, b_key, _)| a.compare(b).then_with(|| a_key.cmp(b_key)));
        found.into_iter().take(most).map(|(.., place)| place).collect()
    }

    /// After a gap in observation: clients that waited may be gone, or be back on another connection.
    pub(in crate::model) fn forget_contenders(&mut self, node: NodeId) {
        let in_demand = std::mem::take(&mut self.in_demand);
        for place in &in_demand.places {
            if let Some(lock) = self.at(*place).filter(|lock| lock.node == node)
                && let Some(contention) = &mut lock.contention
            {
                contention.forget_contenders();
            }
        }
        self.in_demand = in_demand;
    }

    /// Remembers the lock if it is in demand.
    pub(in crate::model) fn note_demand(&mut self, place: LockRef, now: Time) {
        let wanted = |lock: Option<&Lock>| lock.is_some_and(|lock| lock.is_held() && lock.demand(now).is_any());
        if !wanted(self.lock_at(place)) || self.in_demand.places.contains(&place) {
            return;
        }
        let tidied = self.in_demand.tidied.is_some_and(|at| now.since(at) < TIDIED_EVERY);
        if self.in_demand.places.len() >= MOST && !tidied {
            let mut in_demand = std::mem::take(&mut self.in_demand);
            in_demand.places.retain(|place| wanted(self.lock_at(*place)));
            in_demand.tidied = Some(now);
            self.in_demand = in_demand;
        }
        if self.in_demand.places.len() < MOST {
            self.in_demand.places.insert(place);
        }
    }
}
