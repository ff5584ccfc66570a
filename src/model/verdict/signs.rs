//! Signs of whether a holder lives: what each says, how much it is worth, and its sentence.
//!
//! They are there at the first look, before anything was watched. One sign that a holder is gone makes it suspected, and no
//! more; two that have nothing to do with each other make it likely. That renewals stay away and that the TTL is lower than
//! they would leave it is one sign, silence. It counts only where somebody renews: a fixed lease looks the same.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::dialects::{self, Renewal, Strength};
use crate::lock::Kind;
use crate::model::history::cadence::{self, Rhythm};
use crate::model::lock::Reading;
use crate::model::table::Table;
use crate::model::table::node::Followed;
use crate::model::verdict::judge::is_watchdog_of;
use crate::model::wants::instance::Standing;
use crate::model::{HeldIs, Lock, MatchedBy, State};

/// One sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Sign {
    /// No renewal came for at least `for_ms`, though one should come every `period_ms`. `lease_of_others`: inferred from the
    /// lease of locks with names like it, because its own lease is not known.
    Silent { for_ms: u64, period_ms: u64, renewed: RenewedBy, lease_of_others: bool },
    /// Clients have the names of other holders like it, and none has its own.
    Absent,
    /// The value contains a time at which the lock ends, and that time has passed.
    PastEnd { ago_ms: u64 },
    /// It was seen being renewed.
    Renewed { ago_ms: u64 },
    /// It was seen being taken.
    Taken { ago_ms: u64 },
    /// A client that is connected is its holder, by what they have in common.
    Connected { by: MatchedBy },
}

/// How it is known that a lock is renewed at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RenewedBy {
    /// It was seen.
    Seen,
    /// Others of its name pattern were seen.
    Pattern,
    /// Its library renews each of its locks.
    Library,
    /// Its library renews its usual lease, which this one may be: a lease that the caller gave is never renewed.
    Usually,
}

/// What a sign speaks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    Lives,
    Gone,
}

impl Says {
    pub fn name(self) -> &'static str {
        match self {
            Says::Lives => "lives",
            Says::Gone => "gone",
        }
    }
}

impl Sign {
    /// The word by which programs know it.
    pub fn name(self) -> &'static str {
        match self {
            Sign::Silent { .. } => "silent",
            Sign::Absent => "absent",
            Sign::PastEnd { .. } => "past-end",
            Sign::Renewed { .. } => "renewed",
            Sign::Taken { .. } => "taken",
            Sign::Connected { .. } => "connected",
        }
    }

    pub fn says(self) -> Says {
        match self {
            Sign::Silent { .. } | Sign::Absent | Sign::PastEnd { .. } => Says::Gone,
            Sign::Renewed { .. } | Sign::Taken { .. } | Sign::Connected { .. } => Says::Lives,
        }
    }

    /// How sure it is alone, 0 to 1. A sign that the holder is gone is never more than a suspicion.
    pub fn confidence(self) -> f32 {
        match self {
            Sign::Silent { renewed: RenewedBy::Usually, .. } => 0.4,
            Sign::Silent { .. } => 0.6,
            Sign::Absent | Sign::PastEnd { .. } => 0.5,
            Sign::Renewed { .. } => 0.95,
            Sign::Taken { .. } | Sign::Connected { .. } => 0.8,
        }
    }

    /// It also fits a holder that lives and never meant to renew: it raises a doubt, and proves nothing together with others.
    pub fn is_weak(self) -> bool {
        matches!(self, Sign::Silent { renewed: RenewedBy::Usually, .. })
    }

    /// The only place that puts it into words.
    pub fn sentence(self) -> String {
        match self {
            Sign::Silent { for_ms, period_ms, renewed, lease_of_others } => {
                let (silent, every) = (short_duration(for_ms), short_duration(period_ms));
                let how = match renewed {
                    RenewedBy::Seen => format!("it was renewed before, every {every}"),
                    RenewedBy::Pattern => format!("locks with names like it are renewed every {every}"),
                    RenewedBy::Library => format!("its library renews every {every}"),
                    RenewedBy::Usually => {
                        format!(
                            "its library renews its usual lease every {every}, unless the caller gave it as a fixed one"
                        )
                    }
                };
                let by = if lease_of_others { " (by the lease of locks with names like it)" } else { "" };
                format!("no renewal for at least {silent}{by}, though {how}")
            }
            Sign::Absent => {
                "no client has its holder's name, though the clients of other holders like it are connected".into()
            }
            Sign::PastEnd { ago_ms } => format!("by the time in its value it ended {} ago", short_duration(ago_ms)),
            Sign::Renewed { ago_ms } => format!("renewed {} ago", short_duration(ago_ms)),
            Sign::Taken { ago_ms } => format!("taken {} ago", short_duration(ago_ms)),
            Sign::Connected { by } => format!("its holder's client is connected (by its {})", by.name()),
        }
    }
}

/// The signs that the holder of a lock is gone, found without allocating anything: every lock is asked for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::model) struct Signs {
    silent: Option<Sign>,
    absent: bool,
    past_end: Option<Sign>,
}

impl Signs {
    pub fn iter(self) -> impl Iterator<Item = Sign> {
        self.silent.into_iter().chain(self.absent.then_some(Sign::Absent)).chain(self.past_end)
    }

    /// They have nothing to do with each other, so that each of them counts, unless it is weak.
    pub fn count(self) -> usize {
        let counts = |sign: Option<Sign>| usize::from(sign.is_some_and(|sign| !sign.is_weak()));
        counts(self.silent) + usize::from(self.absent) + counts(self.past_end)
    }

    /// Nothing says that its holder is gone.
    pub fn is_empty(self) -> bool {
        self.silent.is_none() && !self.absent && self.past_end.is_none()
    }

    /// How sure they are together, 0 to 1.
    pub fn confidence(self) -> f32 {
        match self.count() {
            0 | 1 => self.iter().map(Sign::confidence).reduce(f32::max).unwrap_or(0.0),
            2 => 0.8,
            _ => 0.9,
        }
    }

    pub fn sentence(self) -> String {
        self.iter().map(Sign::sentence).collect::<Vec<_>>().join("; ")
    }
}

/// A lock's place among all, the worst first: its state, and before the troubles of living holders those that may have none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Severity {
    class: State,
    /// A suspicion comes after the state that it is a suspicion of.
    suspected: bool,
    pub state: State,
}

impl Severity {
    pub fn new(state: State, suspected: bool) -> Severity {
        // A stalled watchdog has its own state. What may be lost comes after what is.
        let suspected = suspected && (state == State::Lost || state > State::Orphan && state != State::Stalled);
        Severity { class: if suspected { state.min(State::Orphan) } else { state }, suspected, state }
    }

    pub fn is_suspected(self) -> bool {
        self.suspected
    }

    /// The state as tables show it, with a `?` where its holder may be gone, or may have released what seems lost.
    pub fn label(self) -> Cow<'static, str> {
        // CONTENDED fills its column.
        let marked = self.suspected && self.state != State::Contended;
        if marked { format!("{}?", self.state.label()).into() } else { self.state.label().into() }
    }
}

/// Shorter periods than this share of the lease are no rule of a library, but a setting that may be another.
const LEAST_SHARE: f64 = 1.0 / 3.0;
/// A renewal may be this late on a busy machine, and we may hear of it this late.
const SLACK_MS: u64 = 2_000;
/// How exactly a lease is known that was seen being given, in milliseconds; and how much of it a first look may not see,
/// which adds two numbers of whole seconds.
const NEARLY: u64 = 200;
const UNSEEN: u64 = 2_200;

impl Table {
    /// What says that the only holder of a lock is gone.
    pub(in crate::model) fn signs(
        &self,
        lock: &Lock,
        reading: Reading,
        rhythm: Option<Rhythm>,
        followed: Followed,
        now: Time,
    ) -> Signs {
        let worked_under = reading.kind == Kind::Lock && !(reading.stays || reading.test || reading.vacant);
        let alone = lock.held_by.one().is_some() && !(reading.counts || reading.mixed || reading.several);
        if !worked_under || !alone {
            return Signs::default();
        }
        let silent = self.silent(lock, reading, rhythm, followed, now);
        let signs = Signs { silent, absent: self.is_absent(lock), past_end: self.past_end(lock, reading, now) };
        if signs.is_empty() {
            return Signs::default();
        }
        // A connected client is proof of life. Asked last, since it takes longest.
        let there = matches!(self.standing(lock), Standing::Open(_)) || !signs.absent && self.is_connected(lock, now);
        if there { Signs::default() } else { signs }
    }

    fn silent(
        &self,
        lock: &Lock,
        reading: Reading,
        rhythm: Option<Rhythm>,
        followed: Followed,
        now: Time,
    ) -> Option<Sign> {
        if let Some(rhythm) = rhythm {
            if rhythm.missed == 0 {
                return None;
            }
            let for_ms = now.ms_since(rhythm.last);
            let (period_ms, renewed) = (rhythm.period_ms, RenewedBy::Seen);
            return Some(Sign::Silent { for_ms, period_ms, renewed, lease_of_others: false });
        }
        let (lease_ms, _) = lock.lease()?;
        let given = lock.given_until()?;
        // What its holder gave it may be over, where an operator gave it more.
        let (left_ms, over_ms) = (given.ms_since(followed.known), followed.known.ms_since(given));
        let like = self.renewed_like(lock, reading);
        // A client that tries to take it uses its key too. Then only the lease of others shows how long ago it was renewed.
        let others_ms = like.filter(|_| lock.lease_ms().is_none()).map(|(_, lease_ms)| lease_ms);
        // Nearly all were given their lease just now, so the common case is one comparison.
        if lease_ms.max(others_ms.unwrap_or(0)).saturating_sub(left_ms) + over_ms <= SLACK_MS {
            return None;
        }
        let renewal = dialects::dialect(reading.dialect).renewal();
        if like.is_none() && matches!(renewal, Renewal::Manual | Renewal::NoLease) {
            return None;
        }
        let by_lease = |lease_ms: u64, lease_of_others: bool| {
            let for_ms = lease_ms.checked_sub(left_ms)? + over_ms;
            let (period_ms, renewed) = renewed_every(lock, reading, renewal, like, lease_ms)?;
            let least = match renewed {
                RenewedBy::Library => period_ms.max((lease_ms as f64 * LEAST_SHARE) as u64),
                RenewedBy::Seen | RenewedBy::Pattern | RenewedBy::Usually => period_ms,
            };
            let missed = is_watchdog_of(lock, reading, renewal, period_ms) && is_silent(least, for_ms);
            missed.then_some(Sign::Silent { for_ms, period_ms, renewed, lease_of_others })
        };
        let silent = by_lease(lease_ms, false).or_else(|| by_lease(others_ms?, true));
        silent.or_else(|| silent_unless_fixed(lock, reading, renewal, (left_ms, over_ms)))
    }

    /// How often somebody renews it, if somebody does.
    pub(in crate::model) fn renewed_every(
        &self,
        lock: &Lock,
        reading: Reading,
        lease_ms: u64,
    ) -> Option<(u64, RenewedBy)> {
        let renewal = dialects::dialect(reading.dialect).renewal();
        renewed_every(lock, reading, renewal, self.renewed_like(lock, reading), lease_ms)
    }

    /// How often others of its library and name are renewed, and for which lease, if it may be one of them: a lock with
    /// another lease is another kind.
    fn renewed_like(&self, lock: &Lock, reading: Reading) -> Option<(u64, u64)> {
        let (period_ms, lease_ms) = self.holds(lock).renewals_of(reading.dialect)?;
        let (own_ms, _) = lock.lease()?;
        let near = lease_ms / 20;
        let as_long = own_ms <= lease_ms + near && (lock.lease_ms().is_none() || own_ms + near >= lease_ms);
        as_long.then_some((period_ms, lease_ms))
    }

    /// A time in a bare value ends nothing by itself: the key stays.
    fn past_end(&self, lock: &Lock, reading: Reading, now: Time) -> Option<Sign> {
        // Every lock is asked, and decoding takes longer.
        if !reading.dated {
            return None;
        }
        // A number that lay ahead when it was read is an end; read again later, it could be a beginning.
        let until = self.holders(lock, lock.confirmed).first()?.until.filter(|until| *until < now)?;
        Some(Sign::PastEnd { ago_ms: now.ms_since(until) })
    }
}

/// The renewal after this silence has not come.
fn is_silent(period_ms: u64, for_ms: u64) -> bool {
    cadence::is_missed(period_ms, for_ms.saturating_sub(SLACK_MS))
}

/// The silence of a library that renews unless its caller gave a lease: only its usual lease, as long as it is, tells that
/// nobody did. A fixed lease of that length looks the same.
fn silent_unless_fixed(
    lock: &Lock,
    reading: Reading,
    renewal: Renewal,
    (left_ms, over_ms): (u64, u64),
) -> Option<Sign> {
    let Renewal::Optional { share } = renewal else { return None };
    let usual = dialects::dialect(reading.dialect).usual_lease().filter(|_| reading.strength >= Strength::Sure)?;
    let (lease_ms, lease_is) = lock.lease().filter(|_| lock.beats().is_none())?;
    let usual_ms = usual.as_millis() as u64;
    let short = if lease_is == HeldIs::Exact { NEARLY } else { UNSEEN };
    if !(usual_ms - short..=usual_ms + NEARLY).contains(&lease_ms) {
        return None;
    }
    let (for_ms, period_ms) = (lease_ms.checked_sub(left_ms)? + over_ms, (usual_ms as f64 * f64::from(share)) as u64);
    let (renewed, lease_of_others) = (RenewedBy::Usually, false);
    is_silent(period_ms, for_ms).then_some(Sign::Silent { for_ms, period_ms, renewed, lease_of_others })
}

/// How often somebody renews a lock: what its library does, and `like`, how others of its kind are renewed.
fn renewed_every(
    lock: &Lock,
    reading: Reading,
    renewal: Renewal,
    like: Option<(u64, u64)>,
    lease_ms: u64,
) -> Option<(u64, RenewedBy)> {
    let of_lease = |share: f32| (lease_ms as f64 * f64::from(share)) as u64;
    let sure = reading.strength >= Strength::Sure;
    let by_library = match renewal {
        Renewal::Watchdog { share } | Renewal::Optional { share } if sure => Some(of_lease(share)),
        _ => None,
    };
    let by_pattern = like.map(|(period_ms, _)| period_ms);
    let seen = lock.beats().and(by_pattern.or(by_library)).map(|ms| (ms, RenewedBy::Seen));
    let pattern = || by_pattern.map(|ms| (ms.max(by_library.unwrap_or(0)), RenewedBy::Pattern));
    let always =
        || matches!(renewal, Renewal::Watchdog { .. }).then_some(by_library?).map(|ms| (ms, RenewedBy::Library));
    seen.or_else(pattern).or_else(always)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Sign =
        Sign::Silent { for_ms: 20_000, period_ms: 9_000, renewed: RenewedBy::Library, lease_of_others: false };

    #[test]
    fn one_sign_is_a_suspicion_and_two_are_likely() {
        let one = Signs { silent: Some(SILENT), ..Signs::default() };
        let two = Signs { absent: true, ..one };
        let three = Signs { past_end: Some(Sign::PastEnd { ago_ms: 1 }), ..two };
        assert_eq!([Signs::default(), one, two, three].map(Signs::count), [0, 1, 2, 3]);
        for alone in three.iter() {
            assert_eq!((alone.says(), alone.confidence() < 0.7), (Says::Gone, true), "{alone:?}");
        }
        assert!(one.confidence() < 0.7 && (0.7..0.9).contains(&two.confidence()) && three.confidence() <= 0.9);
        let said =
            "no renewal for at least 20.0s, though its library renews every 9.0s; no client has its holder's name";
        assert!(two.sentence().starts_with(said), "{}", two.sentence());
    }

    #[test]
    fn who_may_have_no_holder_comes_before_who_has_one() {
        let mut all: Vec<Severity> = State::ALL.into_iter().map(|state| Severity::new(state, false)).collect();
        all.extend(State::ALL.into_iter().map(|state| Severity::new(state, true)));
        all.sort_unstable();
        let place = |state, suspected| all.iter().position(|one| *one == Severity::new(state, suspected)).unwrap();
        assert!(place(State::Orphan, true) < place(State::NoTtl, true));
        assert!(place(State::NoTtl, true) < place(State::Held, true), "the worse state first");
        assert!(place(State::Held, true) < place(State::NoTtl, false));
        assert_eq!(Severity::new(State::Stalled, true), Severity::new(State::Stalled, false), "it says so itself");
    }
}
