//! Who holds a lock, told apart without decoding its value: the only holder, or each of several.
//!
//! Of a lock that several hold, the renewals and the connections of one say nothing of another, so each has a share of its
//! own. With one holder left it is a lock like any other.

use crate::base::time::Time;
use crate::lock::{Holder, NodeId};
use crate::model::history::cadence;
use crate::model::wants::client::Clients;
use crate::model::wants::instance::{HolderId, InstanceId};
use crate::model::{Beats, Lock};

/// Whoever holds a lock.
#[derive(Debug)]
pub(super) enum HeldBy {
    /// Or somebody whom its value does not name.
    Nobody,
    One(HolderId, InstanceId),
    Several(Box<[Share]>),
}

/// One holder of several.
#[derive(Debug)]
pub(super) struct Share {
    holder: HolderId,
    pub instance: InstanceId,
    /// The renewals that are known to be this holder's.
    pub beats: Option<Box<Beats>>,
}

/// As many holders of one lock as are told apart.
const MOST: usize = 256;

impl HeldBy {
    pub fn of(holders: &[Holder], node: NodeId, clients: &Clients) -> HeldBy {
        let ids = |holder: &Holder| (clients.holder_id(&holder.token), clients.instance_of(node, holder));
        match holders {
            [] => HeldBy::Nobody,
            [one] => {
                let (holder, instance) = ids(one);
                HeldBy::One(holder, instance)
            }
            several => {
                let share = |(holder, instance)| Share { holder, instance, beats: None };
                HeldBy::Several(several.iter().take(MOST).map(ids).map(share).collect())
            }
        }
    }

    /// The only holder's instance.
    pub fn one(&self) -> Option<InstanceId> {
        match self {
            HeldBy::One(_, instance) => Some(*instance),
            HeldBy::Nobody | HeldBy::Several(_) => None,
        }
    }

    pub fn shares(&self) -> &[Share] {
        match self {
            HeldBy::Several(shares) => shares,
            HeldBy::Nobody | HeldBy::One(..) => &[],
        }
    }

    pub fn instances(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.one().into_iter().chain(self.shares().iter().map(|share| share.instance))
    }

    /// The share of one holder of several.
    pub fn share(&self, holder: HolderId) -> Option<&Share> {
        self.shares().iter().find(|share| share.holder == holder)
    }
}

impl Lock {
    /// Takes in who holds it now. Whoever stays keeps their renewals; of those who were seen together, nobody knows whose
    /// they were.
    pub(super) fn keep_holders(&mut self, mut now: HeldBy) {
        match (&mut self.held_by, &mut now) {
            (HeldBy::One(holder, _), HeldBy::Several(shares)) => {
                if let Some(share) = shares.iter_mut().find(|share| share.holder == *holder) {
                    share.beats = self.beats.clone();
                }
            }
            (HeldBy::Several(before), HeldBy::Several(shares)) => {
                for share in shares.iter_mut() {
                    let known = before.iter_mut().find(|known| known.holder == share.holder);
                    share.beats = known.and_then(|known| known.beats.take());
                }
            }
            (HeldBy::Several(before), HeldBy::One(holder, _)) => {
                if let Some(known) = before.iter_mut().find(|known| known.holder == *holder) {
                    let count = self.beats.as_ref().map_or(0, |beats| beats.count);
                    let of_all = || (count > 0).then(|| Box::new(Beats::of_joined(count)));
                    self.beats = known.beats.take().or_else(of_all);
                }
            }
            _ => {}
        }
        self.held_by = now;
    }

    /// One of several holders renewed it.
    pub(super) fn beat(&mut self, holder: HolderId, at: Time) {
        let expected_ms = self.expected_ms();
        let HeldBy::Several(shares) = &mut self.held_by else { return };
        if let Some(share) = shares.iter_mut().find(|share| share.holder == holder) {
            let beats = share.beats.get_or_insert_with(|| Box::new(Beats::of_joined(0)));
            beats.push(at);
            beats.period_ms = cadence::period_ms(beats.given(None), expected_ms);
        }
    }
}
