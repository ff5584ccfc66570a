//! What is known of those who want a lock, and of what clients did to it beyond its events. Kept apart from the lock,
//! since most locks have none of it. All of it is about the current hold or the last minutes, and bounded.

use std::collections::VecDeque;

use crate::base::time::Time;
use crate::lock::Token;
use crate::model::{Address, ClientRef, Tries, Waits};

#[derive(Clone, Debug, Default)]
pub struct Contention {
    /// How many waited for it when they were last counted.
    pub waits: Option<Waits>,
    pub tries: Option<Tries>,
    /// When somebody who is neither its holder nor us last looked at the key: it is wanted, nobody knows how often.
    pub wanted: Option<Time>,
    /// When the key was touched by nobody we know of, since all that we know of: another such touch makes it wanted.
    pub(in crate::model) touched: Option<Time>,
    /// The connection of its holder, where one client was seen to go by the holder's token.
    pub client: Option<ClientRef>,
    /// A client that named the lock together with a token, until it is known whether that one holds it.
    pub(in crate::model) spoke: Option<(Token, Address, Time)>,
    /// From whom its holder took it over before their lease had ended.
    pub former: Option<Former>,
    /// How long the current hold had no TTL, where it got one later than it was taken.
    pub bare_ms: Option<u32>,
    /// The number of the current hold, where the library numbers them and somebody asked.
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

    /// Who was seen to want it, in no order.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// What was noticed of it, oldest first.
    pub fn notices(&self) -> impl DoubleEndedIterator<Item = &(Time, Notice)> {
        self.notices.iter()
    }

    /// Adds what was seen of a contender to what is known of it. Of too many, the one goes that was seen least lately.
    pub fn contend(&mut self, seen: Contender) {
        if let Some(known) = self.contenders.iter_mut().find(|known| known.is_same(&seen)) {
            return known.add(seen);
        }
        if self.contenders.len() == Self::CONTENDERS {
            let oldest = (0..self.contenders.len()).min_by_key(|index| self.contenders[*index].last);
            self.contenders.swap_remove(oldest.unwrap_or(0));
        }
        self.contenders.push(seen);
    }

    /// Somebody got the lock: whoever goes by that token does not wait any more.
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

/// A holder whose lock was taken over.
#[derive(Clone, PartialEq, Debug)]
pub struct Former {
    pub token: Option<Token>,
    /// When its lease would have ended; `None`: it had no end.
    pub until: Option<Time>,
}

/// One who was seen to want a lock: a token, where attempts carry one of their own, a client where its address is known.
#[derive(Clone, PartialEq, Debug)]
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
}

impl Contender {
    /// The same client, or, where no address is known, the same token.
    fn is_same(&self, other: &Contender) -> bool {
        match (&self.address, &other.address) {
            (Some(address), Some(other)) => address == other,
            _ => self.token.is_some() && self.token == other.token,
        }
    }

    fn add(&mut self, seen: Contender) {
        // Many libraries take another token for each lock they want: then this is another wish, and a new wait.
        let again = seen.token.is_some() && self.token.is_some() && seen.token != self.token;
        if again {
            (self.first, self.passed_over) = (seen.first, 0);
        }
        let passed_over = if seen.won.is_some() { 0 } else { self.passed_over };
        self.token = seen.token.or(self.token.take());
        self.last = self.last.max(seen.last);
        self.attempts += seen.attempts;
        self.failures += seen.failures;
        self.won = seen.won.or(self.won);
        self.passed_over = passed_over + seen.passed_over;
    }

    /// Whether it still wants the lock: its last attempt failed, and was not long ago.
    pub fn is_waiting(&self, now: Time) -> bool {
        let lost = self.won.is_none_or(|won| won < self.last);
        lost && self.failures > 0 && now.since(self.last).as_millis() <= 15_000
    }
}

/// Something that a client did, which events do not tell.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// Somebody who held the lock before tried to renew or release it: its time was up before its work.
    Late { token: Token, address: Option<Address>, renewal: bool },
    /// The key was deleted by a client that is not the holder's, or without naming the holder's token. `holder` is there
    /// only where another client was seen to hold it; without it, the holder itself may have deleted the key, by a library
    /// that does not compare.
    FreedBy { holder: Option<Token>, address: Option<Address> },
}

/// What a burst of MONITOR showed of one lock.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample {
    /// Over all bursts that still count, this one included.
    pub tries: Option<Tries>,
    /// Only of this burst.
    pub contenders: Vec<Contender>,
    /// A client that named the lock together with this token, and when: it goes by it.
    pub spoke: Option<(Token, Address, Time)>,
    /// Who was seen to hold it.
    pub held: Vec<Token>,
    pub notices: Vec<(Time, Notice)>,
}
