//! The JSON of an incident, from which its page is drawn. Every field is always there; what is not known is `null` or empty.

use serde_json::{Map, Value, json};

use super::recorded::{self, Recorded};
use super::{Account, redact};
use crate::base::fault::Fault;
use crate::base::json::write_value;
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::{LockView, Notable};
use crate::output::closer::Waiting;
use crate::output::json::SCHEMA;
use crate::output::shape::{Lock, Past};
use crate::output::{Place, Sawtooth, notable};
use crate::sources::inspect::Inspection;

/// Points of the picture of a lease.
const COLUMNS: usize = 240;
/// At most this many actions are listed, the newest.
const ACTIONS: usize = 200;

/// An incident, put together.
#[derive(Clone, PartialEq, Debug)]
pub struct Bundle(Map<String, Value>);

impl Bundle {
    fn new(at: Time, server: Value) -> Bundle {
        let document = json!({
            "schema": SCHEMA,
            "at": at.rfc3339(),
            "version": env!("LOCKSCOPE_VERSION"),
            "redacted": true,
            "headline": null,
            "sentences": [],
            "server": server,
            "lock": null,
            "history": [],
            "waiting": null,
            "lease": null,
            "no_lease": null,
            "timeline": [],
            "episode": null,
            "episodes": [],
            "figures": [],
            "gaps": [],
            "actions": [],
        });
        let Value::Object(fields) = document else { unreachable!("an object was written above") };
        Bundle(fields)
    }

    fn put(&mut self, field: &str, value: Value) {
        self.0.insert(field.into(), value);
    }

    /// A lock as it is now.
    pub fn of_lock(account: &Account<'_>, found: Option<&Inspection>, place: &Place, server: Value) -> Bundle {
        let mut bundle = Bundle::new(account.at, server);
        let lock = account.lock;
        let shape = Lock::of(lock, place);
        let shape = match found {
            Some(found) => shape.looked_at(lock, found),
            None => shape,
        };
        let whole = |token: &str| token.to_string();
        bundle.put("headline", account.headline().into());
        // The headline stands alone, and so does the story.
        bundle.put("sentences", account.facts(&whole).into_iter().skip(1).chain([account.look()]).collect());
        bundle.put("lock", value(&shape));
        bundle.put("history", lock.past.iter().map(|hold| value(&Past::of(hold))).collect());
        bundle.put("waiting", account.waiters.as_ref().map_or(Value::Null, |waiters| value(&Waiting::of(waiters))));
        bundle.draw_lease(lock, account.at);
        bundle.tell(account.story, place);
        bundle
    }

    /// A lock that is gone, as far as a store has its story.
    pub fn of_gone(key: &Key, recorded: &Recorded, server: Value, at: Time) -> Bundle {
        let mut bundle = Bundle::new(at, server);
        bundle.put("headline", format!("{key} on {}: gone", recorded.target).into());
        bundle.put("sentences", json!(["the lock is not there any more; this is what was recorded of it"]));
        bundle
    }

    /// A firing of an alert.
    pub fn of_episode(recorded: &Recorded, at: Time) -> Bundle {
        let server = json!({ "target": recorded.target, "server": recorded.server });
        let mut bundle = Bundle::new(at, server);
        if let Some(firing) = &recorded.firing {
            let about = firing.labels.iter().filter(|(name, _)| *name != "target");
            let about: Vec<String> = about.map(|(name, value)| format!("{name} {value}")).collect();
            let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
            bundle.put("headline", format!("{} on {}{about}", firing.rule, recorded.target).into());
            bundle.put("episode", recorded::episode(firing));
            let value = firing.value.map_or("not known".to_string(), |value| value.to_string());
            let sentence = format!(
                "{} fired as {} at {}: the value was {value}, the threshold is {}",
                firing.rule,
                firing.severity.name(),
                firing.from.rfc3339(),
                firing.threshold
            );
            bundle.put("sentences", json!([sentence, recorded::ended(firing)]));
        }
        bundle
    }

    /// Says that nothing of the store is in it.
    pub fn leave_out(&mut self, why: &Fault) {
        if let Some(Value::Array(sentences)) = self.0.get_mut("sentences") {
            sentences.push(format!("nothing that was recorded is on this page: {why}").into());
        }
    }

    /// Adds what a store has. The story of before `watched` is the store's.
    pub fn add_recorded(&mut self, recorded: &Recorded, place: &Place, watched: Option<Time>) {
        self.put("episodes", recorded.firings.iter().map(recorded::episode).collect());
        self.put("figures", recorded.figures.clone().into());
        let gap = |gap: &crate::store::Gap| json!({ "from": gap.from.rfc3339(), "to": gap.to.map(Time::rfc3339), "reason": gap.reason.name(), "node": gap.node });
        self.put("gaps", recorded.gaps.iter().map(gap).collect());
        let before: Vec<Value> = recorded
            .story
            .iter()
            .filter(|entry| watched.is_none_or(|watched| entry.at < watched))
            .map(|entry| value(&notable::Entry::of(entry, place)))
            .collect();
        let now = self.0.remove("timeline").and_then(|now| now.as_array().cloned()).unwrap_or_default();
        self.put("timeline", before.into_iter().chain(now).collect());
        self.add_actions(&recorded.actions);
    }

    /// When the timeline begins that the console or the command saw itself.
    pub fn begins(&self) -> Option<Time> {
        self.0.get("timeline")?.get(0)?.get("at")?.as_str().and_then(Time::of_rfc3339)
    }

    /// Adds entries of the audit file; the same one again changes nothing.
    pub fn add_actions(&mut self, entries: &[Value]) {
        let mut all = self.0.remove("actions").and_then(|all| all.as_array().cloned()).unwrap_or_default();
        all.extend(entries.iter().cloned());
        all.sort_by_key(|entry| entry["at"].as_str().unwrap_or_default().to_string());
        all.dedup();
        all.drain(..all.len().saturating_sub(ACTIONS));
        self.put("actions", all.into());
    }

    /// The same for the entries that are about this lock.
    pub fn add_actions_of(&mut self, entries: &[Value], key: &Key) {
        let own: Vec<Value> = entries.iter().filter(|entry| recorded::is_about(entry, key)).cloned().collect();
        self.add_actions(&own);
    }

    /// The JSON. Without `reveal`, tokens and values are taken out.
    pub fn document(self, reveal: bool) -> Value {
        let mut document = Value::Object(self.0);
        document["redacted"] = Value::Bool(!reveal);
        if !reveal {
            redact::redact(&mut document);
        }
        document
    }

    fn tell(&mut self, story: &[Notable], place: &Place) {
        self.put("timeline", story.iter().map(|entry| value(&notable::Entry::of(entry, place))).collect());
    }

    fn draw_lease(&mut self, lock: &LockView, now: Time) {
        let line = match Sawtooth::of(lock, now) {
            Ok(line) => line,
            Err(why) => return self.put("no_lease", why.into()),
        };
        let times = (0..COLUMNS).map(|column| line.moment(column, COLUMNS));
        let left =
            times.map(|at| json!([at.0, line.share_left(at).map(|share| share * line.lease.as_millis() as f64)]));
        let due = line.expected.iter().map(|due| json!({ "at": due.at.rfc3339(), "missed": due.missed }));
        self.put(
            "lease",
            json!({
                "from": line.from.rfc3339(),
                "now": line.now.rfc3339(),
                "deadline": line.deadline.rfc3339(),
                "lease_ms": line.lease.as_millis() as u64,
                "left": left.collect::<Vec<_>>(),
                "renewed": line.beats.iter().map(|at| at.rfc3339()).collect::<Vec<_>>(),
                "due": due.collect::<Vec<_>>(),
            }),
        );
    }
}

/// Through the writer that makes JSON harmless, as every other document.
fn value(object: &impl serde::Serialize) -> Value {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = write_value(&mut text, object);
    serde_json::from_slice(&text).unwrap_or(Value::Null)
}
