//! The feed of lock changes: the newest [`FEED`]. A paused screen receives them when the pause ends.

use std::collections::VecDeque;

use super::{App, Screen};
use crate::base::time::Time;
use crate::filter::Subject;
use crate::model::Transition;

/// At most this many changes are kept.
pub(super) const FEED: usize = 2_000;

/// Lock changes, the newest last.
#[derive(Debug, Default)]
pub struct Feed {
    pub changes: VecDeque<Transition>,
    /// Changes received while the screen was paused.
    unseen: VecDeque<Transition>,
    /// Changes that were dropped because they came too fast.
    pub dropped: u64,
    /// When the first event of any kind came.
    pub(super) began: Option<Time>,
    /// Older changes were here and are not kept.
    forgot: bool,
}

impl App {
    pub(super) fn take_changes(&mut self, changes: Vec<Transition>, left_out: u64) {
        self.feed.dropped += left_out;
        if self.display.paused {
            self.feed.forgot |= keep_newest(&mut self.feed.unseen, changes);
        } else {
            self.feed_on(changes);
        }
    }

    /// Shows what was received during the pause.
    pub(super) fn catch_up(&mut self) {
        let unseen = std::mem::take(&mut self.feed.unseen);
        self.feed_on(unseen.into());
    }

    fn feed_on(&mut self, changes: Vec<Transition>) {
        // Keeps the lines that the user scrolled to in sight.
        if self.page.scroll > 0 && self.page.screen == Screen::Events && self.page.opened.is_none() {
            self.page.scroll += changes.iter().filter(|change| self.tells(change)).count();
        }
        self.feed.forgot |= keep_newest(&mut self.feed.changes, changes);
    }

    /// Since when every change that was seen is in the feed.
    pub fn fed_since(&self) -> Option<Time> {
        let oldest = self.feed.changes.front().filter(|_| self.feed.forgot).map(|change| change.at);
        oldest.or(self.feed.began)
    }

    /// Whether the filter lets the change into the feed.
    pub fn tells(&self, change: &Transition) -> bool {
        self.list.filter.as_ref().is_none_or(|filter| filter.matches(&Subject::of_change(change, None)))
    }
}

/// Returns whether older ones were dropped.
fn keep_newest(kept: &mut VecDeque<Transition>, changes: Vec<Transition>) -> bool {
    kept.extend(changes);
    let over = kept.len().saturating_sub(FEED);
    kept.drain(..over);
    over > 0
}
