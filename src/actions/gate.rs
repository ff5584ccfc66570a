//! The one gate that every write has to pass.

use std::fmt;

use crate::glob::Globs;
use crate::model::Key;
use crate::settings::Settings;

/// Whether writing is allowed at all, and which locks are out of reach.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Why nothing may be written, where that is so.
    closed: Option<Refusal>,
    protected: Globs,
}

/// Leave to write one lock: only the gate gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    key: Key,
}

/// Why something is not done, in a sentence that names the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    ReadOnly(&'static str),
    Protected {
        key: Key,
        by: String,
    },
    /// Freeing it does harm that only somebody who knows the application can rule out.
    OnlyByForce(&'static str),
    /// There is nothing to compare: what the operator saw can't be checked when it is written.
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
    /// The server could not be asked, or refused.
    Unreachable(String),
    /// The audit file can't be written.
    Audit(String),
}

impl Gate {
    /// For a command whose very name is the consent to write.
    pub fn of_command(settings: &Settings) -> Gate {
        let closed = settings.read_only.then_some(Refusal::ReadOnly(
            "the target is read-only, by --read-only or by the config; nothing was written",
        ));
        Gate { closed, protected: Globs::new(settings.protected.clone()) }
    }

    /// For the console, which starts read-only: `write` is whether the operator has turned writing on.
    pub fn of_console(settings: &Settings, write: bool) -> Gate {
        let gate = Gate::of_command(settings);
        let asleep = Refusal::ReadOnly("lockscope is read-only now; turn writing on with :write");
        Gate { closed: gate.closed.or((!write).then_some(asleep)), ..gate }
    }

    /// Lets a write of this lock through, or says why not.
    pub fn admit(&self, key: &Key) -> Result<Admission, Refusal> {
        if let Some(refusal) = &self.closed {
            return Err(refusal.clone());
        }
        match self.protected.iter().find(|glob| glob.matches(key.as_bytes())) {
            Some(glob) => Err(Refusal::Protected { key: key.clone(), by: glob.as_str().to_string() }),
            None => Ok(Admission { key: key.clone() }),
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
}

impl Refusal {
    /// Whether the server, or what this user may do there, is what stands in the way.
    pub fn is_the_server_s(&self) -> bool {
        matches!(self, Refusal::NotPermitted(_) | Refusal::Unreachable(_))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::ReadOnly(why) => f.write_str(why),
            Refusal::Protected { key, by } => {
                write!(f, "{key} is protected by {by:?} in the config; take it out of 'protected' to change the lock")
            }
            Refusal::OnlyByForce(why) => write!(f, "{why} Add --force if you know that it is right"),
            Refusal::NothingToCompare(why)
            | Refusal::NotSo(why)
            | Refusal::NotPermitted(why)
            | Refusal::Moved(why)
            | Refusal::Unreachable(why) => f.write_str(why),
            Refusal::NotTheHolder { key, holders } if holders.is_empty() => write!(f, "nobody holds {key} now"),
            Refusal::NotTheHolder { key, holders } => {
                write!(f, "the holder of {key} is another one now: {}", holders.join(", "))
            }
            Refusal::Audit(why) => write!(f, "nothing was changed, since the audit file can't be written: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::Glob;

    fn gate(closed: Option<Refusal>, protected: &[&str]) -> Gate {
        Gate { closed, protected: Globs::new(protected.iter().map(|text| Glob::new(text).unwrap()).collect()) }
    }

    #[test]
    fn a_closed_gate_lets_nothing_through() {
        let closed = Refusal::ReadOnly("no");
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
