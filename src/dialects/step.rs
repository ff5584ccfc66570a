//! One step of freeing a lock, and the statements that it stands for.
//!
//! The script, the preview, the rights it needs and the page on libraries are all made from those statements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::statement::{self, Command, Statement};
use crate::base::text;

/// One step of freeing a lock. All steps run in one script, after the holder was compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
    /// Wake subscribers, by PUBLISH or SPUBLISH.
    Publish {
        channel: Vec<u8>,
        message: Vec<u8>,
    },
    /// Wake the one waiter at the head of a fair queue, after dropping dead heads: those whose deadline has passed. Does
    /// nothing where there is no queue.
    PublishToHead {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel_prefix: Vec<u8>,
    },
    /// Take one waiter out of a fair queue, unless somebody listens on its channel when this runs.
    DropWaiter {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel: Vec<u8>,
        waiter: Vec<u8>,
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
    /// Give permits back to a counter, and send the waiters its new value. Must be refused if there is no counter.
    ReturnPermits {
        counter: Vec<u8>,
        channel: Vec<u8>,
        permits: u64,
    },
    /// Let a hash of readers last no longer than those that stay. Their leases are in keys that begin with this prefix.
    LastAsReaders {
        key: Vec<u8>,
        prefix: Vec<u8>,
    },
    /// Steps for the case that the last holder was just removed: the hash is gone, or only the field `besides` is left.
    WhenEmptied {
        key: Vec<u8>,
        besides: Option<Vec<u8>>,
        then: Vec<Step>,
    },
}

impl Step {
    /// Its statements.
    pub fn statements(&self) -> Vec<Statement> {
        let run = Statement::run;
        match self {
            Step::Delete(key) => vec![run("DEL", key, &[])],
            Step::DeleteField { key, field } => vec![run("HDEL", key, &[field])],
            Step::RemoveScored { key, member } => vec![run("ZREM", key, &[member])],
            Step::RemoveMember { key, member } => vec![run("SREM", key, &[member])],
            Step::Publish { channel, message } => {
                vec![Statement::Tell { channel: channel.clone(), message: message.clone(), must: true }]
            }
            Step::PublishToHead { queue, deadlines, channel_prefix } => vec![Statement::TellHead {
                queue: queue.clone(),
                deadlines: deadlines.clone(),
                channel_prefix: channel_prefix.clone(),
            }],
            Step::DropWaiter { queue, deadlines, channel, waiter } => vec![Statement::DropWaiter {
                queue: queue.clone(),
                deadlines: deadlines.clone(),
                channel: channel.clone(),
                waiter: waiter.clone(),
            }],
            Step::Signal { list, expires } => vec![
                run("DEL", list, &[]),
                Statement::Run(Command::on("LPUSH", list, &[]).word("1")),
                run("PEXPIRE", list, &[expires.as_millis().to_string().as_bytes()]),
            ],
            Step::PushBack { list, token } => vec![run("LPUSH", list, &[token])],
            Step::ReturnPermits { counter, channel, permits } => vec![Statement::TellAnswer {
                command: Command::on("INCRBY", counter, &[permits.to_string().as_bytes()]),
                channel: channel.clone(),
            }],
            Step::LastAsReaders { key, prefix } => {
                vec![Statement::LastAsReaders { key: key.clone(), prefix: prefix.clone() }]
            }
            Step::WhenEmptied { key, besides, then } => vec![Statement::WhenEmptied {
                key: key.clone(),
                besides: besides.clone(),
                then: then.iter().flat_map(Step::statements).collect(),
            }],
        }
    }

    /// The commands that an operator would have to type, as they are shown before a release.
    pub fn describe(&self) -> String {
        statement::describe(&self.statements())
    }
}

/// Bytes as one word of a command line, quoted if necessary.
pub fn word(bytes: &[u8]) -> String {
    let visible = text::visible(bytes);
    if !visible.is_empty() && !visible.contains([' ', '"', '\'', '\\']) {
        return visible;
    }
    format!("\"{}\"", visible.replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_space_or_raw_bytes_stays_one_word() {
        assert_eq!(Step::Delete(b"my lock".to_vec()).describe(), "DEL \"my lock\"");
        assert_eq!(Step::Delete(b"a\xff\x1b".to_vec()).describe(), "DEL \"a\\xff\\u{1b}\"");
        assert_eq!(Step::Delete(b"say \"hi\"".to_vec()).describe(), "DEL \"say \\\"hi\\\"\"");
        assert_eq!(Step::Delete(Vec::new()).describe(), "DEL \"\"");
    }
}
