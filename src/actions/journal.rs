//! What is on record of the actions: the audit file, and what was freed, for as long as it can be put back.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::keep::Kept;
use super::plan::Plan;
use crate::audit::{self, Audit};
use crate::model::{Time, Token};
use crate::test_lock::{put, put_all};

/// As many releases as can be undone.
const KEPT: usize = 1_000;

/// The records of one user on this machine.
#[derive(Debug)]
pub struct Journal {
    audit: Audit,
    directory: PathBuf,
    numbered: u64,
}

/// Who asked for it and why.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The server's address without a password.
    pub target: String,
    pub node: String,
    pub db: i64,
    pub environment: Option<&'static str>,
    pub reason: Option<String>,
}

impl Journal {
    /// In the user's own place.
    pub fn open() -> io::Result<Journal> {
        let place = audit::state_directory().ok_or_else(|| io::Error::other("there is no home directory"))?;
        Journal::open_in(&place)
    }

    pub fn open_in(place: &Path) -> io::Result<Journal> {
        let directory = place.join("undo");
        audit::make_private_directory(&directory)?;
        Ok(Journal { audit: Audit::open_in(place)?, directory, numbered: 0 })
    }

    /// An id that no other action has.
    pub(super) fn number(&mut self, now: Time) -> String {
        self.numbered += 1;
        format!("{:x}-{:x}-{:x}", now.0, std::process::id(), self.numbered)
    }

    /// One line of the audit file.
    pub(super) fn write(&mut self, now: Time, id: &str, plan: &Plan, context: &Context, more: Value) -> io::Result<()> {
        let mut entry = json!({
            "id": id,
            "action": plan.action.name(),
            "target": context.target,
            "node": context.node,
            "db": context.db,
            "environment": context.environment,
            "library": plan.dialect,
            "commands": plan.commands(),
            "reason": context.reason,
        });
        if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
            put(entry, "key", plan.key.as_bytes());
            put_all(entry, "holders", plan.holders.iter().map(Token::as_bytes));
            entry.extend(more);
        }
        self.audit.write(now, entry)
    }

    /// Keeps what is freed; on the disk when this returns.
    pub(super) fn keep(&self, kept: &Kept) -> io::Result<()> {
        self.make_room()?;
        let (path, new) = (self.path(&kept.id), self.directory.join(format!(".{}.new", kept.id)));
        let mut file = audit::private(OpenOptions::new().write(true).create(true).truncate(true)).open(&new)?;
        file.write_all(&serde_json::to_vec(kept).map_err(io::Error::other)?)?;
        file.sync_data()?;
        std::fs::rename(new, path)
    }

    pub(super) fn forget(&self, id: &str) {
        let _ = std::fs::remove_file(self.path(id));
    }

    /// What was freed under this id, or the last of all.
    pub fn kept(&self, id: Option<&str>) -> io::Result<Option<Kept>> {
        let id = match id {
            Some(id) => id.to_string(),
            None => match self.ids()?.pop() {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        // An id is a name of ours, never a path.
        if id.contains(['/', '\\', '.']) {
            return Ok(None);
        }
        match std::fs::read(self.path(&id)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    /// Oldest first.
    fn ids(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(String::from));
        }
        let order = |id: &String| {
            let mut parts = id.split('-').map(|part| u64::from_str_radix(part, 16).unwrap_or(0));
            (parts.next(), parts.nth(1))
        };
        ids.sort_by_key(order);
        Ok(ids)
    }

    fn make_room(&self) -> io::Result<()> {
        let ids = self.ids()?;
        ids.iter().take((ids.len() + 1).saturating_sub(KEPT)).for_each(|id| self.forget(id));
        Ok(())
    }
}
