//! From a plan to the operands of the script: which keys, which instructions, and which commands they come down to.

use serde::{Deserialize, Serialize};

use crate::dialects::{Step, word};

use super::check::Check;
use super::comparisons;
use super::gate::{Admission, Refusal};

/// One write.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Write {
    /// One that a library's release is made of.
    Step(Step),
    /// A message to the waiters of a library that the lock may be of. Where it can't be sent, that is told.
    Tell {
        channel: Vec<u8>,
        message: Vec<u8>,
    },
    Expire {
        key: Vec<u8>,
        ms: u64,
    },
    /// A key as it was kept. `until`: in milliseconds of Unix time, `None` where it has no TTL.
    Restore {
        key: Vec<u8>,
        dump: Vec<u8>,
        until: Option<i64>,
    },
    PutField {
        key: Vec<u8>,
        field: Vec<u8>,
        value: Vec<u8>,
        until: Option<i64>,
    },
    PutScored {
        key: Vec<u8>,
        member: Vec<u8>,
        score: String,
        until: Option<i64>,
    },
    PutMember {
        key: Vec<u8>,
        member: Vec<u8>,
        until: Option<i64>,
    },
    TakePermits {
        counter: Vec<u8>,
        permits: u64,
    },
    TakeBack {
        list: Vec<u8>,
        token: Vec<u8>,
    },
}

/// One instruction of the script.
pub(super) struct Instruction {
    name: &'static str,
    keys: Vec<Vec<u8>>,
    rest: Vec<Vec<u8>>,
}

/// KEYS and ARGV.
#[derive(Default)]
pub(super) struct Operands {
    pub keys: Vec<Vec<u8>>,
    pub args: Vec<Vec<u8>>,
}

impl Instruction {
    pub fn new(name: &'static str, keys: Vec<Vec<u8>>, rest: Vec<Vec<u8>>) -> Instruction {
        Instruction { name, keys, rest }
    }
}

impl Operands {
    /// Of writes that were all let through, or says which was not. The plan's own key comes first.
    pub fn of(key: &[u8], checks: &[Check], writes: &[Write], admission: &Admission) -> Result<Operands, Refusal> {
        if let Some(write) = writes.iter().find(|write| !admission.covers(write)) {
            return Err(Refusal::NotSo(format!("{} was not let through; nothing was changed", write.describe())));
        }
        let mut operands = Operands { keys: vec![key.to_vec()], args: Vec::new() };
        checks.iter().map(Check::instruction).for_each(|comparison| operands.compare(comparison));
        writes.iter().flat_map(instructions).for_each(|instruction| operands.put(instruction));
        Ok(operands)
    }

    /// A comparison that is switched off is replaced by one that always holds: the others keep their numbers.
    fn compare(&mut self, comparison: Instruction) {
        match comparisons::is_made(comparison.name) {
            true => self.put(comparison),
            false => self.put(Instruction::new("nothing", Vec::new(), Vec::new())),
        }
    }

    fn put(&mut self, instruction: Instruction) {
        let Instruction { name, keys, rest } = instruction;
        self.args.push(name.as_bytes().to_vec());
        self.args.push((keys.len() + rest.len()).to_string().into_bytes());
        for key in keys {
            let place = self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                self.keys.push(key);
                self.keys.len() - 1
            });
            self.args.push((place + 1).to_string().into_bytes());
        }
        self.args.extend(rest);
    }
}

/// A moment as the script takes it: nought where there is none.
fn moment(until: &Option<i64>) -> Vec<u8> {
    until.unwrap_or(0).to_string().into_bytes()
}

fn instructions(write: &Write) -> Vec<Instruction> {
    let one = |name, key: &Vec<u8>, rest: &[&[u8]]| {
        vec![Instruction::new(name, vec![key.clone()], rest.iter().map(|operand| operand.to_vec()).collect())]
    };
    match write {
        Write::Step(step) => step_instructions(step),
        Write::Tell { channel, message } => {
            vec![Instruction::new("tell", Vec::new(), vec![channel.clone(), message.clone()])]
        }
        Write::Expire { key, ms } => one("expire", key, &[ms.to_string().as_bytes()]),
        Write::Restore { key, dump, until } => one("restore", key, &[&moment(until), dump]),
        Write::PutField { key, field, value, until } => one("hset", key, &[field, value, &moment(until)]),
        Write::PutScored { key, member, score, until } => one("zadd", key, &[score.as_bytes(), member, &moment(until)]),
        Write::PutMember { key, member, until } => one("sadd", key, &[member, &moment(until)]),
        Write::TakePermits { counter, permits } => one("take", counter, &[permits.to_string().as_bytes()]),
        Write::TakeBack { list, token } => one("unpush", list, &[token]),
    }
}

fn step_instructions(step: &Step) -> Vec<Instruction> {
    let one = |name, keys: &[&Vec<u8>], rest: &[&[u8]]| {
        let keys = keys.iter().map(|key| (*key).clone()).collect();
        vec![Instruction::new(name, keys, rest.iter().map(|operand| operand.to_vec()).collect())]
    };
    match step {
        Step::Delete(key) => one("del", &[key], &[]),
        Step::DeleteField { key, field } => one("hdel", &[key], &[field]),
        Step::RemoveScored { key, member } => one("zrem", &[key], &[member]),
        Step::RemoveMember { key, member } => one("srem", &[key], &[member]),
        Step::Publish { channel, message } => one("publish", &[], &[channel, message]),
        Step::PublishToHead { queue, deadlines, channel_prefix } => one("head", &[queue, deadlines], &[channel_prefix]),
        Step::DropWaiter { queue, deadlines, waiter } => one("drop", &[queue, deadlines], &[waiter]),
        Step::Signal { list, expires } => one("signal", &[list], &[expires.as_millis().to_string().as_bytes()]),
        Step::PushBack { list, token } => one("push", &[list], &[token]),
        Step::ReturnPermits { counter, channel, permits } => {
            one("permits", &[counter], &[channel, permits.to_string().as_bytes()])
        }
        Step::WhenEmptied { key, besides, then } => {
            let then: Vec<Instruction> = then.iter().flat_map(step_instructions).collect();
            let following = then.len().to_string();
            let besides = besides.as_deref().unwrap_or_default();
            let mut all = one("emptied", &[key], &[besides, following.as_bytes()]);
            all.extend(then);
            all
        }
    }
}

impl Write {
    /// Every key that the script may write for it.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = instructions(self).into_iter().flat_map(|instruction| instruction.keys).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The commands that an operator would have to type.
    pub fn describe(&self) -> String {
        let until = |until: &Option<i64>| if until.is_some() { " with the TTL that would be left" } else { "" };
        match self {
            Write::Step(step) => step.describe(),
            Write::Tell { channel, message } => format!("PUBLISH {} {}", word(channel), word(message)),
            Write::Expire { key, ms } => format!("PEXPIRE {} {ms}", word(key)),
            Write::Restore { key, until: moment, .. } => {
                format!("RESTORE {} as it was{}", word(key), until(moment))
            }
            Write::PutField { key, field, value, .. } => format!("HSET {} {} {}", word(key), word(field), word(value)),
            Write::PutScored { key, member, score, .. } => format!("ZADD {} {score} {}", word(key), word(member)),
            Write::PutMember { key, member, .. } => format!("SADD {} {}", word(key), word(member)),
            Write::TakePermits { counter, permits } => format!("DECRBY {} {permits}", word(counter)),
            Write::TakeBack { list, token } => format!("LREM {} 1 {}", word(list), word(token)),
        }
    }

    /// The commands that the script sends for it, to be asked about before.
    pub(super) fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        match self {
            Write::Step(step) => step_commands(step),
            // Whoever may not send it frees the lock all the same.
            Write::Tell { .. } => Vec::new(),
            Write::Expire { key, ms } => vec![words(&[b"PEXPIRE", key, ms.to_string().as_bytes()])],
            Write::Restore { key, dump, .. } => vec![words(&[b"RESTORE", key, b"0", dump])],
            Write::PutField { key, field, value, .. } => with_ttl(key, words(&[b"HSET", key, field, value])),
            Write::PutScored { key, member, score, .. } => {
                with_ttl(key, words(&[b"ZADD", key, score.as_bytes(), member]))
            }
            Write::PutMember { key, member, .. } => with_ttl(key, words(&[b"SADD", key, member])),
            Write::TakePermits { counter, permits } => {
                vec![words(&[b"DECRBY", counter, permits.to_string().as_bytes()])]
            }
            Write::TakeBack { list, token } => vec![words(&[b"LREM", list, b"1", token])],
        }
    }
}

/// What may make its key anew, and then gives it the TTL that it had.
fn with_ttl(key: &[u8], put: Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    vec![words(&[b"EXISTS", key]), put, words(&[b"PEXPIREAT", key, b"1"])]
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

fn step_commands(step: &Step) -> Vec<Vec<Vec<u8>>> {
    match step {
        Step::Delete(key) => vec![words(&[b"DEL", key])],
        Step::DeleteField { key, field } => vec![words(&[b"HDEL", key, field])],
        Step::RemoveScored { key, member } => vec![words(&[b"ZREM", key, member])],
        Step::RemoveMember { key, member } => vec![words(&[b"SREM", key, member])],
        Step::Publish { channel, message } => vec![words(&[b"PUBLISH", channel, message])],
        Step::PublishToHead { queue, deadlines, channel_prefix } => vec![
            words(&[b"LINDEX", queue, b"0"]),
            words(&[b"ZSCORE", deadlines, b"w"]),
            words(&[b"LPOP", queue]),
            words(&[b"ZREM", deadlines, b"w"]),
            words(&[b"PUBLISH", &[channel_prefix, &b"w"[..]].concat(), b"0"]),
        ],
        Step::DropWaiter { queue, deadlines, waiter } => {
            vec![words(&[b"LREM", queue, b"0", waiter]), words(&[b"ZREM", deadlines, waiter])]
        }
        Step::Signal { list, .. } => {
            vec![words(&[b"DEL", list]), words(&[b"LPUSH", list, b"1"]), words(&[b"PEXPIRE", list, b"1"])]
        }
        Step::PushBack { list, token } => vec![words(&[b"LPUSH", list, token])],
        Step::ReturnPermits { counter, channel, permits } => {
            vec![words(&[b"INCRBY", counter, permits.to_string().as_bytes()]), words(&[b"PUBLISH", channel, b"1"])]
        }
        Step::WhenEmptied { key, then, .. } => {
            let mut all = vec![words(&[b"HLEN", key])];
            all.extend(then.iter().flat_map(step_commands));
            all
        }
    }
}
