//! The key prefixes for client-side caching broadcasts, none of which begins with another.

/// At most [`Prefixes::MOST`], none of them empty or the beginning of another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prefixes(Vec<Vec<u8>>);

impl Prefixes {
    pub const MOST: usize = 64;

    /// Adds a prefix. One that is already covered changes nothing; one that covers others replaces them. An empty one
    /// would mean every key of the server, and is left out.
    pub fn add(&mut self, prefix: &[u8]) {
        if prefix.is_empty() || self.covers(prefix) {
            return;
        }
        self.0.retain(|other| !other.starts_with(prefix));
        if self.0.len() < Self::MOST {
            self.0.push(prefix.to_vec());
        }
    }

    /// Adds the part of a key that it is likely to share with its siblings: up to the first colon, or all of it.
    pub fn add_of_key(&mut self, key: &[u8]) {
        let end = key.iter().position(|byte| *byte == b':').map_or(key.len(), |colon| colon + 1);
        self.add(&key[..end]);
    }

    pub fn covers(&self, key: &[u8]) -> bool {
        self.0.iter().any(|prefix| key.starts_with(prefix))
    }

    pub fn contains(&self, prefix: &[u8]) -> bool {
        self.iter().any(|own| own == prefix)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_shorter_prefix_takes_the_place_of_longer_ones() {
        let mut prefixes = Prefixes::default();
        prefixes.add(b"lock:a:");
        prefixes.add(b"lock:b:");
        prefixes.add(b"job:");
        prefixes.add(b"lock:");
        prefixes.add(b"lock:c:");
        prefixes.add(b"");
        assert_eq!(prefixes.iter().collect::<Vec<_>>(), [&b"job:"[..], b"lock:"]);
    }

    proptest! {
        #[test]
        fn prefixes_never_overlap(keys in prop::collection::vec(prop::collection::vec(b'a'..b'd', 0..5), 0..200)) {
            let mut prefixes = Prefixes::default();
            for key in &keys {
                prefixes.add(key);
            }
            prop_assert!(prefixes.0.len() <= Prefixes::MOST);
            for a in prefixes.iter() {
                prop_assert_eq!(prefixes.iter().filter(|b| a.starts_with(b)).count(), 1);
            }
        }
    }
}
