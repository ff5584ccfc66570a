//! One thing that is wrong with a lock or with how it is used, with its sentence.

use serde::{Deserialize, Deserializer, Serialize};

use crate::base::serial::{self, Name};
use crate::model::findings;

/// What was found, and how sure that is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The word by which it is tuned and silenced, and which programs read: `dead-heads`.
    #[serde(deserialize_with = "known")]
    pub name: Name,
    /// With its numbers.
    pub sentence: String,
    /// 0 to 1.
    pub confidence: f32,
    /// What would settle it, if it is only suspected.
    pub settle: Option<String>,
}

fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
    serial::name(from, "finding", findings::names())
}
