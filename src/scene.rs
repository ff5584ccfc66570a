//! What there is to see, composed from the table for the screen as it is: pure.
//!
//! The order of all locks is worked out anew about once a second, and not while a finger is on the keys; only the rows
//! in sight are decoded. So a frame costs the same for a hundred locks and for a hundred thousand.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::time::Duration;

use crate::app::{App, LockId, Order, Overlay};
use crate::filter::{Filter, Subject};
use crate::model::{Holder, Key, Lock, LockRef, LockView, NodeId, State, Table, Time};
use crate::monitor::{NodeStatus, Stream};
use crate::output::Column;
use crate::servers::ServerFacts;

/// How often the order is worked out anew, and how long it stays after a key.
const REORDER: Duration = Duration::from_millis(1_000);
const STAND_STILL: Duration = Duration::from_millis(1_500);
/// As many locks as a paused screen keeps.
const FROZEN: usize = 5_000;

#[derive(Default)]
pub struct Scene {
    pub at: Time,
    /// Rows in sight, from [`Scene::first`] on.
    pub rows: Vec<LockView>,
    /// How many rows of the list are above those in sight.
    pub first: usize,
    /// Rows of the list in all.
    pub listed: usize,
    /// Locks and markers there are, whatever the filter.
    pub total: usize,
    /// The selected row, counted from the top of the list.
    pub cursor: Option<usize>,
    /// The lock that is opened, or selected.
    pub lock: Option<LockView>,
    pub counts: Vec<(State, usize)>,
    pub nodes: Vec<NodeScene>,
    pub complete: bool,
    /// Rows of a page, by the last size of the list.
    pub page: usize,
    /// How far the other screens and the help can be scrolled; whoever lays them out says so.
    pub scroll_most: usize,
    pub help_most: usize,
    /// The order must be worked out at once: something about it was changed.
    pub outdated: bool,
    order: Vec<LockRef>,
    ordered_at: Time,
    frozen: Option<Frozen>,
}

/// What a paused screen goes on showing.
struct Frozen {
    locks: Vec<LockView>,
    /// The rows of the list, as places in `locks`.
    order: Vec<usize>,
}

/// One node, as the header and the servers screen show it.
#[derive(Clone, Debug)]
pub struct NodeScene {
    pub name: String,
    pub db: i64,
    pub facts: ServerFacts,
    pub stream: Stream,
    pub note: Option<String>,
    pub events: u64,
    pub lost: u64,
    pub reconnects: u64,
    pub events_per_s: Option<f64>,
    /// What share of the server's time we took at most.
    pub cost: Option<f64>,
    pub scanned_ago: Option<Duration>,
    pub scan_took: Option<Duration>,
    /// How far the walk under way has come, 0 to 1.
    pub scanning: Option<f64>,
    pub unread: u64,
    sampled: (Time, u64, Duration),
}

impl App {
    /// Composes the scene for the screen as it is now. `list_rows`: how many locks the list has room for.
    pub fn compose(&mut self, table: &Table, nodes: &[NodeStatus], now: Time, list_rows: usize) {
        self.scene.page = list_rows.max(1);
        if self.paused {
            self.freeze(table, now);
        } else {
            self.scene.frozen = None;
            self.scene.at = now;
            self.scene.see_nodes(nodes, now);
            self.scene.complete = table.is_complete();
            self.reorder(table, now);
        }
        self.select();
        if self.scene.leave_forgotten(table) {
            self.select();
        }
        self.see_rows(table);
    }

    /// How far the screen and the help can be scrolled, as they are laid out now.
    pub fn bound_scrolling(&mut self, scroll_most: usize, help_most: usize) {
        (self.scene.scroll_most, self.scene.help_most) = (scroll_most, help_most);
        self.scroll = self.scroll.min(scroll_most);
        if let Overlay::Help { scroll } = &mut self.overlay {
            *scroll = (*scroll).min(help_most);
        }
    }

    /// A paused screen keeps the locks it had; they can still be filtered and ordered.
    fn freeze(&mut self, table: &Table, now: Time) {
        let scene = &mut self.scene;
        let frozen = scene.frozen.get_or_insert_with(|| {
            let view = |place: &LockRef| table.view(table.lock_at(*place)?, now);
            let mut locks: Vec<LockView> = scene.order.iter().filter_map(view).take(FROZEN).collect();
            let order = (0..locks.len()).collect();
            // Those that the filter hides may be wanted later.
            let listed: BTreeSet<&LockRef> = scene.order.iter().collect();
            let hidden = table.places().filter(|(place, _)| !listed.contains(place));
            locks.extend(hidden.filter_map(|(place, _)| view(&place)).take(FROZEN - locks.len()));
            Frozen { locks, order }
        });
        if !std::mem::take(&mut scene.outdated) {
            return;
        }
        let (filter, nodes, at, order) = (self.filter.as_ref(), &scene.nodes, scene.at, self.order);
        let shown = frozen.locks.iter().enumerate().filter(|(_, lock)| passes(filter, lock, nodes));
        let mut ranked: Vec<_> = shown.map(|(index, lock)| Ranked::frozen(index, lock, order, at)).collect();
        ranked.sort_unstable_by(|a, b| a.compare(b, order));
        frozen.order = ranked.into_iter().map(|ranked| ranked.place).collect();
        let is_selected = |lock: &LockView| self.selected.as_ref().is_some_and(|id| id.is(lock));
        let found = frozen.order.iter().position(|index| is_selected(&frozen.locks[*index]));
        scene.cursor = found.or(scene.cursor);
    }

    fn reorder(&mut self, table: &Table, now: Time) {
        let scene = &mut self.scene;
        let due = now.since(scene.ordered_at) >= REORDER && now.since(self.touched) >= STAND_STILL;
        let first_locks = scene.total == 0 && table.held() > 0;
        if !(due || scene.outdated || first_locks) {
            return;
        }
        let filter = self.filter.as_ref();
        let by_hand = std::mem::take(&mut scene.outdated);
        scene.ordered_at = now;
        scene.total = 0;
        let mut counts = [0usize; State::ALL.len()];
        let mut ranked: Vec<Ranked<LockRef>> = Vec::with_capacity(scene.order.len());
        for (place, lock) in table.places() {
            let state = table.state(lock, now);
            scene.total += 1;
            counts[state as usize] += 1;
            if filter.is_none() || table.view(lock, now).is_some_and(|view| passes(filter, &view, &scene.nodes)) {
                ranked.push(Ranked::new(place, lock, state, table, self.order, now));
            }
        }
        scene.counts = State::ALL.into_iter().map(|state| (state, counts[state as usize])).collect();
        ranked.sort_unstable_by(|a, b| a.compare(b, self.order));
        scene.order = ranked.into_iter().map(|ranked| ranked.place).collect();
        // The lock that somebody selected stays in the list after it was freed, until they move on or filter it out.
        if let Some(id) = self.selected.as_ref().filter(|_| self.touched > Time(0))
            && let Some(place) = table.place_named(id.node, id.key.as_bytes())
            && let Some(lock) = table.lock_at(place).filter(|lock| !lock.is_held())
            && let Some(view) = table.view(lock, now)
            && (!by_hand || passes(filter, &view, &scene.nodes))
        {
            let at = scene.cursor.unwrap_or(0).min(scene.order.len());
            scene.order.insert(at, place);
        }
        self.marked.retain(|id| table.lock_named(id.node, id.key.as_bytes()).is_some_and(Lock::is_held));
        self.place_cursor(table);
    }

    /// Finds the selected lock in the new order; where it is not, its neighbour takes its place.
    fn place_cursor(&mut self, table: &Table) {
        let scene = &mut self.scene;
        // Until somebody takes the keys, the worst is what they see first.
        if self.touched == Time(0) {
            scene.cursor = scene.order.len().checked_sub(1).map(|_| 0);
            return;
        }
        let place = self.selected.as_ref().and_then(|id| table.place_named(id.node, id.key.as_bytes()));
        let found = place.and_then(|place| scene.order.iter().position(|other| *other == place));
        scene.cursor = match (found, scene.order.len()) {
            (_, 0) => None,
            (Some(at), _) => Some(at),
            (None, len) => Some(scene.cursor.unwrap_or(0).min(len - 1)),
        };
    }

    /// Moves the cursor by what the keys asked for, and keeps it in sight.
    fn select(&mut self) {
        let scene = &mut self.scene;
        scene.listed = scene.frozen.as_ref().map_or(scene.order.len(), |frozen| frozen.order.len());
        let Some(last) = scene.listed.checked_sub(1) else {
            (scene.cursor, scene.first, self.steps) = (None, 0, 0);
            return;
        };
        let cursor = scene.cursor.unwrap_or(0).min(last).saturating_add_signed(self.steps).min(last);
        self.steps = 0;
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
        self.selected = row.map(LockId::of);
        scene.lock = match &self.opened {
            Some(id) => match &scene.frozen {
                Some(frozen) => frozen.locks.iter().find(|lock| id.is(lock)).cloned(),
                None => table.lock_named(id.node, id.key.as_bytes()).and_then(view),
            }
            .or(scene.lock.take()),
            None => row.cloned(),
        };
    }
}

impl Scene {
    fn see_nodes(&mut self, nodes: &[NodeStatus], now: Time) {
        let before = std::mem::take(&mut self.nodes);
        self.nodes =
            nodes.iter().enumerate().map(|(index, node)| NodeScene::of(node, before.get(index), now)).collect();
    }

    /// Locks in sight that the table has forgotten leave at once, and the others keep their places. Says whether any
    /// did.
    fn leave_forgotten(&mut self, table: &Table) -> bool {
        let known = |place: &LockRef| table.lock_at(*place).is_some_and(|lock| lock.reading().is_some());
        if self.frozen.is_some() || self.order.iter().skip(self.first).take(self.page).all(known) {
            return false;
        }
        let above = self.cursor.unwrap_or(0);
        self.cursor = Some(self.order.iter().take(above).filter(|place| known(place)).count());
        self.order.retain(known);
        true
    }

    /// Whether anything that is shown counts down by itself.
    pub fn moves(&self) -> bool {
        self.rows.iter().chain(&self.lock).any(|lock| lock.ttl.remaining().is_some() || lock.held_ms.is_some())
    }
}

impl NodeScene {
    /// Rates are taken over a second at least.
    const SAMPLE: Duration = Duration::from_millis(1_000);

    fn of(node: &NodeStatus, before: Option<&NodeScene>, now: Time) -> NodeScene {
        let scan = node.scan.as_ref();
        let sample = (now, node.events, node.spent);
        let (sampled, events_per_s, cost) = match before {
            None => (sample, None, None),
            Some(before) => {
                let (at, events, spent) = before.sampled;
                let passed = now.since(at);
                if passed < Self::SAMPLE {
                    (before.sampled, before.events_per_s, before.cost)
                } else {
                    let rate = (node.events - events) as f64 / passed.as_secs_f64();
                    let cost = node.spent.saturating_sub(spent).as_secs_f64() / passed.as_secs_f64();
                    (sample, Some(rate), Some(cost))
                }
            }
        };
        NodeScene {
            name: node.name.clone(),
            db: node.db,
            facts: node.facts.clone(),
            stream: node.stream.clone(),
            note: node.note.clone(),
            events: node.events,
            lost: node.lost,
            reconnects: node.reconnects,
            events_per_s,
            cost,
            scanned_ago: scan.map(|scan| now.since(scan.finished)),
            scan_took: scan.map(|scan| scan.finished.since(scan.started)),
            scanning: node.scanning(),
            unread: scan.map_or(0, |scan| scan.unread),
            sampled,
        }
    }
}

fn passes(filter: Option<&Filter>, lock: &LockView, nodes: &[NodeScene]) -> bool {
    let Some(filter) = filter else { return true };
    let subject = Subject::from(lock);
    match nodes.get(usize::from(lock.node.0)) {
        Some(node) => filter.matches(&subject.on_node(&node.name)),
        None => filter.matches(&subject),
    }
}

/// A lock with what it is ordered by. `P`: where it is kept.
struct Ranked<'a, P> {
    place: P,
    state: State,
    /// Longest first, the unknown last.
    held: Option<u64>,
    by: By<'a>,
    key: (&'a Key, NodeId),
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum By<'a> {
    Nothing,
    Key(&'a Key),
    Text(&'static str),
    Token(bool, Option<String>),
    /// The largest first, the unknown last.
    Most(Reverse<Option<u64>>),
    Soonest(bool, Option<Time>),
}

impl<'a> Ranked<'a, LockRef> {
    /// By what the table keeps of it: nothing is decoded that the order does not ask for.
    fn new(place: LockRef, lock: &'a Lock, state: State, table: &Table, order: Order, now: Time) -> Self {
        let held = table.held_for(lock, now).map(|(ms, _)| ms);
        let by = match order.column {
            Column::State => By::Nothing,
            Column::Key => By::Key(&lock.key),
            Column::Library => {
                By::Text(lock.reading().map_or("", |reading| crate::dialects::dialect(reading.dialect).name()))
            }
            Column::Holder => By::token(&table.holders(lock, now)),
            Column::Held => By::Most(Reverse(held)),
            Column::Ttl => By::Soonest(lock.expires().is_none(), lock.expires()),
            Column::Lease => By::Most(Reverse(lock.lease_ms())),
            Column::Renewals => By::Most(Reverse(lock.beats().map(|beats| beats.count))),
        };
        Ranked { place, state, held, by, key: (&lock.key, lock.node) }
    }
}

impl<'a> Ranked<'a, usize> {
    /// A lock of a paused screen.
    fn frozen(place: usize, lock: &'a LockView, order: Order, at: Time) -> Self {
        let by = match order.column {
            Column::State => By::Nothing,
            Column::Key => By::Key(&lock.key),
            Column::Library => By::Text(lock.dialect),
            Column::Holder => By::token(&lock.holders),
            Column::Held => By::Most(Reverse(lock.held_ms)),
            Column::Ttl => {
                let expires = lock.ttl.remaining().map(|left| at + left);
                By::Soonest(expires.is_none(), expires)
            }
            Column::Lease => By::Most(Reverse(lock.lease_ms)),
            Column::Renewals => By::Most(Reverse(lock.renewals.as_ref().map(|renewals| renewals.count))),
        };
        Ranked { place, state: lock.verdict.state, held: lock.held_ms, by, key: (&lock.key, lock.node) }
    }
}

impl By<'_> {
    fn token(holders: &[Holder]) -> Self {
        let token = holders.first().map(|holder| holder.token.to_string());
        By::Token(token.is_none(), token)
    }
}

impl<P> Ranked<'_, P> {
    fn compare(&self, other: &Self, order: Order) -> Ordering {
        let by =
            self.by.cmp(&other.by).then_with(|| self.state.cmp(&other.state)).then_with(|| other.held.cmp(&self.held));
        let by = if order.reversed { by.reverse() } else { by };
        by.then_with(|| self.key.cmp(&other.key))
    }
}

#[cfg(test)]
mod tests;
