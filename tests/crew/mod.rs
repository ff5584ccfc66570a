//! A crew: processes that use the locks of all libraries at once, and a book of what each of them was told to do.
//!
//! Where a library is installed, the real one takes the locks (`real.rs`); the others take them by their exact commands
//! (`tests/models`), each over connections as it uses them (`connections.rs`, `habits.rs`). The book (`book.rs`) is
//! the truth that verdicts are compared with; nothing in it comes from lockscope. `opening.rs` opens lockscope beside
//! the crew, `calibration.rs` compares what it said with the book.

// Each test binary compiles this module for itself and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod book;
pub mod calibration;
pub mod connections;
pub mod dice;
pub mod habits;
pub mod opening;
pub mod process;
pub mod real;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use book::{Book, Fate, Rule, Turn};
pub use calibration::Calibration;
pub use dice::Dice;
pub use opening::{Opening, Said};

use crate::common::Server;
use crate::models::Wire;
use crate::models::subjects::ALL;

/// What may become of a process that holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fortune {
    /// All work, renew in time and free what they took.
    Health,
    /// Now and then one dies or hangs in the middle of its work.
    Accidents,
}

/// Which of the real libraries take part: each is a process, which takes a while to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reals {
    Few,
    All,
}

/// All processes on one server. They end with this value.
pub struct Crew {
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
    pub book: Arc<Book>,
}

/// Told to all threads at once.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until then, or until all are to stop; whether the time came.
    pub fn wait_until(&self, end: Instant) -> bool {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.is_set() || left.is_zero() {
                return !self.is_set();
            }
            std::thread::sleep(left.min(Duration::from_millis(25)));
        }
    }
}

impl Crew {
    /// The same seed gives the same processes, tokens and times of work.
    pub fn start(server: &Arc<Server>, seed: u64, fortune: Fortune, real: Reals) -> Crew {
        let mut crew = Crew { stop: Stop::default(), threads: Vec::new(), book: Arc::default() };
        let mut wire = Wire::new(server.connection());
        for (number, subject) in ALL.iter().enumerate() {
            let Some(habits) = habits::of(subject) else { continue };
            let habits = habits.settled(subject, &mut Dice::new(seed, 30_000 + number as u64));
            let mut library = subject.library(server);
            library.set_up(&mut wire);
            for key in library.keys() {
                crew.book.rule(key, habits.rule(subject));
            }
            for nth in 0..habits.processes {
                let dice = Dice::new(seed, (number * 10 + nth) as u64);
                let (server, book, stop) = (server.clone(), crew.book.clone(), crew.stop.clone());
                let work = move || process::Process::new(subject, habits, dice, server, book, stop, fortune).run();
                crew.threads.push(std::thread::spawn(work));
            }
        }
        crew.threads.extend(real::start(server, seed, fortune, real, &crew.book, &crew.stop));
        crew
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a process of the crew panicked");
        }
    }
}
