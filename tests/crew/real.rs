//! Processes of the real libraries: each takes a lock, works, frees it and ends, again and again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::book::{Book, Fate, Rule, Turn};
use super::dice::Dice;
use super::{Fortune, Reals, Stop};
use crate::common::{Library, Server, Taken};

/// One library, and the lock that it takes.
struct Real {
    script: &'static str,
    node: bool,
    scenario: &'static str,
    name: &'static str,
    lease: u64,
    /// The share of the lease after which it renews.
    renews: Option<f64>,
    /// Also in the short run.
    always: bool,
}

const fn python(script: &'static str, scenario: &'static str, name: &'static str) -> Real {
    Real { script, node: false, scenario, name, lease: 30_000, renews: None, always: false }
}

const fn node(script: &'static str, scenario: &'static str, name: &'static str) -> Real {
    Real { node: true, ..python(script, scenario, name) }
}

impl Real {
    const fn lease(self, lease: u64) -> Real {
        Real { lease, ..self }
    }

    const fn renews(self, share: f64) -> Real {
        Real { renews: Some(share), ..self }
    }

    const fn always(self) -> Real {
        Real { always: true, ..self }
    }

    fn library(&self, server: &Server) -> Option<Library> {
        if self.node { Library::node(self.script, server) } else { Library::python(self.script, server) }
    }

    fn take(&self, library: &Library) -> Taken {
        let lease = Duration::from_millis(self.lease);
        library.attempt(self.scenario, self.name, lease).taken()
    }
}

static ALL: &[Real] = &[
    python("python_redis_lock", "renew", "real-report").lease(9_000).renews(2.0 / 3.0).always(),
    python("python_redis_lock", "ttl", "real-digest"),
    python("redis_py", "ttl", "real-invoice-lock").always(),
    python("redis_py", "forever", "real-reindex-lock"),
    python("django_redis_lock", "ttl", "real-newsletter-lock"),
    python("pottery_redlock", "ttl", "real-printer").lease(10_000),
    python("redlock_py", "ttl", "real-thumbnails-lock"),
    python("celery_singleton_task", "forever", "real.bill"),
    python("celery_once_task", "ttl", "real.mail").lease(3_600_000),
    python("redbeat_scheduler", "renew", "real-redbeat:").lease(25_000).renews(0.2),
    node("redlock_v5", "renew", "real-account-lock").lease(6_000).renews(0.5).always(),
    node("redlock_v4", "ttl", "real-seat-lock"),
    node("bullmq_job", "renew", "real-mail").lease(10_000).renews(0.25).always(),
    node("semaphore_mutex", "renew", "real-thing").lease(10_000).renews(0.8),
    node("semaphore_permit", "renew", "real-things").lease(10_000).renews(0.8),
];

/// Starts them, as far as they are installed.
pub fn start(
    server: &Arc<Server>,
    seed: u64,
    fortune: Fortune,
    reals: Reals,
    book: &Arc<Book>,
    stop: &Stop,
) -> Vec<JoinHandle<()>> {
    let chosen = ALL.iter().enumerate().filter(|(_, real)| real.always || reals == Reals::All);
    let mut threads: Vec<JoinHandle<()>> = chosen
        .filter_map(|(number, real)| {
            let library = real.library(server)?;
            let dice = Dice::new(seed, 10_000 + number as u64);
            let (book, stop) = (book.clone(), stop.clone());
            let server = server.clone();
            Some(std::thread::spawn(move || run(real, &library, &server, dice, fortune, &book, &stop)))
        })
        .collect();
    let (url, book, stop, dice) = (server.url(), book.clone(), stop.clone(), Dice::new(seed, 20_000));
    threads.push(std::thread::spawn(move || rslock(&url, dice, &book, &stop)));
    threads
}

fn run(real: &Real, library: &Library, server: &Server, mut dice: Dice, fortune: Fortune, book: &Book, stop: &Stop) {
    stop.wait_until(Instant::now() + dice.seconds(0.0, 4.0));
    while !stop.is_set() {
        let from = Instant::now();
        let taken = real.take(library);
        let key = taken.key.clone().into_bytes();
        book.rule(key.clone(), Rule::default());
        let lease = (real.scenario != "forever").then_some(Duration::from_millis(real.lease));
        let period = lease.zip(real.renews).map(|(lease, share)| lease.mul_f64(share));
        let number = book.take(Turn::new(key, from, lease, period));
        let most = match (lease, period) {
            (Some(lease), None) => lease.as_secs_f64() * 0.8,
            _ => 45.0,
        };
        let end = Instant::now() + dice.seconds(10.0, 45.0).min(Duration::from_secs_f64(most));
        let dies = fortune == Fortune::Accidents && dice.chance(0.3);
        if !follow(server, &taken.key, book, number, end, stop) {
            return;
        }
        if dies {
            let key = taken.key.clone();
            taken.crash();
            let died = Instant::now();
            book.change(number, |turn| turn.fate = Fate::Died(died));
            // It may have renewed just before.
            follow(server, &key, book, number, died, stop);
            let (Some(end), Some(_)) = (book.turn(number).end_of_lease(), lease.filter(|_| real.lease <= 60_000))
            else {
                return;
            };
            // The next one must not have to wait for it.
            if !stop.wait_until(end + Duration::from_secs(2)) {
                return;
            }
        } else {
            taken.release();
            book.change(number, |turn| turn.to = Some(Instant::now()));
        }
        stop.wait_until(Instant::now() + dice.seconds(0.5, 3.0));
    }
}

/// Waits until then, and enters the renewals that the library makes by itself; whether the time came. What is left of the
/// key's time says when each was, and asking for that does not count as a use of the key.
fn follow(server: &Server, key: &str, book: &Book, number: usize, end: Instant, stop: &Stop) -> bool {
    let mut asking = server.connection();
    loop {
        let left: i64 = redis::cmd("PTTL").arg(key).query(&mut asking).expect("a server that answers");
        let now = Instant::now();
        book.change(number, |turn| {
            let Some(lease) = turn.lease.filter(|_| turn.period.is_some() && left > 0) else { return };
            let renewal = (now + Duration::from_millis(left as u64)).checked_sub(lease);
            let news = renewal.filter(|at| *at > turn.last_renewal(now) + Duration::from_millis(300));
            turn.renewals.extend(news);
        });
        if now >= end || !stop.wait_until(end.min(now + Duration::from_millis(200))) {
            return now >= end && !stop.is_set();
        }
    }
}

/// rslock runs in this process.
fn rslock(url: &str, mut dice: Dice, book: &Book, stop: &Stop) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let manager = rslock::LockManager::new(vec![url.to_owned()]);
    let (key, lease) = (b"real-mill-lock".to_vec(), Duration::from_secs(20));
    book.rule(key.clone(), Rule::default());
    while !stop.is_set() {
        let from = Instant::now();
        let lock = runtime.block_on(manager.lock(&key[..], lease)).expect("nobody else wants it");
        let number = book.take(Turn::new(key.clone(), from, Some(lease), None));
        let works = stop.wait_until(Instant::now() + dice.seconds(2.0, 15.0));
        if works {
            runtime.block_on(manager.unlock(&lock));
            book.change(number, |turn| turn.to = Some(Instant::now()));
        }
        stop.wait_until(Instant::now() + dice.seconds(0.5, 3.0));
    }
}
