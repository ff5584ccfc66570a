//! What happened: entries of the timeline, alerts and actions, at most so many in a minute, and a count of the rest.

use rusqlite::params;
use serde_json::Value;

use super::Writer;
use crate::alerts::AlertChange;
use crate::base::time::Time;
use crate::model::Notable;
use crate::model::record::Record;

/// Entries of each kind in a minute.
const MOST: u32 = 600;
const MINUTE_MS: i64 = 60_000;
/// Longer ones are left out: a name may be half a gigabyte.
const LONGEST: usize = 64 << 10;

/// How many entries of each kind the minute already has.
#[derive(Default)]
pub struct Minute {
    number: i64,
    counts: [u32; 3],
}

impl Minute {
    fn has_room(&mut self, at: Time, kind: usize) -> bool {
        let number = at.0.div_euclid(MINUTE_MS);
        if number != self.number {
            *self = Minute { number, counts: [0; 3] };
        }
        self.counts[kind] += 1;
        self.counts[kind] <= MOST
    }
}

impl Writer {
    pub fn write_notable(&mut self, notable: &Notable) -> rusqlite::Result<()> {
        let body = serde_json::to_string(&Record::new(notable)).unwrap_or_default();
        if !self.minute.has_room(notable.at, 0) || body.len() > LONGEST || body.is_empty() {
            return self.write_omitted(notable.at, "notables", 1);
        }
        let key = notable.key.as_ref().map(|key| key.as_bytes());
        self.db
            .prepare_cached("INSERT INTO notables(at, what, key, body) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![notable.at.0, notable.what.name(), key, body])
            .map(|_| ())
    }

    pub fn write_alert(&mut self, change: &AlertChange) -> rusqlite::Result<()> {
        let name = |value: Value| value.as_str().unwrap_or_default().to_string();
        let state = name(serde_json::to_value(change.alert.state).unwrap_or_default());
        let body = serde_json::to_string(change).unwrap_or_default();
        if !self.minute.has_room(change.at, 1) || body.len() > LONGEST || body.is_empty() {
            return self.write_omitted(change.at, "alerts", 1);
        }
        let alert = &change.alert;
        self.db
            .prepare_cached(
                "INSERT INTO alerts(at, rule, state, value, threshold, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![change.at.0, alert.rule, state, alert.value, alert.threshold, body])
            .map(|_| ())
    }

    pub fn write_action(&mut self, at: Time, entry: &Value) -> rusqlite::Result<()> {
        let body = entry.to_string();
        if !self.minute.has_room(at, 2) || body.len() > LONGEST {
            return self.write_omitted(at, "actions", 1);
        }
        self.db
            .prepare_cached("INSERT OR IGNORE INTO actions(at, body) VALUES (?1, ?2)")?
            .execute(params![at.0, body])
            .map(|_| ())
    }

    /// Counts what was left out.
    pub fn write_omitted(&mut self, at: Time, what: &str, count: u64) -> rusqlite::Result<()> {
        self.with_status(|status| status.omitted += count);
        let add = "INSERT INTO omitted(minute, what, count) VALUES (?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET count = count + excluded.count";
        let minute = at.0.div_euclid(MINUTE_MS) * MINUTE_MS;
        self.db.prepare_cached(add)?.execute(params![minute, what, count as i64]).map(|_| ())
    }
}
