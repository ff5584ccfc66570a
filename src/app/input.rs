//! Where a key goes: to the overlay if there is one, else to the command bound to it on this screen.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::dialog::Decision;
use super::{App, Effect, Overlay, command_bar};
use crate::base::time::Time;
use crate::filter::Filter;
use crate::lab::Wanted;
use crate::settings::keys::{Command, Press};

impl App {
    pub(super) fn take_key(&mut self, key: KeyEvent, now: Time) -> Vec<Effect> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return vec![Effect::Quit];
        }
        let here = self.place();
        let again = self.key_of(Command::LookAgain);
        match &mut self.overlay {
            Overlay::None => {}
            Overlay::Leave => {
                self.overlay = Overlay::None;
                return if key.code == KeyCode::Char('y') { vec![Effect::Quit] } else { Vec::new() };
            }
            Overlay::Dialog(dialog) => {
                // A letter is part of the answer, whatever it is bound to.
                let is_letter =
                    matches!(key.code, KeyCode::Char(_)) && (key.modifiers - KeyModifiers::SHIFT).is_empty();
                if !is_letter && self.keys.command(key, here) == Some(Command::LookAgain) {
                    return self.obey(Command::LookAgain, now);
                }
                return match dialog.press(key) {
                    Decision::Open => Vec::new(),
                    Decision::Over(key) => {
                        let why = format!(
                            "{key} was freed or taken over since you were asked: {again} looks again, esc leaves it"
                        );
                        dialog.prompt.refuse(why, 1);
                        Vec::new()
                    }
                    Decision::Leave => {
                        self.overlay = Overlay::None;
                        Vec::new()
                    }
                    Decision::Do { plans, reason } => self.confirmed(plans, reason),
                };
            }
            Overlay::Help { .. } => {
                match self.keys.command(key, here) {
                    Some(command) if command.moves() => return self.obey(command, now),
                    _ => self.overlay = Overlay::None,
                }
                return Vec::new();
            }
            Overlay::Results { .. } => {
                if let Some(command) = self.keys.command(key, here)
                    && (command.moves() || command == Command::LookAgain)
                {
                    return self.obey(command, now);
                }
                // It is read: the key is meant for what lies under it, unless it closes something.
                self.overlay = Overlay::None;
                return match self.keys.command(key, self.place()) {
                    None | Some(Command::Back | Command::Open | Command::Quit) => Vec::new(),
                    Some(command) => self.obey(command, now),
                };
            }
            Overlay::Filter(prompt) | Overlay::Command(prompt) | Overlay::Acquire(prompt) => {
                return match key.code {
                    KeyCode::Esc => {
                        self.overlay = Overlay::None;
                        Vec::new()
                    }
                    KeyCode::Enter => self.enter(now),
                    _ => {
                        prompt.press(key);
                        Vec::new()
                    }
                };
            }
        }
        match self.keys.command(key, here).or_else(|| self.keys.elsewhere(key)) {
            Some(command) => self.obey(command, now),
            None => {
                let help = self.key_of(Command::Help);
                self.say(format!("{} does nothing here; {help} lists the keys", Press::from(key)), now);
                Vec::new()
            }
        }
    }

    /// Carries out what was typed into a prompt, or refuses it and marks the mistake.
    fn enter(&mut self, now: Time) -> Vec<Effect> {
        match std::mem::replace(&mut self.overlay, Overlay::None) {
            Overlay::Filter(mut prompt) => match prompt.text().parse::<Filter>() {
                Ok(filter) => self.filter_by(prompt.text(), filter),
                Err(bad) => {
                    // The old filter stays in force, and the prompt stays open with the error.
                    prompt.refuse(bad.to_string(), bad.column);
                    self.overlay = Overlay::Filter(prompt);
                }
            },
            Overlay::Command(mut prompt) => match command_bar::parse(prompt.text()) {
                Ok(deed) => return deed(self, now),
                Err(why) => {
                    prompt.refuse(why, 1);
                    self.overlay = Overlay::Command(prompt);
                }
            },
            Overlay::Acquire(mut prompt) => match Wanted::parse(prompt.text()) {
                Ok(wanted) => return self.acquire(prompt.text(), wanted, now),
                Err(bad) => {
                    prompt.refuse(bad.why, bad.column);
                    self.overlay = Overlay::Acquire(prompt);
                }
            },
            Overlay::None | Overlay::Help { .. } | Overlay::Dialog(_) | Overlay::Results { .. } | Overlay::Leave => {}
        }
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) {
        match &mut self.overlay {
            Overlay::Filter(prompt) | Overlay::Command(prompt) | Overlay::Acquire(prompt) => prompt.paste(text),
            Overlay::Dialog(dialog) => dialog.prompt.paste(text),
            Overlay::None | Overlay::Help { .. } | Overlay::Results { .. } | Overlay::Leave => {}
        }
    }
}
