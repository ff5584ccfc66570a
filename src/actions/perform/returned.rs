//! Parses what the script returned.

use redis::Value;

use crate::actions::check::Check;
use crate::actions::program::Program;
use crate::actions::queue::Cleared;
use crate::base::text;
use crate::lock::Token;

/// What the script returned.
pub enum Returned<'a> {
    Done {
        woken: u64,
        emptied: bool,
        silent: Option<String>,
        ended: Option<i64>,
        queue: Cleared,
    },
    Moved(&'a Check, Value),
    /// Nothing was written, because a write would fail, and why.
    Unfit(String),
    /// Nothing was written, because this user may not run the command on this key or channel.
    Denied {
        command: String,
        on: String,
    },
    /// Some of it was written, and then an error came.
    Half(String),
    Strange,
}

impl Returned<'_> {
    pub fn of<'a>(answer: &Value, program: &'a Program) -> Returned<'a> {
        let Value::Array(parts) = answer else { return Returned::Strange };
        let number = |index: usize| match parts.get(index) {
            Some(Value::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let text = |index: usize| match parts.get(index) {
            Some(Value::BulkString(text)) => Some(text::harmless(&String::from_utf8_lossy(text))),
            _ => None,
        };
        let name = |index: usize| match parts.get(index) {
            Some(Value::BulkString(name)) => Some(text::visible(name)),
            _ => None,
        };
        let names = |index: usize| match parts.get(index) {
            Some(Value::Array(names)) => names.iter().filter_map(token).collect(),
            _ => Vec::new(),
        };
        match (number(0), number(1)) {
            (Some(4), _) => Returned::Denied { command: text(1).unwrap_or_default(), on: name(2).unwrap_or_default() },
            (Some(3), _) => Returned::Unfit(format!("{}{}", name(1).unwrap_or_default(), text(2).unwrap_or_default())),
            (Some(2), _) => Returned::Half(text(1).unwrap_or_default()),
            (Some(1), Some(woken)) => {
                let ended = match parts.get(4) {
                    Some(Value::Int(ended)) => Some(*ended),
                    _ => None,
                };
                let queue = Cleared {
                    dropped: names(5),
                    stayed: names(6),
                    overdue: number(7).unwrap_or(0),
                    deaf_head: parts.get(8).and_then(token),
                };
                Returned::Done { woken, emptied: number(2) == Some(1), silent: text(3), ended, queue }
            }
            (Some(0), Some(which)) => match number(2).and_then(|nth| program.check(which, nth)) {
                Some(check) => Returned::Moved(check, parts.get(3).cloned().unwrap_or(Value::Nil)),
                None => Returned::Strange,
            },
            _ => Returned::Strange,
        }
    }
}

fn token(name: &Value) -> Option<Token> {
    match name {
        Value::BulkString(name) => Some(Token::from(&name[..])),
        _ => None,
    }
}
