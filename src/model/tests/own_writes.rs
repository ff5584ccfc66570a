//! Our own writes without an event or a single holder that shows them; tests/scenarios has the orders of arrival.

use super::*;

fn ours(act: Act, token: &str) -> OwnWrite {
    OwnWrite { act, holders: vec![Token::from(token.as_bytes())], by: "anna".into(), reason: None }
}

fn act(table: &mut Table, at: i64, write: OwnWrite) {
    let (key, sent) = (Key::from("lock:a"), Time(at));
    table.apply(Observation::Acting { node: NODE, key: key.clone(), at: sent });
    table.apply(Observation::Acted { node: NODE, key, write: Some(write), sent, answered: Time(at + 1) });
}

#[test]
fn where_nothing_tells_of_changes_our_own_writes_are_known_all_the_same() {
    let mut table = following(Limits::default());
    table.apply(Observation::Watched { node: NODE, source: Source::Tracking });
    let touch = |table: &mut Table, at: i64, now: Seen| {
        table.apply(Observation::Touched { node: NODE, keys: vec![Key::from("lock:a")], at: Time(at) });
        settle(table, Time(at), |_| now.clone());
    };
    for at in [1_000, 11_000, 21_000] {
        touch(&mut table, at, seen("tok-a", 30_000));
    }
    assert_eq!(story(&mut table).iter().map(|line| line.0).collect::<Vec<_>>(), ["found", "renewed", "renewed"]);
    act(&mut table, 22_000, ours(Act::Extend(Duration::from_secs(300)), "tok-a"));
    touch(&mut table, 22_002, seen("tok-a", 299_999));
    assert_eq!(story(&mut table), []);
    // A renewal replaces the deadline that we set.
    touch(&mut table, 31_000, seen("tok-a", 30_000));
    assert_eq!(story(&mut table).iter().map(|line| line.0).collect::<Vec<_>>(), ["renewed"]);
    act(&mut table, 33_000, ours(Act::Free { whole: true }, "tok-a"));
    settle(&mut table, Time(33_002), |_| Seen::Absent);
    act(&mut table, 34_000, ours(Act::PutBack { whole: true }, "tok-a"));
    settle(&mut table, Time(34_002), |_| seen("tok-a", 27_000));
    let changes: Vec<(&str, Source)> =
        table.take_transitions().0.iter().map(|change| (change.change.name(), change.source)).collect();
    assert_eq!(changes, [("forced", Source::Action), ("found", Source::Action)]);
    let lock = table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
    assert_eq!((table.held_for(lock, Time(41_000)).unwrap().0, lock.beats().unwrap().count), (40_000, 3));
    assert_eq!((table.state(lock, Time(41_000)), lock.past().count()), (State::Held, 0));
    assert_eq!(table.holds(lock).ends, Ends::default(), "what was put back has not ended");
}

#[test]
fn of_a_lock_that_several_hold_only_those_we_took_out_were_forced() {
    let mut table = following(Limits::default());
    let readers = |names: &[&str]| {
        let fields = names.iter().map(|name| (name.as_bytes(), &b"1"[..]));
        let mode = [(&b"mode"[..], &b"read"[..])];
        Seen::Present { value: RawValue::hash(mode.into_iter().chain(fields)), ttl: Ttl::In(Duration::from_secs(30)) }
    };
    let [a, b, c] = [
        "3f2a8c00-1111-4222-8333-444455556666:1",
        "3f2a8c00-1111-4222-8333-444455556666:2",
        "3f2a8c00-1111-4222-8333-444455556666:3",
    ];
    tell(
        &mut table,
        Time(1_000),
        &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Written), ("lock:a", KeyEvent::Expire)],
    );
    settle(&mut table, Time(1_001), |_| readers(&[a, b, c]));
    table.take_transitions();
    act(&mut table, 2_000, ours(Act::Free { whole: false }, a));
    // Another reader leaves by itself right after it, and then the last one.
    tell(&mut table, Time(2_002), &[("lock:a", KeyEvent::Removed), ("lock:a", KeyEvent::Removed)]);
    settle(&mut table, Time(2_003), |_| readers(&[c]));
    tell(&mut table, Time(2_500), &[("lock:a", KeyEvent::Removed), ("lock:a", KeyEvent::Del)]);
    settle(&mut table, Time(2_501), |_| Seen::Absent);
    let told: Vec<(&str, String)> =
        story(&mut table).into_iter().map(|(word, _, previous)| (word, previous.unwrap_or_default())).collect();
    assert_eq!(told, [("forced", a.to_string()), ("released", b.to_string()), ("released", c.to_string())]);
}
