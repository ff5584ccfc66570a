//! What scripts are for, learnt from what they do.
//!
//! A script that only read a lock lost an attempt, or came too late to renew or release it. Its inner calls are the same
//! in both cases. What it does when it succeeds distinguishes them, or its text, or that clients repeat it. Scripts of
//! known libraries are known from the start, by the hash of their text, so that EVAL and EVALSHA are the same. Pure and
//! bounded.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use super::call;
use crate::dialects::scripts;

/// What a script was seen to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Habits {
    pub takes: bool,
    pub renews: bool,
    pub leaves: bool,
    /// Clients that do not hold a lock repeat it, and it only reads: as far as we know, it takes.
    pub spins: bool,
    /// Its text takes nothing, or it follows lost attempts.
    pub takes_nothing: bool,
}

impl Habits {
    /// Whether it was seen to succeed, so that its purpose is known.
    pub fn is_known(self) -> bool {
        self.takes || self.renews || self.leaves
    }

    /// Whether a run that only read may still be an attempt: some libraries take and renew by one script.
    pub fn is_open(self) -> bool {
        !self.takes && !self.leaves
    }
}

/// Scripts of libraries that only read the key in a failed attempt or a late release.
const TAKE: [&str; 3] = [
    // Spring, aioredlock, redlock-rb.
    "175897a4e379e99e79a54937be09226f76cdcfe5",
    "c75a9bf1538efcdb1f383acc3e273c5089d57e58",
    "ceb2b2062e40c51a2b3963fd078bc71f11bdc65c",
];
const RENEW: [&str; 8] = [
    // Spring, redis-py (two), python-redis-lock, node-redlock, redsync, redislock, rslock.
    "879e0f7b8d83c3266d4e996627438c05dbda0b89",
    "a4e8783852e6b949f9ef3a97212805108459a890",
    "1cac51482acf5858da00f6d685d68f886cd6b6b2",
    "fed16109024d968d9496e4140fe1355bac05ebff",
    "aed6f382e410db8ba7926d4e5e9aab410bf2a78a",
    "d75bb8b5bd13532ddedd17762e772346e39b321e",
    "5a22d7e8431313862816d4416b5e46dd70fc340d",
    "17a49af0c4b1a9034503fa84f3570f5ca76c4cbf",
];
const RELEASE: [&str; 10] = [
    // Spring (two), aioredlock, redis-py, python-redis-lock, node-redlock, redsync, redislock, redlock-rb, rslock.
    "7a71e9443a2a41539fb115a5a27d5a748a871aed",
    "f0f9038aa2b6d6c3436c72d147573ea2a58f0ef2",
    "241e4ca540a1cc4ec1f32d9eb9f879e607d7e6e5",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658",
    "90da91872223f85eb1376a17e3c4df21ace8c54b",
    "e4612211c9f8f51c257e26e056b0a654b3187242",
    "e950836ed1e694540c503ef9972b8de518044d3b",
    "9470c810040e272ee6c579d8d4331aaf6332a7b1",
    "8e4905cee18e7c3188d10f2b8b170e403baed34f",
    "daf86bbf8740dd3ca86733367a016364b2110627",
];

/// A script, by a number made of its hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScriptId(u64);

/// How a script was called whose text was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    Hash,
    Function,
}

/// By what the server knows a script that was called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    pub script: ScriptId,
    pub called: Called,
    pub name: Box<[u8]>,
}

#[derive(Debug)]
pub struct Scripts {
    known: HashMap<ScriptId, Habits>,
    /// Those that were called; `None`: the server was asked for its text.
    names: HashMap<ScriptId, Option<Name>>,
    /// Ids of texts seen before: SHA1 is costly, and some clients send the text each time.
    texts: HashMap<u64, ScriptId>,
}

impl Default for Scripts {
    fn default() -> Scripts {
        let none = Habits::default();
        let (take, renew) = (Habits { takes: true, ..none }, Habits { renews: true, ..none });
        let release = Habits { leaves: true, ..none };
        let of_name = |name: &str| match name {
            _ if name.ends_with("acquire") => take,
            _ if name.ends_with("renew") => renew,
            _ => release,
        };
        let ours = scripts::ALL.iter().map(|script| (script.sha1(), of_name(script.name)));
        let of = |hashes: &'static [&str], habits: Habits| hashes.iter().map(move |hash| (hash.to_string(), habits));
        let all = ours.chain(of(&TAKE, take)).chain(of(&RENEW, renew)).chain(of(&RELEASE, release));
        let known = all.map(|(hash, habits)| (ScriptId::of_name(hash.as_bytes()), habits)).collect();
        Scripts { known, names: HashMap::new(), texts: HashMap::new() }
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
        if !call::may_take(text) {
            self.learn(id, |habits| habits.takes_nothing = true);
        }
        id
    }

    /// A script that was called by its hash or its name.
    pub fn called(&mut self, name: &[u8], called: Called) -> ScriptId {
        let id = ScriptId::of_name(name);
        if self.names.len() < Self::MOST && !self.names.contains_key(&id) {
            self.names.insert(id, Some(Name { script: id, called, name: name.into() }));
        }
        id
    }

    /// Those of these whose text nobody has asked for, which is done now.
    pub fn ask(&mut self, ids: Vec<ScriptId>, most: usize) -> Vec<Name> {
        ids.into_iter().filter_map(|id| self.names.get_mut(&id)?.take()).take(most).collect()
    }

    /// The server returned the text of a script.
    pub fn tell(&mut self, id: ScriptId, text: &[u8]) {
        if !call::may_take(text) {
            self.learn(id, |habits| habits.takes_nothing = true);
        } else if call::takes(text) {
            self.learn(id, |habits| habits.takes = true);
        }
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
        assert!(!scripts.habits(id).is_known() && scripts.habits(id).takes_nothing);
        scripts.learn(id, |habits| habits.takes = true);
        assert!(scripts.habits(ScriptId::of_name(b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db")).takes);
    }

    #[test]
    fn ours_are_known_and_strangers_bounded() {
        let mut scripts = Scripts::default();
        let ours = scripts.of_text(crate::dialects::scripts::REENTRANT_RELEASE.text.as_bytes());
        assert_eq!((scripts.habits(ours).leaves, scripts.habits(ours).takes), (true, false));
        for number in 0..2 * Scripts::MOST {
            let id = scripts.of_text(format!("return {number}").as_bytes());
            scripts.learn(id, |habits| habits.takes = true);
        }
        assert!(scripts.known.len() <= Scripts::MOST && scripts.texts.len() <= Scripts::MOST);
    }
}
