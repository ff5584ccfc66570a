//! The engine of a cluster or Sentinel service: follows the map as nodes come and go and slots move.
//!
//! Each master has its driver. A new master joins before the table learns what it owns, and one that owns nothing more
//! leaves after that, so that no lock is without a node in between. The task that keeps the map runs with the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::driver::Driver;
use super::shifts::{Moves, moves};
use super::{Engine, Inventory};
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, NodeId};
use crate::model::{Observation, ServerNews, What};
use crate::topology::{Council, Failover, Map, Node, Shared};

/// How long an inventory waits for keys that were not where they were met.
const CHASE: Duration = Duration::from_secs(5);
/// Slots move one after the other: they are told together when no more have moved for this long.
const TOGETHER: Duration = Duration::from_secs(1);
/// At most this many ranges are told together.
const MOST: usize = 1_024;

/// The cluster or service, and the map that the engine goes by.
pub(super) struct Atlas {
    pub shared: Shared,
    pub map: Arc<Map>,
    changes: watch::Receiver<Arc<Map>>,
    keeper: JoinSet<()>,
    /// Slots that moved and were not told yet, and when the last of them did.
    moving: Moves,
    moved_last: Time,
}

impl Atlas {
    pub fn open(shared: &Shared) -> Atlas {
        let (shared, mut changes, mut keeper) = (shared.clone(), shared.changes(), JoinSet::new());
        let map = changes.borrow_and_update().clone();
        let kept = shared.clone();
        keeper.spawn(async move { kept.keep().await });
        Atlas { shared, map, changes, keeper, moving: Moves::new(), moved_last: Time::default() }
    }

    /// The nodes to drive.
    pub fn nodes(&self) -> Vec<Node> {
        self.map.masters().cloned().collect()
    }

    /// Waits for a new map. A panic of its keeper is passed on.
    pub async fn changed(atlas: &mut Option<Atlas>) {
        let Some(atlas) = atlas else { return std::future::pending().await };
        tokio::select! {
            changed = atlas.changes.changed() => {
                if changed.is_err() {
                    std::future::pending().await
                }
            }
            Some(Err(failed)) = atlas.keeper.join_next() => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Notes the slots that went from one master to another.
    fn note_moves(&mut self, before: &Map, now: Time) {
        let is_move = |old, new| !self.map.replaces(before, old, new);
        for (way, ranges) in moves(&before.slots, &self.map.slots, is_move) {
            self.moving.entry(way).or_default().extend(ranges);
            self.moved_last = now;
        }
    }

    /// The moves, once they are over or too many to wait for more.
    fn moved(&mut self, now: Time) -> Moves {
        let many = || self.moving.values().map(Vec::len).sum::<usize>() >= MOST;
        let is_over = now.since(self.moved_last) >= TOGETHER || many();
        if is_over { std::mem::take(&mut self.moving) } else { Moves::new() }
    }

    /// The sentinels that watch it; `None`: it is a cluster.
    pub fn council(&self) -> Option<Council> {
        match &self.shared {
            Shared::Service(service) => Some(service.council()),
            Shared::Cluster(_) => None,
        }
    }

    /// It is a cluster, and no Sentinel service.
    pub fn is_cluster(&self) -> bool {
        matches!(self.shared, Shared::Cluster(_))
    }

    fn name_of(&self, id: NodeId) -> String {
        let member = self.map.members.iter().find(|member| member.node.id == id);
        member.map_or_else(|| "a node that left".to_string(), |member| member.node.name.clone())
    }

    /// Why locks may be missing: nobody serves some of the slots.
    pub fn unowned(&self) -> Option<String> {
        let slots = self.shared.map().unowned();
        (slots > 0).then(|| format!("{slots} slots of the cluster have no node; see CLUSTER INFO on one of its nodes"))
    }
}

impl Engine {
    /// Tells the table who owns which slots.
    pub(super) fn take_owners(&mut self, at: Time) {
        if let Some(atlas) = &self.atlas {
            let (space, slots) = (KeyspaceId::FIRST, atlas.map.slots.clone());
            self.observe(Observation::Owners { space, slots, at });
        }
    }

    /// The map has changed.
    pub(super) fn follow_map(&mut self) {
        let Some(atlas) = &mut self.atlas else { return };
        let map = atlas.changes.borrow_and_update().clone();
        let before = std::mem::replace(&mut atlas.map, map.clone());
        atlas.note_moves(&before, self.clock.now());
        let clustered = atlas.is_cluster();
        let nodes = atlas.nodes();
        for node in nodes.iter().filter(|node| !self.drivers.contains_key(&node.id)).collect::<Vec<_>>() {
            self.join(node);
        }
        let at = self.clock.now();
        let failovers = map.failovers(&before);
        self.role_changes += failovers.len() as u64;
        for Failover { from, to, .. } in &failovers {
            let trail = self.drivers.get(from).map(|driver| driver.trail.clone());
            self.drivers
                .get_mut(to)
                .into_iter()
                .for_each(|driver| driver.former = Some(trail.clone().unwrap_or_default()));
            self.observe(Observation::TookOver { node: *to, at });
        }
        self.take_owners(at);
        self.attend(&before);
        let stays: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
        let leaves: Vec<NodeId> = self.drivers.keys().copied().filter(|id| !stays.contains(id)).collect();
        leaves.into_iter().for_each(|id| self.leave(id));
        for Failover { to, names: (old, new), slots, .. } in failovers {
            let what = What::Failover { from: old, to: new, slots };
            self.observe(Observation::Noted { node: to, at, what });
        }
        // A replaced master of a Sentinel service is missing from the map and comes again: nothing left, nothing joined.
        if clustered {
            self.tell_shifts(&before, &map);
        }
        // What came with the slots may have been missed there, and in the walk of the node that had them.
        for id in map.gainers(&before) {
            self.drivers.get_mut(&id).into_iter().for_each(Driver::scan);
        }
        self.tell_unserved();
        self.readers.wake();
    }

    /// Each node knows why its cluster may be down.
    pub(super) fn tell_unserved(&mut self) {
        let why = self.atlas.as_ref().and_then(|atlas| atlas.map.unserved());
        self.drivers.values_mut().for_each(|driver| driver.status.unserved = why.clone());
    }

    /// Tells which slots have moved, with the locks that are held in them.
    pub(super) fn tell_moves(&mut self) {
        let Some(atlas) = &mut self.atlas else { return };
        let (at, mut news) = (self.clock.now(), Vec::new());
        for ((old, new), ranges) in atlas.moved(at) {
            let slots = ranges.iter().map(|(first, last)| last - first + 1).sum();
            let locks = self.table.held_in(KeyspaceId::FIRST, &ranges);
            let (from, to) = (atlas.name_of(old), atlas.name_of(new));
            let what = What::Server(ServerNews::SlotsMoved { from, to, slots, locks });
            news.push((new, what));
        }
        for (node, what) in news {
            self.observe(Observation::Noted { node, at, what });
        }
    }

    /// What a node has to look for: named keys only where they are.
    pub(super) fn inventory_of(&self, node: &Node) -> Inventory {
        match (&self.options.inventory, &self.atlas) {
            (Inventory::Keys(keys), Some(atlas)) => {
                let here = |key: &&Key| atlas.map.owner(key).is_none_or(|owner| owner.id == node.id);
                Inventory::Keys(keys.iter().filter(here).cloned().collect())
            }
            (inventory, _) => inventory.clone(),
        }
    }

    /// Keys that were not where a walk met them are still being read. Only for an inventory: who follows sees them anyway.
    pub(super) fn is_chasing(&self) -> bool {
        let chases = |driver: &Driver| driver.status.under_way || driver.looks.under_way;
        let waits = || self.table.waiting() > 0 || self.table.is_putting_off() || self.drivers.values().any(chases);
        let walked = self.nodes().filter_map(|node| Some(node.scan.as_ref()?.finished)).max();
        let lately = || walked.is_some_and(|at| self.clock.now().since(at) < CHASE);
        self.atlas.is_some() && !self.options.follow && waits() && lately()
    }
}
