//! Judges a lock: finds the worst state that applies, in the order of [`State`].
//!
//! Cheap enough for every lock: nothing is decoded or allocated until sentences are needed.

use crate::base::time::Time;
use crate::dialects::{self, Renewal, Strength, counter};
use crate::lock::{Kind, Mode};
use crate::model::held_by::Share;
use crate::model::history::cadence::Rhythm;
use crate::model::lock::Reading;
use crate::model::table::Table;
use crate::model::table::node::Followed;
use crate::model::verdict::cause::{Cause, Gone, Second, Wanted, no_ttl};
use crate::model::verdict::signs::Signs;
use crate::model::wants::instance::{Closed, Standing};
use crate::model::wants::touched;
use crate::model::{Beats, HeldIs, Lock, Notice, Severity, State, Tries, Verdict};

/// After this many renewals, silence of a watchdog means something.
const BEATS: u64 = 3;

impl Table {
    /// The verdict on one lock at `now`.
    pub fn judge(&self, lock: &Lock, now: Time) -> Verdict {
        let (cause, signs) = self.cause(lock, now);
        self.verdict(lock, &cause, signs, now)
    }

    /// The verdict, once its cause is found.
    pub(in crate::model) fn verdict(&self, lock: &Lock, cause: &Cause<'_>, signs: Signs, now: Time) -> Verdict {
        let state = cause.state();
        let mut evidence: Vec<String> = cause.sentence(now).into_iter().chain(cause.remark()).collect();
        // A doubt that is no finding of its own is stated here.
        let doubted = signs.count() == 0 && !signs.is_empty();
        if state == State::NoTtl && signs.count() > 0 || doubted && state > State::Stalled {
            evidence.push(signs.sentence());
        }
        evidence.extend(tally(lock));
        let holders = lock.held_by.shares().len();
        if state == State::Orphan && holders > 1 {
            evidence.push(format!("and all of its {holders} holders are gone"));
        }
        let counts = lock.reading.is_some_and(|reading| reading.counts);
        if state < State::NoTtl && lock.is_held() && lock.expires().is_none() && !counts {
            evidence.push(no_ttl(is_without_lease(lock)));
        }
        // An operator who is about to free it must know who waits for it.
        let waits = lock.waits(now).filter(|waits| waits.count > 0 && lock.is_held());
        evidence.extend(waits.map(|waits| waits.sentence(now)));
        // Counted attempts say more, so they replace this.
        let wanted = lock.wanted(now).filter(|_| lock.is_held() && lock.tries(now).is_none());
        evidence.extend(wanted.map(|wanted| touched::sentence(wanted, now)));
        let ours = lock.own_write().filter(|_| lock.is_held());
        evidence.extend(ours.map(|(at, write)| write.sentence(now.since(*at).as_millis() as u64)));
        Verdict { state, evidence, confidence: cause.confidence() }
    }

    /// The state word alone: cheap enough to ask of every lock.
    pub fn state(&self, lock: &Lock, now: Time) -> State {
        self.cause(lock, now).0.state()
    }

    /// Its place among all locks: as cheap.
    pub fn severity(&self, lock: &Lock, now: Time) -> Severity {
        let (cause, signs) = self.cause(lock, now);
        Severity::new(cause.state(), cause.is_doubted() || !signs.is_empty())
    }

    /// The worst state, and the signs that its holder is gone.
    pub(in crate::model) fn cause<'a>(&'a self, lock: &'a Lock, now: Time) -> (Cause<'a>, Signs) {
        let nobody = |cause| (cause, Signs::default());
        let Some(reading) = lock.reading.filter(|_| lock.is_held()) else {
            let free = || Cause::Free { last: lock.past().last() };
            return nobody(self.listed_loss(lock, now).map_or_else(free, |(former, loss)| Cause::Lost(former, loss)));
        };
        if reading.kind == Kind::Marker {
            return nobody(Cause::Done);
        }
        if reading.vacant {
            return nobody(Cause::Vacant);
        }
        if reading.mixed {
            return nobody(Cause::Split(Second::Beside { exclusive: reading.mode == Mode::Exclusive }));
        }
        let followed = self.followed(lock, now);
        let rhythm = rhythm(lock, followed);
        let signs = self.signs(lock, reading, rhythm, followed, now);
        (self.trouble(lock, reading, rhythm, signs, followed, now), signs)
    }

    /// How many renewals it has missed; `None` where it has no rhythm.
    pub(in crate::model) fn missed_renewals(&self, lock: &Lock, now: Time) -> Option<u64> {
        rhythm(lock, self.followed(lock, now)).map(|rhythm| rhythm.missed)
    }

    fn trouble<'a>(
        &'a self,
        lock: &'a Lock,
        reading: Reading,
        rhythm: Option<Rhythm>,
        signs: Signs,
        followed: Followed,
        now: Time,
    ) -> Cause<'a> {
        let alone = reading.is_alone();
        if alone
            && !reading.stays
            && let Some(second) = self.second(lock, now)
        {
            return Cause::Split(second);
        }
        if !reading.stays
            && let Some(gone) = self.gone(lock, rhythm, followed)
        {
            return Cause::Orphan(gone);
        }
        if signs.count() > 1 {
            return Cause::Orphan(Gone::Signs(signs));
        }
        // What counts permits has no holder that could die.
        let Some(expires) = lock.expires().or((reading.counts).then_some(Time(i64::MAX))) else {
            return Cause::NoTtl { of_the_library: is_without_lease(lock) };
        };
        let left_ms = expires.ms_since(now);
        if let Some(rhythm) = rhythm.filter(|rhythm| rhythm.missed > 0) {
            return Cause::Stalled { rhythm, lost_in_ms: left_ms };
        }
        if let Some(wanted) = self.wanted(lock, now) {
            return Cause::Contended(wanted);
        }
        if alone
            && !reading.stays
            && let Some(long) = self.long(lock, followed, now)
        {
            return long;
        }
        // It may have been renewed since every change was last known.
        let left_then_ms = expires.ms_since(followed.reported);
        if left_then_ms as f64 <= self.tuning.expiring_left_s * 1_000.0
            && !is_renewed(lock, rhythm, followed)
            && let Some(expiring) = self.expiring(lock, reading, (left_ms, left_then_ms), followed, now)
        {
            return expiring;
        }
        if reading.test { Cause::Test } else { Cause::Held }
    }

    /// Another client that may still be working under this lock.
    fn second<'a>(&'a self, lock: &'a Lock, now: Time) -> Option<Second<'a>> {
        if let Some(elsewhere) = self.held_elsewhere(lock, now) {
            return Some(elsewhere);
        }
        let contention = lock.contention()?;
        let fresh = |at: Time| now.ms_since(at) as f64 <= self.tuning.split_for_s * 1_000.0;
        let late = contention.notices().rev().find_map(|(at, notice)| match notice {
            Notice::Late { token, address, renewal } if *at >= lock.since && fresh(*at) => {
                Some(Second::Late { token, address: address.as_ref(), renewal: *renewal, at: *at, taken: lock.since })
            }
            _ => None,
        });
        let took = || {
            let former = contention.former.as_ref()?;
            // Without an end of its lease, only elapsed time suggests that the former holder is done.
            let on = former.until.map_or_else(|| fresh(lock.since), |until| until > now);
            on.then_some(Second::Took { from: former.token.as_ref(), at: lock.since, until: former.until })
        };
        late.or_else(took)
    }

    /// The proof that its holder is gone, or all of its holders: a single living one keeps the lock.
    fn gone(&self, lock: &Lock, rhythm: Option<Rhythm>, followed: Followed) -> Option<Gone<'_>> {
        match lock.held_by.shares() {
            [] => self.holder_gone(lock, self.standing(lock), lock.beats(), rhythm, followed),
            [first, others @ ..] => {
                let gone = self.share_gone(lock, first, followed)?;
                others.iter().all(|share| self.share_gone(lock, share, followed).is_some()).then_some(gone)
            }
        }
    }

    /// The same of one holder of several.
    pub(in crate::model) fn share_gone(&self, lock: &Lock, share: &Share, followed: Followed) -> Option<Gone<'_>> {
        let beats = share.beats.as_deref().filter(|_| followed.is_reported);
        let rhythm = beats.and_then(|beats| beats.rhythm(followed.known));
        let rhythm = rhythm.filter(|rhythm| is_watchdog(lock, rhythm.period_ms));
        self.holder_gone(lock, self.clients.standing(share.instance), beats, rhythm, followed)
    }

    fn holder_gone<'a>(
        &self,
        lock: &Lock,
        standing: Standing<'a>,
        beats: Option<&Beats>,
        rhythm: Option<Rhythm>,
        followed: Followed,
    ) -> Option<Gone<'a>> {
        let silent = |rhythm: &Rhythm| {
            let beats = || beats.map_or(0, |beats| beats.count);
            rhythm.missed as f64 >= self.tuning.orphan_periods && beats() >= BEATS
        };
        match standing {
            Standing::Open(_) => None,
            Standing::Closed(closed) if closed.is_proof(lock) || closed.is_proof_with(rhythm) => {
                let Closed { connection, at, peers, .. } = closed;
                let long_enough = followed.reported.since(at).as_secs_f64() >= self.tuning.orphan_closed_s;
                // It had another connection, then.
                let renewed_since = beats.and_then(Beats::last).is_some_and(|last| last > at);
                // Both may have gone with a restart of the server, and the lock not be looked for yet.
                let still_there = followed.known > at;
                let fixed = beats.is_none() && lock.expires().is_some();
                let by_steps = beats.and_then(|beats| beats.period_ms).is_some_and(|ms| !is_watchdog(lock, ms));
                let gone = long_enough && !renewed_since && still_there && !by_steps;
                let doubtful = peers || fixed || closed.doubt.is_some();
                gone.then_some(Gone::Closed { connection, at, rhythm, doubtful })
            }
            Standing::Closed(_) | Standing::Unknown => rhythm.filter(silent).map(Gone::Silent),
        }
    }

    fn wanted(&self, lock: &Lock, now: Time) -> Option<Wanted> {
        let contention = lock.contention()?;
        let tuning = &self.tuning;
        let counted = lock.waits(now).filter(|waits| !waits.is_at_most());
        if counted.is_some_and(|waits| f64::from(waits.count) >= tuning.contended_waiters) {
            return Some(Wanted::Waits);
        }
        let tries = lock.tries(now);
        let contenders = contention.contenders();
        let waiting = contention.trying(now);
        if waiting > 0 && waiting as f64 >= tuning.contended_waiters {
            return Some(Wanted::Contenders(waiting, tries));
        }
        // One polling client may fail ten times a second, so if clients are known, their number counts instead.
        let many = |tries: &Tries| {
            let sure = tries.failures_per_s() - tries.margin_per_s;
            let most = tries.failures as f64 >= tuning.contended_share * tries.attempts as f64;
            contenders.is_empty() && sure >= tuning.contended_failures && most
        };
        tries.filter(many).map(Wanted::Failures)
    }

    /// Held far beyond what is usual for its kind.
    fn long<'a>(&'a self, lock: &Lock, followed: Followed, now: Time) -> Option<Cause<'a>> {
        let holds = self.holds(lock);
        let p99 = holds.p99_ms()? as f64;
        let (held_ms, held_is) = (now.ms_since(lock.since), lock.since_is);
        // Only those that are held for that long are asked how well it is known.
        if held_ms as f64 <= (p99 * self.tuning.long_times).max(p99 + self.tuning.long_beyond_s * 1_000.0) {
            return None;
        }
        let known = held_is != HeldIs::Estimated && is_age_known(lock, followed);
        let enough = holds.timed() as f64 >= self.tuning.long_holds;
        (known && enough).then_some(Cause::Long { held_ms, held_is, holds })
    }

    /// What is near its end: `left_then_ms` was left when every change was last known.
    fn expiring(
        &self,
        lock: &Lock,
        reading: Reading,
        (left_ms, left_then_ms): (u64, u64),
        followed: Followed,
        now: Time,
    ) -> Option<Cause<'_>> {
        let tuning = &self.tuning;
        let (lease_ms, lease_is) = lock.lease()?;
        if (lease_ms as f64) < tuning.expiring_lease_s * 1_000.0 {
            return None;
        }
        // Some libraries renew this late, and this hold may be too young to show it.
        let share = match dialects::dialect(reading.dialect).renewal() {
            Renewal::Watchdog { share } | Renewal::Optional { share } => (1.0 - f64::from(share)) / 2.0,
            Renewal::Manual | Renewal::NoLease => 1.0,
        };
        let share = tuning.expiring_share.min(share);
        let watched = followed.is_reported && now.ms_since(lock.first_seen) >= lease_ms;
        (left_then_ms as f64 <= share * lease_ms as f64).then_some(Cause::Expiring {
            left_ms,
            lease_ms,
            lease_is,
            watched,
        })
    }

    /// How long it has been held at `now`, and how well that is known.
    pub fn held_for(&self, lock: &Lock, now: Time) -> Option<(u64, HeldIs)> {
        let known = lock.is_held() && is_age_known(lock, self.followed(lock, now));
        known.then(|| (now.ms_since(lock.since), lock.since_is))
    }
}

/// If it was seen only once, its age is unknown.
fn is_age_known(lock: &Lock, followed: Followed) -> bool {
    lock.since_is != HeldIs::AtLeast || followed.known > lock.since
}

/// Whether somebody renews it, as far as that is known.
fn is_renewed(lock: &Lock, rhythm: Option<Rhythm>, followed: Followed) -> bool {
    // Where renewals are not reported as they come, the last one seen is the only evidence.
    let unreported = || lock.beats().is_some() && !(followed.is_reported && lock.has_one_holder());
    // What is not read yet may be a renewal too, or the end of the hold, and another one.
    rhythm.is_some() || unreported() || lock.pending.is_some()
}

/// How it is renewed, if it is by a watchdog and every renewal is told.
fn rhythm(lock: &Lock, followed: Followed) -> Option<Rhythm> {
    lock.beats().filter(|_| followed.is_reported && lock.has_one_holder())?;
    // A renewal that was not told yet is not missed.
    let rhythm = lock.rhythm(followed.known)?;
    // What was heard and is not read yet may be the renewal that is missed.
    let rhythm = if lock.pending.is_some() { Rhythm { missed: 0, ..rhythm } } else { rhythm };
    is_watchdog(lock, rhythm.period_ms).then_some(rhythm)
}

/// Whether renewals at this pace are a watchdog's, so that their silence says something. Far more of them than the lease
/// needs are the work's own, made step by step: a longer step makes none, and its lease runs on.
pub(in crate::model) fn is_watchdog(lock: &Lock, period_ms: u64) -> bool {
    let Some(reading) = lock.reading else { return true };
    is_watchdog_of(lock, reading, dialects::dialect(reading.dialect).renewal(), period_ms)
}

/// The same for callers that know how its library renews.
pub(in crate::model) fn is_watchdog_of(lock: &Lock, reading: Reading, renewal: Renewal, period_ms: u64) -> bool {
    let most = match renewal {
        Renewal::Manual | Renewal::NoLease => 10,
        // Its watchdog is known to renew, whatever the lease.
        Renewal::Watchdog { .. } | Renewal::Optional { .. } if reading.strength >= Strength::Sure => return true,
        Renewal::Watchdog { .. } | Renewal::Optional { .. } => 100,
    };
    lock.lease_ms().is_none_or(|lease_ms| period_ms.saturating_mul(most) >= lease_ms)
}

/// What a number says that counts permits: those that are left, or, where it has a TTL, those in use.
fn tally(lock: &Lock) -> Option<String> {
    let number =
        lock.reading.filter(|reading| reading.counts && lock.is_held()).and_then(|_| counter::number(&lock.value))?;
    Some(match lock.expires() {
        None => format!("{number} permits are left, and who has the others is not stored"),
        Some(_) => format!("{number} permits are in use, and who has them is not stored"),
    })
}

/// Whether its library gives no TTL.
pub(in crate::model) fn is_without_lease(lock: &Lock) -> bool {
    lock.reading.is_some_and(|reading| dialects::dialect(reading.dialect).renewal() == Renewal::NoLease)
}
