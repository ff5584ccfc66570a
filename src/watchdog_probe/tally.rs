//! What a canary saw so far: latencies, late and lost renewals, and when the server did not answer.
//!
//! Pure: all times are arguments. Bounded: frequent events are counted and no longer listed.

use std::time::{Duration, Instant};

use super::latencies::Latencies;
use crate::base::clock::Clock;
use crate::base::time::Time;

/// List at most this many events; count the rest.
const TOLD: usize = 50;

#[derive(Debug)]
pub struct Tally {
    clock: Clock,
    /// A reply or renewal that is later than this counts as late.
    tolerance: Duration,
    pub acquire: Operation,
    pub renew: Operation,
    pub release: Operation,
    /// How much later than planned we sent our renewals.
    pub waking: Latencies,
    pub late: Late,
    /// How often we lost the lock while we held it.
    pub lost: u64,
    /// How often somebody else held it when we wanted it.
    pub refused: u64,
    pub restarts: u64,
    pub away: Away,
    pub events: Vec<Event>,
    /// Events that are not listed.
    pub more_events: u64,
    /// Since when the server does not answer, and why.
    silence: Option<(Instant, String)>,
    /// Since when somebody else holds the lock, and who.
    blocked: Option<(Instant, String)>,
}

/// One of the three operations of a canary.
#[derive(Debug, Default)]
pub struct Operation {
    /// The latencies of the successful ones.
    pub latencies: Latencies,
    /// Attempts without a reply, or with an error.
    pub failed: u64,
}

/// Renewals that were confirmed too late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Late {
    /// We could not run in time; the server's part alone was not late.
    pub ours: u64,
    pub server: u64,
}

/// When the server did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Away {
    pub count: u64,
    pub total: Duration,
    pub longest: Duration,
}

/// One event to report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When it began.
    pub at: Time,
    pub kind: Kind,
    /// How long it lasted; `None` if it has no duration.
    pub lasted: Option<Duration>,
    pub why: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The server did not answer.
    Away,
    /// We held the lock, and no longer do.
    Lost,
    /// Somebody else held the lock.
    Refused,
    Restarted,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Away => "away",
            Kind::Lost => "lost",
            Kind::Refused => "refused",
            Kind::Restarted => "restarted",
        }
    }
}

/// A confirmed renewal: when it was due, when we first sent it, how much of the delay is our own, and when the reply
/// came.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    pub due: Instant,
    pub sent: Instant,
    pub own: Duration,
    pub answered: Instant,
}

impl Tally {
    /// For a lock with this lease. A tenth of it is the tolerance.
    pub fn new(clock: Clock, ttl: Duration) -> Tally {
        Tally {
            clock,
            tolerance: ttl / 10,
            acquire: Operation::default(),
            renew: Operation::default(),
            release: Operation::default(),
            waking: Latencies::default(),
            late: Late::default(),
            lost: 0,
            refused: 0,
            restarts: 0,
            away: Away::default(),
            events: Vec::new(),
            more_events: 0,
            silence: None,
            blocked: None,
        }
    }

    pub fn renewed(&mut self, renewal: Renewal) {
        self.renew.latencies.add(renewal.answered.saturating_duration_since(renewal.sent));
        self.waking.add(renewal.own);
        let late = renewal.answered.saturating_duration_since(renewal.due);
        if late > self.tolerance {
            let ours = late.saturating_sub(renewal.own) <= self.tolerance;
            *(if ours { &mut self.late.ours } else { &mut self.late.server }) += 1;
        }
    }

    /// The request sent at `asked` got no reply, or an error.
    pub fn failed(&mut self, asked: Instant, why: impl Into<String>) {
        if self.silence.is_none() {
            self.silence = Some((asked, why.into()));
        }
    }

    /// A request was answered. Returns whether the server had not answered before.
    pub fn answered(&mut self, asked: Instant, now: Instant) -> bool {
        let silence = self.silence.take();
        let came_back = silence.is_some();
        let slow = now.saturating_duration_since(asked) > self.tolerance;
        if let Some((since, why)) = silence.or(slow.then(|| (asked, "the answer came late".into()))) {
            self.was_away(since, now, why);
        }
        came_back
    }

    pub fn restarted(&mut self, now: Instant) {
        self.restarts += 1;
        self.tell(now, Kind::Restarted, None, "it is another process than before".into());
    }

    pub fn lost(&mut self, now: Instant, why: String) {
        self.lost += 1;
        self.tell(now, Kind::Lost, None, why);
    }

    /// Somebody else holds the lock that we want.
    pub fn refused(&mut self, now: Instant, by: String) {
        self.refused += 1;
        if self.blocked.is_none() {
            self.blocked = Some((now, by));
        }
    }

    /// The lock was ours or free at `now`.
    pub fn free(&mut self, now: Instant) {
        if let Some((since, by)) = self.blocked.take() {
            self.tell(since, Kind::Refused, Some(now.saturating_duration_since(since)), by);
        }
    }

    /// The end: closes everything that is still open. Returns whether the server answers.
    pub fn close(&mut self, now: Instant) -> bool {
        self.free(now);
        match self.silence.take() {
            Some((since, why)) => {
                self.was_away(since, now, why);
                false
            }
            None => true,
        }
    }

    fn was_away(&mut self, since: Instant, now: Instant, why: String) {
        let lasted = now.saturating_duration_since(since);
        self.away.count += 1;
        self.away.total += lasted;
        self.away.longest = self.away.longest.max(lasted);
        self.tell(since, Kind::Away, Some(lasted), why);
    }

    fn tell(&mut self, at: Instant, kind: Kind, lasted: Option<Duration>, why: String) {
        if self.events.len() == TOLD {
            self.more_events += 1;
            return;
        }
        let event = Event { at: self.clock.at(at), kind, lasted, why };
        // An event is added when it is over, at the place where it began.
        let place = self.events.partition_point(|other| other.at <= event.at);
        self.events.insert(place, event);
    }
}

impl Late {
    pub fn total(self) -> u64 {
        self.ours + self.server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> (Tally, Instant) {
        (Tally::new(Clock::start(), Duration::from_secs(3)), Instant::now())
    }

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn kinds(tally: &Tally) -> Vec<Kind> {
        tally.events.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn a_late_renewal_is_told_apart_by_whose_fault_it_is() {
        let (mut tally, due) = tally();
        let renewal = |own: u64, took: u64| Renewal {
            due,
            sent: due + ms(own),
            own: ms(own),
            answered: due + ms(own) + ms(took),
        };
        tally.renewed(renewal(0, 300));
        assert_eq!(tally.late, Late::default(), "a tenth of the lease is no delay");
        tally.renewed(renewal(0, 301));
        tally.renewed(renewal(400, 2));
        tally.renewed(renewal(200, 200));
        tally.renewed(renewal(400, 400));
        assert_eq!(tally.late, Late { ours: 2, server: 2 });
        assert_eq!((tally.renew.latencies.count(), tally.waking.most()), (5, Some(ms(400))));
        assert_eq!(tally.renew.latencies.most(), Some(ms(400)), "our own delay is no latency of the server");
    }

    #[test]
    fn the_server_was_away_from_the_first_question_without_an_answer() {
        let (mut tally, start) = tally();
        tally.failed(start + ms(1_000), "timed out");
        tally.failed(start + ms(2_000), "connection refused");
        assert!(tally.answered(start + ms(4_000), start + ms(4_200)));
        assert!(!tally.answered(start + ms(5_000), start + ms(5_100)));
        assert!(!tally.answered(start + ms(6_000), start + ms(6_500)), "slow is not gone");
        assert_eq!(tally.away, Away { count: 2, total: ms(3_700), longest: ms(3_200) });
        let whys: Vec<&str> = tally.events.iter().map(|event| event.why.as_str()).collect();
        assert_eq!(whys, ["timed out", "the answer came late"]);
        assert!(tally.close(start + ms(7_000)));
    }

    #[test]
    fn what_still_lasts_at_the_end_is_told() {
        let (mut tally, start) = tally();
        tally.refused(start + ms(10), "held by you".into());
        tally.refused(start + ms(20), "held by you".into());
        tally.failed(start + ms(30), "timed out");
        assert!(!tally.close(start + ms(130)));
        assert_eq!(kinds(&tally), [Kind::Refused, Kind::Away]);
        assert_eq!((tally.refused, tally.events[0].lasted, tally.away.total), (2, Some(ms(120)), ms(100)));
    }

    #[test]
    fn events_stand_where_they_began() {
        let (mut tally, start) = tally();
        tally.failed(start, "timed out");
        tally.lost(start + ms(50), "gone".into());
        tally.answered(start + ms(60), start + ms(61));
        assert_eq!(kinds(&tally), [Kind::Away, Kind::Lost]);
    }

    #[test]
    fn a_thousand_events_need_no_more_room_than_fifty() {
        let (mut tally, start) = tally();
        (0..1_000).for_each(|number| tally.lost(start + ms(number), "gone".into()));
        assert_eq!((tally.events.len(), tally.more_events, tally.lost), (TOLD, 950, 1_000));
    }
}
