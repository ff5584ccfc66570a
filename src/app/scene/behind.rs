//! The first of the locks behind the selected alert, by name: found among the worst of all locks.

use super::narrowing::Asked;
use crate::app::{AlertId, App, Screen};
use crate::filter::Filter;
use crate::lock::Key;
use crate::model::Table;

/// At most this many names are shown, found among so many locks.
const NAMED: usize = 3;
const AMONG: usize = 500;

/// The first of the locks behind an alert.
pub struct NamedBehind {
    pub of: AlertId,
    pub keys: Vec<Key>,
    /// There are others like them.
    pub more: bool,
}

impl App {
    pub(super) fn see_behind(&mut self, table: &Table) {
        if self.display.paused {
            return;
        }
        let row = self.alerting.selected().filter(|row| self.page.screen == Screen::Alerts && row.value.is_some());
        self.scene.behind = row.and_then(|row| {
            let filter: Filter = row.behind.filter_text().parse().ok()?;
            let asked = Asked { filter: Some(&filter), open: row.behind.group.as_ref(), by: None };
            let (scene, now) = (&self.scene, self.scene.at);
            let places = scene.all.as_ref().unwrap_or(&scene.order).iter().take(AMONG);
            let found = places.filter(|place| asked.keeps(table, **place, now, &scene.nodes));
            let mut keys: Vec<Key> =
                found.filter_map(|place| Some(table.lock_at(*place)?.key.clone())).take(NAMED + 1).collect();
            let more = keys.len() > NAMED;
            keys.truncate(NAMED);
            Some(NamedBehind { of: row.id.clone(), keys, more })
        });
    }
}
