//! Locks change hands while their slots move from node to node and an operator releases them: nothing is freed that the
//! operator did not see, and nothing is written to a node that does not own the lock.
//!
//! Each client takes its lock with a new token, holds it for a moment and releases it, again and again, and records
//! whether the lock was still its own. Meanwhile the slot of its lock moves key by key, and stops half-way until locks
//! have changed hands; every second time all of it moves at once, where the server can do that. In the end both records must agree, and no node may have a key of a slot that it does not own.

mod common;

use std::collections::BTreeSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::acting::Acting;
use common::cluster::{ClusterClient, moves_at_once};
use common::{Cluster, Server};
use lockscope::actions::Outcome;
use lockscope::lock::slot_of;
use redis::{Value, cmd};

/// How a library takes and frees a lock: KEYS[1] the lock, ARGV[1] the token.
struct Kind {
    name: &'static str,
    key: &'static str,
    take: &'static str,
    free: &'static str,
    token: fn(usize) -> String,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "plain",
        key: "lock:plain",
        take: "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 60000) and 1 or 0",
        free: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        token: |number| format!("token-{number}"),
    },
    // Its release has a queue beside the lock, which is not there: refused while the slot is half-way.
    Kind {
        name: "redisson",
        key: "lock:redisson",
        take: "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 60000) return 1",
        free: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call('DEL', KEYS[1])",
        token: |number| format!("{number:08x}-1111-4222-8333-444455556666:{}", number % 97),
    },
];

const HAND_OVERS: usize = 200;
/// No wait of this test is longer, whatever happens.
const LIMIT: Duration = Duration::from_secs(60);

/// How far everybody has come.
#[derive(Default)]
struct Progress {
    hand_overs: AtomicUsize,
    /// Releases that were attempted.
    attempts: AtomicUsize,
    moves: AtomicUsize,
    done: AtomicBool,
}

impl Progress {
    /// Waits until this count has grown, or the client is done.
    fn wait(&self, count: &AtomicUsize, by: usize) {
        let (from, began) = (count.load(SeqCst), Instant::now());
        while count.load(SeqCst) < from + by && !self.done.load(SeqCst) && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Ends the others even if its thread panics.
struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.done.store(true, SeqCst);
    }
}

fn call(client: &mut ClusterClient, kind: &Kind, script: &str, token: &str) -> i64 {
    match client.ask(kind.key, cmd("EVAL").arg(script).arg(1).arg(kind.key).arg(token)) {
        Value::Int(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Takes and frees; returns the tokens that were gone when they were to be freed.
fn hand_over(kind: &Kind, mut client: ClusterClient, progress: &Progress) -> BTreeSet<String> {
    let _end = End(progress);
    let (mut gone, mut last, began) = (BTreeSet::new(), String::new(), Instant::now());
    for number in 0..HAND_OVERS {
        let token = (kind.token)(number);
        while call(&mut client, kind, kind.take, &token) == 0 {
            assert!(!progress.done.load(SeqCst), "another thread failed");
            assert!(began.elapsed() < LIMIT, "{}: nobody frees it", kind.key);
            // An undo put one of its holds back, and nobody else will free it.
            for former in gone.iter().chain([&last]) {
                call(&mut client, kind, kind.free, former);
            }
        }
        // Some holds last until a release has been tried.
        if number % 8 == 3 {
            progress.wait(&progress.attempts, 1);
        }
        if call(&mut client, kind, kind.free, &token) == 0 {
            gone.insert(token.clone());
        }
        last = token;
        progress.hand_overs.fetch_add(1, SeqCst);
    }
    gone
}

/// Moves the slot round the masters, with a stop before and after its keys move. `alone`: a server does not move slots at once
/// while others are half-way.
fn move_round(kind: &Kind, cluster: &Cluster, progress: &Progress, alone: &RwLock<()>) {
    let _end = End(progress);
    let slot = slot_of(kind.key.as_bytes());
    let mut at = usize::from(slot / 5_462);
    while !progress.done.load(SeqCst) {
        let (from, to) = (cluster.master(at), cluster.master((at + 1) % 3));
        if moves_at_once(from) && progress.moves.load(SeqCst) % 2 == 1 {
            let _alone = alone.write().expect("no mover panics");
            cluster.move_at_once(&[slot], from, to);
        } else {
            let _beside = alone.read().expect("no mover panics");
            cluster.open_slot(slot, from, to);
            progress.wait(&progress.hand_overs, 2);
            while !cluster.migrate(slot, from, to, 10).is_empty() {}
            progress.wait(&progress.hand_overs, 2);
            while !cluster.migrate(slot, from, to, 10).is_empty() {}
            cluster.close_slot(slot, from, to);
        }
        cluster.agree(kind.key);
        progress.moves.fetch_add(1, SeqCst);
        progress.wait(&progress.hand_overs, 4);
        at = (at + 1) % 3;
    }
}

#[derive(Default)]
struct Operated {
    freed: BTreeSet<String>,
    back: BTreeSet<String>,
    /// Whether they were freed or put back is not known.
    unknown: BTreeSet<String>,
    refused: usize,
}

async fn operate(kind: &Kind, cluster: &Cluster, progress: &Progress) -> Operated {
    let _end = End(progress);
    let (mut operated, mut acting) = (Operated::default(), Acting::on_cluster(cluster).await);
    let mut round = 0_usize;
    while !progress.done.load(SeqCst) {
        let Some(lock) = acting.see(kind.key.as_bytes(), Some(kind.name)).await else { continue };
        let Some(token) = lock.holders.first().map(|holder| holder.token.as_bytes().to_vec()) else { continue };
        assert!(lock.clustered && lock.dialect == kind.name, "{lock:?}");
        let name = String::from_utf8_lossy(&token).into_owned();
        let performed = acting.free(&lock, Some(&token)).await;
        progress.attempts.fetch_add(1, SeqCst);
        round += 1;
        match performed.outcome {
            Outcome::Done { .. } => {
                operated.freed.insert(name.clone());
                if !round.is_multiple_of(2) {
                    continue;
                }
                let Ok(plan) = acting.kept(&performed.id).plan(acting.clock.now()) else { continue };
                match acting.perform(&plan).await.outcome {
                    Outcome::Done { .. } => drop(operated.back.insert(name)),
                    Outcome::Refused(_) => {}
                    Outcome::Unknown(_) => drop(operated.unknown.insert(name)),
                }
            }
            Outcome::Refused(_) => operated.refused += 1,
            Outcome::Unknown(_) => drop(operated.unknown.insert(name)),
        }
    }
    operated
}

#[test]
fn nothing_is_freed_that_the_operator_did_not_see_while_slots_move() {
    let Some(cluster) = Cluster::start(3) else { return };
    if !moves_at_once(cluster.master(0)) {
        common::left_to_the_matrix("releases while slots move at once: the server has no atomic migration of slots");
    }
    let (cluster, mut freed, mut moves) = (&cluster, 0, 0);
    let alone = &RwLock::new(());
    let progress = KINDS.each_ref().map(|_| Progress::default());
    let accounts: Vec<(BTreeSet<String>, Operated)> = std::thread::scope(|scope| {
        let each = KINDS.iter().zip(&progress).map(|(kind, progress)| {
            let client = cluster.client();
            let operator = scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(operate(kind, cluster, progress))
            });
            let mover = scope.spawn(move || move_round(kind, cluster, progress, alone));
            (scope.spawn(move || hand_over(kind, client, progress)), operator, mover)
        });
        let each: Vec<_> = each.collect();
        each.into_iter()
            .map(|(client, operator, mover)| {
                mover.join().expect("the slots move");
                (client.join().expect("the client ends well"), operator.join().expect("the operator ends well"))
            })
            .collect()
    });
    for ((kind, progress), (gone, operated)) in KINDS.iter().zip(&progress).zip(accounts) {
        let Operated { freed: done, back, unknown, refused } = operated;
        let wrongly: Vec<_> = gone.difference(&done).filter(|token| !unknown.contains(*token)).collect();
        assert!(wrongly.is_empty(), "{}: freed without being seen: {wrongly:?}", kind.key);
        let not_gone: Vec<_> =
            done.difference(&gone).filter(|token| !back.contains(*token) && !unknown.contains(*token)).collect();
        assert!(not_gone.is_empty(), "{}: said to be freed, and was not: {not_gone:?}", kind.key);
        println!(
            "{}: {} hand-overs, {} moves, {} freed, {} put back, {refused} refused, {} unknown",
            kind.key,
            progress.hand_overs.load(SeqCst),
            progress.moves.load(SeqCst),
            done.len(),
            back.len(),
            unknown.len()
        );
        (freed, moves) = (freed + done.len(), moves + progress.moves.load(SeqCst));
        only_at_its_owner(cluster, kind.key);
    }
    assert!(freed > 0 && moves > 0, "{freed} releases and {moves} moves prove nothing");
}

/// No other master has the key.
fn only_at_its_owner(cluster: &Cluster, key: &str) {
    let owns = |node: &&Server| node.try_ask::<Value, _>(&["EXISTS", key]).is_ok();
    let others = cluster.nodes[..3].iter().filter(|node| !owns(node));
    for node in others {
        let keys: Vec<String> = node.ask(&["KEYS", key]);
        assert!(keys.is_empty(), "{key} is at {} too", node.port());
    }
}
