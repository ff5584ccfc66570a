//! What changed between two maps of a cluster beside failovers: nodes that joined or left, slots that moved.

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use crate::lock::NodeId;
use crate::model::{Observation, ServerNews, SlotRange, What};
use crate::topology::{Map, MemberRole};

/// Slots that moved: the first and the last of each range, by the old and the new owner.
pub(super) type Moves = BTreeMap<(NodeId, NodeId), Vec<(u16, u16)>>;

impl Engine {
    pub(super) fn tell_shifts(&mut self, before: &Map, map: &Map) {
        let ids = |map: &Map| -> BTreeSet<NodeId> { map.members.iter().map(|member| member.node.id).collect() };
        let (had, has) = (ids(before), ids(map));
        let name = |id: NodeId| {
            let mut members = map.members.iter().chain(&before.members);
            members.find(|member| member.node.id == id).map(|member| member.node.name.clone()).unwrap_or_default()
        };
        // Told by a node that is there: the one that it is about may be gone, or not watched.
        let Some(witness) = map.masters().next().map(|node| node.id) else { return };
        let mut news: Vec<(NodeId, ServerNews)> = Vec::new();
        for member in map.members.iter().filter(|member| !had.contains(&member.node.id)) {
            let replica = member.role != MemberRole::Master;
            news.push((witness, ServerNews::Joined { name: member.node.name.clone(), replica }));
        }
        for id in had.difference(&has) {
            news.push((witness, ServerNews::Left { name: name(*id) }));
        }
        let at = self.clock.now();
        for (node, news) in news {
            self.observe(Observation::Noted { node, at, what: What::Server(news) });
        }
    }
}

/// The slots that another node owns now, as far as that is a move and no failover.
pub(super) fn moves(before: &[SlotRange], after: &[SlotRange], is_move: impl Fn(NodeId, NodeId) -> bool) -> Moves {
    let mut moved = Moves::new();
    for (first, last, old) in before {
        for (from, to, new) in after.iter().filter(|(.., new)| new != old) {
            let (from, to) = ((*from).max(*first), (*to).min(*last));
            if from <= to && is_move(*old, *new) {
                moved.entry((*old, *new)).or_default().push((from, to));
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_moved_are_told_by_pair_and_a_failover_is_not_a_move() {
        let [a, b, c] = [0, 1, 2].map(NodeId);
        let before = [(0, 99, a), (100, 199, b), (200, 299, c)];
        let after = [(0, 49, a), (50, 59, b), (60, 99, a), (100, 199, b), (200, 249, a), (250, 299, c)];
        let told = moves(&before, &after, |_, _| true);
        assert_eq!(told, BTreeMap::from([((a, b), vec![(50, 59)]), ((c, a), vec![(200, 249)])]));
        assert_eq!(moves(&before, &before, |_, _| true), Moves::new());
        let promoted = [(0, 99, NodeId(7)), (100, 199, b), (200, 299, c)];
        assert_eq!(moves(&before, &promoted, |old, _| old != a), Moves::new());
    }
}
