//! The connection of one test lock: sends a script, waits for a limited time, and reconnects after a failure.

use std::fmt;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value};

use super::Request;
use crate::base::text;
use crate::base::time::Ttl;
use crate::dialects::scripts::Script;
use crate::lock::{Key, KeyspaceId, Token};
use crate::topology::{Owner, Topology};

/// One lock's own connection.
pub struct Wire {
    topology: Topology,
    key: Key,
    conn: Option<Owner>,
    /// How often connecting failed.
    failed: u64,
}

/// The reply of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Success, with a number of milliseconds or entries.
    Done(u64),
    /// Somebody else holds it.
    Other(Other),
    /// Nobody holds it.
    Gone,
}

/// Who holds a lock that is not ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// `None` if the key is stored in another form than ours, or has several holders.
    pub holder: Option<Token>,
    pub left: Ttl,
    /// The type of the key, if the holder is not known.
    pub kind: Option<String>,
}

/// Why there is no reply.
#[derive(Debug)]
pub enum Failure {
    /// Nothing was sent, or the server refused it: nothing was done.
    Clean(RedisError),
    /// It may have been done.
    Unknown(RedisError),
}

impl Wire {
    /// To the owner of this key.
    pub fn new(topology: &Topology, key: &Key) -> Wire {
        Wire { topology: topology.clone(), key: key.clone(), conn: None, failed: 0 }
    }

    /// Whether there is a connection, as far as we know.
    pub fn is_open(&self) -> bool {
        self.conn.is_some()
    }

    /// Connects if there is no connection. It sends no command, so it may be dropped at any time.
    pub async fn open(&mut self, patience: Duration) -> Result<(), Failure> {
        if self.conn.is_none() {
            let until = Instant::now() + patience;
            let conn = in_time(until, self.topology.owner(KeyspaceId::FIRST, &self.key)).await;
            self.failed += u64::from(conn.is_err());
            self.conn = Some(conn.map_err(Failure::Clean)?);
        }
        Ok(())
    }

    /// How often connecting failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns itself, and leaves a new, unconnected one to the same key in its place.
    pub(super) fn hand_over(&mut self) -> Wire {
        let new = Wire::new(&self.topology, &self.key);
        std::mem::replace(self, new)
    }

    /// Runs a script on the lock. Returns the reply, and when the command was sent.
    pub async fn call(
        &mut self,
        script: &Script,
        request: &Request,
        patience: Duration,
    ) -> Result<(Reply, Instant), Failure> {
        let until = Instant::now() + patience;
        self.open(patience).await?;
        let Some(mut conn) = self.conn.take() else { return Err(Failure::Clean(timed_out())) };
        let keys = [request.key().as_bytes().to_vec()];
        let ttl = request.ttl.as_millis().to_string().into_bytes();
        let args = [request.token.as_bytes().to_vec(), ttl];
        let sent = Instant::now();
        let answered = in_time(until, request.admission.run(script.text, &mut conn, &keys, &args)).await;
        match answered {
            // A connection that failed, or on which a reply is still due, is not reused.
            Ok(value) => {
                let answer = read(value).map_err(Failure::Unknown)?;
                self.conn = Some(conn);
                Ok((self.identify(answer, request, until).await, sent))
            }
            Err(error) if error.code().is_some() => {
                self.conn = Some(conn);
                Err(Failure::Clean(error))
            }
            Err(error) => Err(Failure::Unknown(error)),
        }
    }

    /// If the script could not name the holder, asks for the type of the key. It is only for display.
    async fn identify(&mut self, answer: Reply, request: &Request, until: Instant) -> Reply {
        let (Reply::Other(Other { holder: None, left, .. }), Some(conn)) = (&answer, &mut self.conn) else {
            return answer;
        };
        let mut question = redis::cmd("TYPE");
        question.arg(request.key().as_bytes());
        let kind: RedisResult<String> = in_time(until, question.query_async(conn)).await;
        let kind = kind.ok().filter(|kind| kind != "none");
        Reply::Other(Other { holder: None, left: *left, kind })
    }
}

async fn in_time<T>(until: Instant, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    match tokio::time::timeout_at(until.into(), answer).await {
        Ok(answer) => answer,
        Err(_) => Err(timed_out()),
    }
}

pub fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

fn read(value: Value) -> RedisResult<Reply> {
    let parts: Vec<Value> = redis::from_redis_value(value)?;
    let number = |index: usize| match parts.get(index) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    let answer = match (number(0), number(1)) {
        (Some(1), Some(count)) => Some(Reply::Done(count.max(0) as u64)),
        (Some(-1), _) => Some(Reply::Gone),
        (Some(0), Some(left)) => {
            let holder = match parts.get(2) {
                Some(Value::BulkString(bytes)) => Some(Token::from(&bytes[..])),
                _ => None,
            };
            let left = Ttl::of_pttl(left).unwrap_or(Ttl::Never);
            Some(Reply::Other(Other { holder, left, kind: None }))
        }
        _ => None,
    };
    answer.ok_or_else(|| (redis::ErrorKind::UnexpectedReturnType, "a script answered what it never does").into())
}

impl Failure {
    pub fn error(self) -> RedisError {
        match self {
            Failure::Clean(error) | Failure::Unknown(error) => error,
        }
    }
}

/// As the end of a sentence that begins with the key: "lock:a is …".
impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.holder, &self.kind) {
            (Some(holder), _) => write!(f, "held by {holder}")?,
            (None, Some(kind)) => write!(f, "there as a {}", text::visible(kind.as_bytes()))?,
            (None, None) => write!(f, "held by somebody else")?,
        }
        match self.left {
            Ttl::Never => write!(f, ", and never expires"),
            Ttl::In(left) => write!(f, ", for another {}", text::short_duration(left.as_millis() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_are_meant() {
        let array = |parts: &[Value]| read(Value::Array(parts.to_vec()));
        assert_eq!(array(&[Value::Int(1), Value::Int(30_000)]).unwrap(), Reply::Done(30_000));
        assert_eq!(array(&[Value::Int(-1)]).unwrap(), Reply::Gone);
        let Reply::Other(other) =
            array(&[Value::Int(0), Value::Int(1_500), Value::BulkString(b"w\n1".to_vec())]).unwrap()
        else {
            panic!()
        };
        assert_eq!(other.to_string(), "held by w\\n1, for another 1.5s");
        let Reply::Other(other) = array(&[Value::Int(0), Value::Int(-1), Value::Nil]).unwrap() else { panic!() };
        assert_eq!(other.to_string(), "held by somebody else, and never expires");
        assert!(array(&[]).is_err() && array(&[Value::Int(2)]).is_err() && read(Value::Okay).is_err());
    }
}
