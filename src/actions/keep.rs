//! What a release takes away, kept so that it can be put back: pure but for the reading of it.
//!
//! Keys that go as a whole are kept as the server dumps them; parts of a key as what they are. The script that frees
//! compares the dump once more, so that what is kept is exactly what was taken.

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::gate::Refusal;
use super::plan::{Action, Plan};
use super::program::Write;
use crate::dialects::{Obstacle, Step, by_name, dialect};
use crate::model::{Key, NodeId, Time, Token, Ttl};
use crate::text::short_duration;

/// More of one key than this is not kept.
const LARGEST: u64 = 1 << 20;

/// One thing that was taken away.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Keep {
    what: What,
    /// When its key would have run out, in milliseconds of the server's Unix time.
    until: Option<i64>,
    /// It was taken away only if the last holder was.
    when_emptied: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Whole {
        key: Blob,
        dump: Blob,
    },
    Field {
        key: Blob,
        field: Blob,
        value: Blob,
    },
    /// A field that says how the hash is held, and has to be the same again.
    Base {
        key: Blob,
        field: Blob,
        value: Blob,
    },
    Scored {
        key: Blob,
        member: Blob,
        score: String,
    },
    Member {
        key: Blob,
        member: Blob,
    },
    Permits {
        counter: Blob,
        permits: u64,
    },
    Pushed {
        list: Blob,
        token: Blob,
    },
}

/// Bytes, in a file as base64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob(pub Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(&self.0).serialize(out)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Blob, D::Error> {
        use base64::Engine;
        let text = String::deserialize(from)?;
        base64::engine::general_purpose::STANDARD.decode(text).map(Blob).map_err(serde::de::Error::custom)
    }
}

/// Everything that one release took away.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub id: String,
    /// The server's address without a password, and the database.
    pub target: String,
    pub db: i64,
    pub key: Blob,
    pub dialect: String,
    pub holders: Vec<Blob>,
    /// By our clock.
    pub freed_at: i64,
    /// How far the server's clock was ahead of ours.
    ahead: i64,
    /// When the lock itself would have run out.
    until: Option<i64>,
    things: Vec<Keep>,
    obstacles: Vec<KeptObstacle>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptObstacle {
    Key(Blob),
    Scored { key: Blob, member: Blob },
}

/// What has to be asked to keep one thing.
struct Question<'a> {
    step: &'a Step,
    when_emptied: bool,
}

/// Reads what the plan takes away. An error of the connection is an error; what can't be kept is a reason.
pub(super) async fn read(
    conn: &mut impl ConnectionLike,
    plan: &Plan,
    about: (String, String, i64, Time),
) -> RedisResult<Result<Kept, String>> {
    let (id, target, db, now) = about;
    let questions = questions(plan);
    let mut pipe = redis::pipe();
    pipe.cmd("TIME").cmd("PTTL").arg(plan.key.as_bytes());
    for question in &questions {
        ask(&mut pipe, question.step);
    }
    let answers: Vec<Value> = pipe.ignore_errors().query_async(conn).await?;
    let mut answers = answers.into_iter();
    let Some(server_now) = answers.next().and_then(server_time) else {
        return Ok(Err("the server does not tell its time".into()));
    };
    let until = |left: Option<Value>| match left {
        Some(Value::Int(left)) if left >= 0 => Some(server_now + left),
        _ => None,
    };
    let lock_until = until(answers.next());
    let mut things = Vec::new();
    for question in questions {
        let (size, value, left) = (answers.next(), answers.next(), answers.next());
        if let Some(Value::ServerError(error)) = [&value, &size].into_iter().flatten().find(|answer| refuses(answer)) {
            return Ok(Err(format!("it could not be read as a whole: {error}")));
        }
        if matches!(size, Some(Value::Int(size)) if size as u64 > LARGEST) {
            return Ok(Err("it is too large to be kept".into()));
        }
        if let Some(what) = value.and_then(|value| what(question.step, value)) {
            things.push(Keep { what, until: until(left), when_emptied: question.when_emptied });
        }
    }
    let obstacles = plan.obstacles.iter().map(|obstacle| match obstacle {
        Obstacle::Key(key) => KeptObstacle::Key(Blob(key.clone())),
        Obstacle::Scored { key, member } => {
            KeptObstacle::Scored { key: Blob(key.clone()), member: Blob(member.clone()) }
        }
    });
    Ok(Ok(Kept {
        id,
        target,
        db,
        key: Blob(plan.key.as_bytes().to_vec()),
        dialect: plan.dialect.to_string(),
        holders: plan.holders.iter().map(|token| Blob(token.as_bytes().to_vec())).collect(),
        freed_at: now.0,
        ahead: server_now - now.0,
        until: lock_until,
        things,
        obstacles: obstacles.collect(),
    }))
}

fn refuses(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() != "WRONGTYPE")
}

fn server_time(answer: Value) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(answer).ok()?;
    Some(seconds * 1000 + micros / 1000)
}

/// Steps that take something away which somebody could want back. What wakes waiters is not.
fn questions(plan: &Plan) -> Vec<Question<'_>> {
    let steps = plan.writes.iter().filter_map(|write| match write {
        Write::Step(step) => Some(step),
        _ => None,
    });
    let mut questions = Vec::new();
    for step in steps {
        match step {
            Step::WhenEmptied { then, besides, .. } => {
                if besides.is_some() {
                    questions.push(Question { step, when_emptied: true });
                }
                // The hash itself comes back field by field.
                let own = |step: &&Step| !matches!(step, Step::Delete(key) if *key == plan.key.as_bytes());
                questions.extend(then.iter().filter(own).map(|step| Question { step, when_emptied: true }));
            }
            step => questions.push(Question { step, when_emptied: false }),
        }
    }
    let signalled: Vec<&Vec<u8>> = questions.iter().filter_map(|question| signal(question.step)).collect();
    let wanted = |question: &Question<'_>| match question.step {
        Step::Delete(key) => !signalled.contains(&key),
        Step::Publish { .. } | Step::PublishToHead { .. } | Step::DropWaiter { .. } | Step::Signal { .. } => false,
        _ => true,
    };
    questions.into_iter().filter(wanted).collect()
}

fn signal(step: &Step) -> Option<&Vec<u8>> {
    match step {
        Step::Signal { list, .. } => Some(list),
        _ => None,
    }
}

/// Three questions for each: how large, what, and for how long.
fn ask(pipe: &mut redis::Pipeline, step: &Step) {
    match step {
        Step::Delete(key) => {
            pipe.cmd("MEMORY").arg("USAGE").arg(key).cmd("DUMP").arg(key).cmd("PTTL").arg(key);
        }
        Step::DeleteField { key, field } | Step::WhenEmptied { key, besides: Some(field), .. } => {
            pipe.cmd("HLEN").arg(key).cmd("HGET").arg(key).arg(field).cmd("PTTL").arg(key);
        }
        Step::RemoveScored { key, member } => {
            pipe.cmd("ZCARD").arg(key).cmd("ZSCORE").arg(key).arg(member).cmd("PTTL").arg(key);
        }
        Step::RemoveMember { key, member } => {
            pipe.cmd("SCARD").arg(key).cmd("SISMEMBER").arg(key).arg(member).cmd("PTTL").arg(key);
        }
        _ => {
            pipe.cmd("PING").cmd("PING").cmd("PING");
        }
    }
}

fn what(step: &Step, value: Value) -> Option<What> {
    let blob = |bytes: &Vec<u8>| Blob(bytes.clone());
    let text = |value: Value| match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::Double(score) => Some(score.to_string().into_bytes()),
        _ => None,
    };
    Some(match step {
        Step::Delete(key) => What::Whole { key: blob(key), dump: Blob(text(value)?) },
        Step::DeleteField { key, field } => {
            What::Field { key: blob(key), field: blob(field), value: Blob(text(value)?) }
        }
        Step::WhenEmptied { key, besides: Some(field), .. } => {
            What::Base { key: blob(key), field: blob(field), value: Blob(text(value)?) }
        }
        Step::RemoveScored { key, member } => {
            What::Scored { key: blob(key), member: blob(member), score: String::from_utf8(text(value)?).ok()? }
        }
        Step::RemoveMember { key, member } if value == Value::Int(1) => {
            What::Member { key: blob(key), member: blob(member) }
        }
        Step::ReturnPermits { counter, permits, .. } => What::Permits { counter: blob(counter), permits: *permits },
        Step::PushBack { list, token } => What::Pushed { list: blob(list), token: blob(token) },
        _ => return None,
    })
}

impl Kept {
    /// That what is taken away is exactly what is kept.
    pub(super) fn checks(&self) -> Vec<Check> {
        let check = |keep: &Keep| match &keep.what {
            What::Whole { key, dump } => Some(Check::Dump { key: key.0.clone(), dump: dump.0.clone() }),
            _ => None,
        };
        self.things.iter().filter(|keep| !keep.when_emptied).filter_map(check).collect()
    }

    /// What really was taken away, once it is known whether the last holder was.
    pub(super) fn settle(&mut self, emptied: bool) {
        self.things.retain(|keep| emptied || !keep.when_emptied);
    }

    /// Puts it all back, if nobody has taken the lock since and its lease would still run.
    pub fn plan(&self, node: NodeId, now: Time) -> Result<Plan, Refusal> {
        if self.things.is_empty() {
            return Err(Refusal::NotSo(format!("nothing was kept of {}", self.id)));
        }
        // All moments here are the server's.
        let now = Time(now.0 + self.ahead);
        if let Some(until) = self.until.filter(|until| *until <= now.0) {
            let ago = short_duration((now.0 - until) as u64);
            return Err(Refusal::NotSo(format!(
                "the lease of {} would have run out {ago} ago: nobody would hold it any more",
                Key::from(&self.key.0[..])
            )));
        }
        let mut checks: Vec<Check> = self.until.map(Check::Before).into_iter().collect();
        checks.extend(self.obstacles.iter().map(|obstacle| match obstacle {
            KeptObstacle::Key(key) => Check::Absent(key.0.clone()),
            KeptObstacle::Scored { key, member } => Check::NoMember { key: key.0.clone(), member: member.0.clone() },
        }));
        let mut writes = Vec::new();
        for keep in &self.things {
            // What goes with the lock and would be gone by itself stays gone.
            if keep.until.is_some_and(|until| until <= now.0) {
                continue;
            }
            let (its_checks, write) = keep.back();
            checks.extend(its_checks);
            writes.push(write);
        }
        let ttl = self.until.map_or(Ttl::Never, |until| Ttl::In(Time(until).since(now)));
        Ok(Plan {
            action: Action::Undo(self.id.clone()),
            node,
            key: Key::from(&self.key.0[..]),
            dialect: by_name(&self.dialect).map_or("plain", |id| dialect(id).name()),
            holders: self.holders.iter().map(|token| Token::from(&token.0[..])).collect(),
            ttl,
            checks,
            writes,
            hazards: vec!["The holder may have noticed the loss and stopped its work.".into()],
            obstacles: Vec::new(),
            only_by_force: None,
            doubt: None,
            end: None,
        })
    }
}

impl Keep {
    fn back(&self) -> (Vec<Check>, Write) {
        let until = self.until;
        match self.what.clone() {
            What::Whole { key: Blob(key), dump: Blob(dump) } => {
                (vec![Check::Absent(key.clone())], Write::Restore { key, dump, until })
            }
            What::Field { key: Blob(key), field: Blob(field), value: Blob(value) } => {
                let check = Check::NoField { key: key.clone(), field: field.clone() };
                (vec![check], Write::PutField { key, field, value, until })
            }
            What::Base { key: Blob(key), field: Blob(field), value: Blob(value) } => {
                let check = Check::NotOther { key: key.clone(), field: field.clone(), value: value.clone() };
                (vec![check], Write::PutField { key, field, value, until })
            }
            What::Scored { key: Blob(key), member: Blob(member), score } => {
                let check = Check::NoMember { key: key.clone(), member: member.clone() };
                (vec![check], Write::PutScored { key, member, score, until })
            }
            What::Member { key: Blob(key), member: Blob(member) } => {
                let check = Check::NoElement { key: key.clone(), member: member.clone() };
                (vec![check], Write::PutMember { key, member, until })
            }
            What::Permits { counter: Blob(counter), permits } => {
                let check = Check::AtLeast { key: counter.clone(), count: permits };
                (vec![check], Write::TakePermits { counter, permits })
            }
            What::Pushed { list: Blob(list), token: Blob(token) } => {
                let check = Check::Listed { key: list.clone(), item: token.clone() };
                (vec![check], Write::TakeBack { list, token })
            }
        }
    }
}
