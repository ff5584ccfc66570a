//! For whoever writes: reports its writes to the table, in a channel that is read before those of the sources.
//!
//! A write is announced before it is sent, so that the table knows of it before any notification of it can arrive.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::model::Observation;

/// An engine that takes nothing in for so long is gone, or about to be.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Observer {
    pub(super) clock: Clock,
    pub(super) out: mpsc::Sender<Observation>,
}

impl Observer {
    /// The engine's time: what is reported is compared with when events came.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    pub async fn tell(&self, observation: Observation) {
        // Once the console is left, nobody takes it in any more.
        let _ = self.out.send_timeout(observation, PATIENCE).await;
    }
}
