//! `lockscope scripts [NAME]`: the Lua scripts with their SHA1, ready for an application. Asks no server.

use std::io::Write;

use serde_json::{Value, json};

use crate::base::fault::Fault;
use crate::base::json::write_value;
use crate::base::nearest;
use crate::dialects::scripts::{ALL, Script};
use crate::output::json::SCHEMA;
use crate::settings::cli::Scripts;

pub fn run(options: &Scripts) -> Result<u8, Fault> {
    match &options.name {
        Some(name) => {
            let script = named(name)?;
            super::print(|out| {
                if options.json {
                    write_value(out, &document(script, true))?;
                    return out.write_all(b"\n");
                }
                // Only the text: redirected into a file, it has the SHA1 that is listed.
                out.write_all(script.text.as_bytes())
            })
        }
        None => super::print(|out| {
            if options.json {
                let scripts: Vec<Value> = ALL.iter().map(|script| document(script, false)).collect();
                write_value(out, &json!({ "schema": SCHEMA, "scripts": scripts }))?;
                return out.write_all(b"\n");
            }
            let width = ALL.iter().map(|script| script.name.len()).max().unwrap_or(0);
            for script in ALL {
                writeln!(out, "{:width$}  {}  {}", script.name, script.sha1(), script.purpose)?;
            }
            Ok(())
        }),
    }
}

fn named(name: &str) -> Result<&'static Script, Fault> {
    // A file name is accepted too.
    let bare = name.strip_suffix(".lua").unwrap_or(name);
    ALL.into_iter().find(|script| script.name == bare).ok_or_else(|| {
        let hint = nearest::hint(bare, ALL.iter().map(|script| script.name));
        Fault::usage(format!("there is no script {name:?}{hint}; 'lockscope scripts' lists them"))
    })
}

fn document(script: &Script, whole: bool) -> Value {
    let mut document = json!({ "name": script.name, "sha1": script.sha1(), "purpose": script.purpose });
    if whole {
        document["schema"] = SCHEMA.into();
        document["text"] = script.text.into();
    }
    document
}
