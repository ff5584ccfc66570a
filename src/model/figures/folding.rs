//! Which patterns have figures of their own: those that rules name, then the first come, up to a limit.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::{Figures, Pattern};
use crate::base::text::visible;
use crate::base::time::Time;
use crate::model::history::holds::GroupId;

/// The name under which all others are counted. A lock whose own pattern reads like this is counted here too.
pub const OTHER: &str = "other";
/// A pattern without a lock and without an event for so long is forgotten.
const UNUSED: Duration = Duration::from_secs(3_600);
/// Patterns beyond the groups are counted up to here.
const STRANGERS: usize = 10_000;

/// How patterns are folded.
#[derive(Clone)]
pub struct Folding {
    /// At most this many patterns have figures of their own.
    pub most: usize,
    /// Whether a pattern, as it is shown, comes before others.
    pub first: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Folding {
    /// How many it is where nobody says otherwise.
    pub const USUAL: usize = 200;
    /// More than this can't be asked for.
    pub const MOST: usize = 1_000;
}

impl Default for Folding {
    fn default() -> Folding {
        Folding { most: Folding::USUAL, first: Arc::new(|_| false) }
    }
}

impl fmt::Debug for Folding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folding").field("most", &self.most).finish_non_exhaustive()
    }
}

/// The place of a pattern. The first is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::model) struct PatternId(u16);

impl PatternId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    fn is_own(self) -> bool {
        self.0 > 0
    }
}

/// One group of names: whose figures it has.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    id: PatternId,
    /// Rules name it.
    first: bool,
    /// It was seen, and is not forgotten.
    used: Option<Time>,
}

#[derive(Debug, Default)]
pub(in crate::model) struct Places {
    folding: Folding,
    /// By group.
    places: Vec<Place>,
    own: usize,
    /// The part of them that rules do not name.
    unnamed: usize,
    strangers: Strangers,
}

/// Patterns that have not even a group, by hash: those of this hour, and those of the hour before.
#[derive(Debug, Default)]
struct Strangers {
    lately: HashSet<u64>,
    before: HashSet<u64>,
    since: Option<Time>,
    hasher: RandomState,
}

impl Strangers {
    fn note(&mut self, pattern: &[u8]) {
        let hash = self.hasher.hash_one(pattern);
        if self.lately.len() < STRANGERS {
            self.before.remove(&hash);
            self.lately.insert(hash);
        }
    }

    fn count(&self) -> usize {
        self.lately.len() + self.before.len()
    }

    fn age(&mut self, now: Time) {
        if now.since(*self.since.get_or_insert(now)) > UNUSED {
            (self.before, self.since) = (std::mem::take(&mut self.lately), Some(now));
        }
    }
}

impl Places {
    pub fn fold(&mut self, folding: Folding) {
        self.folding = Folding { most: folding.most.min(Folding::MOST), ..folding };
    }

    /// It has no place of its own, and could get one.
    pub fn may_be_admitted(&self, group: GroupId) -> bool {
        let place = self.places.get(group.index()).copied().unwrap_or_default();
        let room = self.own < self.folding.most || place.first && self.unnamed > 0;
        group != GroupId::default() && !place.id.is_own() && room
    }

    pub fn of(&self, group: GroupId) -> PatternId {
        self.places.get(group.index()).map_or(PatternId::default(), |place| place.id)
    }

    pub fn folded(&self) -> usize {
        let shared = self.places.iter().filter(|place| place.used.is_some() && !place.id.is_own()).count();
        shared + self.strangers.count()
    }

    /// Whether rules name a pattern, as it is shown.
    fn is_first(&self, name: &str) -> bool {
        (self.folding.first)(name)
    }

    fn place(&mut self, group: GroupId) -> &mut Place {
        if self.places.len() <= group.index() {
            self.places.resize(group.index() + 1, Place::default());
        }
        &mut self.places[group.index()]
    }
}

impl Figures {
    /// Whether a pattern gets a group though there is no room for more: if rules name it. Others are only counted.
    pub fn lets_in(&mut self, pattern: &[u8]) -> bool {
        let first = self.places.is_first(&visible(pattern));
        if !first {
            self.places.strangers.note(pattern);
        }
        first
    }

    /// The place of a group whose pattern has this name. It gets its own if there is room, or if rules name it and another
    /// one's place can be had: that of the last come that they do not name.
    pub fn admit(&mut self, group: GroupId, name: &[u8], now: Time) -> PatternId {
        if group == GroupId::default() {
            return PatternId::default();
        }
        let place = *self.places.place(group);
        // For most, this is all: it is asked at every event.
        if place.id.is_own() || place.used.is_some() && !self.places.may_be_admitted(group) {
            self.note_used(group, now);
            return place.id;
        }
        let name = visible(name);
        let first = match place.used {
            Some(_) => place.first,
            None => self.places.is_first(&name),
        };
        let nameless = name.is_empty() || name == OTHER;
        let id = if nameless { None } else { self.room().or_else(|| self.displace(first)) };
        let place = self.places.place(group);
        (place.first, place.used) = (first, place.used.max(Some(now)));
        let Some(id) = id else { return PatternId::default() };
        place.id = id;
        self.places.own += 1;
        self.places.unnamed += usize::from(!first);
        self.patterns[id.index()] = Some(Pattern::new(name.into(), now));
        id
    }

    fn room(&mut self) -> Option<PatternId> {
        if self.places.own >= self.places.folding.most {
            return None;
        }
        let free = self.patterns.iter().position(Option::is_none).unwrap_or_else(|| {
            self.patterns.push(None);
            self.patterns.len() - 1
        });
        Some(PatternId(free as u16))
    }

    /// Takes the place of the last come that rules do not name, for one that they do.
    fn displace(&mut self, first: bool) -> Option<PatternId> {
        let came = |place: &Place| self.patterns[place.id.index()].as_ref().map(|pattern| pattern.since);
        let unnamed = self.places.places.iter().enumerate().filter(|(_, place)| place.id.is_own() && !place.first);
        let (last, _) = unnamed.filter(|_| first).max_by_key(|(group, place)| (came(place), *group))?;
        Some(self.vacate(last))
    }

    fn vacate(&mut self, group: usize) -> PatternId {
        let place = &mut self.places.places[group];
        let id = std::mem::take(&mut place.id);
        self.places.unnamed -= usize::from(!place.first);
        self.places.own -= 1;
        self.patterns[id.index()] = None;
        self.round.drop(id);
        id
    }

    /// A round is over: forgets patterns that nobody uses any more.
    pub fn forget_unused(&mut self, now: Time) {
        self.places.strangers.age(now);
        for group in 0..self.places.places.len() {
            let place = self.places.places[group];
            if place.used.is_some_and(|used| now.since(used) > UNUSED) {
                self.places.places[group].used = None;
                if place.id.is_own() {
                    self.vacate(group);
                }
            }
        }
    }

    /// A lock of this group is held now.
    pub fn note_used(&mut self, group: GroupId, now: Time) {
        if let Some(place) = self.places.places.get_mut(group.index()) {
            place.used = place.used.max(Some(now));
        }
    }
}
