//! The order of groups: worst first, or by one of the columns that groups have.

use std::cmp::Ordering;

use super::group::{Group, Sum};
use crate::model::order::SortKey;
use crate::model::{Column, Severity};

/// The columns of locks that groups have too.
pub const SORTABLE: [Column; 5] = [Column::State, Column::Key, Column::Held, Column::Fail, Column::Wait];

/// What one group is compared by, before its name.
struct Rank {
    index: usize,
    by: SortKey,
    worst: Severity,
    age: SortKey,
}

/// Sorts by a column, or worst first if groups do not have it. Equal groups are worst first, then by age, then by name.
pub fn sort(groups: Vec<Group>, column: Column, reversed: bool) -> Vec<Group> {
    let number = |sum: &Sum| SortKey::Most(sum.exact().or(sum.at_least()).map(|sum| (sum * 1_000.0) as u64));
    let rank = |(index, group): (usize, &Group)| {
        let age = SortKey::Most(group.oldest().map(|(ms, _)| ms));
        let by = match column {
            Column::Held => age.clone(),
            Column::Fail => number(&group.failures_per_s),
            Column::Wait => number(&group.waiters),
            _ => SortKey::Same,
        };
        Rank { index, by, worst: group.worst, age }
    };
    let mut ranks: Vec<Rank> = groups.iter().enumerate().map(rank).collect();
    let turned = |by: Ordering| if reversed { by.reverse() } else { by };
    let name = |a: &Rank, b: &Rank| groups[a.index].name.cmp(&groups[b.index].name);
    ranks.sort_unstable_by(|a, b| {
        let by = match column {
            Column::Key => turned(name(a, b)),
            Column::Held | Column::Fail | Column::Wait => a.by.compare(&b.by, reversed),
            _ => turned(a.worst.cmp(&b.worst)).then_with(|| a.age.compare(&b.age, reversed)),
        };
        let worst = || a.worst.cmp(&b.worst).then_with(|| a.age.compare(&b.age, false));
        by.then_with(worst).then_with(|| name(a, b))
    });
    let mut groups: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
    ranks.iter().filter_map(|rank| groups[rank.index].take()).collect()
}
