//! What readers get: a lock with everything decoded, and the table as a whole at one moment.

use serde::{Deserialize, Deserializer, Serialize};

use crate::base::serial::Name;
use crate::base::text::short_duration;
use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Sight};
use crate::lock::{Holder, Key, KeyspaceId, Kind, Mode, NodeId, RawValue};
use crate::model::{
    Connection, Contender, Demand, Finding, Hold, Notice, Presence, Proof, Source, Tries, Usual, Verdict, Waits,
};

/// How well the age of a hold is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HeldIs {
    /// We saw it being taken.
    Exact,
    /// It was already held when we first looked.
    AtLeast,
    /// The stored value says when, by the holder's own clock.
    Estimated,
}

impl HeldIs {
    pub fn name(self) -> &'static str {
        match self {
            HeldIs::Exact => "exact",
            HeldIs::AtLeast => "at-least",
            HeldIs::Estimated => "estimated",
        }
    }
}

/// Renewals of the current hold, as far as they were seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RenewalView {
    pub count: u64,
    /// How long ago the last one was.
    pub last_ms: Option<u64>,
    /// The usual distance between two, as observed.
    pub period_ms: Option<u64>,
    /// The distance the library is known for.
    pub expected_ms: Option<u64>,
    /// Expected since the last one but not seen; `None` if the period is unknown.
    pub missed: Option<u64>,
    /// How far a renewal usually is from its expected time.
    pub jitter_ms: Option<u64>,
    /// Time until the next one is due; negative: it is overdue.
    pub due_in_ms: Option<i64>,
}

impl RenewalView {
    /// When the next one is due, and how exactly that is known: `next due in 3.1s, ±0.2s`.
    pub fn due_words(&self) -> Option<String> {
        let jitter = self.jitter_ms.map(|ms| format!(", ±{}", short_duration(ms))).unwrap_or_default();
        Some(match self.due_in_ms? {
            left @ 0.. => format!("next due in {}{jitter}", short_duration(left as u64)),
            past => format!("due {} ago{jitter}", short_duration(past.unsigned_abs())),
        })
    }
}

/// One lock at one moment, decoded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LockView {
    pub space: KeyspaceId,
    /// Where it was last seen.
    pub node: NodeId,
    pub key: Key,
    pub kind: Kind,
    pub type_name: String,
    #[serde(deserialize_with = "dialects::known_name")]
    pub dialect: Name,
    /// How sure the reading of the library is, 0 to 1.
    pub dialect_confidence: f32,
    /// What else it could be, where the reading is a guess.
    #[serde(deserialize_with = "second_choice")]
    pub second_choice: Option<(Name, f32)>,
    pub mode: Mode,
    pub verdict: Verdict,
    pub holders: Vec<Holder>,
    pub ttl: Ttl,
    pub lease_ms: Option<u64>,
    /// How well the lease is known.
    pub lease_is: Option<HeldIs>,
    pub held_ms: Option<u64>,
    pub held_is: Option<HeldIs>,
    /// `None` if it was not watched long enough.
    pub renewals: Option<RenewalView>,
    /// How many wait for it, if counted recently.
    pub waits: Option<Waits>,
    /// Attempts to take it and their failures, if counted or sampled recently.
    pub tries: Option<Tries>,
    /// When a client other than its holder last accessed it, if recently.
    pub wanted: Option<Time>,
    /// The demand for it, from all that is known.
    pub demand: Demand,
    /// The clients seen to want it.
    pub contenders: Vec<Contender>,
    /// The connection of its only holder, where one was seen to use its token.
    pub connection: Option<Connection>,
    /// Where each of its holders is, in their order.
    pub presence: Vec<Presence>,
    /// What clients were seen to do to it that events do not tell, oldest first.
    pub notices: Vec<(Time, Notice)>,
    /// What is wrong with it or with how it is used, the worst first.
    pub findings: Vec<Finding>,
    /// When the last renewals of this hold were seen, oldest first.
    pub beats: Vec<Time>,
    pub fencing_token: Option<u64>,
    /// For a marker, the lock of the same id; for a lock, its marker.
    pub related: Option<Key>,
    pub value: RawValue,
    /// What was read in addition, if the operator asked for a write.
    pub proof: Proof,
    pub past: Vec<Hold>,
    /// What is usual for locks of its name pattern, once a whole hold of one of them was seen.
    pub usual: Option<Usual>,
    /// When the server last confirmed what is shown here.
    pub confirmed: Time,
    /// Not confirmed since the connection was lost or events were missed.
    pub stale: bool,
    pub source: Source,
    /// The time of this view.
    pub at: Time,
}

fn second_choice<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(Name, f32)>, D::Error> {
    #[derive(Deserialize)]
    struct Known(#[serde(deserialize_with = "dialects::known_name")] Name, f32);
    Ok(Option::<Known>::deserialize(from)?.map(|Known(name, confidence)| (name, confidence)))
}

/// All locks of a table at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub at: Time,
    pub locks: Vec<LockView>,
    /// Everything under the patterns was read, and nothing was left out.
    pub complete: bool,
    /// Why it is incomplete, as far as the engine knows.
    pub incomplete: Option<String>,
    /// Locks that were dropped because the table was full.
    pub dropped: u64,
}

impl LockView {
    /// The whole lease, where it is known and not only bounded.
    pub fn whole_lease_ms(&self) -> Option<u64> {
        self.lease_ms.filter(|ms| *ms > 0 && self.lease_is != Some(HeldIs::AtLeast))
    }

    /// `30.0s`, or `at least 30.0s`.
    pub fn lease_words(&self) -> Option<String> {
        let least = if self.lease_is == Some(HeldIs::AtLeast) { "at least " } else { "" };
        self.lease_ms.map(|ms| format!("{least}{}", short_duration(ms)))
    }

    /// What a dialect gets to see of it: what it was when it was read, it is still.
    pub fn sight(&self, now: Time) -> Sight<'_> {
        Sight { key: self.key.as_bytes(), value: &self.value, ttl: self.ttl, now, given: true, dialect_given: true }
    }
}
