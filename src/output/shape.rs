//! The objects of the JSON contract, field by field.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::closer::{Belonging, Connected, Contention, Waiting};
use super::derivation::Questions;
use super::json::SCHEMA;
use super::stored::Stored;
use super::{Notes, Place};
use crate::base::json::typed;
use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::lock::Token;
use crate::model::{self, Hold, LockView, Transition};
use crate::sources::inspect::Inspection;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub schema: &'static str,
    #[serde(flatten)]
    pub lock: Lock<'a>,
    pub history: Vec<Past<'a>>,
    pub waiting: Waiting,
    pub keys: Vec<Belonging>,
    pub notes: &'a Notes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Questions>,
    pub server: &'a Value,
}

#[derive(Serialize)]
pub(super) struct Lock<'a> {
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    node: Cow<'a, str>,
    db: u32,
    #[serde(rename = "type")]
    type_name: &'a str,
    kind: &'static str,
    dialect: &'static str,
    dialect_confidence: f32,
    second_choice: Option<Choice>,
    mode: &'static str,
    state: &'static str,
    evidence: &'a [String],
    confidence: f32,
    /// `null` where its state is not `lost`.
    lost: Option<Lost<'a>>,
    safe_to_free: Safety,
    /// `null` where nobody holds it.
    liveness: Option<Liveness<'a>>,
    findings: Vec<Finding<'a>>,
    holders: Vec<Holder<'a>>,
    ttl_ms: Option<u64>,
    lease_ms: Option<u64>,
    lease_is: Option<&'static str>,
    held_ms: Option<u64>,
    held_is: Option<&'static str>,
    renewals: Option<Renewals>,
    /// `null` if nothing is known.
    contention: Option<Contention<'a>>,
    fencing_token: Option<u64>,
    /// Always `null`: a lock on one node has no other nodes to agree with.
    nodes: Option<()>,
    related: Option<Cow<'a, str>>,
    usual: Option<Usual>,
    value: Stored<'a>,
    source: &'static str,
    confirmed: String,
    stale: bool,
}

impl<'a> Lock<'a> {
    pub(super) fn of(lock: &'a LockView, place: &'a Place) -> Lock<'a> {
        let (key, key_base64) = typed(lock.key.as_bytes());
        Lock {
            key,
            key_base64,
            node: place.node(lock.node),
            db: place.db,
            type_name: &lock.type_name,
            kind: lock.kind.name(),
            dialect: lock.dialect,
            dialect_confidence: lock.dialect_confidence,
            second_choice: lock.second_choice.map(|(dialect, confidence)| Choice { dialect, confidence }),
            mode: lock.mode.name(),
            state: lock.verdict.state.name(),
            evidence: &lock.verdict.evidence,
            confidence: lock.verdict.confidence,
            lost: lock.lost.as_ref().map(Lost::of),
            safe_to_free: Safety::of(&model::Safe::of(lock)),
            liveness: lock.liveness.as_ref().map(Liveness::of),
            findings: lock.findings.iter().map(Finding::of).collect(),
            holders: lock.holders.iter().enumerate().map(|(index, holder)| Holder::of(index, holder, lock)).collect(),
            ttl_ms: lock.ttl.remaining().map(|left| left.as_millis() as u64),
            lease_ms: lock.lease_ms,
            lease_is: lock.lease_is.map(model::HeldIs::name),
            held_ms: lock.held_ms,
            held_is: lock.held_is.map(model::HeldIs::name),
            renewals: lock.renewals.as_ref().map(Renewals::of),
            contention: Contention::of(lock),
            fencing_token: lock.fencing_token,
            nodes: None,
            related: lock.related.as_ref().map(|key| typed(key.as_bytes()).0),
            usual: lock.usual.as_ref().map(Usual::of),
            value: Stored::of(&lock.value),
            source: lock.source.name(),
            confirmed: lock.confirmed.rfc3339(),
            stale: lock.stale,
        }
    }

    /// Adds what an inspection found.
    pub(super) fn looked_at(self, lock: &'a LockView, found: &'a Inspection) -> Lock<'a> {
        let safe = model::Safe::of(lock).with_waiting(found.waiters.beside(lock).in_short());
        Lock { contention: Contention::looked_at(lock, found), safe_to_free: Safety::of(&safe), ..self }
    }
}

/// A hold that the server lost, or may have.
#[derive(Serialize)]
struct Lost<'a> {
    cause: &'static str,
    proven: bool,
    at: String,
    holder: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_base64: Option<String>,
    holders: usize,
    lease_ends: Option<String>,
}

impl<'a> Lost<'a> {
    fn of(lost: &'a model::Lost) -> Lost<'a> {
        let (holder, holder_base64) = token(lost.holder.as_ref());
        Lost {
            cause: lost.by.word(),
            proven: lost.proven,
            at: lost.at.rfc3339(),
            holder,
            holder_base64,
            holders: lost.holders,
            lease_ends: lost.lease_ends.map(Time::rfc3339),
        }
    }
}

/// Whether it is safe to free, and why.
#[derive(Serialize)]
pub struct Safety {
    answer: &'static str,
    advice: &'static str,
    sentence: String,
    silence: String,
    connection: String,
    waiting: String,
    if_freed: String,
}

impl Safety {
    pub fn of(safe: &model::Safe) -> Safety {
        Safety {
            answer: safe.advice.answer(),
            advice: safe.advice.name(),
            sentence: safe.sentence(),
            silence: safe.silence.clone(),
            connection: safe.connection.clone(),
            waiting: safe.waiting.clone(),
            if_freed: safe.if_freed.clone(),
        }
    }
}

#[derive(Serialize)]
struct Choice {
    dialect: &'static str,
    confidence: f32,
}

#[derive(Serialize)]
struct Liveness<'a> {
    is: &'static str,
    confidence: Option<f32>,
    sentence: String,
    signs: Vec<Sign>,
    settle: Option<&'a str>,
}

impl<'a> Liveness<'a> {
    fn of(liveness: &'a model::Liveness) -> Liveness<'a> {
        let model::Liveness { is, confidence, signs, settle, .. } = liveness;
        let (sentence, signs) = (liveness.sentence(), signs.iter().map(|sign| Sign::of(*sign)).collect());
        Liveness { is: is.name(), confidence: *confidence, sentence, signs, settle: settle.as_deref() }
    }
}

#[derive(Serialize)]
struct Sign {
    name: &'static str,
    says: &'static str,
    sentence: String,
    confidence: f32,
}

impl Sign {
    fn of(sign: model::Sign) -> Sign {
        let (name, says) = (sign.name(), sign.says().name());
        Sign { name, says, sentence: sign.sentence(), confidence: sign.confidence() }
    }
}

#[derive(Serialize)]
struct Finding<'a> {
    name: &'static str,
    sentence: &'a str,
    confidence: f32,
    settle: Option<&'a str>,
}

impl<'a> Finding<'a> {
    fn of(finding: &'a model::Finding) -> Finding<'a> {
        let model::Finding { name, sentence, confidence, settle } = finding;
        Finding { name, sentence, confidence: *confidence, settle: settle.as_deref() }
    }
}

/// What is usual for locks of its name pattern. The pattern is escaped, because it is not a single key.
#[derive(Serialize)]
struct Usual {
    pattern: String,
    holds: u64,
    p50_ms: u64,
    p99_ms: u64,
    hand_over_ms: Option<u64>,
    renewed: u32,
    ended: Ended,
}

#[derive(Serialize)]
struct Ended {
    released: u32,
    expired: u32,
    evicted: u32,
    forced: u32,
    taken: u32,
    lost: u32,
}

impl Usual {
    fn of(usual: &model::Usual) -> Usual {
        let model::Usual { ref pattern, holds, p50_ms, p99_ms, hand_over_ms, ends, renewed } = *usual;
        let model::Ends { released, expired, evicted, forced, taken, lost } = ends;
        let ended = Ended { released, expired, evicted, forced, taken, lost };
        Usual { pattern: pattern.to_string(), holds, p50_ms, p99_ms, hand_over_ms, renewed, ended }
    }
}

#[derive(Serialize)]
struct Renewals {
    count: u64,
    last_ms: Option<u64>,
    period_ms: Option<u64>,
    expected_ms: Option<u64>,
    missed: Option<u64>,
    jitter_ms: Option<u64>,
    due_in_ms: Option<i64>,
}

impl Renewals {
    fn of(view: &model::RenewalView) -> Renewals {
        let model::RenewalView { count, last_ms, period_ms, expected_ms, missed, jitter_ms, due_in_ms } = *view;
        Renewals { count, last_ms, period_ms, expected_ms, missed, jitter_ms, due_in_ms }
    }
}

/// A holder; what its library does not store is left out.
#[derive(Serialize)]
struct Holder<'a> {
    token: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a ServerText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a ServerText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a ServerText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    /// `null` where that is not known.
    connected: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<Connected<'a>>,
}

impl<'a> Holder<'a> {
    fn of(index: usize, holder: &'a crate::lock::Holder, lock: &'a LockView) -> Holder<'a> {
        let presence = lock.presence.get(index);
        let (token, token_base64) = typed(holder.token.as_bytes());
        Holder {
            token,
            token_base64,
            host: holder.host.as_ref(),
            pid: holder.pid,
            thread: holder.thread.as_ref(),
            client: holder.client.as_ref(),
            count: holder.count,
            since: holder.since.map(Time::rfc3339),
            until: holder.until.map(Time::rfc3339),
            mode: holder.mode.map(crate::lock::Mode::name),
            connected: presence.and_then(model::Presence::is_connected),
            connection: presence.and_then(|presence| Connected::of(presence, lock.at)),
        }
    }
}

/// A hold that is over.
#[derive(Serialize)]
pub(super) struct Past<'a> {
    holder: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_base64: Option<String>,
    since: String,
    since_is: &'static str,
    until: String,
    ended: &'static str,
    renewals: u64,
}

impl<'a> Past<'a> {
    pub(super) fn of(hold: &'a Hold) -> Past<'a> {
        let (holder, holder_base64) = token(hold.holder.as_ref());
        Past {
            holder,
            holder_base64,
            since: hold.since.rfc3339(),
            since_is: if hold.exact { "exact" } else { "at-least" },
            until: hold.until.rfc3339(),
            ended: hold.ending.name(),
            renewals: hold.renewals,
        }
    }
}

/// One line of `watch`.
#[derive(Serialize)]
pub(super) struct Change<'a> {
    schema: &'static str,
    at: String,
    event: &'static str,
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    node: Cow<'a, str>,
    db: u32,
    holder: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_base64: Option<String>,
    previous: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_base64: Option<String>,
    /// How it was lost: evicted, flushed, renamed away, gone unseen.
    why: Option<&'static str>,
    /// The same as one word of the contract, and whether its holder can't have released it.
    cause: Option<&'static str>,
    proven: Option<bool>,
    source: &'static str,
}

impl<'a> Change<'a> {
    pub(super) fn of(change: &'a Transition, place: &'a Place) -> Change<'a> {
        let (key, key_base64) = typed(change.key.as_bytes());
        let (holder, holder_base64) = token(change.holder.as_ref());
        let (previous, previous_base64) = token(change.previous.as_ref());
        let loss = match change.change {
            model::Change::Ended(ending) => Some(ending).filter(|ending| ending.is_loss()),
            _ => None,
        };
        Change {
            schema: SCHEMA,
            at: change.at.rfc3339(),
            event: change.change.name(),
            key,
            key_base64,
            node: place.node(change.node),
            db: place.db,
            holder,
            holder_base64,
            previous,
            previous_base64,
            why: super::watch::why(change.change),
            cause: loss.map(model::Ending::word),
            proven: loss.map(|_| change.proven),
            source: change.source.name(),
        }
    }
}

fn token(token: Option<&Token>) -> (Option<Cow<'_, str>>, Option<String>) {
    match token.map(|token| typed(token.as_bytes())) {
        Some((text, base64)) => (Some(text), base64),
        None => (None, None),
    }
}
