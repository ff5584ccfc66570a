//! One process that uses one kind of lock by its library's exact commands, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Connection;

use super::book::{Book, Fate, Turn};
use super::connections::{Connections, Uses};
use super::dice::Dice;
use super::habits::{Habits, Renews};
use super::{Fortune, Stop};
use crate::common::Server;
use crate::models::{Held, Hold, Library, Mode, Subject, Wish, tokens};

/// No two processes or holds of a run have the same number.
static SERIAL: AtomicU64 = AtomicU64::new(1);

pub struct Process {
    subject: &'static Subject,
    habits: Habits,
    dice: Dice,
    library: Box<dyn Library>,
    connections: Connections,
    book: Arc<Book>,
    stop: Stop,
    fortune: Fortune,
    /// Another one after each accident.
    id: u64,
    /// What it asks for until it gets it: libraries try again with the same token.
    wish: Option<Wish>,
    /// Its subscription while it waits.
    waits: Option<Connection>,
}

/// Some tokens say when they were made, by this number: it never lags behind the clock.
fn new_id() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
    let next = |last: u64| Some((last + 1).max(now.saturating_sub(tokens::EPOCH_MS)));
    SERIAL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).expect("there is always one more")
}

/// What happens in the middle of a piece of work.
#[derive(Clone, Copy, PartialEq)]
enum Accident {
    Dies,
    Hangs,
}

impl Process {
    pub fn new(
        subject: &'static Subject,
        habits: Habits,
        dice: Dice,
        server: Arc<Server>,
        book: Arc<Book>,
        stop: Stop,
        fortune: Fortune,
    ) -> Process {
        let library = subject.library(&server);
        let connections = Connections::new(server, habits.uses);
        let (id, wish, waits) = (new_id(), None, None);
        Process { subject, habits, dice, library, connections, book, stop, fortune, id, wish, waits }
    }

    pub fn run(mut self) {
        // They do not all begin at once.
        let first = self.dice.seconds(0.0, 3.0);
        self.rest(first);
        while !self.stop.is_set() {
            match self.take() {
                Some((hold, turn)) => self.work(hold, turn),
                None => self.wait(),
            }
        }
    }

    /// It did not get it: asks again in a while.
    fn wait(&mut self) {
        let pause = match self.habits.asks_again {
            true => self.dice.seconds(0.4, 1.6),
            // Another run of a job, which has nothing to do with this one.
            false => {
                self.wish = None;
                self.dice.seconds(6.0, 12.0)
            }
        };
        if !self.habits.asks_again || self.habits.uses == Uses::EachWork {
            self.connections.work_is_over();
        }
        let channel = self.wish.as_ref().and_then(|wish| self.library.waits_on(&wish.token));
        if let Some(channel) = channel.filter(|_| self.waits.is_none()) {
            self.waits = Some(self.connections.subscribe(&channel));
        }
        self.rest(pause);
    }

    /// Asks for the lock once.
    fn take(&mut self) -> Option<(Hold, usize)> {
        let wish = self.wish.take().unwrap_or_else(|| self.new_wish());
        let from = Instant::now();
        let (library, connections) = (&mut self.library, &mut self.connections);
        if !connections.call(|wire| library.acquire(wire, &wish)) {
            self.wish = Some(wish);
            return None;
        }
        self.waits = None;
        let lease = wish.lease.map(Duration::from_millis);
        let period = match self.habits.renews {
            Renews::Each(share) | Renews::Usually(share) => lease.map(|lease| lease.mul_f64(share)),
            Renews::Never => None,
        };
        let hold = Hold {
            id: new_id(),
            client: 0,
            process: self.id,
            key: self.key(wish.mode),
            token: self.token(&wish),
            mode: wish.mode,
            until: None,
        };
        let turn = self.book.take(Turn::new(hold.key.clone(), from, lease, period));
        Some((hold, turn))
    }

    fn new_wish(&mut self) -> Wish {
        // With 5, Ruby's semaphore would take a place without entering it: an accident.
        let salt = self.dice.below(5) as u8;
        let modes = self.library.modes();
        Wish {
            mode: modes[self.dice.below(modes.len())],
            lease: self.habits.lease,
            token: self.library.token(self.id, new_id(), salt),
            process: self.id,
            salt,
        }
    }

    /// Readers and writers of Medallion have keys of their own.
    fn key(&self, mode: Mode) -> Vec<u8> {
        let mut keys = self.library.keys();
        let place = usize::from(keys.len() > 1 && mode == Mode::Write);
        keys.swap_remove(place)
    }

    /// The token of what was taken; Ruby's semaphore names a place, which is known only then.
    fn token(&self, wish: &Wish) -> Vec<u8> {
        let named = |token: &[u8]| {
            let held = Held { key: Vec::new(), token: token.to_vec(), mode: wish.mode, until: None };
            self.library.is_of(&held, wish).then(|| token.to_vec())
        };
        [&wish.token[..], b"0", b"1"].into_iter().find_map(named).expect("it was taken")
    }

    fn work(&mut self, hold: Hold, number: usize) {
        let Turn { from, lease, period, .. } = self.book.turn(number);
        // Without renewals, the work has to be done before the lease is over.
        let most = match (lease, period) {
            (Some(lease), Some(_)) => lease.as_secs_f64() * 2.5,
            (Some(lease), None) => lease.as_secs_f64() * 0.7,
            (None, _) => 30.0,
        };
        let work = self.dice.seconds(1.0, most.min(30.0)).as_secs_f64();
        let end = from + Duration::from_secs_f64(work);
        let accident = (self.fortune == Fortune::Accidents).then(|| self.accident(period.is_some())).flatten();
        let until = accident.map_or(end, |_| from + Duration::from_secs_f64(work * self.dice.share()));
        if !self.renew_until(&hold, number, until) {
            return;
        }
        match accident {
            Some(Accident::Dies) => self.die(&hold, number),
            Some(Accident::Hangs) => self.hang(&hold, number),
            None if self.leaves(lease) => self.leave(number),
            None => self.free(&hold, number),
        }
        let pause = self.dice.seconds(0.3, 3.0);
        self.rest(pause);
    }

    fn accident(&mut self, renews: bool) -> Option<Accident> {
        match self.dice.share() {
            share if share < 0.15 => Some(Accident::Dies),
            share if share < 0.25 && renews => Some(Accident::Hangs),
            _ => None,
        }
    }

    /// Works until then, and renews as the library does; whether it got there.
    fn renew_until(&mut self, hold: &Hold, number: usize, end: Instant) -> bool {
        let Turn { from, lease, period, .. } = self.book.turn(number);
        let mut next = period.map(|period| from + period);
        while let Some(due) = next.filter(|due| *due < end) {
            if !self.rest_until(due) {
                return false;
            }
            let lease = lease.map(|lease| lease.as_millis() as u64);
            let (library, connections) = (&mut self.library, &mut self.connections);
            let at = Instant::now();
            if connections.call(|wire| library.renew(wire, hold, lease)) {
                self.book.change(number, |turn| turn.renewals.push(at));
            }
            next = period.map(|period| at + period);
        }
        self.rest_until(end)
    }

    fn leaves(&mut self, lease: Option<Duration>) -> bool {
        // Longer than that, and nobody would get it again during the test.
        let soon = lease.is_some_and(|lease| lease <= Duration::from_secs(120));
        self.subject.is_a_marker || self.habits.leaves && soon && self.dice.chance(0.5)
    }

    fn free(&mut self, hold: &Hold, number: usize) {
        let (library, connections) = (&mut self.library, &mut self.connections);
        connections.call(|wire| library.release(wire, hold));
        self.book.change(number, |turn| turn.to = Some(Instant::now()));
        self.connections.work_is_over();
    }

    fn leave(&mut self, number: usize) {
        self.book.change(number, |turn| turn.fate = Fate::Left);
        self.connections.work_is_over();
        let end = self.book.turn(number).end_of_lease();
        self.rest_until(end.unwrap_or_else(Instant::now));
    }

    fn die(&mut self, hold: &Hold, number: usize) {
        self.connections.die();
        self.book.change(number, |turn| turn.fate = Fate::Died(Instant::now()));
        self.id = new_id();
        match self.book.turn(number).end_of_lease() {
            Some(end) => self.rest_until(end),
            // What has no end, somebody has to clean up.
            None => {
                let after = self.dice.seconds(15.0, 40.0);
                self.rest(after);
                self.free(hold, number);
                true
            }
        };
    }

    fn hang(&mut self, hold: &Hold, number: usize) {
        self.book.change(number, |turn| turn.fate = Fate::Hangs(Instant::now()));
        let end = self.book.turn(number).end_of_lease().expect("what is renewed has a lease");
        let late = self.dice.seconds(0.5, 4.0);
        if self.rest_until(end + late) {
            let (library, connections) = (&mut self.library, &mut self.connections);
            connections.call(|wire| library.release(wire, hold));
            self.book.change(number, |turn| turn.late = Some(Instant::now()));
        }
    }

    fn rest(&mut self, time: Duration) -> bool {
        self.rest_until(Instant::now() + time)
    }

    /// Does nothing until then, while its pool closes what is idle; whether the time came.
    fn rest_until(&mut self, end: Instant) -> bool {
        loop {
            self.connections.close_idle();
            let step = end.min(Instant::now() + Duration::from_secs(1));
            if !self.stop.wait_until(step) {
                return false;
            }
            if step == end {
                return true;
            }
        }
    }
}
