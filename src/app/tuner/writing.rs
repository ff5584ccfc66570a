//! Writing the rule back: first how its file would change, then, if that is confirmed, the file.

use std::path::{Path, PathBuf};

use super::{App, Effect, Order, Over, Stage};
use crate::alerts::Condition;
use crate::base::diff::{Line, difference};
use crate::base::text::visible;
use crate::base::time::Time;

/// The file that rules come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFile {
    pub path: PathBuf,
}

/// What the rule is, and what it shall be.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    pub from: Condition,
    pub to: Condition,
}

/// A file as it was read, and as it would be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    pub path: PathBuf,
    pub old: String,
    pub new: String,
}

impl Proposal {
    pub fn lines(&self) -> Vec<Line> {
        difference(&self.old, &self.new)
    }

    pub fn name(&self) -> String {
        shown(&self.path)
    }
}

fn shown(path: &Path) -> String {
    visible(path.as_os_str().as_encoded_bytes())
}

impl App {
    /// Asks how the file would change.
    pub(super) fn propose(&mut self, now: Time) -> Vec<Effect> {
        let Some(tuner) = &self.tuner else { return Vec::new() };
        let Stage::Ready(trial) = &tuner.stage else { return Vec::new() };
        let (file, rule) = (self.alerting.file.clone(), tuner.rule.clone());
        let wanted = Wanted { from: trial.current.condition, to: trial.candidate.condition };
        let why = match file {
            _ if tuner.store.is_none() => "the rule belongs to the Prometheus: change it in the file that it is loaded from".to_string(),
            _ if !trial.is_changed() => "nothing is changed yet: up and down move the threshold".to_string(),
            Some(file) => return vec![Effect::Tune(Order::Propose { file, rule, trial: wanted })],
            None => "there is no file to write to: start lockscope with --rules FILE ('lockscope rules template' prints one)"
                .to_string(),
        };
        self.say(why, now);
        Vec::new()
    }

    pub(super) fn take_proposal(&mut self, proposed: Result<Proposal, String>, now: Time) {
        match (proposed, &mut self.tuner) {
            (Ok(proposal), Some(tuner)) => tuner.over = Over::Proposal(proposal),
            (Err(why), _) => self.say(why, now),
            (Ok(_), None) => {}
        }
    }

    pub(super) fn take_written(&mut self, written: Result<Proposal, String>, now: Time) {
        let text = match written {
            Err(why) => why,
            Ok(proposal) => {
                if let Some(tuner) = &mut self.tuner
                    && let Stage::Ready(trial) = &mut tuner.stage
                {
                    trial.adopt();
                    tuner.list();
                }
                format!("written to {}; it applies when lockscope is started again", proposal.name())
            }
        };
        self.say(text, now);
    }
}
