//! The engine of a cluster: follows the map as nodes come and go and slots move.
//!
//! Each master has its driver. A new master joins before the table learns what it owns, and one that owns nothing more
//! leaves after that, so that no lock is without a node in between. The task that keeps the map runs with the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::driver::Driver;
use super::{Engine, Inventory};
use crate::lock::{Key, KeyspaceId, NodeId};
use crate::model::{Observation, What};
use crate::topology::{Cluster, Map, Node};

/// How long an inventory waits for keys that were not where they were met.
const CHASE: Duration = Duration::from_secs(5);

/// The cluster and the map that the engine goes by.
pub(super) struct Atlas {
    cluster: Arc<Cluster>,
    map: Arc<Map>,
    changes: watch::Receiver<Arc<Map>>,
    keeper: JoinSet<()>,
}

impl Atlas {
    pub fn open(cluster: &Arc<Cluster>) -> Atlas {
        let (cluster, mut changes, mut keeper) = (cluster.clone(), cluster.changes(), JoinSet::new());
        let map = changes.borrow_and_update().clone();
        let kept = cluster.clone();
        keeper.spawn(async move { kept.keep().await });
        Atlas { cluster, map, changes, keeper }
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

    /// Why locks may be missing: nobody serves some of the slots.
    pub fn unowned(&self) -> Option<String> {
        let slots = self.cluster.map().unowned();
        (slots > 0).then(|| format!("{slots} slots of the cluster have no node; see CLUSTER INFO on one of its nodes"))
    }
}

impl Engine {
    /// Tells the table who owns which slots.
    pub(super) fn take_owners(&mut self) {
        if let Some(atlas) = &self.atlas {
            let (space, slots) = (KeyspaceId::FIRST, atlas.map.slots.clone());
            self.observe(Observation::Owners { space, slots, at: self.clock.now() });
        }
    }

    /// The map has changed.
    pub(super) fn follow_map(&mut self) {
        let Some(atlas) = &mut self.atlas else { return };
        let map = atlas.changes.borrow_and_update().clone();
        let before = std::mem::replace(&mut atlas.map, map.clone());
        let nodes = atlas.nodes();
        for node in nodes.iter().filter(|node| !self.drivers.contains_key(&node.id)).collect::<Vec<_>>() {
            self.join(node);
        }
        self.take_owners();
        let stays: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
        let leaves: Vec<NodeId> = self.drivers.keys().copied().filter(|id| !stays.contains(id)).collect();
        leaves.into_iter().for_each(|id| self.leave(id));
        for (node, from, to, slots) in map.failovers(&before) {
            let (at, what) = (self.clock.now(), What::Failover { from, to, slots });
            self.observe(Observation::Noted { node, at, what });
        }
        self.tell_shifts(&before, &map);
        // What came with the slots may have been missed there, and in the walk of the node that had them.
        for id in map.gainers(&before) {
            self.drivers.get_mut(&id).into_iter().for_each(Driver::scan);
        }
        self.readers.wake();
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
