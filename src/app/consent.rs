//! Consent to MONITOR: asked for once, shown as long as it holds, withdrawn with the same key.

use super::{App, Effect, NOTICE};
use crate::base::time::Time;
use crate::model::why::Monitor;
use crate::settings::keys::Command;

/// Whether attempts to take locks may be sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Consent {
    #[default]
    None,
    /// The cost was shown; pressing the same key again before this time starts it.
    Asked {
        until: Time,
    },
    Given,
}

impl App {
    /// How MONITOR is had now: a person is not told to start what runs.
    pub fn monitor(&self) -> Monitor {
        match self.consent {
            Consent::Given => Monitor::Runs,
            Consent::None | Consent::Asked { .. } => Monitor::Key(self.key_of(Command::Sample)),
        }
    }

    pub(super) fn turn_sampling(&mut self, now: Time) -> Vec<Effect> {
        let on = match self.consent {
            Consent::Given => false,
            Consent::Asked { until } if now <= until => true,
            Consent::None | Consent::Asked { .. } => {
                self.consent = Consent::Asked { until: now + NOTICE };
                let key = self.key_of(Command::Sample);
                self.say(format!("MONITOR slows a busy server; {key} again runs it for 1s in every 10s"), now);
                return Vec::new();
            }
        };
        self.consent = if on { Consent::Given } else { Consent::None };
        let text = if on { "sampling with MONITOR, for 1s in every 10s" } else { "sampling is off" };
        self.say(text.into(), now);
        vec![Effect::Sample(on)]
    }
}
