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

/// The holders of a lock.
#[derive(Debug)]
pub(super) enum HeldBy {
    /// Or somebody whom its value does not name.
    Nobody,
    One(InstanceId),
    Several(Box<Shares>),
}

/// Each of several holders. Few locks have them, so the pointer to them is thin.
#[derive(Debug)]
pub(super) struct Shares(Box<[Share]>);

impl Shares {
    fn share(&mut self, holder: HolderId) -> Option<&mut Share> {
        self.0.iter_mut().find(|share| share.holder == holder)
    }
}

/// One holder of several.
#[derive(Debug)]
pub(super) struct Share {
    holder: HolderId,
    pub instance: InstanceId,
    /// The renewals that are known to be this holder's.
    pub beats: Option<Box<Beats>>,
}

/// At most this many holders of one lock are kept apart.
const MOST: usize = 256;

impl HeldBy {
    pub fn of(holders: &[Holder], node: NodeId, clients: &Clients) -> HeldBy {
        match holders {
            [] => HeldBy::Nobody,
            [one] => HeldBy::One(clients.instance_of(node, one)),
            several => {
                let share = |holder: &Holder| Share {
                    holder: clients.holder_id(&holder.token),
                    instance: clients.instance_of(node, holder),
                    beats: None,
                };
                HeldBy::Several(Box::new(Shares(several.iter().take(MOST).map(share).collect())))
            }
        }
    }

    /// The only holder's instance.
    pub fn one(&self) -> Option<InstanceId> {
        match self {
            HeldBy::One(instance) => Some(*instance),
            HeldBy::Nobody | HeldBy::Several(_) => None,
        }
    }

    pub fn shares(&self) -> &[Share] {
        match self {
            HeldBy::Several(shares) => &shares.0,
            HeldBy::Nobody | HeldBy::One(_) => &[],
        }
    }

    pub fn instances(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.one().into_iter().chain(self.shares().iter().map(|share| share.instance))
    }

    /// The renewals of each of several holders.
    pub fn beats_mut(&mut self) -> impl Iterator<Item = &mut Beats> {
        let shares = match self {
            HeldBy::Several(shares) => &mut shares.0[..],
            HeldBy::Nobody | HeldBy::One(_) => &mut [],
        };
        shares.iter_mut().filter_map(|share| share.beats.as_deref_mut())
    }

    /// The share of one holder of several.
    pub fn share(&self, holder: HolderId) -> Option<&Share> {
        self.shares().iter().find(|share| share.holder == holder)
    }
}

impl Lock {
    /// Takes in who holds it now; `alone` is who held it alone before several do, or does now after several did. A
    /// holder that stays keeps its renewals; renewals of holders that were seen together belong to nobody.
    pub(super) fn keep_holders(&mut self, mut now: HeldBy, alone: Option<HolderId>) {
        match (&mut self.held_by, &mut now) {
            (HeldBy::One(_), HeldBy::Several(shares)) => {
                if let Some(share) = alone.and_then(|holder| shares.share(holder)) {
                    share.beats = self.beats.clone();
                }
            }
            (HeldBy::Several(before), HeldBy::Several(shares)) => {
                for share in shares.0.iter_mut() {
                    share.beats = before.share(share.holder).and_then(|known| known.beats.take());
                }
            }
            (HeldBy::Several(before), HeldBy::One(_)) => {
                if let Some(known) = alone.and_then(|holder| before.share(holder)) {
                    let count = self.beats.as_ref().map_or(0, |beats| beats.count);
                    let of_all = || (count > 0).then(|| Box::new(Beats::of_joined(count)));
                    self.beats = known.beats.take().or_else(of_all);
                }
            }
            _ => {}
        }
        self.held_by = now;
    }

    /// We took this holder out, and others hold it on: its renewals are kept, in case it is put back.
    pub(super) fn part(&mut self, holder: HolderId, at: Time) {
        let HeldBy::Several(shares) = &mut self.held_by else { return };
        if let Some(mut beats) = shares.share(holder).and_then(|share| share.beats.take()) {
            let missed = beats.rhythm(at).map_or(0, |rhythm| rhythm.missed);
            beats.pause(at, missed);
            self.ours.get_or_insert_default().part(holder, beats);
        }
    }

    /// We put this holder back beside others.
    pub(super) fn rejoin(&mut self, holder: HolderId, at: Time) {
        let Some(mut beats) = self.ours.as_mut().and_then(|ours| ours.rejoin(holder)) else { return };
        let HeldBy::Several(shares) = &mut self.held_by else { return };
        if let Some(share) = shares.share(holder) {
            beats.resume(at);
            share.beats = Some(beats);
        }
    }

    /// It goes on after a failover at that time, with the holders that it had.
    pub(super) fn outlives(&mut self, failover: Time) {
        self.beats.iter_mut().for_each(|beats| beats.outlives(failover));
        self.held_by.beats_mut().for_each(|beats| beats.outlives(failover));
    }

    /// It goes on after its server answered for no key from then to then.
    pub(super) fn outlasts(&mut self, began: Time, ended: Time) {
        self.beats.iter_mut().for_each(|beats| beats.outlasts(began, ended));
        self.held_by.beats_mut().for_each(|beats| beats.outlasts(began, ended));
    }

    /// One of several holders renewed it, or the one who is left of them, while the others left.
    pub(super) fn beat(&mut self, holder: HolderId, alone: Option<HolderId>, at: Time) {
        let expected_ms = self.expected_ms();
        let HeldBy::Several(shares) = &mut self.held_by else {
            if alone == Some(holder) {
                self.beats.get_or_insert_default().push(at);
            }
            return;
        };
        if let Some(share) = shares.share(holder) {
            let beats = share.beats.get_or_insert_with(|| Box::new(Beats::of_joined(0)));
            beats.push(at);
            beats.period_ms = cadence::period_ms(beats.given(None), expected_ms);
        }
    }
}
