//! The timeline on the events screen: which entries are shown, which is selected, and the line about lost locks.
//!
//! The entries belong to the table. Here are only the numbers of those that the filter lets through, kept in step as
//! entries come, so that a frame costs no more with a full hour. The selection is an entry's number, never a row.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::scene::Beside;
use super::{App, LockId, Screen};
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::filter::Subject;
use crate::lock::{Key, KeyspaceId};
use crate::model::{LostBy, Notable, State, Table, Timeline, What};

/// What the `since` key goes through; the last one is everything that is kept.
const SPANS: [Option<Duration>; 3] = [Some(Duration::from_secs(300)), Some(Duration::from_secs(900)), None];

/// What the keys do to the timeline.
#[derive(Debug, Default)]
pub struct TimelinePage {
    /// The raw events are shown instead.
    pub raw: bool,
    /// Only entries younger than this are shown.
    pub since: Option<Duration>,
    /// `None`: the newest, whichever that is.
    selected: Option<u64>,
    steps: isize,
    /// The entries that pass the filter, oldest first.
    matching: VecDeque<u64>,
    /// The first entry that was not compared with the filter, and the first that was not looked at for losses.
    unmatched: u64,
    unread: u64,
    /// Where a paused screen ends.
    paused_at: Option<u64>,
    losses: Option<Losses>,
}

/// The locks that were lost since the line about them was last dismissed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Losses {
    pub locks: u64,
    /// When the first was lost, and whether others were lost at another time.
    pub at: Time,
    pub goes_on: bool,
    pub causes: Vec<LostBy>,
}

/// The entries in sight.
#[derive(Debug, Default)]
pub struct TimelineScene {
    /// The newest first. What happened to the same lock again and again is one row: the last time, and how often.
    pub rows: Vec<Notable>,
    pub times: Vec<usize>,
    /// How many rows are above those in sight.
    pub first: usize,
    pub listed: usize,
    pub cursor: Option<usize>,
    /// Entries that were dropped for lack of room.
    pub left_out: u64,
    /// Since when nothing is missing.
    pub since: Option<Time>,
    /// The lock of the selected entry is still known.
    known: bool,
}

impl TimelineScene {
    pub fn selected(&self) -> Option<&Notable> {
        self.rows.get(self.cursor?.checked_sub(self.first)?)
    }
}

impl TimelinePage {
    pub(super) fn step(&mut self, by: isize) {
        self.steps = self.steps.saturating_add(by);
    }

    /// Another filter is in force.
    pub(super) fn match_anew(&mut self) {
        self.matching.clear();
        self.unmatched = 0;
    }

    /// The locks that the server took and that the operator has not seen, or has not dismissed.
    pub fn losses(&self) -> Option<&Losses> {
        self.losses.as_ref()
    }

    fn read_losses(&mut self, timeline: &Timeline) {
        for (_, entry) in timeline.from(self.unread) {
            let What::Lost { cause, locks, .. } = entry.what else { continue };
            if !cause.is_proven() {
                continue;
            }
            let new = Losses { locks: 0, at: entry.at, goes_on: false, causes: Vec::new() };
            let losses = self.losses.get_or_insert(new);
            losses.goes_on |= losses.locks > 0;
            losses.locks += locks;
            if !losses.causes.contains(&cause) {
                losses.causes.push(cause);
            }
        }
        self.unread = timeline.end();
    }
}

/// What makes two entries the same: the lock, and what happened to it.
type Same<'a> = (KeyspaceId, &'a Key, &'static str, Option<(State, State)>);

/// `None` for what is told each time: what concerns no lock, and what an operator did.
fn repeats(entry: &Notable) -> Option<Same<'_>> {
    let states = match &entry.what {
        What::State { from, to, .. } => Some((*from, *to)),
        What::Wrote { .. } => return None,
        _ => None,
    };
    Some((entry.space, entry.key.as_ref()?, entry.what.name(), states))
}

/// Each entry once, by its newest number and how often it came, in the order of the newest; and where each is.
fn fold<'a>(entries: impl Iterator<Item = (u64, &'a Notable)>) -> (Vec<(u64, usize)>, HashMap<Same<'a>, usize>) {
    let (mut folded, mut places): (Vec<(u64, usize)>, HashMap<Same<'a>, usize>) = Default::default();
    for (number, entry) in entries {
        match repeats(entry).map(|same| *places.entry(same).or_insert(folded.len())) {
            Some(at) if at < folded.len() => folded[at].1 += 1,
            _ => folded.push((number, 1)),
        }
    }
    (folded, places)
}

impl App {
    /// Whether the keys move in the timeline.
    pub fn in_timeline(&self) -> bool {
        self.page.screen == Screen::Events && self.page.opened.is_none() && !self.timeline.raw
    }

    pub(super) fn turn_raw(&mut self) {
        self.timeline.raw = !self.timeline.raw;
        self.page.scroll = 0;
    }

    pub(super) fn turn_since(&mut self, now: Time) {
        let at = SPANS.iter().position(|span| *span == self.timeline.since).unwrap_or(SPANS.len() - 1);
        self.show_since_or_all(SPANS[(at + 1) % SPANS.len()]);
        let span = self.timeline.since.map_or("hour".into(), |span| short_duration(span.as_millis() as u64));
        self.say(format!("what mattered in the last {span}"), now);
    }

    /// Shows what mattered in the last `since`.
    pub(super) fn show_since(&mut self, since: Duration) {
        self.show_since_or_all(Some(since));
    }

    fn show_since_or_all(&mut self, since: Option<Duration>) {
        self.show(Screen::Events);
        (self.timeline.raw, self.timeline.since, self.timeline.selected) = (false, since, None);
    }

    pub(super) fn dismiss_losses(&mut self, now: Time) {
        if self.timeline.losses.take().is_none() {
            self.say("there is nothing to dismiss: no locks were lost".into(), now);
        }
    }

    /// Opens the lock of the selected entry.
    pub(super) fn open_told(&mut self, now: Time) {
        let selected = self.scene.timeline.selected().filter(|_| !self.timeline.raw);
        let id = selected.and_then(|entry| Some(LockId { space: entry.space, key: entry.key.clone()? }));
        match id {
            Some(id) if self.scene.timeline.known => (self.page.opened, self.page.scroll) = (Some(id), 0),
            Some(id) => self.say(format!("{} is gone; this entry is all that is kept of it", id.key), now),
            None if self.timeline.raw => self.say("open works in the timeline; v shows it".into(), now),
            None if selected.is_none() => self.say("there is nothing to open".into(), now),
            None => self.say("this is not about one lock".into(), now),
        }
    }

    /// Takes in new entries, and composes those in sight.
    pub(super) fn see_timeline(&mut self, table: &Table, now: Time) {
        let timeline = table.timeline();
        self.timeline.read_losses(timeline);
        if self.page.screen != Screen::Events {
            return;
        }
        self.match_entries(table, now);
        let page = &mut self.timeline;
        let end = match self.display.paused {
            true => *page.paused_at.get_or_insert(timeline.end()),
            false => {
                page.paused_at = None;
                timeline.end()
            }
        };
        let at = self.scene.at;
        let young = |entry: &Notable| page.since.is_none_or(|since| at.since(entry.at) <= since);
        let entries = page.matching.iter().rev().filter(|number| **number < end);
        let entries = entries.filter_map(|number| Some((*number, timeline.get(*number)?)));
        let (folded, places) = fold(entries.filter(|(_, entry)| young(entry)));
        let shown: Vec<u64> = folded.iter().map(|(number, _)| *number).collect();
        // An entry that is gone leaves the selection to the next older one.
        let row = |selected: u64| {
            let same = timeline.get(selected).and_then(repeats).and_then(|same| places.get(&same).copied());
            same.or_else(|| shown.iter().position(|number| *number <= selected))
        };
        let selected = page.selected.and_then(row);
        let steps = std::mem::take(&mut page.steps);
        let last = shown.len().checked_sub(1);
        let cursor = last.map(|last| selected.unwrap_or(0).saturating_add_signed(steps).min(last));
        page.selected = cursor.filter(|cursor| *cursor > 0).map(|cursor| shown[cursor]);
        let scene = &mut self.scene.timeline;
        let rows = self.scene.page;
        let least = cursor.map_or(0, |cursor| (cursor + 1).saturating_sub(rows));
        scene.first = scene.first.min(cursor.unwrap_or(0)).max(least).min(shown.len().saturating_sub(rows));
        (scene.cursor, scene.listed) = (cursor, shown.len());
        let known = |number: &u64| {
            let entry = timeline.get(*number)?;
            let id = LockId { space: entry.space, key: entry.key.clone()? };
            table.lock_named(id.space, id.key.as_bytes()).filter(|_| self.page.opened.as_ref() != Some(&id)).map(|_| id)
        };
        if let (Some(cursor), Some(_)) = (cursor, &self.page.opened) {
            let mut after = shown.iter().enumerate().skip(cursor + 1);
            let mut before = shown.iter().enumerate().take(cursor).rev();
            let step = |at: usize| at as isize - cursor as isize;
            self.scene.beside = Beside {
                previous: before.find_map(|(at, number)| Some((known(number)?, step(at)))),
                next: after.find_map(|(at, number)| Some((known(number)?, step(at)))),
            };
        }
        let scene = &mut self.scene.timeline;
        let in_sight = shown.iter().skip(scene.first).take(rows);
        scene.rows = in_sight.filter_map(|number| timeline.get(*number)).cloned().collect();
        scene.times = folded.iter().skip(scene.first).take(rows).map(|(_, times)| *times).collect();
        (scene.left_out, scene.since) = (timeline.left_out(), timeline.since(at));
        scene.known = scene.selected().is_some_and(|entry| {
            entry.key.as_ref().is_some_and(|key| table.lock_named(entry.space, key.as_bytes()).is_some())
        });
    }

    /// Compares the new entries with the filter.
    fn match_entries(&mut self, table: &Table, now: Time) {
        let (timeline, page) = (table.timeline(), &mut self.timeline);
        while page.matching.front().is_some_and(|number| *number < timeline.first()) {
            page.matching.pop_front();
        }
        for (number, entry) in timeline.from(page.unmatched) {
            let passes = self.list.filter.as_ref().is_none_or(|filter| {
                let node = self.scene.nodes.iter().find(|node| node.id == entry.node).map_or("", |node| &node.name);
                let subject = Subject::of_notable(entry, table, now);
                subject.is_none_or(|subject| filter.matches(&subject.on_node(node)))
            });
            page.matching.extend(passes.then_some(number));
        }
        page.unmatched = timeline.end();
    }
}

#[cfg(test)]
mod tests;
