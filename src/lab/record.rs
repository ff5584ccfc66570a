//! The lab's entries in the audit file: what it wanted to take, the result, and how it ended.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Counts;
use crate::actions::audit::Audit;
use crate::base::clock::Clock;
use crate::test_lock::{Held, Request, about, joined};

pub struct Record {
    audit: Audit,
    clock: Clock,
    /// The start of every entry.
    about: Map<String, Value>,
}

impl Record {
    /// Records what will be tried.
    pub fn open(place: Option<&Path>, server: &str, request: &Request) -> io::Result<Record> {
        let audit = place.map_or_else(Audit::open, Audit::open_in)?;
        let mut record = Record { audit, clock: Clock::start(), about: about("acquire", request)? };
        record.write(&json!({ "phase": "intent", "server": server }))?;
        Ok(record)
    }

    pub fn taken(&mut self, held: &Held) -> io::Result<()> {
        self.write(&json!({ "phase": "outcome", "outcome": "done", "entries": held.entries() }))
    }

    pub fn refused(&mut self, why: &str) -> io::Result<()> {
        self.write(&json!({ "phase": "outcome", "outcome": "refused", "why": why }))
    }

    pub fn unknown(&mut self, why: &str) -> io::Result<()> {
        self.write(&json!({ "phase": "outcome", "outcome": "unknown", "why": why }))
    }

    /// `way`: released, lost or unknown.
    pub fn ended(&mut self, way: &str, why: Option<&str>, kept_ms: u64, renewals: u64) -> io::Result<()> {
        self.write(&json!({ "phase": "end", "ended": way, "lost": why, "kept_ms": kept_ms, "renewals": renewals }))
    }

    /// Contenders start: each tries to take the lock with its own token, and gives it back at once.
    pub fn contended(&mut self, contenders: usize) -> io::Result<()> {
        self.write(&json!({ "action": "contend", "phase": "intent", "contenders": contenders }))
    }

    /// All contenders are gone.
    pub fn contended_enough(&mut self, counts: Counts) -> io::Result<()> {
        self.write(&json!({
            "action": "contend",
            "phase": "end",
            "attempts": counts.attempts(),
            "failures": counts.failures,
            "obtained": counts.obtained,
            "troubles": counts.troubles,
        }))
    }

    fn write(&mut self, more: &Value) -> io::Result<()> {
        let entry = joined(&self.about, more);
        self.audit.write(self.clock.now(), entry)
    }
}
