//! The writes that plans are made of: the steps of a library's release, and what extending and undoing add to them.

use serde::{Deserialize, Serialize};

use crate::dialects::Step;
use crate::dialects::statement::{self, Command, Operand, Statement};

/// One write.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Write {
    /// One that a library's release is made of.
    Step(Step),
    /// A message to the waiters of a library that the lock may belong to. If it can't be sent, that is reported.
    Tell {
        channel: Vec<u8>,
        message: Vec<u8>,
    },
    Expire {
        key: Vec<u8>,
        ms: u64,
    },
    /// Restores a key from its dump. `until`: in milliseconds of Unix time; `None`: no TTL.
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

impl Write {
    /// Its statements. The script, the preview and the checks of rights are all generated from them.
    pub fn statements(&self) -> Vec<Statement> {
        let put = |name, key: &[u8], values: &[&[u8]], until: &Option<i64>| {
            vec![Statement::Put { command: Command::on(name, key, values), until: *until }]
        };
        match self {
            Write::Step(step) => step.statements(),
            Write::Tell { channel, message } => {
                vec![Statement::Tell { channel: channel.clone(), message: message.clone(), must: false }]
            }
            Write::Expire { key, ms } => vec![Statement::run("PEXPIRE", key, &[ms.to_string().as_bytes()])],
            Write::Restore { key, dump, until } => {
                let left = if until.is_some() { "with the TTL that would be left" } else { "" };
                let operands = vec![
                    Operand::Key(key.clone()),
                    Operand::Shown(until.unwrap_or(0).to_string().into_bytes(), ""),
                    Operand::Shown(dump.clone(), "as it was"),
                    Operand::Shown(b"ABSTTL".to_vec(), left),
                ];
                vec![Statement::Run(Command { name: "RESTORE", operands })]
            }
            Write::PutField { key, field, value, until } => put("HSET", key, &[field, value], until),
            Write::PutScored { key, member, score, until } => put("ZADD", key, &[score.as_bytes(), member], until),
            Write::PutMember { key, member, until } => put("SADD", key, &[member], until),
            Write::TakePermits { counter, permits } => {
                vec![Statement::run("DECRBY", counter, &[permits.to_string().as_bytes()])]
            }
            Write::TakeBack { list, token } => vec![Statement::run("LREM", list, &[b"1", token])],
        }
    }

    /// Every key that the script may write for it.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let statements = self.statements();
        let mut keys: Vec<Vec<u8>> = statements.iter().flat_map(Statement::keys).map(<[u8]>::to_vec).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The commands that an operator would have to type.
    pub fn describe(&self) -> String {
        statement::describe(&self.statements())
    }
}
