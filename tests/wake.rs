//! What a release does beyond deleting a key, for each library: who is woken, what is removed with the lock, what
//! stays.
//!
//! Each case is freed on a real server while clients listen where that library's waiters do. First the holder changes
//! after the operator saw it, and then nothing may happen.

#[path = "wake/cases.rs"]
mod cases;
mod common;

use std::thread;
use std::time::Duration;

use cases::*;
use common::acting::Acting;
use common::program::has;
use common::samples::{ALL, Sample};
use common::{Library, Listener, Server, lockscope, wait_until};
use lockscope::actions::{Freeing, Outcome, Performed, plan};
use redis::Value;

const SOON: Duration = Duration::from_secs(30);

/// A reply as one word.
fn answer(value: &Value) -> String {
    match value {
        Value::Nil => "nil".into(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(items) => items.iter().map(answer).collect::<Vec<_>>().join(","),
        other => format!("{other:?}"),
    }
}

fn is_done(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

fn is_refused(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Refused(_))
}

fn set_up(server: &Server, case: &Case) {
    server.cli(&["FLUSHALL"]);
    case.set_up.iter().for_each(|line| drop(server.cli(line)));
}

#[tokio::test]
async fn a_release_does_what_the_library_would_do_and_nothing_else() {
    let server = Server::start();
    let shards = has((7, 0), "sharded channels");
    let mut acting = Acting::on(&server).await;
    for case in CASES {
        let name = case.name;
        let listens = case.listens.iter().filter(|(how, ..)| shards || *how != "SSUBSCRIBE");
        let mut listeners: Vec<_> =
            listens.map(|(how, channel, told)| (Listener::on(&server, how, channel), *told)).collect();
        let told = Some(case.dialect);
        for change in case.changes {
            set_up(&server, case);
            let lock = acting.see(case.key.as_bytes(), told).await.unwrap_or_else(|| panic!("{name} is no lock"));
            change.iter().for_each(|line| drop(server.cli(line)));
            let before = server.everything();
            let refused = acting.free(&lock, case.holder.map(str::as_bytes)).await;
            assert!(is_refused(&refused), "{name} after {change:?}: {refused:?}");
            assert_eq!(server.everything(), before, "{name} after {change:?}");
            for (listener, _) in &mut listeners {
                assert_eq!(listener.heard(&server), [""; 0], "{name} after {change:?}");
            }
        }
        set_up(&server, case);
        let lock = acting.see(case.key.as_bytes(), told).await.unwrap_or_else(|| panic!("{name} is no lock"));
        assert_eq!(lock.dialect, case.dialect, "{name}");
        let freed = acting.free(&lock, case.holder.map(str::as_bytes)).await;
        let woken: usize = listeners.iter().map(|(_, told)| told.len()).sum();
        assert_eq!(freed.outcome, Outcome::Done { woken: woken as u64, silent: None }, "{name}");
        for (line, expected) in case.after {
            assert_eq!(answer(&server.ask::<Value, _>(line)), *expected, "{name}: {line:?}");
        }
        for (listener, told) in &mut listeners {
            assert_eq!(listener.heard(&server), *told, "{name}");
        }
    }
}

const QUEUE: &str = "redisson_lock_queue:{lock:fair}";
const DEADLINES: &str = "redisson_lock_timeout:{lock:fair}";

/// What Redisson does when a lock is taken: listens, and tries again after each message.
fn redisson_waiter(
    server: &Server,
    channel: String,
    take: &'static str,
    key: &'static str,
    id: &'static str,
) -> thread::JoinHandle<()> {
    let mut listener = Listener::on(server, "SUBSCRIBE", &channel);
    let mut connection = server.connection();
    thread::spawn(move || {
        let mut attempt = || -> bool {
            redis::cmd("EVAL").arg(take).arg(1).arg(key).arg(id).query(&mut connection).expect("an answer")
        };
        while !attempt() {
            listener.next();
        }
    })
}

const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
    redis.call('HSET', KEYS[1], ARGV[1], 1) return 1";
const TAKE_IN_TURN: &str = "local queue = 'redisson_lock_queue:{' .. KEYS[1] .. '}'
    if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('LINDEX', queue, 0) ~= ARGV[1] then return 0 end
    redis.call('LPOP', queue) redis.call('HSET', KEYS[1], ARGV[1], 1) return 1";

#[tokio::test]
async fn a_waiter_of_redisson_takes_the_lock_that_was_freed() {
    let server = Server::start();
    // Without a TTL a waiter relies on the message alone.
    server.cli(&["HSET", "lock:a", A, "1"]);
    let waiter = redisson_waiter(&server, "redisson_lock__channel:{lock:a}".into(), TAKE, "lock:a", B);
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:a", None).await.expect("a lock");
    assert!(is_done(&acting.free(&lock, Some(A.as_bytes())).await));
    wait_until("the waiter has the lock", SOON, || server.ask(&["HEXISTS", "lock:a", B]));
    waiter.join().unwrap();
}

#[tokio::test]
async fn the_first_living_waiter_of_a_fair_lock_takes_it() {
    let server = Server::start();
    server.cli(&["HSET", "lock:fair", A, "1"]);
    server.cli(&["RPUSH", QUEUE, "dead", B, C]);
    server.cli(&["ZADD", DEADLINES, "1", "dead", FAR, B, FAR, C]);
    let channel = |id: &str| format!("redisson_lock__channel:{{lock:fair}}:{id}");
    let first = redisson_waiter(&server, channel(B), TAKE_IN_TURN, "lock:fair", B);
    let second = redisson_waiter(&server, channel(C), TAKE_IN_TURN, "lock:fair", C);
    let mut acting = Acting::on(&server).await;
    for (holder, next, waiter) in [(A, B, first), (B, C, second)] {
        let lock = acting.see(b"lock:fair", None).await.expect("a lock");
        assert!(is_done(&acting.free(&lock, Some(holder.as_bytes())).await));
        waiter.join().unwrap();
        assert!(server.ask::<bool, _>(&["HEXISTS", "lock:fair", next]));
    }
}

fn blocked(server: &Server, command: &str) -> bool {
    server.ask::<String, _>(&["CLIENT", "LIST"]).contains(&format!("cmd={command}"))
}

#[test]
fn a_client_blocked_on_a_ruby_semaphore_gets_the_token() {
    let server = Server::start();
    server.cli(&["HSET", "SEMAPHORE:gateway:GRABBED", "0", "1749999000.5"]);
    let mut connection = server.connection();
    let waiter = thread::spawn(move || -> (String, String) {
        redis::cmd("BLPOP").arg("SEMAPHORE:gateway:AVAILABLE").arg(30).query(&mut connection).expect("a token")
    });
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    let ran = lockscope()
        .args(["release", "SEMAPHORE:gateway:GRABBED", "--holder", "0", "--yes", "-u", &server.url()])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
    assert_eq!(waiter.join().unwrap().1, "0");
    assert!(!server.ask::<bool, _>(&["EXISTS", "SEMAPHORE:gateway:GRABBED"]));
}

#[tokio::test]
async fn a_waiter_of_python_redis_lock_wakes_up_where_a_bare_del_leaves_it_hanging() {
    let server = Server::start();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    let holder = library.acquire_forever("orders");
    let waiter = library.attempt("forever", "orders", Duration::ZERO);
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    assert_eq!(lock.dialect, "python-redis-lock");
    assert!(is_done(&acting.free(&lock, holder.token.as_deref().map(str::as_bytes)).await));
    let second = waiter.taken();
    assert_eq!(second.token, server.ask(&["GET", "lock:orders"]));

    let third = library.attempt("forever", "orders", Duration::ZERO);
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    server.cli(&["DEL", "lock:orders"]);
    // To see that nothing happens, we can only wait.
    thread::sleep(Duration::from_secs(1));
    assert!(blocked(&server, "blpop") && !server.ask::<bool, _>(&["EXISTS", "lock:orders"]), "nobody told it");
    server.cli(&["LPUSH", "lock-signal:orders", "1"]);
    assert_eq!(third.taken().token, server.ask(&["GET", "lock:orders"]));
}

#[tokio::test]
async fn whoever_can_not_ask_any_more_whether_somebody_waits_does_not_free_it() {
    let server = Server::start();
    server.cli(&["SET", "lock:orders", "an-id-of-its-own"]);
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    assert_eq!(lock.proof.blocked, Some(false));
    server.cli(&["ACL", "SETUSER", "default", "-info"]);
    let refused = acting.free(&lock, None).await;
    assert!(is_refused(&refused) && refused.outcome.why().unwrap().contains("no longer says"), "{refused:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:orders"]));
}

fn sample(server: &Server, name: &str) -> Sample {
    let (_, create) = ALL.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no sample {name}"));
    create(&mut server.connection())
}

#[tokio::test]
async fn the_lock_of_a_bullmq_job_is_freed_by_force_only() {
    let server = Server::start();
    let sample = sample(&server, "bullmq");
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(&sample.key, None).await.expect("a lock");
    let before = server.everything();
    let plan = plan::free(&lock, Freeing::default(), acting.clock.now()).expect("a plan");
    let refused = acting.perform(&plan).await;
    assert!(is_refused(&refused) && refused.outcome.why().unwrap().contains("--force"), "{refused:?}");
    assert_eq!(server.everything(), before);

    let holder = String::from_utf8(sample.holders[0].token.clone()).unwrap();
    let run = |more: &[&str]| {
        let mut command = lockscope();
        command.args(["release", "bull:mail:1:lock", "--holder", &holder, "--yes", "-u", &server.url()]).args(more);
        command.output().unwrap()
    };
    let ran = run(&[]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--force"), "{ran:?}");
    assert_eq!(server.everything(), before);
    let ran = run(&["--force"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "bull:mail:1:lock"]));
    assert!(server.ask::<bool, _>(&["EXISTS", "bull:mail:1"]), "the job stays");
}

#[tokio::test]
async fn what_an_operator_must_know_is_in_the_plan() {
    let server = Server::start();
    let acting = Acting::on(&server).await;
    for (name, words) in [
        ("RedLock.net", "creates the key again within half of its lease"),
        ("redsync", "creates the key again when it next extends"),
        ("redlock-rb", "may create the key again"),
        ("hangfire", "without pause"),
        ("shedlock", "stays on purpose"),
        ("node-redlock", "several independent servers"),
        ("spring", "Java lock"),
        ("huey", "does not store who holds"),
        ("sidekiq-unique-jobs", "a second one like it"),
        ("redisson semaphore", "one client too many"),
    ] {
        let sample = sample(&server, name);
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        let plan = acting.plan_free(&lock, None);
        let told = plan.hazards.iter().chain(plan.safe.as_ref().map(|safe| &safe.if_freed));
        assert!(told.clone().any(|sentence| sentence.contains(words)), "{name}: {:?}", told.collect::<Vec<_>>());
    }
}

/// All other string locks: compare and delete.
#[tokio::test]
async fn a_string_lock_is_compared_and_deleted() {
    let server = Server::start();
    let acting = Acting::on(&server).await;
    for name in [
        "redis-py",
        "django-redis",
        "celery-once",
        "redbeat",
        "node-redlock",
        "redsync",
        "bsm/redislock",
        "rslock",
        "pottery",
        "RedLock.net",
        "redlock-py",
        "redlock-rb",
        "shedlock",
        "laravel lock",
        "medallion",
        "stackexchange",
        "hangfire",
        "celery-singleton",
        "resque-scheduler",
        "redis-semaphore of npm, mutex",
        "plain",
    ] {
        let sample = sample(&server, name);
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        let plan = acting.plan_free(&lock, Some(&sample.holders[0].token));
        let conditions = plan.conditions();
        let mut conditions = conditions.split(" and ");
        assert!(conditions.next().is_some_and(|value| value.starts_with("GET ")), "{name}");
        // If holders use the same token each time, the lease too; and no client sleeps that would have to be woken.
        let known = |clause: &str| {
            clause.ends_with("still ends at the moment that you saw") || clause.starts_with("no client is blocked")
        };
        assert!(conditions.all(known), "{name}: {}", plan.conditions());
        let commands = plan.commands();
        assert_eq!(commands[0], format!("DEL {}", lockscope::base::text::visible(&sample.key)), "{name}");
        // If the library is a guess and may be Spring's, Spring's waiters are notified too, which does no harm to
        // others.
        let of_spring = |command: &String| command.starts_with("PUBLISH ") && command.contains("-channel:");
        assert!(commands[1..].iter().all(of_spring), "{name}: {commands:?}");
        assert!(commands.len() == 1 || lock.dialect_confidence < 0.8, "{name}: {commands:?}");
    }
}

#[test]
fn waiters_of_a_library_that_was_only_the_second_guess_wake_up() {
    let server = Server::start();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    // With an id of its own, a lock of python-redis-lock looks like any other.
    server.cli(&["SET", "lock:orders", "batch-importer"]);
    let waiters: Vec<_> = (0..3).map(|_| library.attempt("forever", "orders", Duration::ZERO)).collect();
    let waiting = || server.ask::<String, _>(&["CLIENT", "LIST"]).matches("cmd=blpop").count();
    wait_until("three blocked clients", SOON, || waiting() == 3);
    let shown = lockscope()
        .args(["release", "lock:orders", "--holder", "batch-importer", "--dry-run", "-u", &server.url()])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("(plain") && shown.contains("LPUSH lock-signal:orders 1"), "{shown}");
    let ran = lockscope()
        .args(["release", "lock:orders", "--holder", "batch-importer", "--yes", "-u", &server.url()])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
    for left in [2, 1, 0] {
        // Each of them gets it in turn.
        wait_until("one more has the lock", SOON, || {
            waiting() == left && server.ask::<bool, _>(&["EXISTS", "lock:orders"])
        });
        if left > 0 {
            let token: String = server.ask(&["GET", "lock:orders"]);
            let ran = lockscope()
                .args(["release", "lock:orders", "--holder", &token, "--yes", "-u", &server.url()])
                .output()
                .unwrap();
            assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
        }
    }
    drop(waiters);
}

#[test]
fn waiters_that_came_while_somebody_decided_are_not_left_asleep() {
    let server = Server::start();
    let desk = common::Desk::at(&server);
    server.cli(&["SET", "lock:orders", "batch-importer"]);
    let shown = desk.run(&["release", "lock:orders", "--holder", "batch-importer", "--dry-run", "--json"]);
    assert_eq!(shown.json()["commands"], serde_json::json!(["DEL lock:orders"]), "nobody waits, nobody is woken");
    assert!(shown.json()["conditions"].as_str().unwrap().contains("no client is blocked"), "{shown:?}");
}

#[tokio::test]
async fn a_plan_made_while_nobody_waited_is_refused_once_somebody_does() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    server.cli(&["SET", "lock:orders", "batch-importer"]);
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    let plan = acting.plan_free(&lock, Some(b"batch-importer"));
    let mut connection = server.connection();
    let waiter = thread::spawn(move || -> redis::RedisResult<(String, String)> {
        redis::cmd("BLPOP").arg("lock-signal:orders").arg(60).query(&mut connection)
    });
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    let refused = acting.perform(&plan).await;
    assert!(is_refused(&refused) && refused.outcome.why().unwrap().contains("blocked"), "{refused:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:orders"]));
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    assert!(is_done(&acting.free(&lock, Some(b"batch-importer")).await));
    assert_eq!(waiter.join().unwrap().unwrap().1, "1");
}

#[test]
fn a_lock_that_may_be_of_spring_is_freed_with_its_message() {
    let server = Server::start();
    let desk = common::Desk::at(&server);
    for (key, registry) in
        [("lock:orders", "lock"), ("order-locks:17", "order-locks"), ("app:eu:orders-lock", "app:eu")]
    {
        server.cli(&["SET", key, UUID, "PX", "60000"]);
        let mut waiter = Listener::on(&server, "PSUBSCRIBE", &format!("{registry}-channel:*"));
        let ran = desk.run(&["release", key, "--holder", UUID, "--yes", "--json"]);
        assert_eq!((ran.code, &ran.json()["woke"]), (0, &1.into()), "{ran:?}");
        assert_eq!(waiter.heard(&server), [key]);
    }
}

#[tokio::test]
async fn whoever_may_not_wake_a_library_that_is_only_a_guess_frees_all_the_same_and_says_so() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "op", "reset", "on", ">pw", "~lock:*", "resetchannels", "&redisson*", "+@all"]);
    let mut acting = Acting::as_user(&server, "op:pw@").await;
    server.cli(&["SET", "lock:orders", UUID, "PX", "60000"]);
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    let freed = acting.free(&lock, Some(UUID.as_bytes())).await;
    assert!(matches!(&freed.outcome, Outcome::Done { silent: Some(_), .. }), "{freed:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:orders"]));
}
