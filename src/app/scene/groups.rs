//! The groups of the list: gathered from the narrowed list a slice at a time, then sorted. Pure.

use std::collections::BTreeMap;

use super::narrowing::Ready;
use super::sorting::Portion;
use super::trends::{self, Trends};
use crate::app::{App, Order};
use crate::base::time::Time;
use crate::model::grouping::{Counting, Counts};
use crate::model::{Group, GroupBy, GroupName, Grouping, LockRef, LockView, Table, grouping};

/// At most this many groups are listed: the worst, because the list is sorted when it is grouped.
const MOST: usize = 10_000;

/// The groups as they are listed.
#[derive(Default)]
pub struct Groups {
    pub all: Vec<Group>,
    /// Locks of groups that are too many to be listed.
    pub left_out: usize,
    /// The worst lock of the selected group.
    pub worst: Option<LockView>,
    pub trends: Trends,
}

impl Groups {
    pub(super) fn show(&mut self, (groups, left_out): (Vec<Group>, usize), order: Order) {
        self.all = grouping::sort(groups, order.column, order.reversed);
        self.left_out = left_out;
    }

    /// Takes over what a store counted before the console did.
    pub fn recall(&mut self, by: GroupBy, counts: &BTreeMap<i64, BTreeMap<GroupName, u32>>) {
        self.trends.recall(by, counts);
    }

    pub(super) fn position(&self, name: &GroupName) -> Option<usize> {
        self.all.iter().position(|group| group.name == *name)
    }
}

impl App {
    /// No lock is selected while groups are listed; the worst of the selected group is told of.
    pub(super) fn see_groups(&mut self, table: &Table) {
        let scene = &mut self.scene;
        scene.rows.clear();
        (self.list.selected, scene.lock) = (None, None);
        let group = scene.cursor.and_then(|cursor| scene.groups.all.get(cursor));
        self.list.grouped.selected = group.map(|group| group.name.clone());
        let worst = group.and_then(|group| group.worst_lock());
        scene.groups.worst = worst.and_then(|(space, key)| match &scene.frozen {
            Some(frozen) => frozen.locks.iter().find(|lock| lock.space == space && lock.key == *key).cloned(),
            None => table.view(table.lock_named(space, key.as_bytes())?, scene.at),
        });
    }

    /// Finds the selected group in the new order. Until one was selected, the cursor is on the worst.
    pub(super) fn place_cursor_on_group(&mut self) {
        let (scene, selected) = (&mut self.scene, &self.list.grouped.selected);
        let last = scene.groups.all.len().checked_sub(1);
        scene.cursor = last.map(|last| match selected {
            Some(name) => scene.groups.position(name).unwrap_or(scene.cursor.unwrap_or(0).min(last)),
            None => 0,
        });
    }
}

/// Groups of a paused screen.
pub(super) fn of_views<'a>(locks: impl Iterator<Item = &'a LockView>, by: GroupBy) -> (Vec<Group>, usize) {
    let mut grouping = Grouping::new(by, MOST);
    locks.for_each(|lock| grouping.add_view(lock));
    grouping.done()
}

/// A list that is being grouped.
pub(super) struct Gathering {
    /// The locks to group, in order.
    pub kept: Vec<LockRef>,
    /// All locks in order, if `kept` is a part of them.
    pub all: Option<Vec<LockRef>>,
    grouping: Grouping,
    next: usize,
}

impl Gathering {
    pub fn of(kept: Vec<LockRef>, all: Option<Vec<LockRef>>, by: GroupBy) -> Gathering {
        Gathering { kept, all, grouping: Grouping::new(by, MOST), next: 0 }
    }

    pub fn is_small(&self, portion: Portion) -> bool {
        self.kept.len() * if self.grouping.by().is_costly() { 4 } else { 1 } <= portion.at_once
    }

    /// Does one slice; returns whether all are grouped.
    pub fn step(&mut self, portion: Portion, table: &Table, now: Time) -> bool {
        let most = if self.grouping.by().is_costly() { portion.decoded } else { portion.judged / 2 };
        let end = (self.next + most.max(1)).min(self.kept.len());
        self.kept[self.next..end].iter().for_each(|place| self.grouping.add(table, *place, now));
        self.next = end;
        end == self.kept.len()
    }

    pub fn done(self) -> Ready {
        Ready { kept: self.kept, all: self.all, groups: Some(self.grouping.done()) }
    }
}

/// All locks, while they are counted by group.
pub(super) struct Tally {
    pub all: Vec<LockRef>,
    counting: Counting,
    next: usize,
}

impl Tally {
    pub fn of(all: Vec<LockRef>, by: Vec<GroupBy>) -> Tally {
        Tally { all, counting: Counting::new(by, trends::MOST), next: 0 }
    }

    pub fn is_small(&self, portion: Portion) -> bool {
        self.all.len() * if self.counting.is_costly() { 4 } else { 1 } <= portion.at_once
    }

    /// Does one slice; returns whether all are counted.
    pub fn step(&mut self, portion: Portion, table: &Table, now: Time) -> bool {
        let most = if self.counting.is_costly() { portion.decoded } else { portion.judged };
        let end = (self.next + most.max(1)).min(self.all.len());
        self.all[self.next..end].iter().for_each(|place| self.counting.add(table, *place, now));
        self.next = end;
        end == self.all.len()
    }

    /// All locks, and the counts.
    pub fn done(self) -> (Vec<LockRef>, Counts) {
        (self.all, self.counting.done())
    }
}
