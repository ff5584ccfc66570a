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

/// What an own write does to a Redisson lock of readers.
struct Readers(Table);

impl Readers {
    const A: &str = "3f2a8c00-1111-4222-8333-444455556666:1";
    const B: &str = "4f2a8c00-1111-4222-8333-444455556666:1";

    fn new() -> Readers {
        let mut readers = Readers(following(Limits::default()));
        readers.happens(1_000, &[KeyEvent::New, KeyEvent::Written, KeyEvent::Expire], &[Self::A, Self::B]);
        readers
    }

    fn happens(&mut self, at: i64, events: &[KeyEvent], held_by: &[&str]) {
        let events: Vec<_> = events.iter().map(|event| ("lock:a", *event)).collect();
        tell(&mut self.0, Time(at), &events);
        self.settle(at, held_by);
    }

    fn settle(&mut self, at: i64, held_by: &[&str]) {
        let fields = held_by.iter().map(|name| (name.as_bytes(), &b"1"[..]));
        let value = RawValue::hash([(&b"mode"[..], &b"read"[..])].into_iter().chain(fields));
        let seen = Seen::Present { value, ttl: Ttl::In(Duration::from_secs(30)) };
        settle(&mut self.0, Time(at), |_| seen.clone());
    }

    /// The reader renews its lease, which is in a key beside the lock.
    fn lease(&mut self, reader: &str, at: i64) {
        let lease = format!("{{lock:a}}:{reader}:rwlock_timeout:1");
        tell(&mut self.0, Time(at), &[(lease, KeyEvent::Expire)]);
    }

    /// The renewals of each reader that are known to be its own.
    fn renewals(&self) -> Vec<u64> {
        let lock = self.0.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
        lock.held_by.shares().iter().map(|share| share.beats.as_ref().map_or(0, |beats| beats.count)).collect()
    }

    fn renewed(&mut self) -> usize {
        self.0.take_transitions().0.iter().filter(|change| change.change == Change::Renewed).count()
    }
}

#[test]
fn a_reader_that_is_put_back_keeps_its_renewals_and_our_writes_are_none() {
    let mut readers = Readers::new();
    let (a, b) = (Readers::A, Readers::B);
    for at in [11_000, 21_000, 31_000] {
        readers.lease(a, at);
        readers.lease(b, at);
    }
    assert_eq!((readers.renewals(), readers.renewed()), (vec![3, 3], 0));
    act(&mut readers.0, 50_000, ours(Act::Free { whole: false }, b));
    // The lock lasts no longer than the readers that stay: the same script sets its TTL.
    readers.happens(50_002, &[KeyEvent::Removed, KeyEvent::Expire], &[a]);
    let lock = readers.0.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
    assert_eq!((lock.beats().unwrap().count, lock.beats().unwrap().last()), (3, Some(Time(31_000))));
    act(&mut readers.0, 60_000, ours(Act::PutBack { whole: false }, b));
    readers.happens(60_002, &[KeyEvent::Written, KeyEvent::Expire], &[a, b]);
    assert_eq!((readers.renewals(), readers.renewed()), (vec![3, 3], 0));
    let lock = readers.0.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
    let missed = |share: &held_by::Share| share.beats.as_ref().unwrap().rhythm(Time(61_000)).unwrap().missed;
    assert_eq!(
        lock.held_by.shares().iter().map(missed).collect::<Vec<_>>(),
        [3, 1],
        "while it was gone, none could come"
    );
}

#[test]
fn a_lease_beside_the_lock_that_we_extend_is_no_renewal_of_its_holder() {
    let (a, b) = (Readers::A, Readers::B);
    // The events come before the answer, or after it.
    for event_first in [true, false] {
        let mut readers = Readers::new();
        let (key, sent) = (Key::from("lock:a"), Time(5_000));
        readers.0.apply(Observation::Acting { node: NODE, key: key.clone(), at: sent });
        if event_first {
            readers.lease(a, 5_001);
            readers.lease(b, 5_002);
        }
        let write = Some(ours(Act::Extend(MINUTES), a));
        readers.0.apply(Observation::Acted { node: NODE, key, write, sent, answered: Time(5_003) });
        if !event_first {
            readers.lease(a, 5_004);
            readers.lease(b, 5_005);
        }
        readers.settle(5_010, &[a, b]);
        assert_eq!(readers.renewals(), [0, 1], "event first: {event_first}; the other one renewed by itself");
        readers.lease(a, 6_000);
        assert_eq!(readers.renewals(), [1, 1], "the next one is its own");
    }
}

const MINUTES: Duration = Duration::from_secs(300);

#[test]
fn a_write_of_ours_that_is_told_very_late_is_still_ours() {
    let mut table = following(Limits::default());
    tell(
        &mut table,
        Time(1_000),
        &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)],
    );
    settle(&mut table, Time(1_001), |_| seen("tok-a", 30_000));
    table.apply(Observation::Heard { node: NODE, until: Time(2_000) });
    act(&mut table, 2_000, ours(Act::Extend(MINUTES), "tok-a"));
    // A flood keeps the reader busy: nothing was reported since.
    tell(&mut table, Time(20_000), &[("lock:a", KeyEvent::Expire)]);
    settle(&mut table, Time(20_001), |_| seen("tok-a", 281_999));
    let lock = table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
    assert!(lock.beats().is_none(), "{:?}", lock.beats());
}

#[test]
fn a_client_that_is_gone_is_not_forgotten_while_its_lock_is_free() {
    let mut table = following(Limits::default());
    let take = [("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)];
    tell(&mut table, Time(1_000), &take);
    settle(&mut table, Time(1_001), |_| seen("tok-a", 600_000));
    let address = Address::parse("10.0.3.7:51322").unwrap();
    for at in [2_000, 8_000] {
        let spoke = vec![Spoke { token: Token::from(&b"tok-a"[..]), address: address.clone(), at: Time(at) }];
        let sample = Box::new(Sample { spoke, ..Sample::default() });
        table.apply(Observation::Sampled { node: NODE, key: Key::from("lock:a"), sample });
    }
    let list = |table: &mut Table, at, present| {
        table.apply(Observation::Connections { node: NODE, at: Time(at), asked: Asked::All, present });
    };
    let open = Connection { id: Some(1), since: Some(Time(0)), ..Connection::new(address, Time(9_000)) };
    list(&mut table, 9_000, vec![open]);
    list(&mut table, 11_000, vec![]);
    act(&mut table, 20_000, ours(Act::Free { whole: true }, "tok-a"));
    settle(&mut table, Time(20_002), |_| Seen::Absent);
    for at in [22_000, 24_000, 26_000] {
        table.keep_connections(NODE, Default::default(), Time(at));
    }
    act(&mut table, 30_000, ours(Act::PutBack { whole: true }, "tok-a"));
    settle(&mut table, Time(30_002), |_| seen("tok-a", 570_000));
    let view = table.view(table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap(), Time(31_000)).unwrap();
    assert!(matches!(view.presence[..], [Presence::Closed { .. }]), "{:?}", view.presence);
    let words = Safe::of(&view).sentence();
    assert!(!words.contains("ask the owner: it") && words.contains("client closed"), "{words}");
}
