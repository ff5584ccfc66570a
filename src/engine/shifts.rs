//! Tells what changed between two maps of a cluster beside failovers: nodes that joined or left, slots that moved.

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use crate::lock::{KeyspaceId, NodeId};
use crate::model::{Observation, ServerNews, SlotRange, What};
use crate::topology::{Map, MemberRole};

/// Slots that moved: the first and the last of each range, by the old and the new owner.
type Moves = BTreeMap<(NodeId, NodeId), Vec<(u16, u16)>>;

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
        let stays: BTreeSet<NodeId> = map.masters().map(|node| node.id).collect();
        for ((old, new), ranges) in moves(&before.slots, &map.slots, &stays) {
            let slots = ranges.iter().map(|(first, last)| last - first + 1).sum();
            let locks = self.table.held_in(KeyspaceId::FIRST, &ranges);
            news.push((new, ServerNews::SlotsMoved { from: name(old), to: name(new), slots, locks }));
        }
        let at = self.clock.now();
        for (node, news) in news {
            self.observe(Observation::Noted { node, at, what: What::Server(news) });
        }
    }
}

/// The slots that another node owns now, although the one that had them is still a master.
fn moves(before: &[SlotRange], after: &[SlotRange], stays: &BTreeSet<NodeId>) -> Moves {
    let mut moved = Moves::new();
    for (first, last, old) in before.iter().filter(|(.., old)| stays.contains(old)) {
        for (from, to, new) in after.iter().filter(|(.., new)| new != old) {
            let (from, to) = ((*from).max(*first), (*to).min(*last));
            if from <= to {
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
        let all = BTreeSet::from([a, b, c]);
        let told = moves(&before, &after, &all);
        assert_eq!(told, BTreeMap::from([((a, b), vec![(50, 59)]), ((c, a), vec![(200, 249)])]));
        assert_eq!(moves(&before, &before, &all), Moves::new());
        let promoted = [(0, 99, NodeId(7)), (100, 199, b), (200, 299, c)];
        assert_eq!(moves(&before, &promoted, &BTreeSet::from([NodeId(7), b, c])), Moves::new());
    }
}
