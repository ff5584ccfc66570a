//! Several clients take, renew, release, abandon and take over locks. Afterwards the table holds what the server holds,
//! and the reported transitions make sense.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::engine::{follow, held};
use common::{Feed, Server};
use lockscope::engine::Engine;
use lockscope::model::record::Record;
use lockscope::model::{Change, Ending, Limits, Observation, State, Table, Transition};
use lockscope::sources::pace::Pace;
use redis::Connection;

const CLIENTS: u64 = 3;
const KEYS: u64 = 50;
const DEEDS: u64 = 4_000;
const STORM: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(40);

/// A stream of numbers that a seed determines (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const RENEW: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// One client: takes, renews, releases, lets locks expire, and sometimes takes over another's lock.
fn client(mut connection: Connection, client: u64, seed: u64) {
    let mut numbers = Numbers(seed * 1000 + client);
    let mut mine: HashMap<String, String> = HashMap::new();
    let began = Instant::now();
    for deed in 0..DEEDS {
        if began.elapsed() > STORM {
            break;
        }
        let key = format!("lock:{}", numbers.below(KEYS));
        let ttl = [40, 300, 60_000, 600_000][numbers.below(4) as usize];
        let token = mine.get(&key).cloned();
        let mut run =
            |line: &[&str]| -> redis::Value { redis::cmd(line[0]).arg(&line[1..]).query(&mut connection).unwrap() };
        match (numbers.below(20), token) {
            (0, _) => {
                let token = format!("over-{client}-{deed}");
                run(&["SET", &key, &token, "PX", &ttl.to_string()]);
                mine.insert(key, token);
            }
            (1..=6, Some(token)) => drop(run(&["EVAL", RENEW, "1", &key, &token, &ttl.to_string()])),
            (7, Some(token)) => drop(run(&["SET", &key, &token, "XX", "PX", &ttl.to_string()])),
            (_, Some(token)) => {
                run(&["EVAL", RELEASE, "1", &key, &token]);
                mine.remove(&key);
            }
            (_, None) => {
                let token = format!("held-{client}-{deed}");
                if run(&["SET", &key, &token, "NX", "PX", &ttl.to_string()]) == redis::Value::Okay {
                    mine.insert(key, token);
                }
            }
        }
    }
}

fn truth(server: &Server) -> Vec<(String, String)> {
    let keys: Vec<String> = server.ask(&["KEYS", "lock:*"]);
    let holder = |key: String| server.ask::<Option<String>, _>(&["GET", &key]).map(|token| (key, token));
    let mut truth: Vec<_> = keys.into_iter().filter_map(holder).collect();
    truth.sort();
    truth
}

/// The transitions of each lock alternate between acquired and ended.
#[track_caller]
fn makes_sense(story: &[Transition], feed: Feed) {
    let mut stories: HashMap<String, Vec<&Transition>> = HashMap::new();
    for change in story {
        stories.entry(change.key.to_string()).or_default().push(change);
    }
    for (key, story) in stories {
        let mut held = false;
        for (index, change) in story.iter().enumerate() {
            let fits = match change.change {
                Change::Found | Change::Acquired | Change::PutBack | Change::CameBack => !held,
                Change::Renewed | Change::Taken | Change::Moved => held,
                // Notifications report each end, so none may be called unseen.
                Change::Ended(Ending::Unseen) => held && feed != Feed::Notifications,
                Change::Ended(_) => held,
            };
            let near = &story[index.saturating_sub(8)..story.len().min(index + 4)];
            let tell =
                |c: &&Transition| format!("{} {:?} {:?}", c.at.0, c.change, c.holder.as_ref().map(|t| t.to_string()));
            let near: Vec<String> = near.iter().map(tell).collect();
            assert!(fits, "{feed:?}: {key} {:?} at {}, in {near:#?}", change.change, change.at.0);
            held = !matches!(change.change, Change::Ended(_));
        }
    }
}

async fn storm(feed: Feed, pace: Pace, seed: u64) {
    let server = feed.server();
    let mut engine = follow(&server, feed, pace).await;
    engine.record(1_000_000);
    let mut reader = engine.reader();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let connection = server.connection();
            std::thread::spawn(move || client(connection, number, seed))
        })
        .collect();
    let mut story = Vec::new();
    while clients.iter().any(|client| !client.is_finished()) {
        engine.run_for(Duration::from_millis(20)).await;
        story.extend(reader.take().0);
    }
    clients.into_iter().for_each(|client| client.join().expect("a client does not fail"));
    let began = Instant::now();
    loop {
        engine.run_for(Duration::from_millis(100)).await;
        story.extend(reader.take().0);
        let (table, server) = (held(&engine), truth(&server));
        if table == server && engine.table().waiting() == 0 && engine.snapshot().complete {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{feed:?}, seed {seed}: the table has {table:?}, the server {server:?}");
    }
    story.extend(reader.take().0);
    assert!(story.len() > 50, "{feed:?}: only {} changes were told", story.len());
    makes_sense(&story, feed);
    assert_replays(&mut engine, &story, feed);
}

/// Another table that is told the same, by way of its written form, tells the same story and shows the same locks.
#[track_caller]
fn assert_replays(engine: &mut Engine, story: &[Transition], feed: Feed) {
    let (recorded, left_out) = engine.take_recorded();
    assert_eq!(left_out, 0);
    let mut table = Table::new(Arc::new(engine.table().recogniser().clone()), Limits::default());
    for observation in recorded {
        let text = serde_json::to_string(&Record::new(observation)).expect("it can be written");
        table.apply(serde_json::from_str::<Record<Observation>>(&text).expect("it can be read").of);
    }
    let told = table.take_transitions().0;
    let differs = told.iter().zip(story).position(|(again, first)| again != first);
    let near = |story: &[Transition]| differs.map(|index| story[index].clone());
    assert_eq!((told.len(), near(&told)), (story.len(), near(story)), "{feed:?}, from change {differs:?} on");
    let now = engine.clock.now();
    assert_eq!(table.snapshot(now).locks, engine.table().snapshot(now).locks, "{feed:?}");
}

#[tokio::test]
async fn after_a_storm_notifications_have_the_truth() {
    storm(Feed::Notifications, Pace::Fast, 1).await;
}

#[tokio::test]
async fn after_a_storm_seen_politely_notifications_have_the_truth() {
    storm(Feed::Notifications, Pace::POLITE, 2).await;
}

#[tokio::test]
async fn after_a_storm_tracking_has_the_truth() {
    storm(Feed::Tracking, Pace::Fast, 3).await;
}

#[tokio::test]
async fn after_a_storm_polling_has_the_truth() {
    let feed = Feed::Polling;
    storm(feed, Pace::Fast, 4).await;
}

#[tokio::test]
async fn a_lock_made_permanent_has_no_ttl_from_then_on() {
    for feed in [Feed::Notifications, Feed::Tracking] {
        let server = feed.server();
        server.cli(&["SET", "lock:a", "t", "PX", "60000"]);
        let mut engine = follow(&server, feed, Pace::Fast).await;
        engine.run_until_inventory().await;
        let state = |engine: &lockscope::engine::Engine| engine.snapshot().locks[0].verdict.state;
        assert_eq!(state(&engine), State::Held);
        server.cli(&["PERSIST", "lock:a"]);
        let began = Instant::now();
        while state(&engine) != State::NoTtl {
            assert!(began.elapsed() < PATIENCE, "{feed:?}: still {:?}", state(&engine));
            engine.run_for(Duration::from_millis(20)).await;
        }
        server.cli(&["PEXPIRE", "lock:a", "60000"]);
        while state(&engine) != State::Held {
            assert!(began.elapsed() < PATIENCE, "{feed:?}: still {:?}", state(&engine));
            engine.run_for(Duration::from_millis(20)).await;
        }
    }
}
