//! Recording from the console: asked for with `:record FILE`, told in the header while it runs, ended with `:record off`.

use std::path::{Path, PathBuf};

use super::{App, Effect};
use crate::base::time::Time;

/// What `:record` takes to end it.
pub(super) const OFF: &str = "off";

/// Whether the console records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Recording {
    #[default]
    Off,
    /// The file is being opened, or closed.
    Changing,
    On {
        store: PathBuf,
        /// What is wrong with the store now.
        trouble: Option<String>,
    },
}

/// What became of recording.
#[derive(Debug)]
pub enum Recorded {
    Began(PathBuf),
    /// What is wrong with the store now; `None`: nothing any more.
    Trouble(Option<String>),
    /// It was ended, or could not begin, and why.
    Ended(Option<String>),
}

impl App {
    /// Records into this file from now on; `off` ends it.
    pub(super) fn record(&mut self, file: &str, now: Time) -> Vec<Effect> {
        let wanted = Some(file).filter(|file| *file != OFF);
        match (&self.recording, wanted) {
            (Recording::Changing, _) => self.say("the store is being opened or closed; try again".into(), now),
            (Recording::Off, None) => self.say("nothing is recorded; :record FILE begins".into(), now),
            (Recording::On { store, .. }, Some(_)) => {
                let text = format!("recording into {}; :record off ends it first", shown(store));
                self.say(text, now);
            }
            (Recording::Off, Some(file)) => {
                self.recording = Recording::Changing;
                return vec![Effect::Record(Some(file.into()))];
            }
            (Recording::On { .. }, None) => {
                self.recording = Recording::Changing;
                return vec![Effect::Record(None)];
            }
        }
        Vec::new()
    }

    /// `:record` alone.
    pub(super) fn tell_recording(&mut self, now: Time) {
        let text = match &self.recording {
            Recording::Off => "nothing is recorded; :record FILE begins".into(),
            Recording::Changing => "the store is being opened or closed".into(),
            Recording::On { trouble: Some(trouble), .. } => trouble.clone(),
            Recording::On { store, .. } => format!("recording into {}; :record off ends it", shown(store)),
        };
        self.say(text, now);
    }

    pub(super) fn take_recorded(&mut self, recorded: Recorded, now: Time) {
        let text = match recorded {
            Recorded::Began(store) => {
                let text = format!("recording into {}; :record off ends it", shown(&store));
                self.recording = Recording::On { store, trouble: None };
                text
            }
            Recorded::Trouble(told) => {
                let text = told.clone().unwrap_or_else(|| "the store is written again".into());
                if let Recording::On { trouble, .. } = &mut self.recording {
                    *trouble = told;
                }
                text
            }
            Recorded::Ended(why) => {
                self.recording = Recording::Off;
                why.unwrap_or_else(|| "recording has ended, and all is written".into())
            }
        };
        self.say(text, now);
    }
}

fn shown(store: &Path) -> String {
    crate::base::text::visible(store.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests;
