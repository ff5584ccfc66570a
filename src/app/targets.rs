//! Going to another target of the config without leaving: `:target NAME`.
//!
//! The other target is opened beside this one, which stays if it can't be. Until then no key does anything but go back,
//! so that nothing is begun here that would be left half done. A new app is built for the other target: nothing of this
//! one can be seen there.

use crossterm::event::{KeyCode, KeyEvent};

use super::prompt::{Offer, Prompt};
use super::{App, Effect, Overlay};
use crate::base::nearest;
use crate::base::text::visible;
use crate::base::time::Time;
use crate::settings::Offered;

/// At most this many targets are named in a refusal.
const NAMED: usize = 8;

impl App {
    /// `:target` alone: the targets, to choose from.
    pub(super) fn list_targets(&mut self, now: Time) {
        if self.title.targets.is_empty() {
            return self.say("there are no targets; 'lockscope config template' prints how to name some".into(), now);
        }
        let here = |target: &Offered| target.name == self.title.target;
        let targets: Vec<String> = self.title.targets.iter().map(|target| target.sentence(here(target))).collect();
        let mut prompt = Prompt::new("target ");
        prompt.hint = Some(targets.join("  "));
        self.overlay = Overlay::Command(prompt);
    }

    /// Goes there, if there is such a target and nothing is under way here.
    pub(super) fn visit_target(&mut self, name: &str, now: Time) -> Vec<Effect> {
        if let Some((left, asked)) = self.undone() {
            self.say(format!("{left} of {asked} writes are not done yet; esc stops them, and then :target"), now);
            return Vec::new();
        }
        if name == self.title.target {
            self.say(format!("this is {} already", visible(name.as_bytes())), now);
            return Vec::new();
        }
        if !self.title.targets.iter().any(|target| target.name == name) {
            let hint = nearest::hint(name, self.title.targets.iter().map(|target| target.name.as_str()));
            let mut prompt = Prompt::new(&format!("target {name}"));
            let known: Vec<String> =
                self.title.targets.iter().take(NAMED).map(|target| visible(target.name.as_bytes())).collect();
            let more = if self.title.targets.len() > NAMED { ", …" } else { "" };
            let hint = if hint.is_empty() { format!("; there are {}{more}", known.join(", ")) } else { hint };
            prompt.refuse(format!("there is no target {:?}{hint}", visible(name.as_bytes())), "target ".len() + 1);
            self.overlay = Overlay::Command(prompt);
            return Vec::new();
        }
        (self.overlay, self.notice) = (Overlay::Going(name.to_string()), None);
        vec![Effect::Go(name.to_string())]
    }

    /// A key while the other target is opened.
    pub(super) fn stay_on(&mut self, key: KeyEvent, now: Time) -> Vec<Effect> {
        if key.code != KeyCode::Esc {
            return Vec::new();
        }
        self.overlay = Overlay::None;
        self.say(format!("still at {}", visible(self.title.target.as_bytes())), now);
        vec![Effect::Stay]
    }

    /// The other target is ready, or can't be opened for this reason.
    pub(super) fn take_opened(&mut self, opened: Result<(), String>, now: Time) -> Vec<Effect> {
        let Overlay::Going(name) = &self.overlay else { return vec![Effect::Stay] };
        let name = visible(name.as_bytes());
        self.overlay = Overlay::None;
        match opened {
            Ok(()) => return vec![Effect::Quit],
            Err(why) => {
                let here = visible(self.title.target.as_bytes());
                self.tell(format!("could not go to {name}, still at {here}: {why}"), now);
            }
        }
        Vec::new()
    }

    /// What a person keeps who comes from another target: how things are shown, and what became of it.
    pub fn come_from(&mut self, other: &App, told: String, now: Time) {
        self.display.private = other.display.private;
        self.display.mouse = other.display.mouse;
        self.display.size = other.display.size;
        self.tell(told, now);
    }
}

/// The targets that begin like this.
pub(super) fn offer(start: usize, begun: &str, targets: &[Offered]) -> Offer {
    let words = targets.iter().map(|target| target.name.clone()).filter(|name| name.starts_with(begun));
    Offer { start, words: words.collect() }
}

#[cfg(test)]
mod tests;
