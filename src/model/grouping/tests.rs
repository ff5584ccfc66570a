//! Groups of views: what they count, what they name, and what they do not know.

use crate::base::time::Time;
use crate::lock::{Holder, Key, Kind, NodeId};
use crate::model::grouping::{self, Group, GroupBy, GroupName, Grouping};
use crate::model::{Column, HeldIs, LockView, State, Tries, TriesFrom, Waits, WaitsAt};
use crate::testkit::sample;

fn held(key: &str, ms: u64) -> LockView {
    let mut lock = sample::redisson();
    (lock.key, lock.held_ms, lock.held_is) = (Key::from(key), Some(ms), Some(HeldIs::Exact));
    lock
}

fn groups(locks: &[LockView], by: GroupBy) -> Vec<Group> {
    let mut grouping = Grouping::new(by, 100);
    locks.iter().for_each(|lock| grouping.add_view(lock));
    grouping::sort(grouping.done().0, Column::State, false)
}

fn names(groups: &[Group]) -> Vec<String> {
    groups.iter().map(|group| group.name.text(|node| format!("node {}", node.0)).unwrap_or("-".into())).collect()
}

#[test]
fn sixty_four_buckets_are_one_group_and_the_odd_one_out_is_named() {
    let mut locks: Vec<LockView> = (0..64).map(|bucket| held(&format!("stock:bucket:{bucket}"), 1_000)).collect();
    locks[17].verdict.state = State::NoTtl;
    locks.push(held("lock:nightly", 5_000));
    let groups = groups(&locks, GroupBy::Pattern);
    assert_eq!(names(&groups), ["stock:bucket:*", "lock:nightly"]);
    let buckets = &groups[0];
    assert_eq!((buckets.locks, buckets.worst.state, buckets.as_bad), (64, State::NoTtl, 1));
    assert_eq!(buckets.worst_keys().collect::<Vec<_>>(), [&Key::from("stock:bucket:17")]);
    assert_eq!(buckets.states().collect::<Vec<_>>(), [(State::NoTtl, 1), (State::Held, 63)]);
    assert!(buckets.has_odd_ones() && !groups[1].has_odd_ones());
}

#[test]
fn a_group_that_is_all_alike_has_no_odd_one() {
    let mut locks: Vec<LockView> = (0..3).map(|id| held(&format!("lock:{id}"), 1_000)).collect();
    locks.iter_mut().for_each(|lock| lock.verdict.state = State::NoTtl);
    assert!(!groups(&locks, GroupBy::Pattern)[0].has_odd_ones());
}

#[test]
fn a_lock_is_in_the_group_of_each_of_its_holders_once() {
    let thread = |client: &str, thread: &str| {
        let mut holder = Holder::new(format!("{client}:{thread}").as_bytes());
        (holder.client, holder.thread) = (Some(client.into()), Some(thread.into()));
        holder
    };
    let (mut shared, mut own, mut nobody) = (held("lock:a", 1), held("lock:b", 2), held("lock:c", 3));
    shared.holders = vec![thread("one", "7"), thread("one", "8"), thread("two", "1")];
    own.holders = vec![thread("one", "9")];
    nobody.holders.clear();
    let groups = groups(&[shared.clone(), own, nobody], GroupBy::Holder);
    let mut counts: Vec<_> = names(&groups).into_iter().zip(groups.iter().map(|group| group.locks)).collect();
    counts.sort();
    assert_eq!(counts, [("-".to_string(), 1), ("one".into(), 2), ("two".into(), 1)], "threads are one process");
    assert!(GroupName::of_holder(&shared.holders[1]).has_view(&shared));
}

#[test]
fn a_sum_is_exact_only_if_all_of_it_is_known() {
    let waits = |count| Waits { count, at: WaitsAt::Queue, at_least: false, dead_heads: None, counted: Time(0) };
    let mut locks: Vec<LockView> = (0..3).map(|id| held(&format!("lock:{id}"), 1_000)).collect();
    let sums = |locks: &[LockView]| {
        let group = groups(locks, GroupBy::Library).remove(0);
        (group.waiters.exact(), group.waiters.at_least())
    };
    assert_eq!(sums(&locks), (None, None), "nobody counted");
    locks[0].waits = Some(waits(2));
    assert_eq!(sums(&locks), (None, Some(2.0)), "the others may have more");
    (locks[1].waits, locks[2].waits) = (Some(waits(0)), Some(waits(3)));
    assert_eq!(sums(&locks), (Some(5.0), None));
    locks[2].waits = Some(Waits { at: WaitsAt::Blocked, ..waits(9) });
    assert_eq!(sums(&locks), (None, Some(2.0)), "at most so many is no number");
}

#[test]
fn failures_are_summed_with_their_source() {
    let tries = |failures, from| Tries {
        attempts: 50,
        failures,
        unjudged: 0,
        unclear: 0,
        looked: std::time::Duration::from_secs(10),
        span: std::time::Duration::from_secs(10),
        margin_per_s: 0.0,
        from,
        at: Time(0),
    };
    let mut locks = [held("lock:1", 1), held("lock:2", 1)];
    let sum = |locks: &[LockView]| groups(locks, GroupBy::Pattern).remove(0).failures_per_s;
    assert_eq!((sum(&locks).exact(), sum(&locks).at_least()), (None, None));
    locks[0].tries = Some(tries(20, TriesFrom::Counted));
    assert_eq!((sum(&locks).exact(), sum(&locks).at_least()), (None, Some(2.0)));
    locks[1].tries = Some(tries(5, TriesFrom::Sampled));
    assert_eq!((sum(&locks).exact(), sum(&locks).from()), (Some(2.5), TriesFrom::Sampled));
}

#[test]
fn the_oldest_hold_is_a_bound_while_an_age_is_unknown() {
    let mut locks = [held("lock:1", 9_000), held("lock:2", 70_000), held("lock:3", 1_000)];
    let oldest = |locks: &[LockView]| groups(locks, GroupBy::Pattern)[0].oldest();
    assert_eq!(oldest(&locks), Some((70_000, HeldIs::Exact)));
    locks[2].held_is = Some(HeldIs::AtLeast);
    assert_eq!(oldest(&locks), Some((70_000, HeldIs::AtLeast)), "it may be the oldest");
    for lock in &mut locks {
        (lock.held_ms, lock.held_is) = (None, None);
    }
    assert_eq!(oldest(&locks), None);
    // Nobody holds a marker, whatever its age.
    (locks[0].kind, locks[0].held_ms, locks[0].held_is) = (Kind::Marker, Some(1), Some(HeldIs::Exact));
    assert_eq!(oldest(&locks[..1]), None);
}

#[test]
fn groups_are_worst_first_then_by_age_and_by_a_column_if_asked() {
    let mut locks = [held("a:1", 9_000), held("b:1", 70_000), held("c:1", 1_000)];
    locks[2].verdict.state = State::Orphan;
    let sorted = |column, reversed| {
        let mut grouping = Grouping::new(GroupBy::Pattern, 100);
        locks.iter().for_each(|lock| grouping.add_view(lock));
        names(&grouping::sort(grouping.done().0, column, reversed))
    };
    assert_eq!(sorted(Column::State, false), ["c:*", "b:*", "a:*"]);
    assert_eq!(sorted(Column::State, true), ["a:*", "b:*", "c:*"]);
    assert_eq!(sorted(Column::Held, false), ["b:*", "a:*", "c:*"]);
    assert_eq!(sorted(Column::Key, false), ["a:*", "b:*", "c:*"]);
    assert_eq!(sorted(Column::Wait, true), ["c:*", "b:*", "a:*"], "nothing is known: worst first");
    assert_eq!(sorted(Column::Ttl, false), ["c:*", "b:*", "a:*"], "groups have no TTL");
}

#[test]
fn at_most_so_many_groups_are_made_and_the_rest_is_counted() {
    let mut grouping = Grouping::new(GroupBy::Node, 2);
    for node in [0, 1, 2, 3, 1] {
        let mut lock = held("lock:a", 1);
        lock.node = NodeId(node);
        grouping.add_view(&lock);
    }
    let (groups, left_out) = grouping.done();
    assert_eq!((groups.iter().map(|group| group.locks).collect::<Vec<_>>(), left_out), (vec![1, 2], 2));
}
