//! What stands beside the nodes that are read: replicas, deposed masters, and the sentinels of a service.

use crate::engine::{Bystander, Engine};
use crate::server::health::{self, Check};
use crate::server::{ClockOffset, Role};
use crate::topology::Council;

/// Those of the target, as they last answered.
#[derive(Clone, Debug, Default)]
pub struct Others {
    pub nodes: Vec<OtherNode>,
    /// The sentinels; `None`: it is no service.
    pub council: Option<Council>,
}

/// A node that owns no key.
#[derive(Clone, Debug)]
pub struct OtherNode {
    pub name: String,
    pub role: Option<Role>,
    pub clock: Option<ClockOffset>,
    /// Why it does not answer.
    pub silent: Option<String>,
    /// It says that it is a master, although another one has its place.
    pub reigns: bool,
    /// What matters there if it takes over.
    pub checks: Vec<Check>,
}

impl Others {
    /// `all`: the nodes too, and not the sentinels alone.
    pub fn of(engine: &Engine, all: bool) -> Others {
        // A master without slots is read like the others.
        let is_read = |known: &&Bystander| engine.node(known.id).is_none() || known.reigns;
        let nodes = engine.bystanders().filter(|_| all).filter(is_read).map(OtherNode::of).collect();
        Others { nodes, council: engine.council() }
    }

    /// Whether a master that fails would be replaced; `None`: it is no service.
    pub fn sentinels(&self) -> Option<Check> {
        self.council.as_ref().map(health::sentinels)
    }
}

impl OtherNode {
    fn of(known: &Bystander) -> OtherNode {
        OtherNode {
            name: known.name.clone(),
            role: known.role.clone(),
            clock: known.facts.as_ref().and_then(|facts| facts.clock.known().copied()),
            silent: known.silent.clone(),
            reigns: known.reigns,
            checks: known.facts.as_ref().map(|facts| health::replica(facts)).unwrap_or_default(),
        }
    }
}
