//! Groups names by their shape, in bounded memory.
//!
//! Ids that are words (`cart:alice`) make one shape each; many small shapes that differ in one place are folded into
//! one. If there are still too many, further names are grouped by their prefix.

use std::collections::HashMap;

use super::shape::Shape;
use super::words;
use crate::lock::{Key, NodeId};

/// At most this many shapes are kept.
const MOST: usize = 10_000;
/// Names kept per shape, to be read.
pub const SAMPLES: usize = 20;
/// Longer names are only counted.
const LONGEST_NAME: usize = 1024;
/// A text in a name is an id if at least [`MANY`] shapes differ only in it, each with at most [`FEW`] keys.
const MANY: usize = 12;
const FEW: u64 = 3;
/// At least this many texts that differ only in a final number are a series: `tenant1`, `tenant2`, `tenant3`.
const SERIES: usize = 3;

/// The keys of one shape.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub keys: u64,
    pub samples: Vec<(NodeId, Key)>,
}

impl Group {
    fn take(&mut self, other: Group) {
        self.keys += other.keys;
        let room = SAMPLES.saturating_sub(self.samples.len());
        self.samples.extend(other.samples.into_iter().take(room));
    }
}

#[derive(Debug, Default)]
pub struct Groups {
    groups: HashMap<Shape, Group>,
    /// Folding no longer helps.
    full: bool,
    /// Keys that fitted nowhere.
    left_out: u64,
}

impl Groups {
    pub fn add(&mut self, node: NodeId, name: &[u8]) {
        let mut shape = Shape::of(name);
        if !self.groups.contains_key(&shape) && self.groups.len() >= MOST {
            if !self.full {
                self.fold();
                self.full = self.groups.len() > MOST / 2;
            }
            if self.full {
                shape = shape.shortened().unwrap_or(shape);
            }
            // Prefixes get a little extra room.
            if !self.groups.contains_key(&shape) && self.groups.len() >= MOST + MOST / 10 {
                self.left_out += 1;
                return;
            }
        }
        let group = self.groups.entry(shape).or_default();
        group.keys += 1;
        if group.samples.len() < SAMPLES && name.len() <= LONGEST_NAME {
            group.samples.push((node, Key::from(name)));
        }
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// One group for each pattern, in the order of the patterns.
    pub fn finish(mut self) -> Vec<(Shape, Group)> {
        self.fold();
        let mut by_pattern: HashMap<String, (Shape, Group)> = HashMap::new();
        for (shape, group) in self.groups {
            match by_pattern.get_mut(&shape.pattern()) {
                Some((kept, all)) => {
                    kept.widen(&shape);
                    all.take(group);
                }
                None => {
                    by_pattern.insert(shape.pattern(), (shape, group));
                }
            }
        }
        let mut groups: Vec<_> = by_pattern.into_iter().collect();
        groups.sort_by(|a, b| a.0.cmp(&b.0));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Folds groups that differ in only one text. Starts at the end, because names go from general to specific.
    fn fold(&mut self) {
        let longest = self.groups.keys().map(Shape::len).max().unwrap_or(0);
        for position in (0..longest).rev() {
            self.fold_by(SERIES, |shape, _| shape.numbered_at(position));
            self.fold_by(MANY, |shape, group| {
                let text = shape.text_at(position).filter(|_| group.keys <= FEW)?;
                let open = shape.open_at(position);
                // A word that suggests a lock is not an id, and a pattern needs more than stars.
                (words::of_a_lock(text).is_none() && open.texts().next().is_some()).then_some(open)
            });
        }
    }

    /// Folds groups with the same `wider` shape, if there are at least `least` of them or that shape already exists.
    fn fold_by(&mut self, least: usize, wider: impl Fn(&Shape, &Group) -> Option<Shape>) {
        let mut alike: HashMap<Shape, Vec<Shape>> = HashMap::new();
        for (shape, group) in &self.groups {
            if let Some(wider) = wider(shape, group) {
                alike.entry(wider).or_default().push(shape.clone());
            }
        }
        for (wider, shapes) in alike {
            if shapes.len() < least && !self.groups.contains_key(&wider) {
                continue;
            }
            for shape in shapes {
                let folded = self.groups.remove(&shape).unwrap_or_default();
                self.groups.entry(wider.clone()).or_default().take(folded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(names: impl IntoIterator<Item = String>) -> Vec<(String, u64)> {
        let mut groups = Groups::default();
        for name in names {
            groups.add(NodeId(0), name.as_bytes());
        }
        groups.finish().into_iter().map(|(shape, group)| (shape.pattern(), group.keys)).collect()
    }

    fn word(number: u32) -> String {
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'k')).collect()
    }

    #[test]
    fn ids_that_are_words_are_folded_and_keyspaces_are_not() {
        let ids = (0..40).map(|i| format!("cart:{}", word(i)));
        let spaces = ["a", "b"].into_iter().flat_map(|space| (0..40).map(move |i| format!("app:{space}:{i}")));
        let found = patterns(ids.chain(spaces));
        assert_eq!(found, [("app:a:*".into(), 40), ("app:b:*".into(), 40), ("cart:*".into(), 40)]);
    }

    #[test]
    fn a_series_is_one_keyspace_and_two_versions_are_two() {
        let series = (1..4).flat_map(|tenant| (0..9).map(move |i| format!("tenant{tenant}:{i}")));
        let found = patterns(series.chain((1..3).map(|version| format!("schema:v{version}"))));
        assert_eq!(found, [("schema:v1".into(), 1), ("schema:v2".into(), 1), ("tenant*:*".into(), 27)]);
    }

    #[test]
    fn a_word_of_locks_stays() {
        let found = patterns((0..40).map(|i| format!("app:{}", word(i))).chain(["app:guard".into()]));
        assert_eq!(found, [("app:*".into(), 40), ("app:guard".into(), 1)]);
    }

    #[test]
    fn numbers_and_words_in_one_place_are_one_keyspace() {
        let found = patterns((0..40).flat_map(|i| [format!("cart:{i}"), format!("cart:{}", word(i))]));
        assert_eq!(found, [("cart:*".into(), 80)]);
    }

    #[test]
    fn no_keyspace_makes_more_groups_than_there_may_be() {
        let mut groups = Groups::default();
        for i in 0..30_000 {
            groups.add(NodeId(0), format!("{}:{}x:{}y", word(i % 4), word(i), word(i)).as_bytes());
            groups.add(NodeId(0), word(i).as_bytes());
        }
        assert!(groups.groups.len() <= MOST + MOST / 10);
        let left_out = groups.left_out();
        let kept: u64 = groups.finish().iter().map(|(_, group)| group.keys).sum();
        assert_eq!(kept + left_out, 60_000);
    }
}
