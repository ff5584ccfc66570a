//! What the current screen shows, composed from the table: pure.
//!
//! All locks are sorted again about once a second, but not shortly after a key press. A small table is sorted within a
//! frame; for a large one ([`App::is_ordering`]) the loop sorts a slice at a time between frames. Only the rows in
//! sight are decoded. So a frame costs the same for a hundred locks and for a hundred thousand.

mod behind;
mod changes;
mod contended;
mod groups;
mod narrowing;
mod node;
mod ordering;
mod others;
mod rank;
mod sorting;
mod trends;

use std::collections::BTreeSet;

use crate::app::timeline::TimelineScene;
use crate::app::{App, LockId, Overlay, Screen};
use crate::base::time::Time;
use crate::engine::NodeStatus;
use crate::filter::{Filter, Subject};
use crate::lock::NodeId;
use crate::model::{Lock, LockRef, LockView, Served, State, Table};

pub use behind::NamedBehind;
use changes::Changes;
pub use changes::Was;
pub use contended::Contended;
pub use groups::Groups;
use narrowing::{Asked, NextOrder};
pub use node::NodeScene;
pub use others::{OtherNode, Others};
use rank::Rank;
use sorting::{Portion, Sorted};
pub use trends::{CELLS, Trends};

/// At most this many locks are marked at once.
const MARKED: usize = 10_000;
/// A paused screen keeps at most this many locks.
const FROZEN: usize = 5_000;

#[derive(Default)]
pub struct Scene {
    pub at: Time,
    /// Rows in sight, starting at [`Scene::first`].
    pub rows: Vec<LockView>,
    /// How many rows of the list are above those in sight.
    pub first: usize,
    /// Rows of the list in all.
    pub listed: usize,
    /// Number of locks and markers that are there, regardless of the filter.
    pub total: usize,
    /// Locks that were lost, and are not listed because there are too many.
    pub lost_beyond: u64,
    /// The selected row, counted from the top of the list.
    pub cursor: Option<usize>,
    /// The lock that is opened, or selected.
    pub lock: Option<LockView>,
    pub counts: Vec<(State, usize)>,
    pub nodes: Vec<NodeScene>,
    /// Replicas and sentinels beside them.
    pub others: Others,
    /// What happened to them, the newest first.
    pub served: Vec<Served>,
    pub complete: bool,
    /// Rows per page, from the last size of the list.
    pub page: usize,
    /// How far the other screens and the help can be scrolled; set by the code that lays them out.
    pub scroll_most: usize,
    pub help_most: usize,
    /// Sort at once: the order changed.
    pub outdated: bool,
    /// Filter the sorted list at once: the filter changed.
    pub(super) refilter: bool,
    pub timeline: TimelineScene,
    /// The locks beside the one that is open.
    pub(super) beside: Beside,
    /// The groups, while they are listed.
    pub groups: Groups,
    /// The first locks behind the selected alert.
    pub behind: Option<NamedBehind>,
    /// The locks that are wanted, while the contention screen shows them.
    pub contended: Contended,
    /// What changed in the last seconds.
    changes: Changes,
    /// `order` has free locks like the others.
    lists_free: bool,
    order: Vec<LockRef>,
    /// All locks in order, if `order` is a part of them; `None` while neither is known.
    all: Option<Vec<LockRef>>,
    /// `order` has all locks.
    is_whole: bool,
    ordered_at: Time,
    /// The next order, while it is being sorted.
    next: Option<NextOrder>,
    portion: Portion,
    frozen: Option<Frozen>,
}

/// The locks before and after the one that is open, each with how far the selection has to move for it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub previous: Option<(LockId, isize)>,
    pub next: Option<(LockId, isize)>,
}

/// What a paused screen keeps showing.
struct Frozen {
    locks: Vec<LockView>,
    /// The rows of the list, as indices into `locks`.
    order: Vec<usize>,
}

impl App {
    /// Composes the scene for the current screen. `list_rows`: how many locks fit into the list.
    pub fn compose<'a>(
        &mut self,
        table: &Table,
        nodes: impl Iterator<Item = &'a NodeStatus> + Clone,
        now: Time,
        list_rows: usize,
    ) {
        self.scene.page = list_rows.max(1);
        if self.display.paused {
            self.freeze(table, now);
        } else {
            self.scene.frozen = None;
            self.scene.at = now;
            let in_servers = self.page.screen == Screen::Servers;
            let slots = |node| if in_servers { table.slots_of(node) } else { None };
            self.scene.see_nodes(nodes.clone(), slots, now);
            self.scene.served = table.timeline().servers().filter(|_| in_servers).cloned().collect();
            let short = |node: &NodeStatus| node.shortfall().is_some() || node.part().is_some();
            self.scene.lost_beyond = table.lost_beyond(now);
            self.scene.complete = table.is_complete() && !nodes.into_iter().any(short);
            self.scene.changes.read(table.timeline(), now);
            self.reorder(table, now);
        }
        self.select();
        // Rows that move up into sight may be forgotten too.
        while self.groups_by().is_none() && self.scene.leave_forgotten(table) {
            self.select();
        }
        self.mark_all(table);
        self.see_rows(table);
        self.see_beside(table);
        self.see_timeline(table, now);
        self.see_behind(table);
    }

    /// Finds the locks beside the open one. If that has left the list, the selected one stands where it was.
    fn see_beside(&mut self, table: &Table) {
        let (scene, selected) = (&self.scene, &self.list.selected);
        let id = |at: usize| match &scene.frozen {
            Some(frozen) => frozen.order.get(at).map(|index| LockId::of(&frozen.locks[*index])),
            None => {
                let lock = table.lock_at(*scene.order.get(at)?)?;
                Some(LockId { space: lock.space, key: lock.key.clone() })
            }
        };
        let is_listed = selected.is_some() && *selected == self.page.opened;
        let beside = scene.cursor.filter(|_| self.page.opened.is_some()).map(|cursor| Beside {
            previous: cursor.checked_sub(1).and_then(id).map(|id| (id, -1)),
            next: id(cursor + usize::from(is_listed)).map(|id| (id, isize::from(is_listed))),
        });
        self.scene.beside = beside.unwrap_or_default();
    }

    /// Marks all listed locks, if the user asked for it.
    fn mark_all(&mut self, table: &Table) {
        if !std::mem::take(&mut self.list.marks_all) {
            return;
        }
        let id = |lock: &Lock| LockId { space: lock.space, key: lock.key.clone() };
        self.list.marked = match &self.scene.frozen {
            Some(frozen) => frozen.order.iter().map(|index| LockId::of(&frozen.locks[*index])).collect(),
            None => {
                let locks = self.scene.order.iter().take(MARKED).filter_map(|place| table.lock_at(*place));
                locks.filter(|lock| lock.is_held()).map(id).collect()
            }
        };
    }

    /// Limits scrolling to the current layout of the screen and the help.
    pub fn bound_scrolling(&mut self, scroll_most: usize, help_most: usize) {
        (self.scene.scroll_most, self.scene.help_most) = (scroll_most, help_most);
        self.page.scroll = self.page.scroll.min(scroll_most);
        if let Overlay::Help { scroll } = &mut self.overlay {
            *scroll = (*scroll).min(help_most);
        }
    }

    /// A paused screen keeps the locks it had; they can still be filtered and sorted.
    fn freeze(&mut self, table: &Table, now: Time) {
        let scene = &mut self.scene;
        // An order that the user asked for before the pause is still made.
        scene.outdated |= scene.next.take().is_some_and(|next| next.by_hand) || std::mem::take(&mut scene.refilter);
        let frozen = scene.frozen.get_or_insert_with(|| {
            let view = |place: &LockRef| table.view(table.lock_at(*place)?, now);
            let mut locks: Vec<LockView> = scene.order.iter().filter_map(view).take(FROZEN).collect();
            let order = (0..locks.len()).collect();
            // The user may clear the filter later, so hidden locks are kept too.
            let listed: BTreeSet<&LockRef> = scene.order.iter().collect();
            let hidden = table.places_listed_in(0..table.slots(), now).filter(|(place, _)| !listed.contains(place));
            locks.extend(hidden.filter_map(|(place, _)| view(&place)).take(FROZEN - locks.len()));
            Frozen { locks, order }
        });
        if !std::mem::take(&mut scene.outdated) {
            return;
        }
        let asked = Asked::of(&self.list, self.page.screen);
        let (nodes, order, locks) = (&scene.nodes, self.list.order, &frozen.locks);
        let free = shows_free(asked.filter);
        let wanted = |lock: &LockView| match self.page.screen {
            Screen::Contention => lock.demand.is_any(),
            _ => free || lock.verdict.state != State::Free,
        };
        let shown = locks.iter().enumerate().filter(|(_, lock)| wanted(lock) && asked.passes(lock, nodes));
        let mut ranked: Vec<_> = shown.map(|(index, lock)| Rank::frozen(index, lock, order)).collect();
        ranked.sort_unstable_by(|a, b| a.compare(b, order, |index| Some((&locks[*index].key, locks[*index].space))));
        frozen.order = ranked.into_iter().map(|rank| rank.place).collect();
        if let Some(by) = asked.by {
            let listed = frozen.order.iter().map(|index| &locks[*index]);
            scene.groups.show(groups::of_views(listed, by), order);
            let selected = self.list.grouped.selected.as_ref();
            scene.cursor = selected.and_then(|name| scene.groups.position(name)).or(scene.cursor);
            return;
        }
        let wanted = self.list.wanted.take().or_else(|| self.list.selected.clone());
        let is_selected = |lock: &LockView| wanted.as_ref().is_some_and(|id| id.is(lock));
        let found = frozen.order.iter().position(|index| is_selected(&frozen.locks[*index]));
        scene.cursor = found.or(scene.cursor);
    }

    /// Whether the list shows such a lock, wherever it is scrolled to.
    pub(super) fn shows(&self, lock: &LockView) -> bool {
        let filter = self.list.filter.as_ref();
        let wanted = match self.page.screen {
            Screen::Contention => lock.demand.is_any(),
            _ => lock.verdict.state != State::Free || shows_free(filter),
        };
        wanted && self.asked().passes(lock, &self.scene.nodes)
    }

    /// What the list is made of.
    fn asked(&self) -> Asked<'_> {
        Asked::of(&self.list, self.page.screen)
    }

    /// Finds the selected lock in the new order; if it is gone, selects its neighbour.
    fn place_cursor(&mut self, table: &Table) {
        let to_top = std::mem::take(&mut self.list.to_top);
        if self.groups_by().is_some() {
            return self.place_cursor_on_group();
        }
        let scene = &mut self.scene;
        // Until the first key press the cursor stays on the worst lock.
        if self.touched == Time(0) {
            scene.cursor = scene.order.len().checked_sub(1).map(|_| 0);
            return;
        }
        let typed = match &self.overlay {
            Overlay::Filter(filtering) => Some(&filtering.before),
            _ => None,
        };
        let wanted = self.list.wanted.take().or_else(|| self.list.selected.clone());
        let selected = typed.map_or(&wanted, |before| &before.selected);
        let place = selected.as_ref().and_then(|id| table.place_named(id.space, id.key.as_bytes()));
        let found = place.and_then(|place| scene.order.iter().position(|other| *other == place));
        scene.cursor = match (found, scene.order.len()) {
            (_, 0) => None,
            _ if to_top => Some(0),
            (Some(at), _) => Some(at),
            // A filter is typed to find the worst that it matches.
            (None, _) if typed.is_some() => Some(0),
            (None, len) => Some(scene.cursor.unwrap_or(0).min(len - 1)),
        };
    }

    /// Moves the cursor as the keys asked, and keeps it in sight.
    fn select(&mut self) {
        let groups = self.groups_by().map(|_| self.scene.groups.all.len());
        let scene = &mut self.scene;
        let locks = || scene.frozen.as_ref().map_or(scene.order.len(), |frozen| frozen.order.len());
        scene.listed = groups.unwrap_or_else(locks);
        let Some(last) = scene.listed.checked_sub(1) else {
            (scene.cursor, scene.first, self.list.steps) = (None, 0, 0);
            return;
        };
        let cursor = scene.cursor.unwrap_or(0).min(last).saturating_add_signed(self.list.steps).min(last);
        self.list.steps = 0;
        scene.cursor = Some(cursor);
        scene.first = scene
            .first
            .min(cursor)
            .max((cursor + 1).saturating_sub(scene.page))
            .min((last + 1).saturating_sub(scene.page));
    }

    fn see_rows(&mut self, table: &Table) {
        if self.groups_by().is_some() {
            return self.see_groups(table);
        }
        self.scene.groups.worst = None;
        let scene = &mut self.scene;
        let (first, page, now) = (scene.first, scene.page, scene.at);
        let view = |lock| table.view(lock, now);
        scene.rows = match &scene.frozen {
            Some(frozen) => {
                frozen.order.iter().skip(first).take(page).map(|index| frozen.locks[*index].clone()).collect()
            }
            None => {
                let places = scene.order.iter().skip(first).take(page);
                places.filter_map(|place| view(table.lock_at(*place)?)).collect()
            }
        };
        let row = scene.cursor.and_then(|cursor| scene.rows.get(cursor - first));
        self.list.selected = row.map(LockId::of);
        scene.lock = match &self.page.opened {
            Some(id) => match &scene.frozen {
                Some(frozen) => frozen.locks.iter().find(|lock| id.is(lock)).cloned(),
                None => table.lock_named(id.space, id.key.as_bytes()).and_then(view),
            }
            .or(scene.lock.take().filter(|lock| id.is(lock))),
            None => row.cloned(),
        };
    }
}

impl Scene {
    /// Takes over the counts of a sort; returns the sorted locks.
    fn count(&mut self, sorted: Sorted) -> Vec<LockRef> {
        self.total = sorted.total;
        self.counts = State::ALL.into_iter().map(|state| (state, sorted.counts[state as usize])).collect();
        sorted.places
    }

    fn see_nodes<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a NodeStatus>,
        slots: impl Fn(NodeId) -> Option<usize>,
        now: Time,
    ) {
        let before = std::mem::take(&mut self.nodes);
        let known = |node: &NodeStatus| before.iter().find(|known| known.id == node.id);
        self.nodes = nodes.map(|node| NodeScene::of(node, slots(node.id), known(node), now)).collect();
    }

    /// Removes locks in sight that the table has forgotten; the others keep their order. Returns whether any was
    /// removed.
    fn leave_forgotten(&mut self, table: &Table) -> bool {
        let known = |place: &LockRef| table.lock_at(*place).is_some_and(|lock| lock.reading().is_some());
        let rest = self.order.get(self.first..).unwrap_or_default();
        if self.frozen.is_some() || rest.iter().take(self.page).all(known) {
            return false;
        }
        let above = self.cursor.unwrap_or(0).saturating_sub(self.first);
        self.cursor = Some(self.first + rest.iter().take(above).filter(|place| known(place)).count());
        let mut through = 0;
        let kept = rest.iter().inspect(|_| through += 1).filter(|place| known(place)).take(self.page);
        let kept: Vec<LockRef> = kept.copied().collect();
        self.order.splice(self.first..self.first + through, kept);
        true
    }

    /// What the lock was, if it changed in the last seconds.
    pub fn was(&self, lock: &LockView) -> Option<Was> {
        self.changes.of(lock, self.at)
    }

    /// Whether anything that is shown counts down, or leaves, by itself.
    pub fn moves(&self) -> bool {
        let leaves = !self.changes.is_empty() || self.rows.iter().any(|lock| lock.verdict.state == State::Free);
        leaves
            || self.rows.iter().chain(&self.lock).any(|lock| lock.ttl.remaining().is_some() || lock.held_ms.is_some())
    }
}

/// Whether free locks are listed: only if somebody asks for them.
pub fn shows_free(filter: Option<&Filter>) -> bool {
    filter.is_some_and(|filter| filter.names_state(State::Free))
}

fn passes(filter: Option<&Filter>, lock: &LockView, nodes: &[NodeScene]) -> bool {
    let Some(filter) = filter else { return true };
    let subject = Subject::from(lock);
    match nodes.iter().find(|node| node.id == lock.node) {
        Some(node) => filter.matches(&subject.on_node(&node.name)),
        None => filter.matches(&subject),
    }
}

#[cfg(test)]
mod tests;
