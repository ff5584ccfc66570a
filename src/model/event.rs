//! What a keyspace notification said, packed so that a flood of them costs no allocation each.

use serde::{Deserialize, Serialize};

use crate::base::time::Time;
use crate::lock::Key;

/// The name of a keyspace event, reduced to what a lock can tell from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum KeyEvent {
    /// The key did not exist before (`new`, with the `n` class from Redis 7.0 on).
    New,
    /// A string, or a member with its deadline, was written (`set`, `zadd`): an acquire, or a renewal of a library that
    /// sets again.
    Set,
    /// A key was written from a dump, with its TTL (`restore`): an undo, or a copy. No library takes a lock so.
    Restored,
    /// A TTL was given (`expire`): part of an acquire, or a renewal.
    Expire,
    /// The TTL was taken away.
    Persist,
    /// A field, member or count was written (`hincrby`): an acquire, one more entry, or one more reader.
    Written,
    /// A field or member was taken out.
    Removed,
    Del,
    Expired,
    Evicted,
    RenamedFrom,
    RenamedTo,
    /// A deletion that was our own write.
    Forced,
    /// An undo of ours that put a lock back.
    PutBack,
    /// A member came into a set, or left one; few locks are sets.
    Joined,
    Left,
    /// A list or a stream was changed: no lock is one.
    Foreign,
    /// Something we have no rule for, or that our own write explains: read the key again.
    Other,
}

impl KeyEvent {
    pub fn from_name(name: &[u8]) -> KeyEvent {
        match name {
            b"new" => KeyEvent::New,
            b"set" | b"copy_to" | b"zadd" => KeyEvent::Set,
            b"restore" => KeyEvent::Restored,
            b"expire" => KeyEvent::Expire,
            b"persist" => KeyEvent::Persist,
            b"hset" | b"hincrby" | b"zincr" | b"incrby" | b"setrange" | b"append" => KeyEvent::Written,
            b"hdel" | b"zrem" | b"zremrangebyscore" | b"zremrangebyrank" => KeyEvent::Removed,
            b"sadd" => KeyEvent::Joined,
            b"srem" | b"spop" => KeyEvent::Left,
            b"lpush" | b"rpush" | b"lpop" | b"rpop" | b"lrem" | b"ltrim" | b"linsert" | b"lset" => KeyEvent::Foreign,
            name if name.starts_with(b"x") => KeyEvent::Foreign,
            b"del" => KeyEvent::Del,
            b"expired" => KeyEvent::Expired,
            b"evicted" => KeyEvent::Evicted,
            b"rename_from" => KeyEvent::RenamedFrom,
            b"rename_to" => KeyEvent::RenamedTo,
            _ => KeyEvent::Other,
        }
    }

    /// Something was written that a lock can be made of.
    pub fn writes(self) -> bool {
        use KeyEvent::*;
        matches!(self, Set | Restored | Expire | Written | Joined | RenamedTo | PutBack | Forced | Other)
    }

    /// The key is gone once this event has fired.
    pub fn ends(self) -> bool {
        matches!(self, KeyEvent::Del | KeyEvent::Expired | KeyEvent::Evicted | KeyEvent::RenamedFrom)
    }
}

/// Events in the order they arrived, their keys in one buffer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Listed", from = "Listed")]
pub struct EventBatch {
    pub at: Time,
    bytes: Vec<u8>,
    events: Vec<(u32, KeyEvent)>,
}

impl EventBatch {
    pub fn new(at: Time) -> EventBatch {
        EventBatch { at, ..EventBatch::default() }
    }

    pub fn push(&mut self, key: &[u8], event: KeyEvent) {
        self.bytes.extend_from_slice(key);
        self.events.push((self.bytes.len() as u32, event));
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], KeyEvent)> {
        let mut start = 0usize;
        self.events.iter().map(move |&(end, event)| {
            let key = &self.bytes[start..end as usize];
            start = end as usize;
            (key, event)
        })
    }
}

/// A batch in its serialisable form: no offsets that could point beyond the keys.
#[derive(Serialize, Deserialize)]
struct Listed {
    at: Time,
    events: Vec<(Key, KeyEvent)>,
}

impl From<EventBatch> for Listed {
    fn from(batch: EventBatch) -> Listed {
        Listed { at: batch.at, events: batch.iter().map(|(key, event)| (Key::from(key), event)).collect() }
    }
}

impl From<Listed> for EventBatch {
    fn from(listed: Listed) -> EventBatch {
        let mut batch = EventBatch::new(listed.at);
        listed.events.iter().for_each(|(key, event)| batch.push(key.as_bytes(), *event));
        batch
    }
}
