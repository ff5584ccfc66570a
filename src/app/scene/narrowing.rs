//! How the list is made, step by step; and which locks of a sorted list are kept: pure.
//!
//! The list is filtered again with every key that is typed into a filter, and is neither judged nor sorted again for it.
//! A bounded piece is done with each [`Narrowing::step`].

use super::groups::{Gathering, Tally};
use super::sorting::{Portion, Sorting};
use super::{NodeScene, Scene, passes};
use crate::app::{App, List, Screen};
use crate::base::time::Time;
use crate::filter::{Filter, Subject};
use crate::model::{Group, GroupBy, GroupName, LockRef, LockView, Table};

/// The next order of the list, while it is being made.
pub(super) struct NextOrder {
    pub work: Work,
    /// The user asked for it, so key presses do not cancel it.
    pub by_hand: bool,
}

/// All locks are sorted, now and then counted by group, narrowed, and grouped if groups are shown. Another filter alone
/// needs no sorting.
pub(super) enum Work {
    Sort(Box<Sorting>),
    Count(Box<Tally>),
    Narrow(Narrowing),
    Group(Box<Gathering>),
}

/// What comes of a slice of work.
pub(super) enum Turn {
    More(Work),
    Ready(Ready),
}

/// An order that can be shown.
pub(super) struct Ready {
    pub kept: Vec<LockRef>,
    /// All locks in order, if `kept` is a part of them.
    pub all: Option<Vec<LockRef>>,
    pub groups: Option<(Vec<Group>, usize)>,
}

/// What the list is made of: what it is narrowed by, and how it is grouped.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub filter: Option<&'a Filter>,
    /// Only the locks of this group.
    pub open: Option<&'a GroupName>,
    pub by: Option<GroupBy>,
}

impl<'a> Asked<'a> {
    pub fn of(list: &'a List, screen: Screen) -> Asked<'a> {
        let open = list.grouped.open.as_ref().filter(|_| screen == Screen::Locks);
        let by = list.grouped.by.filter(|_| screen == Screen::Locks && open.is_none());
        Asked { filter: list.filter.as_ref(), open, by }
    }

    /// Whether testing one lock takes long.
    pub fn is_costly(&self) -> bool {
        self.filter.is_some_and(Filter::is_costly) || self.open.is_some_and(|name| name.by().is_costly())
    }

    /// What is done with all locks once they are sorted.
    pub fn narrow(&self, all: Vec<LockRef>) -> Turn {
        match self.filter.is_some() || self.open.is_some() {
            true => Turn::More(Work::Narrow(Narrowing::of(all))),
            false => self.group(all, None),
        }
    }

    /// What is done with those that are listed.
    pub fn group(&self, kept: Vec<LockRef>, all: Option<Vec<LockRef>>) -> Turn {
        match self.by {
            Some(by) => Turn::More(Work::Group(Box::new(Gathering::of(kept, all, by)))),
            None => Turn::Ready(Ready { kept, all, groups: None }),
        }
    }

    /// Whether a lock that the table keeps is listed: looks up only what is asked about.
    pub fn keeps(&self, table: &Table, place: LockRef, now: Time, nodes: &[NodeScene]) -> bool {
        let Some(lock) = table.lock_at(place) else { return false };
        let Some(subject) = Subject::of_kept(table, lock, now) else { return false };
        if self.open.is_some_and(|name| !name.has(table, lock, now)) {
            return false;
        }
        let node = nodes.iter().find(|node| node.id == lock.node);
        self.filter.is_none_or(|filter| match node {
            Some(node) => filter.matches(&subject.on_node(&node.name)),
            None => filter.matches(&subject),
        })
    }

    /// The same of a lock as it is shown.
    pub fn passes(&self, lock: &LockView, nodes: &[NodeScene]) -> bool {
        self.open.is_none_or(|name| name.has_view(lock)) && passes(self.filter, lock, nodes)
    }
}

/// A list that is being filtered.
pub(super) struct Narrowing {
    /// All locks, in order.
    pub all: Vec<LockRef>,
    /// Those of the first `next` that pass.
    pub kept: Vec<LockRef>,
    next: usize,
}

impl Narrowing {
    pub fn of(all: Vec<LockRef>) -> Narrowing {
        Narrowing { all, kept: Vec::new(), next: 0 }
    }

    /// Whether the whole of it costs no more than a few slices.
    pub fn is_small(&self, portion: Portion, costly: bool) -> bool {
        self.all.len() * if costly { 4 } else { 1 } <= portion.at_once
    }

    /// Does one slice; returns whether the list is complete.
    pub fn step(&mut self, portion: Portion, costly: bool, passes: impl Fn(LockRef) -> bool) -> bool {
        let most = if costly { portion.decoded } else { portion.judged };
        let end = (self.next + most.max(1)).min(self.all.len());
        self.kept.extend(self.all[self.next..end].iter().copied().filter(|place| passes(*place)));
        self.next = end;
        end == self.all.len()
    }
}

impl Work {
    /// Whether the whole of it costs no more than a few slices.
    pub fn is_small(&self, table: &Table, portion: Portion, costly: bool) -> bool {
        match self {
            Work::Sort(sorting) => sorting.is_small(table, costly),
            Work::Count(tally) => tally.is_small(portion),
            Work::Group(gathering) => gathering.is_small(portion),
            Work::Narrow(narrowing) => narrowing.is_small(portion, costly),
        }
    }
}

impl App {
    /// Filters the list that is sorted already. Returns whether there is one, or one comes.
    pub(super) fn narrow_anew(&mut self) -> bool {
        let scene = &mut self.scene;
        let all = match scene.next.take() {
            Some(next) if next.by_hand && matches!(next.work, Work::Sort(_)) => {
                // What is being sorted will be filtered by the new filter.
                scene.next = Some(next);
                return true;
            }
            Some(NextOrder { work: Work::Narrow(narrowing), .. }) => Some(narrowing.all),
            Some(NextOrder { work: Work::Count(tally), .. }) => Some(tally.all),
            Some(NextOrder { work: Work::Group(gathering), .. }) => {
                let Gathering { kept, all, .. } = *gathering;
                Some(all.unwrap_or(kept))
            }
            // The wanted locks are few, and are gathered again.
            _ if self.page.screen == Screen::Contention => Some(Vec::new()),
            _ if scene.is_whole => Some(scene.order.clone()),
            _ => scene.all.take(),
        };
        let Some(all) = all else { return false };
        scene.next = Some(NextOrder { work: Work::Narrow(Narrowing::of(all)), by_hand: true });
        true
    }
}

impl Scene {
    /// Does one slice of the work, or begins the next step of it.
    pub(super) fn advance(&mut self, work: Work, asked: Asked<'_>, table: &Table, now: Time) -> Turn {
        let portion = self.portion;
        match work {
            Work::Sort(mut sorting) => match sorting.step(table) {
                None => Turn::More(Work::Sort(sorting)),
                Some(sorted) => {
                    let all = self.count(sorted);
                    match self.groups.trends.due(asked.by, now) {
                        Some(by) => Turn::More(Work::Count(Box::new(Tally::of(all, by)))),
                        None => asked.narrow(all),
                    }
                }
            },
            Work::Count(mut tally) => {
                if !tally.step(portion, table, now) {
                    return Turn::More(Work::Count(tally));
                }
                let (all, counts) = tally.done();
                self.groups.trends.take(counts, now);
                asked.narrow(all)
            }
            Work::Narrow(mut narrowing) => {
                let nodes = &self.nodes;
                if !narrowing.step(portion, asked.is_costly(), |place| asked.keeps(table, place, now, nodes)) {
                    return Turn::More(Work::Narrow(narrowing));
                }
                let narrowed = asked.filter.is_some() || asked.open.is_some();
                asked.group(narrowing.kept, narrowed.then_some(narrowing.all))
            }
            Work::Group(mut gathering) => {
                if !gathering.step(portion, table, now) {
                    return Turn::More(Work::Group(gathering));
                }
                Turn::Ready(gathering.done())
            }
        }
    }
}
