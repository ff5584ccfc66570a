//! `notify-keyspace-events`: which events the server sends, what we miss without them, and which setting to advise.
//!
//! While `A` is set, CONFIG GET does not show `n`: whether the server sends events for new keys is then unknown.

use super::version::Product;

/// The letters of a `notify-keyspace-events` setting, from CONFIG GET.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFlags(String);

/// A class of events that locks need and that is not on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    pub letter: char,
    /// What we miss without it, as a clause.
    pub lost: &'static str,
    /// Without it, notifications are not enough to follow locks.
    pub needed: bool,
    /// `false`: it may be on; the server does not say.
    pub sure: bool,
}

/// How much of what happens to locks the notifications report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Coverage {
    Full,
    Partial(Vec<Gap>),
    None,
}

impl Coverage {
    /// Whether following locks by notifications alone is sound.
    pub fn is_enough(&self) -> bool {
        match self {
            Coverage::Full => true,
            Coverage::Partial(gaps) => gaps.iter().all(|gap| !gap.needed),
            Coverage::None => false,
        }
    }
}

/// Letter, whether it is needed, and what we miss without it.
const CLASSES: [(char, bool, &str); 10] = [
    ('K', true, "events by key, which is what lockscope subscribes to"),
    ('g', true, "releases (del) and renewals (expire)"),
    ('$', true, "string locks being taken (set)"),
    ('h', true, "hash locks being taken (hset, hincrby)"),
    ('x', true, "locks that run out (expired)"),
    ('z', false, "locks kept in sorted sets"),
    ('s', false, "locks kept in sets"),
    ('l', false, "queues of waiters"),
    ('e', false, "locks dropped because memory is full (evicted)"),
    ('n', false, "new keys, so an acquire may look like a renewal"),
];

/// What `A` stands for.
const ALL: &str = "g$lshzxetd";
/// The order in which servers print the letters.
const ORDER: &str = "Ag$lshzxetdmnKE";

impl EventFlags {
    /// Takes any text. Unknown letters are kept, since a newer server may know them.
    pub fn parse(text: &str) -> EventFlags {
        let mut letters = String::new();
        for letter in text.chars().filter(char::is_ascii_graphic) {
            if !letters.contains(letter) {
                letters.push(letter);
            }
        }
        EventFlags(letters)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this class is on, by its own letter or by `A`.
    pub fn has(&self, letter: char) -> bool {
        self.0.contains(letter) || (self.0.contains('A') && ALL.contains(letter))
    }

    /// The server sends nothing: no class is on, or no channel.
    pub fn is_off(&self) -> bool {
        !(self.has('K') || self.has('E')) || !self.0.chars().any(|letter| !matches!(letter, 'K' | 'E'))
    }

    /// Where `product` is unknown, `n` is neither missed nor advised, since an old server refuses it.
    pub fn covers_locks(&self, product: Option<&Product>) -> Coverage {
        if self.is_off() || !self.has('K') {
            return Coverage::None;
        }
        let gaps: Vec<Gap> = CLASSES
            .iter()
            .filter(|(letter, _, _)| *letter != 'n' || sends_new(product))
            .filter(|(letter, _, _)| !self.has(*letter))
            .map(|&(letter, needed, lost)| Gap { letter, lost, needed, sure: letter != 'n' || !self.has('A') })
            .collect();
        if gaps.is_empty() { Coverage::Full } else { Coverage::Partial(gaps) }
    }

    /// The setting to advise: what is on now, and what locks need on this server.
    pub fn wanted(&self, product: Option<&Product>) -> String {
        let wanted =
            |letter: char| CLASSES.iter().any(|class| class.0 == letter) && (letter != 'n' || sends_new(product));
        let all = self.0.contains('A');
        let known = ORDER.chars().filter(|&letter| {
            let implied = all && ALL.contains(letter);
            !implied && (self.0.contains(letter) || wanted(letter))
        });
        let unknown = self.0.chars().filter(|letter| !ORDER.contains(*letter));
        known.chain(unknown).collect()
    }
}

fn sends_new(product: Option<&Product>) -> bool {
    product.is_some_and(Product::sends_new_key_events)
}

#[cfg(test)]
mod tests {
    use super::super::version::{Flavor, Version};
    use super::*;
    use proptest::prelude::*;

    fn redis(major: u32, minor: u32) -> Product {
        let version = Version(major, minor, 0);
        Product { flavor: Flavor::Redis, version, compatible: version }
    }

    fn letters(flags: &str) -> String {
        match EventFlags::parse(flags).covers_locks(Some(&redis(7, 0))) {
            Coverage::Full => "full".into(),
            Coverage::None => "none".into(),
            Coverage::Partial(gaps) => gaps.iter().map(|gap| gap.letter).collect(),
        }
    }

    #[test]
    fn off_is_off_whichever_way() {
        for flags in ["", "K", "KE", "gx", "A", "E", "Ex", "AE"] {
            assert_eq!(letters(flags), "none", "{flags}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(letters("Kg$lshzxen"), "full");
        assert_eq!(letters("Kg$hxn"), "zsle");
        assert_eq!(letters("KEx"), "g$hzslen");
        assert!(!EventFlags::parse("KEx").covers_locks(Some(&redis(7, 0))).is_enough());
        assert!(EventFlags::parse("Kg$hx").covers_locks(Some(&redis(7, 0))).is_enough());
    }

    #[test]
    fn new_key_events_hide_behind_a() {
        let Coverage::Partial(gaps) = EventFlags::parse("AKE").covers_locks(Some(&redis(7, 0))) else { panic!() };
        assert_eq!((gaps.len(), gaps[0].letter, gaps[0].sure), (1, 'n', false));
        assert_eq!(EventFlags::parse("AKE").covers_locks(Some(&redis(6, 2))), Coverage::Full, "6.2 has no n");
    }

    #[test]
    fn the_advice_keeps_what_is_there() {
        assert_eq!(EventFlags::parse("").wanted(Some(&redis(7, 0))), "g$lshzxenK");
        assert_eq!(EventFlags::parse("").wanted(Some(&redis(6, 2))), "g$lshzxeK");
        assert_eq!(EventFlags::parse("Ex").wanted(Some(&redis(7, 0))), "g$lshzxenKE");
        assert_eq!(EventFlags::parse("AKEm").wanted(Some(&redis(7, 0))), "AmnKE");
        assert_eq!(EventFlags::parse("Kgo").wanted(Some(&redis(8, 2))), "g$lshzxenKo", "a letter of a newer server");
    }

    proptest! {
        #[test]
        fn the_advice_is_always_enough_and_never_takes_away(flags in "\\PC{0,20}") {
            let now = EventFlags::parse(&flags);
            for product in [redis(6, 2), redis(7, 0)] {
                let then = EventFlags::parse(&now.wanted(Some(&product)));
                prop_assert!(then.covers_locks(Some(&product)).is_enough());
                prop_assert!(now.as_str().chars().all(|letter| then.has(letter)));
            }
        }
    }
}
