//! The lab: test locks and contenders of the console, on real servers, beside its loop and in the real binary.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Server, binary, row, wait_until};
use lockscope::base::glob::Glob;
use lockscope::lab::{Counts, Lab, Order, Phase, Report, TestId, Wanted};
use lockscope::settings::Settings;
use lockscope::topology::{Endpoint, Topology};
use redis::IntoConnectionInfo;
use serde_json::Value;
use tempfile::TempDir;
use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(30);

/// Works in the lab.
struct Worker {
    lab: Lab,
    place: TempDir,
    reports: Vec<Report>,
    numbered: u64,
}

impl Worker {
    async fn at(server: &Server) -> Worker {
        Worker::with(server, |_| {}).await
    }

    async fn with(server: &Server, change: impl FnOnce(&mut Settings)) -> Worker {
        let url = server.url();
        let mut settings = common::acting::settings(&url, |_| {});
        change(&mut settings);
        let info = url.as_str().into_connection_info().unwrap();
        let topology = Topology::open(&Endpoint { shown: url.clone(), info, tls: None }).await.unwrap();
        let place = common::process::temporary_directory();
        let lab = Lab::new(settings.gate(), &topology, &url, Some(place.path().to_path_buf()));
        Worker { lab, place, reports: Vec::new(), numbered: 0 }
    }

    fn order(&mut self, id: TestId, order: Order) {
        self.lab.obey(id, order, true);
    }

    fn take(&mut self, line: &str) -> TestId {
        self.numbered += 1;
        let id = TestId(self.numbered);
        self.order(id, Order::Take(Wanted::parse(line).unwrap()));
        id
    }

    async fn hold(&mut self, line: &str) -> TestId {
        let id = self.take(line);
        self.wait_for(id, "it is held", |report| report.phase == Phase::Held).await;
        id
    }

    /// Waits until the report on a test lock is as wanted.
    async fn wait_for(&mut self, id: TestId, what: &str, wanted: impl Fn(&Report) -> bool) -> Report {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(report) = self.reports.iter().find(|report| report.id == id && wanted(report)) {
                return report.clone();
            }
            let next = tokio::time::timeout_at(until, self.lab.next()).await;
            self.reports = next.unwrap_or_else(|_| panic!("waited in vain: {what}: {:?}", self.reports));
        }
    }

    /// The audit file.
    fn audit(&self) -> Vec<Value> {
        lockscope::actions::audit::read(self.place.path()).unwrap().0
    }
}

/// How often a script was called by its hash.
fn calls(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "commandstats"]);
    let calls = common::server::field(&info, "cmdstat_evalsha").and_then(|stat| stat.strip_prefix("calls="));
    calls.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
}

fn exists(server: &Server, key: &str) -> bool {
    server.ask(&["EXISTS", key])
}

#[tokio::test]
async fn every_attempt_of_a_contender_is_counted_and_the_rate_is_true() {
    let server = Server::start();
    let mut worker = Worker::at(&server).await;
    for form in ["plain", "reentrant"] {
        let id = worker.hold(&format!("lock:{form} ttl=60s {form}")).await;
        let (before, began) = (calls(&server), Instant::now());
        worker.order(id, Order::Contend(4));
        let first = worker.wait_for(id, "a rate", |report| report.failures_per_s.is_some()).await;
        assert_eq!(first.contenders, 4);
        worker.wait_for(id, "failures", |report| report.counts.failures >= 60).await;
        let last = worker.reports.iter().find(|report| report.id == id).unwrap().clone();
        let (rate, seen) = (last.failures_per_s.unwrap(), last.counts.failures as f64 / began.elapsed().as_secs_f64());
        assert!((rate - seen).abs() <= seen * 0.25, "{rate} a second was told, {seen} was seen");
        assert!(rate <= 44.0, "4 contenders at 10 a second each, not {rate}");
        worker.order(id, Order::Contend(0));
        let gone = worker.wait_for(id, "contenders are gone", |report| report.contenders == 0).await;
        assert_eq!(gone.counts.attempts(), calls(&server) - before, "what the server counted");
        assert_eq!(gone.counts, Counts { failures: gone.counts.attempts(), ..Counts::default() });
        assert_eq!(gone.failures_per_s, None);
        let (kept, token): (i64, _) = (server.ask(&["PTTL", &format!("lock:{form}")]), gone.token.unwrap());
        assert!(kept > 30_000 && token.to_string().starts_with("lockscope-test:"), "{kept} {token}");
    }
    assert_eq!(worker.lab.close().await, Vec::<String>::new());
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
}

#[tokio::test]
async fn contenders_take_turns_when_the_lock_is_given_back() {
    let server = Server::start();
    let mut worker = Worker::at(&server).await;
    for form in ["plain", "reentrant"] {
        let id = worker.hold(&format!("lock:{form} {form} watchdog")).await;
        worker.order(id, Order::Contend(3));
        worker.wait_for(id, "failures", |report| report.counts.failures >= 6).await;
        worker.order(id, Order::GiveBack);
        let fought = worker.wait_for(id, "each had it", |report| report.counts.obtained >= 6).await;
        assert_eq!((fought.phase, fought.contenders, fought.counts.troubles), (Phase::Released, 3, 0));
        worker.order(id, Order::Contend(0));
        worker.wait_for(id, "contenders are gone", |report| report.contenders == 0).await;
        assert!(!exists(&server, &format!("lock:{form}")));
    }
}

#[tokio::test]
async fn a_watchdog_keeps_the_lock_and_without_it_the_lease_ends() {
    let server = Server::start();
    let mut worker = Worker::at(&server).await;
    let id = worker.hold("lock:a ttl=1500ms watchdog").await;
    worker.wait_for(id, "three renewals", |report| report.renewals >= 3).await;
    worker.order(id, Order::Watchdog(false));
    let off = worker.wait_for(id, "no watchdog", |report| !report.watchdog).await;
    let lost = worker.wait_for(id, "its end", |report| report.phase.is_over()).await;
    assert!(matches!(&lost.phase, Phase::Lost(why) if why.contains("its lease of 1s 500ms ended")), "{lost:?}");
    assert_eq!(lost.renewals, off.renewals);
    wait_until("it is gone", PATIENCE, || !exists(&server, "lock:a"));

    let id = worker.hold("lock:b ttl=20s").await;
    server.cli(&["PEXPIRE", "lock:b", "15000"]);
    worker.order(id, Order::Renew);
    worker.wait_for(id, "a renewal by hand", |report| report.renewals == 1).await;
    assert!(server.ask::<i64, _>(&["PTTL", "lock:b"]) > 15_000);
}

#[tokio::test]
async fn a_lock_that_somebody_takes_away_is_lost_with_the_reason() {
    let server = Server::start();
    let mut worker = Worker::at(&server).await;
    let id = worker.hold("lock:a ttl=1500ms watchdog").await;
    server.cli(&["SET", "lock:a", "worker-7", "PX", "60000"]);
    let lost = worker.wait_for(id, "the loss", |report| report.phase.is_over()).await;
    assert!(matches!(&lost.phase, Phase::Lost(why) if why.contains("held by worker-7")), "{lost:?}");
    assert_eq!(worker.lab.close().await, Vec::<String>::new());
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "worker-7", "what is not ours stays");
}

#[tokio::test]
async fn what_is_held_protected_or_read_only_is_not_taken() {
    let server = Server::start();
    server.cli(&["SET", "lock:theirs", "worker-7", "PX", "60000"]);
    let protected = |settings: &mut Settings| settings.protected = vec![Glob::new("payments:*").unwrap()];
    let mut worker = Worker::with(&server, protected).await;
    for (line, why) in
        [("lock:theirs", "lock:theirs is held by worker-7"), ("payments:1", "is protected by \"payments:*\"")]
    {
        let id = worker.take(line);
        let refused = worker.wait_for(id, "the refusal", |report| report.phase.is_over()).await;
        assert!(matches!(&refused.phase, Phase::Refused(told) if told.contains(why)), "{refused:?}");
    }
    let id = TestId(77);
    worker.lab.obey(id, Order::Take(Wanted::parse("lock:new").unwrap()), false);
    let refused = worker.wait_for(id, "the refusal", |report| report.phase.is_over()).await;
    assert!(matches!(&refused.phase, Phase::Refused(told) if told.contains("read-only now")), "{refused:?}");

    // A held lock stays, but no contender is added.
    let id = worker.hold("lock:ours ttl=1500ms watchdog").await;
    for order in [Order::Contend(2), Order::Renew, Order::Watchdog(true)] {
        worker.lab.obey(id, order, false);
        worker
            .wait_for(id, "it is told", |report| report.trouble.as_ref().is_some_and(|why| why.contains("read-only")))
            .await;
    }
    let kept = worker.wait_for(id, "renewals", |report| report.renewals >= 3).await;
    assert_eq!((kept.contenders, kept.counts), (0, Counts::default()));
    worker.lab.obey(id, Order::GiveBack, false);
    worker.wait_for(id, "it is given back", |report| report.phase == Phase::Released).await;
    assert_eq!(server.ask::<Vec<String>, _>(&["KEYS", "*"]), ["lock:theirs"]);
}

#[tokio::test]
async fn a_read_only_target_is_never_written() {
    let server = Server::start();
    let mut worker =
        Worker::with(&server, |settings| settings.read_only = Some(lockscope::settings::ReadOnly::Asked)).await;
    let id = worker.take("lock:a");
    let refused = worker.wait_for(id, "the refusal", |report| report.phase.is_over()).await;
    assert!(matches!(&refused.phase, Phase::Refused(told) if told.contains("--read-only")), "{refused:?}");
    assert_eq!((server.ask::<u64, _>(&["DBSIZE"]), calls(&server), worker.audit().len()), (0, 0, 0));
}

#[tokio::test]
async fn closing_removes_everything_and_all_of_it_is_on_record() {
    let server = Server::start();
    let mut worker = Worker::at(&server).await;
    worker.hold("lock:a watchdog").await;
    let contended = worker.hold("lock:b reentrant").await;
    worker.order(contended, Order::Contend(8));
    worker.wait_for(contended, "failures", |report| report.counts.failures >= 8).await;
    let fought = worker.hold("lock:c token=alice").await;
    worker.order(fought, Order::Contend(8));
    worker.wait_for(fought, "failures", |report| report.counts.failures >= 8).await;
    worker.order(fought, Order::GiveBack);
    worker.wait_for(fought, "it was obtained", |report| report.counts.obtained >= 1).await;
    let began = Instant::now();
    assert_eq!(worker.lab.close().await, Vec::<String>::new());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);

    let audit = worker.audit();
    for key in ["lock:a", "lock:b", "lock:c"] {
        let told: Vec<&str> = audit
            .iter()
            .filter(|entry| entry["key"] == key && entry["action"] == "acquire")
            .map(|entry| entry["phase"].as_str().unwrap())
            .collect();
        assert_eq!(told, ["intent", "outcome", "end"], "{key}");
        let ended = audit.iter().find(|entry| entry["key"] == key && entry["phase"] == "end").unwrap();
        assert!(ended["ended"] == "released" && ended["kept_ms"].is_u64(), "{ended}");
    }
    let contended: Vec<&Value> = audit.iter().filter(|entry| entry["action"] == "contend").collect();
    assert_eq!(contended.iter().filter(|entry| entry["phase"] == "intent").count(), 2);
    let ends: Vec<&&Value> = contended.iter().filter(|entry| entry["phase"] == "end").collect();
    assert_eq!(ends.len(), 2);
    let count = |entry: &Value, name: &str| entry[name].as_u64().unwrap();
    for end in ends {
        assert_eq!(count(end, "attempts"), count(end, "failures") + count(end, "obtained") + count(end, "troubles"));
    }
    let chosen = audit.iter().find(|entry| entry["key"] == "lock:c").unwrap();
    assert_eq!(chosen["token"], "alice");
}

#[tokio::test]
async fn what_can_not_be_removed_is_named_in_a_bounded_time() {
    let server = Server::start();
    let mut worker = Worker::at(&server).await;
    worker.hold("lock:a ttl=45s watchdog").await;
    let contended = worker.hold("lock:b ttl=45s").await;
    worker.order(contended, Order::Contend(4));
    worker.wait_for(contended, "failures", |report| report.counts.failures >= 4).await;
    server.pause();
    let began = Instant::now();
    let named = worker.lab.close().await;
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    server.resume();
    assert_eq!(named.len(), 2, "{named:?}");
    for (told, key) in named.iter().zip(["lock:a", "lock:b"]) {
        assert!(told.contains(&format!("could not give {key} back")) && told.contains("in at most 4"), "{told}");
    }
}

// The real binary in a terminal.

struct Place {
    home: TempDir,
}

impl Place {
    fn new(config: &str) -> Place {
        let home = common::process::temporary_directory();
        std::fs::create_dir_all(home.path().join("config/lockscope")).unwrap();
        std::fs::write(home.path().join("config/lockscope/config.toml"), config).unwrap();
        Place { home }
    }

    fn open(&self, server: &Server, options: &[&str]) -> Terminal {
        let url = server.url();
        let mut arguments = vec!["-u", &url, "-p", "lock:*", "-p", "payments:*", "--env", "dev"];
        arguments.extend(options);
        let path = |name: &str| self.home.path().join(name).to_str().unwrap().to_string();
        let (state, config) = (path("state"), path("config"));
        let environment = [("XDG_STATE_HOME", state.as_str()), ("XDG_CONFIG_HOME", config.as_str())];
        let terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &environment);
        terminal.wait_for("the first walk", |screen| screen.contains(" locks") && screen.contains("live"));
        terminal
    }

    fn audit(&self) -> PathBuf {
        self.home.path().join("state/lockscope")
    }
}

/// Takes a test lock, as this line describes it.
fn take(terminal: &mut Terminal, line: &str) {
    terminal.press("a");
    terminal.wait_for("the line", |screen| screen.contains("take "));
    terminal.press(&format!("\x15{line}\r"));
}

fn rate_of(screen: &str) -> Option<f64> {
    screen.split_whitespace().find_map(|word| word.strip_suffix("=c")).and_then(|rate| rate.parse().ok())
}

#[test]
fn a_test_lock_from_the_first_key_to_the_last() {
    let server = Server::notifying(&[]);
    let place = Place::new("");
    let mut terminal = place.open(&server, &["--write"]);
    terminal.press("a");
    terminal.wait_for("what is offered", |screen| screen.contains("take lock:test ttl=30s plain watchdog"));
    terminal.press("\r");
    terminal.wait_for("TEST in the list", |screen| row(screen, "TEST", "lock:test") && screen.contains("1 test"));
    take(&mut terminal, "lock:chosen token=alice reentrant");
    terminal.wait_for("a chosen token", |screen| row(screen, "TEST", "lock:chosen") && screen.contains("2 test"));
    assert_eq!(server.ask::<Vec<String>, _>(&["HKEYS", "lock:chosen"]), ["alice"]);
    server.cli(&["SET", "lock:theirs", "worker-7", "PX", "60000"]);
    terminal.press("/state:test\r");
    terminal.wait_for("only tests", |screen| screen.contains("2 shown") && !screen.contains("lock:theirs"));
    take(&mut terminal, "lock:theirs");
    terminal.wait_for("whose it is", |screen| screen.contains("not taken: lock:theirs is held by worker-7"));
    terminal.press("6");
    terminal
        .wait_for("the lab", |screen| screen.contains("REFUSED  lock:theirs") && screen.contains("HELD     lock:test"));
    terminal.press("g+++");
    let screen = terminal.wait_for("a rate", |screen| rate_of(screen).is_some_and(|rate| rate > 10.0));
    assert!(rate_of(&screen).unwrap() <= 33.0 && screen.contains("3 contenders: "), "{screen}");
    terminal.resize(140, 40);
    terminal.wait_for("all that is counted", |screen| screen.contains("ATTEMPTS") && screen.contains("OBTAINED"));
    // Crossterm may leave a key unread that arrives together with a resize.
    terminal.resize(80, 24);
    terminal.wait_for("the small screen", |screen| !screen.contains("ATTEMPTS") && screen.contains("FAIL/S"));
    terminal.press("w");
    terminal.wait_for("no watchdog", |screen| screen.contains("not renewed"));
    terminal.press("n");
    terminal.wait_for("a renewal", |screen| screen.contains(" 1       3 "));
    terminal.press("---");
    terminal.wait_for("nobody contends", |screen| screen.contains("0 contenders: "));
    terminal.press("d");
    terminal.wait_for("that it was given back", |screen| screen.contains("RELEASED lock:test"));
    assert!(!exists(&server, "lock:test") && exists(&server, "lock:chosen"));
    terminal.press("q");
    let left = terminal.wait_for_end();
    left.assert_restored();
    assert_eq!(left.status.exit_code(), 0);
    assert_eq!(server.ask::<Vec<String>, _>(&["KEYS", "*"]), ["lock:theirs"]);
    let (audit, _) = lockscope::actions::audit::read(&place.audit()).unwrap();
    let ended = audit.iter().filter(|entry| entry["ended"] == "released").count();
    assert_eq!(ended, 2, "{audit:?}");
}

#[test]
fn a_test_lock_that_somebody_frees_is_shown_as_lost_at_once() {
    let server = Server::notifying(&[]);
    let place = Place::new("");
    let mut terminal = place.open(&server, &["--write"]);
    take(&mut terminal, "lock:a ttl=10m");
    terminal.press("6");
    terminal.wait_for("it", |screen| screen.contains("HELD     lock:a"));
    terminal.press("1");
    terminal.wait_for("it in the list", |screen| row(screen, "TEST", "lock:a"));
    terminal.press("6");
    server.cli(&["SET", "lock:a", "worker-7", "PX", "60000"]);
    terminal
        .wait_for("whose it is", |screen| screen.contains("LOST     lock:a") && screen.contains("held by worker-7"));
    terminal.press("q");
    terminal.wait_for_end().assert_restored();
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "worker-7");
}

#[test]
fn a_console_that_is_told_to_end_removes_everything() {
    let server = Server::notifying(&[]);
    let place = Place::new("");
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let mut terminal = place.open(&server, &["--write"]);
        for line in ["lock:a watchdog", "lock:b reentrant ttl=5m"] {
            take(&mut terminal, line);
        }
        terminal.press("6");
        terminal.wait_for("both", |screen| screen.contains("HELD     lock:a") && screen.contains("HELD     lock:b"));
        terminal.press("++++k++++");
        terminal.wait_for("a rate", |screen| rate_of(screen).is_some());
        assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 2);
        terminal.signal(signal);
        terminal.wait_for_end().assert_restored();
        assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0, "signal {signal}");
    }
}

#[test]
fn a_killed_console_leaves_nothing_that_stays() {
    let server = Server::notifying(&[]);
    let place = Place::new("");
    let mut terminal = place.open(&server, &["--write"]);
    take(&mut terminal, "lock:a ttl=2s watchdog");
    terminal.press("6");
    terminal.wait_for("it", |screen| screen.contains("HELD     lock:a"));
    terminal.signal(libc::SIGKILL);
    drop(terminal.wait_for_end());
    let left: i64 = server.ask(&["PTTL", "lock:a"]);
    assert!(left > 0 || left == -2, "it has an end: {left}");
    wait_until("it is gone", PATIENCE, || !exists(&server, "lock:a"));
}

#[test]
fn what_could_not_be_removed_is_said_after_the_terminal_was_given_back() {
    let server = Server::notifying(&[]);
    let place = Place::new("");
    let mut terminal = place.open(&server, &["--write"]);
    take(&mut terminal, "lock:a ttl=50s");
    terminal.press("6");
    terminal.wait_for("it", |screen| screen.contains("HELD     lock:a"));
    server.pause();
    terminal.press("q");
    let left = terminal.wait_for_end();
    server.resume();
    left.assert_restored();
    let raw = String::from_utf8_lossy(&left.raw);
    let told = raw.find("lockscope: could not give lock:a back, it ends by itself in at most").expect("it is named");
    assert!(raw.rfind("\x1b[?1049l").is_some_and(|given_back| given_back < told), "{raw:?}");
}

#[test]
fn a_console_that_may_not_write_takes_nothing() {
    let server = Server::notifying(&[]);
    let place = Place::new("protected = [\"payments:*\"]\n");
    let mut terminal = place.open(&server, &[]);
    terminal.press("a");
    terminal.wait_for("why not", |screen| screen.contains("lockscope is read-only now; :write turns writing on"));
    terminal.press(":write\r");
    terminal.wait_for("that it is on", |screen| screen.contains("WRITING"));
    take(&mut terminal, "payments:1 plain");
    terminal.wait_for("the protection", |screen| screen.contains("payments:1 is protected by"));
    take(&mut terminal, "lock:a ttl=9h");
    terminal.wait_for("what is wrong", |screen| screen.contains("between 100ms and 1h"));
    terminal.press("\x1b");
    terminal.wait_for("the line is gone", |screen| !screen.contains("take lock:a"));
    terminal.press("q");
    terminal.wait_for_end().assert_restored();
    let mut never = place.open(&server, &["--read-only"]);
    never.press("a");
    never.wait_for("why not", |screen| screen.contains("this is read-only, by --read-only"));
    never.press("q");
    never.wait_for_end();
    assert_eq!((server.ask::<u64, _>(&["DBSIZE"]), calls(&server)), (0, 0));
}
