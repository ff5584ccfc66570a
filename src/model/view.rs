//! What readers get: a lock with everything decoded, and the table as a whole at one moment.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::base::serial::Name;
use crate::base::text::short_duration;
use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Claim, Sight, Waiting};
use crate::lock::{Holder, Key, KeyspaceId, Kind, Mode, NodeId, RawValue};
use crate::model::{
    Certainty, Connection, Contender, Demand, Finding, Hold, Liveness, Lost, Notice, Presence, Proof, Severity, Source,
    Tries, Usual, Verdict, Waits,
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
    /// How many there were, how often, how many are missing, and when the next one is due.
    pub fn describe(&self) -> String {
        let seen = if self.count == 0 { "none seen".to_string() } else { format!("{} seen", self.count) };
        let mut parts = vec![seen];
        parts.extend(self.period_ms.map(|ms| format!("one every {}", short_duration(ms))));
        parts.extend(self.last_ms.map(|ms| format!("last {} ago", short_duration(ms))));
        parts.extend(self.missed.filter(|missed| *missed > 0).map(|missed| format!("{missed} missed")));
        parts.extend(self.due_words());
        let expected = self.expected_ms.map(|ms| format!("; the library would renew every {}", short_duration(ms)));
        parts.join(", ") + &expected.unwrap_or_default()
    }

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
    /// Its keyspace is a cluster: keys of different slots can't be changed in one step.
    #[serde(default)]
    pub clustered: bool,
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
    /// How the server lost it, where its state says so.
    #[serde(default)]
    pub lost: Option<Lost>,
    /// Whether its holder lives; `None` where nobody holds it, lockscope does, or it stays when the work is done.
    pub liveness: Option<Liveness>,
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
    /// Clients that may wait for it: they are blocked in such a command, and the server does not say on which key.
    pub blocked: Vec<Connection>,
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
    /// What clients were seen doing to it that no event reports, oldest first.
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
    /// Locks that were lost whose leases may still run, beyond those that are listed.
    pub lost_beyond: u64,
}

impl LockView {
    /// Its place among all locks.
    pub fn severity(&self) -> Severity {
        let doubted = self.liveness.as_ref().is_some_and(Liveness::is_doubted);
        Severity::new(self.verdict.state, doubted || self.lost.as_ref().is_some_and(|lost| !lost.proven))
    }

    /// The state as tables show it, with a `?` where it is in doubt.
    pub fn state_label(&self) -> Cow<'static, str> {
        self.severity().label()
    }

    /// How sure the state is, and whether its holder lives: `held (certain); its holder may be gone`.
    pub fn state_words(&self) -> String {
        let Verdict { state, confidence, .. } = &self.verdict;
        let life = self.liveness.as_ref().map(|liveness| format!("; {}", liveness.words())).unwrap_or_default();
        format!("{} ({}){life}", state.name(), Certainty::of(*confidence).word())
    }

    /// The whole lease, where it is known and not only bounded.
    pub fn whole_lease_ms(&self) -> Option<u64> {
        self.lease_ms.filter(|ms| *ms > 0 && self.lease_is != Some(HeldIs::AtLeast))
    }

    /// `30.0s`, or `at least 30.0s`.
    pub fn lease_words(&self) -> Option<String> {
        let least = if self.lease_is == Some(HeldIs::AtLeast) { "at least " } else { "" };
        self.lease_ms.map(|ms| format!("{least}{}", short_duration(ms)))
    }

    /// At least as many clients were seen to be refused and to try again, where that is more than were counted. The
    /// server does not list those that poll.
    pub fn tried_by(&self) -> Option<u32> {
        let counted = self.waits.filter(|waits| !waits.is_at_most()).map_or(0, |waits| waits.count);
        Some(self.demand.waiting).filter(|seen| *seen > counted)
    }

    /// Whether nobody waits for it by its library: a refused attempt gives up.
    pub fn gives_up(&self) -> bool {
        let sure = self.kind == Kind::Lock && self.dialect_confidence >= Claim::SURE;
        let known = dialects::by_name(self.dialect).filter(|_| sure);
        known.is_some_and(|id| dialects::dialect(id).waiting(&self.sight(self.at)) == Waiting::Nobody)
    }

    /// What a dialect gets to see of it: what it was when it was read, it is still.
    pub fn sight(&self, now: Time) -> Sight<'_> {
        Sight { key: self.key.as_bytes(), value: &self.value, ttl: self.ttl, now, given: true, dialect_given: true }
    }
}
