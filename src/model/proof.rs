//! What is read of a lock just before the operator decides to write it. A write is compared with this and with the
//! view.
//!
//! Pure. `inspect::prove` reads it once the operator has asked for a write; a view that was only looked at has none.

use serde::{Deserialize, Serialize};

use crate::base::time::Ttl;
use crate::lock::Token;

/// What was read beyond the view.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Proof {
    pub value: Whole,
    /// When its key runs out; `None` where that was not asked.
    pub end: Option<End>,
    /// The leases of single holders, where each has one of its own in a key beside the lock.
    pub leases: Vec<HolderLease>,
    /// Clients are blocked somewhere on the server, or may be: the server was asked and did not say. `None` where nobody asked.
    pub blocked: Option<bool>,
    /// Processes that listen for permits of a semaphore of this name.
    pub counted_on: u64,
    /// Who waits for it, as a clause; `None` where nobody looked.
    pub waiting: Option<String>,
}

/// What one of several holders has of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HolderLease {
    pub holder: Token,
    /// The key that runs out.
    pub key: Vec<u8>,
    pub end: End,
    pub left: Ttl,
}

/// A value that was seen in part only.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Whole {
    /// It was seen whole, or nobody asked.
    #[default]
    NotAsked,
    /// The SHA-1 of the whole value, whose beginning was seen.
    Sha1(String),
    /// Why it is not known, as a clause.
    Unknown(String),
}

/// The end of a lease, by the server's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum End {
    Never,
    /// In milliseconds of Unix time, plus or minus `within`.
    At {
        ms: i64,
        within: i64,
    },
}

/// A longer value is not compared: hashing it would stall the server.
pub const LARGEST: u64 = 1 << 20;
