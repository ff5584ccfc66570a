//! What a store tells that the console itself did not see: the firings of the last day, and how many locks each pattern had
//! before it watched. The console's reader of the store makes it; nothing is read here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{AlertId, App};
use crate::base::time::Time;
use crate::model::{GroupBy, GroupName};
use crate::store::Firing;

/// How far back firings are read.
pub const DAY: Duration = Duration::from_secs(86_400);

/// What the store has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Past {
    pub store: PathBuf,
    /// Of the last day, oldest first.
    pub firings: Vec<Firing>,
    /// The most locks of each pattern in each cell of the trends; read once.
    pub counts: BTreeMap<i64, BTreeMap<GroupName, u32>>,
    /// The oldest moment that is recorded, and the newest.
    pub oldest: Option<Time>,
    pub newest: Option<Time>,
    /// Why it can't be read any more.
    pub trouble: Option<String>,
}

impl Past {
    /// The firings of an alert; of a rule without labels, those of all its alerts.
    pub fn of<'a>(&'a self, id: &'a AlertId) -> impl DoubleEndedIterator<Item = &'a Firing> + 'a {
        let own = |firing: &&Firing| firing.rule == id.rule && (id.labels.is_empty() || firing.labels == id.labels);
        self.firings.iter().filter(own)
    }
}

impl App {
    pub(super) fn take_past(&mut self, mut past: Past) {
        self.scene.groups.recall(GroupBy::Pattern, &std::mem::take(&mut past.counts));
        match (&mut self.alerting.past, &past.trouble) {
            // What was read before is still true.
            (Some(known), Some(_)) => known.trouble = past.trouble,
            (known, _) => *known = Some(past),
        }
    }
}
