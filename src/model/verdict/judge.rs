//! Judges a lock: finds the worst state that applies, in the order of [`State`].
//!
//! Cheap enough for every lock: nothing is decoded or allocated until sentences are needed.

use crate::base::time::Time;
use crate::dialects::{self, Renewal, counter};
use crate::lock::{Kind, Mode};
use crate::model::held_by::Share;
use crate::model::history::cadence::Rhythm;
use crate::model::lock::Reading;
use crate::model::table::Table;
use crate::model::verdict::cause::{Cause, Gone, Second, Wanted, no_ttl};
use crate::model::wants::instance::{Closed, Standing};
use crate::model::wants::touched;
use crate::model::{Beats, HeldIs, Lock, Notice, State, Tries, Verdict};

/// After this many renewals, silence of a watchdog means something.
const BEATS: u64 = 3;

impl Table {
    /// The verdict on one lock at `now`.
    pub fn judge(&self, lock: &Lock, now: Time) -> Verdict {
        let cause = self.cause(lock, now);
        let state = cause.state();
        let mut evidence: Vec<String> = cause.sentence(now).into_iter().collect();
        evidence.extend(tally(lock));
        let holders = lock.held_by.shares().len();
        if state == State::Orphan && holders > 1 {
            evidence.push(format!("and so are all of its {holders} holders"));
        }
        let counts = lock.reading.is_some_and(|reading| reading.counts);
        if state < State::NoTtl && lock.expires.is_none() && !counts {
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
        self.cause(lock, now).state()
    }

    fn cause<'a>(&'a self, lock: &'a Lock, now: Time) -> Cause<'a> {
        let Some(reading) = lock.reading.filter(|_| lock.is_held()) else {
            return Cause::Free { last: lock.past().last() };
        };
        if reading.kind == Kind::Marker {
            return Cause::Done;
        }
        if reading.vacant {
            return Cause::Vacant;
        }
        self.trouble(lock, reading, now).unwrap_or(if reading.test { Cause::Test } else { Cause::Held })
    }

    fn trouble<'a>(&'a self, lock: &'a Lock, reading: Reading, now: Time) -> Option<Cause<'a>> {
        if reading.mixed {
            return Some(Cause::Split(Second::Beside { exclusive: reading.mode == Mode::Exclusive }));
        }
        let (alone, one) = (reading.is_alone(), lock.has_one_holder());
        let rhythm = lock.beats().filter(|_| one && self.told_of(lock)).and_then(|_| lock.rhythm(now));
        if alone
            && !reading.stays
            && let Some(second) = self.second(lock, now)
        {
            return Some(Cause::Split(second));
        }
        if !reading.stays
            && let Some(gone) = self.gone(lock, rhythm, now)
        {
            return Some(Cause::Orphan(gone));
        }
        // What counts permits has no holder that could die.
        let Some(expires) = lock.expires.or((reading.counts).then_some(Time(i64::MAX))) else {
            return Some(Cause::NoTtl { of_the_library: is_without_lease(lock) });
        };
        let left_ms = expires.since(now).as_millis() as u64;
        if let Some(rhythm) = rhythm.filter(|rhythm| rhythm.missed > 0) {
            return Some(Cause::Stalled { rhythm, lost_in_ms: left_ms });
        }
        if let Some(wanted) = self.wanted(lock, now) {
            return Some(Cause::Contended(wanted));
        }
        let long = if alone && !reading.stays { self.long(lock, now) } else { None };
        // Where nothing tells of renewals as they come, one that was seen is all there is to go by.
        let renewed = rhythm.is_some() || lock.beats().is_some() && !(one && self.told_of(lock));
        long.or_else(|| self.expiring(lock, reading, renewed, left_ms, now))
    }

    /// Another client that may still be working under this lock.
    fn second<'a>(&self, lock: &'a Lock, now: Time) -> Option<Second<'a>> {
        let contention = lock.contention()?;
        let fresh = |at: Time| now.since(at).as_secs_f64() <= self.tuning.split_for_s;
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

    /// What says that its holder is gone for good, or all of several: whoever is there keeps the lock for the others.
    fn gone(&self, lock: &Lock, rhythm: Option<Rhythm>, now: Time) -> Option<Gone<'_>> {
        match lock.held_by.shares() {
            [] => self.holder_gone(lock, self.standing(lock), lock.beats(), rhythm, now),
            [first, others @ ..] => {
                let gone = self.share_gone(lock, first, now)?;
                others.iter().all(|share| self.share_gone(lock, share, now).is_some()).then_some(gone)
            }
        }
    }

    /// The same of one holder of several.
    pub(in crate::model) fn share_gone(&self, lock: &Lock, share: &Share, now: Time) -> Option<Gone<'_>> {
        let beats = share.beats.as_deref().filter(|_| self.told_of(lock));
        let rhythm = beats.and_then(|beats| Some(Rhythm::at(beats.period_ms?, beats.last()?, now)));
        self.holder_gone(lock, self.clients.standing(share.instance), beats, rhythm, now)
    }

    fn holder_gone<'a>(
        &self,
        lock: &Lock,
        standing: Standing<'a>,
        beats: Option<&Beats>,
        rhythm: Option<Rhythm>,
        now: Time,
    ) -> Option<Gone<'a>> {
        let silent = |rhythm: &Rhythm| {
            let beats = beats.map_or(0, |beats| beats.count);
            rhythm.missed as f64 >= self.tuning.orphan_periods && beats >= BEATS
        };
        match standing {
            Standing::Open(_) => None,
            Standing::Closed(closed) if closed.is_proof(lock) || closed.is_proof_with(rhythm) => {
                let Closed { connection, at, peers, .. } = closed;
                let long_enough = now.since(at).as_secs_f64() >= self.tuning.orphan_closed_s;
                // It had another connection, then.
                let renewed_since = beats.and_then(Beats::last).is_some_and(|last| last > at);
                // Both may have gone with a restart of the server, and the lock not be looked for yet.
                let still_there = self.known_until(lock, now) > at;
                let fixed = beats.is_none() && lock.expires.is_some();
                let gone = long_enough && !renewed_since && still_there;
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
    fn long<'a>(&'a self, lock: &Lock, now: Time) -> Option<Cause<'a>> {
        let holds = self.holds(lock);
        let p99 = holds.p99_ms().filter(|_| holds.timed() as f64 >= self.tuning.long_holds)? as f64;
        let most = (p99 * self.tuning.long_times).max(p99 + self.tuning.long_beyond_s * 1_000.0);
        let known = |(held_ms, held_is): &(u64, HeldIs)| *held_is != HeldIs::Estimated && *held_ms as f64 > most;
        let (held_ms, held_is) = self.held_for(lock, now).filter(known)?;
        Some(Cause::Long { held_ms, held_is, holds })
    }

    fn expiring(&self, lock: &Lock, reading: Reading, renewed: bool, left_ms: u64, now: Time) -> Option<Cause<'_>> {
        let tuning = &self.tuning;
        let (lease_ms, lease_is) = lock.lease().filter(|_| !renewed)?;
        let near = left_ms as f64 <= tuning.expiring_left_s * 1_000.0;
        if !near || (lease_ms as f64) < tuning.expiring_lease_s * 1_000.0 {
            return None;
        }
        // Some libraries renew this late, and this hold may be too young to show it.
        let share = match dialects::dialect(reading.dialect).renewal() {
            Renewal::Watchdog { share } | Renewal::Optional { share } => (1.0 - f64::from(share)) / 2.0,
            Renewal::Manual | Renewal::NoLease => 1.0,
        };
        let share = tuning.expiring_share.min(share);
        let watched = self.told_of(lock) && now.since(lock.first_seen).as_millis() as u64 >= lease_ms;
        (left_ms as f64 <= share * lease_ms as f64).then_some(Cause::Expiring { left_ms, lease_ms, lease_is, watched })
    }

    /// How long it has been held at `now`, and how well that is known.
    pub fn held_for(&self, lock: &Lock, now: Time) -> Option<(u64, HeldIs)> {
        // If it was seen only once, its age is unknown.
        let known = lock.is_held() && (lock.since_is != HeldIs::AtLeast || self.known_until(lock, now) > lock.since);
        known.then(|| (now.since(lock.since).as_millis() as u64, lock.since_is))
    }
}

/// What a number says that counts permits: those that are left, or, where it has a TTL, those in use.
fn tally(lock: &Lock) -> Option<String> {
    let number =
        lock.reading.filter(|reading| reading.counts && lock.is_held()).and_then(|_| counter::number(&lock.value))?;
    Some(match lock.expires {
        None => format!("{number} permits are left, and who has the others is not stored"),
        Some(_) => format!("{number} permits are in use, and who has them is not stored"),
    })
}

fn is_without_lease(lock: &Lock) -> bool {
    lock.reading.is_some_and(|reading| dialects::dialect(reading.dialect).renewal() == Renewal::NoLease)
}
