//! Models of the lock libraries: what each of them does on the server, as far as its locks go.
//!
//! A [`Library`] takes, renews, promotes and frees locks with commands of its own on a real server, and reads from a
//! [`Snapshot`] who holds what. It knows nothing of lockscope. The [`Ledger`] knows the holds by identity, whatever
//! their tokens are; [`run`] plays a sequence of steps of both sides and checks what must never happen.
//!
//! Written from the libraries' facts alone, so that a mistake of a dialect is not repeated here.

// Each test binary compiles this module for itself and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod broken;
pub mod changing;
pub mod driven;
pub mod hashes;
pub mod invariants;
pub mod ledger;
pub mod operator;
pub mod pools;
pub mod read_write;
pub mod redisson;
pub mod run;
pub mod scored;
pub mod sequence;
pub mod snapshot;
pub mod soak;
pub mod stall;
pub mod strings;
pub mod subjects;
pub mod tokens;
pub mod waiters;

pub use ledger::{Hold, Ledger};
pub use snapshot::{Content, Snapshot, Wire};
pub use subjects::Subject;

/// In what way a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Exclusive,
    Read,
    Write,
    Permit,
}

impl Mode {
    /// Nobody else may hold it beside this one.
    pub fn is_alone(self) -> bool {
        matches!(self, Mode::Exclusive | Mode::Write)
    }
}

/// What a client asks its library for.
#[derive(Clone, Debug)]
pub struct Wish {
    pub mode: Mode,
    /// `None`: without an end.
    pub lease: Option<u64>,
    pub token: Vec<u8>,
    /// Which process asks.
    pub process: u64,
    /// For choices that are the library's own, such as which of two items.
    pub salt: u8,
}

/// One hold as the server has it, by the library's own reading.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    pub key: Vec<u8>,
    /// As lockscope names the holder.
    pub token: Vec<u8>,
    pub mode: Mode,
    /// When it ends, in milliseconds of the server's Unix time.
    pub until: Option<i64>,
}

/// How waiters learn that a lock is free.
#[derive(Clone, PartialEq, Debug)]
pub enum Wake {
    /// They ask again, or nobody waits.
    Never,
    Message {
        channel: Vec<u8>,
        body: Option<Vec<u8>>,
    },
    /// An item in this list.
    Item(Vec<u8>),
}

/// How tokens of a library come about, and so what a token proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// A new token for each hold.
    EachHold,
    /// One for each process or thread: the same one may take the lock again under the same token.
    EachProcess,
    /// Anybody may use the same one.
    Nothing,
}

/// A library, on one server, with one lock.
pub trait Library {
    /// What is there before anybody takes the lock.
    fn set_up(&mut self, _wire: &mut Wire) {}

    /// The keys that an operator can look at.
    fn keys(&self) -> Vec<Vec<u8>>;

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Exclusive]
    }

    /// The token of a new hold: `process` is the client's, `serial` differs for each hold.
    fn token(&self, process: u64, serial: u64, salt: u8) -> Vec<u8>;

    /// Whether the library says that it has the lock now.
    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool;

    fn renew(&mut self, _wire: &mut Wire, _hold: &Hold, _lease: Option<u64>) -> bool {
        false
    }

    /// Whether the library says that it had the lock.
    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool;

    /// From reading to writing or back: what it holds then.
    fn promote(&mut self, _wire: &mut Wire, _hold: &Hold) -> Option<(Mode, Vec<u8>)> {
        None
    }

    /// The hold's time is over.
    fn expire(&mut self, wire: &mut Wire, hold: &Hold);

    fn held(&self, snapshot: &Snapshot) -> Vec<Held>;

    /// The hold that came of the wish.
    fn is_of(&self, held: &Held, wish: &Wish) -> bool {
        held.token == wish.token
    }

    /// The same holder, whose entry has another name now.
    fn is_still(&self, _hold: &Hold, _held: &Held) -> bool {
        false
    }

    /// The two can't hold it at once.
    fn excludes(&self, one: &Hold, other: &Hold) -> bool {
        one.mode.is_alone() || other.mode.is_alone()
    }

    /// How many may hold it at once in the way of permits.
    fn limit(&self) -> usize {
        usize::MAX
    }

    /// Whether the library itself could have brought this about.
    fn is_reachable(&self, _snapshot: &Snapshot) -> Result<(), String> {
        Ok(())
    }

    /// What a release of ours that freed these has to send; `after` is what is there then.
    fn wake(&self, _freed: &[Hold], _before: &Snapshot, _after: &Snapshot) -> Wake {
        Wake::Never
    }

    /// Whoever held the lock left a trace of it on the server, so that no consent is needed to know it.
    fn leaves_a_trace(&self) -> bool {
        false
    }

    /// The channel that a client with this token listens to while it waits.
    fn waits_on(&self, _token: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// How many clients sleep until somebody wakes them.
    fn waiting(&self) -> usize {
        0
    }

    /// After a release of ours: one of those who sleep was woken.
    fn wakes(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Whether the key belongs to the lock: all others stay untouched.
    fn owns(&self, key: &[u8]) -> bool;

    /// A client whose lock is gone still asks to renew or to free it.
    fn has_late_clients(&self) -> bool {
        true
    }

    /// Its answer to a release is the truth about who held the lock.
    fn knows_its_own(&self) -> bool {
        false
    }

    /// Holds can't be told apart at all: only their number counts.
    fn is_counted(&self) -> bool {
        false
    }

    /// What is over stays in the key, without any effect, until somebody asks for the lock.
    fn keeps_the_dead(&self) -> bool {
        false
    }
}
