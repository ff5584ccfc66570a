//! Writes an incident into a folder: `incident.html` to be read, `incident.json` for programs. Only its owner can read them.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::page;
use crate::base::fault::Fault;
use crate::base::json::write_pretty;
use crate::base::time::Time;
use crate::lock::Key;

const PAGE: &str = "incident.html";
const JSON: &str = "incident.json";

/// The name of a folder of its own: the time, and what of the key is harmless in a file name.
pub fn folder_name(key: &Key, at: Time) -> String {
    let time: String = at.rfc3339().chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = key.to_string().chars().take(60).map(plain).collect();
    format!("{time}-{name}")
}

/// Writes both, and returns where the page is. What is there already is not overwritten.
pub fn write(folder: &Path, document: &Value) -> Result<PathBuf, Fault> {
    let wrong = |why: &io::Error| match why.kind() {
        io::ErrorKind::NotADirectory => {
            Fault::usage(format!("{} is not a folder: name one, or a new one", folder.display()))
        }
        io::ErrorKind::AlreadyExists => Fault::usage(format!(
            "{} has an incident already: name another folder, each incident has its own",
            folder.display()
        )),
        _ => Fault::server(format!("can't write the incident into {}: {why}", folder.display())),
    };
    if !folder.is_dir() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|why| match folder.exists() {
            true => wrong(&io::Error::from(io::ErrorKind::NotADirectory)),
            false => wrong(&why),
        })?;
    }
    let place = folder.join(PAGE);
    if [JSON, PAGE].iter().any(|name| folder.join(name).symlink_metadata().is_ok()) {
        return Err(wrong(&io::Error::from(io::ErrorKind::AlreadyExists)));
    }
    let new = |name: &str| OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name));
    let mut json = new(JSON).map_err(|why| wrong(&why))?;
    write_pretty(&mut json, document).map_err(|why| wrong(&why))?;
    let mut html = new(PAGE).map_err(|why| wrong(&why))?;
    html.write_all(page::page(document).as_bytes()).map_err(|why| wrong(&why))?;
    Ok(place)
}
