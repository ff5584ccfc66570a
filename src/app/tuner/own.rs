//! The tuner on the user's own Prometheus: `:tune` with the words of `lockscope tune --prometheus`.

use super::{App, Effect, Lever, Order, Over, Screen, Stage, Tuner};
use crate::base::time::Time;
use crate::settings::cli::OwnTune;

impl App {
    /// Opens the tuner for a rule of that Prometheus.
    pub(in crate::app) fn tune_own(&mut self, asked: OwnTune, now: Time) -> Vec<Effect> {
        self.show(Screen::Alerts);
        self.tuner = Some(Tuner {
            rule: asked.rule.clone(),
            store: None,
            stage: Stage::Loading { done: 0, of: 1 },
            lever: Lever::Threshold,
            listed: Vec::new(),
            selected: None,
            over: Over::Nothing,
        });
        vec![Effect::Tune(Order::LoadOwn { asked, now })]
    }
}
