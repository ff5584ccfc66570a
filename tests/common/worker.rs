//! A client that does its work in threads, on a schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A worker with threads of its own, stopped when it is dropped.
pub struct Worker(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Worker {
    pub fn new() -> Worker {
        Worker(Arc::default(), Vec::new())
    }

    /// Does it again and again in a thread, with a pause before each time.
    pub fn repeat(&mut self, pause: Duration, mut deed: impl FnMut() + Send + 'static) {
        let stop = self.0.clone();
        self.1.push(std::thread::spawn(move || {
            loop {
                let end = Instant::now() + pause;
                while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(20));
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                deed();
            }
        }));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().expect("a worker does not panic"));
    }
}
