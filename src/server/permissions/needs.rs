//! The commands lockscope sends, as data: what each is for, since when it exists, and a harmless example of it.
//!
//! The ACL lines and the DRYRUN questions are both made from this table, so we check exactly what we advise. A source
//! or action that sends a new command adds it here; `tests/least.rs` compares the table with what is sent.

use crate::server::Version;

/// Who sends a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// Reads locks; changes nothing.
    Observer,
    /// Frees, extends and takes locks too.
    Operator,
}

/// One command.
#[derive(PartialEq, Eq, Debug)]
pub struct Need {
    /// As ACL rules name it: `get`, `config|get`.
    pub command: &'static str,
    pub example: &'static [Arg],
    /// What can't be done without it, as a clause.
    pub purpose: &'static str,
    /// Without it the party can't do its work at all; the others cost a feature.
    pub essential: bool,
    since: Version,
}

/// An argument of an example.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    Word(&'static str),
    /// The number of the database.
    Db,
    /// A key under the patterns.
    Key,
    /// What every key under the pattern starts with.
    Prefix,
    /// The patterns that keyspace events are subscribed with.
    Events,
    /// A channel on which a library wakes its waiters.
    Wake,
}

impl Need {
    /// Whether a server compatible with this Redis version has the command.
    pub fn exists_in(&self, compatible: Version) -> bool {
        compatible >= self.since
    }

    const fn since(mut self, major: u32, minor: u32) -> Need {
        self.since = Version(major, minor, 0);
        self
    }
}

const fn must(command: &'static str, example: &'static [Arg], purpose: &'static str) -> Need {
    Need { command, example, purpose, essential: true, since: Version(0, 0, 0) }
}

const fn may(command: &'static str, example: &'static [Arg], purpose: &'static str) -> Need {
    Need { command, example, purpose, essential: false, since: Version(0, 0, 0) }
}

use Arg::{Db, Events, Key, Prefix, Wake, Word};

const HASHES: &str = "reading locks kept in hashes";
const ZSETS: &str = "reading locks kept in sorted sets";
const SETS: &str = "reading locks kept in sets";
const LISTS: &str = "reading queues of waiters";
const LIVE: &str = "following changes live";
const WAITERS: &str = "counting waiters";
const SELF: &str = "saying who we are in CLIENT LIST";

/// What reading locks needs.
pub static OBSERVER: &[Need] = &[
    must("select", &[Db], "choosing the database"),
    must("scan", &[Word("0")], "finding locks"),
    must("type", &[Key], "telling locks from other keys"),
    must("pttl", &[Key], "reading TTLs"),
    must("strlen", &[Key], "leaving large values where they are"),
    must("getrange", &[Key, Word("0"), Word("9")], "reading the head of large values"),
    must("hlen", &[Key], HASHES),
    must("hgetall", &[Key], HASHES),
    may("hscan", &[Key, Word("0")], HASHES),
    may("hmget", &[Key, Word("f")], "attempts that our scripts count"),
    may("zcard", &[Key], ZSETS),
    may("zrange", &[Key, Word("0"), Word("9")], ZSETS),
    may("zrangebyscore", &[Key, Word("0"), Word("9")], "attempts that sidekiq-unique-jobs publishes"),
    may("zscore", &[Key, Word("m")], ZSETS),
    may("scard", &[Key], SETS),
    may("smembers", &[Key], SETS),
    may("sscan", &[Key, Word("0")], SETS),
    may("llen", &[Key], LISTS),
    may("lrange", &[Key, Word("0"), Word("9")], LISTS),
    may("exists", &[Key], "finding out which locks have counted attempts"),
    may("memory|usage", &[Key], "the size of a lock"),
    may("object|idletime", &[Key], "seeing that somebody polls for a lock"),
    may("dbsize", &[], "the progress of a scan"),
    may("info", &[], "knowing the server's version, memory and replicas"),
    may("time", &[], "comparing clocks"),
    may("config|get", &[Word("notify-keyspace-events")], "knowing which events the server sends"),
    may("psubscribe", &[Events], LIVE),
    may(
        "client|tracking",
        &[Word("on"), Word("bcast"), Word("prefix"), Prefix],
        "following changes without notifications",
    ),
    may("client|no-touch", &[Word("on")], "leaving the idle time of locks alone").since(7, 2),
    may("client|setname", &[Word("lockscope")], SELF),
    may("client|setinfo", &[Word("lib-name"), Word("lockscope")], SELF).since(7, 2),
    may("client|list", &[], "telling whether a holder is still connected"),
    may("pubsub|numsub", &[], WAITERS),
    may("pubsub|shardnumsub", &[], WAITERS).since(7, 0),
    may("acl|whoami", &[], "knowing which user we are"),
    may("acl|dryrun", &[Word("default"), Word("ping")], "knowing what this user may do").since(7, 0),
];

/// What sampling needs in addition. It is not part of the lines above: it shows more than locks, so it takes consent.
pub static SAMPLING: Need = may("monitor", &[], "sampling attempts to take locks");

/// A burst ends with this command: its reply comes after every line of the burst.
pub const SAMPLING_ENDS_WITH: &str = "ping";

const WAKE: &str = "waking waiters after a release";
const PARTS: &str = "freeing one holder of several";

/// What freeing, extending and taking locks needs in addition.
pub static OPERATOR: &[Need] = &[
    must("eval", &[Word("return 1"), Word("1"), Key], "comparing the holder and writing in one step"),
    must(
        "evalsha",
        &[Word("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"), Word("1"), Key],
        "the same, by the script's hash",
    ),
    may("get", &[Key], "comparing the holder"),
    may("hget", &[Key, Word("f")], "comparing the holder"),
    may("hexists", &[Key, Word("f")], "comparing the holder"),
    may("lindex", &[Key, Word("0")], WAKE),
    may("ping", &[], "keeping what is freed, so that it can be put back"),
    must("set", &[Key, Word("v")], "taking a lock, and undoing a release"),
    must("del", &[Key], "freeing a lock"),
    must("pexpire", &[Key, Word("1")], "extending a lock"),
    may("hset", &[Key, Word("f"), Word("v")], "taking reentrant locks"),
    may("hincrby", &[Key, Word("f"), Word("1")], "taking reentrant locks"),
    may("hdel", &[Key, Word("f")], PARTS),
    may("zadd", &[Key, Word("1"), Word("m")], "undoing a release in a sorted set"),
    may("zrem", &[Key, Word("m")], PARTS),
    may("sadd", &[Key, Word("m")], "undoing a release in a set"),
    may("srem", &[Key, Word("m")], PARTS),
    may("lpush", &[Key, Word("v")], WAKE),
    may("lpop", &[Key], "dropping dead waiters from a queue"),
    may("lrem", &[Key, Word("0"), Word("v")], "dropping dead waiters from a queue"),
    may("incrby", &[Key, Word("1")], "giving a permit back"),
    may("decrby", &[Key, Word("1")], "undoing that"),
    may("dump", &[Key], "keeping what is freed, so that it can be put back"),
    may("restore", &[Key, Word("0"), Word("x")], "putting back what was freed"),
    may("pexpireat", &[Key, Word("1")], "putting back what was freed"),
    may("hstrlen", &[Key, Word("f")], "keeping what is freed, so that it can be put back"),
    may("lpos", &[Key, Word("v")], "undoing the return of a token"),
    may("sismember", &[Key, Word("m")], PARTS),
    may("publish", &[Wake, Word("0")], WAKE),
    may("spublish", &[Wake, Word("0")], WAKE).since(7, 0),
];

/// Channels on which lock libraries wake their waiters.
pub const WAKE_CHANNELS: [&str; 4] = ["redisson_lock__channel:*", "redisson_rwlock:*", "redisson_sc:*", "*-channel:*"];

impl Party {
    /// What this party adds to the one below it.
    pub fn own_needs(self) -> &'static [Need] {
        match self {
            Party::Observer => OBSERVER,
            Party::Operator => OPERATOR,
        }
    }
}
