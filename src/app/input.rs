//! Where a key goes: to the overlay if there is one, else to the command bound to it on this screen.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::dialog::Decision;
use super::prompt::{Offer, Prompt};
use super::{App, Effect, Overlay, command_bar, filtering};
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
        let (commands, targets) = (matches!(self.overlay, Overlay::Command(_)), &self.title.targets);
        let offer = |before: &str| if commands { command_bar::offer(before, targets) } else { Offer::default() };
        match &mut self.overlay {
            Overlay::None => {}
            Overlay::Sort => {
                self.choose_order(key, now);
                return Vec::new();
            }
            Overlay::Group => {
                self.choose_group(key, now);
                return Vec::new();
            }
            Overlay::Leave => {
                self.overlay = Overlay::None;
                return if key.code == KeyCode::Char('y') { vec![Effect::Quit] } else { Vec::new() };
            }
            Overlay::Going(_) => return self.stay_on(key, now),
            Overlay::Asking(_) => return self.stop_asking(key, now),
            Overlay::Dialog(_) => return self.answer_dialog(key, now),
            Overlay::Help { .. } | Overlay::Incident { .. } => {
                match self.keys.command(key, here) {
                    Some(command) if command.moves() => return self.obey(command, now),
                    _ => self.overlay = Overlay::None,
                }
                return Vec::new();
            }
            Overlay::Results { .. } => return self.leave_results(key, now),
            Overlay::Filter(filtering) => {
                match key.code {
                    KeyCode::Esc => self.leave_filter(),
                    KeyCode::Enter => return self.enter(now),
                    _ => {
                        type_into(&mut filtering.prompt, key, filtering::offer);
                        self.filter_typed();
                    }
                }
                return Vec::new();
            }
            Overlay::Command(prompt) | Overlay::Acquire(prompt) => {
                match key.code {
                    KeyCode::Esc => self.overlay = Overlay::None,
                    KeyCode::Enter => return self.enter(now),
                    _ => type_into(prompt, key, offer),
                }
                return Vec::new();
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

    /// A key for the dialog that asks before a write.
    fn answer_dialog(&mut self, key: KeyEvent, now: Time) -> Vec<Effect> {
        // A letter is part of the answer, whatever it is bound to.
        let is_letter = matches!(key.code, KeyCode::Char(_)) && (key.modifiers - KeyModifiers::SHIFT).is_empty();
        if !is_letter && self.keys.command(key, self.place()) == Some(Command::LookAgain) {
            return self.obey(Command::LookAgain, now);
        }
        let again = self.key_of(Command::LookAgain);
        let Overlay::Dialog(dialog) = &mut self.overlay else { return Vec::new() };
        match dialog.press(key) {
            Decision::Open => {}
            Decision::Over(key) => {
                let why = format!("{key} was freed or taken over meanwhile; {again} looks again, esc cancels");
                dialog.prompt.refuse(why, 1);
            }
            Decision::Leave => self.overlay = Overlay::None,
            Decision::Do { plans, left_out, reason } => return self.confirmed(plans, left_out, reason),
        }
        Vec::new()
    }

    /// A key on the results of a write: it scrolls them, or leaves them.
    fn leave_results(&mut self, key: KeyEvent, now: Time) -> Vec<Effect> {
        if let Some(command) = self.keys.command(key, self.place())
            && (command.moves() || command == Command::LookAgain)
        {
            return self.obey(command, now);
        }
        // It is read: the key is meant for what lies under it, unless it closes something.
        self.overlay = Overlay::None;
        match self.keys.command(key, self.place()) {
            None | Some(Command::Back | Command::Open | Command::Quit) => Vec::new(),
            Some(command) => self.obey(command, now),
        }
    }

    /// Whether the next letter goes into a prompt.
    pub fn is_typing(&self) -> bool {
        matches!(self.overlay, Overlay::Filter(_) | Overlay::Command(_) | Overlay::Acquire(_))
    }

    /// Carries out what was typed into a prompt, or refuses it and marks the mistake.
    fn enter(&mut self, now: Time) -> Vec<Effect> {
        match std::mem::replace(&mut self.overlay, Overlay::None) {
            Overlay::Filter(mut filtering) => match filtering.prompt.text().parse::<Filter>() {
                Ok(filter) => self.filter_by(filtering.prompt.text(), filter),
                Err(bad) => {
                    filtering.prompt.refuse(bad.to_string(), bad.column);
                    self.overlay = Overlay::Filter(filtering);
                }
            },
            Overlay::Command(mut prompt) => match command_bar::parse(prompt.text()) {
                Ok(deed) => {
                    filtering::remember(&mut self.typed, prompt.text());
                    return deed(self, now);
                }
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
            Overlay::None
            | Overlay::Help { .. }
            | Overlay::Incident { .. }
            | Overlay::Dialog(_)
            | Overlay::Results { .. }
            | Overlay::Sort
            | Overlay::Group
            | Overlay::Leave
            | Overlay::Going(_)
            | Overlay::Asking(_) => {}
        }
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) {
        match &mut self.overlay {
            Overlay::Filter(filtering) => {
                filtering.prompt.paste(text);
                self.filter_typed();
            }
            Overlay::Command(prompt) | Overlay::Acquire(prompt) => prompt.paste(text),
            Overlay::Dialog(dialog) => dialog.prompt.paste(text),
            Overlay::None
            | Overlay::Help { .. }
            | Overlay::Incident { .. }
            | Overlay::Results { .. }
            | Overlay::Sort
            | Overlay::Group
            | Overlay::Leave
            | Overlay::Going(_)
            | Overlay::Asking(_) => {}
        }
    }
}

/// Types one key. `offer`: how the text up to the cursor can go on.
fn type_into(prompt: &mut Prompt, key: KeyEvent, offer: impl Fn(&str) -> Offer) {
    match key.code {
        KeyCode::Tab => prompt.complete(offer, false),
        KeyCode::BackTab => prompt.complete(offer, true),
        _ => prompt.press(key),
    }
}
