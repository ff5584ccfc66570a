//! Finds an entry of a list by the name of its group, without a second copy of the name.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::name::{GroupName, NameRef};

#[derive(Default)]
pub(super) struct Index {
    hasher: DefaultHashBuilder,
    places: HashTable<usize>,
}

impl Index {
    /// Where the group of that name is. `at`: the name at a place.
    pub fn find<'a>(&self, name: NameRef<'_>, at: impl Fn(usize) -> &'a GroupName) -> Option<usize> {
        self.places.find(self.hasher.hash_one(name), |place| at(*place).is(name)).copied()
    }

    /// A new name is at that place.
    pub fn insert<'a>(&mut self, place: usize, at: impl Fn(usize) -> &'a GroupName) {
        let hash = |place: usize| self.hasher.hash_one(at(place).as_ref());
        self.places.insert_unique(hash(place), place, |place| hash(*place));
    }
}
