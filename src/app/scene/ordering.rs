//! When the list is sorted and filtered again, and what becomes of the selected row: pure.
//!
//! A sort that is only due waits while the user may be about to press a key; one that the user asked for does not.

use std::time::Duration;

use super::changes::STAYS;
use super::narrowing::{Asked, NextOrder, Ready, Turn, Work};
use super::sorting::Sorting;
use super::{Contended, passes, shows_free};
use crate::app::{App, Screen};
use crate::base::time::Time;
use crate::model::{Lock, LockRef, LockView, State, Table};

/// Time between two sorts (longer with very many locks), and how long rows stay in place after a key.
const REORDER: Duration = Duration::from_millis(1_000);
const REORDER_PER_LOCK: Duration = Duration::from_micros(5);
const STAND_STILL: Duration = Duration::from_millis(1_500);

impl App {
    /// Starts sorting again when it is due, or filtering when the filter changed.
    pub(super) fn reorder(&mut self, table: &Table, now: Time) {
        let costly = self.asked().is_costly();
        if std::mem::take(&mut self.scene.refilter) && !self.scene.outdated {
            // The sorted list has free locks only where the filter asked for them.
            let other = shows_free(self.list.filter.as_ref()) != self.scene.lists_free;
            // A small table is sorted again: it costs as little, and nothing new is missed.
            let small = Sorting::new(self.list.order, self.scene.portion, now).is_small(table, costly);
            self.scene.outdated = other || small || !self.narrow_anew();
        }
        self.sort_anew(table, now);
        while self.scene.next.as_ref().is_some_and(|next| next.work.is_small(table, self.scene.portion, costly)) {
            self.order_on(table, now);
        }
    }

    fn sort_anew(&mut self, table: &Table, now: Time) {
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
        let filter = self.list.filter.as_ref();
        scene.lists_free = shows_free(filter);
        let sorting = Sorting::new(self.list.order, scene.portion, now)
            .showing_free(scene.lists_free)
            .keeping(scene.changes.staying(table, now));
        scene.next = Some(NextOrder { work: Work::Sort(Box::new(sorting)), by_hand });
    }

    /// Whether rows must stay in place, because the user may be about to press a key.
    pub(in crate::app) fn stands_still(&self, now: Time) -> bool {
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
        let Some(mut next) = scene.next.take().filter(|next| next.by_hand || !still || scene.order.is_empty()) else {
            return false;
        };
        let asked = Asked::of(&self.list, self.page.screen);
        match scene.advance(next.work, asked, table, now) {
            Turn::More(work) => {
                next.work = work;
                self.scene.next = Some(next);
                false
            }
            Turn::Ready(Ready { kept, all, groups }) => {
                if let Some(groups) = groups {
                    self.scene.groups.show(groups, self.list.order);
                }
                self.put_in_place(kept, all, next.by_hand, table, now);
                true
            }
        }
    }

    /// Shows these locks. `all`: the locks without the filter, if there is one.
    fn put_in_place(
        &mut self,
        order: Vec<LockRef>,
        all: Option<Vec<LockRef>>,
        by_hand: bool,
        table: &Table,
        now: Time,
    ) {
        let scene = &mut self.scene;
        scene.is_whole = all.is_none() && self.page.screen != Screen::Contention;
        scene.all = all.filter(|_| self.page.screen != Screen::Contention);
        scene.order = match self.page.screen {
            Screen::Contention => {
                scene.contended = Contended::of(table, now);
                let filter = self.list.filter.as_ref();
                let wanted = scene.contended.places().filter(|(_, lock)| passes(filter, lock, &scene.nodes));
                wanted.map(|(place, _)| place).collect()
            }
            _ => order,
        };
        // The selected lock stays in the list for a moment after it was freed, unless the user filters it out. It also
        // stays if it was free only during the sorting.
        if let Some(id) = self.list.selected.as_ref().filter(|_| self.touched > Time(0) && self.groups_by().is_none())
            && let Some(place) = table.place_named(id.space, id.key.as_bytes())
            && let Some(view) = table.lock_at(place).and_then(|lock| table.view(lock, now))
            && !self.scene.order.contains(&place)
        {
            if self.stays(&view, by_hand, now) {
                let at = self.scene.cursor.unwrap_or(0).min(self.scene.order.len());
                self.scene.order.insert(at, place);
            } else if !by_hand && self.notice.is_none() && self.page.screen == Screen::Locks {
                self.say(format!("{} is free, and has left the list", view.key), now);
            }
        }
        self.list.marked.retain(|id| table.lock_named(id.space, id.key.as_bytes()).is_some_and(Lock::is_held));
        self.place_cursor(table);
    }

    /// Whether the selected lock stays in the list, although the order does not have it.
    fn stays(&self, view: &LockView, by_hand: bool, now: Time) -> bool {
        let filter = self.list.filter.as_ref();
        let wanted = self.page.screen != Screen::Contention || view.demand.is_any();
        let matches = wanted && self.asked().passes(view, &self.scene.nodes);
        if view.verdict.state != State::Free || shows_free(filter) {
            return matches || !by_hand && view.verdict.state == State::Free;
        }
        let freed = view.past.last().map_or(view.confirmed, |hold| hold.until);
        let lately = now.since(freed.max(self.touched)) < STAYS;
        let opened = self.page.opened.as_ref().is_some_and(|id| id.is(view));
        (lately || opened) && (matches || !by_hand)
    }
}
