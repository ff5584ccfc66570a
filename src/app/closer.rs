//! The closer looks at the opened lock: asked for when it is opened, and then every now and then.

use std::time::Duration;

use super::{App, Effect, LockId};
use crate::base::time::Time;
use crate::sources::inspect::Inspection;

/// Between two closer looks.
const LOOK_CLOSER: Duration = Duration::from_secs(2);

/// The closer looks at the opened lock.
#[derive(Debug, Default)]
pub struct Closer {
    of: Option<LockId>,
    asked: Option<Time>,
    /// What the last one found; `None` until then.
    pub found: Option<Box<Inspection>>,
}

impl Closer {
    /// An answer that comes late is about a lock that was closed since. A paused screen keeps what it has.
    pub(super) fn take(&mut self, id: &LockId, found: Box<Inspection>, paused: bool) {
        if self.of.as_ref() == Some(id) && !(paused && self.found.is_some()) {
            self.found = Some(found);
        }
    }
}

impl App {
    /// Asks for a closer look at the opened lock: at once when it is opened, then every now and then.
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
