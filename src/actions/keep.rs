//! What a release takes away, kept so that it can be put back.
//!
//! A whole key is kept as the server's dump; parts of a key are kept as plain values. The script that frees compares
//! the dump again, so that the record is exactly what was taken. `read` reads it, `back` plans putting it back, `look`
//! finds out whether a release happened at all.

mod back;
mod look;
mod read;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::check::Check;
use super::keyspace::Keyspace;
use super::queue::Cleared;
use crate::base::time::Time;
use crate::lock::{Key, Token};

pub use look::Happened;
pub(super) use read::{foresee, read};

/// The form of the records; another one is not read.
const VERSION: u32 = 2;

/// One thing that was taken away.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Keep {
    what: What,
    /// When its key would have run out, in milliseconds of the server's Unix time.
    until: Option<i64>,
    /// It was taken away only if the last holder was removed.
    when_emptied: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Whole {
        key: Blob,
        dump: Blob,
    },
    Field {
        key: Blob,
        field: Blob,
        value: Blob,
    },
    /// A field that says how the hash is held, and must have the same value again.
    Base {
        key: Blob,
        field: Blob,
        value: Blob,
    },
    Scored {
        key: Blob,
        member: Blob,
        score: String,
    },
    Member {
        key: Blob,
        member: Blob,
    },
    Permits {
        counter: Blob,
        permits: u64,
    },
    Pushed {
        list: Blob,
        token: Blob,
    },
}

/// Bytes, in a file as base64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob(pub Vec<u8>);

fn blobs(tokens: &[Token]) -> Vec<Blob> {
    tokens.iter().map(|token| Blob(token.as_bytes().to_vec())).collect()
}

impl Serialize for Blob {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(&self.0).serialize(out)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Blob, D::Error> {
        use base64::Engine;
        let text = String::deserialize(from)?;
        base64::engine::general_purpose::STANDARD.decode(text).map(Blob).map_err(serde::de::Error::custom)
    }
}

/// How much is known about an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was about to be sent; whether it was is unknown.
    Begun,
    /// The server said that it is done.
    Confirmed,
    /// It was sent, and the answer was lost.
    Unknown,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Begun => "begun",
            State::Confirmed => "confirmed",
            State::Unknown => "unknown",
        }
    }
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    Freed,
    /// It can't be undone: the record only says that it came last.
    Extended,
    /// Likewise: it was put back.
    Undone,
}

/// Under which number, by whom, where, when and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct About {
    pub id: String,
    /// What was asked for together has the same.
    #[serde(default)]
    pub batch: Option<String>,
    /// The server's address without a password, and the database.
    pub target: String,
    pub db: i64,
    /// The identity of the data; `None` if the server does not report it.
    pub keyspace: Option<Keyspace>,
    /// The user of this machine.
    pub by: String,
    pub reason: Option<String>,
    /// By our clock.
    pub at: i64,
}

/// One action, and everything that it took away.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    version: u32,
    pub about: About,
    pub deed: Deed,
    pub state: State,
    pub key: Blob,
    pub dialect: String,
    /// The library was a guess.
    #[serde(default)]
    guessed: bool,
    pub holders: Vec<Blob>,
    /// How far the server's clock was ahead of ours.
    ahead: i64,
    /// When the lock itself would have run out.
    until: Option<i64>,
    things: Vec<Keep>,
    obstacles: Vec<Barrier>,
    /// Waiters that were dropped from its queue, which an undo does not put back.
    #[serde(default)]
    dropped: Vec<Blob>,
    /// How many were dropped since their deadline had passed.
    #[serde(default)]
    overdue: u64,
}

/// A condition that prevents an undo, with the values at the time of the release.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Barrier {
    Key(Blob),
    Scored {
        key: Blob,
        member: Blob,
    },
    Mode {
        key: Blob,
        field: Blob,
        value: Blob,
    },
    /// More fields than this, what is put back included.
    Fields {
        key: Blob,
        most: u64,
    },
    /// More live members than this, including what is put back.
    Members {
        key: Blob,
        lease_ms: Option<i64>,
        most: u64,
    },
    /// `lease_ms` after the member's score has passed.
    Ended {
        key: Blob,
        lease_ms: i64,
    },
    /// The moment in this field has passed.
    EndField {
        key: Blob,
        field: Blob,
    },
    /// All of these keys have run out.
    Leases(Vec<Blob>),
    /// The other holders are gone, and with them what all of them shared.
    NoRest(Blob),
    /// A counter that each hold increments has changed.
    Counter {
        key: Blob,
        value: Blob,
    },
}

impl Kept {
    /// The record of an action that took nothing away.
    pub(super) fn nothing(about: About, plan: &super::plan::Plan, deed: Deed) -> Kept {
        Kept {
            version: VERSION,
            about,
            deed,
            state: State::Begun,
            key: Blob(plan.key.as_bytes().to_vec()),
            dialect: plan.dialect.to_string(),
            guessed: plan.guessed,
            holders: blobs(&plan.holders),
            ahead: 0,
            until: None,
            things: Vec::new(),
            obstacles: Vec::new(),
            dropped: blobs(&plan.dropped),
            overdue: 0,
        }
    }

    /// From a file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Kept, String> {
        #[derive(Deserialize)]
        struct Versioned {
            #[serde(default)]
            version: u32,
        }
        let read = serde_json::from_slice::<Versioned>(bytes).map_err(|why| why.to_string())?;
        if read.version != VERSION {
            return Err(format!("the record is of version {}, and this lockscope reads {VERSION}", read.version));
        }
        serde_json::from_slice(bytes).map_err(|why| why.to_string())
    }

    pub fn id(&self) -> &str {
        &self.about.id
    }

    pub fn lock(&self) -> Key {
        Key::from(&self.key.0[..])
    }

    /// The lock went as a whole, not one hold of several.
    pub fn is_whole(&self) -> bool {
        self.things.iter().any(|keep| matches!(&keep.what, What::Whole { key, .. } if *key == self.key))
    }

    /// When the lease would have ended, by our clock; `None`: never.
    pub fn ends(&self) -> Option<Time> {
        self.until.map(|until| Time(until - self.ahead))
    }

    /// The same record by the clock of the node that has the lock's slot now, if it is another one than then.
    pub fn by_clock_of(mut self, here: &Keyspace) -> Kept {
        let Some(ahead) = self.about.keyspace.as_ref().and_then(|then| here.other_clock(then)) else { return self };
        let later = ahead - self.ahead;
        let ends = self.things.iter_mut().map(|keep| &mut keep.until).chain([&mut self.until]);
        ends.flatten().for_each(|until| *until += later);
        self.ahead = ahead;
        self
    }

    /// It can't be put back any more, or never could.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.deed != Deed::Freed || self.ends().is_some_and(|end| end <= now)
    }

    /// Checks that what is taken away is exactly what is kept.
    pub(super) fn checks(&self) -> Vec<Check> {
        let check = |keep: &Keep| match &keep.what {
            What::Whole { key, dump } => Some(Check::Dump { key: key.0.clone(), dump: dump.0.clone() }),
            _ => None,
        };
        self.things.iter().filter(|keep| !keep.when_emptied).filter_map(check).collect()
    }

    /// What really was taken away, once it is known whether the last holder was, and who was dropped from its queue.
    pub(super) fn settle(&mut self, emptied: bool, queue: &Cleared) {
        self.state = State::Confirmed;
        (self.dropped, self.overdue) = (blobs(&queue.dropped), queue.overdue);
        // What the others still held then can't be put back by halves once they are gone too.
        if !emptied && self.things.iter().any(|keep| keep.when_emptied) {
            self.obstacles.push(Barrier::NoRest(self.key.clone()));
        }
        self.things.retain(|keep| emptied || !keep.when_emptied);
    }
}
