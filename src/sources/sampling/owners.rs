//! Whether a client that ran a script holds the lock that the script read, asked of the server after a burst.
//!
//! A holder that checks its own lock runs the same kind of script as a client whose attempt was refused, and took its lock
//! before the burst. So it is compared with the value of the lock. Reading it uses the key, as the script did just before.

use redis::{RedisResult, Value};

use crate::lock::{Key, Token};
use crate::topology::Node;

/// At most this many are compared after one burst.
const MOST: usize = 64;

/// Those of these clients, by the lock and their token, that hold it now. What can't be read is not among them.
pub async fn holders(node: &Node, mut clients: Vec<(Key, Token)>) -> Vec<(Key, Token)> {
    clients.truncate(MOST);
    if clients.is_empty() {
        return Vec::new();
    }
    let Ok(mut conn) = node.connect().await else { return Vec::new() };
    let mut pipe = redis::pipe();
    for (key, token) in &clients {
        // One byte more than the token has: a longer value is another one.
        pipe.cmd("GETRANGE").arg(key.as_bytes()).arg(0).arg(token.as_bytes().len());
        pipe.cmd("HMGET").arg(key.as_bytes()).arg(token.as_bytes());
    }
    // One of the two has the wrong type.
    let answers: RedisResult<Vec<RedisResult<Value>>> = pipe.ignore_errors().query_async(&mut conn).await;
    let mut answers = answers.unwrap_or_default().into_iter();
    clients.retain(|(_, token)| {
        let is_value = matches!(answers.next(), Some(Ok(Value::BulkString(value))) if value == token.as_bytes());
        let is_field =
            matches!(answers.next(), Some(Ok(Value::Array(fields))) if matches!(fields[..], [Value::BulkString(_)]));
        is_value || is_field
    });
    clients
}
