//! What scripts are for, learnt from what they do.
//!
//! A script that only read a lock lost an attempt, or came too late to renew or release it. Its inner calls are the same
//! in both cases; only what it does when it succeeds distinguishes them. A script is known by the hash of its text, so
//! that EVAL and EVALSHA are the same. Pure and bounded.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use crate::dialects::scripts;

/// What a script was seen to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Habits {
    pub takes: bool,
    pub renews: bool,
    pub leaves: bool,
}

impl Habits {
    /// Whether we know anything about its purpose.
    pub fn is_known(self) -> bool {
        self != Habits::default()
    }
}

/// A script, by a number made of its hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScriptId(u64);

#[derive(Debug)]
pub struct Scripts {
    known: HashMap<ScriptId, Habits>,
    /// Ids of texts seen before: SHA1 is costly, and some clients send the text each time.
    texts: HashMap<u64, ScriptId>,
}

impl Default for Scripts {
    fn default() -> Scripts {
        let habits = |name: &str| Habits {
            takes: name.ends_with("acquire"),
            renews: name.ends_with("renew"),
            leaves: name.ends_with("release"),
        };
        let ours = scripts::ALL.iter().map(|script| (ScriptId::of_name(script.sha1().as_bytes()), habits(script.name)));
        Scripts { known: ours.collect(), texts: HashMap::new() }
    }
}

impl Scripts {
    const MOST: usize = 4_096;

    /// A script that was sent with its text.
    pub fn of_text(&mut self, text: &[u8]) -> ScriptId {
        let mut hasher = DefaultHasher::new();
        hasher.write(text);
        let short = hasher.finish();
        if let Some(id) = self.texts.get(&short) {
            return *id;
        }
        let id = match std::str::from_utf8(text) {
            Ok(text) => ScriptId::of_name(redis::Script::new(text).get_hash().as_bytes()),
            Err(_) => ScriptId(short),
        };
        if self.texts.len() >= Self::MOST {
            self.texts.clear();
        }
        self.texts.insert(short, id);
        id
    }

    pub fn habits(&self, id: ScriptId) -> Habits {
        self.known.get(&id).copied().unwrap_or_default()
    }

    pub fn learn(&mut self, id: ScriptId, learn: impl FnOnce(&mut Habits)) {
        if self.known.len() < Self::MOST || self.known.contains_key(&id) {
            learn(self.known.entry(id).or_default());
        }
    }
}

impl ScriptId {
    /// The SHA1 of a script, or the name of a function.
    pub fn of_name(name: &[u8]) -> ScriptId {
        let mut hasher = DefaultHasher::new();
        for byte in name {
            hasher.write_u8(byte.to_ascii_lowercase());
        }
        ScriptId(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_same_by_text_and_by_hash() {
        let mut scripts = Scripts::default();
        let id = scripts.of_text(b"return 1");
        assert_eq!(id, ScriptId::of_name(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"));
        assert!(!scripts.habits(id).is_known());
        scripts.learn(id, |habits| habits.takes = true);
        assert!(scripts.habits(ScriptId::of_name(b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db")).takes);
    }

    #[test]
    fn ours_are_known_and_strangers_bounded() {
        let mut scripts = Scripts::default();
        let ours = scripts.of_text(crate::dialects::scripts::REENTRANT_RELEASE.text.as_bytes());
        assert_eq!(scripts.habits(ours), Habits { leaves: true, ..Habits::default() });
        for number in 0..2 * Scripts::MOST {
            let id = scripts.of_text(format!("return {number}").as_bytes());
            scripts.learn(id, |habits| habits.takes = true);
        }
        assert!(scripts.known.len() <= Scripts::MOST && scripts.texts.len() <= Scripts::MOST);
    }
}
