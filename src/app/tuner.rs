//! The tuner: one rule over its recorded history, and a candidate that the arrows move. Pure: whatever reads or writes a file
//! is an [`Order`] for the loop, and comes back as a [`Reply`].
//!
//! Up and down move the threshold, `for` or the recovery level; left and right go through the episodes. It lies over the
//! Alerts screen, and everything in it is the same [`Trial`] that `lockscope tune` prints.

mod lever;
mod own;
mod writing;

use std::path::PathBuf;

use super::{App, Effect, Recording, Screen};
use crate::alerts::Rule;
use crate::base::time::Time;
use crate::model::Notable;
use crate::settings::cli::OwnTune;
use crate::settings::keys::Command;
use crate::store::{Label, Verdict};
use crate::tune::{Listed, Trial};

pub use lever::Lever;
pub use writing::{Proposal, RuleFile};

/// What the loop must do for the tuner.
#[derive(Clone, PartialEq, Debug)]
pub enum Order {
    Load {
        store: PathBuf,
        rule: Box<Rule>,
    },
    /// The same from the user's own Prometheus.
    LoadOwn {
        asked: OwnTune,
        now: Time,
    },
    /// Keep that label, or take it away if it has no verdict.
    Label {
        store: PathBuf,
        label: Label,
    },
    /// What was notable in that time.
    Read {
        store: PathBuf,
        from: Time,
        to: Time,
    },
    /// What the file would be.
    Propose {
        file: RuleFile,
        rule: String,
        trial: writing::Wanted,
    },
    Write(Proposal),
}

/// The result of an order.
#[derive(Debug)]
pub enum Reply {
    /// How much of how much is read.
    Progress(String, usize, usize),
    Loaded(String, Result<Box<Trial>, String>),
    Labelled(String, Result<Vec<Label>, String>),
    Read(Time, Result<Vec<Notable>, String>),
    Proposed(Result<Proposal, String>),
    Written(Result<Proposal, String>),
}

/// How far it is.
#[derive(Debug)]
pub enum Stage {
    Loading { done: usize, of: usize },
    Failed(String),
    Ready(Box<Trial>),
}

/// What lies over the chart.
#[derive(Debug, Default)]
pub enum Over {
    #[default]
    Nothing,
    /// What was notable in the selected episode; `None` while it is read.
    Episode { story: Option<Vec<Notable>>, scroll: usize },
    /// How the file would change.
    Proposal(Proposal),
}

#[derive(Debug)]
pub struct Tuner {
    pub rule: String,
    /// `None`: the history is that of a Prometheus.
    store: Option<PathBuf>,
    pub stage: Stage,
    pub lever: Lever,
    /// The list of episodes, oldest first.
    listed: Vec<Listed>,
    /// The selected one: its alert and its beginning.
    selected: Option<(usize, Time)>,
    pub over: Over,
}

impl Tuner {
    pub fn trial(&self) -> Option<&Trial> {
        match &self.stage {
            Stage::Ready(trial) => Some(trial),
            Stage::Loading { .. } | Stage::Failed(_) => None,
        }
    }

    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// The place of the selected episode, or of the one nearest in time; the newest until one is selected.
    pub fn cursor(&self) -> Option<usize> {
        let last = self.listed.len().checked_sub(1)?;
        let Some((track, from)) = self.selected else { return Some(last) };
        let same = self.listed.iter().position(|listed| (listed.episode.track, listed.episode.from) == (track, from));
        let nearest = || {
            let apart = |listed: &Listed| listed.episode.from.0.abs_diff(from.0);
            self.listed.iter().enumerate().min_by_key(|(_, listed)| apart(listed)).map(|(at, _)| at)
        };
        same.or_else(nearest).map(|at| at.min(last))
    }

    pub fn episode(&self) -> Option<&Listed> {
        self.listed.get(self.cursor()?)
    }

    fn turn(&mut self, by: isize) {
        let Some(cursor) = self.cursor() else { return };
        let to = cursor.saturating_add_signed(by).min(self.listed.len() - 1);
        let episode = self.listed[to].episode;
        self.selected = Some((episode.track, episode.from));
    }

    /// The candidate or the labels changed.
    fn list(&mut self) {
        self.listed = self.trial().map(Trial::episodes).unwrap_or_default();
    }
}

impl App {
    pub fn in_tuner(&self) -> bool {
        self.tuner.is_some() && self.page.screen == Screen::Alerts && self.page.opened.is_none()
    }

    /// The store that is read or recorded.
    fn store(&self) -> Option<PathBuf> {
        let recorded = match &self.recording {
            Recording::On { store, .. } => Some(store.clone()),
            Recording::Off | Recording::Changing => None,
        };
        recorded.or_else(|| self.alerting.past.as_ref().map(|past| past.store.clone()))
    }

    /// Opens the tuner for the selected rule.
    pub(super) fn tune(&mut self, now: Time) -> Vec<Effect> {
        let Some(name) = self.alerting.selected().map(|row| row.id.rule.clone()) else {
            self.say("there is no rule here".into(), now);
            return Vec::new();
        };
        let Some(store) = self.store() else {
            let why = "tuning needs a history: start lockscope with --store FILE, or begin one with :record FILE";
            self.say(why.into(), now);
            return Vec::new();
        };
        let Some(rule) = self.alerting.rule(&name) else { return Vec::new() };
        self.tuner = Some(Tuner {
            rule: name,
            store: Some(store.clone()),
            stage: Stage::Loading { done: 0, of: 1 },
            lever: Lever::Threshold,
            listed: Vec::new(),
            selected: None,
            over: Over::Nothing,
        });
        vec![Effect::Tune(Order::Load { store, rule: Box::new(rule) })]
    }

    /// One step back inside the tuner. `false`: there is no tuner to leave.
    pub(super) fn leave_tuner(&mut self) -> bool {
        if !self.in_tuner() {
            return false;
        }
        match self.tuner.as_mut().map(|tuner| std::mem::take(&mut tuner.over)) {
            Some(Over::Nothing) | None => self.tuner = None,
            Some(Over::Episode { .. } | Over::Proposal(_)) => {}
        }
        true
    }

    /// Up and down: the candidate, or what lies over the chart.
    pub(super) fn step_tuner(&mut self, by: isize) {
        let Some(tuner) = &mut self.tuner else { return };
        match &mut tuner.over {
            // Bounded when it is drawn.
            Over::Episode { scroll, story } => {
                *scroll = scroll.saturating_add_signed(by).min(story.as_ref().map_or(0, Vec::len));
            }
            Over::Proposal(_) => {}
            Over::Nothing => tuner.pull(by),
        }
    }

    /// The commands of the tuner.
    pub(super) fn obey_tuner(&mut self, command: Command, now: Time) -> Vec<Effect> {
        let Some(tuner) = &mut self.tuner else { return Vec::new() };
        if !matches!(tuner.stage, Stage::Ready(_)) {
            self.say("the history is still being read".into(), now);
            return Vec::new();
        }
        match command {
            Command::Lever => tuner.lever = tuner.lever.next(),
            Command::NextEpisode => tuner.turn(1),
            Command::PreviousEpisode => tuner.turn(-1),
            Command::OpenEpisode => return self.open_episode(now),
            Command::LabelReal => return self.label(Verdict::Real, now),
            Command::LabelNoise => return self.label(Verdict::Noise, now),
            Command::TakeSuggestion => self.take_suggestion(now),
            Command::WriteRule => return self.propose(now),
            _ => {}
        }
        Vec::new()
    }

    fn open_episode(&mut self, now: Time) -> Vec<Effect> {
        let Some(tuner) = &mut self.tuner else { return Vec::new() };
        if let Over::Proposal(proposal) = &tuner.over {
            let proposal = proposal.clone();
            tuner.over = Over::Nothing;
            return vec![Effect::Tune(Order::Write(proposal))];
        }
        let Some(listed) = tuner.episode() else {
            self.say("there is no episode to open".into(), now);
            return Vec::new();
        };
        let Some(store) = tuner.store.clone() else {
            self.say(
                "what happened to the locks is kept in stores only, and this history is a Prometheus's".into(),
                now,
            );
            return Vec::new();
        };
        let order = Order::Read { store, from: listed.episode.from, to: listed.episode.to };
        tuner.over = Over::Episode { story: None, scroll: 0 };
        vec![Effect::Tune(order)]
    }

    /// Labels the selected episode; the same label again takes it away.
    fn label(&mut self, verdict: Verdict, now: Time) -> Vec<Effect> {
        let Some(tuner) = &self.tuner else { return Vec::new() };
        let (Some(listed), Some(trial)) = (tuner.episode(), tuner.trial()) else {
            self.say("there is no episode to label".into(), now);
            return Vec::new();
        };
        let Some(store) = tuner.store.clone() else {
            self.say("labels are kept in stores only, and this history is a Prometheus's".into(), now);
            return Vec::new();
        };
        let verdict = Some(verdict).filter(|verdict| listed.verdict != Some(*verdict));
        let label = Label { at: now, ..trial.labelled(&listed.episode, verdict) };
        vec![Effect::Tune(Order::Label { store, label })]
    }

    fn take_suggestion(&mut self, now: Time) {
        let Some(Tuner { stage: Stage::Ready(trial), .. }) = &mut self.tuner else { return };
        let told = match &trial.suggestion {
            Err(why) => format!("no suggestion: {why}"),
            Ok(suggestion) => {
                let mut condition = trial.candidate.condition;
                condition.compare = condition.compare.with(suggestion.level);
                match condition.wrong_recovery() {
                    Some(why) => why,
                    None => {
                        trial.set(condition);
                        "the suggested threshold is tried".into()
                    }
                }
            }
        };
        if let Some(tuner) = &mut self.tuner {
            tuner.list();
        }
        self.say(told, now);
    }

    /// Takes the result of an order.
    pub(super) fn take_reply(&mut self, reply: Reply, now: Time) {
        let Some(tuner) = &mut self.tuner else { return };
        match reply {
            Reply::Progress(rule, done, of) if rule == tuner.rule => {
                if let Stage::Loading { .. } = tuner.stage {
                    tuner.stage = Stage::Loading { done, of };
                }
            }
            Reply::Loaded(rule, loaded) if rule == tuner.rule => {
                tuner.stage = match loaded {
                    Ok(trial) => Stage::Ready(trial),
                    Err(why) => Stage::Failed(why),
                };
                tuner.list();
            }
            Reply::Labelled(rule, Ok(labels)) if rule == tuner.rule => {
                if let Stage::Ready(trial) = &mut tuner.stage {
                    trial.relabel(labels);
                }
                tuner.list();
            }
            Reply::Labelled(_, Err(why)) => self.say(why, now),
            Reply::Read(from, found) => {
                let opened = tuner.episode().is_some_and(|listed| listed.episode.from == from);
                match (&mut tuner.over, found) {
                    (Over::Episode { story, .. }, Ok(found)) if opened => *story = Some(found),
                    (Over::Episode { .. }, Err(why)) => {
                        tuner.over = Over::Nothing;
                        self.say(why, now);
                    }
                    _ => {}
                }
            }
            Reply::Proposed(proposed) => self.take_proposal(proposed, now),
            Reply::Written(written) => self.take_written(written, now),
            // Of a rule that is not looked at any more.
            Reply::Progress(..) | Reply::Loaded(..) | Reply::Labelled(..) => {}
        }
    }
}

#[cfg(test)]
mod tests;
