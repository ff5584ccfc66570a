//! A server that answers for no key lets nobody renew: that is held against no holder, during it or right after.

use super::*;

/// Renewed every three seconds until ten seconds, with a lease of five minutes.
fn renewed() -> Table {
    let mut table = following(Limits::default());
    let events = [("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)];
    tell(&mut table, Time(1_000), &events);
    settle(&mut table, Time(1_001), |_| seen("tok-a", 299_999));
    for at in [4_000, 7_000, 10_000] {
        tell(&mut table, Time(at), &[("lock:a", KeyEvent::Expire)]);
        settle(&mut table, Time(at + 1), |_| seen("tok-a", 299_999));
    }
    table
}

fn silent(table: &mut Table, since: Option<i64>, at: i64) {
    table.apply(Observation::Silent { node: NODE, since: since.map(Time), at: Time(at) });
}

fn state(table: &Table, now: i64) -> State {
    let lock = table.locks().next().expect("it is held");
    table.state(lock, Time(now))
}

#[test]
fn a_holder_that_can_not_renew_is_not_dead() {
    let mut table = renewed();
    assert_eq!(state(&table, 30_000), State::Orphan, "without an outage");
    silent(&mut table, Some(11_000), 11_500);
    for now in [14_500, 30_000, 200_000] {
        assert_eq!(state(&table, now), State::Held, "{now}");
    }
    // The server answers again, and clients need a while to notice.
    silent(&mut table, None, 200_000);
    for now in [200_000, 205_000, 211_900] {
        assert_eq!(state(&table, now), State::Held, "{now}");
    }
    assert_eq!(state(&table, 225_000), State::Orphan, "nobody came for it");
}

#[test]
fn a_holder_that_was_dead_before_the_outage_stays_dead() {
    let mut table = renewed();
    silent(&mut table, Some(30_000), 30_500);
    assert_eq!(state(&table, 60_000), State::Orphan);
    silent(&mut table, None, 60_000);
    assert_eq!(state(&table, 61_000), State::Orphan);
}
