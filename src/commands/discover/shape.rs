//! The shape of a key's name: what stays the same from key to key, and `*` for what does not.
//!
//! Numbers, UUIDs, hex, random parts and bytes that can't be typed vary; everything else is kept. A shape is also a
//! pattern that can be typed and that matches its keys.

use std::borrow::Cow;

use crate::base::glob;
use crate::base::text;
use crate::dialects::shape::{is_decimal, is_mixed_case, is_uuid};

/// Names are always split at [`STRONG`], and at [`WEAK`] unless the whole part is random: base64 contains dashes.
const STRONG: &[u8] = b":/.|{}#=";
const WEAK: &[u8] = b"-_";
/// Longer parts do not name a keyspace, and longer names do not make a pattern.
const LONGEST_TEXT: usize = 64;
const MOST_PARTS: usize = 24;

/// How a part varies: in digits, in hex digits, or in any way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Variety {
    Number,
    Hex,
    Word,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Part {
    Text(Box<str>),
    Separator(u8),
    Any(Variety),
}

/// What the names of a keyspace have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape(Vec<Part>);

impl Shape {
    pub fn of(name: &[u8]) -> Shape {
        let mut parts = Vec::new();
        let mut rest = name;
        loop {
            let end = rest.iter().position(|byte| STRONG.contains(byte));
            push_segment(&rest[..end.unwrap_or(rest.len())], &mut parts);
            let Some(end) = end else { break };
            parts.push(Part::Separator(rest[end]));
            rest = &rest[end + 1..];
        }
        if parts.len() > MOST_PARTS {
            parts.truncate(MOST_PARTS);
            parts.push(Part::Any(Variety::Word));
        }
        Shape(parts)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The parts that are the same for all.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
    }

    /// The text at a position, if there is one.
    pub fn text_at(&self, position: usize) -> Option<&str> {
        match self.0.get(position) {
            Some(Part::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The same shape with anything at that position.
    pub fn open_at(&self, position: usize) -> Shape {
        let mut parts = self.0.clone();
        parts[position] = Part::Any(Variety::Word);
        Shape(parts)
    }

    /// The same shape with any number at the end of the text at that position, if it ends in one.
    pub fn numbered_at(&self, position: usize) -> Option<Shape> {
        let text = self.text_at(position)?;
        let stem = text.trim_end_matches(|c: char| c.is_ascii_digit());
        if stem.is_empty() || stem.len() == text.len() {
            return None;
        }
        let mut parts = self.0.clone();
        parts.splice(position..=position, [Part::Text(stem.into()), Part::Any(Variety::Number)]);
        Some(Shape(parts))
    }

    /// Any name that begins with the first text, if there is more than that.
    pub fn shortened(&self) -> Option<Shape> {
        let first = self.0.iter().position(|part| matches!(part, Part::Text(_)))?;
        let end = (first + 2).min(self.0.len() - 1);
        let mut parts = self.0.get(..end).filter(|head| head.len() > first)?.to_vec();
        parts.push(Part::Any(Variety::Word));
        Some(Shape(parts))
    }

    /// The union with a shape of the same pattern.
    pub fn widen(&mut self, other: &Shape) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            if let (Part::Any(ours), Part::Any(theirs)) = (ours, theirs) {
                *ours = (*ours).max(*theirs);
            }
        }
    }

    /// The glob of these names. It can be typed: texts have only printable characters.
    pub fn pattern(&self) -> String {
        self.render(|_| "*")
    }

    /// The same, narrowed by the first character of the varying parts.
    pub fn narrow_pattern(&self) -> String {
        self.render(|variety| match variety {
            Variety::Number => "[0-9]*",
            Variety::Hex => "[0-9a-fA-F]*",
            Variety::Word => "*",
        })
    }

    fn render(&self, any: impl Fn(Variety) -> &'static str) -> String {
        let escaped = |text: &str| String::from_utf8(glob::escape(text.as_bytes())).unwrap_or_default();
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => Cow::Owned(escaped(text)),
            Part::Separator(byte) => escaped(char::from(*byte).encode_utf8(&mut [0; 4])).into(),
            Part::Any(variety) => any(*variety).into(),
        });
        parts.collect()
    }
}

fn push_segment(segment: &[u8], parts: &mut Vec<Part>) {
    if segment.len() >= 16 && is_random_base64(segment) {
        parts.push(Part::Any(Variety::Word));
        return;
    }
    let mut rest = segment;
    while !rest.is_empty() {
        let ends_at = |at: usize| rest.get(at).is_none_or(|byte| WEAK.contains(byte));
        if rest.get(..36).is_some_and(is_uuid) && ends_at(36) {
            parts.push(Part::Any(Variety::Hex));
            rest = &rest[36..];
        } else if WEAK.contains(&rest[0]) {
            parts.push(Part::Separator(rest[0]));
            rest = &rest[1..];
        } else {
            let end = rest.iter().position(|byte| WEAK.contains(byte)).unwrap_or(rest.len());
            push_word(&rest[..end], parts);
            rest = &rest[end..];
        }
    }
}

fn push_word(word: &[u8], parts: &mut Vec<Part>) {
    let typed = std::str::from_utf8(word).ok().filter(|_| word.len() <= LONGEST_TEXT && text::is_plain(word));
    let Some(typed) = typed else {
        parts.push(Part::Any(Variety::Word));
        return;
    };
    let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    if is_decimal(word) {
        parts.push(Part::Any(Variety::Number));
    } else if word.len() >= 8 && word.iter().all(u8::is_ascii_hexdigit) && word.iter().any(u8::is_ascii_digit) {
        parts.push(Part::Any(Variety::Hex));
    } else if is_random(word) {
        parts.push(Part::Any(Variety::Word));
    } else if digits >= 3 {
        parts.push(Part::Text(typed[..typed.len() - digits].into()));
        parts.push(Part::Any(Variety::Number));
    } else {
        parts.push(Part::Text(typed.into()));
    }
}

/// Digits and letters alternate often, or cases mix: rare in names, and common in random text.
pub fn is_random(word: &[u8]) -> bool {
    if !word.iter().all(u8::is_ascii_alphanumeric) {
        return false;
    }
    let turns = word.windows(2).filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit()).count();
    (word.len() >= 8 && turns >= 3) || (word.len() >= 16 && has_random_case(word))
}

/// Only base64 characters, with digits and mixed case.
pub fn is_random_base64(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+/=".contains(byte);
    text.iter().all(allowed) && text.iter().any(u8::is_ascii_digit) && has_random_case(text)
}

/// About as many capitals as in random text.
fn has_random_case(text: &[u8]) -> bool {
    let letters = text.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let capitals = text.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    is_mixed_case(text) && capitals * 10 >= letters * 3 && capitals * 10 <= letters * 7
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::glob::Glob;
    use proptest::prelude::*;

    #[test]
    fn what_varies_becomes_a_star() {
        for (name, pattern) in [
            ("billing:guard:17", "billing:guard:*"),
            ("lock-3f2a8c00-1111-4222-8333-444455556666-x", "lock-*-x"),
            ("sess:3f2a8c0011114222", "sess:*"),
            ("sess:aB3-x_Y9QwErTy12Zz", "sess:*"),
            ("job-lock:default:nightly", "job-lock:default:nightly"),
            ("{order:17}:mutex", "{order:*}:mutex"),
            ("order1741/eu.west", "order*/eu.west"),
            ("api:v2:oauth2", "api:v2:oauth2"),
            ("facade:decade", "facade:decade"),
            ("sendWelcomeEmailToCustomers:1", "sendWelcomeEmailToCustomers:*"),
            ("a*b[c]:9", "a\\*b\\[c\\]:*"),
            ("eu-west-1-node-17", "eu-west-*-node-*"),
            ("锁:17", "锁:*"),
        ] {
            assert_eq!(Shape::of(name.as_bytes()).pattern(), pattern, "{name}");
        }
        assert_eq!(Shape::of(b"guard:\xff\x00:\x1b[2J").pattern(), "guard:*:*");
        assert_eq!(Shape::of(b"a:17:dead0123").narrow_pattern(), "a:[0-9]*:[0-9a-fA-F]*");
    }

    #[test]
    fn a_shape_is_shortened_to_its_first_text() {
        let shortened = |name: &str| Shape::of(name.as_bytes()).shortened().map(|shape| shape.pattern());
        assert_eq!(shortened("a:b:c"), Some("a:*".into()));
        assert_eq!(shortened("17:b:c"), Some("*:b:*".into()));
        assert_eq!(shortened("nightly"), None);
        assert_eq!(shortened("17"), None);
    }

    proptest! {
        #[test]
        fn every_name_matches_its_own_patterns(name in prop::collection::vec(any::<u8>(), 1..80)) {
            let shape = Shape::of(&name);
            for pattern in [shape.pattern(), shape.narrow_pattern()] {
                prop_assert!(text::is_plain(pattern.as_bytes()));
                prop_assert!(Glob::new(&pattern).unwrap().matches(&name), "{}", pattern);
            }
        }

        #[test]
        fn names_people_give_match_their_own_patterns(name in "[a-z0-9:_./\\-{}*\\[\\]^A-Z]{1,40}") {
            let shape = Shape::of(name.as_bytes());
            for pattern in [shape.pattern(), shape.narrow_pattern()] {
                prop_assert!(Glob::new(&pattern).unwrap().matches(name.as_bytes()), "{}", pattern);
            }
        }
    }
}
