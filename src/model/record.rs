//! The form in which observations, transitions and views of locks are written to a file and read back.
//!
//! The form is serde's; the writer of a file chooses JSON or something smaller. The version comes first, so that a
//! reader meets it before anything that it may not understand. Any change to a type inside that an older reader would
//! misread needs another [`VERSION`]. To replay a record, apply its observations to a new [`Table`](crate::model::Table)
//! with the same recogniser.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// An [`Observation`](crate::model::Observation), a [`Transition`](crate::model::Transition) or a
/// [`LockView`](crate::model::LockView) with the version of its form.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Record<T> {
    v: Version,
    pub of: T,
}

impl<T> Record<T> {
    pub fn new(of: T) -> Record<T> {
        Record { v: Version, of }
    }
}

/// Reads as [`VERSION`] and as nothing else.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        VERSION.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
        let version = u32::deserialize(from)?;
        let unknown = || format!("this record has version {version}, and this lockscope reads only version {VERSION}");
        (version == VERSION).then_some(Version).ok_or_else(|| D::Error::custom(unknown()))
    }
}

#[cfg(test)]
mod tests;
