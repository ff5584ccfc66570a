//! What a write does, described once, as data: the script, the preview and the checks of rights are generated from it.
//!
//! A [`Statement`] is one line of a script. The dialects make them from the steps of a release, the actions from all
//! their writes; [`describe`](Statement::describe) is what an operator reads before confirming.

use super::word;

/// One word of a command after its name.
#[derive(Clone, PartialEq, Debug)]
pub enum Operand {
    Key(Vec<u8>),
    Value(Vec<u8>),
    /// A fixed word.
    Word(&'static str),
    /// Shown as this text instead; not shown at all if the text is empty.
    Shown(Vec<u8>, &'static str),
}

/// One command.
#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    pub name: &'static str,
    pub operands: Vec<Operand>,
}

/// One line of a script.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    Run(Command),
    /// Puts something into a key. A key that it creates expires at `until`, in milliseconds of Unix time.
    Put {
        command: Command,
        until: Option<i64>,
    },
    /// A message to the waiters. If it can't be sent, that is reported; with `must`, nothing at all is done then.
    Tell {
        channel: Vec<u8>,
        message: Vec<u8>,
        must: bool,
    },
    /// Sends the number that the command returns to the waiters.
    TellAnswer {
        command: Command,
        channel: Vec<u8>,
    },
    /// A message to the first of a fair queue, after dropping those whose deadline has passed.
    TellHead {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel_prefix: Vec<u8>,
    },
    /// Takes a waiter out of a fair queue, unless somebody listens on its channel.
    DropWaiter {
        queue: Vec<u8>,
        deadlines: Vec<u8>,
        channel: Vec<u8>,
        waiter: Vec<u8>,
    },
    /// Lets a hash of readers last as long as the longest of their leases, if those of all of them are known. The keys
    /// of the leases begin with this prefix.
    LastAsReaders {
        key: Vec<u8>,
        prefix: Vec<u8>,
    },
    /// If nothing is left in the hash but this field.
    WhenEmptied {
        key: Vec<u8>,
        besides: Option<Vec<u8>>,
        then: Vec<Statement>,
    },
}

impl Command {
    /// A command on a key, with values.
    pub fn on(name: &'static str, key: &[u8], values: &[&[u8]]) -> Command {
        let values = values.iter().map(|value| Operand::Value(value.to_vec()));
        Command { name, operands: [Operand::Key(key.to_vec())].into_iter().chain(values).collect() }
    }

    /// The same with a fixed word at its end.
    pub fn word(mut self, word: &'static str) -> Command {
        self.operands.push(Operand::Word(word));
        self
    }

    fn describe(&self) -> String {
        let words = self.operands.iter().map(|operand| match operand {
            Operand::Key(bytes) | Operand::Value(bytes) => word(bytes),
            Operand::Word(word) | Operand::Shown(_, word) => (*word).to_string(),
        });
        let words: Vec<String> = [self.name.to_string()].into_iter().chain(words).filter(|w| !w.is_empty()).collect();
        words.join(" ")
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.operands.iter().filter_map(|operand| match operand {
            Operand::Key(key) => Some(&key[..]),
            _ => None,
        })
    }
}

impl Statement {
    /// A command on a key, with values.
    pub fn run(name: &'static str, key: &[u8], values: &[&[u8]]) -> Statement {
        Statement::Run(Command::on(name, key, values))
    }

    /// The commands that an operator would have to type.
    pub fn describe(&self) -> String {
        match self {
            Statement::Run(command) | Statement::Put { command, .. } => command.describe(),
            Statement::Tell { channel, message, .. } => format!("PUBLISH {} {}", word(channel), word(message)),
            Statement::TellAnswer { command, channel } => {
                format!("{}; PUBLISH {} <new value>", command.describe(), word(channel))
            }
            Statement::TellHead { queue, deadlines, channel_prefix } => format!(
                "LPOP {} and ZREM {} while the first waiter's deadline has passed; PUBLISH {}<first waiter> 0",
                word(queue),
                word(deadlines),
                word(channel_prefix)
            ),
            Statement::DropWaiter { queue, deadlines, channel, waiter } => format!(
                "if nobody listens on {}: LREM {} 0 {}; ZREM {} {}",
                word(channel),
                word(queue),
                word(waiter),
                word(deadlines),
                word(waiter)
            ),
            Statement::LastAsReaders { key, .. } => {
                format!("PEXPIRE {} <the longest lease of the readers that stay>", word(key))
            }
            Statement::WhenEmptied { key, besides, then } => {
                let condition = match besides {
                    Some(field) => format!("nothing but {} is left in {}", word(field), word(key)),
                    None => format!("nothing is left in {}", word(key)),
                };
                format!("if {condition}: {}", describe(then))
            }
        }
    }

    /// Every key that it may write or read.
    pub fn keys(&self) -> Vec<&[u8]> {
        match self {
            Statement::Run(command) | Statement::Put { command, .. } | Statement::TellAnswer { command, .. } => {
                command.keys().collect()
            }
            Statement::Tell { .. } => Vec::new(),
            Statement::LastAsReaders { key, .. } => vec![key],
            Statement::TellHead { queue, deadlines, .. } | Statement::DropWaiter { queue, deadlines, .. } => {
                vec![queue, deadlines]
            }
            Statement::WhenEmptied { key, then, .. } => {
                [&key[..]].into_iter().chain(then.iter().flat_map(Statement::keys)).collect()
            }
        }
    }
}

/// Several of them on one line.
pub fn describe(statements: &[Statement]) -> String {
    let each: Vec<String> = statements.iter().map(Statement::describe).collect();
    each.join("; ")
}
