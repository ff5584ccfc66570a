//! The demo on a real server: everything planted exists and can be seen, the same seed gives the same fleet, and
//! nothing is left behind however it ends.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{process, program, wait_until};
use lockscope::demo::{self, Fleet, Options, PrivateServer, SITUATIONS, Summary, Tempo};
use lockscope::lock::Kind;
use redis::aio::MultiplexedConnection;

const PATIENCE: Duration = Duration::from_secs(30);

async fn private_server() -> PrivateServer {
    PrivateServer::start(Some(&program::program())).await.expect("a private server")
}

async fn connect(server: &PrivateServer) -> MultiplexedConnection {
    redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn keys(conn: &mut MultiplexedConnection) -> BTreeSet<Vec<u8>> {
    redis::cmd("KEYS").arg("*").query_async(conn).await.unwrap()
}

/// Waits until `condition` returns something.
async fn wait_for<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn every_situation_is_on_the_server_within_seconds() {
    let server = private_server().await;
    let fleet = Fleet::start(&server.url(), 3, Tempo::times(5.0)).await.unwrap();
    let mut conn = connect(&server).await;
    let mut unseen: Vec<_> = SITUATIONS.iter().map(|situation| (situation.name, situation.glob())).collect();
    wait_for("every situation has a key", async || {
        let keys = keys(&mut conn).await;
        unseen.retain(|(_, glob)| !keys.iter().any(|key| glob.matches(key)));
        unseen.is_empty().then_some(())
    })
    .await;
    assert_eq!(fleet.failures(), Vec::<String>::new());
    fleet.stop().await;
}

/// The tokens that contain no time, by lock.
async fn first_tokens(seed: u64) -> Vec<(String, String)> {
    let server = private_server().await;
    let fleet = Fleet::start(&server.url(), seed, Tempo::REAL).await.unwrap();
    let mut conn = connect(&server).await;
    let mut tokens = Vec::new();
    for name in ["orders-lock:*", "stock-lock:*", "billing-lock:*", "print-lock:*", "prices-lock"] {
        tokens.push(wait_for(name, async || token(&mut conn, name, "HKEYS").await).await);
    }
    for name in ["lock:report-daily", "spring-locks:*", "shop-database-*-lock:*", "*laravel_unique_job*"] {
        tokens.push(wait_for(name, async || token(&mut conn, name, "GET").await).await);
    }
    fleet.stop().await;
    tokens
}

/// The first key that matches the pattern, and its value.
async fn token(conn: &mut MultiplexedConnection, pattern: &str, read: &str) -> Option<(String, String)> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(conn).await.unwrap();
    keys.sort();
    let key = keys.first()?;
    let value: Option<redis::Value> = redis::cmd(read).arg(key).query_async(conn).await.unwrap();
    let text = match value? {
        redis::Value::Array(fields) => fields.iter().map(|field| format!("{field:?} ")).collect(),
        value => format!("{value:?}"),
    };
    Some((key.clone(), text))
}

#[tokio::test]
async fn the_same_seed_gives_the_same_keys_and_tokens() {
    // If two workers want a lock, a busy machine may change which one is first: of those locks only the key is
    // compared.
    let shared = ["orders-lock:", "prices-lock", "lock:report", "spring-locks:", "shop-database-shop-cache-checkout"];
    let comparable = |tokens: Vec<(String, String)>| -> Vec<(String, String)> {
        let without = |(key, token): (String, String)| match shared.iter().any(|start| key.starts_with(start)) {
            true => (key, String::new()),
            false => (key, token),
        };
        tokens.into_iter().map(without).collect()
    };
    let (one, again, other) = (first_tokens(7).await, first_tokens(7).await, first_tokens(8).await);
    let tokens_of = |tokens: &[(String, String)]| -> BTreeSet<String> { tokens.iter().map(|t| t.1.clone()).collect() };
    assert!(tokens_of(&one).is_disjoint(&tokens_of(&other)), "{one:?} {other:?}");
    assert_eq!(comparable(one), comparable(again));
}

#[tokio::test]
async fn every_worker_has_a_connection_of_its_own_and_all_of_them_end() {
    let server = private_server().await;
    let mut conn = connect(&server).await;
    let fleet = Fleet::start(&server.url(), 1, Tempo::REAL).await.unwrap();
    let names: BTreeSet<String> = fleet.names().iter().cloned().collect();
    assert_eq!(names.len(), fleet.names().len(), "no two workers share a name");
    let mut met = BTreeSet::new();
    wait_for("all but those who left at once or come later", async || {
        met.extend(client_names(&mut conn).await);
        let absent: Vec<_> = names.difference(&met).map(String::as_str).collect();
        let expected = ["importer-1", "invoices-2", "print-9", "search-3", "stock-4"];
        absent.iter().all(|name| expected.contains(name)).then_some(())
    })
    .await;
    fleet.stop().await;
    wait_for("no connection of the fleet is left", async || {
        client_names(&mut conn).await.is_disjoint(&names).then_some(())
    })
    .await;
}

async fn client_names(conn: &mut MultiplexedConnection) -> BTreeSet<String> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(conn).await.unwrap();
    let name = |line: &str| Some(line.split(' ').find_map(|field| field.strip_prefix("name="))?.to_string());
    list.lines().filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[tokio::test]
async fn the_tally_agrees_with_itself_and_with_the_server() {
    let server = private_server().await;
    let fleet = Fleet::start(&server.url(), 5, Tempo::times(25.0)).await.unwrap();
    wait_for("holders have crashed, stalled, and been written over", async || {
        let tally = fleet.tally();
        let any = |prefix: &str, count: fn(&demo::fleet::Tally) -> u64| {
            tally.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, tally)| count(tally)).sum::<u64>() >= 2
        };
        let all = any("stock-lock:", |t| t.expired)
            && any("billing-lock:", |t| t.expired)
            && any("invoice-lock:", |t| t.seized)
            && any("export-lock:", |t| t.lost)
            && any("print-lock:", |t| t.released)
            && any("prices-lock", |t| t.released)
            && any("lock:report-", |t| t.released)
            && any("orders-lock:", |t| t.renewed)
            && any("bull:mail:", |t| t.renewed);
        all.then_some(())
    })
    .await;
    assert_eq!(fleet.failures(), Vec::<String>::new());
    let tally = fleet.stop().await;
    let mut conn = connect(&server).await;
    for (key, count) in &tally {
        assert_eq!(count.attempts, count.acquired + count.refused, "{key}: {count:?}");
        let ended = count.released + count.expired + count.lost + count.seized;
        assert!(ended <= count.acquired, "{key}: {count:?}");
        // Many may read at once, and a string that was taken and never freed must still exist.
        let forever = key == "reindex-lock" || key == "import.lock";
        if forever {
            assert!(redis::cmd("EXISTS").arg(key).query_async::<bool>(&mut conn).await.unwrap(), "{key}");
            assert_eq!(count.acquired, 1, "{key}: {count:?}");
        }
    }
    let hot = tally["flash-sale-lock"];
    assert!(hot.refused > hot.acquired, "{hot:?}");
}

#[tokio::test]
async fn a_headless_demo_finds_every_situation_and_names_its_library() {
    let options = Options {
        server: Some(program::program()),
        for_: Some(Duration::from_secs(8)),
        headless: true,
        tempo: Tempo::times(4.0),
        ..Options::default()
    };
    let mut out = Vec::new();
    let summary = demo::headless(&options, &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(summary.missing(), Vec::<&str>::new(), "{text}");
    assert_eq!((summary.exit_code(), summary.source, summary.lost_events), (0, "notifications", Some(0)), "{text}");
    for sighting in &summary.sightings {
        let lock = sighting.lock.as_ref().unwrap();
        assert!(text.contains(sighting.situation.name), "{text}");
        assert_eq!(lock.dialect, sighting.situation.library, "{}: {}", sighting.situation.name, lock.key);
        assert!(text.contains(&lock.key.to_string()), "{text}");
    }
    check_what_was_seen(&summary, &text);
}

fn check_what_was_seen(summary: &Summary, text: &str) {
    let of = |name: &str| summary.sightings.iter().find(|sighting| sighting.situation.name == name).unwrap();
    assert!(of("healthy watchdog").changes.renewed > 0, "{text}");
    assert!(of("handed over without a release").changes.taken > 0, "{text}");
    assert!(of("work that outlives its lease").changes.expired > 0, "{text}");
    assert!(of("crashed holder").changes.expired > 0, "{text}");
    assert_eq!(of("idempotency markers").lock.as_ref().unwrap().kind, Kind::Marker);
    let told = &of("handed over without a release").verdicts;
    assert!(told["split"].times > 0 && told["taken-over"].sentence.contains("had not released it"), "{text}");
    assert!(text.contains("verdicts: split "), "{text}");
}

/// Acts as the process that owns a demo, when this test binary is started again for it.
#[tokio::test]
async fn a_process_that_owns_a_demo() {
    match std::env::var("LOCKSCOPE_TEST_PART").as_deref() {
        Ok("server") => {
            let server = private_server().await;
            println!("\npid {}", server.pid());
            std::future::pending::<()>().await;
        }
        Ok("headless") => {
            let for_ = Some(Duration::from_secs(600));
            let options = Options { server: Some(program::program()), for_, headless: true, ..Options::default() };
            println!("\nstarting");
            let ended = demo::headless(&options, &mut std::io::stdout()).await;
            println!("\nended {}", ended.err().map(|error| error.to_string()).unwrap_or_default());
        }
        _ => {}
    }
}

fn start_part(part: &str, tmp: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_owns_a_demo", "--nocapture"]);
    command.env("LOCKSCOPE_TEST_PART", part).env("TMPDIR", tmp);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    process::spawn(command).unwrap()
}

/// The child processes of this one.
fn children_of(pid: u32) -> Vec<u32> {
    let status = |entry: std::fs::DirEntry| -> Option<(u32, u32)> {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        Some((pid, parent))
    };
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(status);
    all.filter(|(_, parent)| *parent == pid).map(|(child, _)| child).collect()
}

fn is_empty(directory: &Path) -> bool {
    directory.read_dir().unwrap().next().is_none()
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = private_server().await;
    let pid = server.pid();
    assert!(process::is_alive(pid));
    drop(server);
    assert!(!process::is_alive(pid));
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_does_not_outlive_an_owner_that_was_killed() {
    let tmp = tempfile::tempdir().unwrap();
    let mut owner = start_part("server", tmp.path());
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let pid = lines.into_iter().find_map(|line| line.strip_prefix("pid ")?.parse().ok()).expect("the server's pid");
    assert!(process::is_alive(pid));
    assert!(is_empty(tmp.path()), "the directory is gone while the server runs");
    process::signal(&owner, libc::SIGKILL);
    owner.wait().unwrap();
    wait_until("the server is gone", PATIENCE, || !process::is_alive(pid));
    assert!(is_empty(tmp.path()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_headless_demo_that_is_asked_to_end_cleans_up() {
    for (signal, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGINT, "SIGINT"), (libc::SIGHUP, "SIGHUP")] {
        let tmp = tempfile::tempdir().unwrap();
        let mut owner = start_part("headless", tmp.path());
        let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "starting"));
        let mut servers = Vec::new();
        wait_until("its server runs", PATIENCE, || {
            servers = children_of(owner.id());
            !servers.is_empty()
        });
        process::signal(&owner, signal);
        let end = lines.find(|line| line.starts_with("ended ")).expect("a last word");
        assert_eq!(end, format!("ended stopped by {name} before the time was over"));
        owner.wait().unwrap();
        assert!(servers.iter().all(|server| !process::is_alive(*server)));
        assert!(is_empty(tmp.path()));
    }
}

#[tokio::test]
async fn a_program_that_is_no_server_is_named_with_what_it_said() {
    let error = PrivateServer::start(Some(Path::new("/bin/false"))).await.err().unwrap();
    assert_eq!(error.to_string(), "/bin/false does not start: it ended without a word");
}
