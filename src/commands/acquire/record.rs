//! What `acquire` leaves behind: entries in the audit file, and its result on stdout.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::actions::Refusal;
use crate::audit::Audit;
use crate::cli::Acquire;
use crate::clock::Clock;
use crate::commands::session::Session;
use crate::fault::Fault;
use crate::model::{Key, Token};
use crate::output::json::{SCHEMA, write_value};
use crate::test_lock::{Held, Request, about, joined, put};
use crate::text;

pub struct Record {
    audit: Audit,
    clock: Clock,
    json: bool,
    /// Nothing but the command's own output belongs on stdout.
    silent: bool,
    /// What every entry and the result begin with.
    about: Map<String, Value>,
}

impl Record {
    /// Writes down what is about to be tried.
    pub fn open(session: &Session, options: &Acquire, request: &Request) -> Result<Record, Refusal> {
        let about = about(request).map_err(|why| Refusal::Audit(why.to_string()))?;
        let audit = Audit::open().map_err(|why| Refusal::Audit(why.to_string()))?;
        let mut record =
            Record { audit, clock: Clock::start(), json: options.json, silent: !options.command.is_empty(), about };
        let program = options.command.first().map(|word| text::visible(word.as_encoded_bytes()));
        let intent = json!({ "phase": "intent", "server": session.shown, "program": program });
        record.write(&intent).map_err(|why| Refusal::Audit(why.to_string()))?;
        Ok(record)
    }

    fn write(&mut self, more: &Value) -> io::Result<()> {
        let entry = joined(&self.about, more);
        self.audit.write(self.clock.now(), entry)
    }

    fn note(&mut self, more: &Value) -> Result<(), Fault> {
        self.write(more).map_err(|why| Fault::finding(format!("the audit file can't be written: {why}")))
    }

    /// Somebody else has it, or the server would not.
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

    /// It is ours.
    pub fn taken(&mut self, held: &Held) -> Result<(), Fault> {
        self.note(&json!({ "phase": "outcome", "outcome": "done", "entries": held.entries() }))
    }

    /// It stays there: says so.
    pub fn left(&self, held: &Held) -> Result<(), Fault> {
        if !self.json {
            return self.announce(held);
        }
        let left = json!({ "outcome": "done", "why": null, "entries": held.entries(), "ended": null });
        self.print_result(&left)
    }

    /// Says what was taken, to people.
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

    /// It was held for a while, and that is over.
    pub fn ended(&mut self, held: &Held, details: &Value) -> Result<(), Fault> {
        let mut noted = details.clone();
        noted["phase"] = "end".into();
        self.note(&noted)?;
        if self.json {
            let mut result = json!({ "outcome": "done", "why": details["lost"], "entries": held.entries() });
            if let (Some(result), Some(details)) = (result.as_object_mut(), details.as_object()) {
                result.extend(details.clone());
            }
            return self.print_result(&result);
        }
        if !self.silent && details["ended"] == "released" {
            super::super::print(|out| writeln!(out, "released {}", held.request().key()))?;
        }
        Ok(())
    }

    fn conclude(&mut self, result: Value) -> Result<(), Fault> {
        let mut noted = result.clone();
        noted["phase"] = "outcome".into();
        self.note(&noted)?;
        if self.json { self.print_result(&result) } else { Ok(()) }
    }

    fn print_result(&self, more: &Value) -> Result<(), Fault> {
        print_result(&joined(&self.about, more))
    }
}

/// The gate or the audit file said no: the result, and the fault that ends the command.
pub fn turned_away(options: &Acquire, key: &Key, refusal: &Refusal) -> Result<Fault, Fault> {
    if options.json {
        let mut result = Map::new();
        result.insert("id".into(), Value::Null);
        result.insert("action".into(), "acquire".into());
        put(&mut result, "key", key.as_bytes());
        let why = json!({ "outcome": "refused", "why": refusal.to_string(), "commands": [] });
        print_result(&joined(&result, &why))?;
    }
    Ok(Fault::finding(refusal.to_string()))
}

fn print_result(result: &Value) -> Result<(), Fault> {
    let mut result = result.clone();
    result["schema"] = SCHEMA.into();
    result["woke"] = 0.into();
    super::super::print(|out| {
        write_value(out, &result)?;
        out.write_all(b"\n")
    })?;
    Ok(())
}
