//! What `acquire` leaves behind: entries in the audit file, and its result on stdout.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::actions::Refusal;
use crate::base::fault::Fault;
use crate::base::json::put;
use crate::base::text;
use crate::commands::on_record::OnRecord;
use crate::commands::session::Session;
use crate::lock::Token;
use crate::settings::cli::Acquire;
use crate::test_lock::{Held, Request};

pub struct Record {
    entries: OnRecord,
    json: bool,
    /// Only the command's own output belongs on stdout.
    silent: bool,
}

impl Record {
    /// Records what is about to be tried.
    pub fn open(session: &Session, options: &Acquire, request: &Request) -> Result<Record, Refusal> {
        let program = options.command.first().map(|word| text::visible(word.as_encoded_bytes()));
        let entries = OnRecord::open(session, "acquire", request, &json!({ "program": program }))?;
        Ok(Record { entries, json: options.json, silent: !options.command.is_empty() })
    }

    /// Another client holds it, or the server refused.
    pub fn refused(&mut self, why: &str, holder: Option<&Token>, left_ms: Option<u64>) -> Result<(), Fault> {
        let mut more = Map::new();
        more.insert("outcome".into(), "refused".into());
        more.insert("why".into(), why.into());
        match holder {
            Some(holder) => put(&mut more, "holder", holder.as_bytes()),
            None => drop(more.insert("holder".into(), Value::Null)),
        }
        more.insert("left_ms".into(), left_ms.into());
        self.conclude(Value::Object(more))
    }

    pub fn unknown(&mut self, why: &str) -> Result<(), Fault> {
        self.conclude(json!({ "outcome": "unknown", "why": why }))
    }

    /// We took the lock.
    pub fn taken(&mut self, held: &Held) -> Result<(), Fault> {
        self.entries.note(&json!({ "phase": "outcome", "outcome": "done", "entries": held.entries() }))
    }

    /// Reports that the lock stays on the server.
    pub fn left(&self, held: &Held) -> Result<(), Fault> {
        if !self.json {
            return self.announce(held);
        }
        let left = json!({ "outcome": "done", "why": null, "entries": held.entries(), "ended": null });
        self.entries.print(&left)
    }

    /// Reports what was taken, for people.
    pub fn announce(&self, held: &Held) -> Result<(), Fault> {
        if self.json || self.silent {
            return Ok(());
        }
        let request = held.request();
        let (token, ttl) = (request.token(), humantime::format_duration(request.ttl()));
        super::super::print(|out| {
            writeln!(out, "took {}", request.key())?;
            writeln!(out, "  token  {token}")?;
            writeln!(out, "  ttl    {ttl}")?;
            if held.entries() > 1 {
                writeln!(out, "  entry  number {} of this token", held.entries())?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Our hold has ended.
    pub fn ended(&mut self, held: &Held, details: &Value) -> Result<(), Fault> {
        let mut noted = details.clone();
        noted["phase"] = "end".into();
        self.entries.note(&noted)?;
        if self.json {
            let mut result = json!({ "outcome": "done", "why": details["lost"], "entries": held.entries() });
            if let (Some(result), Some(details)) = (result.as_object_mut(), details.as_object()) {
                result.extend(details.clone());
            }
            return self.entries.print(&result);
        }
        if !self.silent && details["ended"] == "released" {
            super::super::print(|out| writeln!(out, "released {}", held.request().key()))?;
        }
        Ok(())
    }

    fn conclude(&mut self, result: Value) -> Result<(), Fault> {
        let mut noted = result.clone();
        noted["phase"] = "outcome".into();
        self.entries.note(&noted)?;
        if self.json { self.entries.print(&result) } else { Ok(()) }
    }
}
