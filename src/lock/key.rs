//! Names of things: a lock's key (any bytes), the keyspace that it is in, and the node where it is found right now.

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

/// Which keyspace a lock is in. Keyspace and key are its identity, wherever it moves: a standalone server is a keyspace of
/// one node; so will be a Sentinel service or a whole cluster, of several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct KeyspaceId(pub u16);

impl KeyspaceId {
    /// The one of a target that is one keyspace. Only a set of independent servers has more.
    pub const FIRST: KeyspaceId = KeyspaceId(0);
}

/// A place: the server at which a lock is found right now, and to which an observation belongs. No id is given twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct NodeId(pub u16);
