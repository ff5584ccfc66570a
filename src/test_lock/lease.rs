//! How long a lock is surely ours, by our own monotonic clock. Pure: all times are arguments.
//!
//! The server starts a lease at some time between our request and its reply, so we count from the *request*. A lease
//! that may have ended on the server before a confirmed renewal is over, even if a reply still comes: somebody else may
//! have held the lock meanwhile.

use std::time::{Duration, Instant};

/// A renewal is sent after one third of the lease.
const RENEWED_AFTER: u32 = 3;

/// The server's clock may run faster than ours by one part in a hundred.
const DRIFT: u32 = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    ttl: Duration,
    /// When the last request that the server granted was sent.
    confirmed: Instant,
    next: Instant,
}

impl Lease {
    /// A lock that was requested at `sent` and granted at `answered`; `None` if it may be over by now.
    pub fn begin(ttl: Duration, sent: Instant, answered: Instant) -> Option<Lease> {
        let lease = Lease { ttl, confirmed: sent, next: sent + ttl / RENEWED_AFTER };
        lease.stands(answered).then_some(lease)
    }

    /// Records a renewal. Returns whether the lock is still ours.
    #[must_use]
    pub fn renewed(&mut self, sent: Instant, answered: Instant) -> bool {
        if !self.stands(answered) {
            return false;
        }
        match Lease::begin(self.ttl, sent, answered) {
            Some(lease) => *self = lease,
            None => return false,
        }
        true
    }

    /// A renewal failed at `now`: the next one follows soon.
    pub fn postponed(&mut self, now: Instant) {
        let pause = (self.ttl / 20).clamp(Duration::from_millis(5), Duration::from_millis(500));
        self.next = now + pause;
    }

    /// When the last request that the server granted was sent.
    pub fn confirmed(&self) -> Instant {
        self.confirmed
    }

    /// When the lease is due for renewal, whether that was tried already or not.
    pub fn due(&self) -> Instant {
        self.confirmed + self.ttl / RENEWED_AFTER
    }

    /// When to send the next renewal.
    pub fn next_renewal(&self) -> Instant {
        self.next.min(self.ends())
    }

    /// Until when the lock is surely ours.
    pub fn ends(&self) -> Instant {
        self.confirmed + (self.ttl - self.ttl / DRIFT)
    }

    pub fn stands(&self, now: Instant) -> bool {
        now < self.ends()
    }

    /// How long a renewal sent now may take, so that there is time for a second one.
    pub fn patience(&self, now: Instant) -> Duration {
        let left = self.ends().saturating_duration_since(now);
        left.min(self.ttl / RENEWED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_counts_from_the_question_and_not_from_the_answer() {
        let sent = Instant::now();
        let lease = Lease::begin(TTL, sent, sent + seconds(5)).unwrap();
        assert_eq!(lease.next_renewal(), sent + seconds(10));
        assert!(lease.stands(sent + seconds(29)) && !lease.stands(sent + seconds(30)));
    }

    #[test]
    fn an_answer_that_took_the_whole_lease_grants_nothing() {
        let sent = Instant::now();
        assert_eq!(Lease::begin(TTL, sent, sent + seconds(30)), None);
    }

    #[test]
    fn a_renewal_in_time_begins_it_anew() {
        let sent = Instant::now();
        let mut lease = Lease::begin(TTL, sent, sent).unwrap();
        assert!(lease.renewed(sent + seconds(10), sent + seconds(12)));
        assert_eq!(lease.next_renewal(), sent + seconds(20));
        assert!(lease.stands(sent + seconds(39)) && !lease.stands(sent + seconds(40)));
    }

    #[test]
    fn a_renewal_answered_after_the_lease_comes_too_late() {
        let sent = Instant::now();
        let mut lease = Lease::begin(TTL, sent, sent).unwrap();
        assert!(!lease.renewed(sent + seconds(29), sent + seconds(31)));
        assert!(!lease.stands(sent + seconds(31)), "it stays lost");
    }

    #[test]
    fn a_failed_renewal_is_repeated_soon_and_never_after_the_end() {
        let sent = Instant::now();
        let mut lease = Lease::begin(TTL, sent, sent).unwrap();
        lease.postponed(sent + seconds(10));
        assert_eq!(lease.next_renewal(), sent + seconds(10) + Duration::from_millis(500));
        assert_eq!(lease.due(), sent + seconds(10), "it is late from there on");
        lease.postponed(sent + seconds(29) + Duration::from_millis(600));
        assert_eq!(lease.next_renewal(), lease.ends());
        let mut short = Lease::begin(Duration::from_millis(30), sent, sent).unwrap();
        short.postponed(sent);
        assert_eq!(short.next_renewal(), sent + Duration::from_millis(5));
    }

    #[test]
    fn a_renewal_leaves_time_for_another_one() {
        let sent = Instant::now();
        let lease = Lease::begin(TTL, sent, sent).unwrap();
        assert_eq!(lease.patience(lease.next_renewal()), seconds(10));
        assert_eq!(lease.patience(lease.ends()), Duration::ZERO);
    }
}
