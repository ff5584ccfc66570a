//! What there is to see, composed from the table for the screen as it is: pure.
//!
//! The order of all locks is worked out anew about once a second, and not while a finger is on the keys; only the rows
//! in sight are decoded. So a frame costs the same for a hundred locks and for a hundred thousand.

use std::cmp::Ordering;
use std::time::Duration;

use crate::app::{App, LockId, Order};
use crate::filter::{Filter, Subject};
use crate::model::{HeldIs, Key, Lock, LockRef, LockView, State, Table, Time};
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
    /// How far the other screens can be scrolled; the view that draws them knows.
    pub scroll_most: usize,
    /// The order must be worked out at once: something about it was changed.
    pub outdated: bool,
    order: Vec<LockRef>,
    ordered_at: Time,
    frozen: Option<Vec<LockView>>,
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
        self.freeze(table, now);
        if self.scene.frozen.is_none() {
            self.scene.at = now;
            self.scene.see_nodes(nodes, now);
            self.reorder(table, now);
        }
        self.select();
        self.see_rows(table);
    }

    /// A paused screen keeps what it showed.
    fn freeze(&mut self, table: &Table, now: Time) {
        match (self.paused, &self.scene.frozen) {
            (true, None) => {
                let order = self.scene.order.iter().take(FROZEN);
                let views = order.filter_map(|place| table.view(table.lock_at(*place)?, now)).collect();
                self.scene.frozen = Some(views);
            }
            (false, Some(_)) => self.scene.frozen = None,
            _ => {}
        }
    }

    fn reorder(&mut self, table: &Table, now: Time) {
        let scene = &mut self.scene;
        let due = now.since(scene.ordered_at) >= REORDER && now.since(self.touched) >= STAND_STILL;
        if !(due || scene.outdated || (scene.order.is_empty() && table.held() > 0)) {
            return;
        }
        let by_hand = std::mem::take(&mut scene.outdated);
        scene.ordered_at = now;
        scene.complete = table.is_complete();
        scene.total = 0;
        let mut counts = [0usize; State::ALL.len()];
        let mut ranked: Vec<Ranked> = Vec::with_capacity(scene.order.len());
        for (place, lock) in table.places() {
            let state = table.state(lock, now);
            scene.total += 1;
            counts[state as usize] += 1;
            if passes(self.filter.as_ref(), table, lock, now, &scene.nodes) {
                ranked.push(Ranked::new(place, lock, state, table, self.order, now));
            }
        }
        scene.counts = State::ALL.into_iter().map(|state| (state, counts[state as usize])).collect();
        ranked.sort_unstable_by(|a, b| a.compare(b, self.order));
        scene.order = ranked.into_iter().map(|ranked| ranked.place).collect();
        // The selected lock stays in the list after it was freed, until somebody moves on.
        if let Some(id) = &self.selected
            && !by_hand
            && let Some(place) = table.place_named(id.node, id.key.as_bytes())
            && table.lock_at(place).is_some_and(|lock| !lock.is_held() && lock.reading().is_some())
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
        scene.listed = scene.frozen.as_ref().map_or(scene.order.len(), Vec::len);
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
        scene.rows = match &scene.frozen {
            Some(views) => views.iter().skip(first).take(page).cloned().collect(),
            None => {
                let places = scene.order.iter().skip(first).take(page);
                // A lock that was forgotten since the order was made leaves an empty row until the next one.
                places.filter_map(|place| table.view(table.lock_at(*place)?, now)).collect()
            }
        };
        let row = scene.cursor.and_then(|cursor| scene.rows.get(cursor - first));
        self.selected = row.map(|lock| LockId { node: lock.node, key: lock.key.clone() });
        scene.lock = match &self.opened {
            Some(id) => table
                .lock_named(id.node, id.key.as_bytes())
                .and_then(|lock| table.view(lock, now))
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

fn passes(filter: Option<&Filter>, table: &Table, lock: &Lock, now: Time, nodes: &[NodeScene]) -> bool {
    let Some(filter) = filter else { return true };
    let Some(view) = table.view(lock, now) else { return false };
    let subject = Subject::from(&view);
    match nodes.get(usize::from(lock.node.0)) {
        Some(node) => filter.matches(&subject.on_node(&node.name)),
        None => filter.matches(&subject),
    }
}

/// A lock with what it is ordered by.
struct Ranked<'a> {
    place: LockRef,
    state: State,
    /// Longest first, the unknown last.
    held: Option<u64>,
    by: By<'a>,
    key: &'a Key,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum By<'a> {
    Nothing,
    Key(&'a Key),
    Text(&'static str),
    Token(bool, Option<String>),
    /// The largest first, the unknown last.
    Most(std::cmp::Reverse<Option<u64>>),
    Soonest(bool, Option<Time>),
}

impl<'a> Ranked<'a> {
    fn new(place: LockRef, lock: &'a Lock, state: State, table: &Table, order: Order, now: Time) -> Ranked<'a> {
        use std::cmp::Reverse;
        let held: Option<(u64, HeldIs)> = table.held_for(lock, now);
        let by = match order.column {
            None | Some(Column::State) => By::Nothing,
            Some(Column::Key) => By::Key(&lock.key),
            Some(Column::Library) => {
                By::Text(lock.reading().map_or("", |reading| crate::dialects::dialect(reading.dialect).name()))
            }
            Some(Column::Holder) => {
                let token = table.holders(lock, now).first().map(|holder| holder.token.to_string());
                By::Token(token.is_none(), token)
            }
            Some(Column::Held) => By::Most(Reverse(held.map(|(ms, _)| ms))),
            Some(Column::Ttl) => By::Soonest(lock.expires().is_none(), lock.expires()),
            Some(Column::Lease) => By::Most(Reverse(lock.lease_ms())),
            Some(Column::Renewals) => By::Most(Reverse(lock.beats().map(|beats| beats.count))),
        };
        Ranked { place, state, held: held.map(|(ms, _)| ms), by, key: &lock.key }
    }

    fn compare(&self, other: &Ranked<'_>, order: Order) -> Ordering {
        let by =
            self.by.cmp(&other.by).then_with(|| self.state.cmp(&other.state)).then_with(|| other.held.cmp(&self.held));
        let by = if order.reversed { by.reverse() } else { by };
        by.then_with(|| self.key.cmp(other.key))
    }
}
