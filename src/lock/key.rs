//! Names: a lock's key (any bytes), its keyspace, and the node where it is now.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::text;

/// The bytes of a Redis key, which may be any bytes. Shown only through [`text::visible`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key(Box<[u8]>);

impl Key {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Key(bytes.into())
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Key(bytes.into())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key(text.as_bytes().into())
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::visible(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The keyspace of a lock. Keyspace and key identify a lock, wherever it moves. A standalone server is a keyspace of
/// one node; a Sentinel service or a whole cluster will be one of several nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct KeyspaceId(pub u16);

impl KeyspaceId {
    /// The keyspace of a target that has only one. Only a set of independent servers has more.
    pub const FIRST: KeyspaceId = KeyspaceId(0);
}

/// A place: the server where a lock is now, and to which an observation belongs. Ids are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct NodeId(pub u16);
