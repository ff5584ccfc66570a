//! The on-call trial: the trouble is made before lockscope starts. What `ls`, `show` and the console answer at first, and
//! what `ls` answers after a renewal period, is compared with what was planted.
//!
//! Never a false claim: nothing that lives is an orphan or stalled. And what can be known is: a dead process's lock is on
//! top of the first screen, with a reason that is true.

mod common;
mod crew;
mod models;
#[path = "common/terminal.rs"]
mod terminal;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Feed, Library, Server, Taken, Worker, binary};
use crew::opening::{How, Opening};
use crew::{Book, Calibration, Fate, Rule, Said, Turn};
use redis::Connection;
use terminal::Terminal;

/// As Redisson's watchdog does it, with half of its usual lease: nothing but time makes the dead silent, and all wait for it.
const LEASE: Duration = Duration::from_secs(15);
const PERIOD: Duration = Duration::from_secs(5);
/// How long the dead have been silent when lockscope starts: a worker of BullMQ, which lockscope knows to renew after half of
/// its lease at the latest, and the others, whose locks must last for one more period.
const LEASE_OF_BULL: Duration = Duration::from_secs(24);
const SILENCE_OF_BULL: Duration = Duration::from_secs(21);
const SILENCE: Duration = Duration::from_secs(6);

const RENEW_HASH: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then \
    return redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return 0";
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[2] then return redis.call('PEXPIRE', KEYS[1], ARGV[1]) end \
    return 0";

/// The scene of the trial.
struct Scene {
    /// Those who live and work. They end before their server.
    workers: Vec<Worker>,
    book: Book,
    /// Connections of those who live and do nothing now.
    idle: Vec<Connection>,
    /// Real processes: one that hangs, and others that hold.
    processes: Vec<Taken>,
    /// What must be said at first and after a period: one of these words.
    at_once: BTreeMap<String, &'static [&'static str]>,
    later: BTreeMap<String, &'static [&'static str]>,
    server: Arc<Server>,
}

const SUSPECTED: &[&str] = &["orphan-suspected", "orphan"];

impl Scene {
    fn new() -> Scene {
        Scene {
            workers: Vec::new(),
            book: Book::default(),
            idle: Vec::new(),
            processes: Vec::new(),
            at_once: BTreeMap::new(),
            later: BTreeMap::new(),
            server: Arc::new(Feed::Notifications.server()),
        }
    }

    /// Enters a hold in the book.
    fn enter(&self, key: &str, lease: Option<Duration>, period: Option<Duration>, fate: Fate) {
        self.book.rule(key.into(), Rule::default());
        self.book.take(Turn { fate, ..Turn::new(key.into(), Instant::now(), lease, period) });
    }

    /// The same of one that renews for as long as the trial lasts.
    fn enter_renewing(&self, key: &str, lease: Duration, period: Duration) {
        let mut turn = Turn::new(key.into(), Instant::now(), Some(lease), Some(period));
        turn.renewals = (1..40).map(|beat| turn.from + period * beat).collect();
        self.book.rule(key.into(), Rule::default());
        self.book.take(turn);
    }

    fn client(&self, name: &str) -> Connection {
        let mut client = self.server.connection();
        redis::cmd("CLIENT").arg("SETNAME").arg(name).exec(&mut client).unwrap();
        client
    }

    fn dead() -> Fate {
        Fate::Died(Instant::now())
    }

    /// Redisson's lock, renewed by a worker that lives, or left by one that is dead.
    fn redisson(&mut self, number: usize, lives: bool) {
        let key = format!("orders-lock:{number}");
        let thread = format!("{}:57", models::tokens::uuid4(number as u64));
        let mut client = self.server.connection();
        redis::cmd("HSET").arg(&key).arg(&thread).arg(1).exec(&mut client).unwrap();
        redis::cmd("PEXPIRE").arg(&key).arg(LEASE.as_millis() as u64).exec(&mut client).unwrap();
        if lives {
            self.enter_renewing(&key, LEASE, PERIOD);
            self.keep_renewing(client, RENEW_HASH, key, thread);
        } else {
            self.enter(&key, Some(LEASE), Some(PERIOD), Scene::dead());
            self.later.insert(key, &["orphan-suspected", "orphan", "stalled"]);
        }
    }

    /// A lock by hand whose token is its client's name, renewed by those who live.
    fn named(&mut self, number: usize, lives: bool) {
        let (key, name) = (format!("lock:job:{number}"), format!("jobs-{number}"));
        let mut client = self.client(&name);
        self.set(&mut client, &key, &name, LEASE);
        if lives {
            self.enter_renewing(&key, LEASE, PERIOD);
            self.keep_renewing(client, RENEW, key, name);
        } else {
            self.enter(&key, Some(LEASE), Some(PERIOD), Scene::dead());
            self.at_once.insert(key.clone(), SUSPECTED);
            self.later.insert(key, SUSPECTED);
        }
    }

    /// The same with a lease that lasts for the whole work.
    fn named_for_long(&mut self, number: usize, lives: bool) {
        let (key, name) = (format!("lock:mail:{number}"), format!("mailer-{number}"));
        let mut client = self.client(&name);
        let lease = Duration::from_secs(600);
        self.set(&mut client, &key, &name, lease);
        if lives {
            self.enter(&key, Some(lease), None, Fate::Works);
            self.idle.push(client);
        } else {
            self.enter(&key, Some(lease), None, Scene::dead());
            self.at_once.insert(key, SUSPECTED);
        }
    }

    fn set(&self, client: &mut Connection, key: &str, token: &str, lease: Duration) {
        redis::cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(lease.as_millis() as u64).exec(client).unwrap();
    }

    fn keep_renewing(&mut self, mut client: Connection, script: &'static str, key: String, token: String) {
        let mut worker = Worker::new();
        worker.repeat(PERIOD, move || {
            let lease = LEASE.as_millis() as u64;
            redis::cmd("EVAL").arg(script).arg(1).arg(&key).arg(lease).arg(&token).exec(&mut client).unwrap();
        });
        self.workers.push(worker);
    }

    /// Healthy: leases of their own that are half over, a lock that many want, permits.
    fn others(&mut self) {
        let mut client = self.server.connection();
        let fixed = format!("{}:9", models::tokens::uuid4(900));
        redis::cmd("HSET").arg("prices-lock").arg(&fixed).arg(1).exec(&mut client).unwrap();
        redis::cmd("PEXPIRE").arg("prices-lock").arg(60_000).exec(&mut client).unwrap();
        self.enter("prices-lock", Some(Duration::from_secs(60)), None, Fate::Works);
        self.set(&mut client, "flash-lock", &models::tokens::uuid4(901), Duration::from_secs(120));
        self.enter("flash-lock", Some(Duration::from_secs(120)), None, Fate::Works);
        self.book.rule(b"flash-lock".to_vec(), Rule { contended: true, ..Rule::default() });
        self.idle.push(client);
        for number in 0..4 {
            let (mut client, mut worker) = (self.server.connection(), Worker::new());
            let token = models::tokens::uuid4(910 + number);
            worker.repeat(Duration::from_millis(200), move || {
                let line = redis::cmd("SET").arg("flash-lock").arg(&token).arg("NX").arg("PX").arg(8_000).clone();
                line.exec(&mut client).unwrap();
            });
            self.workers.push(worker);
        }
        // Of two permits that their processes never gave back, one is past its end, and one has none.
        let permit = |number| models::tokens::random(number, 16);
        for (name, end) in [("downloads", Some(2_000)), ("uploads", None)] {
            let (key, now) = (format!("{{{name}}}:timeout"), models::Wire::new(self.server.connection()).now());
            let score = end.map_or(922_337_203_685_477, |end: i64| now + end);
            redis::cmd("SET").arg(name).arg(1).exec(&mut self.server.connection()).unwrap();
            let member = [&[0xff][..], &permit(920)[..15]].concat();
            let zadd = redis::cmd("ZADD").arg(&key).arg(score).arg(member).clone();
            zadd.exec(&mut self.server.connection()).unwrap();
            self.enter(&key, end.map(|end| Duration::from_millis(end as u64)), None, Scene::dead());
        }
        self.at_once.insert("{uploads}:timeout".into(), &["no-ttl"]);
    }

    /// Processes of the real libraries, some killed and one stopped.
    fn real(&mut self) {
        let python = |script| Library::python(script, &self.server);
        let (renewing, plain) = (python("python_redis_lock"), python("redis_py"));
        let two_thirds = Some(LEASE.mul_f64(2.0 / 3.0));
        if let Some(library) = renewing {
            library.acquire_renewing("killed", LEASE).crash();
            self.enter("lock:killed", Some(LEASE), two_thirds, Scene::dead());
            let stopped = library.acquire_renewing("stopped", LEASE);
            stopped.pause();
            self.enter("lock:stopped", Some(LEASE), two_thirds, Fate::Hangs(Instant::now()));
            let healthy = library.acquire_renewing("healthy", LEASE);
            self.enter_renewing("lock:healthy", LEASE, LEASE.mul_f64(2.0 / 3.0));
            self.processes.extend([stopped, healthy]);
        }
        if let Some(library) = plain {
            library.acquire_forever("reindex-lock").crash();
            self.enter("reindex-lock", None, None, Scene::dead());
            self.at_once.insert("reindex-lock".into(), &["no-ttl", "orphan"]);
            let healthy = library.acquire("invoice-lock", Duration::from_secs(300));
            self.enter("invoice-lock", Some(Duration::from_secs(300)), None, Fate::Works);
            self.processes.push(healthy);
        }
    }

    /// Workers of BullMQ always renew: that one is silent is known at once.
    fn bull(&mut self) {
        let Some(library) = Library::node("bullmq_job", &self.server) else { return };
        let healthy = library.acquire_renewing("sms", LEASE_OF_BULL);
        self.enter_renewing(&healthy.key, LEASE_OF_BULL, LEASE_OF_BULL / 4);
        self.processes.push(healthy);
        let taken = library.acquire_renewing("mail", LEASE_OF_BULL);
        let key = taken.key.clone();
        taken.crash();
        self.enter(&key, Some(LEASE_OF_BULL), Some(LEASE_OF_BULL / 4), Scene::dead());
        self.at_once.insert(key, SUSPECTED);
    }

    /// Asks the program once.
    fn ask(&self, number: usize, how: How) -> Vec<Said> {
        Opening { number, at: Duration::ZERO, how, told: false }.run(&self.server.url())
    }

    #[track_caller]
    fn check_calibration(&self, said: &[Said]) {
        let mut calibration = Calibration::default();
        calibration.add(said, &self.book);
        println!("{calibration}");
        assert!(calibration.overconfident().is_empty(), "{:?}", calibration.overconfident());
    }

    /// Nothing that was said is false, and of each lock what must be said was.
    #[track_caller]
    fn check(&self, said: &[Said], must: &BTreeMap<String, &'static [&'static str]>) {
        let wrong = said.iter().filter(|one| !self.book.is_true(&one.key, &one.word, one.window));
        let tell = |one: &Said| {
            let story = self.book.story(&one.key, one.window);
            format!("{} is {}: {}; but {story}", one.key.escape_ascii(), one.word, one.sentence)
        };
        let wrong: Vec<String> = wrong.map(tell).collect();
        assert!(wrong.is_empty(), "not true: {wrong:#?}");
        for (key, words) in must {
            let of_it = said.iter().filter(|one| one.key == key.as_bytes());
            let told: Vec<String> = of_it.map(|one| format!("{}: {}", one.word, one.sentence)).collect();
            let known = told.iter().any(|told| words.iter().any(|word| told.starts_with(&format!("{word}:"))));
            assert!(known, "{key} is not {words:?}, but {told:#?}");
        }
    }
}

/// All that was planted, when the dead have been silent for long enough.
fn planted() -> Scene {
    let mut scene = Scene::new();
    scene.real();
    scene.bull();
    // Nothing but the passing of time makes them silent.
    std::thread::sleep(SILENCE_OF_BULL - SILENCE);
    for (number, lives) in [(1, false), (2, true), (3, true), (4, false), (5, true)] {
        scene.redisson(number, lives);
    }
    for (number, lives) in [(2, true), (3, true), (4, false), (5, true)] {
        scene.named(number, lives);
        scene.named_for_long(number, lives);
    }
    scene.others();
    std::thread::sleep(SILENCE);
    scene
}

/// Each opening has a scene of its own: where the server has no CLIENT NO-TOUCH, the first one to read a key leaves no idle
/// time for the next. All scenes wait at the same time.
#[test]
fn the_first_answers_after_the_damage_are_true_and_tell_what_can_be_known() {
    let all: [fn(&Scene); 4] = [
        the_first_list_is_true_and_tells_what_can_be_known_at_once,
        after_a_renewal_period_all_the_dead_whose_like_are_renewed_are_known,
        each_lock_shown_by_itself_is_told_truly,
        the_first_screen_has_the_dead_on_top_with_a_true_reason,
    ];
    std::thread::scope(|scope| {
        let threads = all.map(|check| scope.spawn(move || check(&planted())));
        let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        assert_eq!(failed, 0, "of the four openings; each says why above");
    });
}

fn the_first_list_is_true_and_tells_what_can_be_known_at_once(scene: &Scene) {
    let said = scene.ask(0, How::Ls { observe: None });
    scene.check(&said, &scene.at_once);
    scene.check_calibration(&said);
}

fn after_a_renewal_period_all_the_dead_whose_like_are_renewed_are_known(scene: &Scene) {
    let said = scene.ask(1, How::Ls { observe: Some(PERIOD + Duration::from_millis(1_500)) });
    let mut known = scene.at_once.clone();
    known.extend(scene.later.clone());
    // Meanwhile the leases of some have run out.
    known.retain(|key, _| scene.server.ask::<bool, _>(&["EXISTS", key]));
    assert!(known.contains_key("orders-lock:1"), "the trial took too long");
    scene.check(&said, &known);
    scene.check_calibration(&said);
}

fn each_lock_shown_by_itself_is_told_truly(scene: &Scene) {
    let keys = scene.book.keys();
    let said: Vec<Said> = keys.into_iter().flat_map(|key| scene.ask(2, How::Show { key })).collect();
    // Whether a client is missing is known only beside others; and the leases of some may be over when their turn comes.
    let there = |key: &str| scene.server.ask::<bool, _>(&["EXISTS", key]);
    let alone = scene.at_once.iter().filter(|(key, _)| !key.starts_with("lock:") && there(key));
    scene.check(&said, &alone.map(|(key, words)| (key.clone(), *words)).collect());
    scene.check_calibration(&said);
}

fn the_first_screen_has_the_dead_on_top_with_a_true_reason(scene: &Scene) {
    let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &scene.server.url()], &[]);
    let screen =
        terminal.wait_for("the first screen", |screen| rows(screen).len() > 10 && !screen.contains("first scan"));
    check_screen(scene, &screen);
    std::thread::sleep(PERIOD);
    check_screen(scene, &terminal.screen().contents());
}

/// State and key of each lock on the screen.
fn rows(screen: &str) -> Vec<(String, String)> {
    let states = lockscope::model::State::ALL.map(|state| state.label());
    let row = |line: &str| {
        let mut words = line.trim_start_matches(['▌', '●', ' ']).split_whitespace();
        // Findings are counted between them.
        let (state, key) = (words.next()?, words.find(|word| !word.starts_with('!'))?);
        let state = state.trim_end_matches('?');
        states.contains(&state).then(|| (state.to_lowercase(), key.to_string()))
    };
    screen.lines().filter_map(row).collect()
}

/// On top is the lock of somebody who is dead, and why is on the screen; nothing else on it is false.
#[track_caller]
fn check_screen(scene: &Scene, screen: &str) {
    println!("{screen}");
    let (_, key) = rows(screen).into_iter().next().expect("a lock");
    let dead = |key: &str| scene.book.is_dead(key.as_bytes());
    assert!(dead(&key), "on top is {key}, and it is not of somebody who died:\n{screen}");
    let reasons =
        ["no renewal for", "no client has its holder's name", "has no TTL", "by the time in its value", " closed "];
    let told = screen.rsplit_once(&format!(" {key}  ")).map_or("", |(_, sentence)| sentence);
    assert!(reasons.iter().any(|reason| told.contains(reason)), "it does not say why:\n{screen}");
    let now = Instant::now();
    let window = crew::book::Window { from: now - Duration::from_secs(20), to: now };
    for (state, key) in rows(screen) {
        // A long name is cut in the middle.
        let (head, tail) = key.split_once('…').unwrap_or((&key, ""));
        let is_it = |known: &String| known.starts_with(head) && known.ends_with(tail);
        let Some(key) = scene.book.keys().into_iter().find(is_it) else {
            panic!("{key} is nobody's:\n{screen}");
        };
        assert!(scene.book.is_true(key.as_bytes(), &state, window), "{key} is not {state}:\n{screen}");
    }
}
