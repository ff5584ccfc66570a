//! What each command does to the app, and on which screens it works.

use crossterm::event::KeyEvent;

use super::{App, Effect, Order, Overlay, Place, Screen, Wish};
use crate::app::prompt::Prompt;
use crate::base::time::Time;
use crate::model::Column;
use crate::settings::keys::{self, Command};

impl App {
    /// Runs the command, or says why it does nothing here.
    pub(super) fn obey(&mut self, command: Command, now: Time) -> Vec<Effect> {
        if !self.can(command) {
            let why = self.works_elsewhere(command);
            self.say(why, now);
            return Vec::new();
        }
        match command {
            Command::Up => self.step(-1),
            Command::Down => self.step(1),
            Command::PageUp => self.step(-(self.scene.page as isize)),
            Command::PageDown => self.step(self.scene.page as isize),
            Command::Top => self.step(isize::MIN / 2),
            Command::Bottom => self.step(isize::MAX / 2),
            Command::Open => self.open(now),
            Command::Back => return self.back(now),
            Command::Filter => self.overlay = Overlay::Filter(Prompt::new(&self.list.filter_text)),
            Command::CommandBar => self.overlay = Overlay::Command(Prompt::new("")),
            Command::Sort => self.sort(now),
            Command::Reverse => {
                self.list.order.reversed = !self.list.order.reversed;
                self.scene.outdated = true;
            }
            Command::Mark => self.mark(now),
            Command::MarkAll if self.list.marked.is_empty() => self.list.marks_all = true,
            Command::MarkAll => self.list.marked.clear(),
            Command::Pause => self.pause(),
            Command::Copy => return self.copy(now),
            Command::Rescan => {
                self.say("walking the keyspace again".into(), now);
                return vec![Effect::Rescan];
            }
            Command::LookAgain => return self.look_again(now),
            Command::Free => return self.wish(Wish::Free, now),
            Command::Extend => return self.wish(Wish::Extend(None), now),
            Command::Undo => return self.wish_undo(now),
            Command::Acquire => self.ask_which(now),
            Command::GiveBack => return self.give_back(now),
            Command::Renew => return self.renew_test(now),
            Command::Watchdog => return self.turn_watchdog(now),
            Command::Contend => return self.contend(now),
            Command::Relent => return self.relent(now),
            Command::Write => self.toggle_writing(now),
            Command::Reveal => {
                self.display.reveal = !self.display.reveal;
                self.say(if self.display.reveal { "tokens are whole" } else { "tokens are shortened" }.into(), now);
            }
            Command::Private => {
                self.display.private = !self.display.private;
                let are = if self.display.private { "hidden" } else { "shown" };
                self.say(format!("holders and values are {are}"), now);
            }
            Command::Mouse => {
                self.display.mouse = !self.display.mouse;
                self.say(format!("mouse {}", if self.display.mouse { "on" } else { "off" }), now);
                return vec![Effect::Mouse(self.display.mouse)];
            }
            Command::Sample => return self.turn_sampling(now),
            Command::Locks => self.show(Screen::Locks),
            Command::Contention => self.show(Screen::Contention),
            Command::Events => self.show(Screen::Events),
            Command::Servers => self.show(Screen::Servers),
            Command::Lab => self.show(Screen::Lab),
            Command::Help => self.overlay = Overlay::Help { scroll: 0 },
            Command::Redraw => return vec![Effect::Redraw],
            Command::Suspend => return vec![Effect::Suspend],
            Command::Quit if self.undone().is_some() => self.overlay = Overlay::Leave,
            Command::Quit => return vec![Effect::Quit],
        }
        Vec::new()
    }

    /// The place that the keys act on.
    pub fn place(&self) -> Place {
        match self.overlay {
            Overlay::Dialog(_) | Overlay::Results { .. } => Place::Asked,
            _ if self.page.opened.is_some() => Place::Opened,
            _ => Place::On(self.page.screen),
        }
    }

    /// Whether the command works on the current screen.
    pub fn can(&self, command: Command) -> bool {
        keys::binding(command).is_some_and(|binding| binding.at.includes(self.place()))
    }

    fn works_elsewhere(&self, command: Command) -> String {
        let name = keys::name_of(command);
        let place = keys::binding(command).map(|binding| binding.at.first());
        let tab = Screen::TABS.into_iter().find(|(screen, ..)| Some(Place::On(*screen)) == place);
        match tab {
            None if place == Some(Place::Asked) => format!("{name} works on a question, and on what came of it"),
            None => format!("{name} works on an opened lock"),
            Some((Screen::Locks, shows, _)) => {
                format!("{name} works in the list of locks; {} shows it", self.key_of(shows))
            }
            Some((_, shows, tab)) => {
                format!("{name} works in the {}; {} shows it", tab.to_lowercase(), self.key_of(shows))
            }
        }
    }

    /// Whether the keys move in the list of locks.
    pub fn in_list(&self) -> bool {
        matches!(self.page.screen, Screen::Locks | Screen::Contention) && self.page.opened.is_none()
    }

    /// Whether the key acts on rows of the list.
    pub fn acts_on_rows(&self, key: KeyEvent) -> bool {
        use Command::{Copy, Extend, Free, Mark, MarkAll, Open};
        let acts =
            |command: Command| command.moves() || matches!(command, Open | Mark | MarkAll | Copy | Free | Extend);
        matches!(self.overlay, Overlay::None)
            && self.in_list()
            && self.keys.command(key, self.place()).is_some_and(acts)
    }

    /// The first key of a command, as shown to people.
    pub fn key_of(&self, command: Command) -> String {
        let key = self.keys.presses(command, self.place()).next();
        key.map_or(format!(":{}", keys::name_of(command)), |press| press.to_string())
    }

    /// Moves the selection in a list, and scrolls any other screen.
    pub(super) fn step(&mut self, by: isize) {
        let (in_list, in_lab) = (self.in_list(), self.in_lab());
        match &mut self.overlay {
            Overlay::Results { scroll } => *scroll = scroll.saturating_add_signed(by).min(self.writing.results.len()),
            Overlay::Help { scroll } => *scroll = scroll.saturating_add_signed(by).min(self.scene.help_most),
            Overlay::Filter(_) | Overlay::Command(_) | Overlay::Acquire(_) | Overlay::Dialog(_) | Overlay::Leave => {}
            Overlay::None if in_lab => self.lab.step(by),
            Overlay::None if in_list => self.list.steps = self.list.steps.saturating_add(by),
            Overlay::None => self.page.scroll = self.page.scroll.saturating_add_signed(by).min(self.scene.scroll_most),
        }
    }

    fn show(&mut self, screen: Screen) {
        // The two lists have different rows.
        self.scene.outdated |= screen != self.page.screen && matches!(screen, Screen::Locks | Screen::Contention);
        self.page.screen = screen;
        self.page.opened = None;
        self.page.scroll = 0;
    }

    fn open(&mut self, now: Time) {
        match self.list.selected.clone() {
            Some(id) => (self.page.opened, self.page.scroll) = (Some(id), 0),
            None => self.say("there is no lock to open".into(), now),
        }
    }

    /// Takes one step back: closes the opened lock, then leaves the screen, then clears the marks, then the filter.
    fn back(&mut self, now: Time) -> Vec<Effect> {
        self.page.scroll = 0;
        if self.writing.running.is_some() {
            self.say("stopping: what is under way is finished".into(), now);
            return vec![Effect::Stop];
        }
        if self.page.opened.take().is_some() {
        } else if self.page.screen != Screen::Locks {
            self.show(Screen::Locks);
        } else if !self.list.marked.is_empty() {
            self.list.marked.clear();
        } else if !self.list.filter_text.is_empty() {
            self.list.filter = None;
            self.list.filter_text.clear();
            self.scene.outdated = true;
        } else {
            let quit = self.key_of(Command::Quit);
            self.say(format!("nothing to go back to; {quit} quits"), now);
        }
        Vec::new()
    }

    fn sort(&mut self, now: Time) {
        let columns = Column::ALL;
        let at = columns.iter().position(|column| *column == self.list.order.column).unwrap_or(0);
        let column = columns[(at + 1) % columns.len()];
        self.list.order = Order { column, reversed: false };
        self.scene.outdated = true;
        let by = match column {
            Column::State => "state, the worst first".into(),
            column => column.title().to_lowercase(),
        };
        self.say(format!("ordered by {by}"), now);
    }

    fn mark(&mut self, now: Time) {
        let Some(id) = self.list.selected.clone() else { return self.say("there is no lock to mark".into(), now) };
        if !self.list.marked.remove(&id) {
            self.list.marked.insert(id);
        }
        self.step(1);
    }

    fn pause(&mut self) {
        self.display.paused = !self.display.paused;
        self.lab.freeze(self.display.paused);
        if !self.display.paused {
            self.catch_up();
            self.scene.outdated = true;
        }
    }

    fn copy(&mut self, now: Time) -> Vec<Effect> {
        let Some(lock) = &self.scene.lock else {
            self.say("there is no lock to copy the name of".into(), now);
            return Vec::new();
        };
        let (what, text) = match (&self.page.opened, lock.holders.first()) {
            (Some(_), Some(holder)) => ("the holder's token", holder.token.to_string()),
            _ => ("the key", lock.key.to_string()),
        };
        self.say(format!("copied {what}"), now);
        vec![Effect::Copy(text)]
    }
}
