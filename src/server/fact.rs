//! A fact about a server: known, or unknown with the reason.
//!
//! There is no default value: what the server did not say must not look like something it said.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::base::text;

/// Something asked of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact<T> {
    Known(T),
    /// Why it is not known, as a clause: "this user may not run CONFIG GET".
    Unknown(String),
}

impl<T> Fact<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::Unknown(_) => None,
        }
    }

    pub fn why(&self) -> Option<&str> {
        match self {
            Fact::Known(_) => None,
            Fact::Unknown(why) => Some(why),
        }
    }

    pub fn and_then<U>(self, next: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Fact::Known(value) => next(value),
            Fact::Unknown(why) => Fact::Unknown(why),
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Known(f(value)))
    }

    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Fact::Known(value) => Fact::Known(value),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        }
    }

    /// The answer to `command`, or why there is none.
    pub fn answered(answer: Result<T, RedisError>, command: &str) -> Fact<T> {
        match answer {
            Ok(value) => Fact::Known(value),
            Err(error) => Fact::Unknown(refusal(&error, command)),
        }
    }
}

/// Why the server gave no answer to `command`, as a clause.
pub fn refusal(error: &RedisError, command: &str) -> String {
    let detail = text::said(&error.detail().unwrap_or_default());
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoPerm) => format!("this user may not run {command}"),
        ErrorKind::Server(ServerErrorKind::ResponseError) if detail.starts_with("unknown command") => {
            format!("this server has no {command}")
        }
        _ => match error.code() {
            Some(code) => format!("{command} was answered with {} {detail}", text::said(&code)),
            None => format!("{command} failed: {}", text::said(error)),
        },
    }
}
