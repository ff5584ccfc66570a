//! Asks for the server's list of clients.

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::{Asked, Connection, Observation};
use crate::server::client_list;
use crate::server::refusal;

/// With more clients than this, the whole list costs more than the answer is worth: the 10,000 that a server admits by
/// default, and some to spare.
pub const MOST: u64 = 12_000;

/// What the server listed, or why it did not. An error means that the connection is lost.
pub async fn list(
    conn: &mut impl ConnectionLike,
    node: NodeId,
    asked: Asked,
    at: Time,
) -> RedisResult<Result<Observation, String>> {
    let mut pipe = redis::pipe();
    pipe.cmd("CLIENT").arg("LIST");
    if let Asked::Ids(ids) = &asked {
        pipe.arg("ID").arg(ids);
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    let answer = answers.into_iter().next().unwrap_or(Ok(Value::Nil));
    let text = answer.and_then(|answer| redis::from_redis_value::<String>(answer).map_err(Into::into));
    Ok(match text {
        Ok(text) => {
            let present: Vec<Connection> = client_list::lines(&text).filter_map(|line| line.connection(at)).collect();
            Ok(Observation::Connections { node, at, asked, present })
        }
        Err(error) => Err(refusal(&error, "CLIENT LIST")),
    })
}
