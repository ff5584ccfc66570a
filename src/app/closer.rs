//! The inspections of the opened lock: one when it is opened, then one every [`LOOK_CLOSER`].

use std::time::Duration;

use super::{App, Effect, LockId};
use crate::base::time::Time;
use crate::sources::inspect::Inspection;

/// Time between two inspections.
const LOOK_CLOSER: Duration = Duration::from_secs(2);

/// The inspections of the opened lock.
#[derive(Debug, Default)]
pub struct Closer {
    of: Option<LockId>,
    asked: Option<Time>,
    /// What the last one found; `None` before the first.
    pub found: Option<Box<Inspection>>,
}

impl Closer {
    /// Ignores a late answer about a lock that is no longer open. A paused screen keeps what it has.
    pub(super) fn take(&mut self, id: &LockId, found: Box<Inspection>, paused: bool) {
        if self.of.as_ref() == Some(id) && !(paused && self.found.is_some()) {
            self.found = Some(found);
        }
    }
}

impl App {
    /// Asks for an inspection of the opened lock: at once when it is opened, then periodically.
    pub(super) fn look_closer(&mut self, now: Time) -> Option<Effect> {
        if self.page.closer.of != self.page.opened {
            self.page.closer = Closer { of: self.page.opened.clone(), ..Closer::default() };
        }
        let id = self.page.opened.as_ref().filter(|_| !self.display.paused)?;
        if self.page.closer.asked.is_some_and(|asked| now.since(asked) < LOOK_CLOSER) {
            return None;
        }
        self.page.closer.asked = Some(now);
        Some(Effect::Inspect(id.clone()))
    }
}
