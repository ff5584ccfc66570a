//! What the current screen shows, composed from the table: pure.
//!
//! All locks are sorted again about once a second, but not shortly after a key press. A small table is sorted within a
//! frame; for a large one ([`App::is_ordering`]) the loop sorts a slice at a time between frames. Only the rows in
//! sight are decoded. So a frame costs the same for a hundred locks and for a hundred thousand.

mod contended;
mod node;
mod rank;
mod sorting;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::app::{App, LockId, Overlay, Screen};
use crate::base::time::Time;
use crate::engine::NodeStatus;
use crate::filter::{Filter, Subject};
use crate::model::{Lock, LockRef, LockView, State, Table};

pub use contended::Contended;
pub use node::NodeScene;
use rank::Rank;
use sorting::{Portion, Sorted, Sorting};

/// Time between two sorts (longer with very many locks), and how long rows stay in place after a key.
const REORDER: Duration = Duration::from_millis(1_000);
const REORDER_PER_LOCK: Duration = Duration::from_micros(5);
const STAND_STILL: Duration = Duration::from_millis(1_500);
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
    /// Number of locks and markers, regardless of the filter.
    pub total: usize,
    /// The selected row, counted from the top of the list.
    pub cursor: Option<usize>,
    /// The lock that is opened, or selected.
    pub lock: Option<LockView>,
    pub counts: Vec<(State, usize)>,
    pub nodes: Vec<NodeScene>,
    pub complete: bool,
    /// Rows per page, from the last size of the list.
    pub page: usize,
    /// How far the other screens and the help can be scrolled; set by the code that lays them out.
    pub scroll_most: usize,
    pub help_most: usize,
    /// Sort at once: the order or the filter changed.
    pub outdated: bool,
    /// The locks that are wanted, while the contention screen shows them.
    pub contended: Contended,
    order: Vec<LockRef>,
    ordered_at: Time,
    /// The next order, while it is being sorted.
    next: Option<NextOrder>,
    portion: Portion,
    frozen: Option<Frozen>,
}

struct NextOrder {
    sorting: Sorting,
    /// The user asked for it, so key presses do not cancel it.
    by_hand: bool,
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
            self.scene.see_nodes(nodes.clone(), now);
            let short = |node: &NodeStatus| node.shortfall().is_some() || node.facts.part().is_some();
            self.scene.complete = table.is_complete() && !nodes.into_iter().any(short);
            self.reorder(table, now);
        }
        self.select();
        // Rows that move up into sight may be forgotten too.
        while self.scene.leave_forgotten(table) {
            self.select();
        }
        self.mark_all(table);
        self.see_rows(table);
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
        scene.outdated |= scene.next.take().is_some_and(|next| next.by_hand);
        let frozen = scene.frozen.get_or_insert_with(|| {
            let view = |place: &LockRef| table.view(table.lock_at(*place)?, now);
            let mut locks: Vec<LockView> = scene.order.iter().filter_map(view).take(FROZEN).collect();
            let order = (0..locks.len()).collect();
            // The user may clear the filter later, so hidden locks are kept too.
            let listed: BTreeSet<&LockRef> = scene.order.iter().collect();
            let hidden = table.places().filter(|(place, _)| !listed.contains(place));
            locks.extend(hidden.filter_map(|(place, _)| view(&place)).take(FROZEN - locks.len()));
            Frozen { locks, order }
        });
        if !std::mem::take(&mut scene.outdated) {
            return;
        }
        let (filter, nodes, at, order) = (self.list.filter.as_ref(), &scene.nodes, scene.at, self.list.order);
        let locks = &frozen.locks;
        let wanted = |lock: &LockView| self.page.screen != Screen::Contention || lock.demand.is_any();
        let shown = locks.iter().enumerate().filter(|(_, lock)| wanted(lock) && passes(filter, lock, nodes));
        let mut ranked: Vec<_> = shown.map(|(index, lock)| Rank::frozen(index, lock, order, at)).collect();
        ranked.sort_unstable_by(|a, b| a.compare(b, order, |index| Some((&locks[*index].key, locks[*index].space))));
        frozen.order = ranked.into_iter().map(|rank| rank.place).collect();
        let is_selected = |lock: &LockView| self.list.selected.as_ref().is_some_and(|id| id.is(lock));
        let found = frozen.order.iter().position(|index| is_selected(&frozen.locks[*index]));
        scene.cursor = found.or(scene.cursor);
    }

    /// Starts sorting again when it is due.
    fn reorder(&mut self, table: &Table, now: Time) {
        let still = self.stands_still(now);
        let scene = &mut self.scene;
        let pause = REORDER.max(REORDER_PER_LOCK * scene.total as u32);
        let due = now.since(scene.ordered_at) >= pause && !still;
        let first_locks = scene.total == 0 && table.held() > 0;
        let by_hand = std::mem::take(&mut scene.outdated);
        if !by_hand && (scene.next.is_some() || !due && !first_locks) {
            return;
        }
        scene.ordered_at = now;
        let sorting = Sorting::new(self.list.order, self.list.filter.is_some(), scene.portion, now);
        let at_once = sorting.is_small(table);
        scene.next = Some(NextOrder { sorting, by_hand });
        while at_once && self.is_ordering() {
            self.order_on(table, now);
        }
    }

    /// Whether rows must stay in place, because the user may be about to press a key.
    fn stands_still(&self, now: Time) -> bool {
        now.since(self.touched) < STAND_STILL
    }

    /// Whether sorting is under way: the loop must call [`App::order_on`] until it is done.
    pub fn is_ordering(&self) -> bool {
        self.scene.next.is_some()
    }

    /// Whether the user asked for an order that is not ready. Their next key on a row is meant for the new order.
    pub fn awaits_order(&self) -> bool {
        self.scene.next.as_ref().is_some_and(|next| next.by_hand)
    }

    /// Continues sorting for one slice. Returns whether a new order is ready to be shown.
    pub fn order_on(&mut self, table: &Table, now: Time) -> bool {
        let still = self.stands_still(now);
        let scene = &mut self.scene;
        // A periodic sort must not move a row that the user is about to act on; another sort follows.
        let Some(mut next) = scene.next.take().filter(|next| next.by_hand || !still || scene.total == 0) else {
            return false;
        };
        let filter = self.list.filter.as_ref();
        let passes = |view: &LockView| passes(filter, view, &scene.nodes);
        match next.sorting.step(table, filter.map(|_| &passes as &dyn Fn(&LockView) -> bool)) {
            None => scene.next = Some(next),
            Some(sorted) => {
                self.put_in_place(sorted, next.by_hand, table, now);
                return true;
            }
        }
        false
    }

    fn put_in_place(&mut self, sorted: Sorted, by_hand: bool, table: &Table, now: Time) {
        let scene = &mut self.scene;
        scene.total = sorted.total;
        scene.counts = State::ALL.into_iter().map(|state| (state, sorted.counts[state as usize])).collect();
        scene.order = match self.page.screen {
            Screen::Contention => {
                scene.contended = Contended::of(table, now);
                let filter = self.list.filter.as_ref();
                let wanted = scene.contended.places().filter(|(_, lock)| passes(filter, lock, &scene.nodes));
                wanted.map(|(place, _)| place).collect()
            }
            _ => sorted.places,
        };
        let stays = |view: &LockView| {
            let wanted = self.page.screen != Screen::Contention || view.demand.is_any();
            wanted && passes(self.list.filter.as_ref(), view, &scene.nodes)
        };
        // The selected lock stays in the list after it was freed, until the user moves on or filters it out. It also
        // stays if it was free only during the sorting.
        if let Some(id) = self.list.selected.as_ref().filter(|_| self.touched > Time(0))
            && let Some(place) = table.place_named(id.space, id.key.as_bytes())
            && let Some(lock) = table.lock_at(place)
            && let Some(view) = table.view(lock, now)
            && (!by_hand && !lock.is_held() || stays(&view))
            && !scene.order.contains(&place)
        {
            let at = scene.cursor.unwrap_or(0).min(scene.order.len());
            scene.order.insert(at, place);
        }
        self.list.marked.retain(|id| table.lock_named(id.space, id.key.as_bytes()).is_some_and(Lock::is_held));
        self.place_cursor(table);
    }

    /// Finds the selected lock in the new order; if it is gone, selects its neighbour.
    fn place_cursor(&mut self, table: &Table) {
        let scene = &mut self.scene;
        // Until the first key press the cursor stays on the worst lock.
        if self.touched == Time(0) {
            scene.cursor = scene.order.len().checked_sub(1).map(|_| 0);
            return;
        }
        let place = self.list.selected.as_ref().and_then(|id| table.place_named(id.space, id.key.as_bytes()));
        let found = place.and_then(|place| scene.order.iter().position(|other| *other == place));
        scene.cursor = match (found, scene.order.len()) {
            (_, 0) => None,
            (Some(at), _) => Some(at),
            (None, len) => Some(scene.cursor.unwrap_or(0).min(len - 1)),
        };
    }

    /// Moves the cursor as the keys asked, and keeps it in sight.
    fn select(&mut self) {
        let scene = &mut self.scene;
        scene.listed = scene.frozen.as_ref().map_or(scene.order.len(), |frozen| frozen.order.len());
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
            .or(scene.lock.take()),
            None => row.cloned(),
        };
    }
}

impl Scene {
    fn see_nodes<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeStatus>, now: Time) {
        let before = std::mem::take(&mut self.nodes);
        let known = |node: &NodeStatus| before.iter().find(|known| known.id == node.id);
        self.nodes = nodes.map(|node| NodeScene::of(node, known(node), now)).collect();
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

    /// Whether anything that is shown counts down by itself.
    pub fn moves(&self) -> bool {
        self.rows.iter().chain(&self.lock).any(|lock| lock.ttl.remaining().is_some() || lock.held_ms.is_some())
    }
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
