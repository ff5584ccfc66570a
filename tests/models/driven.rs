//! Real libraries in processes of their own: their answers are the truth, and a model only reads what they store.
//!
//! `scripts/ensure-libs` installs them. What is not installed is left out, with a notice.

use std::cell::RefCell;
use std::collections::HashMap;

use base64::Engine;
use serde_json::{Value, json};

use super::hashes::Huey;
use super::scored::{Score, Slots};
use super::strings::{Free, Renew, Strings, Take};
use super::subjects::Subject;
use super::{Held, Hold, Library, Mode, Proof, Snapshot, Wake, Wire, Wish};
use crate::common::{Driver, Server};

/// A library behind a script, and the model that reads its keys.
struct Driven {
    language: Language,
    library: &'static str,
    port: u16,
    reads: Box<dyn Library>,
    renews: bool,
    /// It says whether a release found the lock.
    tells: bool,
    last: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Language {
    Python,
    Node,
}

thread_local! {
    /// One process for each language and server, since starting one takes longer than many sequences.
    static DRIVERS: RefCell<HashMap<(Language, u16), Driver>> = RefCell::default();
}

/// Ends the processes that this thread has started: their server is about to go.
pub fn dismiss() {
    DRIVERS.with_borrow_mut(HashMap::clear);
}

impl Driven {
    fn start(
        server: &Server,
        language: Language,
        library: &'static str,
        reads: Box<dyn Library>,
    ) -> Option<Box<dyn Library>> {
        let port = server.port();
        let ready = DRIVERS.with_borrow_mut(|drivers| {
            if let std::collections::hash_map::Entry::Vacant(place) = drivers.entry((language, port)) {
                let script = match language {
                    Language::Python => crate::common::Library::python("drive", server),
                    Language::Node => crate::common::Library::node("drive", server),
                };
                place.insert(script?.driver());
            }
            Some(())
        });
        ready?;
        let renews = matches!(library, "redis_py" | "python_redis_lock" | "pottery" | "redlock_v4" | "redlock_v5");
        let mut driven = Driven { language, library, port, reads, renews, tells: renews, last: Vec::new() };
        driven.order(json!({ "do": "forget" }));
        Some(Box::new(driven))
    }

    fn order(&mut self, order: Value) -> Value {
        DRIVERS.with_borrow_mut(|drivers| {
            let driver = drivers.get_mut(&(self.language, self.port)).expect("it was started");
            driver.order(&order)
        })
    }
}

impl Library for Driven {
    fn set_up(&mut self, wire: &mut Wire) {
        self.reads.set_up(wire);
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        self.reads.keys()
    }

    fn modes(&self) -> &'static [Mode] {
        self.reads.modes()
    }

    /// The library makes its own.
    fn token(&self, _process: u64, _serial: u64, _salt: u8) -> Vec<u8> {
        Vec::new()
    }

    fn acquire(&mut self, _wire: &mut Wire, wish: &Wish) -> bool {
        let order = json!({ "do": "acquire", "library": self.library, "client": wish.process, "ttl_ms": wish.lease });
        let answer = self.order(order);
        let token = answer["token"].as_str().unwrap_or_default();
        self.last = base64::engine::general_purpose::STANDARD.decode(token).expect("base64");
        answer["ok"] == true
    }

    fn is_of(&self, held: &Held, _wish: &Wish) -> bool {
        held.token == self.last
    }

    fn renew(&mut self, _wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let Some(lease) = lease.filter(|_| self.renews) else { return false };
        let order = json!({ "do": "renew", "library": self.library, "client": hold.process, "ttl_ms": lease });
        self.order(order)["ok"] == true
    }

    fn release(&mut self, _wire: &mut Wire, hold: &Hold) -> bool {
        let answer = self.order(json!({ "do": "release", "library": self.library, "client": hold.process }));
        answer["ok"] == true
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        self.reads.expire(wire, hold);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        self.reads.held(snapshot)
    }

    fn limit(&self) -> usize {
        self.reads.limit()
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        self.reads.is_reachable(snapshot)
    }

    fn excludes(&self, one: &Hold, other: &Hold) -> bool {
        self.reads.excludes(one, other)
    }

    fn wake(&self, freed: &[Hold], before: &Snapshot, after: &Snapshot) -> Wake {
        self.reads.wake(freed, before, after)
    }

    fn owns(&self, key: &[u8]) -> bool {
        self.reads.owns(key)
    }

    fn keeps_the_dead(&self) -> bool {
        self.reads.keeps_the_dead()
    }

    fn has_late_clients(&self) -> bool {
        self.tells
    }

    fn knows_its_own(&self) -> bool {
        self.tells
    }
}

fn string(key: &'static str, free: Free) -> Box<dyn Library> {
    let token = |_, _, _| Vec::new();
    Box::new(Strings { key: key.as_bytes(), take: Take::Set, renew: Renew::Never, free, token, beside: &[] })
}

fn rslock(server: &Server) -> Option<Box<dyn Library>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let manager = rslock::LockManager::new(vec![server.url()]);
    Some(Box::new(RsLock { runtime, manager, locks: HashMap::new(), reads: string("mill-lock", Free::IfMine) }))
}

/// rslock runs in this process: it is written in Rust.
struct RsLock {
    runtime: tokio::runtime::Runtime,
    manager: rslock::LockManager,
    locks: HashMap<u64, rslock::Lock>,
    reads: Box<dyn Library>,
}

impl Library for RsLock {
    fn keys(&self) -> Vec<Vec<u8>> {
        self.reads.keys()
    }

    fn token(&self, _process: u64, _serial: u64, _salt: u8) -> Vec<u8> {
        Vec::new()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        // It tries three times with pauses between: whoever is sure to be refused is not sent.
        if wire.run::<bool>(&[b"EXISTS", b"mill-lock"]) {
            return false;
        }
        let lease = std::time::Duration::from_millis(wish.lease.unwrap_or(30_000));
        let taken = self.runtime.block_on(self.manager.lock("mill-lock", lease));
        taken.map(|lock| self.locks.insert(wish.process, lock)).is_ok()
    }

    fn is_of(&self, held: &Held, wish: &Wish) -> bool {
        self.locks.get(&wish.process).is_some_and(|lock| lock.val == held.token)
    }

    fn renew(&mut self, _wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = std::time::Duration::from_millis(lease.unwrap_or(30_000));
        let Some(lock) = self.locks.get(&hold.process) else { return false };
        self.runtime.block_on(self.manager.extend(lock, lease)).is_ok()
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let Some(lock) = self.locks.remove(&hold.process) else { return false };
        let before: Option<Vec<u8>> = wire.run(&[b"GET", b"mill-lock"]);
        self.runtime.block_on(self.manager.unlock(&lock));
        let after: Option<Vec<u8>> = wire.run(&[b"GET", b"mill-lock"]);
        before != after
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        self.reads.expire(wire, hold);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        self.reads.held(snapshot)
    }

    fn owns(&self, key: &[u8]) -> bool {
        self.reads.owns(key)
    }

    fn knows_its_own(&self) -> bool {
        true
    }
}

pub static ALL: &[Subject] = &[
    Subject::real("redis-py itself", "redis-py", |server| {
        Driven::start(server, Language::Python, "redis_py", string("orders-lock", Free::IfMine))
    })
    .lasting(&[Some(30_000), None, Some(28_000)]),
    Subject::real("python-redis-lock itself", "python-redis-lock", |server| {
        let reads = string("lock:orders", Free::Signal("lock-signal:orders"));
        Driven::start(server, Language::Python, "python_redis_lock", reads)
    })
    .common()
    .lasting(&[Some(30_000), None, Some(28_000)]),
    Subject::real("pottery itself", "pottery", |server| {
        Driven::start(server, Language::Python, "pottery", string("redlock:orders", Free::IfMine))
    })
    .lasting(&[Some(10_000), Some(8_000)]),
    Subject::real("redlock-py itself", "redlock-py", |server| {
        Driven::start(server, Language::Python, "redlock_py", string("thumbnails-lock", Free::IfMine))
    }),
    Subject::real("huey itself", "huey", |server| Driven::start(server, Language::Python, "huey", Box::new(Huey)))
        .proves(Proof::Nothing)
        .lasting(&[None]),
    Subject::real("redlock 4 of node itself", "redlock", |server| {
        Driven::start(server, Language::Node, "redlock_v4", string("orders-lock", Free::IfMine))
    }),
    Subject::real("redlock 5 of node itself", "redlock", |server| {
        Driven::start(server, Language::Node, "redlock_v5", string("orders-lock", Free::IfMine))
    }),
    Subject::real("redis-semaphore of npm itself, mutex", "redis-semaphore-npm", |server| {
        Driven::start(server, Language::Node, "npm_mutex", string("mutex:orders", Free::IfMine))
    })
    .common()
    .lasting(&[Some(10_000), Some(8_000)]),
    Subject::real("redis-semaphore of npm itself, semaphore", "redis-semaphore-npm", |server| {
        let token = |_, _, _| Vec::new();
        let reads = Slots { key: "semaphore:orders", limit: 2, score: Score::Taken(10_000), token };
        Driven::start(server, Language::Node, "npm_semaphore", Box::new(reads))
    })
    .common()
    .lasting(&[Some(10_000)]),
    Subject::real("rslock itself", "rslock", rslock),
];
