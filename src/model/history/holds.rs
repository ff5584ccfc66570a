//! What is usual for locks of one name pattern: how long they are held, how holds end, how fast they are handed over.
//!
//! Bounded: a limited number of patterns get their own group, all others share the first. A lock stores its group's
//! number, so that the end of a hold needs no look-up by name.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::{cadence, pattern};

use crate::base::histogram::Histogram;
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::dialects::DialectId;
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
    /// What was seen of renewals.
    renewing: Option<Renewing>,
    /// Holds that were released after longer than that, and never renewed.
    unrenewed: u32,
    /// Cached, because every verdict needs it.
    p99_ms: Option<u64>,
}

/// How the locks of one library are renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Renewing {
    dialect: DialectId,
    /// The longest time between two renewals that is usual for one of them.
    period_ms: u64,
    /// The shortest and the longest lease that a renewal gave.
    leases_ms: (u64, u64),
}

/// How the holds ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ends {
    pub released: u32,
    pub expired: u32,
    pub evicted: u32,
    pub forced: u32,
    pub taken: u32,
    /// Flushed, renamed away, gone in a failover or restart, or gone unseen.
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
            Ending::Failover | Ending::Restart | Ending::SlotTaken => &mut self.lost,
        };
        *counter = counter.saturating_add(1);
    }
}

impl Holds {
    /// An acquire later than this after the last end is not a hand-over.
    pub(in crate::model) const HAND_OVER_MS: u64 = 10_000;

    /// The names that it matches, each id as a `*`. Any bytes: show them escaped. Empty for what has no group of its own.
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

    /// How often locks of this library and pattern are renewed, and for which lease, if all of them are and for the same.
    pub fn renewals_of(&self, dialect: DialectId) -> Option<(u64, u64)> {
        let all = self.unrenewed == 0 && !self.pattern.is_empty();
        let Renewing { period_ms, leases_ms: (shortest, longest), .. } =
            self.renewing.filter(|renewing| all && renewing.dialect == dialect)?;
        (longest - shortest <= longest / 20).then_some((period_ms, shortest))
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
        let Some(ms) = hold.timed_ms() else { return };
        let overdue = |renewing: Renewing| cadence::is_missed(renewing.period_ms, ms);
        let let_go = hold.ending == Ending::Released && !hold.renewed && self.renewing.is_some_and(overdue);
        self.unrenewed = self.unrenewed.saturating_add(u32::from(let_go));
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

/// What is timed, and so is less than what is listed: not the share of one of several holders, and no hold whose
/// beginning was not seen.
const WHOLE: &str = "from the first holder's beginning to the last one's end";

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
        let all = self.ends.all();
        let ended: Vec<String> =
            ended.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
        let (p50, p99) = (short_duration(self.p50_ms), short_duration(self.p99_ms));
        let handed = self.hand_over_ms.map(|ms| match ms {
            0 => "; half are taken again at once".into(),
            ms => format!("; half are taken again within {}", short_duration(ms)),
        });
        let seen = match self.holds {
            1 => format!("1 hold of {} timed, {WHOLE}: {p50}", self.pattern),
            holds => {
                format!("{holds} holds of {} timed, {WHOLE}: half end within {p50}, 99 % within {p99}", self.pattern)
            }
        };
        let of_all = if u64::from(all) == self.holds { String::new() } else { format!("of all {all}, ") };
        format!("{seen}; {of_all}{}{}", ended.join(", "), handed.unwrap_or_default())
    }
}

/// A hold that is over, for the statistics.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Over {
    pub ending: Ending,
    /// How many held it then, at least one.
    pub holders: u32,
    /// `None` if its beginning was not seen.
    lasted_ms: Option<u64>,
    renewed: bool,
    leased: bool,
}

impl Over {
    pub fn of(hold: &Hold, leased: bool, holders: u32) -> Over {
        let lasted_ms = hold.exact.then(|| hold.until.since(hold.since).as_millis() as u64);
        Over { ending: hold.ending, holders, lasted_ms, renewed: hold.renewals > 0, leased }
    }

    /// How long it lasted, if it shows how long holds are: for the other endings the time is unknown, or an operator ended
    /// it.
    pub fn timed_ms(&self) -> Option<u64> {
        self.lasted_ms.filter(|_| matches!(self.ending, Ending::Released | Ending::Expired | Ending::Taken))
    }
}

/// What one lock adds to the statistics of its group and to the figures of its pattern.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Mark {
    /// It was seen being taken, by so many.
    Started {
        holders: u32,
    },
    Renewed {
        /// Since its lease was last given, where every renewal is told.
        gap_ms: Option<u64>,
        /// It was expected earlier.
        late: bool,
    },
    Ended(Over),
    /// One of several holders left; the others hold it on.
    Left(Ending),
    /// We ended it, and it continues.
    Resumed(Over),
    /// Taken at the second time, after the hold before it ended at the first.
    HandedOver(Time, Time),
}

/// The number of a lock's group. The first is shared by all that have none of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::model) struct GroupId(u16);

impl GroupId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The group at that index.
    pub fn at(index: usize) -> GroupId {
        GroupId(index as u16)
    }
}

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
    /// As many more, for those that come first.
    const MOST_FIRST: usize = 2_000;

    /// The group of a name, made if there is room for one more. Where there is none, `comes_first` decides whether its
    /// pattern still gets one.
    pub fn group_of(&mut self, key: &[u8], comes_first: impl FnOnce(&[u8]) -> bool) -> GroupId {
        pattern::write(key, &mut self.scratch);
        if let Some(id) = self.by_pattern.get(self.scratch.as_slice()) {
            return *id;
        }
        let full = self.groups.len() > Self::MOST;
        if full && (!comes_first(&self.scratch) || self.groups.len() > Self::MOST_FIRST) {
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

    /// A lock of this library was renewed for `lease_ms`, as it is every `period_ms`.
    pub fn renewed(&mut self, id: GroupId, dialect: DialectId, period_ms: u64, lease_ms: u64) {
        let renewing = &mut self.groups[usize::from(id.0)].renewing;
        let new = Renewing { dialect, period_ms, leases_ms: (lease_ms, lease_ms) };
        *renewing = Some(renewing.filter(|known| known.dialect == dialect).map_or(new, |known| Renewing {
            period_ms: period_ms.max(known.period_ms),
            leases_ms: (lease_ms.min(known.leases_ms.0), lease_ms.max(known.leases_ms.1)),
            ..new
        }));
    }

    pub fn mark(&mut self, id: GroupId, mark: Mark) {
        let holds = &mut self.groups[usize::from(id.0)];
        match mark {
            Mark::Started { .. } | Mark::Renewed { .. } | Mark::Left(_) => {}
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
        Mark::Ended(Over::of(&hold, true, 1))
    }

    #[test]
    fn locks_of_one_pattern_share_their_history() {
        let mut groups = Groups::default();
        let group = groups.group_of(b"lock:order:1", |_| false);
        assert_eq!(
            (groups.group_of(b"lock:order:22", |_| false), groups.group_of(b"lock:cart:1", |_| false) == group),
            (group, false)
        );
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
            "100 holds of lock:order:* timed, from the first holder's beginning to the last one's end: half end within 5",
            "; of all 101, 100 released, 1 lost; half are taken again within 250ms",
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
        let ids: Vec<GroupId> = (0..1_500).map(|number| groups.group_of(&name(number), |_| false)).collect();
        assert_eq!(ids.iter().filter(|id| **id == GroupId::default()).count(), 500);
        assert_eq!((groups.group_of(&name(3), |_| false), groups.groups.len()), (ids[3], Groups::MOST + 1));
        assert!(groups.get(GroupId::default()).pattern().is_empty());
    }
}
