//! What simulated clients do to a few locks of a pretended server, and how a table learns of it: late, repeated or out
//! of order.

use std::time::Duration;

use proptest::prelude::*;

use crate::base::time::Time;
use crate::lock::RawValue;
use crate::model::{KeyEvent, Seen, Table, Ticket};
use crate::testkit::pretend::{Keyspace, NODE, tell};

/// What a simulated client does to one of a few locks.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Acquire(u8),
    Renew(u8),
    SetAgain(u8),
    /// The key becomes something that is no lock.
    Spoil(u8),
    Release(u8),
    Expire(u8),
    /// The observer reads what the table asks for; the answer takes this long.
    Look(u8),
    Deliver(u8),
}

/// How events arrive.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    disorder: bool,
    repeat: bool,
}

pub fn any() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        (0..4u8).prop_map(Deed::Acquire),
        (0..4u8).prop_map(Deed::Renew),
        (0..4u8).prop_map(Deed::SetAgain),
        (0..4u8).prop_map(Deed::Spoil),
        (0..4u8).prop_map(Deed::Release),
        (0..4u8).prop_map(Deed::Expire),
        (0..4u8).prop_map(Deed::Look),
        (0..8u8).prop_map(Deed::Deliver),
    ];
    prop::collection::vec(deed, 0..120)
}

pub fn wire() -> impl Strategy<Value = Wire> {
    (proptest::bool::ANY, proptest::bool::ANY).prop_map(|(disorder, repeat)| Wire { disorder, repeat })
}

/// Plays them, calls `after` after each, and lets the table learn everything. Returns the server then, and the time.
pub fn play(
    table: &mut Table,
    deeds: Vec<Deed>,
    how: Wire,
    mut after: impl FnMut(&mut Table, Time),
) -> (Keyspace, Time) {
    let mut server = Keyspace::default();
    let mut wire: Vec<(String, KeyEvent)> = Vec::new();
    let mut in_flight: Vec<(Ticket, i64, Seen)> = Vec::new();
    let (mut now, mut tokens) = (1_000i64, 0);
    for deed in deeds {
        now += 7;
        match deed {
            Deed::Look(n) => {
                for (ticket, asked, answer) in in_flight.drain(..) {
                    table.answer(ticket, Time(asked), Time(now), answer);
                }
                for ticket in table.to_read(NODE, n as usize, Time(now)) {
                    let answer = server.look(ticket.key.as_bytes(), Time(now));
                    in_flight.push((ticket, now, answer));
                }
            }
            Deed::Deliver(n) => {
                let count = (n as usize).min(wire.len());
                let mut batch: Vec<_> = wire.drain(..count).collect();
                if how.disorder {
                    batch.reverse();
                }
                if how.repeat
                    && let Some(first) = batch.first().cloned()
                {
                    batch.push(first);
                }
                tell(table, Time(now), &batch);
            }
            deed => {
                tokens += 1;
                wire.extend(deed.at(&mut server, tokens, Time(now)));
            }
        }
        after(table, Time(now));
    }
    for (ticket, asked, answer) in in_flight.drain(..) {
        table.answer(ticket, Time(asked), Time(now), answer);
    }
    tell(table, Time(now), &wire);
    // What is no lock is left alone for two seconds.
    for _ in 0..6 {
        now += 500;
        server.settle(table, Time(now));
        after(table, Time(now));
    }
    (server, Time(now))
}

impl Deed {
    /// Does it, if it can be done, and returns its events.
    fn at(self, server: &mut Keyspace, token: u32, now: Time) -> Vec<(String, KeyEvent)> {
        let key = |n: u8| format!("lock:{n}");
        let until = now + Duration::from_secs(30);
        match self {
            Deed::Acquire(n) if server.value(key(n)).is_none() => {
                server.put(key(n), RawValue::string(format!("token-{token}").as_bytes()), Some(until));
                vec![(key(n), KeyEvent::New), (key(n), KeyEvent::Set), (key(n), KeyEvent::Expire)]
            }
            Deed::Renew(n) if server.renew(key(n), until) => vec![(key(n), KeyEvent::Expire)],
            Deed::SetAgain(n) if server.renew(key(n), until) => {
                vec![(key(n), KeyEvent::Set), (key(n), KeyEvent::Expire)]
            }
            Deed::Spoil(n) => {
                let gone = server.remove(key(n)).then(|| (key(n), KeyEvent::Del));
                server.put(key(n), RawValue::List { len: 1 }, None);
                gone.into_iter().chain([(key(n), KeyEvent::New), (key(n), KeyEvent::Written)]).collect()
            }
            Deed::Release(n) if server.remove(key(n)) => vec![(key(n), KeyEvent::Del)],
            Deed::Expire(n) if server.remove(key(n)) => vec![(key(n), KeyEvent::Expired)],
            _ => Vec::new(),
        }
    }
}
