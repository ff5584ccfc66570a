//! The one gate that every write has to pass.

use std::fmt;

use redis::aio::ConnectionLike;
use redis::{ErrorKind, RedisResult, ServerErrorKind, Value};

use super::plan::Plan;
use super::write::Write;
use crate::base::glob::{Glob, Globs};
use crate::dialects::scripts;
use crate::lock::Key;

/// Whether writing is allowed at all, and which locks are out of reach.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Why nothing may be written, if so.
    closed: Option<Refusal>,
    protected: Globs,
}

/// Permission to write these keys and no others. Only the gate grants it, and nothing is written without one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// The lock that it is about.
    key: Key,
    /// What else is written with it.
    others: Vec<Key>,
}

/// Why something is not done, in a sentence that names the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    ReadOnly(String),
    Protected {
        key: Key,
        by: String,
    },
    /// Freeing it may do harm that only a person who knows the application can rule out.
    OnlyByForce(&'static str),
    /// Nothing to compare: the script could not check that the lock is what the operator saw.
    NothingToCompare(String),
    /// The holder that was named is not there.
    NotTheHolder {
        key: Key,
        holders: Vec<String>,
    },
    /// What was asked for makes no sense for this lock.
    NotSo(String),
    NotPermitted(String),
    /// The lock is not what the operator saw.
    Moved(String),
    /// The lock has another lease than the operator saw, and its token does not distinguish one hold from the next.
    AnotherLease(String),
    /// The server could not be asked, or refused.
    Unreachable(String),
    /// The audit file can't be written.
    Audit(String),
}

impl Gate {
    /// `read_only`: why nothing may be written, where that is so.
    pub fn new(read_only: Option<String>, protected: Vec<Glob>) -> Gate {
        Gate { closed: read_only.map(Refusal::ReadOnly), protected: Globs::new(protected) }
    }

    /// For the console, which starts read-only: `write` is whether the operator has turned writing on.
    pub fn for_console(&self, write: bool) -> Gate {
        let asleep = Refusal::ReadOnly("lockscope is read-only now; turn writing on with :write".into());
        Gate { closed: self.closed.clone().or((!write).then_some(asleep)), protected: self.protected.clone() }
    }

    /// Lets a write of this key through, and of no other, or says why not.
    pub fn admit(&self, key: &Key) -> Result<Admission, Refusal> {
        self.let_through(key)?;
        Ok(Admission { key: key.clone(), others: Vec::new() })
    }

    /// Lets all that the plan would write through, or says why not.
    pub fn admit_plan(&self, plan: &Plan) -> Result<Admission, Refusal> {
        self.let_through(&plan.key)?;
        let others: Vec<Key> = plan.writes.iter().flat_map(Write::keys).map(Key::from).collect();
        others.iter().try_for_each(|key| self.let_through(key))?;
        match plan.only_by_force {
            Some(why) => Err(Refusal::OnlyByForce(why)),
            None => Ok(Admission { key: plan.key.clone(), others }),
        }
    }

    fn let_through(&self, key: &Key) -> Result<(), Refusal> {
        if let Some(refusal) = &self.closed {
            return Err(refusal.clone());
        }
        match self.protected.iter().find(|glob| glob.matches(key.as_bytes())) {
            Some(glob) => Err(Refusal::Protected { key: key.clone(), by: glob.as_str().to_string() }),
            None => Ok(()),
        }
    }

    /// Why nothing at all may be written, where that is so.
    pub fn closed(&self) -> Option<&Refusal> {
        self.closed.as_ref()
    }
}

impl Admission {
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whether all that this writes was let through.
    pub(super) fn covers(&self, write: &Write) -> bool {
        let admitted =
            |key: &Vec<u8>| self.key.as_bytes() == *key || self.others.iter().any(|other| other.as_bytes() == *key);
        write.keys().iter().all(admitted)
    }

    /// Runs a script by its hash, or by its text if the server does not know it (any more). The script decides which
    /// `keys` are written: scripts of test locks write only the admitted key, and the keys of a plan were compared
    /// before, with [`covers`](Admission::covers).
    pub(crate) async fn run(
        &self,
        text: &str,
        conn: &mut impl ConnectionLike,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> RedisResult<Value> {
        match scripts::command("EVALSHA", &scripts::sha1(text), keys, args).query_async(conn).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                scripts::command("EVAL", text, keys, args).query_async(conn).await
            }
            answer => answer,
        }
    }
}

impl Refusal {
    /// Whether the server or this user's rights there are the reason.
    pub fn is_the_server_s(&self) -> bool {
        matches!(self, Refusal::NotPermitted(_) | Refusal::Unreachable(_))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::ReadOnly(why) => f.write_str(why),
            Refusal::Protected { key, by } => {
                write!(
                    f,
                    "{key} is protected by {by:?} in the config; remove that pattern from 'protected' to change the lock"
                )
            }
            Refusal::OnlyByForce(why) => write!(f, "{why} Add --force if you know that it is right"),
            Refusal::NothingToCompare(why)
            | Refusal::NotSo(why)
            | Refusal::NotPermitted(why)
            | Refusal::Moved(why)
            | Refusal::AnotherLease(why)
            | Refusal::Unreachable(why) => f.write_str(why),
            Refusal::NotTheHolder { key, holders } if holders.is_empty() => write!(f, "nobody holds {key} now"),
            Refusal::NotTheHolder { key, holders } => {
                write!(f, "{key} has another holder now: {}", holders.join(", "))
            }
            Refusal::Audit(why) => write!(f, "nothing was changed, since the audit file can't be written: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::glob::Glob;

    fn gate(closed: Option<Refusal>, protected: &[&str]) -> Gate {
        Gate { closed, protected: Globs::new(protected.iter().map(|text| Glob::new(text).unwrap()).collect()) }
    }

    #[test]
    fn a_closed_gate_lets_nothing_through() {
        let closed = Refusal::ReadOnly("no".into());
        assert_eq!(gate(Some(closed.clone()), &[]).admit(&Key::from("a")), Err(closed));
    }

    #[test]
    fn protected_locks_stay_as_they_are() {
        let gate = gate(None, &["payments:*"]);
        assert!(gate.admit(&Key::from("orders:1")).is_ok());
        let refusal = gate.admit(&Key::from("payments:1")).unwrap_err();
        assert!(refusal.to_string().contains("\"payments:*\""), "{refusal}");
    }
}
