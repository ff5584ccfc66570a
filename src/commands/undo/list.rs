//! `lockscope undo --list`: what this machine's records can put back, on any server. Asks no server.

use std::io::Write;

use serde_json::{Value, json};

use crate::actions::{Deed, Journal, Kept};
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::json::typed;
use crate::base::talk;
use crate::base::text::{self, short_duration};
use crate::base::time::Time;
use crate::commands::print;
use crate::lock::Token;

pub fn run(as_json: bool) -> Result<u8, Fault> {
    let unreadable = |why| Fault::finding(format!("the record of freed locks can't be read: {why}"));
    let journal = Journal::open().map_err(unreadable)?;
    let now = Clock::start().now();
    journal.purge(now);
    let freed = |kept: &Kept| kept.deed == Deed::Freed && kept.ends().is_none_or(|end| end > now);
    let records: Vec<Kept> = journal.records().map_err(unreadable)?.into_iter().filter(freed).collect();
    if as_json {
        let all: Vec<Value> = records.iter().map(document).collect();
        print(|out| {
            crate::base::json::write_value(out, &json!({ "schema": "lockscope/1", "undo": all }))?;
            writeln!(out)
        })?;
        return Ok(0);
    }
    if records.is_empty() {
        talk::say("nothing was freed on this machine that could be put back");
    }
    let mut rows = vec![["ID", "FREED", "KEY", "HOLDER", "ENDS", "STATE", "WHERE"].map(String::from)];
    rows.extend(records.iter().map(|kept| row(kept, now)));
    let widths: Vec<usize> =
        (0..7).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    if records.is_empty() {
        rows.clear();
    }
    print(|out| {
        for row in rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    })?;
    Ok(0)
}

fn holders(kept: &Kept) -> Vec<String> {
    kept.holders.iter().map(|token| Token::from(&token.0[..]).to_string()).collect()
}

fn row(kept: &Kept, now: Time) -> [String; 7] {
    let about = &kept.about;
    let ago = short_duration(now.since(Time(about.at)).as_millis() as u64);
    let ends =
        kept.ends().map_or("never".into(), |end| format!("in {}", short_duration(end.since(now).as_millis() as u64)));
    [
        text::visible(about.id.as_bytes()),
        format!("{ago} ago"),
        kept.lock().to_string(),
        holders(kept).join(", "),
        ends,
        kept.state.name().into(),
        format!("{} db {}", text::visible(about.target.as_bytes()), about.db),
    ]
}

fn document(kept: &Kept) -> Value {
    let (key, key_base64) = typed(&kept.key.0);
    let about = &kept.about;
    let mut document = json!({
        "id": about.id,
        "at": Time(about.at).rfc3339(),
        "key": key,
        "holders": holders(kept),
        "until": kept.ends().map(|end| end.rfc3339()),
        "state": kept.state.name(),
        "target": about.target,
        "db": about.db,
        "by": about.by,
        "reason": about.reason,
    });
    if let Some(bytes) = key_base64 {
        document["key_base64"] = json!(bytes);
    }
    document
}
