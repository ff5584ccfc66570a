//! Whether the holder of a lock lives: another question than whether it is held, and often one that nobody can answer yet.

use serde::{Deserialize, Serialize};

use super::findings::SETTLE;
use super::signs::{Says, Sign, Signs};
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::dialects::{self, Renewal, Strength};
use crate::lock::Kind;
use crate::model::history::cadence;
use crate::model::lock::Reading;
use crate::model::table::Table;
use crate::model::wants::instance::Standing;
use crate::model::{Beats, Certainty, Finding, Lock, Presence, State, Verdict};

/// What is known of a holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Life {
    Lives,
    Unknown,
    /// One sign says that it is gone.
    Suspected,
    /// It is gone, as far as its lock's verdict goes.
    Gone,
}

impl Life {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Life::Lives => "lives",
            Life::Unknown => "unknown",
            Life::Suspected => "suspected",
            Life::Gone => "gone",
        }
    }
}

/// Whether the holder of a lock lives, and what says so.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Liveness {
    pub is: Life,
    /// 0 to 1; `None` where it is not known.
    pub confidence: Option<f32>,
    /// All that was seen, for and against.
    pub signs: Vec<Sign>,
    /// What would settle it, unless it is settled.
    pub settle: Option<String>,
    /// How long to watch for that, in milliseconds, where a renewal would come or stay away in time.
    pub watch_ms: Option<u64>,
}

impl Liveness {
    /// What is known, with what says so: `its holder may be gone: no renewal for at least 20.0s, …`.
    pub fn sentence(&self) -> String {
        let signs: Vec<String> = self.signs.iter().map(|sign| sign.sentence()).collect();
        if signs.is_empty() { self.words().into() } else { format!("{}: {}", self.words(), signs.join("; ")) }
    }

    /// What is known, in a clause. It sounds no surer than the verdict.
    pub fn words(&self) -> &'static str {
        let certain = self.confidence.is_some_and(|confidence| Certainty::of(confidence) == Certainty::Certain);
        match self.is {
            Life::Lives => "its holder lives",
            Life::Unknown => "whether its holder lives is not known yet",
            Life::Suspected => "its holder may be gone",
            Life::Gone if certain => "its holder is gone",
            Life::Gone => "its holder is likely gone",
        }
    }

    pub(in crate::model) fn is_doubted(&self) -> bool {
        self.signs.iter().any(|sign| sign.says() == Says::Gone)
    }
}

/// Who took a lock so lately lives, though nothing else was seen.
const JUST_TAKEN_MS: u64 = 10_000;

/// How sure it is that a holder is gone which has missed a renewal, 0 to 1.
const STALLED: f32 = 0.5;

impl Table {
    /// Whether its holder lives; `None` where nobody holds it, lockscope does, or it stays when the work is done.
    pub(in crate::model) fn liveness(
        &self,
        lock: &Lock,
        verdict: &Verdict,
        gone: Signs,
        findings: &[Finding],
        presence: &[Presence],
        now: Time,
    ) -> Option<Liveness> {
        let held = |reading: &Reading| lock.is_held() && !reading.vacant && !reading.counts;
        let by_worker = |reading: &Reading| reading.kind == Kind::Lock && !reading.test && !reading.stays;
        lock.reading.filter(held).filter(by_worker)?;
        let ago = |at: Time| now.since(at).as_millis() as u64;
        let period = self.period(lock);
        let renewed = lock.beats().and_then(Beats::last).map(ago);
        let connected = presence.iter().find_map(|presence| match presence {
            Presence::Connected { by, .. } if presence.is_connected() == Some(true) => Some(*by),
            _ => None,
        });
        let lives = [
            renewed.map(|ago_ms| Sign::Renewed { ago_ms }),
            lock.taken().map(ago).map(|ago_ms| Sign::Taken { ago_ms }),
            connected.map(|by| Sign::Connected { by }),
        ];
        let signs: Vec<Sign> = gone.iter().chain(lives.into_iter().flatten()).collect();
        let suspicion = findings.iter().find(|finding| finding.name == "orphan-suspected");
        // A client that took it just now may be gone again.
        let closed = presence.iter().any(|presence| matches!(presence, Presence::Closed { .. }));
        let fresh = |sign: &Sign| match *sign {
            Sign::Renewed { ago_ms } => !is_overdue(period.or(lock.lease_ms()), ago_ms),
            Sign::Taken { ago_ms } => ago_ms <= JUST_TAKEN_MS && !closed,
            Sign::Connected { .. } => true,
            Sign::Silent { .. } | Sign::Absent | Sign::PastEnd { .. } => false,
        };
        let alive = signs.iter().filter(|sign| fresh(sign)).map(|sign| sign.confidence()).reduce(f32::max);
        let (is, confidence) = match (verdict.state, suspicion, alive) {
            (State::Orphan, ..) => (Life::Gone, Some(verdict.confidence)),
            (_, Some(finding), _) => (Life::Suspected, Some(finding.confidence)),
            (State::Stalled, ..) => (Life::Suspected, Some(STALLED)),
            _ if !gone.is_empty() => (Life::Suspected, Some(gone.confidence())),
            (.., Some(alive)) => (Life::Lives, Some(alive)),
            _ => (Life::Unknown, None),
        };
        let open = matches!(is, Life::Unknown | Life::Suspected);
        let settle = open.then(|| self.settles(lock, gone, now));
        let watch_ms = if is == Life::Lives { None } else { self.watch_ms(lock, gone, now) };
        Some(Liveness { is, confidence, signs, settle, watch_ms })
    }

    /// How often it is renewed, where somebody renews it.
    fn period(&self, lock: &Lock) -> Option<u64> {
        let reading = lock.reading?;
        let (lease_ms, _) = lock.lease()?;
        let known = lock.beats().and_then(|beats| beats.period_ms);
        let share = || match dialects::dialect(reading.dialect).renewal() {
            Renewal::Watchdog { share } | Renewal::Optional { share } if reading.strength >= Strength::Sure => {
                Some((lease_ms as f64 * f64::from(share)) as u64)
            }
            _ => None,
        };
        known.or_else(|| self.renewed_every(lock, reading, lease_ms).map(|(ms, _)| ms)).or_else(share)
    }

    /// What would settle whether its holder lives: a renewal that comes or not, or its client.
    pub(in crate::model) fn settles(&self, lock: &Lock, signs: Signs, now: Time) -> String {
        // MONITOR has shown its client already, and no other like it is there.
        let gone = matches!(self.standing(lock), Standing::Closed(closed) if closed.like_it() == Some(false));
        match (self.watch_ms(lock, signs, now), gone) {
            (Some(wait), false) => format!("watch it for {}, or {SETTLE}", until_renewed(wait)),
            (Some(wait), true) => format!("watch it for {}", until_renewed(wait)),
            (None, false) => SETTLE.into(),
            (None, true) => "ask its owner: its client is gone, and the server shows no more".into(),
        }
    }

    /// How long to watch until a renewal has come or is missed; `None` where the lock ends before.
    fn watch_ms(&self, lock: &Lock, signs: Signs, now: Time) -> Option<u64> {
        let until = self.known_until(lock, now);
        let left = lock.expires().map_or(u64::MAX, |expires| expires.since(until).as_millis() as u64);
        let passed = lock.lease().map_or(0, |(lease_ms, _)| lease_ms.saturating_sub(left));
        let wait = self.period(lock).map(|period| {
            let due = period + cadence::grace_ms(period);
            // Who is late already gets one period more.
            if !signs.is_empty() || passed >= due { period } else { due - passed }
        });
        wait.filter(|wait| *wait < left)
    }
}

/// How long to watch a lock, and why: `9.9s, until renewed or late`.
pub(in crate::model) fn until_renewed(ms: u64) -> String {
    format!("{}, until renewed or late", short_duration(ms))
}

fn is_overdue(period: Option<u64>, ago_ms: u64) -> bool {
    period.is_none_or(|period| cadence::is_missed(period, ago_ms))
}
