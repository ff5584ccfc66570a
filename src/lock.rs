//! The nouns that a dialect reads and the model keeps: key, holder, value, slot. Pure.

mod holder;
mod key;
mod slot;
mod value;

pub use holder::{Holder, Instance, Kind, Mode, Token};
pub use key::{Key, KeyspaceId, NodeId};
pub use slot::{SLOTS, slot_of};
pub use value::{Bytes, Pair, RawValue};
