//! Reads what a release will take away. The size is checked first: a dump of hundreds of megabytes would stall the
//! server, and us.

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult, Value, cmd};

use super::{About, Barrier, Blob, Deed, Keep, Kept, What};
use crate::actions::plan::{Action, Plan};
use crate::actions::write::Write;
use crate::base::text;
use crate::base::time::{Time, Ttl};
use crate::dialects::{Obstacle, Step, by_name, dialect, word};
use crate::server::permissions::{self, Permission};

/// A larger key is not kept.
const LARGEST: u64 = 1 << 20;
/// A key with more entries is not kept, because the server would have to measure them one by one.
const ENTRIES: u64 = 10_000;

/// What has to be asked to keep one thing.
struct Keeping<'a> {
    step: &'a Step,
    when_emptied: bool,
}

/// Whether undo will be possible, or why not, before anything is done.
pub(in crate::actions) async fn foresee(
    conn: &mut impl ConnectionLike,
    plan: &Plan,
) -> RedisResult<Result<(), String>> {
    if plan.action != Action::Free {
        return Ok(Err("only a release can be undone".into()));
    }
    let keepings = keepings(plan);
    if let Err(why) = measure(conn, &wholes(&keepings), &fields(&keepings)).await? {
        return Ok(Err(why));
    }
    let dumps: Vec<Vec<Vec<u8>>> =
        wholes(&keepings).into_iter().map(|key| vec![b"DUMP".to_vec(), key.clone()]).collect();
    if dumps.is_empty() {
        return Ok(Ok(()));
    }
    let denied = permissions::dry_run(conn, &dumps).await?.into_iter().find_map(|answer| match answer {
        Permission::Denied { reason, .. } => Some(format!("it could not be read as a whole: {reason}")),
        _ => None,
    });
    Ok(denied.map_or(Ok(()), Err))
}

/// Reads what the plan takes away. An error of the connection is an error; what can't be kept is a reason.
pub(in crate::actions) async fn read(
    conn: &mut impl ConnectionLike,
    plan: &Plan,
    about: About,
) -> RedisResult<Result<Kept, String>> {
    let keepings = keepings(plan);
    if let Err(why) = measure(conn, &wholes(&keepings), &fields(&keepings)).await? {
        return Ok(Err(why));
    }
    let mut pipe = redis::pipe();
    pipe.cmd("TIME").cmd("PTTL").arg(plan.key.as_bytes());
    for question in &keepings {
        ask(&mut pipe, question.step);
    }
    let answers: Vec<Value> = pipe.ignore_errors().query_async(conn).await?;
    let mut answers = answers.into_iter();
    let Some(server_now) = answers.next().and_then(server_time) else {
        return Ok(Err("the server does not report its time".into()));
    };
    let until = |left: Option<Value>| match left {
        Some(Value::Int(left)) => Ttl::of_pttl(left)?.remaining().map(|left| (Time(server_now) + left).0),
        _ => None,
    };
    let mut kept = Kept::nothing(about, plan, Deed::Freed);
    kept.ahead = server_now - kept.about.at;
    kept.until = until(answers.next());
    for question in keepings {
        let (value, left) = (answers.next(), answers.next());
        if let Some(Value::ServerError(error)) = value.as_ref().filter(|answer| refuses(answer)) {
            return Ok(Err(format!("it could not be read as a whole: {}", text::said(error))));
        }
        if let Some(what) = value.and_then(|value| what(question.step, value)) {
            kept.things.push(Keep { what, until: until(left), when_emptied: question.when_emptied });
        }
    }
    // It has grown since it was measured.
    let too_large =
        |keep: &Keep| matches!(&keep.what, What::Whole { dump, .. } if dump.0.len() as u64 > LARGEST + 1_024);
    if kept.things.iter().any(too_large) {
        return Ok(Err("it grows too fast to be kept".into()));
    }
    kept.obstacles = barriers(conn, plan, server_now).await?;
    Ok(Ok(kept))
}

fn refuses(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() != "WRONGTYPE")
}

fn server_time(answer: Value) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(answer).ok()?;
    Time::of_server(seconds, micros).map(|time| time.0)
}

/// Steps that take something away that can be put back. Waking waiters takes nothing away.
fn keepings(plan: &Plan) -> Vec<Keeping<'_>> {
    let steps = plan.writes.iter().filter_map(|write| match write {
        Write::Step(step) => Some(step),
        _ => None,
    });
    let mut keepings = Vec::new();
    for step in steps {
        match step {
            Step::WhenEmptied { then, besides, .. } => {
                if besides.is_some() {
                    keepings.push(Keeping { step, when_emptied: true });
                }
                // The hash itself comes back field by field.
                let own = |step: &&Step| !matches!(step, Step::Delete(key) if *key == plan.key.as_bytes());
                keepings.extend(then.iter().filter(own).map(|step| Keeping { step, when_emptied: true }));
            }
            step => keepings.push(Keeping { step, when_emptied: false }),
        }
    }
    let signalled: Vec<&Vec<u8>> = keepings.iter().filter_map(|question| signal(question.step)).collect();
    let wanted = |question: &Keeping<'_>| match question.step {
        Step::Delete(key) => !signalled.contains(&key),
        Step::Publish { .. } | Step::PublishToHead { .. } | Step::DropWaiter { .. } | Step::Signal { .. } => false,
        // What it takes of the TTL comes back with the field.
        Step::LastAsReaders { .. } => false,
        Step::DeleteField { .. }
        | Step::RemoveScored { .. }
        | Step::RemoveMember { .. }
        | Step::PushBack { .. }
        | Step::ReturnPermits { .. }
        | Step::WhenEmptied { .. } => true,
    };
    keepings.into_iter().filter(wanted).collect()
}

fn signal(step: &Step) -> Option<&Vec<u8>> {
    match step {
        Step::Signal { list, .. } => Some(list),
        _ => None,
    }
}

/// Returns a reason if it is too large. Counts the entries first, then the memory, because measuring memory costs the
/// server time.
pub(super) async fn measure(
    conn: &mut impl ConnectionLike,
    whole: &[&Vec<u8>],
    fields: &[(&Vec<u8>, &Vec<u8>)],
) -> RedisResult<Result<(), String>> {
    let kinds = whole.iter().map(|key| cmd("TYPE").arg(key).take());
    let lengths = fields.iter().map(|(key, field)| cmd("HSTRLEN").arg(key).arg(field).take());
    let answers = many(conn, kinds.chain(lengths)).await?;
    let (kinds, lengths) = answers.split_at(whole.len().min(answers.len()));
    for ((key, _), length) in fields.iter().zip(lengths) {
        if let Some(why) = too_large(key, length, LARGEST, "bytes") {
            return Ok(Err(why));
        }
    }
    let counted = |kind: &Value| match kind {
        Value::SimpleString(kind) => match kind.as_str() {
            "string" => Some(("STRLEN", LARGEST, "bytes")),
            "hash" => Some(("HLEN", ENTRIES, "fields")),
            "zset" => Some(("ZCARD", ENTRIES, "members")),
            "set" => Some(("SCARD", ENTRIES, "members")),
            "list" => Some(("LLEN", ENTRIES, "items")),
            "stream" => Some(("XLEN", ENTRIES, "entries")),
            _ => None,
        },
        _ => None,
    };
    let known: Vec<_> = whole.iter().zip(kinds).filter_map(|(key, kind)| Some((*key, counted(kind)?))).collect();
    let counts = known.iter().map(|(key, (command, ..))| cmd(command).arg(key).take());
    for ((key, (_, most, unit)), count) in known.iter().zip(many(conn, counts).await?) {
        if let Some(why) = too_large(key, &count, *most, unit) {
            return Ok(Err(why));
        }
    }
    let weighed: Vec<_> = known.iter().filter(|(_, (command, ..))| *command != "STRLEN").collect();
    let sizes = weighed.iter().map(|(key, _)| cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).take());
    for ((key, _), size) in weighed.iter().zip(many(conn, sizes).await?) {
        if let Some(why) = too_large(key, &size, LARGEST, "bytes") {
            return Ok(Err(why));
        }
    }
    Ok(Ok(()))
}

async fn many(conn: &mut impl ConnectionLike, commands: impl Iterator<Item = Cmd>) -> RedisResult<Vec<Value>> {
    let mut pipe = redis::pipe();
    for command in commands {
        pipe.add_command(command);
    }
    if pipe.is_empty() { Ok(Vec::new()) } else { pipe.ignore_errors().query_async(conn).await }
}

/// A size that can't be measured counts as too large.
fn too_large(key: &[u8], size: &Value, most: u64, unit: &str) -> Option<String> {
    match size {
        Value::Int(size) if *size as u64 > most => {
            Some(format!("{} has {size} {unit}; at most {most} are kept", word(key)))
        }
        Value::ServerError(error) if refuses(size) => {
            Some(format!("its size could not be asked: {}", text::said(error)))
        }
        _ => None,
    }
}

fn wholes<'a>(keepings: &[Keeping<'a>]) -> Vec<&'a Vec<u8>> {
    let whole = |question: &Keeping<'a>| match question.step {
        Step::Delete(key) => Some(key),
        _ => None,
    };
    keepings.iter().filter_map(whole).collect()
}

fn fields<'a>(keepings: &[Keeping<'a>]) -> Vec<(&'a Vec<u8>, &'a Vec<u8>)> {
    let field = |question: &Keeping<'a>| match question.step {
        Step::DeleteField { key, field } | Step::WhenEmptied { key, besides: Some(field), .. } => Some((key, field)),
        _ => None,
    };
    keepings.iter().filter_map(field).collect()
}

/// Two keepings for each: what, and for how long.
fn ask(pipe: &mut redis::Pipeline, step: &Step) {
    match step {
        Step::Delete(key) => pipe.cmd("DUMP").arg(key).cmd("PTTL").arg(key),
        Step::DeleteField { key, field } | Step::WhenEmptied { key, besides: Some(field), .. } => {
            pipe.cmd("HGET").arg(key).arg(field).cmd("PTTL").arg(key)
        }
        Step::RemoveScored { key, member } => pipe.cmd("ZSCORE").arg(key).arg(member).cmd("PTTL").arg(key),
        Step::RemoveMember { key, member } => pipe.cmd("SISMEMBER").arg(key).arg(member).cmd("PTTL").arg(key),
        _ => pipe.cmd("PING").cmd("PING"),
    };
}

fn what(step: &Step, value: Value) -> Option<What> {
    let blob = |bytes: &Vec<u8>| Blob(bytes.clone());
    let bytes = |value: Value| match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::Double(score) => Some(score.to_string().into_bytes()),
        _ => None,
    };
    Some(match step {
        Step::Delete(key) => What::Whole { key: blob(key), dump: Blob(bytes(value)?) },
        Step::DeleteField { key, field } => {
            What::Field { key: blob(key), field: blob(field), value: Blob(bytes(value)?) }
        }
        Step::WhenEmptied { key, besides: Some(field), .. } => {
            What::Base { key: blob(key), field: blob(field), value: Blob(bytes(value)?) }
        }
        Step::RemoveScored { key, member } => {
            What::Scored { key: blob(key), member: blob(member), score: String::from_utf8(bytes(value)?).ok()? }
        }
        Step::RemoveMember { key, member } if value == Value::Int(1) => {
            What::Member { key: blob(key), member: blob(member) }
        }
        Step::ReturnPermits { counter, permits, .. } => What::Permits { counter: blob(counter), permits: *permits },
        Step::PushBack { list, token } => What::Pushed { list: blob(list), token: blob(token) },
        _ => return None,
    })
}

/// The obstacles of the plan, with the present number of holders: an undo may reach that number again, but not more,
/// because the library's limit is not stored. A fencing counter shows whether another client has held it since.
async fn barriers(conn: &mut impl ConnectionLike, plan: &Plan, now: i64) -> RedisResult<Vec<Barrier>> {
    let fencing = by_name(plan.dialect).and_then(|id| dialect(id).fencing_key(plan.key.as_bytes()));
    let counts = plan.obstacles.iter().map(|obstacle| match obstacle {
        Obstacle::Fields { key, limit: None } => cmd("HLEN").arg(key).take(),
        Obstacle::Members { key, lease_ms: None } => cmd("ZCARD").arg(key).take(),
        Obstacle::Members { key, lease_ms: Some(lease) } => {
            let from = format!("({}", now - lease);
            cmd("ZRANGEBYSCORE").arg(key).arg(from).arg("+inf").arg("LIMIT").arg(0).arg(ENTRIES).take()
        }
        _ => cmd("PING"),
    });
    let answers: Vec<u64> = many(conn, counts).await?.iter().map(count).collect();
    let barrier = |(obstacle, count): (&Obstacle, u64)| barrier(obstacle, count);
    let mut barriers: Vec<Barrier> = plan.obstacles.iter().zip(answers).map(barrier).collect();
    if let Some(key) = fencing {
        // A counter is short; anything longer is not the library's counter.
        let value: RedisResult<Vec<u8>> = cmd("GETRANGE").arg(&key).arg(0).arg(31).query_async(conn).await;
        if let Ok(value) = value {
            barriers.push(Barrier::Counter { key: Blob(key), value: Blob(value) });
        }
    }
    Ok(barriers)
}

fn count(answer: &Value) -> u64 {
    match answer {
        Value::Int(count) => u64::try_from(*count).unwrap_or(0),
        Value::Array(members) => members.len() as u64,
        _ => 0,
    }
}

fn barrier(obstacle: &Obstacle, count: u64) -> Barrier {
    let blob = |bytes: &Vec<u8>| Blob(bytes.clone());
    match obstacle {
        Obstacle::Key(key) => Barrier::Key(blob(key)),
        Obstacle::Scored { key, member } => Barrier::Scored { key: blob(key), member: blob(member) },
        Obstacle::Mode { key, field, value } => {
            Barrier::Mode { key: blob(key), field: blob(field), value: blob(value) }
        }
        Obstacle::Fields { key, limit } => Barrier::Fields { key: blob(key), most: limit.unwrap_or(count) },
        Obstacle::Members { key, lease_ms } => Barrier::Members { key: blob(key), lease_ms: *lease_ms, most: count },
        Obstacle::Ended { key, lease_ms } => Barrier::Ended { key: blob(key), lease_ms: *lease_ms },
        Obstacle::EndField { key, field } => Barrier::EndField { key: blob(key), field: blob(field) },
        Obstacle::Leases(keys) => Barrier::Leases(keys.iter().map(blob).collect()),
    }
}
