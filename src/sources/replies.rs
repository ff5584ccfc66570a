//! The replies to a pipeline, one by one. A refused command is a reply too; only a lost connection is an error.

use redis::aio::ConnectionLike;
use redis::{FromRedisValue, Pipeline, RedisError, RedisResult, Value};

use crate::base::time::Time;

pub struct Replies(std::vec::IntoIter<RedisResult<Value>>);

impl Replies {
    pub async fn to(conn: &mut impl ConnectionLike, mut pipe: Pipeline) -> RedisResult<Replies> {
        let replies: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
        Ok(Replies(replies.into_iter()))
    }

    pub fn value(&mut self) -> RedisResult<Value> {
        self.0.next().unwrap_or(Ok(Value::Nil))
    }

    pub fn read<T: FromRedisValue>(&mut self) -> RedisResult<T> {
        self.value().and_then(|value| T::from_redis_value(value).map_err(RedisError::from))
    }

    /// The reply to TIME.
    pub fn time(&mut self) -> Option<Time> {
        self.read::<(i64, i64)>().ok().and_then(|(seconds, micros)| Time::of_server(seconds, micros))
    }
}
