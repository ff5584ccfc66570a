//! The nodes of a cluster or Sentinel service that own no key: replicas, and masters that were replaced.
//!
//! No lock is read there, so they have no driver. Each has a task that asks it every second how it stands, for the Servers
//! screen. One that says that it is a master of what another owns by the map is deposed: what it has is read too, and goes
//! to the table as evidence (`model/deposed.rs`). A replica that is promoted says so before the sentinels do, and is given
//! time to be named.

mod attend;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::{Engine, Options};
use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, NodeId};
use crate::model::{Fall, Observation, OfDeposed, Reign, Succession};
use crate::server::{Role, ServerFacts};
use crate::topology::{Council, Map, Node};

use attend::{Post, Said};

/// Words of all of them that may wait.
const INBOX: usize = 256;
/// More of them are not asked.
const MOST: usize = 128;
/// A master that was never the owner is believed to be one against the map after this long.
const UNNAMED: Duration = Duration::from_secs(3);
/// A deposed master that does not answer for this long is gone.
const GONE: Duration = Duration::from_secs(10);
/// Keys of the table that are looked at on a deposed master.
const KEYS: usize = 4_096;

/// One of them.
pub struct Bystander {
    pub id: NodeId,
    pub name: String,
    /// As it last said; `None`: it did not answer yet.
    pub role: Option<Role>,
    /// Its facts, asked less often.
    pub facts: Option<Box<ServerFacts>>,
    /// Why it does not answer; `None`: it does.
    pub silent: Option<String>,
    /// It says that it is a master, although another one has its place.
    pub reigns: bool,
    answered: Time,
    /// Since when it says so.
    claims: Option<Time>,
    keys: watch::Sender<Vec<Key>>,
    task: AbortHandle,
}

pub(super) struct Bystanders {
    known: BTreeMap<NodeId, Bystander>,
    /// The nodes whose place another took, and the epoch by which they had it.
    fallen: BTreeMap<NodeId, u64>,
    tasks: JoinSet<()>,
    out: mpsc::Sender<(NodeId, Said)>,
    inbox: mpsc::Receiver<(NodeId, Said)>,
}

impl Bystanders {
    pub fn new() -> Bystanders {
        let (out, inbox) = mpsc::channel(INBOX);
        Bystanders { known: BTreeMap::new(), fallen: BTreeMap::new(), tasks: JoinSet::new(), out, inbox }
    }

    /// What one of them says next. A task's panic is passed on.
    pub async fn next(&mut self) -> (NodeId, Said) {
        loop {
            tokio::select! {
                Some(Err(failed)) = self.tasks.join_next() => {
                    if let Ok(panic) = failed.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
                said = self.inbox.recv() => match said {
                    Some(said) => return said,
                    None => std::future::pending().await,
                },
            }
        }
    }

    fn attend(&mut self, node: &Node, clustered: bool, options: &Options, clock: Clock) {
        if self.known.len() >= MOST || self.known.contains_key(&node.id) {
            return;
        }
        let (keys, wanted) = watch::channel(Vec::new());
        let (recogniser, out) = (options.recogniser.clone(), self.out.clone());
        let post = Post { node: node.clone(), clustered, recogniser, clock, wanted, out };
        let task = self.tasks.spawn(attend::run(post));
        let (id, name, answered) = (node.id, node.name.clone(), clock.now());
        let (role, facts, silent, reigns, claims) = (None, None, None, false, None);
        self.known.insert(id, Bystander { id, name, role, facts, silent, reigns, answered, claims, keys, task });
    }

    /// Leaves it alone; returns whether it was deposed.
    fn dismiss(&mut self, id: NodeId) -> bool {
        let Some(known) = self.known.remove(&id) else { return false };
        known.task.abort();
        known.reigns
    }
}

impl Engine {
    /// The nodes that own no key, in the order of their ids. Only those of a target that is followed are known.
    pub fn bystanders(&self) -> impl ExactSizeIterator<Item = &Bystander> + Clone {
        self.bystanders.known.values()
    }

    /// The sentinels of the service; `None`: it is none.
    pub fn council(&self) -> Option<Council> {
        self.atlas.as_ref()?.council()
    }

    /// The map has changed, or is known now: attends to those that own nothing by it.
    pub(super) fn attend(&mut self, before: &Map) {
        let Some(atlas) = self.atlas.as_ref().filter(|_| self.options.follow) else { return };
        let (map, clustered) = (atlas.map.clone(), atlas.is_cluster());
        for failover in map.failovers(before) {
            let reign = before.members.iter().find(|member| member.node.id == failover.from);
            self.bystanders.fallen.insert(failover.from, reign.map_or(before.epoch, |member| member.epoch));
        }
        let owners: BTreeSet<NodeId> = map.slots.iter().map(|(.., owner)| *owner).collect();
        for owner in &owners {
            self.bystanders.fallen.remove(owner);
            if self.bystanders.dismiss(*owner) {
                self.end_reign(*owner, Fall::Restored);
            }
        }
        // One that was just replaced need not be in the new map yet.
        let fallen = before.members.iter().filter(|member| self.bystanders.fallen.contains_key(&member.node.id));
        let others = map.members.iter().chain(fallen).filter(|member| !owners.contains(&member.node.id));
        let others: Vec<Node> = others.map(|member| member.node.clone()).collect();
        for node in &others {
            self.bystanders.attend(node, clustered, &self.options, self.clock);
        }
        let stays = |known: &Bystander| known.reigns || others.iter().any(|node| node.id == known.id);
        let leaves: Vec<NodeId> = self.bystanders().filter(|known| !stays(known)).map(|known| known.id).collect();
        for id in leaves {
            self.bystanders.dismiss(id);
        }
    }

    /// Takes in what one of them says. Returns whether a reader may see a change.
    pub(super) fn heed(&mut self, node: NodeId, said: Said) -> bool {
        let now = self.clock.now();
        let Some(known) = self.bystanders.known.get_mut(&node) else { return false };
        match said {
            Said::Stands(role) => {
                let changed = known.role != role || known.silent.is_some();
                (known.role, known.silent, known.answered) = (role, None, now);
                changed
            }
            Said::Facts(facts) => {
                known.facts = Some(facts);
                true
            }
            Said::Silent(why) => {
                let changed = known.silent.replace(why).is_none();
                if known.reigns && now.since(known.answered) >= GONE {
                    (known.reigns, known.claims) = (false, None);
                    self.end_reign(node, Fall::Gone);
                }
                changed
            }
            Said::Reigns { epoch, slots, first } => {
                let since = *known.claims.get_or_insert(now);
                if known.reigns && !first {
                    return false;
                }
                let Some(succession) = self.succession(node, epoch, &slots, now.since(since)) else { return false };
                let told = OfDeposed::Reigns { succession: Box::new(succession), at: now };
                self.bystanders.known.get_mut(&node).into_iter().for_each(|known| known.reigns = true);
                self.observe(Observation::Deposed { node, told });
                self.name_keys();
                true
            }
            Said::Bows => {
                known.claims = None;
                if std::mem::take(&mut known.reigns) {
                    self.end_reign(node, Fall::Demoted);
                }
                true
            }
            Said::Has(page) => {
                let reigns = known.reigns;
                page.into_iter().filter(|_| reigns).for_each(|told| self.observe(Observation::Deposed { node, told }));
                reigns
            }
        }
    }

    fn end_reign(&mut self, node: NodeId, fall: Fall) {
        let told = OfDeposed::Ended { fall, at: self.clock.now() };
        self.observe(Observation::Deposed { node, told });
    }

    /// Who has the place of a node that says that it is a master; `None`: nobody, or that is not certain yet.
    fn succession(
        &self,
        node: NodeId,
        epoch: Option<u64>,
        slots: &[(u16, u16)],
        claimed_for: Duration,
    ) -> Option<Succession> {
        let atlas = self.atlas.as_ref()?;
        let old = self.bystanders.known.get(&node)?;
        let contested = |(first, last, _): &&(u16, u16, NodeId)| slots.iter().any(|(a, b)| a <= last && b >= first);
        let (.., heir) = *atlas.map.slots.iter().find(contested)?;
        let heir = atlas.map.members.iter().find(|member| member.node.id == heir)?;
        let fallen = self.bystanders.fallen.get(&node).copied();
        let is_older = match epoch {
            // Who has the newer epoch is right, and the map is late.
            Some(epoch) => epoch < heir.epoch,
            None => fallen.is_some() || claimed_for >= UNNAMED,
        };
        is_older.then(|| {
            let old = Reign { name: old.name.clone(), epoch: epoch.or(fallen) };
            let new = Reign { name: heir.node.name.clone(), epoch: Some(heir.epoch) };
            Succession { space: KeyspaceId::FIRST, old, new }
        })
    }

    /// Names the keys to look at on deposed masters: those that are held where they are.
    pub(super) fn name_keys(&mut self) {
        if !self.bystanders().any(|known| known.reigns) {
            return;
        }
        let keys: Vec<Key> = self.table.locks().take(KEYS).map(|lock| lock.key.clone()).collect();
        for known in self.bystanders.known.values().filter(|known| known.reigns) {
            known.keys.send_if_modified(|named| {
                let differs = *named != keys;
                if differs {
                    named.clone_from(&keys);
                }
                differs
            });
        }
    }
}
