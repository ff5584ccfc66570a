//! Redisson (Java).
//!
//! All its locks are hashes under the name the application chose; which kind it is shows in the fields: a lock
//! (`lock.rs`, with the queue of fair ones in `fair.rs`), a read-write lock (`read_write.rs`), or a group of items
//! (`multi.rs`). Semaphores are dialects of their own (`permits.rs`, `semaphore.rs`).

mod fair;
mod lock;
mod multi;
mod names;
mod permits;
mod read_write;
mod semaphore;

pub use permits::{Permits, channel as permits_channel};
pub use semaphore::Semaphore;

use std::time::Duration;

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Waiting};
use crate::lock::{Mode, RawValue, Token};

type Fields<'a> = &'a [(Box<[u8]>, Box<[u8]>)];

pub struct Redisson;

/// What a hash of Redisson can be.
enum Form<'a> {
    Lock(Fields<'a>),
    ReadWrite(Mode, Fields<'a>),
    Multi(Fields<'a>),
}

impl<'a> Form<'a> {
    fn of(value: &'a RawValue) -> Option<Form<'a>> {
        let RawValue::Hash { fields, .. } = value else { return None };
        match read_write::mode(fields) {
            Some(mode) => Some(Form::ReadWrite(mode, fields)),
            None if multi::is_one(fields) => Some(Form::Multi(fields)),
            // A lock has one holder, so a hash too large to be read whole is not a lock.
            None => (!fields.is_empty() && value.is_whole()).then_some(Form::Lock(fields)),
        }
    }
}

impl Dialect for Redisson {
    fn name(&self) -> &'static str {
        "redisson"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "`lock()` takes 30s (`lockWatchdogTimeout`) and is renewed every third of that; `lock(leaseTime)` is never renewed. Nothing on the server tells them apart but the length of the lease.",
            "One script renews up to 100 locks of an instance at once (`lockWatchdogBatchSize`, since 3.44); scripts are cached by default since 3.46.",
            "Since 3.52 its pool prefers connections that were used recently; before, it used them in turn. Idle ones close after 10s, so a closed connection says little about its holder.",
            "Locks that are not reentrant (4.x), fair ones among them, are stored alike, with a count of 1.",
            "The last reader that leaves publishes `0`, a writer `1`.",
            "A group lock is renewed by HSET of the end of its items and PEXPIRE of the hash. It can lack its TTL where PTTL was 0, and two waiters can both get one item: that is shown as SPLIT.",
        ]
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        names::is_helper(key)
    }

    fn lease_of(&self, key: &[u8]) -> Option<(Vec<u8>, Token)> {
        read_write::lease_of(key)
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        match Form::of(sight.value)? {
            Form::Lock(fields) => lock::read(fields, sight.dialect_given),
            Form::ReadWrite(mode, fields) => read_write::read(fields, mode, sight.dialect_given),
            Form::Multi(fields) => multi::read(fields, sight.now),
        }
    }

    /// The watchdog runs unless the application gave its own lease, which nothing on the server shows.
    fn tokens_come_again(&self) -> bool {
        true
    }

    fn holder_of<'a>(&self, token: &'a [u8]) -> &'a [u8] {
        read_write::thread_of(token)
    }

    fn item_of<'a>(&self, token: &'a [u8]) -> Option<&'a [u8]> {
        multi::item_of(token)
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    /// `lockWatchdogTimeout`.
    fn usual_lease(&self) -> Option<Duration> {
        Some(Duration::from_secs(30))
    }

    fn shows_waiters(&self) -> bool {
        true
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its watchdog stops, and its unlock() throws IllegalMonitorStateException")
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        match Form::of(sight.value) {
            Some(Form::ReadWrite(..)) => Waiting::Channel(read_write::channel(sight.key)),
            Some(Form::Multi(_)) => Waiting::Channel(names::channel(sight.key)),
            Some(Form::Lock(_)) | None => fair::waiting(sight.key),
        }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        match Form::of(sight.value) {
            Some(Form::ReadWrite(_, fields)) => read_write::release(sight.key, fields).warn_of_unread(sight.value),
            Some(Form::Multi(_)) => {
                let holders = self.read(sight).map(|claim| claim.holders).unwrap_or_default();
                multi::release(sight.key, holders.into_iter().map(|holder| holder.token))
            }
            Some(Form::Lock(_)) | None => lock::release(sight.key),
        }
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        match Form::of(sight.value) {
            // Even for a single reader: another may have come since.
            Some(Form::ReadWrite(Mode::Read, fields)) => read_write::release_reader(sight.key, fields, token),
            Some(Form::Multi(_)) => multi::release(sight.key, [Token::from(token)]),
            _ => self.release(sight),
        }
    }

    fn leases(&self, sight: &Sight<'_>, token: &[u8]) -> Vec<Vec<u8>> {
        match Form::of(sight.value) {
            Some(Form::ReadWrite(_, fields)) => read_write::leases_of(sight.key, fields, token),
            _ => Vec::new(),
        }
    }

    fn companions(&self, sight: &Sight<'_>) -> Vec<Vec<u8>> {
        match Form::of(sight.value) {
            Some(Form::ReadWrite(_, fields)) => read_write::all_leases(sight.key, fields).collect(),
            Some(Form::Multi(_)) => Vec::new(),
            Some(Form::Lock(_)) | None => {
                fair::companions(sight.key).into_iter().chain(self.fencing_key(sight.key)).collect()
            }
        }
    }

    fn fencing_key(&self, key: &[u8]) -> Option<Vec<u8>> {
        Some(names::prefixed("redisson_lock_token", key))
    }
}

#[cfg(test)]
mod tests {
    /// An instance, a thread of it, and one of another instance.
    pub const A: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e";
    pub const A57: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
    pub const B9: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
}
