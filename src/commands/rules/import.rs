//! `lockscope rules import FILE`: rules of Prometheus as rules of ours, on stdout.

use std::io::Write;

use crate::alerts::import;
use crate::base::fault::Fault;
use crate::base::talk;
use crate::base::text::{counted, visible};
use crate::settings::cli::{Global, Import};

/// Larger files are no rules.
const LARGEST: u64 = 16 << 20;

pub fn run(global: &Global, options: &Import) -> Result<u8, Fault> {
    let place = options.file.display().to_string();
    let large = std::fs::metadata(&options.file).is_ok_and(|about| about.len() > LARGEST);
    if large {
        return Err(Fault::usage(format!("{place} is larger than 16 MiB: no file of rules is")));
    }
    let text = std::fs::read_to_string(&options.file)
        .map_err(|why| Fault::usage(format!("can't read {place}: {why}; name a rules file of Prometheus")))?;
    let imported = import(&text).map_err(|why| Fault::usage(format!("{place}: {why}")))?;
    for (line, name, why) in &imported.refused {
        talk::say(&format!("{place} line {line}: {} is not imported: {why}", visible(name.as_bytes())));
    }
    if !global.quiet {
        for (line, name, why) in &imported.remarks {
            talk::say(&format!("{place} line {line}: {}: {why}", visible(name.as_bytes())));
        }
    }
    if imported.rules.is_empty() {
        let of = counted(imported.refused.len() as u64, "rule");
        return Err(Fault::finding(format!(
            "{place}: nothing to import of {of}; 'lockscope rules template' prints rules"
        )));
    }
    super::super::print(|out| out.write_all(imported.toml().as_bytes()))?;
    Ok(u8::from(!imported.refused.is_empty()))
}
