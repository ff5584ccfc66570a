//! What of holders may be shown: whole tokens, shortened ones, or nothing on a private screen.

use super::App;
use crate::base::server_text::ServerText;
use crate::base::text;
use crate::model::{LockView, Notice, Presence};

/// Stands for what a private screen does not show.
pub const HIDDEN: &str = "(hidden)";

impl App {
    /// A token, hidden, whole or shortened as the display settings say.
    pub fn token(&self, token: &str) -> String {
        match (self.display.private, self.display.reveal) {
            (true, _) => HIDDEN.into(),
            (false, true) => token.to_string(),
            (false, false) => text::short_token(token),
        }
    }

    /// A text that may contain these names, as it may be shown now.
    pub fn without(&self, mut names: Vec<String>, text: String) -> String {
        if !self.display.private {
            return text;
        }
        names.retain(|name| !name.is_empty());
        // A name that is part of another would leave the rest of it to be seen.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.iter().fold(text, |text, name| text.replace(name, HIDDEN))
    }

    /// A text that may name the lock's holders, as it may be shown now.
    pub fn without_holders(&self, lock: &LockView, text: String) -> String {
        if !self.display.private {
            return text;
        }
        self.without(names(lock), text)
    }
}

/// Whatever of the lock names a client.
fn names(lock: &LockView) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for holder in &lock.holders {
        names.extend([&holder.client, &holder.host].into_iter().flatten().map(ServerText::visible));
    }
    let noticed = lock.notices.iter().map(|(_, notice)| match notice {
        Notice::Late { token, address, .. } => (Some(token), address.as_ref()),
        Notice::FreedBy { holder, address } => (holder.as_ref(), address.as_ref()),
    });
    let contenders = lock.contenders.iter().map(|contender| (contender.token.as_ref(), contender.address.as_ref()));
    let connections = lock.presence.iter().filter_map(Presence::connection).chain(&lock.connection);
    let connection = connections.map(|connection| (None, Some(&connection.address)));
    let holders = lock.holders.iter().map(|holder| (Some(&holder.token), None));
    let past = lock.past.iter().map(|hold| (hold.holder.as_ref(), None));
    for (token, address) in holders.chain(past).chain(contenders).chain(noticed).chain(connection) {
        names.extend(token.map(|token| token.to_string()));
        names.extend(token.map(|token| text::short_token(&token.to_string())));
        names.extend(address.map(|address| address.to_string()));
    }
    names
}
