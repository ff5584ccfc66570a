//! The records of actions: the audit file, and what was freed, for as long as it can be put back.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use redis::RedisResult;
use serde_json::{Value, json};

use super::keep::{Deed, Kept};
use super::keyspace::Keyspace;
use super::plan::Plan;
use super::tally::Tally;
use crate::actions::audit::{self, Audit};
use crate::base::json::{put, put_all};
use crate::base::time::Time;
use crate::lock::{KeyspaceId, Token};
use crate::topology::Node;
use crate::topology::Topology;

/// At most this many releases can be undone, besides those of the batch under way.
const KEPT: usize = 1_000;

/// The records of one user on this machine.
#[derive(Debug)]
pub struct Journal {
    audit: Audit,
    directory: PathBuf,
    numbered: u64,
    /// The number of the first action: whatever goes through this journal was asked for together.
    batch: Option<String>,
    /// Something was kept through this journal: a batch is under way.
    begun: bool,
}

/// Who asked for it and why.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The server's address without a password.
    pub target: String,
    pub environment: Option<&'static str>,
    pub reason: Option<String>,
}

impl Journal {
    /// In the user's own place.
    pub fn open() -> io::Result<Journal> {
        Journal::open_in(&audit::state_directory()?)
    }

    pub fn open_in(place: &Path) -> io::Result<Journal> {
        let directory = place.join("undo");
        audit::make_private_directory(&directory)?;
        Ok(Journal { audit: Audit::open_in(place)?, directory, numbered: 0, batch: None, begun: false })
    }

    /// An id that no other action has.
    pub(super) fn number(&mut self, now: Time) -> String {
        self.numbered += 1;
        let id = format!("{:x}-{:x}-{:x}", now.0, std::process::id(), self.numbered);
        self.batch.get_or_insert_with(|| id.clone());
        id
    }

    pub(super) fn batch(&self) -> Option<String> {
        self.batch.clone()
    }

    /// One line of the audit file.
    pub(super) fn write(
        &mut self,
        now: Time,
        id: &str,
        plan: &Plan,
        node: &Node,
        context: &Context,
        more: Value,
    ) -> io::Result<()> {
        let mut entry = json!({
            "id": id,
            "action": plan.action.name(),
            "target": context.target,
            "node": node.name,
            "db": node.db,
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

    /// Records that a batch, which began at this node, was stopped before its end, and why.
    pub fn write_stopped(
        &mut self,
        now: Time,
        node: &Node,
        context: &Context,
        tally: &Tally,
        why: &str,
    ) -> io::Result<()> {
        let entry = json!({
            "id": self.number(now),
            "action": "stop",
            "phase": "end",
            "ended": "stopped",
            "target": context.target,
            "node": node.name,
            "db": node.db,
            "environment": context.environment,
            "key": null,
            "asked": tally.asked,
            "done": tally.done,
            "refused": tally.refused,
            "unknown": tally.unknown,
            "untouched": tally.untouched(),
            "why": format!("{why}: {tally}"),
            "reason": context.reason,
        });
        self.audit.write(now, entry)
    }

    /// Keeps what is freed; on the disk when this returns.
    pub(super) fn keep(&mut self, kept: &Kept) -> io::Result<()> {
        // Old records are dropped once per batch, so that the batch never drops its own.
        if !std::mem::replace(&mut self.begun, true) {
            self.purge(Time(kept.about.at));
            self.make_room()?;
        }
        audit::write_private(&self.path(kept.id()), &serde_json::to_vec(kept).map_err(io::Error::other)?)
    }

    pub(super) fn forget(&self, id: &str) {
        let _ = std::fs::remove_file(self.path(id));
    }

    /// What was done under this id.
    pub fn kept(&self, id: &str) -> io::Result<Option<Kept>> {
        // An id is a name of ours, never a path.
        if id.contains(['/', '\\', '.']) {
            return Ok(None);
        }
        match std::fs::read(self.path(id)) {
            Ok(bytes) => Kept::parse(&bytes).map(Some).map_err(io::Error::other),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// All that can be read, newest first.
    pub fn records(&self) -> io::Result<Vec<Kept>> {
        let ids = self.ids()?;
        Ok(ids.iter().rev().filter_map(|id| self.kept(id).ok().flatten()).collect())
    }

    /// This user's actions in this server's data, newest first. Those at the same address come after them, because the
    /// data there may have been different.
    pub fn done_here(&self, here: &[Keyspace], target: &str, db: i64) -> io::Result<Vec<Kept>> {
        let user = audit::user();
        let (same, others): (Vec<Kept>, Vec<Kept>) =
            self.records()?.into_iter().filter(|kept| kept.about.by == user && kept.about.db == db).partition(|kept| {
                let then = kept.about.keyspace.as_ref();
                then.is_some_and(|then| here.iter().any(|here| here.continues(then).is_ok()))
            });
        Ok(same.into_iter().chain(others.into_iter().filter(|kept| kept.about.target == target)).collect())
    }

    /// A later release of the same lock in the same data: its holder had taken the lock in between.
    pub fn freed_since(&self, kept: &Kept) -> io::Result<Option<Kept>> {
        let (about, state) = (&kept.about, super::keep::State::Confirmed);
        let same = |other: &Kept| other.key == kept.key && other.about.db == about.db && other.deed == Deed::Freed;
        let here = |other: &Kept| match (&other.about.keyspace, &about.keyspace) {
            (Some(later), Some(then)) => later.continues(then).is_ok(),
            _ => other.about.target == about.target,
        };
        let later = |other: &Kept| other.about.at > about.at && other.state == state;
        Ok(self.records()?.into_iter().find(|other| later(other) && same(other) && here(other)))
    }

    /// Forgets records that can't be put back because their lease has ended. The last one of each target stays: `undo`
    /// must not silently skip it and undo an earlier action.
    pub fn purge(&self, now: Time) {
        let mut seen = HashSet::new();
        for kept in self.records().unwrap_or_default() {
            let last = seen.insert((kept.about.target.clone(), kept.about.db));
            if !last && kept.is_over(now) {
                self.forget(kept.id());
            }
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

/// The last action can't be undone.
#[derive(Clone, PartialEq, Debug)]
pub struct NoUndo {
    why: String,
    /// The last release before it.
    before: Option<Box<Kept>>,
}

impl NoUndo {
    /// In a sentence, with how to undo the release before it while its place is free. `again`: the options that lead to
    /// this server.
    pub async fn told(self, topology: &Topology, now: Time, again: &str) -> RedisResult<String> {
        let taken = match &self.before {
            Some(kept) => kept.taken(&mut topology.reader(KeyspaceId::FIRST, &kept.lock()).await?, now).await?,
            None => None,
        };
        Ok(self.sentence(taken, again))
    }

    fn sentence(self, taken: Option<String>, again: &str) -> String {
        let NoUndo { why, before } = self;
        match (before, taken) {
            (None, _) => why,
            (Some(kept), Some(taken)) => format!("{why}; before that {} was freed, and {taken}", kept.lock()),
            (Some(kept), None) => {
                let (lock, id) = (kept.lock(), kept.id());
                format!("{why}; before that {lock} was freed: 'lockscope undo {id}{again}' puts it back")
            }
        }
    }
}

/// The action that an undo without an id means: the newest of `done`, never an earlier one.
pub fn last_done(done: Vec<Kept>, now: Time) -> Result<Option<Kept>, NoUndo> {
    last_batch(done, now).map(|batch| batch.into_iter().next())
}

/// The same with all that was freed together with it, newest first.
pub fn last_batch(done: Vec<Kept>, now: Time) -> Result<Vec<Kept>, NoUndo> {
    let mut done = done.into_iter();
    let Some(last) = done.next() else { return Ok(Vec::new()) };
    if last.deed == Deed::Freed {
        let batch = last.about.batch.clone();
        let same = done.filter(|kept| batch.is_some() && kept.about.batch == batch && kept.deed == Deed::Freed);
        return Ok(std::iter::once(last.clone()).chain(same).collect());
    }
    let ago = crate::base::text::short_duration(now.since(Time(last.about.at)).as_millis() as u64);
    let before = done.find(|kept| kept.deed == Deed::Freed && !kept.is_over(now)).map(Box::new);
    let what = match last.deed {
        Deed::Undone => format!("put {} back", last.lock()),
        Deed::Extended | Deed::Freed => format!("gave {} more time", last.lock()),
    };
    Err(NoUndo { why: format!("your last action here, {ago} ago, {what}, which can't be undone"), before })
}

#[cfg(test)]
mod tests {
    use super::super::keep::{About, State};
    use super::*;
    use crate::actions::Action;
    use crate::base::time::Ttl;
    use crate::lock::Key;

    fn record(id: String, deed: Deed) -> Kept {
        let plan = Plan {
            action: Action::Free,
            space: KeyspaceId::FIRST,
            clustered: false,
            key: Key::from("lock:a"),
            dialect: "plain",
            guessed: false,
            safe: None,
            holders: Vec::new(),
            staying: Default::default(),
            ttl: Ttl::Never,
            checks: Vec::new(),
            writes: Vec::new(),
            hazards: Vec::new(),
            obstacles: Vec::new(),
            only_by_force: None,
            doubt: None,
            end: None,
            keyspace: None,
            undo: None,
            dropped: Vec::new(),
            overdue: 0,
        };
        let about = About {
            id,
            batch: None,
            target: "redis://a".into(),
            db: 0,
            keyspace: None,
            by: audit::user(),
            reason: None,
            at: 1_000,
        };
        let mut kept = Kept::nothing(about, &plan, deed);
        kept.state = State::Confirmed;
        kept
    }

    #[test]
    fn the_cap_drops_others_and_none_of_the_batch_under_way() {
        let place = tempfile::tempdir().unwrap();
        let mut before = Journal::open_in(place.path()).unwrap();
        before.keep(&record("1-1-1".into(), Deed::Freed)).unwrap();
        let mut batch = Journal::open_in(place.path()).unwrap();
        for number in 1..=KEPT + 100 {
            batch.keep(&record(format!("2-1-{number:x}"), Deed::Freed)).unwrap();
        }
        assert_eq!(batch.records().unwrap().len(), KEPT + 101);
        assert!(batch.kept("2-1-1").unwrap().is_some(), "the first of the batch");
        let mut next = Journal::open_in(place.path()).unwrap();
        next.keep(&record("3-1-1".into(), Deed::Freed)).unwrap();
        let ids: Vec<String> = next.records().unwrap().iter().map(|kept| kept.id().to_string()).collect();
        assert_eq!((ids.len(), ids[0].as_str(), ids[1].as_str()), (KEPT, "3-1-1", "2-1-44c"), "the oldest are dropped");
    }

    #[test]
    fn an_undo_does_not_reach_back_beyond_an_extension() {
        let freed = |id: &str| record(id.into(), Deed::Freed);
        let extended = record("3-1-1".into(), Deed::Extended);
        assert_eq!(last_done(Vec::new(), Time(9)), Ok(None));
        let last = last_done(vec![freed("2-1-1"), freed("1-1-1")], Time(9)).unwrap().unwrap();
        assert_eq!(last.id(), "2-1-1");
        let why = last_done(vec![extended, freed("2-1-1"), freed("1-1-1")], Time(61_000)).unwrap_err();
        let told = why.clone().sentence(None, " -t shop");
        assert!(told.contains("1m") && told.contains("'lockscope undo 2-1-1 -t shop' puts it back"), "{told}");
        let told = why.sentence(Some("somebody has taken lock:a since".into()), " -t shop");
        assert!(told.ends_with("before that lock:a was freed, and somebody has taken lock:a since"), "{told}");
    }

    #[test]
    fn what_was_freed_together_is_put_back_together_and_nothing_else() {
        let freed = |id: &str, batch: &str| {
            let mut kept = record(id.into(), Deed::Freed);
            kept.about.batch = (!batch.is_empty()).then(|| batch.into());
            kept
        };
        let ids = |done: Vec<Kept>| {
            let batch = last_batch(done, Time(9)).unwrap();
            batch.iter().map(|kept| kept.id().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(vec![freed("4-1-2", "3"), freed("3-1-1", "3"), freed("2-1-1", "2")]), ["4-1-2", "3-1-1"]);
        assert_eq!(ids(vec![freed("2-1-1", ""), freed("1-1-1", "")]), ["2-1-1"], "an older record has no batch");
    }

    #[test]
    fn a_record_of_another_form_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = Journal::open_in(place.path()).unwrap();
        journal.keep(&record("1-1-1".into(), Deed::Freed)).unwrap();
        let file = journal.path("1-1-1");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"version\":2", "\"version\":3")).unwrap();
        let why = journal.kept("1-1-1").unwrap_err().to_string();
        assert_eq!(why, "the record is of version 3, and this lockscope reads 2");
        assert!(journal.records().unwrap().is_empty());
    }
}
