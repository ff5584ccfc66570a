//! The subscribers of channels, plain and sharded, as PUBSUB NUMSUB and SHARDNUMSUB count them.
//!
//! Everybody who counts subscribers asks here. A count that this user may not ask for is unknown, never zero.

use redis::{Pipeline, RedisResult, Value};

use super::Count;
use crate::server::Fact;
use crate::sources::replies::Replies;

/// Subscribers of some channels, plain and sharded, in the order the channels were asked for.
pub struct Listeners {
    plain: Fact<Vec<u64>>,
    sharded: Fact<Vec<u64>>,
    /// Other nodes may have more.
    scattered: bool,
}

impl Listeners {
    /// Asks for the subscribers of all these channels; [`Listeners::take`] reads the replies.
    pub fn ask<'a>(pipe: &mut Pipeline, channels: impl Iterator<Item = &'a [u8]> + Clone) {
        for command in ["NUMSUB", "SHARDNUMSUB"] {
            pipe.cmd("PUBSUB").arg(command);
            for channel in channels.clone() {
                pipe.arg(channel);
            }
        }
    }

    /// The next two replies. `scattered`: other nodes may have subscribers of their own.
    pub fn take(replies: &mut Replies, scattered: bool) -> Listeners {
        let (plain, sharded) = (replies.value(), replies.value());
        Listeners::read(plain, sharded, scattered)
    }

    pub fn read(plain: RedisResult<Value>, sharded: RedisResult<Value>, scattered: bool) -> Listeners {
        let sharded = match &sharded {
            // A server without sharded channels has no subscribers on them.
            Err(error) if error.detail().unwrap_or_default().to_ascii_lowercase().contains("subcommand") => {
                Fact::Known(Vec::new())
            }
            _ => Fact::answered(sharded, "PUBSUB SHARDNUMSUB").and_then(|answer| numbers(&answer)),
        };
        let plain = Fact::answered(plain, "PUBSUB NUMSUB").and_then(|answer| numbers(&answer));
        Listeners { plain, sharded, scattered }
    }

    /// How many listen on the channel at this index, and a restriction of the number, as a clause.
    pub fn on(&self, index: usize) -> (Count, Option<String>) {
        let at = |numbers: &Vec<u64>| numbers.get(index).copied().unwrap_or(0);
        let (count, why) = match (self.plain.as_ref().map(at), self.sharded.as_ref().map(at)) {
            (Fact::Known(plain), Fact::Known(sharded)) => (plain + sharded, None),
            (Fact::Known(some), Fact::Unknown(why)) | (Fact::Unknown(why), Fact::Known(some)) => (some, Some(why)),
            (Fact::Unknown(why), Fact::Unknown(_)) => (0, Some(why)),
        };
        let why = why.or_else(|| self.scattered.then(|| "other nodes may have subscribers of their own".into()));
        match (count, why) {
            (count, None) => (Count::Exactly(count), None),
            (0, Some(why)) => (Count::Unknown(why), None),
            (count, Some(why)) => (Count::AtLeast(count), Some(why)),
        }
    }

    /// The subscribers seen on that channel, and whether there may be more. `None` where plain ones may not be counted.
    pub fn seen_on(&self, index: usize) -> Option<(u64, bool)> {
        let at = |numbers: &Vec<u64>| numbers.get(index).copied().unwrap_or(0);
        let sharded = self.sharded.known();
        Some((at(self.plain.known()?) + sharded.map_or(0, at), self.scattered || sharded.is_none()))
    }

    pub fn anybody_on(&self, index: usize) -> Fact<bool> {
        match self.on(index).0 {
            Count::Exactly(count) | Count::AtLeast(count) | Count::AtMost(count) => Fact::Known(count > 0),
            Count::Unknown(why) => Fact::Unknown(why),
        }
    }
}

/// The numbers of an answer that alternates channels and numbers.
fn numbers(answer: &Value) -> Fact<Vec<u64>> {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as u64),
        _ => None,
    };
    let numbers: Option<Vec<u64>> = match answer {
        Value::Array(items) => items.iter().skip(1).step_by(2).map(number).collect(),
        Value::Map(pairs) => pairs.iter().map(|(_, value)| number(value)).collect(),
        _ => None,
    };
    numbers.map_or_else(|| Fact::Unknown("the count of subscribers was not understood".into()), Fact::Known)
}
