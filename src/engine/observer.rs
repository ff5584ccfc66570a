//! Reports our own writes to the table, in a channel that is read before those of the sources.
//!
//! A write is reported before it is sent, so that the table knows of it before any notification of it can arrive.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::model::Observation;

/// An engine that reads nothing for this long is gone, or about to end.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Observer {
    pub(super) clock: Clock,
    pub(super) out: mpsc::Sender<Observation>,
}

impl Observer {
    /// The engine's time: the table compares reports with the times of events.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    pub async fn tell(&self, observation: Observation) {
        // Nobody reads the channel once the console has ended.
        let _ = self.out.send_timeout(observation, PATIENCE).await;
    }
}
