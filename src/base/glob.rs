//! Redis globs, matched here the way the server matches them.
//!
//! One walk of the keyspace serves any number of patterns, so the matching is done on our side: all patterns of a
//! [`Globs`] are compiled into one automaton. It also knows which patterns are covered by others, and the literal
//! prefix of each, so that subscriptions can be as narrow as the patterns allow.

use regex::bytes::{Regex, RegexBuilder};

/// One glob: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, `\x`.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    pieces: Vec<Piece>,
    regex: Regex,
}

#[derive(Clone, PartialEq, Debug)]
enum Piece {
    Literal(u8),
    Any,
    One,
    Class { negated: bool, ranges: Vec<(u8, u8)> },
}

/// Why a glob can't be used, as a sentence.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("the pattern {text:?} {why}")]
pub struct BadGlob {
    pub text: String,
    pub why: String,
}

impl Glob {
    pub fn new(text: &str) -> Result<Glob, BadGlob> {
        let pieces = parse(text.as_bytes()).map_err(|why| BadGlob { text: text.into(), why: why.into() })?;
        let regex = compile(&format!("^{}$", regex_of(&pieces)))
            .map_err(|_| BadGlob { text: text.into(), why: "is too large".into() })?;
        Ok(Glob { text: text.into(), pieces, regex })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, key: &[u8]) -> bool {
        self.regex.is_match(key)
    }

    /// The bytes every matching key starts with.
    pub fn literal_prefix(&self) -> Vec<u8> {
        self.pieces
            .iter()
            .map_while(|piece| match piece {
                Piece::Literal(byte) => Some(*byte),
                _ => None,
            })
            .collect()
    }

    /// Whether every key that matches `other` matches this one. A cheap test: a "yes" is always right, a "no" may be
    /// wrong. `*core*` covers every glob that contains the core literally.
    pub fn covers(&self, other: &Glob) -> bool {
        if self.text == other.text || self.text == "*" {
            return true;
        }
        let [Piece::Any, core @ .., Piece::Any] = self.pieces.as_slice() else { return false };
        let definite = |piece: &Piece| matches!(piece, Piece::Literal(_) | Piece::Class { negated: false, .. });
        if core.is_empty() || !core.iter().all(definite) {
            return false;
        }
        other
            .pieces
            .windows(core.len())
            .any(|window| window.iter().zip(core).all(|(theirs, ours)| narrower(theirs, ours)))
    }
}

/// Whether one position of a pattern matches only bytes that another's matches.
fn narrower(theirs: &Piece, ours: &Piece) -> bool {
    let ours: &[(u8, u8)] = match ours {
        Piece::Literal(byte) => &[(*byte, *byte)],
        Piece::Class { negated: false, ranges } => ranges,
        _ => return false,
    };
    let within = |byte: u8| ours.iter().any(|&(low, high)| (low..=high).contains(&byte));
    match theirs {
        Piece::Literal(byte) => within(*byte),
        Piece::Class { negated: false, ranges } => ranges.iter().all(|&(low, high)| (low..=high).all(within)),
        _ => false,
    }
}

/// Several globs, compiled into one: does any of them match?
#[derive(Clone, Debug)]
pub struct Globs {
    globs: Vec<Glob>,
    any: Option<Regex>,
}

impl Globs {
    pub fn new(globs: Vec<Glob>) -> Globs {
        let any = (!globs.is_empty())
            .then(|| {
                let alternatives: Vec<String> = globs.iter().map(|glob| regex_of(&glob.pieces)).collect();
                compile(&format!("^(?:{})$", alternatives.join("|"))).ok()
            })
            .flatten();
        Globs { globs, any }
    }

    /// The same set without the globs that another glob in it covers.
    pub fn minimal(self) -> Globs {
        let mut kept: Vec<Glob> = Vec::new();
        for (i, glob) in self.globs.iter().enumerate() {
            let covered = self
                .globs
                .iter()
                .enumerate()
                .any(|(j, other)| j != i && other.covers(glob) && !(glob.covers(other) && i < j));
            if !covered {
                kept.push(glob.clone());
            }
        }
        Globs::new(kept)
    }

    pub fn matches(&self, key: &[u8]) -> bool {
        match &self.any {
            Some(any) => any.is_match(key),
            None => self.globs.iter().any(|glob| glob.matches(key)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Glob> {
        self.globs.iter()
    }

    pub fn len(&self) -> usize {
        self.globs.len()
    }
}

/// A key as a glob that matches nothing but this key.
pub fn escape(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len());
    for &byte in key {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

fn compile(regex: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(regex).unicode(false).dot_matches_new_line(true).size_limit(8 << 20).build()
}

fn parse(text: &[u8]) -> Result<Vec<Piece>, &'static str> {
    if text.is_empty() {
        return Err("is empty; '*' matches every key");
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'*' => {
                if pieces.last() != Some(&Piece::Any) {
                    pieces.push(Piece::Any);
                }
            }
            b'?' => pieces.push(Piece::One),
            b'\\' => {
                let [byte, tail @ ..] = rest else {
                    return Err("ends in a lone backslash; write '\\\\' for a backslash");
                };
                pieces.push(Piece::Literal(*byte));
                rest = tail;
            }
            b'[' => {
                let (class, tail) = parse_class(rest)?;
                pieces.push(class);
                rest = tail;
            }
            byte => pieces.push(Piece::Literal(*byte)),
        }
    }
    Ok(pieces)
}

fn parse_class(text: &[u8]) -> Result<(Piece, &[u8]), &'static str> {
    const OPEN: &str = "has a '[' that is never closed; write '\\[' for a bracket";
    let (negated, mut rest) = match text {
        [b'^', tail @ ..] => (true, tail),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        match rest {
            [] => return Err(OPEN),
            [b']', tail @ ..] => return Ok((Piece::Class { negated, ranges }, tail)),
            [b'\\', byte, tail @ ..] => {
                ranges.push((*byte, *byte));
                rest = tail;
            }
            [from, b'-', to, tail @ ..] if *to != b']' => {
                ranges.push((*from.min(to), *from.max(to)));
                rest = tail;
            }
            [byte, tail @ ..] => {
                ranges.push((*byte, *byte));
                rest = tail;
            }
        }
    }
}

fn regex_of(pieces: &[Piece]) -> String {
    use std::fmt::Write;
    let mut out = String::from("(?s-u:");
    for piece in pieces {
        match piece {
            Piece::Literal(byte) => {
                let _ = write!(out, "\\x{byte:02x}");
            }
            Piece::Any => out.push_str(".*"),
            Piece::One => out.push('.'),
            // An empty class matches nothing, a negated empty one anything, as on the server.
            Piece::Class { negated: false, ranges } if ranges.is_empty() => out.push_str("[^\\x00-\\xff]"),
            Piece::Class { negated: true, ranges } if ranges.is_empty() => out.push('.'),
            Piece::Class { negated, ranges } => {
                out.push_str(if *negated { "[^" } else { "[" });
                for (low, high) in ranges {
                    let _ = write!(out, "\\x{low:02x}-\\x{high:02x}");
                }
                out.push(']');
            }
        }
    }
    out.push(')');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: &[&str]) -> Globs {
        Globs::new(texts.iter().map(|text| Glob::new(text).unwrap()).collect())
    }

    #[test]
    fn matches_as_the_server_does() {
        for (pattern, key, expected) in [
            ("lock:*", &b"lock:a"[..], true),
            ("lock:*", b"block:a", false),
            ("l?ck", b"lock", true),
            ("l[oa]ck", b"lack", true),
            ("l[^o]ck", b"lock", false),
            ("l[a-p]ck", b"lock", true),
            ("a\\*b", b"a*b", true),
            ("a\\*b", b"axb", false),
            ("*", b"\xff\x00\n", true),
            ("a.c", b"abc", false),
            ("lock:?", "lock:é".as_bytes(), false),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches(key), expected, "{pattern} on {key:?}");
            assert_eq!(globs(&[pattern]).matches(key), expected, "{pattern} on {key:?} in a set");
        }
    }

    #[test]
    fn a_bad_pattern_says_what_is_wrong() {
        assert!(Glob::new("lock[").unwrap_err().to_string().contains("never closed"));
        assert!(Glob::new("").unwrap_err().to_string().contains("empty"));
        assert!(Glob::new("a\\").unwrap_err().to_string().contains("backslash"));
    }

    #[test]
    fn covered_patterns_are_left_out() {
        let set =
            globs(&["lock:*", "*[Ll][Oo][Cc][Kk]*", "redlock:*", "uniquejobs:*", "SINGLETONLOCK_*", "uniquejobs:*"])
                .minimal();
        let left: Vec<&str> = set.iter().map(Glob::as_str).collect();
        assert_eq!(left, ["*[Ll][Oo][Cc][Kk]*", "uniquejobs:*"]);
    }

    #[test]
    fn a_cover_is_never_claimed_wrongly() {
        assert!(!Glob::new("*lock*").unwrap().covers(&Glob::new("lo*ck").unwrap()));
        assert!(!Glob::new("*lock*").unwrap().covers(&Glob::new("LOCK*").unwrap()));
        assert!(!Glob::new("lock*").unwrap().covers(&Glob::new("lock:*").unwrap()), "not known is a no");
        assert!(Glob::new("*").unwrap().covers(&Glob::new("x").unwrap()));
    }

    #[test]
    fn an_escaped_key_matches_itself_only() {
        let key = b"a*[b]?\\^";
        let glob = Glob::new(std::str::from_utf8(&escape(key)).unwrap()).unwrap();
        assert!(glob.matches(key));
        assert!(!glob.matches(b"aXXbX?\\^"));
    }

    #[test]
    fn the_literal_prefix_ends_at_the_first_wildcard() {
        assert_eq!(Glob::new("lock:\\*a?b").unwrap().literal_prefix(), b"lock:*a");
        assert_eq!(Glob::new("*x").unwrap().literal_prefix(), b"");
    }
}
