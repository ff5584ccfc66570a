//! What a burst knows of each lock, and which changes the server reports by events. Pure.

use crate::lock::Token;
use crate::model::Address;
use crate::sources::sampling::call::{Call, Does, Verb};

/// The kinds of changes for which the server sends events: by its configuration, or because we saw one.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    strings: bool,
    hashes: bool,
    generic: bool,
    /// The creation of keys.
    pub new: bool,
}

impl Reported {
    pub fn configured(all: bool) -> Reported {
        Reported { strings: all, hashes: all, generic: all, new: false }
    }

    /// An event shows that its kind is on.
    pub fn learn(&mut self, event: &[u8]) {
        match event {
            b"set" => self.strings = true,
            b"hset" | b"hincrby" => self.hashes = true,
            b"del" | b"expire" => self.generic = true,
            b"new" => self.new = true,
            _ => {}
        }
    }

    /// Whether an event would show that the call took effect.
    pub fn covers(&self, verb: Verb, call: &Call, command: &[u8]) -> bool {
        match call.does {
            Does::TakeIfFree if command.eq_ignore_ascii_case(b"HSETNX") => self.hashes,
            Does::TakeIfFree | Does::RenewIfEqual => self.strings,
            Does::Renew if verb == Verb::Set => self.strings,
            _ => self.generic && self.strings && self.hashes,
        }
    }
}

/// What is known of a lock since the burst began.
#[derive(Debug, Default)]
pub struct State {
    /// Who took or renewed it, and did not release it.
    pub holders: Vec<(Token, Option<Address>)>,
    /// Who lost an attempt.
    pub losers: Vec<Token>,
    /// Whether the key exists, as far as events show.
    pub there: Option<bool>,
    /// Who runs WATCH on it, to compare before it writes.
    pub watcher: Option<Address>,
}

impl State {
    const KEPT: usize = 16;

    pub fn held(&mut self, token: &Token, address: &Option<Address>) {
        self.holders.retain(|(other, _)| other != token);
        if self.holders.len() < Self::KEPT {
            self.holders.push((token.clone(), address.clone()));
        }
        self.losers.retain(|other| other != token);
    }

    pub fn lost(&mut self, token: &Token) {
        if !self.losers.contains(token) {
            if self.losers.len() == Self::KEPT {
                self.losers.remove(0);
            }
            self.losers.push(token.clone());
        }
    }
}
