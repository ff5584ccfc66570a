//! Adds up what a burst saw for each lock. Pure and bounded.

use std::collections::HashMap;

use super::act::{Act, Outcome, What};
use crate::base::time::Time;
use crate::lock::{Key, Token};
use crate::model::{Address, Contender, Notice, Spoke, Tokens};

/// Locks of one burst.
const LOCKS: usize = 10_000;
/// Of one lock.
const CONTENDERS: usize = 16;
const NOTICES: usize = 8;
const HELD: usize = 16;
const SPOKE: usize = 16;

/// What was seen of one lock.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Gathered {
    pub attempts: u64,
    pub failures: u64,
    /// Attempts whose outcome is not known.
    pub unjudged: u64,
    /// Runs of scripts that name it and that may or may not be attempts.
    pub unclear: u64,
    pub contenders: Vec<Contender>,
    pub spoke: Vec<Spoke>,
    /// Who was seen to hold it, the last few.
    pub held: Vec<Token>,
    pub notices: Vec<(Time, Notice)>,
}

#[derive(Debug, Default)]
pub struct Gather {
    pub locks: HashMap<Key, Gathered>,
    /// Acts on locks beyond those that are kept.
    pub left_out: u64,
}

impl Gather {
    pub fn take(&mut self, act: Act) {
        if self.locks.len() >= LOCKS && !self.locks.contains_key(&act.key) {
            self.left_out += 1;
            return;
        }
        // Clone the key only for a new lock; most acts are on known ones.
        match self.locks.get_mut(&act.key) {
            Some(lock) => lock.take(act),
            None => self.locks.entry(act.key.clone()).or_default().take(act),
        }
    }
}

impl Gathered {
    fn take(&mut self, act: Act) {
        let Act { key: _, at, token, address, what } = act;
        match what {
            What::Tried(outcome) => {
                self.tried(&token, &address, outcome, at);
                if outcome == Outcome::Won {
                    self.hold(&token);
                    self.speak(token, address, at);
                }
            }
            What::Renewed | What::Released => {
                self.hold(&token);
                self.speak(token, address, at);
            }
            What::Late { renewal } => {
                if let Some(token) = token {
                    self.notice(at, Notice::Late { token, address, renewal });
                }
            }
            What::Unclear => self.unclear += 1,
            What::FreedBy { holder } => self.notice(at, Notice::FreedBy { holder, address }),
        }
    }

    fn tried(&mut self, token: &Option<Token>, address: &Option<Address>, outcome: Outcome, at: Time) {
        self.attempts += 1;
        self.failures += u64::from(outcome == Outcome::Lost);
        self.unjudged += u64::from(outcome == Outcome::Unknown);
        let place = self.place_of(token, address, at);
        for (index, other) in self.contenders.iter_mut().enumerate() {
            if Some(index) != place
                && outcome == Outcome::Won
                && other.failures > 0
                && other.won.is_none_or(|won| won < other.last)
            {
                other.passed_over = other.passed_over.saturating_add(1);
            }
        }
        let Some(contender) = place.map(|index| &mut self.contenders[index]) else { return };
        if contender.attempts > 0 {
            contender.use_token(token, at);
        }
        if contender.begins_again(token, at) {
            (contender.first, contender.passed_over) = (at, 0);
        }
        contender.attempts += 1;
        contender.last = at;
        match outcome {
            Outcome::Won => (contender.won, contender.passed_over) = (Some(at), 0),
            Outcome::Lost => contender.failures += 1,
            Outcome::Unknown => {}
        }
        if token.is_some() {
            contender.token.clone_from(token);
        }
        if address.is_some() {
            contender.address.clone_from(address);
        }
    }

    /// The contender's index; `None` for one that has neither token nor address.
    fn place_of(&mut self, token: &Option<Token>, address: &Option<Address>, at: Time) -> Option<usize> {
        let known = Contender::position(&self.contenders, token, address);
        if known.is_some() || (token.is_none() && address.is_none()) {
            return known;
        }
        let new = Contender {
            token: token.clone(),
            address: address.clone(),
            first: at,
            last: at,
            attempts: 0,
            failures: 0,
            won: None,
            passed_over: 0,
            tokens: Tokens::default(),
        };
        if self.contenders.len() < CONTENDERS {
            self.contenders.push(new);
            return Some(self.contenders.len() - 1);
        }
        let oldest = (0..CONTENDERS).min_by_key(|index| self.contenders[*index].last)?;
        self.contenders[oldest] = new;
        Some(oldest)
    }

    fn speak(&mut self, token: Option<Token>, address: Option<Address>, at: Time) {
        let (Some(token), Some(address)) = (token, address) else { return };
        let same = |known: &&mut Spoke| known.token == token && known.address == address;
        if let Some(known) = self.spoke.iter_mut().find(same) {
            known.at = known.at.max(at);
            return;
        }
        if self.spoke.len() == SPOKE
            && let Some(oldest) = (0..SPOKE).min_by_key(|index| self.spoke[*index].at)
        {
            self.spoke.remove(oldest);
        }
        self.spoke.push(Spoke { token, address, at });
    }

    fn hold(&mut self, token: &Option<Token>) {
        let Some(token) = token.as_ref().filter(|token| self.held.last() != Some(token)) else { return };
        self.held.retain(|other| other != token);
        if self.held.len() == HELD {
            self.held.remove(0);
        }
        self.held.push(token.clone());
    }

    fn notice(&mut self, at: Time, notice: Notice) {
        if self.notices.len() < NOTICES {
            self.notices.push((at, notice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(port: u16, outcome: Outcome, at: i64) -> Act {
        let address = Address::parse(&format!("10.0.0.1:{port}"));
        let token = Some(Token::from(format!("token-{port}").as_bytes()));
        Act { key: Key::from("lock:a"), at: Time(at), token, address, what: What::Tried(outcome) }
    }

    #[test]
    fn who_is_passed_over_is_counted_until_it_wins() {
        let mut gather = Gather::default();
        for act in [
            tried(1, Outcome::Won, 1),
            tried(2, Outcome::Lost, 2),
            tried(3, Outcome::Won, 3),
            tried(2, Outcome::Lost, 4),
            tried(1, Outcome::Won, 5),
        ] {
            gather.take(act);
        }
        let lock = &gather.locks[&Key::from("lock:a")];
        assert_eq!((lock.attempts, lock.failures, lock.unjudged), (5, 2, 0));
        let of = |port: &str| lock.contenders.iter().find(|one| one.address.as_ref().unwrap().as_str().ends_with(port));
        assert_eq!((of(":2").unwrap().passed_over, of(":2").unwrap().failures), (2, 2));
        assert_eq!((of(":1").unwrap().passed_over, of(":1").unwrap().won), (0, Some(Time(5))));
        gather.take(tried(2, Outcome::Won, 6));
        let lock = &gather.locks[&Key::from("lock:a")];
        assert!(lock.contenders.iter().all(|one| one.passed_over == 0));
        assert_eq!(lock.spoke.last().unwrap().address.as_str(), "10.0.0.1:2");
    }

    #[test]
    fn it_stays_bounded() {
        let mut gather = Gather::default();
        for port in 1..2000 {
            gather.take(tried(port, Outcome::Lost, i64::from(port)));
            gather.take(Act { what: What::FreedBy { holder: None }, ..tried(port, Outcome::Lost, i64::from(port)) });
        }
        let lock = &gather.locks[&Key::from("lock:a")];
        assert_eq!((lock.attempts, lock.contenders.len(), lock.notices.len()), (1999, CONTENDERS, NOTICES));
        assert!(lock.contenders.iter().any(|one| one.last == Time(1999)), "the newest is there");
        for number in 0..2 * LOCKS {
            gather.take(Act { key: Key::from(format!("lock:{number}").as_str()), ..tried(1, Outcome::Lost, 1) });
        }
        assert_eq!((gather.locks.len(), gather.left_out), (LOCKS, LOCKS as u64 + 1));
    }
}
