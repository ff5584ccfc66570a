//! Every outcome of an attempt, judged in bursts of MONITOR, compared with the clients' own counts.
//!
//! `LOCKSCOPE_ATTEMPTS` sets the number of attempts.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::burst::{monitors, node, recogniser};
use common::{Server, left_out, wait_until};
use lockscope::base::clock::Clock;
use lockscope::dialects::scripts;
use lockscope::lock::Key;
use lockscope::sources::sampling::Scripts;
use lockscope::sources::sampling::burst::{self, Bounds, Burst};
use redis::{Connection, Value};

const PATIENCE: Duration = Duration::from_secs(30);

fn attempts() -> usize {
    std::env::var("LOCKSCOPE_ATTEMPTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

fn told() -> Server {
    Server::with(&["--notify-keyspace-events", "KEA"])
}

/// How a client takes a lock.
#[derive(Clone, Copy, Debug)]
enum Way {
    SetNx,
    SetnxThenExpire,
    Multi,
    Ours,
    OursReentrant,
    Counted,
    /// EXISTS, then SET without NX, as node-redlock does.
    ExistsThenSet,
    /// GET, then SET, as Spring does.
    GetThenSet,
    Redisson,
    /// One field of a hash, as Huey does.
    Hsetnx,
    /// Several keys at once, as redislock does.
    Msetnx,
    /// Like redsync: the attempt, and the release script after a failed one.
    Redsync,
    /// On a server that sometimes forgets its scripts.
    Forgetful,
}

const WAYS: [Way; 13] = [
    Way::SetNx,
    Way::SetnxThenExpire,
    Way::Multi,
    Way::Ours,
    Way::OursReentrant,
    Way::Counted,
    Way::ExistsThenSet,
    Way::GetThenSet,
    Way::Redisson,
    Way::Hsetnx,
    Way::Msetnx,
    Way::Redsync,
    Way::Forgetful,
];

const EXISTS_THEN_SET: &str = "if redis.call('exists', KEYS[1]) == 1 then return 0 end
    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
const GET_THEN_SET: &str = "local holder = redis.call('GET', KEYS[1])
    if holder == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end
    if not holder then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end
    return 0";
const ENTER: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return 1 end
    redis.call('pttl', KEYS[1]) return 0";
const MSETNX: &str =
    "if redis.call('msetnx', KEYS[1], ARGV[1]) == 1 then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end
    redis.call('getrange', KEYS[1], 0, 9) return 0";
const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const LEAVE: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then redis.call('del', KEYS[1]) end return 1";

struct Client {
    conn: Connection,
    way: Way,
    token: String,
    number: usize,
}

impl Client {
    /// By its hash, or with its text if the server does not know it.
    fn script(&mut self, text: &str, keys: &[&str], args: &[&str]) -> i64 {
        let hash = redis::Script::new(text).get_hash().to_string();
        let mut call = |command: &str, script: &str| {
            redis::cmd(command).arg(script).arg(keys.len()).arg(keys).arg(args).query::<Value>(&mut self.conn)
        };
        let answer = match call("EVALSHA", &hash) {
            Err(error) if error.code() == Some("NOSCRIPT") => call("EVAL", text),
            answer => answer,
        };
        match answer.unwrap() {
            Value::Int(number) => number,
            Value::Array(parts) => matches!(parts.first(), Some(Value::Int(1))).into(),
            other => panic!("{other:?}"),
        }
    }

    fn set_nx(&mut self, key: &str) -> bool {
        let set =
            redis::cmd("SET").arg(key).arg(&self.token).arg("NX").arg("PX").arg(60_000).query::<Value>(&mut self.conn);
        set.unwrap() == Value::Okay
    }

    fn attempt(&mut self, key: &str) -> bool {
        let token = self.token.clone();
        self.number += 1;
        match self.way {
            Way::SetNx => self.set_nx(key),
            Way::SetnxThenExpire => {
                let won: bool = redis::cmd("SETNX").arg(key).arg(&token).query(&mut self.conn).unwrap();
                if won {
                    redis::cmd("EXPIRE").arg(key).arg(60).exec(&mut self.conn).unwrap();
                }
                won
            }
            Way::Multi => {
                let mut pipe = redis::pipe();
                pipe.atomic().cmd("INCR").arg("count").ignore();
                pipe.cmd("SET").arg(key).arg(&token).arg("PX").arg(60_000).arg("NX");
                let (answer,): (Value,) = pipe.query(&mut self.conn).unwrap();
                answer == Value::Okay
            }
            Way::Ours => self.script(scripts::ACQUIRE.text, &[key], &[&token, "60000"]) == 1,
            Way::OursReentrant => self.script(scripts::REENTRANT_ACQUIRE.text, &[key], &[&token, "60000"]) == 1,
            Way::Counted => {
                let counts = format!("lockscope:{{{key}}}:counts");
                self.script(scripts::COUNTED_ACQUIRE.text, &[key, &counts], &[&token, "60000"]) == 1
            }
            Way::ExistsThenSet => self.script(EXISTS_THEN_SET, &[key], &[&token, "60000"]) == 1,
            Way::GetThenSet => self.script(GET_THEN_SET, &[key], &[&token, "60000"]) == 1,
            Way::Redisson => self.script(ENTER, &[key], &["60000", &token]) == 1,
            Way::Hsetnx => redis::cmd("HSETNX").arg(key).arg("field").arg(&token).query(&mut self.conn).unwrap(),
            Way::Msetnx => self.script(MSETNX, &[key], &[&token, "60000"]) == 1,
            Way::Redsync => {
                let won = self.set_nx(key);
                if !won {
                    self.script(COMPARE_AND_DELETE, &[key], &[&token]);
                }
                won
            }
            Way::Forgetful => {
                if self.number.is_multiple_of(7) {
                    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut self.conn).unwrap();
                }
                self.script(EXISTS_THEN_SET, &[key], &[&token, "60000"]) == 1
            }
        }
    }

    fn leave(&mut self, key: &str) {
        let token = self.token.clone();
        match self.way {
            Way::SetnxThenExpire => redis::cmd("DEL").arg(key).exec(&mut self.conn).unwrap(),
            Way::Hsetnx => redis::cmd("HDEL").arg(key).arg("field").exec(&mut self.conn).unwrap(),
            Way::OursReentrant => _ = self.script(scripts::REENTRANT_RELEASE.text, &[key], &[&token]),
            Way::Ours | Way::Counted => _ = self.script(scripts::RELEASE.text, &[key], &[&token]),
            Way::Redisson => _ = self.script(LEAVE, &[key], &[&token]),
            _ => _ = self.script(COMPARE_AND_DELETE, &[key], &[&token]),
        }
    }
}

/// Attempts and failures.
type Counts = HashMap<String, (u64, u64)>;

/// Three clients compete for two locks, for this many attempts.
fn contend(server: &Server, way: Way, attempts: usize) -> Counts {
    let mut counts = Counts::new();
    let mut clients: Vec<Client> = (0..3)
        .map(|number| Client { conn: server.connection(), way, token: format!("{way:?}-{number}"), number })
        .collect();
    let keys = [format!("lock:{way:?}:a"), format!("lock:{way:?}:b")];
    // Who holds each, and for how many more rounds.
    let mut held: [Option<(usize, usize)>; 2] = [None, None];
    for round in 0..attempts {
        let (lock, one) = (round % 2, (round * 7 + round / 5) % 3);
        let key = &keys[lock];
        let reentrant = matches!(way, Way::OursReentrant | Way::Redisson | Way::GetThenSet);
        // The holder itself tries again only if the lock is reentrant.
        let one = if !reentrant && held[lock].is_some_and(|(holder, _)| holder == one) { (one + 1) % 3 } else { one };
        let won = clients[one].attempt(key);
        let count = counts.entry(key.clone()).or_default();
        *count = (count.0 + 1, count.1 + u64::from(!won));
        match &mut held[lock] {
            None => {
                assert!(won, "{way:?}: a free lock was refused");
                held[lock] = Some((one, 1 + round % 4));
            }
            Some((holder, left)) => {
                assert_eq!(won, reentrant && *holder == one, "{way:?}: {key} is held");
                *left -= 1;
                if *left == 0 {
                    let holder = *holder;
                    // Leave as often as it entered: a remaining entry would still hold the lock.
                    clients[holder].leave(key);
                    while reentrant && redis::cmd("EXISTS").arg(key).query(&mut clients[holder].conn).unwrap() {
                        clients[holder].leave(key);
                    }
                    held[lock] = None;
                }
            }
        }
    }
    counts
}

/// Runs `deeds` during a burst, and ends the burst after them.
async fn during<T: Send + 'static>(
    server: &Arc<Server>,
    scripts: &mut Scripts,
    deeds: impl FnOnce(&Server) -> T + Send + 'static,
) -> (T, Burst) {
    let node = node(&server.url()).await;
    let recogniser = recogniser();
    let (done, stop) = tokio::sync::oneshot::channel();
    let clients = tokio::task::spawn_blocking({
        let server = server.clone();
        move || {
            wait_until("the burst to stand", PATIENCE, || monitors(&server) == 1);
            let result = deeds(&server);
            let _ = done.send(());
            result
        }
    });
    let bounds = Bounds { time: Duration::from_secs(120), lines: u64::MAX };
    let stop = async { _ = stop.await };
    let burst = burst::run_until(&node, &recogniser, scripts, bounds, Clock::start(), stop).await.unwrap();
    assert_eq!(burst.cut, None);
    (clients.await.unwrap(), burst)
}

fn seen(burst: &Burst) -> Counts {
    assert!(burst.locks.values().all(|seen| seen.unjudged == 0 && seen.unclear == 0));
    let tried = burst.locks.iter().filter(|(_, seen)| seen.attempts > 0);
    tried.map(|(key, seen)| (key.to_string(), (seen.attempts, seen.failures))).collect()
}

#[tokio::test]
async fn every_outcome_is_the_one_that_the_client_saw() {
    let server = Arc::new(told());
    let mut scripts = Scripts::default();
    let per_way = attempts().div_ceil(WAYS.len());
    let began = Instant::now();
    let (mut tried, mut lines) = (0, 0);
    for way in WAYS {
        let (counted, burst) = during(&server, &mut scripts, move |server| contend(server, way, per_way)).await;
        assert_eq!(seen(&burst), counted, "{way:?}");
        assert!(burst.locks.values().all(|seen| seen.notices.is_empty() || matches!(way, Way::SetnxThenExpire)));
        tried += counted.values().map(|(attempts, _)| attempts).sum::<u64>();
        lines += burst.lines;
    }
    println!("{tried} attempts in {lines} lines, none wrong, in {:?}", began.elapsed());
    assert_eq!(tried as usize, per_way * WAYS.len());
}

/// Attempts that the commands alone do not tell from other reads: each shape, with the locks that it wants.
struct Refused {
    name: &'static str,
    /// The text of the script, or of a function library.
    text: &'static str,
    /// Makes the locks, each held.
    holds: &'static [&'static [&'static str]],
    /// The call after the script's name, with the token in place of `T`.
    call: &'static [&'static str],
    locks: &'static [&'static str],
}

static REFUSED: [Refused; 7] = [
    Refused {
        name: "Spring",
        text: GET_THEN_SET,
        holds: &[&["SET", "lock:spring", "other"]],
        call: &["1", "lock:spring", "T", "60000"],
        locks: &["lock:spring"],
    },
    Refused {
        name: "aioredlock",
        text: "local holder = redis.call('get', KEYS[1])
            if not holder or holder == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
            return redis.error_reply('held')",
        holds: &[&["SET", "lock:aio", "other"]],
        call: &["1", "lock:aio", "T", "10000"],
        locks: &["lock:aio"],
    },
    Refused {
        name: "Redisson's permits",
        text: "local over = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, 1)
            if #over > 0 then redis.call('incrby', KEYS[1], redis.call('zrem', KEYS[2], unpack(over))) end
            local free = redis.call('get', KEYS[1])
            if free and tonumber(free) >= 1 then
                redis.call('decrby', KEYS[1], 1) redis.call('zadd', KEYS[2], ARGV[2], ARGV[1]) return 1 end
            redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES') return 0",
        holds: &[&["SET", "lock:permits", "0"], &["ZADD", "{lock:permits}:timeout", "9999999999999", "permit"]],
        call: &["2", "lock:permits", "{lock:permits}:timeout", "T", "9999999999999", "1700000000000"],
        locks: &["lock:permits"],
    },
    Refused {
        name: "Medallion's semaphore",
        text: "redis.call('time') redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[2])
            if redis.call('zcard', KEYS[1]) < 1 then
                redis.call('zadd', KEYS[1], ARGV[3], ARGV[1]) redis.call('pexpire', KEYS[1], 90000) return 1 end
            return 0",
        holds: &[&["ZADD", "lock:semaphore", "9999999999999", "other"]],
        call: &["1", "lock:semaphore", "T", "1700000000000", "9999999999999"],
        locks: &["lock:semaphore"],
    },
    Refused {
        name: "Laravel's funnel",
        text: "for slot, holder in pairs(redis.call('mget', unpack(KEYS))) do
            if not holder then redis.call('set', KEYS[slot], ARGV[1], 'EX', ARGV[2]) return 1 end end return 0",
        holds: &[&["MSET", "lock:funnel1", "other", "lock:funnel2", "other"]],
        call: &["2", "lock:funnel1", "lock:funnel2", "T", "60"],
        locks: &["lock:funnel1", "lock:funnel2"],
    },
    Refused {
        name: "a function",
        text: "#!lua name=one
            redis.register_function('one', function(KEYS, ARGV)
                if redis.call('GET', KEYS[1]) then return 0 end
                redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end)",
        holds: &[&["SET", "lock:function", "other"]],
        call: &["1", "lock:function", "T", "60000"],
        locks: &["lock:function"],
    },
    Refused {
        name: "a function that names no key",
        text: "#!lua name=many
            redis.register_function('many', function(_, ARGV)
                if redis.call('GET', 'lock:' .. ARGV[3]) then return 0 end
                redis.call('SET', 'lock:' .. ARGV[3], ARGV[1], 'EX', ARGV[2]) return 1 end)",
        holds: &[&["SET", "lock:resource", "other"]],
        call: &["0", "T", "60", "resource"],
        locks: &["lock:resource"],
    },
];

impl Refused {
    /// Runs it for each token; nobody gets a lock.
    fn attempts(&self, server: &Server, tokens: &[String]) {
        let mut conn = server.connection();
        let function = self.text.strip_prefix("#!lua name=").and_then(|text| text.split_whitespace().next());
        let hash = redis::Script::new(self.text).get_hash().to_string();
        for token in tokens {
            let mut call = match function {
                Some(name) => redis::cmd("FCALL").arg(name).to_owned(),
                None => redis::cmd("EVALSHA").arg(&hash).to_owned(),
            };
            for word in self.call {
                call.arg(if *word == "T" { token.as_str() } else { *word });
            }
            // Some answer with an error.
            let answer: redis::RedisResult<Value> = call.query(&mut conn);
            assert!(matches!(answer, Ok(Value::Int(0)) | Err(_)), "{}: {answer:?}", self.name);
        }
    }

    fn is_function(&self) -> bool {
        self.text.starts_with("#!")
    }

    fn prepare(&self, server: &Server) {
        self.holds.iter().for_each(|words| _ = server.cli(words));
        let words: &[&str] =
            if self.is_function() { &["FUNCTION", "LOAD", self.text] } else { &["SCRIPT", "LOAD", self.text] };
        server.cli(words);
    }
}

/// Whether the server has functions; if not, what needs them is left out.
fn has_functions(server: &Server) -> bool {
    let has = server.version() >= (7, 0, 0);
    if !has {
        left_out("version 6.2 of the server has no functions");
    }
    has
}

/// Those that this server can run.
fn refused_on(server: &Server) -> impl Iterator<Item = &'static Refused> {
    let functions = has_functions(server);
    REFUSED.iter().filter(move |refused| functions || !refused.is_function())
}

/// The script only reads, and nobody is ever seen to succeed with it.
#[tokio::test]
async fn refused_attempts_inside_a_script_that_only_reads_are_no_zero() {
    let server = Arc::new(told());
    for refused in refused_on(&server) {
        refused.prepare(&server);
        // The same token again and again, and a new one each time.
        let tokens: [Vec<String>; 2] =
            [vec!["contender".into(); 20], (0..20).map(|number| format!("contender-{number}")).collect()];
        for tokens in tokens {
            let attempts = tokens.len() as u64;
            let deeds = move |server: &Server| refused.attempts(server, &tokens);
            let ((), burst) = during(&server, &mut Scripts::default(), deeds).await;
            let expected: Counts = refused.locks.iter().map(|lock| (lock.to_string(), (attempts, attempts))).collect();
            assert_eq!(seen(&burst), expected, "{}", refused.name);
            assert!(burst.locks.values().all(|seen| seen.unclear == 0), "{}", refused.name);
        }
    }
}

/// One run that only reads may be an attempt, a late release, or neither.
#[tokio::test]
async fn a_run_that_is_not_understood_is_counted_as_such() {
    let server = Arc::new(told());
    for refused in refused_on(&server).filter(|refused| refused.name != "Medallion's semaphore") {
        refused.prepare(&server);
        let deeds = move |server: &Server| refused.attempts(server, &["contender".to_string()]);
        let ((), burst) = during(&server, &mut Scripts::default(), deeds).await;
        for lock in refused.locks {
            let seen = &burst.locks.get(&Key::from(*lock)).unwrap_or_else(|| panic!("{}: {lock}", refused.name));
            assert_eq!((seen.attempts, seen.unclear), (0, 1), "{}: {lock}", refused.name);
        }
    }
}

/// It took the lock long before, checks it again and again, and nobody else wants it.
#[tokio::test]
async fn a_holder_that_checks_its_own_lock_is_not_refused() {
    let server = Arc::new(told());
    server.cli(&["SET", "lock:own", "holder"]);
    server.cli(&["HSET", "lock:own-hash", "holder", "1"]);
    let deeds = |server: &Server| {
        let mut conn = server.connection();
        let checks = [
            ("lock:own", "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"),
            ("lock:own-hash", "return redis.call('HEXISTS', KEYS[1], ARGV[1])"),
        ];
        for (key, text) in checks {
            let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut conn).unwrap();
            for _ in 0..5 {
                let check = redis::cmd("EVALSHA").arg(&sha).arg(1).arg(key).arg("holder").clone();
                assert_eq!(check.query::<i64>(&mut conn).unwrap(), 1);
            }
        }
    };
    let mut scripts = Scripts::default();
    let ((), burst) = during(&server, &mut scripts, deeds).await;
    for key in ["lock:own", "lock:own-hash"] {
        let seen = burst.locks.get(&Key::from(key)).map(|seen| (seen.attempts, seen.failures, seen.contenders.len()));
        assert_eq!(seen.unwrap_or_default(), (0, 0, 0), "{key}: {:?}", burst.locks);
    }
}

/// The server tells the text of a function to whoever may ask.
#[tokio::test]
async fn one_run_of_a_function_is_understood_by_its_text() {
    const LOCKS: &str = "#!lua name=locks
        local function acquire(keys, args)
            if redis.call('EXISTS', keys[1]) == 1 then return 0 end
            redis.call('SET', keys[1], args[1], 'PX', args[2]) return 1
        end
        local function release(keys, args)
            if redis.call('GET', keys[1]) == args[1] then return redis.call('DEL', keys[1]) end
            return 0
        end
        redis.register_function('acquire_lock', acquire)
        redis.register_function('release_lock', release)";
    let server = Arc::new(told());
    if !has_functions(&server) {
        return;
    }
    server.cli(&["FUNCTION", "LOAD", LOCKS]);
    server.cli(&["SET", "lock:busy", "other"]);
    let deeds = |server: &Server| {
        let mut conn = server.connection();
        for (name, token) in [("acquire_lock", "one"), ("release_lock", "two")] {
            let call = redis::cmd("FCALL").arg(name).arg(1).arg("lock:busy").arg(token).arg(60_000).clone();
            assert_eq!(call.query::<i64>(&mut conn).unwrap(), 0);
        }
    };
    let ((), burst) = during(&server, &mut Scripts::default(), deeds).await;
    let seen = &burst.locks[&Key::from("lock:busy")];
    assert_eq!((seen.attempts, seen.failures, seen.unclear), (1, 1, 0));
}

/// Its pool hands out the connections in turn, as Redisson's did.
#[tokio::test]
async fn a_contender_with_many_connections_is_one_contender() {
    let server = Arc::new(told());
    server.cli(&["SET", "lock:spun", "other"]);
    let deeds = |server: &Server| {
        let mut pool: Vec<Connection> = (0..24).map(|_| server.connection()).collect();
        for round in 0..96 {
            let mut set = redis::cmd("SET");
            set.arg("lock:spun").arg("uuid:57").arg("NX").arg("PX").arg(30_000);
            assert_eq!(set.query::<Value>(&mut pool[round % 24]).unwrap(), Value::Nil);
        }
    };
    let ((), burst) = during(&server, &mut Scripts::default(), deeds).await;
    let seen = &burst.locks[&Key::from("lock:spun")];
    let contenders: Vec<u64> = seen.contenders.iter().map(|one| one.failures).collect();
    assert_eq!((seen.failures, contenders), (96, vec![96]));
}

/// All ways at once, on shared locks where possible.
#[tokio::test]
async fn clients_that_run_at_once_are_told_apart() {
    let server = Arc::new(told());
    let mut scripts = Scripts::default();
    let each = attempts() / 50;
    let (counted, burst) = during(&server, &mut scripts, move |server| {
        std::thread::scope(|scope| {
            let strings = [Way::SetNx, Way::Multi, Way::Ours, Way::ExistsThenSet, Way::Redsync, Way::Forgetful];
            let clients: Vec<_> = strings
                .into_iter()
                .enumerate()
                .map(|(number, way)| scope.spawn(move || race(server, way, number, each)))
                .collect();
            let mut sum = Counts::new();
            for client in clients {
                for (key, (attempts, failures)) in client.join().unwrap() {
                    let count = sum.entry(key).or_default();
                    *count = (count.0 + attempts, count.1 + failures);
                }
            }
            sum
        })
    })
    .await;
    assert_eq!(seen(&burst), counted);
    let contenders = &burst.locks[&Key::from("lock:shared:0")].contenders;
    assert_eq!(contenders.len(), 6, "each by its address");
    let (attempts, failures) = contenders.iter().fold((0, 0), |sum, one| (sum.0 + one.attempts, sum.1 + one.failures));
    assert_eq!((attempts, failures), counted["lock:shared:0"]);
}

/// Takes and frees a few locks that others want too.
fn race(server: &Server, way: Way, number: usize, attempts: usize) -> Counts {
    let mut client = Client { conn: server.connection(), way, token: format!("{way:?}-{number}"), number };
    let mut counts = Counts::new();
    for round in 0..attempts {
        let key = format!("lock:shared:{}", round % 3);
        let won = client.attempt(&key);
        let count = counts.entry(key.clone()).or_default();
        *count = (count.0 + 1, count.1 + u64::from(!won));
        if won {
            client.leave(&key);
        }
    }
    counts
}
