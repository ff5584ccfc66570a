//! What is known about clients that want a lock, and what clients did to it beyond its events. Stored apart from the
//! lock, because most locks have none of it. It covers the current hold or the last minutes, and is bounded.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::base::time::Time;
use crate::lock::Token;
use crate::model::wants::touched::Touched;
use crate::model::{Address, Ending, HeldIs, Tries, Waits};

#[derive(Clone, Debug, Default)]
pub struct Contention {
    /// How many waited for it when they were last counted.
    pub waits: Option<Waits>,
    pub tries: Option<Tries>,
    /// When a client that is neither its holder nor us last accessed the key: it is wanted, how often is unknown.
    pub wanted: Option<Time>,
    /// When the key was touched by nobody we know of, since all that we know of: further such touches make it wanted.
    pub(in crate::model) touched: Option<Touched>,
    /// Clients that named the lock together with a token, until it is known whether that one holds it.
    pub(in crate::model) spoke: Vec<Spoke>,
    /// From whom its holder took it over before their lease had ended.
    pub former: Option<Former>,
    /// How long the current hold had no TTL, if it got one only later.
    pub bare_ms: Option<u32>,
    /// The number of the current hold, if the library numbers holds and it was read.
    pub fencing_token: Option<u64>,
    contenders: Vec<Contender>,
    /// Who was seen to hold it in a burst, the last few.
    held: VecDeque<Token>,
    notices: VecDeque<(Time, Notice)>,
}

impl Contention {
    const CONTENDERS: usize = 16;
    const NOTICES: usize = 8;
    const HELD: usize = 16;
    const SPOKE: usize = 16;

    /// Clients with tokens that may or may not hold it: at most a fixed number, the newest.
    pub(in crate::model) fn speak(&mut self, spoke: Vec<Spoke>) {
        self.spoke.extend(spoke);
        let over = self.spoke.len().saturating_sub(Self::SPOKE);
        self.spoke.drain(..over);
    }

    /// Who was seen to want it, in no order.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// Its notices, oldest first.
    pub fn notices(&self) -> impl DoubleEndedIterator<Item = &(Time, Notice)> {
        self.notices.iter()
    }

    /// At least as many clients want it now. A client may use many connections, or a new one for each attempt, so one that
    /// was seen only once may be another that was seen before.
    pub fn trying(&self, now: Time) -> usize {
        if self.contenders.is_empty() {
            return 0;
        }
        let waiting = || self.contenders.iter().filter(|contender| contender.is_waiting(now));
        let again = || waiting().filter(|contender| contender.attempts > 1);
        let known = again().filter(|contender| contender.tokens != Tokens::New).count();
        let hosts: BTreeSet<&str> = again()
            .filter(|contender| contender.tokens == Tokens::New)
            .filter_map(|contender| contender.address.as_ref())
            .map(Address::host)
            .collect();
        (known + hosts.len()).max(waiting().count().min(1))
    }

    /// Adds what was seen of a contender to what is known. If there are too many, drops the least recently seen one.
    pub fn contend(&mut self, seen: Contender) {
        if let Some(index) = Contender::position(&self.contenders, &seen.token, &seen.address) {
            return self.contenders[index].add(seen);
        }
        if self.contenders.len() == Self::CONTENDERS {
            let oldest = (0..self.contenders.len()).min_by_key(|index| self.contenders[*index].last);
            self.contenders.swap_remove(oldest.unwrap_or(0));
        }
        self.contenders.push(seen);
    }

    /// A client got the lock: the contender with that token does not wait any more.
    pub(in crate::model) fn got(&mut self, token: &Token, at: Time) {
        for contender in self.contenders.iter_mut().filter(|contender| contender.token.as_ref() == Some(token)) {
            (contender.won, contender.passed_over) = (contender.won.max(Some(at)), 0);
        }
    }

    pub(in crate::model) fn forget_contenders(&mut self) {
        self.contenders.clear();
    }

    /// Somebody held it by this token.
    pub(in crate::model) fn saw_held(&mut self, token: Token) {
        if self.held.contains(&token) {
            return;
        }
        if self.held.len() == Self::HELD {
            self.held.pop_front();
        }
        self.held.push_back(token);
    }

    /// Whether somebody was seen to hold it by this token, in a burst or before it was taken over.
    pub(in crate::model) fn was_held_by(&self, token: &Token) -> bool {
        let former = self.former.as_ref().and_then(|former| former.token.as_ref());
        former == Some(token) || self.held.contains(token)
    }

    pub fn notice(&mut self, at: Time, notice: Notice) {
        if self.notices.len() == Self::NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back((at, notice));
    }
}

/// A holder whose lock was taken over, or lost by the server.
#[derive(Clone, PartialEq, Debug)]
pub struct Former {
    pub token: Option<Token>,
    /// When its lease would have ended; `None`: it had no end.
    pub until: Option<Time>,
    /// How the server lost it, if it did and nobody has taken it since.
    pub lost: Option<Loss>,
}

/// A hold that the server lost, or may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    pub by: Ending,
    /// When it was found to be gone.
    pub at: Time,
    /// When the hold began, and how well that is known.
    pub since: (Time, HeldIs),
    /// When its lease was last given, as far as that was seen.
    pub given: Time,
    /// Its holder can't have released it.
    pub proven: bool,
    /// Of a failover: nothing that was written after this time reached the new server.
    pub cut: Option<Time>,
    /// How many held it.
    pub holders: usize,
    /// One at a time may hold it.
    pub alone: bool,
    /// It had a lease; without one, `until` is a guess.
    pub leased: bool,
}

/// One who was seen to want a lock: a token, where attempts carry one of their own, a client where its address is known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Contender {
    pub token: Option<Token>,
    pub address: Option<Address>,
    pub first: Time,
    pub last: Time,
    pub attempts: u64,
    pub failures: u64,
    /// When it last got the lock.
    pub won: Option<Time>,
    /// How often others were seen to get the lock since it first tried or last got it.
    pub passed_over: u32,
    pub tokens: Tokens,
}

/// How one who wants a lock uses tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Tokens {
    /// Only one attempt with one was seen so far.
    #[default]
    Unknown,
    /// It asks again with the same one.
    Kept,
    /// Each attempt has its own: then neither they nor the connections of a pool tell how many clients they are.
    New,
}

impl Contender {
    /// Which of them uses this token, on whichever connection; else this address.
    pub fn position(known: &[Contender], token: &Option<Token>, address: &Option<Address>) -> Option<usize> {
        let by_token = || known.iter().position(|known| token.is_some() && known.token == *token);
        let by_address = || known.iter().position(|known| address.is_some() && known.address == *address);
        by_token().or_else(by_address)
    }

    fn add(&mut self, seen: Contender) {
        if self.begins_again(&seen.token, seen.first) {
            (self.first, self.passed_over) = (seen.first, 0);
        }
        let passed_over = if seen.won.is_some() { 0 } else { self.passed_over };
        self.use_token(&seen.token, seen.first);
        self.tokens = match (self.tokens, seen.tokens) {
            (Tokens::Kept, _) | (_, Tokens::Kept) => Tokens::Kept,
            (Tokens::New, _) | (_, Tokens::New) => Tokens::New,
            _ => Tokens::Unknown,
        };
        self.token = seen.token.or(self.token.take());
        self.address = seen.address.or(self.address.take());
        self.last = self.last.max(seen.last);
        self.attempts += seen.attempts;
        self.failures += seen.failures;
        self.won = seen.won.or(self.won);
        self.passed_over = passed_over + seen.passed_over;
    }

    /// One more attempt, with this token.
    pub fn use_token(&mut self, token: &Option<Token>, at: Time) {
        match token {
            Some(_) if *token == self.token => self.tokens = Tokens::Kept,
            _ if self.has_another(token) && self.is_waiting(at) && self.tokens == Tokens::Unknown => {
                self.tokens = Tokens::New;
            }
            _ => {}
        }
    }

    fn has_another(&self, token: &Option<Token>) -> bool {
        token.is_some() && self.token.is_some() && *token != self.token
    }

    /// Whether an attempt with this token begins a new wait. Many libraries use a new token for each acquire, so another
    /// token alone does not: a client that was refused just before still wants the lock.
    pub fn begins_again(&self, token: &Option<Token>, at: Time) -> bool {
        self.has_another(token) && !self.is_waiting(at)
    }

    /// Whether it still wants the lock: its last attempt failed, and was recent.
    pub fn is_waiting(&self, now: Time) -> bool {
        let lost = self.won.is_none_or(|won| won < self.last);
        lost && self.failures > 0 && now.ms_since(self.last) <= 15_000
    }
}

/// Something that a client did and that no event reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// Somebody who held the lock before tried to renew or release it: its time was up before its work.
    Late { token: Token, address: Option<Address>, renewal: bool },
    /// The key was deleted by a client that is not the holder's, or without naming the holder's token. `holder` is there
    /// only where another client was seen to hold it; without it, the holder itself may have deleted the key, by a library
    /// that does not compare.
    FreedBy { holder: Option<Token>, address: Option<Address> },
}

/// A client named a lock together with a token.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spoke {
    pub token: Token,
    pub address: Address,
    pub at: Time,
}

/// What a burst of MONITOR showed of one lock.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Over all bursts that still count, this one included.
    pub tries: Option<Tries>,
    /// Only of this burst.
    pub contenders: Vec<Contender>,
    /// Clients that named the lock together with a token: they go by it.
    pub spoke: Vec<Spoke>,
    /// Who was seen to hold it.
    pub held: Vec<Token>,
    pub notices: Vec<(Time, Notice)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(token: Option<&str>, port: u16, at: i64) -> Contender {
        Contender {
            token: token.map(|token| Token::from(token.as_bytes())),
            address: Address::parse(&format!("10.0.0.1:{port}")),
            first: Time(at),
            last: Time(at),
            attempts: 1,
            failures: 1,
            won: None,
            passed_over: 0,
            tokens: Tokens::Unknown,
        }
    }

    fn trying(contenders: impl Iterator<Item = Contender>) -> usize {
        let mut contention = Contention::default();
        contenders.for_each(|contender| contention.contend(contender));
        contention.trying(Time(1_000))
    }

    #[test]
    fn a_pool_of_connections_is_one_client() {
        assert_eq!(trying((1..=24).map(|port| lost(Some("uuid:57"), port, i64::from(port)))), 1);
        assert_eq!(trying((1..=48).map(|try_no| lost(Some("uuid:57"), 1 + try_no % 24, i64::from(try_no)))), 1);
        let threads = (1..=48).map(|try_no| lost(Some(["a", "b", "c"][usize::from(try_no % 3)]), try_no, 1));
        assert_eq!(trying(threads), 3, "each of its threads");
        let shared = |try_no: u16| {
            lost(Some(["a", "b"][usize::from(try_no % 2)]), 1 + (try_no + try_no / 2) % 2, i64::from(try_no))
        };
        assert_eq!(trying((0..48).map(shared)), 2, "two threads that use two connections in turn");
    }

    #[test]
    fn a_pool_with_a_new_token_for_each_attempt_is_one_client() {
        // ShedLock: each attempt has a value of its own, on the next connection of the pool.
        let attempt = |try_no: u16| lost(Some(&format!("ADDED:{try_no}@web-1")), 1 + try_no % 4, i64::from(try_no));
        assert_eq!(trying((1..=20).map(attempt)), 1);
        let elsewhere = |try_no: u16| Contender { address: Address::parse("10.0.0.2:7"), ..attempt(try_no) };
        assert_eq!(trying((1..=20).map(attempt).chain((30..33).map(elsewhere))), 2, "another host");
        let keeps = |_: u16| lost(Some("uuid:57"), 99, 40);
        assert_eq!(trying((1..=20).map(attempt).chain((0..3).map(keeps))), 2, "and one that keeps its token");
        // redis-py: each of six workers asks again with its token until it gets the lock, and then takes another.
        let worker =
            |try_no: u16| lost(Some(&format!("{}-{}", try_no % 6, try_no / 30)), 1 + try_no % 6, i64::from(try_no));
        assert_eq!(trying((0..120).map(worker)), 6, "each on a connection of its own");
    }

    #[test]
    fn who_asks_again_with_another_token_has_waited_all_the_time() {
        let mut contention = Contention::default();
        for burst in 0..5 {
            contention.contend(lost(Some(&format!("acquire-{burst}")), 7, burst * 10_000));
        }
        assert_eq!(contention.contenders()[0].first, Time(0), "it was refused each time");
        contention.contend(lost(Some("much later"), 7, 100_000));
        assert_eq!(contention.contenders()[0].first, Time(100_000), "in between it did not ask");
        contention.contenders[0].won = Some(Time(101_000));
        contention.contend(lost(Some("for the next job"), 7, 102_000));
        assert_eq!(contention.contenders()[0].first, Time(102_000), "it had it in between");
    }

    #[test]
    fn a_connection_for_each_attempt_is_at_least_one_client() {
        assert_eq!(trying((1..=12).map(|port| lost(None, port, i64::from(port)))), 1);
        assert_eq!(trying((1..=12).map(|try_no| lost(None, 1 + try_no % 4, i64::from(try_no)))), 4, "open together");
        assert_eq!(trying(std::iter::empty()), 0);
    }
}
