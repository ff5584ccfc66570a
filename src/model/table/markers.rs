//! Markers, the keys that say that work is done, and the locks whose work they mark: `completed:17` and `lock:17`.

use crate::lock::{Key, Kind};
use crate::model::Lock;
use crate::model::table::Table;
use crate::model::table::slots::LockRef;

/// At most this many prefixes of markers are kept.
const MOST: usize = 16;

/// The prefixes before the ids of markers: `completed:`.
#[derive(Default)]
pub(super) struct Markers(Vec<Box<[u8]>>);

impl Table {
    /// The key that marks the work of this lock as done, if it exists: `completed:17` for `lock:17`.
    pub(in crate::model) fn marker_of(&self, lock: &Lock) -> Option<&Lock> {
        let a_lock = lock.reading.is_some_and(|reading| reading.kind == Kind::Lock);
        let id = id_of(&lock.key).filter(|_| a_lock && !self.markers.0.is_empty())?;
        let mut key = Vec::new();
        self.markers.0.iter().find_map(|prefix| {
            key.clear();
            key.extend_from_slice(prefix);
            key.extend_from_slice(id);
            let marks = |lock: &&Lock| lock.reading.is_some_and(|reading| reading.kind == Kind::Marker);
            self.lock_named(lock.space, &key).filter(|lock| lock.is_held()).filter(marks)
        })
    }

    /// Sets what depends only on its name and never changes.
    pub(in crate::model) fn first_read(&mut self, place: LockRef) {
        self.find_group(place);
        let Some(lock) = self.slots.get_mut(place) else { return };
        if lock.reading.is_some_and(|reading| reading.kind == Kind::Marker)
            && let Some(id) = id_of(&lock.key)
        {
            let prefix = &lock.key.as_bytes()[..lock.key.as_bytes().len() - id.len()];
            if self.markers.0.len() < MOST && !self.markers.0.iter().any(|known| **known == *prefix) {
                self.markers.0.push(prefix.into());
            }
        }
    }

    /// Finds the group of its name, and a place for the figures of its pattern.
    pub(in crate::model) fn find_group(&mut self, place: LockRef) {
        let Some(lock) = self.slots.get_mut(place) else { return };
        lock.group = self.groups.group_of(lock.key.as_bytes(), |pattern| self.figures.lets_in(pattern));
        self.figures.admit(lock.group, self.groups.get(lock.group).pattern(), lock.confirmed);
    }
}

/// The part after the first colon.
pub(in crate::model) fn id_of(key: &Key) -> Option<&[u8]> {
    let bytes = key.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some(&bytes[colon + 1..]).filter(|id| !id.is_empty())
}
