//! The nouns that a dialect reads and the model keeps: key, holder, value. Pure.

mod holder;
mod key;
mod value;

pub use holder::{Holder, Instance, Kind, Mode, Token};
pub use key::{Key, KeyspaceId, NodeId};
pub use value::{Bytes, Pair, RawValue};
