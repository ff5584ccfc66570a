//! `lockscope audit`: what was done.

use std::io::Write;

use serde_json::Value;

use crate::actions::audit::{read, state_directory};
use crate::base::fault::Fault;
use crate::base::json::write_value;
use crate::base::talk;
use crate::base::text;
use crate::settings::cli::Audit;

pub fn run(options: &Audit) -> Result<u8, Fault> {
    let place = state_directory().map_err(|why| Fault::finding(format!("{why}, so there is no audit file")))?;
    let file = place.join("audit.jsonl");
    let unreadable = |why| Fault::finding(format!("could not read {}: {why}", file.display()));
    let (entries, broken) = read(&place).map_err(unreadable)?;
    let first = entries.len().saturating_sub(options.limit.unwrap_or(usize::MAX));
    let entries = &entries[first..];
    super::print(|out| {
        for entry in entries {
            match options.json {
                true => {
                    write_value(out, entry)?;
                    out.write_all(b"\n")?;
                }
                false => writeln!(out, "{}", line(entry))?,
            }
        }
        Ok(())
    })?;
    if entries.is_empty() && !options.json {
        talk::say(&format!("nothing was done yet; it would be recorded in {}", file.display()));
    }
    if broken > 0 {
        let lines = if broken == 1 { "1 line".into() } else { format!("{broken} lines") };
        talk::say(&format!("left out {lines} of {} that can't be read", file.display()));
    }
    Ok(0)
}

fn line(entry: &Value) -> String {
    // Our entries were escaped when written; anything else in the file is made harmless here.
    let word = |name: &str| text::harmless(entry[name].as_str().unwrap_or_default());
    let outcome = match word("phase").as_str() {
        "intent" => "begun".to_string(),
        "end" => word("ended"),
        _ => word("outcome"),
    };
    let mut line = format!(
        "{}  {:<8} {:<8} {}  by {}@{} on {}",
        word("at"),
        word("action"),
        outcome,
        word("key"),
        word("user"),
        word("host"),
        word("target")
    );
    for (name, before) in [("why", ": "), ("reason", "  because "), ("id", "  ")] {
        let text = word(name);
        if !text.is_empty() {
            line.push_str(&format!("{before}{text}"));
        }
    }
    line
}
