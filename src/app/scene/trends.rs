//! How many locks each group had in the last minutes, for the line beside it: pure, bounded.
//!
//! All locks are counted every few seconds, whatever the filter, also while no groups are shown. Only holders are not
//! counted until the list is grouped by them, because each lock would have to be decoded. A time that was not counted is
//! unknown, and no zero.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::time::Time;
use crate::model::grouping::Counts;
use crate::model::{GroupBy, GroupName};

/// Time between two counts.
const EVERY: Duration = Duration::from_secs(5);
/// The largest count of so long is kept.
const CELL_MS: i64 = 30_000;
/// The number of those that are kept and shown: five minutes.
pub const CELLS: usize = 10;
/// At most this many groups are counted.
pub(super) const MOST: usize = 4_000;

#[derive(Default)]
pub struct Trends {
    counted_at: Option<Time>,
    /// The cells in which each kind was counted, the newest last.
    counted: BTreeMap<GroupBy, VecDeque<i64>>,
    of: BTreeMap<GroupName, VecDeque<(i64, u32)>>,
}

impl Trends {
    /// What to count now. `by`: what the groups in the list are made by.
    pub(super) fn due(&self, by: Option<GroupBy>, now: Time) -> Option<Vec<GroupBy>> {
        let due = self.counted_at.is_none_or(|at| now.since(at) >= EVERY);
        let wanted = GroupBy::ALL.into_iter().filter(|kind| !kind.is_costly() || by == Some(*kind));
        due.then(|| wanted.collect())
    }

    pub(super) fn take(&mut self, counts: Counts, now: Time) {
        self.counted_at = Some(now);
        let cell = Trends::cell(now);
        for by in counts.by {
            let cells = self.counted.entry(by).or_default();
            if cells.back() != Some(&cell) {
                cells.push_back(cell);
            }
        }
        for (name, count) in counts.of {
            let cells = self.of.entry(name).or_default();
            match cells.back_mut().filter(|(last, _)| *last == cell) {
                Some((_, most)) => *most = count.max(*most),
                None => cells.push_back((cell, count)),
            }
        }
        let oldest = cell - CELLS as i64;
        self.counted.values_mut().for_each(|cells| cells.retain(|cell| *cell > oldest));
        self.of.retain(|_, cells| {
            cells.retain(|(cell, _)| *cell > oldest);
            !cells.is_empty()
        });
    }

    /// Takes over what somebody else counted before we did, of one kind: the most of each cell. What was counted here stays.
    pub(super) fn recall(&mut self, by: GroupBy, recalled: &BTreeMap<i64, BTreeMap<GroupName, u32>>) {
        for (cell, counts) in recalled {
            let counted = self.counted.entry(by).or_default();
            if counted.contains(cell) {
                continue;
            }
            counted.insert(counted.partition_point(|other| other < cell), *cell);
            for (name, count) in counts.iter().take(MOST) {
                let own = self.of.entry(name.clone()).or_default();
                own.insert(own.partition_point(|(other, _)| other < cell), (*cell, *count));
            }
        }
    }

    /// The cell of a time.
    pub fn cell(at: Time) -> i64 {
        at.0.div_euclid(CELL_MS)
    }

    /// How far back the cells reach.
    pub const REACH: Duration = Duration::from_millis(CELL_MS as u64 * CELLS as u64);

    /// The counts of the last minutes, the newest last; `None`: it was not counted then.
    pub fn of(&self, name: &GroupName, now: Time) -> [Option<u32>; CELLS] {
        let newest = Trends::cell(now);
        let (counted, own) = (self.counted.get(&name.by()), self.of.get(name));
        std::array::from_fn(|index| {
            let cell = newest - (CELLS - 1 - index) as i64;
            counted.filter(|cells| cells.contains(&cell))?;
            let own = own.and_then(|cells| cells.iter().find(|(other, _)| *other == cell));
            Some(own.map_or(0, |(_, count)| *count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_000 * CELL_MS;

    #[test]
    fn a_time_that_was_not_counted_is_no_zero() {
        let mut trends = Trends::default();
        let (orders, carts) = (GroupName::Library("redisson"), GroupName::Library("redlock"));
        let at = |cell: i64| Time(START + cell * CELL_MS);
        let counts = |of: Vec<(GroupName, u32)>| Counts { by: vec![GroupBy::Library], of };
        trends.take(counts(vec![(orders.clone(), 3)]), at(0));
        trends.take(counts(vec![(orders.clone(), 7), (carts.clone(), 1)]), at(0) + EVERY);
        trends.take(counts(vec![(carts.clone(), 2)]), at(3));
        let last = |name: &GroupName| trends.of(name, at(3))[CELLS - 4..].to_vec();
        assert_eq!(last(&orders), [Some(7), None, None, Some(0)], "the most of each half minute");
        assert_eq!(last(&carts), [Some(1), None, None, Some(2)]);
        assert_eq!(trends.of(&GroupName::Nobody, at(3)), [None; CELLS], "holders were not counted");
    }

    #[test]
    fn what_a_store_counted_before_fills_what_was_not_counted_here() {
        let mut trends = Trends::default();
        let orders = GroupName::Pattern("orders:*".into());
        let at = |cell: i64| Time(START + cell * CELL_MS);
        trends.take(Counts { by: vec![GroupBy::Pattern], of: vec![(orders.clone(), 5)] }, at(3));
        let recalled = [(0, 2), (2, 3), (3, 9)];
        let of = |(cell, count)| (Trends::cell(at(cell)), BTreeMap::from([(orders.clone(), count)]));
        trends.recall(GroupBy::Pattern, &recalled.map(of).into());
        let last = |name: &GroupName| trends.of(name, at(3))[CELLS - 4..].to_vec();
        assert_eq!(last(&orders), [Some(2), None, Some(3), Some(5)]);
        assert_eq!(last(&GroupName::Pattern("carts:*".into())), [Some(0), None, Some(0), Some(0)]);
    }

    #[test]
    fn what_is_long_over_is_forgotten() {
        let mut trends = Trends::default();
        for cell in 0..100 {
            let name = GroupName::Pattern(format!("lock:{cell}").into());
            let counts = Counts { by: vec![GroupBy::Pattern], of: vec![(name, 1)] };
            trends.take(counts, Time(START + cell * CELL_MS));
        }
        assert_eq!((trends.of.len(), trends.counted[&GroupBy::Pattern].len()), (CELLS, CELLS));
    }

    #[test]
    fn holders_are_counted_only_where_they_are_shown() {
        let trends = Trends::default();
        let due = |by| trends.due(by, Time(START)).unwrap();
        assert!(!due(Some(GroupBy::Node)).contains(&GroupBy::Holder) && due(Some(GroupBy::Holder)).len() == 4);
    }
}
