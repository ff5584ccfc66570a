//! What is usual for locks of one name pattern: how long they are held, how holds end, how fast they are handed over.
//!
//! Bounded: a limited number of patterns get their own group, all others share the first. A lock stores its group's
//! number, so that the end of a hold needs no look-up by name.

use hashbrown::HashMap;

use super::pattern;
use serde::{Deserialize, Serialize};

use crate::base::histogram::Histogram;
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::Ending;
use crate::model::history::Hold;

/// Milliseconds, within an eighth, up to six days.
type Times = Histogram<8, 216>;

/// What is known about the holds of one name pattern.
#[derive(Debug, Default)]
pub struct Holds {
    pattern: Box<[u8]>,
    times: Times,
    hand_overs: Times,
    pub ends: Ends,
    /// Holds that were renewed at least once.
    pub renewed: u32,
    /// Ended holds that had a TTL when they ended.
    pub leased: u32,
    /// Cached, because every verdict needs it.
    p99_ms: Option<u64>,
}

/// How the holds ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ends {
    pub released: u32,
    pub expired: u32,
    pub evicted: u32,
    pub forced: u32,
    pub taken: u32,
    /// Flushed, renamed away, or gone unseen.
    pub lost: u32,
}

impl Ends {
    pub fn all(&self) -> u32 {
        let Ends { released, expired, evicted, forced, taken, lost } = *self;
        [expired, evicted, forced, taken, lost].into_iter().fold(released, u32::saturating_add)
    }

    fn count(&mut self, ending: Ending) {
        let counter = match ending {
            Ending::Released => &mut self.released,
            Ending::Expired => &mut self.expired,
            Ending::Evicted => &mut self.evicted,
            Ending::Forced => &mut self.forced,
            Ending::Taken => &mut self.taken,
            Ending::Flushed | Ending::Renamed | Ending::Unseen => &mut self.lost,
        };
        *counter = counter.saturating_add(1);
    }
}

impl Holds {
    /// An acquire later than this after the last end is not a hand-over.
    const HAND_OVER_MS: u64 = 10_000;

    /// The names it stands for, each id as a `*`. Any bytes: show them escaped. Empty for what has no group of its own.
    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// How many holds were timed from their beginning to their end.
    pub fn timed(&self) -> u64 {
        self.times.count()
    }

    /// This percentile of the hold times; at most an eighth too long.
    pub fn held_ms(&self, percent: f64) -> Option<u64> {
        self.times.percentile(percent)
    }

    /// The cached 99th percentile.
    pub fn p99_ms(&self) -> Option<u64> {
        self.p99_ms
    }

    /// This percentile of the hand-over times, from an end to the next acquire of the same lock.
    pub fn hand_over_ms(&self, percent: f64) -> Option<u64> {
        self.hand_overs.percentile(percent)
    }

    pub fn hand_overs(&self) -> u64 {
        self.hand_overs.count()
    }

    /// For readers; `None` if nothing is known.
    pub(in crate::model) fn usual(&self) -> Option<Usual> {
        if self.pattern.is_empty() {
            return None;
        }
        Some(Usual {
            pattern: Key::from(&*self.pattern),
            holds: self.timed(),
            p50_ms: self.held_ms(50.0)?,
            p99_ms: self.held_ms(99.0)?,
            hand_over_ms: self.hand_over_ms(50.0),
            ends: self.ends,
            renewed: self.renewed,
        })
    }

    fn end(&mut self, hold: &Over) {
        self.ends.count(hold.ending);
        self.renewed = self.renewed.saturating_add(u32::from(hold.renewed));
        self.leased = self.leased.saturating_add(u32::from(hold.leased));
        // For the other endings the time is unknown,
        // and a hold that an operator ended does not show how long holds are.
        let timed = matches!(hold.ending, Ending::Released | Ending::Expired | Ending::Taken);
        let Some(ms) = hold.lasted_ms.filter(|_| timed) else { return };
        self.times.add(ms);
        // Reading all buckets for each hold would cost too much.
        if self.times.count() < 64 || self.times.count().is_multiple_of(32) {
            self.p99_ms = self.times.percentile(99.0);
        }
    }

    /// The hold that we ended continues: it was put back.
    fn resume(&mut self, hold: &Over) {
        self.ends.forced = self.ends.forced.saturating_sub(1);
        self.renewed = self.renewed.saturating_sub(u32::from(hold.renewed));
        self.leased = self.leased.saturating_sub(u32::from(hold.leased));
    }

    fn hand_over(&mut self, ms: u64) {
        if ms <= Self::HAND_OVER_MS {
            self.hand_overs.add(ms);
        }
    }
}

/// What is usual for the locks of one name pattern, as readers get it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Usual {
    /// The names, each id as a `*`.
    pub pattern: Key,
    /// Holds that were timed from their beginning to their end.
    pub holds: u64,
    pub p50_ms: u64,
    pub p99_ms: u64,
    /// The median hand-over time; `None` if none was seen.
    pub hand_over_ms: Option<u64>,
    pub ends: Ends,
    /// Holds that were renewed.
    pub renewed: u32,
}

impl Usual {
    /// In one sentence with its numbers.
    pub fn describe(&self) -> String {
        let Ends { released, expired, evicted, forced, taken, lost } = self.ends;
        let ended = [
            (released, "released"),
            (expired, "expired"),
            (evicted, "evicted"),
            (forced, "forced"),
            (taken, "taken over"),
            (lost, "lost"),
        ];
        let ended: Vec<String> =
            ended.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
        let (p50, p99) = (short_duration(self.p50_ms), short_duration(self.p99_ms));
        let handed = self.hand_over_ms.map(|ms| format!("; half are taken again within {}", short_duration(ms)));
        format!(
            "of {} holds of {}, half end within {p50} and 99 of 100 within {p99}; {}{}",
            self.holds,
            self.pattern,
            ended.join(", "),
            handed.unwrap_or_default()
        )
    }
}

/// A hold that is over, for the statistics.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Over {
    ending: Ending,
    /// `None` if its beginning was not seen.
    lasted_ms: Option<u64>,
    renewed: bool,
    leased: bool,
}

impl Over {
    pub fn of(hold: &Hold, leased: bool) -> Over {
        let lasted_ms = hold.exact.then(|| hold.until.since(hold.since).as_millis() as u64);
        Over { ending: hold.ending, lasted_ms, renewed: hold.renewals > 0, leased }
    }
}

/// What one lock adds to its group's statistics.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Mark {
    Ended(Over),
    /// We ended it, and it continues.
    Resumed(Over),
    /// Taken at the second time, after the hold before it ended at the first.
    HandedOver(Time, Time),
}

/// The number of a lock's group. The first is shared by all that have none of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::model) struct GroupId(u16);

/// All groups.
#[derive(Debug)]
pub(in crate::model) struct Groups {
    groups: Vec<Holds>,
    by_pattern: HashMap<Box<[u8]>, GroupId>,
    scratch: Vec<u8>,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { groups: vec![Holds::default()], by_pattern: HashMap::new(), scratch: Vec::new() }
    }
}

impl Groups {
    const MOST: usize = 1_000;

    /// The group of a name, made if there is room for one more.
    pub fn group_of(&mut self, key: &[u8]) -> GroupId {
        pattern::write(key, &mut self.scratch);
        if let Some(id) = self.by_pattern.get(self.scratch.as_slice()) {
            return *id;
        }
        if self.groups.len() > Self::MOST {
            return GroupId::default();
        }
        let (id, pattern) = (GroupId(self.groups.len() as u16), Box::<[u8]>::from(self.scratch.as_slice()));
        self.groups.push(Holds { pattern: pattern.clone(), ..Holds::default() });
        self.by_pattern.insert(pattern, id);
        id
    }

    pub fn get(&self, id: GroupId) -> &Holds {
        &self.groups[usize::from(id.0)]
    }

    pub fn mark(&mut self, id: GroupId, mark: Mark) {
        let holds = &mut self.groups[usize::from(id.0)];
        match mark {
            Mark::Ended(over) => holds.end(&over),
            Mark::Resumed(over) => holds.resume(&over),
            Mark::HandedOver(ended, taken) => holds.hand_over(taken.since(ended).as_millis() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(ms: u64, ending: Ending) -> Mark {
        let (since, until) = (Time(0), Time(ms as i64));
        let hold = Hold { holder: None, since, exact: true, until, ending, renewals: 0, forced: None };
        Mark::Ended(Over::of(&hold, true))
    }

    #[test]
    fn locks_of_one_pattern_share_their_history() {
        let mut groups = Groups::default();
        let group = groups.group_of(b"lock:order:1");
        assert_eq!((groups.group_of(b"lock:order:22"), groups.group_of(b"lock:cart:1") == group), (group, false));
        (1..=100).for_each(|second| groups.mark(group, over(second * 1_000, Ending::Released)));
        groups.mark(group, over(5, Ending::Unseen));
        groups.mark(group, Mark::HandedOver(Time(100), Time(350)));
        groups.mark(group, Mark::HandedOver(Time(100), Time(100_000)));
        let holds = groups.get(group);
        assert_eq!((holds.timed(), holds.ends.released, holds.ends.lost, holds.ends.all()), (100, 100, 1, 101));
        let p50 = holds.held_ms(50.0).unwrap();
        assert!((50_000..=56_250).contains(&p50), "{p50}");
        assert!(holds.p99_ms().is_some_and(|ms| (90_000..=100_000).contains(&ms)));
        assert_eq!((holds.hand_overs(), holds.hand_over_ms(99.0)), (1, Some(250)), "the second was no hand-over");
        let words = holds.usual().unwrap().describe();
        let parts = [
            "of 100 holds of lock:order:*, half end within 5",
            "; 100 released, 1 lost; half are taken again within 250ms",
        ];
        assert!(parts.iter().all(|part| words.contains(part)), "{words}");
    }

    #[test]
    fn too_many_patterns_share_the_first_group() {
        let mut groups = Groups::default();
        let name = |number: usize| -> Vec<u8> {
            let letter = |digit: u8| b'a' + digit - b'0';
            format!("{number:05}").bytes().map(letter).collect()
        };
        let ids: Vec<GroupId> = (0..1_500).map(|number| groups.group_of(&name(number))).collect();
        assert_eq!(ids.iter().filter(|id| **id == GroupId::default()).count(), 500);
        assert_eq!((groups.group_of(&name(3)), groups.groups.len()), (ids[3], Groups::MOST + 1));
        assert!(groups.get(GroupId::default()).pattern().is_empty());
    }
}
