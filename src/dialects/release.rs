//! The vocabulary in which a dialect says how its locks are renewed, waited for and freed.

use std::time::Duration;

/// What keeps a lock of a dialect alive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Renewal {
    /// Nothing: the lease runs out unless the application extends it by hand.
    Manual,
    /// A watchdog renews it each time this share of the lease has passed.
    Watchdog { share: f32 },
    /// A watchdog, but only where the application asked for one.
    Optional { share: f32 },
    /// The library's locks have no lease to renew.
    NoLease,
}

/// Who waits for a lock, and where that can be seen on the server.
#[derive(Clone, PartialEq, Debug)]
pub enum Waiting {
    /// Waiters try again and again; nothing on the server shows them.
    Polls { every: Option<Duration> },
    /// Waiters are subscribed to this channel.
    Channel(Vec<u8>),
    /// Waiters are subscribed to a pattern that covers this channel.
    ChannelPattern(Vec<u8>),
    /// An ordered queue: a list of waiter ids, a sorted set of their deadlines, and the prefix of each waiter's channel.
    Queue { list: Vec<u8>, deadlines: Vec<u8>, channel_prefix: Vec<u8> },
    /// Waiters are blocked in a list pop on this key.
    BlockedOn(Vec<u8>),
    /// Nobody waits: a refused attempt gives up.
    Nobody,
}

impl Waiting {
    /// Waiters try again about this often.
    pub fn polls_each(millis: u64) -> Waiting {
        Waiting::Polls { every: Some(Duration::from_millis(millis)) }
    }
}

/// One step of freeing a lock. All steps run in one script, after the holder was compared.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Delete(Vec<u8>),
    /// Take one field out of a hash that holds other things too.
    DeleteField {
        key: Vec<u8>,
        field: Vec<u8>,
    },
    /// Take one member out of a sorted set.
    RemoveScored {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    /// Take one member out of a set.
    RemoveMember {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    /// Wake subscribers, by PUBLISH or SPUBLISH, wherever they are.
    Publish {
        channel: Vec<u8>,
        message: Vec<u8>,
    },
    /// Wake the one waiter at the head of a fair queue, after dropping dead heads.
    PublishToHead {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel_prefix: Vec<u8>,
    },
    /// Wake one client blocked on a list: leave one item there for a while.
    Signal {
        list: Vec<u8>,
        expires: Duration,
    },
    /// Give a token back to a pool.
    PushBack {
        list: Vec<u8>,
        token: Vec<u8>,
    },
    /// Give a permit back to a counter, and tell the waiters its new value.
    ReturnPermit {
        counter: Vec<u8>,
        channel: Vec<u8>,
    },
    /// Delete every key that matches.
    DeleteMatching(Vec<u8>),
}

/// What freeing a lock takes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Release {
    pub steps: Vec<Step>,
    /// Sentences an operator must read first.
    pub hazards: Vec<&'static str>,
}

impl Release {
    /// Compare the holder, delete the key: all that most libraries need.
    pub fn delete(key: &[u8]) -> Release {
        Release { steps: vec![Step::Delete(key.to_vec())], hazards: Vec::new() }
    }

    /// For the libraries that lock by majority: nothing on one server tells whether there are others.
    pub fn warn_of_copies(self) -> Release {
        self.warn("If the application locks on several independent servers, free the lock on each of them.")
    }

    pub fn and(mut self, step: Step) -> Release {
        self.steps.push(step);
        self
    }

    pub fn warn(mut self, hazard: &'static str) -> Release {
        self.hazards.push(hazard);
        self
    }
}
