//! Locks as groups: by the pattern of their names, by holder, by library or by node. Pure.
//!
//! [`Grouping`] and [`Counting`] take one lock at a time, so that a caller with many can do it in slices. `ls --group` and
//! the console share them. A lock with several holders is in the group of each. A group is identified by its [`GroupName`],
//! never by its place in a list.

mod group;
mod index;
mod name;
mod order;
#[cfg(test)]
mod tests;

use group::Member;
pub use group::{Group, Sum};
use index::Index;
use name::NameRef;
pub use name::{GroupBy, GroupName, HolderName};
pub use order::{SORTABLE, sort};

use crate::base::time::Time;
use crate::model::{Lock, LockRef, LockView, Table};

/// Groups while they are gathered.
pub struct Grouping {
    by: GroupBy,
    groups: Vec<Group>,
    index: Index,
    most: usize,
    left_out: usize,
}

impl Grouping {
    /// Makes at most this many groups: those that are met first.
    pub fn new(by: GroupBy, most: usize) -> Grouping {
        Grouping { by, groups: Vec::new(), index: Index::default(), most, left_out: 0 }
    }

    pub fn by(&self) -> GroupBy {
        self.by
    }

    /// Adds a lock as the table keeps it. One that is gone and not listed as lost is left out.
    pub fn add(&mut self, table: &Table, place: LockRef, now: Time) {
        let Some(lock) = table.lock_at(place).filter(|lock| table.is_listed(lock, now)) else { return };
        let Some(member) = Member::kept(table, lock, now) else { return };
        name::each(table, lock, self.by, now, |name| self.put(name, &member));
    }

    /// Adds a lock of a paused screen.
    pub fn add_view(&mut self, lock: &LockView) {
        let member = Member::view(lock);
        name::each_of_view(lock, self.by, |name| self.put(name, &member));
    }

    fn put(&mut self, name: NameRef<'_>, member: &Member<'_>) {
        let groups = &mut self.groups;
        match self.index.find(name, |at| &groups[at].name) {
            Some(at) => groups[at].add(member),
            None if groups.len() >= self.most => self.left_out += 1,
            None => {
                let mut group = Group::new(name.owned());
                group.add(member);
                groups.push(group);
                self.index.insert(groups.len() - 1, |at| &groups[at].name);
            }
        }
    }

    /// The groups in no order, and how many locks were left out because there are too many groups.
    pub fn done(self) -> (Vec<Group>, usize) {
        (self.groups, self.left_out)
    }
}

/// How many locks each group has, for several ways to group them at once: cheaper than the groups themselves.
pub struct Counting {
    by: Vec<GroupBy>,
    counts: Vec<(GroupName, u32)>,
    index: Index,
    most: usize,
}

impl Counting {
    /// Counts at most this many groups.
    pub fn new(by: Vec<GroupBy>, most: usize) -> Counting {
        Counting { by, counts: Vec::new(), index: Index::default(), most }
    }

    pub fn is_costly(&self) -> bool {
        self.by.iter().any(|by| by.is_costly())
    }

    pub fn add(&mut self, table: &Table, place: LockRef, now: Time) {
        let Some(lock) = table.lock_at(place).filter(|lock| lock.is_held()) else { return };
        let Counting { by, counts, index, most } = self;
        for by in by.iter() {
            name::each(table, lock, *by, now, |name| match index.find(name, |at| &counts[at].0) {
                Some(at) => counts[at].1 += 1,
                None if counts.len() >= *most => {}
                None => {
                    counts.push((name.owned(), 1));
                    index.insert(counts.len() - 1, |at| &counts[at].0);
                }
            });
        }
    }

    pub fn done(self) -> Counts {
        Counts { by: self.by, of: self.counts }
    }
}

/// The number of locks of each group.
#[derive(Clone, PartialEq, Debug)]
pub struct Counts {
    /// All groups of these kinds were counted: one that is not there has no locks.
    pub by: Vec<GroupBy>,
    pub of: Vec<(GroupName, u32)>,
}

impl GroupName {
    /// Whether the lock is in this group.
    pub fn has(&self, table: &Table, lock: &Lock, now: Time) -> bool {
        let mut found = false;
        name::each(table, lock, self.by(), now, |name| found |= self.is(name));
        found
    }

    /// The same of a lock of a paused screen.
    pub fn has_view(&self, lock: &LockView) -> bool {
        let mut found = false;
        name::each_of_view(lock, self.by(), |name| found |= self.is(name));
        found
    }
}
