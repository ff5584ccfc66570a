//! Test locks: lockscope takes, keeps and gives back its own locks, with the same scripts that it offers to
//! applications.
//!
//! [`take`] tries, and waits if asked to; it returns a [`Held`], whose [`renew`](Held::renew) is the watchdog and whose
//! [`release`](Held::release) gives the lock back. [`Lease`] decides when a lease counts as lost, [`Backoff`] how long
//! to wait: both are pure. A [`Contender`] tries again and again. Only a key that the gate admitted can be requested.
//! `acquire`, the lab and the canary of [`watchdog_probe`](crate::watchdog_probe) use this; it asks no questions,
//! records nothing and prints nothing.

mod account;
mod backoff;
mod contender;
mod held;
mod lease;
mod take;
mod wire;

use std::fmt;
use std::io;
use std::time::Duration;

pub use account::{about, joined};
pub use backoff::Backoff;
pub use contender::{Attempt, Contender};
pub use held::{Held, Loss, Released, Turn};
pub use lease::Lease;
pub use take::{Taken, take, take_on};
pub use wire::{Other, Wire};

use crate::actions::Admission;
use crate::actions::audit;
use crate::dialects::own;
use crate::dialects::scripts::{self, Script};
use crate::lock::{Key, Token};

/// How a test lock is stored on the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A string: the token of its holder.
    Plain,
    /// A hash: the token of its holder, and how often it entered.
    Reentrant,
}

/// What to take.
#[derive(Clone, Debug)]
pub struct Request {
    admission: Admission,
    form: Form,
    token: Token,
    /// Nobody else can have this token: if it is on the server, we put it there.
    unique: bool,
    ttl: Duration,
}

impl Request {
    /// With a unique token that says whose test it is.
    pub fn new(admission: &Admission, form: Form, ttl: Duration) -> io::Result<Request> {
        let token = own::test_token(&audit::host(), std::process::id(), random()?);
        Ok(Request { admission: admission.clone(), form, token: Token::from(&token[..]), unique: true, ttl })
    }

    /// With a token of the caller's choice.
    pub fn with_token(self, token: &[u8]) -> Request {
        Request { token: Token::from(token), unique: false, ..self }
    }

    pub fn key(&self) -> &Key {
        self.admission.key()
    }

    pub fn form(&self) -> Form {
        self.form
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Plain => "plain",
            Form::Reentrant => "reentrant",
        }
    }

    fn acquire(self) -> &'static Script {
        match self {
            Form::Plain => &scripts::ACQUIRE,
            Form::Reentrant => &scripts::REENTRANT_ACQUIRE,
        }
    }

    fn renew(self) -> &'static Script {
        match self {
            Form::Plain => &scripts::RENEW,
            Form::Reentrant => &scripts::REENTRANT_RENEW,
        }
    }

    fn release(self) -> &'static Script {
        match self {
            Form::Plain => &scripts::RELEASE,
            Form::Reentrant => &scripts::REENTRANT_RELEASE,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| io::Error::other(format!("the system has no random bytes: {why}")))?;
    Ok(bytes)
}
