//! Asks every dialect and keeps the best reading, and the second where the best is a guess.

use serde::Deserializer;

use super::{Claim, Dialect, DialectId, Sight, Strength, all, counter};
use crate::base::glob::{BadGlob, Glob, Globs};
use crate::base::nearest;
use crate::base::serial::{self, Name};
use crate::base::time::{Time, Ttl};
use crate::lock::{Mode, RawValue, Token};

/// "Keys under this glob are locks of this dialect": from `--dialect NAME=GLOB` or the config.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub dialect: DialectId,
    pub glob: Glob,
}

/// Why a key is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Under a pattern that the user gave: a string there is a lock even if no library is recognised.
    Given,
    /// Under a pattern of a known library: a lock only if it reads as one.
    Default,
}

/// The best reading of a key.
#[derive(Clone, PartialEq, Debug)]
pub struct Best {
    pub dialect: DialectId,
    pub claim: Claim,
    pub second: Option<(DialectId, Strength)>,
}

/// Where to look for locks, and how to read what is found there.
#[derive(Clone, Debug)]
pub struct Recogniser {
    patterns: Globs,
    standing: Standing,
    mappings: Vec<Mapping>,
}

/// With the patterns of all known libraries.
impl Default for Recogniser {
    fn default() -> Recogniser {
        Recogniser::new(Vec::new(), Vec::new(), Vec::new())
    }
}

impl Recogniser {
    /// With the user's patterns or, if there are none, with those of all known libraries. The globs of the mappings are
    /// always included.
    pub fn new(given: Vec<Glob>, extra: Vec<Glob>, mappings: Vec<Mapping>) -> Recogniser {
        let standing = if given.is_empty() { Standing::Default } else { Standing::Given };
        let mut globs = given;
        if standing == Standing::Default {
            globs.extend(default_patterns());
            globs.extend(extra);
        }
        globs.extend(mappings.iter().map(|mapping| mapping.glob.clone()));
        Recogniser { patterns: Globs::new(globs).minimal(), standing, mappings }
    }

    /// The patterns to scan, without those that another one covers.
    pub fn patterns(&self) -> &Globs {
        &self.patterns
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether a key can be a lock by its name alone: under the patterns, and no library's helper.
    pub fn may_be_lock(&self, key: &[u8]) -> bool {
        self.patterns.matches(key) && !self.is_helper(key)
    }

    /// Whether a set of this name can be a lock: only few are, under names of their own.
    pub fn may_be_set(&self, key: &[u8]) -> bool {
        self.mapping(key).is_some() || all().iter().any(|dialect| dialect.keeps_sets(key))
    }

    /// Whether the key is a queue, a latch or another companion of some lock.
    pub fn is_helper(&self, key: &[u8]) -> bool {
        self.mapping(key).is_none() && all().iter().any(|dialect| dialect.is_helper(key))
    }

    /// The lock and the holder whose own lease this key is.
    pub fn lease_of(&self, key: &[u8]) -> Option<(Vec<u8>, Token)> {
        all().iter().find_map(|dialect| dialect.lease_of(key))
    }

    /// For a hash that holds other things too: which of its fields can be locks.
    pub fn field_hint(&self, key: &[u8]) -> Option<&'static str> {
        all().iter().find_map(|dialect| dialect.field_hint(key))
    }

    fn mapping(&self, key: &[u8]) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.glob.matches(key))
    }

    /// Reads a key as a lock, if it is one.
    pub fn read(&self, key: &[u8], value: &RawValue, ttl: Ttl, now: Time) -> Option<Best> {
        let mut sight = Sight { key, value, ttl, now, given: self.standing == Standing::Given, dialect_given: false };
        if let Some(mapping) = self.mapping(key) {
            sight.dialect_given = true;
            let claim = dialect(mapping.dialect).read(&sight)?;
            return Some(Best {
                dialect: mapping.dialect,
                claim: Claim { strength: Strength::Mapped, ..claim },
                second: None,
            });
        }
        if counter::is_tally(key, value) {
            return None;
        }
        let mut best: Option<(DialectId, Claim)> = None;
        let mut second: Option<(DialectId, Strength)> = None;
        for (id, dialect) in (0..).map(DialectId).zip(all()) {
            let Some(claim) = dialect.read(&sight) else { continue };
            // Of equals, the earlier in the table stays ahead.
            if best.as_ref().is_none_or(|(_, top)| claim.strength > top.strength) {
                second = best.map(|(id, claim)| (id, claim.strength));
                best = Some((id, claim));
            } else if second.is_none_or(|(_, next)| claim.strength > next) {
                second = Some((id, claim.strength));
            }
        }
        let (dialect, claim) = best?;
        if self.standing == Standing::Default && claim.strength < Strength::LEAST {
            return None;
        }
        let second = second.filter(|_| claim.strength < Strength::Sure);
        Some(Best { dialect, claim, second })
    }

    /// A number that counts, unless its library is known: of permits left, the counter of a semaphore, and where it has a
    /// TTL, of permits in use. Nobody holds it.
    pub fn read_counter(&self, best: Best, key: &[u8], value: &RawValue, ttl: Ttl, now: Time) -> Best {
        if ttl != Ttl::Never && best.claim.strength < Strength::Sure {
            return Best { claim: Claim { mode: Mode::Permit, holders: Vec::new(), ..best.claim }, ..best };
        }
        let semaphore = by_name("redisson-semaphore").filter(|_| best.claim.strength < Strength::Sure);
        let claim = semaphore.and_then(|id| Some((id, self.claim_as(id, key, value, ttl, now)?)));
        match claim {
            Some((dialect, claim)) => {
                let second = Some((best.dialect, best.claim.strength));
                Best { dialect, claim: Claim { strength: Strength::Likely, ..claim }, second }
            }
            None => best,
        }
    }

    /// Decodes again a value that was read as a lock of this dialect before. It stays one, even if the TTL that helped
    /// to recognise it has changed.
    pub fn claim_as(&self, id: DialectId, key: &[u8], value: &RawValue, ttl: Ttl, now: Time) -> Option<Claim> {
        dialect(id).read(&Sight { key, value, ttl, now, given: self.standing == Standing::Given, dialect_given: true })
    }
}

/// The dialect behind an id.
pub fn dialect(id: DialectId) -> &'static dyn Dialect {
    all()[id.0 as usize]
}

/// The dialect of that name.
pub fn by_name(name: &str) -> Option<DialectId> {
    all().iter().position(|dialect| dialect.name() == name).map(|index| DialectId(index as u8))
}

/// Reads a dialect's name back from a file.
pub fn known_name<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
    serial::name(from, "dialect", all().iter().map(|dialect| dialect.name()))
}

/// The patterns of all known libraries.
pub fn default_patterns() -> Vec<Glob> {
    let texts = all().iter().flat_map(|dialect| dialect.patterns().iter().copied());
    texts.map(|text| Glob::new(text).expect("a dialect's own pattern is a valid glob")).collect()
}

impl Mapping {
    /// Parses `NAME=GLOB`.
    pub fn parse(text: &str) -> Result<Mapping, BadMapping> {
        let (name, glob) = text.split_once('=').ok_or_else(|| BadMapping::Form(text.into()))?;
        let names = || all().iter().map(|dialect| dialect.name());
        let unknown = || BadMapping::Unknown { name: name.into(), hint: nearest::hint(name, names()) };
        let dialect = by_name(name).ok_or_else(unknown)?;
        Ok(Mapping { dialect, glob: Glob::new(glob)? })
    }
}

/// Why a `NAME=GLOB` can't be used.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum BadMapping {
    #[error("a dialect mapping is written NAME=GLOB, for example plain=job:*; got {0:?}")]
    Form(String),
    #[error("there is no dialect {name:?}{hint}; 'lockscope info' lists them all")]
    Unknown { name: String, hint: String },
    #[error(transparent)]
    Glob(#[from] BadGlob),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_a_lock_in_a_value_that_was_not_read() {
        let unread = RawValue::unread("string", "NOPERM");
        for value in [unread, RawValue::Other("stream".into()), RawValue::List { len: 1 }] {
            for dialect in all() {
                let globs = dialect.patterns().iter().map(|glob| glob.replace('*', "a"));
                for key in globs.chain(["lock:a".into()]) {
                    let (key, value, ttl) = (key.as_bytes(), &value, Ttl::Never);
                    let sight = Sight { key, value, ttl, now: Time(0), given: true, dialect_given: true };
                    assert_eq!(dialect.read(&sight), None, "{}", dialect.name());
                }
            }
        }
    }
}
