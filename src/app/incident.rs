//! The incident of one lock, for the chat: what it is, why it is in trouble, who holds it, who waits, what was done.
//!
//! It is copied to the terminal's clipboard and shown as well, since not every terminal can be written to. As JSON it
//! has the lock in the shape of `show` and the timeline in that of `watch --notable`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{App, Effect, LockId, Overlay};
use crate::base::text::visible;
use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::{LockView, Notable};
use crate::output::incident::{Account, Bundle};
use crate::output::{self, Place};

/// At most this many entries of the timeline are written.
const STORY: usize = 6;

/// The form in which an incident is handed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    Text,
    Json,
    /// As a page, into this folder or one of its own.
    Page(Option<PathBuf>),
}

/// What the table knows about the incident.
#[derive(Clone, Debug)]
pub struct Gathered {
    pub lock: LockView,
    /// What mattered to it, oldest first.
    pub story: Vec<Notable>,
    pub nodes: BTreeMap<NodeId, String>,
    pub db: u32,
    /// The nodes as documents describe them.
    pub servers: Vec<Value>,
}

impl App {
    /// Asks for all that is known about the lock that is open or selected.
    pub(super) fn hand_over(&mut self, form: Form, now: Time) -> Vec<Effect> {
        if form != Form::Text && self.display.private {
            let key = self.key_of(crate::settings::keys::Command::Private);
            self.say(format!("it names the holders, and they are hidden now; {key} shows them"), now);
            return Vec::new();
        }
        match self.page.opened.as_ref().or(self.list.selected.as_ref()) {
            Some(id) => vec![Effect::Gather(id.clone(), form)],
            None => {
                self.say("there is no lock to hand over".into(), now);
                Vec::new()
            }
        }
    }

    /// Copies the incident, and shows it.
    pub(super) fn take_gathered(
        &mut self,
        id: &LockId,
        found: Option<Box<Gathered>>,
        form: Form,
        now: Time,
    ) -> Vec<Effect> {
        let Some(found) = found else {
            self.say(format!("{} is gone, and nothing is kept of it", id.key), now);
            return Vec::new();
        };
        let text = match form {
            Form::Text => self.incident(&found, now),
            Form::Json => self.incident_json(&found),
            Form::Page(folder) => {
                let bundle = self.bundle(&found, now);
                let reveal = self.display.reveal;
                return vec![Effect::Bundle(Box::new(bundle), id.key.clone(), folder, reveal)];
            }
        };
        self.overlay = Overlay::Incident { text: text.clone(), scroll: 0 };
        vec![Effect::Copy(text)]
    }

    fn incident(&self, found: &Gathered, now: Time) -> String {
        let token = |token: &str| self.token(token);
        let lines = self.account(found, now).lines(STORY, &token);
        let told = lines.into_iter().map(|line| self.without_holders(&found.lock, line));
        told.collect::<Vec<_>>().join("\n")
    }

    /// What is known of the lock, with what the closer look at the opened one found.
    fn account<'a>(&'a self, found: &'a Gathered, now: Time) -> Account<'a> {
        let Gathered { lock, story, nodes, .. } = found;
        let closer = self.page.closer.found.as_ref().filter(|_| self.page.opened.is_some());
        Account {
            lock,
            story,
            target: &self.title.target,
            environment: self.title.environment.map(|environment| environment.name()),
            node: nodes.get(&lock.node).map_or("", String::as_str).into(),
            waiters: closer.map(|found| found.waiters.beside(lock)),
            again: &self.title.again,
            at: now,
        }
    }

    fn bundle(&self, found: &Gathered, now: Time) -> Bundle {
        let place = Place { nodes: found.nodes.clone(), db: found.db };
        let environment = self.title.environment.map(|environment| environment.name());
        let server = json!({ "target": self.title.target, "environment": environment, "nodes": found.servers });
        let closer = self.page.closer.found.as_deref().filter(|_| self.page.opened.is_some());
        Bundle::of_lock(&self.account(found, now), closer, &place, server)
    }

    /// The page was written, or why not.
    pub(super) fn take_bundled(&mut self, written: Result<PathBuf, String>, now: Time) {
        let text = match written {
            Ok(page) => format!("the incident is written: {}", visible(page.as_os_str().as_encoded_bytes())),
            Err(why) => why,
        };
        self.say(text, now);
    }

    fn incident_json(&self, Gathered { lock, story, nodes, db, .. }: &Gathered) -> String {
        let place = Place { nodes: nodes.clone(), db: *db };
        let environment = self.title.environment.map(|environment| environment.name());
        let mut out = Vec::new();
        // Writing into memory does not fail.
        let _ = output::json::write_incident(&mut out, lock, story, &place, (&self.title.target, environment));
        String::from_utf8_lossy(&out).trim_end().to_string()
    }
}

#[cfg(test)]
mod tests;
