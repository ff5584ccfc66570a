//! The Lua scripts of `lua/`, each known by its name and its SHA1.
//!
//! Called by hash, and with the whole text only if the server does not know it (any more), so SCRIPT LOAD is not
//! needed. They write, so an [`Admission`](crate::actions::Admission) runs them.

use redis::{Cmd, cmd};

/// One script.
#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    /// What it does, in a line.
    pub purpose: &'static str,
    pub text: &'static str,
}

macro_rules! script {
    ($name:literal, $purpose:literal) => {
        Script { name: $name, purpose: $purpose, text: include_str!(concat!("../../lua/", $name, ".lua")) }
    };
}

pub static ACQUIRE: Script = script!("acquire", "take a lock that nobody holds: a string with a lease");
pub static RELEASE: Script = script!("release", "give it back, if this token still holds it");
pub static RENEW: Script = script!("renew", "renew its lease, if this token still holds it");
pub static REENTRANT_ACQUIRE: Script =
    script!("reentrant_acquire", "enter a lock that nobody else holds: a hash that counts entries, as in Redisson");
pub static REENTRANT_RELEASE: Script =
    script!("reentrant_release", "leave it once, if this token still holds it; the last exit frees it");
pub static REENTRANT_RENEW: Script = script!("reentrant_renew", "renew its lease, if this token still holds it");
pub static COUNTED_ACQUIRE: Script = script!("counted_acquire", "acquire that also counts attempts and failures");
pub static COUNTED_REENTRANT_ACQUIRE: Script =
    script!("counted_reentrant_acquire", "reentrant_acquire that also counts attempts and failures");

/// The first argument of every script of an operator's write. It identifies our writes in MONITOR, because each plan
/// has its own text.
pub const MARK: &[u8] = b"lockscope";

/// How their texts begin.
pub const OPENING: &str = "-- lockscope: ";

/// All of them, for an application to use.
pub static ALL: [&Script; 8] = [
    &ACQUIRE,
    &RELEASE,
    &RENEW,
    &REENTRANT_ACQUIRE,
    &REENTRANT_RELEASE,
    &REENTRANT_RENEW,
    &COUNTED_ACQUIRE,
    &COUNTED_REENTRANT_ACQUIRE,
];

impl Script {
    /// The hash by which servers know it.
    pub fn sha1(&self) -> String {
        redis::Script::new(self.text).get_hash().to_string()
    }
}

/// A script as a command: `how` is EVAL or EVALSHA. Only an [`Admission`](crate::actions::Admission) sends it.
pub(crate) fn command(how: &str, which: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
    let mut command = cmd(how);
    command.arg(which).arg(keys.len()).arg(keys).arg(args);
    command
}

/// The hash by which servers know a text.
pub(crate) fn sha1(text: &str) -> String {
    redis::Script::new(text).get_hash().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_takes_and_returns() {
        for script in ALL {
            let head: String = script.text.lines().take_while(|line| line.starts_with("--")).collect();
            for word in ["KEYS", "ARGV", "Returns"] {
                assert!(head.contains(word), "{} does not speak of {word}", script.name);
            }
            assert!(
                script.text.ends_with('\n') && script.text.lines().all(|line| line.len() <= 120),
                "{}",
                script.name
            );
        }
    }

    #[test]
    fn no_two_have_the_same_name_or_text() {
        for field in [|script: &Script| script.name.to_string(), Script::sha1] {
            let mut all: Vec<String> = ALL.iter().map(|script| field(script)).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), ALL.len());
        }
    }

    #[test]
    fn every_file_is_known() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua")).unwrap().count();
        assert_eq!(files, ALL.len());
    }
}
