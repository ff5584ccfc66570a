//! What the records say about a test lock. Pure, except for the random id of an entry.

use std::io;

use serde_json::{Map, Value};

use super::{Form, Request, random};
use crate::base::json::put;

/// The start of every record about a test lock, with an id of its own.
pub fn about(action: &str, request: &Request) -> io::Result<Map<String, Value>> {
    let mut about = Map::new();
    let id = random::<6>()?;
    about.insert("id".into(), id.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into());
    about.insert("action".into(), action.into());
    put(&mut about, "key", request.key().as_bytes());
    put(&mut about, "token", request.token().as_bytes());
    about.insert("as".into(), request.form().name().into());
    about.insert("ttl_ms".into(), (request.ttl().as_millis() as u64).into());
    about.insert("commands".into(), commands(request).into());
    Ok(about)
}

/// The commands that take it, as one would type them.
fn commands(request: &Request) -> Vec<Value> {
    let (key, token, ttl) = (request.key(), request.token(), request.ttl().as_millis());
    let lines = match request.form() {
        Form::Plain => vec![format!("SET {key} {token} NX PX {ttl}")],
        Form::Reentrant => vec![format!("HINCRBY {key} {token} 1"), format!("PEXPIRE {key} {ttl}")],
    };
    lines.into_iter().map(Value::from).collect()
}

/// An entry with more fields.
pub fn joined(about: &Map<String, Value>, more: &Value) -> Value {
    let mut entry = about.clone();
    if let Value::Object(more) = more {
        entry.extend(more.clone());
    }
    Value::Object(entry)
}
