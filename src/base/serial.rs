//! Forms for serde of what it can't keep by itself: exact floats, names out of a table, shared values.
//!
//! A float is kept as the shortest text that reads back the same, because JSON has no infinity and its readers may be off
//! by the last bit. A name from a table of ours is read back through that table.

use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// A name out of a table of ours. Not spelled as a reference, which serde would take for borrowed from its input.
pub type Name = &'static str;

/// Reads a name back; one that the table does not have is refused.
pub fn name<'de, D: Deserializer<'de>>(
    from: D,
    what: &str,
    table: impl Iterator<Item = Name>,
) -> Result<Name, D::Error> {
    let text = String::deserialize(from)?;
    let mut same = table.filter(|name| *name == text);
    same.next().ok_or_else(|| D::Error::custom(format!("there is no {what} {text:?}")))
}

/// A float in its exact form.
pub struct Exact(pub f64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&format_args!("{:?}", self.0))
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Exact, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Exact).map_err(|_| D::Error::custom(format!("{text:?} is no number")))
    }
}

pub mod float {
    use super::*;

    pub fn serialize<S: Serializer>(float: &f64, out: S) -> Result<S::Ok, S::Error> {
        Exact(*float).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Exact::deserialize(from).map(|exact| exact.0)
    }
}

pub mod optional_float {
    use super::*;

    pub fn serialize<S: Serializer>(float: &Option<f64>, out: S) -> Result<S::Ok, S::Error> {
        float.map(Exact).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Exact>::deserialize(from)?.map(|exact| exact.0))
    }
}

/// A value that several share: each that is read back has its own.
pub mod optional_shared {
    use super::*;

    pub fn serialize<T: Serialize, S: Serializer>(shared: &Option<Arc<T>>, out: S) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(out)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<T>>, D::Error> {
        Ok(Option::<T>::deserialize(from)?.map(Arc::new))
    }
}
