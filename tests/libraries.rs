//! The real libraries store their locks as the dialects and the samples assume.
//!
//! Each test takes a lock with the real library and reads what is on the server. A library that is not installed counts
//! as left out.

mod common;

use std::time::Duration;

use common::{Library, Server, wait_until};

const TTL: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(20);

/// A string whose value is the token, with a TTL, gone after the release.
#[track_caller]
fn is_a_string_lock(library: Option<Library>, server: &Server, name: &str, key: &str) -> Option<String> {
    let taken = library?.acquire(name, TTL);
    assert_eq!(taken.key, key);
    let token: String = server.ask(&["GET", key]);
    assert_eq!(taken.token.as_ref(), Some(&token));
    let left: u64 = server.ask(&["PTTL", key]);
    assert!((1..=30_000).contains(&left), "{left} ms left");
    taken.release();
    assert!(!server.ask::<bool, _>(&["EXISTS", key]));
    Some(token)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid4(text: &str) -> bool {
    text.len() == 36 && text.as_bytes()[14] == b'4' && is_hex(&text.replace('-', ""), 32)
}

#[test]
fn redis_py() {
    let server = Server::start();
    let library = || Library::python("redis_py", &server);
    let Some(token) = is_a_string_lock(library(), &server, "orders", "orders") else { return };
    assert!(is_hex(&token, 32) && token.as_bytes()[12] == b'1', "{token} is a UUIDv1");
    let taken = library().unwrap().acquire_forever("orders");
    assert_eq!(server.ask::<i64, _>(&["PTTL", "orders"]), -1);
    taken.crash();
    assert!(server.ask::<bool, _>(&["EXISTS", "orders"]), "a dead holder leaves its lock behind");
}

#[test]
fn redis_py_underneath_others() {
    let server = Server::start();
    let django = Library::python("django_redis_lock", &server);
    is_a_string_lock(django, &server, "orders", ":1:orders");
    let once = Library::python("celery_once_task", &server);
    is_a_string_lock(once, &server, "shop.bill", "qo_shop.bill_customer-7");
    let beat = Library::python("redbeat_scheduler", &server);
    is_a_string_lock(beat, &server, "redbeat:", "redbeat::lock");
}

#[test]
fn python_redis_lock() {
    let server = Server::start();
    let library = || Library::python("python_redis_lock", &server);
    let Some(token) = is_a_string_lock(library(), &server, "orders", "lock:orders") else { return };
    assert!(token.len() == 24 && !token.ends_with('='), "{token} is base64 of 18 bytes");
    // Its signal list exists for a second after a release.
    assert!(server.ask::<i64, _>(&["PTTL", "lock-signal:orders"]) <= 1000);
}

#[test]
fn python_redis_lock_renews_until_its_holder_is_dead() {
    let server = Server::start();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    let taken = library.acquire_renewing("orders", Duration::from_secs(1));
    let left = || server.ask::<i64, _>(&["PTTL", "lock:orders"]);
    let mut low = i64::MAX;
    wait_until("a renewal", SOON, || {
        let now = left();
        let renewed = now > low;
        low = low.min(now);
        renewed
    });
    taken.crash();
    wait_until("the end of the lease", SOON, || left() == -2);
}

#[test]
fn a_waiter_of_python_redis_lock_gets_the_released_lock() {
    let server = Server::start();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    let first = library.acquire("orders", TTL);
    let waiter = library.attempt("ttl", "orders", TTL);
    wait_until("a blocked client", SOON, || server.ask::<String, _>(&["CLIENT", "LIST"]).contains("cmd=blpop"));
    let before = first.token.clone();
    first.release();
    let second = waiter.taken();
    assert_ne!(second.token, before);
    assert_eq!(second.token, server.ask(&["GET", "lock:orders"]));
}

#[test]
fn pottery_and_redlock_py() {
    let server = Server::start();
    let pottery = Library::python("pottery_redlock", &server);
    if let Some(token) = is_a_string_lock(pottery, &server, "orders", "redlock:orders") {
        assert!(is_uuid4(&token), "{token}");
    }
    let redlock = Library::python("redlock_py", &server);
    if let Some(token) = is_a_string_lock(redlock, &server, "orders", "orders") {
        assert!(token.len() == 22 && token.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{token}");
    }
}

#[test]
fn celery_singleton() {
    let server = Server::start();
    let Some(library) = Library::python("celery_singleton_task", &server) else { return };
    let taken = library.acquire_forever("shop.bill");
    assert!(is_hex(taken.key.strip_prefix("SINGLETONLOCK_").unwrap(), 32), "{}", taken.key);
    assert!(is_uuid4(&server.ask::<String, _>(&["GET", taken.key.as_str()])));
    assert_eq!(server.ask::<i64, _>(&["PTTL", taken.key.as_str()]), -1);
    taken.release();
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
}

#[test]
fn huey() {
    let server = Server::start();
    let Some(library) = Library::python("huey_hash", &server) else { return };
    let taken = library.acquire_forever("shop/nightly");
    let fields: Vec<String> = server.ask(&["HKEYS", "huey.results.shop"]);
    assert_eq!(fields, ["shop.result", "shop.lock.nightly"]);
    taken.release();
    assert_eq!(server.ask::<Vec<String>, _>(&["HKEYS", "huey.results.shop"]), ["shop.result"]);

    let library = Library::python("huey_expire", &server).unwrap();
    let taken = library.acquire_forever("shop/nightly");
    assert_eq!(server.ask::<String, _>(&["TYPE", taken.key.as_str()]), "string");
    assert_eq!(taken.key, "huey.r.shop.shop.lock.nightly");
    let value: Vec<u8> = server.ask(&["GET", taken.key.as_str()]);
    assert_eq!(value, common::samples::HUEY_ONE);
}

#[test]
fn redlock_of_node() {
    let server = Server::start();
    for version in ["redlock_v4", "redlock_v5"] {
        let library = || Library::node(version, &server);
        let Some(token) = is_a_string_lock(library(), &server, "orders", "orders") else { return };
        assert!(is_hex(&token, 32), "{token}");
        let mut taken = library().unwrap().acquire("orders,rows", TTL);
        taken.extend();
        let values: Vec<String> = server.ask(&["MGET", "orders", "rows"]);
        assert!(values.iter().all(|value| Some(value) == taken.token.as_ref()), "one value on all resources");
        taken.release();
    }
}

#[test]
fn redis_semaphore_of_node() {
    let server = Server::start();
    let mutex = Library::node("semaphore_mutex", &server);
    let Some(token) = is_a_string_lock(mutex, &server, "orders", "mutex:orders") else { return };
    assert!(is_uuid4(&token), "{token}");
    let library = Library::node("semaphore_permit", &server).unwrap();
    let (one, two) = (library.acquire("orders", TTL), library.acquire("orders", TTL));
    let members: Vec<String> = server.ask(&["ZRANGE", "semaphore:orders", "0", "-1"]);
    let mut tokens = [one.token.clone().unwrap(), two.token.clone().unwrap()];
    tokens.sort();
    let mut members = members;
    members.sort();
    assert_eq!(members, tokens);
}

#[test]
fn bullmq() {
    let server = Server::start();
    let Some(library) = Library::node("bullmq_job", &server) else { return };
    let taken = library.acquire_renewing("mail", TTL);
    assert_eq!(taken.key, "bull:mail:1:lock");
    let token: String = server.ask(&["GET", taken.key.as_str()]);
    assert_eq!(taken.token.as_ref(), Some(&token));
    let (worker, number) = token.split_once(':').unwrap();
    assert!(is_uuid4(worker) && number.parse::<u32>().is_ok(), "{token}");
    taken.release();
    wait_until("the job's lock is gone", SOON, || !server.ask::<bool, _>(&["EXISTS", "bull:mail:1:lock"]));
}

#[test]
fn rslock() {
    let server = Server::start();
    let manager = rslock::LockManager::new(vec![server.url()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lock = runtime.block_on(manager.lock("orders", TTL)).expect("the lock is free");
    let value: Vec<u8> = server.ask(&["GET", "orders"]);
    assert_eq!(value.len(), 20);
    assert_eq!(value, lock.val);
    assert!(server.ask::<u64, _>(&["PTTL", "orders"]) <= 30_000);
    runtime.block_on(manager.unlock(&lock));
    assert!(!server.ask::<bool, _>(&["EXISTS", "orders"]));
}
