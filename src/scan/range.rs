//! A part of the keyspace, and how far its walk has come: what was scanned, and what of that was read.
//!
//! The walker sends pages of names ahead; the reader settles them in the same order. An interrupted walk returns to the
//! oldest page that was not settled, so that no name is lost between the two.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Progress;

/// A part of the keyspace, by cursor. A standalone server counts cursors with their bits reversed, so the upper half of
/// the keyspace begins at cursor 1.
#[derive(Debug)]
pub(super) struct Range {
    /// The reversed cursor at which the next range begins.
    end: Option<u64>,
    place: Mutex<Place>,
}

/// Where a walk is.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    cursor: u64,
    /// Keys walked over and names sent up to here.
    walked: u64,
    matched: u64,
}

#[derive(Debug, Default)]
struct Place {
    at: Mark,
    /// The start of each page that was sent and is not settled, the oldest first.
    open: VecDeque<Mark>,
    /// The last page was read.
    read: bool,
}

impl Range {
    pub fn whole() -> Range {
        Range::from(0, None)
    }

    pub fn halves() -> Vec<Range> {
        let middle = 1u64 << 63;
        vec![Range::from(0, Some(middle)), Range::from(middle.reverse_bits(), None)]
    }

    fn from(cursor: u64, end: Option<u64>) -> Range {
        let at = Mark { cursor, ..Mark::default() };
        Range { end, place: Mutex::new(Place { at, ..Place::default() }) }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next cursor; `None` after the last page.
    pub fn next(&self) -> Option<u64> {
        let place = self.place();
        (!place.read).then_some(place.at.cursor)
    }

    /// The last page was scanned, and all pages are settled.
    pub fn is_done(&self) -> bool {
        let place = self.place();
        place.read && place.open.is_empty()
    }

    /// Keys walked over and settled.
    pub fn settled(&self) -> u64 {
        let place = self.place();
        place.open.front().unwrap_or(&place.at).walked
    }

    /// Call this before the names of a page are sent.
    pub fn hand_on(&self) {
        let mut place = self.place();
        let at = place.at;
        place.open.push_back(at);
    }

    /// The page was scanned, and its names, if any, were sent.
    pub fn move_to(&self, cursor: u64, walked: u64, matched: u64) {
        let mut place = self.place();
        place.at = Mark { cursor, walked: place.at.walked + walked, matched: place.at.matched + matched };
        place.read = cursor == 0 || self.end.is_some_and(|end| cursor.reverse_bits() >= end);
    }

    /// Ends the walk here.
    pub fn stop(&self) {
        self.place().read = true;
    }

    /// All names of the oldest page were read.
    pub fn settle(&self) {
        self.place().open.pop_front();
    }

    /// Returns to the oldest page that was not settled. Keys that will be walked again are not counted twice.
    pub fn go_back(&self, progress: &Progress) {
        let mut place = self.place();
        if let Some(oldest) = place.open.front().copied() {
            progress.walked.fetch_sub(place.at.walked - oldest.walked, Ordering::Relaxed);
            progress.matched.fetch_sub(place.at.matched - oldest.matched, Ordering::Relaxed);
            *place = Place { at: oldest, ..Place::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_was_cut_short_goes_back_to_what_was_not_looked_at() {
        let progress = Progress::default();
        let range = Range::whole();
        for cursor in [8, 4, 12, 0] {
            range.hand_on();
            range.move_to(cursor, 10, 3);
            progress.walked.fetch_add(10, Ordering::Relaxed);
            progress.matched.fetch_add(3, Ordering::Relaxed);
        }
        assert_eq!((range.next(), range.is_done()), (None, false), "read, and not looked at");
        range.settle();
        range.settle();
        assert_eq!(range.settled(), 20);
        range.go_back(&progress);
        assert_eq!((range.next(), range.is_done()), (Some(4), false));
        let counted = (progress.walked.load(Ordering::Relaxed), progress.matched.load(Ordering::Relaxed));
        assert_eq!(counted, (20, 6));
        range.move_to(0, 20, 0);
        assert!(range.is_done());
    }

    #[test]
    fn pages_without_names_are_not_walked_again() {
        let (progress, range) = (Progress::default(), Range::whole());
        range.move_to(8, 10, 0);
        range.go_back(&progress);
        assert_eq!(range.next(), Some(8));
    }

    #[test]
    fn halves_meet_in_the_middle() {
        let [lower, upper] = <[Range; 2]>::try_from(Range::halves()).unwrap();
        assert_eq!((lower.next(), upper.next()), (Some(0), Some(1)));
        lower.move_to(1, 1, 0);
        upper.move_to(0, 1, 0);
        assert!(lower.is_done() && upper.is_done());
    }
}
