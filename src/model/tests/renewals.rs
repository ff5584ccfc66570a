//! Each renewal that is heard of counts once, whatever order its event, the looks and their answers come in.

use super::*;

/// One thing that happens between a server, its notifications and the reader of its keys.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// The holder renews.
    Renew,
    /// So many of the notifications under way arrive together.
    Hear(usize),
    /// The keys that are to be read are asked for.
    Ask,
    /// What was asked is answered, by what the server had when it was asked, or has now.
    Answer { now: bool },
    /// A walk meets the key.
    Walk,
    /// So many milliseconds pass: fewer than a look waits for its event.
    Pass(i64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => Just(Move::Renew),
        4 => (1..4usize).prop_map(Move::Hear),
        3 => Just(Move::Ask),
        3 => any::<bool>().prop_map(|now| Move::Answer { now }),
        1 => Just(Move::Walk),
        2 => (0..20i64).prop_map(Move::Pass),
    ];
    prop::collection::vec(one, 0..40)
}

struct Play {
    table: Table,
    server: Keyspace,
    /// Notifications that were sent and not heard.
    wire: Vec<KeyEvent>,
    asked: Vec<(Ticket, Time, Seen)>,
    now: Time,
    renewals: u64,
}

impl Play {
    /// A lock is taken; its three notifications are under way.
    fn new() -> Play {
        let mut server = Keyspace::default();
        server.put("lock:a", RawValue::string(b"worker-a"), Some(START + Duration::from_secs(30)));
        let wire = vec![KeyEvent::New, KeyEvent::Set, KeyEvent::Expire];
        Play { table: following(Limits::default()), server, wire, asked: Vec::new(), now: START, renewals: 0 }
    }

    fn play(&mut self, step: Move) {
        let now = self.now;
        match step {
            Move::Renew => {
                self.renewals += 1;
                self.server.renew("lock:a", now + Duration::from_secs(30));
                self.wire.push(KeyEvent::Expire);
            }
            Move::Hear(count) => {
                let heard = self.wire.drain(..count.min(self.wire.len()));
                let heard: Vec<(&str, KeyEvent)> = heard.map(|event| ("lock:a", event)).collect();
                tell(&mut self.table, now, &heard);
            }
            Move::Ask => {
                for ticket in self.table.to_read(NODE, 10, now) {
                    let seen = self.server.look(ticket.key.as_bytes(), now);
                    self.asked.push((ticket, now, seen));
                }
            }
            Move::Answer { now: late } => {
                for (ticket, asked, seen) in self.asked.drain(..) {
                    let seen = if late { self.server.look(ticket.key.as_bytes(), now) } else { seen };
                    self.table.answer(ticket, asked, now, seen);
                }
            }
            Move::Walk => {
                let seen = self.server.look(b"lock:a", now);
                let (node, key, source) = (NODE, Key::from("lock:a"), Source::Scan);
                self.table.apply(Observation::Read { node, key, asked: now, answered: now, seen, source });
            }
            Move::Pass(ms) => self.now = now + Duration::from_millis(ms as u64),
        }
    }

    fn finish(&mut self) {
        for step in [Move::Hear(usize::MAX), Move::Answer { now: true }] {
            self.play(step);
        }
        for _ in 0..6 {
            self.now = self.now + Duration::from_millis(50);
            self.server.settle(&mut self.table, self.now);
        }
    }

    /// The renewals as the lock, its transitions and the figures have them.
    fn counted(&mut self) -> (u64, u64) {
        let lock = self.table.lock_named(KeyspaceId::FIRST, b"lock:a").expect("it is known");
        let kept = lock.beats().map_or(0, |beats| beats.count);
        let told = self.table.take_transitions().0.iter().filter(|change| change.change == Change::Renewed).count();
        (kept, told as u64)
    }
}

#[test]
fn renewals_that_are_told_in_the_same_moment_are_counted_each() {
    let mut play = Play::new();
    [Move::Hear(3), Move::Ask, Move::Answer { now: false }].into_iter().for_each(|step| play.play(step));
    // The reader was busy: three renewals, some milliseconds apart, are heard of together.
    [Move::Renew, Move::Pass(3), Move::Renew, Move::Pass(3), Move::Renew].into_iter().for_each(|step| play.play(step));
    play.finish();
    assert_eq!(play.counted(), (3, 3));
}

#[test]
fn of_renewals_that_are_told_late_none_moves_before_another() {
    let mut play = Play::new();
    [Move::Hear(3), Move::Ask, Move::Answer { now: false }].into_iter().for_each(|step| play.play(step));
    play.table.apply(Observation::Heard { node: NODE, until: play.now });
    [Move::Renew, Move::Pass(10), Move::Renew, Move::Pass(2_000)].into_iter().for_each(|step| play.play(step));
    play.finish();
    assert_eq!(play.counted(), (2, 2));
}

#[test]
fn the_expire_of_an_acquire_that_a_look_was_ahead_of_is_no_renewal() {
    for heard in 0..3 {
        let mut play = Play::new();
        play.play(if heard == 0 { Move::Walk } else { Move::Hear(heard) });
        [Move::Ask, Move::Answer { now: true }].into_iter().for_each(|step| play.play(step));
        play.finish();
        assert_eq!(play.counted(), (0, 0), "a look after {heard} of three events");
    }
}

proptest! {
    #[test]
    fn every_renewal_is_counted_once_in_whatever_order_events_and_looks_come(moves in moves()) {
        let mut play = Play::new();
        moves.into_iter().for_each(|step| play.play(step));
        play.finish();
        let renewals = play.renewals;
        prop_assert_eq!(play.counted(), (renewals, renewals));
    }
}
