//! Reads what a write will be compared with, after an operator asked for one: long values whole, the end of each lease by
//! the server's clock, and possible waiters where the library is a guess.
//!
//! It judges nothing and writes nothing. Every reply is bounded: we fetch no more of a value than we compare.

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use crate::base::text;
use crate::base::time::Ttl;
use crate::dialects::{self, counter};
use crate::lock::{Mode, RawValue, Token};
use crate::model::guesses;
use crate::model::proof::{HolderLease, LARGEST};
use crate::model::{End, LockView, Whole};
use crate::sources::replies::Replies;
use crate::sources::waiters::{ClientCounts, Count, Listeners};
use crate::topology::Topology;

/// Ask about at most this many locks at once.
const BATCH: usize = 100;
/// Two readings of the same end may differ by this much: clocks have a resolution, and advance inside a script.
const GRAIN_MS: i64 = 10;

/// Fills in the proofs, each at the node of its lock. An error means that a connection is lost; the locks without a proof
/// keep none.
pub async fn prove(topology: &Topology, locks: &mut [LockView]) -> RedisResult<()> {
    for here in locks.chunk_by_mut(|one, next| one.node == next.node) {
        let Some(first) = here.first() else { continue };
        prove_here(&mut topology.reader(first.space, &first.key).await?, here).await?;
    }
    match topology.cluster() {
        Some(_) => prove_waits_everywhere(topology, locks).await,
        None => Ok(()),
    }
}

/// In a cluster clients listen, and wait for keys of other slots, at other nodes too.
async fn prove_waits_everywhere(topology: &Topology, locks: &mut [LockView]) -> RedisResult<()> {
    let is_asked = |lock: &LockView| counter::number(&lock.value).is_some() || guesses::may_be_popped(lock);
    let mut asked: Vec<&mut LockView> = locks.iter_mut().filter(|lock| is_asked(lock)).collect();
    for node in topology.nodes() {
        let elsewhere = asked.iter().enumerate().filter(|(_, lock)| lock.node != node.id);
        let (places, mut found): (Vec<usize>, Vec<LockView>) =
            elsewhere.map(|(place, lock)| (place, LockView::clone(lock))).unzip();
        if found.is_empty() {
            continue;
        }
        let asking = async { prove_waits(&mut node.connect().await?, &mut found).await };
        // Somebody may wait at a node that does not answer.
        let unknown = asking.await.is_err();
        for (place, found) in places.into_iter().zip(found) {
            let proof = &mut asked[place].proof;
            proof.counted_on += if unknown { 0 } else { found.proof.counted_on };
            proof.blocked = proof.blocked.map(|blocked| blocked || unknown || found.proof.blocked == Some(true));
        }
    }
    Ok(())
}

/// The same for the locks of one node.
async fn prove_here(conn: &mut impl ConnectionLike, locks: &mut [LockView]) -> RedisResult<()> {
    for batch in locks.chunks_mut(BATCH) {
        read_ends(conn, batch).await?;
        for lock in batch.iter_mut() {
            lock.proof.value = read_whole(conn, lock).await?;
        }
    }
    prove_waits(conn, locks).await
}

/// Reads who listens for permits of them, and whether anybody is blocked who may wait for one of them.
pub async fn prove_waits(conn: &mut impl ConnectionLike, locks: &mut [LockView]) -> RedisResult<()> {
    for batch in locks.chunks_mut(BATCH) {
        read_listeners(conn, batch).await?;
    }
    if locks.iter().any(guesses::may_be_popped) {
        let blocked = any_blocked(conn).await?;
        locks.iter_mut().for_each(|lock| lock.proof.blocked = Some(blocked));
    }
    Ok(())
}

/// Whether any client is blocked, in any command. Yes where that is not known.
async fn any_blocked(conn: &mut impl ConnectionLike) -> RedisResult<bool> {
    let mut pipe = redis::pipe();
    pipe.cmd("INFO").arg("clients");
    let info = Replies::to(conn, pipe).await?.read::<String>();
    Ok(info.ok().and_then(|info| ClientCounts::parse(&info)).is_none_or(ClientCounts::any_blocked))
}

async fn read_ends(conn: &mut impl ConnectionLike, locks: &mut [LockView]) -> RedisResult<()> {
    let of_holders: Vec<Vec<(Token, Vec<u8>)>> = locks.iter().map(leases_of_holders).collect();
    let mut pipe = redis::pipe();
    pipe.cmd("TIME");
    for (lock, leases) in locks.iter().zip(&of_holders) {
        pipe.cmd("PTTL").arg(lock.key.as_bytes());
        for (_, key) in leases {
            pipe.cmd("PTTL").arg(key);
        }
    }
    pipe.cmd("TIME");
    let mut replies = Replies::to(conn, pipe).await?;
    let before = replies.time();
    let mut read = || replies.read::<i64>().ok().and_then(Ttl::of_pttl);
    let left: Vec<(Option<Ttl>, Vec<Option<Ttl>>)> =
        of_holders.iter().map(|leases| (read(), leases.iter().map(|_| read()).collect())).collect();
    let (Some(before), Some(after)) = (before, replies.time()) else { return Ok(()) };
    let within = after.since(before).as_millis() as i64 + GRAIN_MS;
    let end = |left: Ttl| match left {
        Ttl::Never => End::Never,
        Ttl::In(left) => End::At { ms: (before + left).0, within },
    };
    for ((lock, holders), (own, theirs)) in locks.iter_mut().zip(of_holders).zip(left) {
        // Show what will be compared.
        (lock.proof.end, lock.ttl) = (own.map(end), own.unwrap_or(lock.ttl));
        let known = holders.into_iter().zip(theirs).filter_map(|((holder, key), left)| Some((holder, key, left?)));
        lock.proof.leases =
            known.map(|(holder, key, left)| HolderLease { holder, key, end: end(left), left }).collect();
    }
    Ok(())
}

/// For each of several holders the first of its leases, where it has some in keys beside the lock: that one lasts as long
/// as its hold, whatever it enters and leaves meanwhile.
fn leases_of_holders(lock: &LockView) -> Vec<(Token, Vec<u8>)> {
    let Some(id) = dialects::by_name(lock.dialect).filter(|_| lock.mode == Mode::Read) else { return Vec::new() };
    let (dialect, sight) = (dialects::dialect(id), lock.sight(lock.at));
    let tokens = lock.holders.iter().map(|holder| &holder.token);
    tokens
        .filter_map(|token| Some((token.clone(), dialect.leases(&sight, token.as_bytes()).into_iter().next()?)))
        .collect()
}

/// Counts the listeners for permits of locks whose value may be a count of permits.
async fn read_listeners(conn: &mut impl ConnectionLike, locks: &mut [LockView]) -> RedisResult<()> {
    let numbers: Vec<&mut LockView> = locks.iter_mut().filter(|lock| counter::number(&lock.value).is_some()).collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let channels: Vec<Vec<u8>> = numbers.iter().map(|lock| counter::channel(lock.key.as_bytes())).collect();
    let mut pipe = redis::pipe();
    Listeners::ask(&mut pipe, channels.iter().map(Vec::as_slice));
    let listeners = Listeners::take(&mut Replies::to(conn, pipe).await?, false);
    for (place, lock) in numbers.into_iter().enumerate() {
        lock.proof.counted_on = match listeners.on(place).0 {
            Count::Exactly(count) | Count::AtLeast(count) | Count::AtMost(count) => count,
            Count::Unknown(_) => 0,
        };
    }
    Ok(())
}

async fn read_whole(conn: &mut impl ConnectionLike, lock: &LockView) -> RedisResult<Whole> {
    let RawValue::Str { head, len } = &lock.value else { return Ok(Whole::NotAsked) };
    if lock.value.is_whole() || *len > LARGEST {
        return Ok(Whole::NotAsked);
    }
    let mut pipe = redis::pipe();
    pipe.cmd("GETRANGE").arg(lock.key.as_bytes()).arg(0).arg(LARGEST);
    Ok(match Replies::to(conn, pipe).await?.value() {
        Ok(Value::BulkString(value)) if value.len() as u64 == *len && value.starts_with(head) => {
            Whole::Sha1(sha1_smol::Sha1::from(&value).digest().to_string())
        }
        Ok(_) => Whole::Unknown("it changed while we read it; read it again".into()),
        Err(error) => Whole::Unknown(format!("it could not be read: {}", text::said(&error))),
    })
}
