//! The queue of a fair lock: a list of waiters in order, a sorted set of their deadlines, a channel for each of them.
//!
//! Neither list nor set has a TTL, and only the head may take the lock: a waiter that died there holds up the rest.

use super::names;
use crate::dialects::{Step, Waiting};

/// Waiters of a lock that may be fair or not.
pub fn waiting(name: &[u8]) -> Waiting {
    Waiting::Queue {
        channel: names::channel(name),
        list: queue(name),
        deadlines: deadlines(name),
        channel_prefix: channel_prefix(name),
    }
}

/// The queue and the deadlines, which only a fair lock has.
pub fn companions(name: &[u8]) -> [Vec<u8>; 2] {
    [queue(name), deadlines(name)]
}

pub fn wake_head(name: &[u8]) -> Step {
    Step::PublishToHead { queue: queue(name), deadlines: deadlines(name), channel_prefix: channel_prefix(name) }
}

fn queue(name: &[u8]) -> Vec<u8> {
    names::prefixed("redisson_lock_queue", name)
}

fn deadlines(name: &[u8]) -> Vec<u8> {
    names::prefixed("redisson_lock_timeout", name)
}

fn channel_prefix(name: &[u8]) -> Vec<u8> {
    [&names::channel(name), b":".as_slice()].concat()
}
