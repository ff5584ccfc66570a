//! A hold over time: how much of its lease was left when, and which renewals were due. Pure.
//!
//! The past remainder is not stored. It is computed from the times when the lease was given in full (the acquire, if it
//! was seen, and each renewal) and from the deadline. What can't be computed is left open, not guessed.

use std::time::Duration;

use crate::base::time::Time;
use crate::model::cadence;
use crate::model::{HeldIs, LockView};

/// The axis reaches at most this many leases back.
const LEASES: u32 = 4;
/// Times that differ by less count as equal.
const GRAIN: Duration = Duration::from_millis(500);

/// One hold, from the earliest known time worth showing to its deadline.
#[derive(Clone, PartialEq, Debug)]
pub struct Sawtooth {
    pub from: Time,
    pub now: Time,
    pub deadline: Time,
    pub lease: Duration,
    /// When the lease was given in full, oldest first.
    given: Vec<Time>,
    /// The renewals that were seen.
    pub beats: Vec<Time>,
    /// The renewals that were expected, and the next one.
    pub expected: Vec<Due>,
}

/// A renewal that was, or will be, due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    pub at: Time,
    /// It was due and did not come.
    pub missed: bool,
}

impl Sawtooth {
    /// Computes it, or says why there is nothing to draw.
    pub fn of(lock: &LockView, now: Time) -> Result<Sawtooth, &'static str> {
        if lock.verdict.state.is_free() {
            return Err("nobody holds it");
        }
        let Some(left) = lock.ttl.remaining() else {
            return Err("it never expires: it stays until its holder or an operator frees it");
        };
        let Some(lease) = lock.whole_lease_ms().map(Duration::from_millis) else {
            return Err("the full lease is not known until the lock is renewed or taken again");
        };
        let deadline = now + left;
        let since = lock.held_ms.map_or(now, |ms| now - Duration::from_millis(ms));
        let whole = lock.renewals.as_ref().is_some_and(|renewals| renewals.count == lock.beats.len() as u64);
        let taken = (lock.held_is == Some(HeldIs::Exact) && whole).then_some(since);
        let given: Vec<Time> = taken.into_iter().chain(lock.beats.iter().copied()).collect();
        // Before the first renewal seen, it is unknown when the lease was last given.
        let known = given.first().copied().unwrap_or(since.max(deadline - lease));
        let from = known.max(now - lease * LEASES).min(now);
        let period = lock.renewals.as_ref().and_then(|renewals| renewals.period_ms.or(renewals.expected_ms));
        let period = period.filter(|ms| *ms > 0).map(Duration::from_millis);
        let expected = period.map(|period| expected(&given, period, now)).unwrap_or_default();
        // A deadline later than the last renewal allows was set after it, for example by another reader.
        let implied = deadline - lease;
        let unexplained = given.last().is_some_and(|last| implied > *last + GRAIN) && implied <= now;
        let given = if unexplained { [given, vec![implied]].concat() } else { given };
        Ok(Sawtooth { from, now, deadline, lease, given, beats: lock.beats.clone(), expected })
    }

    /// The share of the lease that was left at `at`, or will be if nobody renews it.
    pub fn share_left(&self, at: Time) -> Option<f64> {
        let last = self.given.last();
        let given = self.given.iter().rev().find(|given| **given <= at);
        let left = match given {
            Some(given) if Some(given) != last => self.lease.saturating_sub(at.since(*given)),
            // The server itself reported when the last lease ends.
            Some(_) => self.deadline.since(at),
            None if self.given.is_empty() && at >= self.from => self.deadline.since(at),
            None => return None,
        };
        Some((left.as_secs_f64() / self.lease.as_secs_f64()).min(1.0))
    }

    /// The time in the middle of a column, of `width` columns.
    pub fn moment(&self, column: usize, width: usize) -> Time {
        let share = (column as f64 + 0.5) / width.max(1) as f64;
        self.from + Duration::from_millis((self.span_ms() * share) as u64)
    }

    /// The column of a time; `None` if it is outside the axis.
    pub fn column(&self, at: Time, width: usize) -> Option<usize> {
        if at < self.from || at > self.end() || width == 0 {
            return None;
        }
        let share = at.since(self.from).as_millis() as f64 / self.span_ms();
        Some(((share * width as f64) as usize).min(width - 1))
    }

    fn end(&self) -> Time {
        self.deadline.max(self.now)
    }

    fn span_ms(&self) -> f64 {
        (self.end().since(self.from).as_millis() as f64).max(1.0)
    }
}

/// One renewal is due a period after each time the lease was given, and another each period until the next came.
fn expected(given: &[Time], period: Duration, now: Time) -> Vec<Due> {
    /// More would not fit on any axis.
    const MOST: u32 = 200;
    // The same rule decides when a lock is stalled.
    let period_ms = period.as_millis() as u64;
    let grace = Duration::from_millis(cadence::grace_ms(period_ms));
    let mut expected = Vec::new();
    for (index, given_at) in given.iter().enumerate() {
        let dues = (1..=MOST).map(|count| *given_at + period * count);
        match given.get(index + 1) {
            Some(next) => expected
                .extend(dues.take_while(|at| *at <= *next + grace).map(|at| Due { at, missed: at + grace < *next })),
            None => {
                let late = cadence::is_missed(period_ms, now.ms_since(*given_at));
                let past: Vec<Time> = dues.clone().take_while(|at| *at <= now).collect();
                let next = dues.clone().nth(past.len());
                expected.extend(past.into_iter().map(|at| Due { at, missed: late }));
                expected.extend(next.map(|at| Due { at, missed: false }));
            }
        }
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Ttl;
    use crate::model::{RenewalView, State};
    use crate::testkit::sample;

    const NOW: Time = Time(1_790_000_900_000);

    fn ago(seconds: u64) -> Time {
        NOW - Duration::from_secs(seconds)
    }

    /// A lock with a lease of 30 s; `taken` and `renewed` are in seconds ago.
    fn lock(taken: u64, renewed: &[u64], left: u64) -> LockView {
        LockView {
            ttl: Ttl::In(Duration::from_secs(left)),
            held_ms: Some(taken * 1_000),
            beats: renewed.iter().map(|seconds| ago(*seconds)).collect(),
            renewals: Some(RenewalView {
                count: renewed.len() as u64,
                last_ms: renewed.last().map(|seconds| seconds * 1_000),
                period_ms: Some(10_000),
                expected_ms: Some(10_000),
                missed: Some(0),
                jitter_ms: Some(200),
                due_in_ms: Some(3_100),
            }),
            ..sample::redisson()
        }
    }

    fn seconds_left(timeline: &Sawtooth, at: Time) -> Option<u64> {
        timeline.share_left(at).map(|share| (share * 30.0).round() as u64)
    }

    #[test]
    fn what_is_left_falls_and_jumps_back_up_at_each_renewal() {
        let timeline = Sawtooth::of(&lock(34, &[24, 14, 4], 26), NOW).unwrap();
        assert_eq!((timeline.from, timeline.deadline), (ago(34), NOW + Duration::from_secs(26)));
        let left: Vec<_> = [34, 25, 24, 15, 14, 4, 0].map(|s| seconds_left(&timeline, ago(s))).to_vec();
        assert_eq!(left, [30, 21, 30, 21, 30, 30, 26].map(Some));
        assert_eq!(seconds_left(&timeline, NOW + Duration::from_secs(20)), Some(6));
        assert_eq!(seconds_left(&timeline, ago(40)), None, "before it was taken there is nothing");
    }

    #[test]
    fn what_was_left_before_the_first_renewal_seen_is_not_made_up() {
        let mut found = lock(34, &[24, 14, 4], 26);
        found.held_is = Some(HeldIs::AtLeast);
        let timeline = Sawtooth::of(&found, NOW).unwrap();
        assert_eq!(timeline.from, ago(24));
        assert_eq!(timeline.share_left(ago(30)), None);
        // The same if older renewals were forgotten.
        let mut long = lock(500, &[24, 14, 4], 26);
        long.renewals.as_mut().unwrap().count = 50;
        assert_eq!(Sawtooth::of(&long, NOW).unwrap().from, ago(24));
    }

    #[test]
    fn a_hold_without_renewals_falls_from_where_it_was_first_seen() {
        let mut found = lock(5, &[], 12);
        found.held_is = Some(HeldIs::AtLeast);
        let timeline = Sawtooth::of(&found, NOW).unwrap();
        assert_eq!(timeline.from, ago(5));
        assert_eq!(seconds_left(&timeline, ago(5)), Some(17));
        // The holder's own clock claims an age beyond its lease: only what can be true is shown.
        let old = LockView { held_is: Some(HeldIs::Estimated), ..lock(300, &[], 12) };
        assert_eq!(Sawtooth::of(&old, NOW).unwrap().from, ago(18));
    }

    #[test]
    fn another_reader_that_came_in_shows_as_a_jump_without_a_renewal() {
        let timeline = Sawtooth::of(&lock(31, &[21, 11], 26), NOW).unwrap();
        let left: Vec<_> = [11, 5, 4, 0].map(|s| seconds_left(&timeline, ago(s))).to_vec();
        assert_eq!(left, [30, 24, 30, 26].map(Some));
        assert_eq!(timeline.beats, [ago(21), ago(11)]);
    }

    /// How long ago each renewal was due, in seconds, and whether it was missed.
    fn dues(timeline: &Sawtooth) -> Vec<(i64, bool)> {
        timeline.expected.iter().map(|due| ((NOW.0 - due.at.0) / 1_000, due.missed)).collect()
    }

    #[test]
    fn missed_renewals_are_those_that_were_due_and_did_not_come() {
        let stalled = Sawtooth::of(&lock(49, &[39, 29], 1), NOW).unwrap();
        assert_eq!(dues(&stalled), [(39, false), (29, false), (19, true), (9, true), (-1, false)]);
        let healthy = Sawtooth::of(&lock(34, &[24, 14, 4], 26), NOW).unwrap();
        assert_eq!(dues(&healthy), [(24, false), (14, false), (4, false), (-6, false)]);
        let late = Sawtooth::of(&lock(23, &[13], 17), NOW).unwrap();
        assert_eq!(dues(&late), [(13, false), (3, false), (-7, false)], "a little late is not missed");
        let resumed = Sawtooth::of(&lock(54, &[44, 14, 4], 26), NOW).unwrap();
        assert_eq!(
            dues(&resumed),
            [(44, false), (34, true), (24, true), (14, false), (4, false), (-6, false)],
            "a gap stays in sight after the renewals have come back"
        );
    }

    #[test]
    fn moments_have_columns_and_columns_moments() {
        let timeline = Sawtooth::of(&lock(30, &[20, 10], 20), NOW).unwrap();
        assert_eq!(timeline.column(ago(30), 50), Some(0));
        assert_eq!(timeline.column(NOW, 50), Some(30));
        assert_eq!(timeline.column(timeline.deadline, 50), Some(49));
        assert_eq!(timeline.column(ago(31), 50), None);
        assert_eq!(timeline.column(NOW, 0), None);
        assert_eq!(timeline.column(timeline.moment(17, 50), 50), Some(17));
    }

    #[test]
    fn a_long_hold_shows_its_last_few_leases() {
        let timeline =
            Sawtooth::of(&lock(842, &(0..16).rev().map(|n| n * 20 + 4).collect::<Vec<_>>(), 26), NOW).unwrap();
        assert_eq!(timeline.from, ago(120));
    }

    #[test]
    fn where_nothing_is_known_nothing_is_drawn() {
        for (lock, why) in [
            (sample::unknown(), "lease is not known"),
            (sample::forever(), "it never expires"),
            (LockView { lease_ms: Some(0), ..sample::redisson() }, "lease is not known"),
        ] {
            assert!(Sawtooth::of(&lock, NOW).unwrap_err().contains(why), "{why}");
        }
        let mut free = sample::redisson();
        free.verdict.state = State::Free;
        assert_eq!(Sawtooth::of(&free, NOW), Err("nobody holds it"));
        // A deadline that has just passed, and a lease longer than time itself.
        assert!(Sawtooth::of(&lock(30, &[], 0), NOW).is_ok());
        let mut absurd = lock(30, &[], 20);
        absurd.lease_ms = Some(u64::MAX);
        assert!(Sawtooth::of(&absurd, NOW).is_ok());
    }
}
