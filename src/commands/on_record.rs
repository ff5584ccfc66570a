//! What a command that takes a test lock leaves behind: entries in the audit file, and its result on stdout.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::session::Session;
use crate::actions::Refusal;
use crate::actions::audit::Audit;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::json::put;
use crate::base::json::write_value;
use crate::lock::Key;
use crate::output::json::SCHEMA;
use crate::test_lock::{Request, about, joined};

pub struct OnRecord {
    audit: Audit,
    clock: Clock,
    /// The server, without its password.
    target: String,
    /// The first fields of every entry and of the result.
    about: Map<String, Value>,
}

impl OnRecord {
    /// Records what is about to be tried, with the fields of `more`.
    pub fn open(session: &Session, action: &str, request: &Request, more: &Value) -> Result<OnRecord, Refusal> {
        let about = about(action, request).map_err(|why| Refusal::Audit(why.to_string()))?;
        let audit = Audit::open().map_err(|why| Refusal::Audit(why.to_string()))?;
        let mut record = OnRecord { audit, clock: Clock::start(), target: session.shown.clone(), about };
        let mut intent = more.clone();
        intent["phase"] = "intent".into();
        intent["server"] = session.shown.as_str().into();
        record.write(&intent).map_err(|why| Refusal::Audit(why.to_string()))?;
        Ok(record)
    }

    fn write(&mut self, more: &Value) -> io::Result<()> {
        let mut entry = joined(&self.about, more);
        entry["target"] = self.target.as_str().into();
        self.audit.write(self.clock.now(), entry)
    }

    pub fn note(&mut self, more: &Value) -> Result<(), Fault> {
        self.write(more).map_err(|why| Fault::finding(format!("the audit file can't be written: {why}")))
    }

    /// The result, as one JSON document.
    pub fn print(&self, more: &Value) -> Result<(), Fault> {
        print_result(joined(&self.about, more))
    }
}

/// After a refusal by the gate or the audit file: prints the result, and returns the fault that ends the command.
pub fn turned_away(action: &str, key: &Key, refusal: &Refusal, json: bool) -> Result<Fault, Fault> {
    if json {
        let mut result = Map::new();
        result.insert("id".into(), Value::Null);
        result.insert("action".into(), action.into());
        put(&mut result, "key", key.as_bytes());
        let why = json!({ "outcome": "refused", "why": refusal.to_string(), "commands": [] });
        print_result(joined(&result, &why))?;
    }
    Ok(Fault::finding(refusal.to_string()))
}

fn print_result(mut result: Value) -> Result<(), Fault> {
    result["schema"] = SCHEMA.into();
    result["woke"] = 0.into();
    super::print(|out| {
        write_value(out, &result)?;
        out.write_all(b"\n")
    })?;
    Ok(())
}
