//! What each command does to the app, and on which screens it works.

use crossterm::event::KeyEvent;

use super::{App, Effect, Form, Overlay, Place, Screen, Wish};
use crate::app::prompt::Prompt;
use crate::base::time::Time;
use crate::settings::keys::{self, Command};

/// The filter for locks with any finding.
const ANY_FINDING: &str = "finding:*";

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
            Command::Top => self.go_to_top(),
            Command::Bottom => self.step(isize::MAX / 2),
            Command::Open => self.open(now),
            Command::Back => return self.back(now),
            Command::Filter => self.ask_filter(),
            Command::Findings => self.filter_findings(),
            Command::CommandBar => self.overlay = Overlay::Command(Prompt::with_past(self.typed.clone())),
            Command::Sort => self.overlay = Overlay::Sort,
            Command::Reverse => {
                self.list.order.reversed = !self.list.order.reversed;
                self.scene.outdated = true;
            }
            Command::Group => self.overlay = Overlay::Group,
            Command::OpenGroup => self.enter_group(now),
            Command::Others => self.show_others(now),
            Command::Mark => self.mark(now),
            Command::MarkAll if self.list.marked.is_empty() => self.list.marks_all = true,
            Command::MarkAll => self.list.marked.clear(),
            Command::Pause => self.pause(),
            Command::Copy => return self.copy(now),
            Command::Incident => return self.hand_over(Form::Text, now),
            Command::Bundle => return self.hand_over(Form::Page(None), now),
            Command::Why => (self.page.why, self.page.scroll) = (!self.page.why, 0),
            Command::Next => self.turn(1, now),
            Command::Previous => self.turn(-1, now),
            Command::Rescan => {
                self.say("scanning the keyspace again".into(), now);
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
            Command::Reveal => self.toggle_reveal(now),
            Command::Private => self.toggle_private(now),
            Command::Mouse => {
                self.display.mouse = !self.display.mouse;
                self.say(format!("mouse {}", if self.display.mouse { "on" } else { "off" }), now);
                return vec![Effect::Mouse(self.display.mouse)];
            }
            Command::Sample => return self.turn_sampling(now),
            Command::Since => self.turn_since(now),
            Command::Raw => self.turn_raw(),
            Command::Dismiss => self.dismiss_losses(now),
            Command::Locks => self.show(Screen::Locks),
            Command::Contention => self.show(Screen::Contention),
            Command::Events => self.show(Screen::Events),
            Command::Alerts => self.show(Screen::Alerts),
            Command::OpenAlert => self.open_alert(now),
            Command::Tune => return self.tune(now),
            Command::Lever
            | Command::NextEpisode
            | Command::PreviousEpisode
            | Command::OpenEpisode
            | Command::LabelReal
            | Command::LabelNoise
            | Command::TakeSuggestion
            | Command::WriteRule => return self.obey_tuner(command, now),
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

    fn toggle_reveal(&mut self, now: Time) {
        self.display.reveal = !self.display.reveal;
        let are = if self.display.reveal { "shown whole" } else { "shortened" };
        self.say(format!("tokens are {are}"), now);
    }

    fn toggle_private(&mut self, now: Time) {
        self.display.private = !self.display.private;
        let are = if self.display.private { "hidden" } else { "shown" };
        self.say(format!("holders and values are {are}"), now);
    }

    /// The place that the keys act on.
    pub fn place(&self) -> Place {
        match self.overlay {
            Overlay::Dialog(_) | Overlay::Results { .. } => Place::Asked,
            _ if self.page.opened.is_some() => Place::Opened,
            _ if self.groups_by().is_some() => Place::Groups,
            _ if self.in_tuner() => Place::Tuner,
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
            Some((Screen::Locks, ..)) if self.place() == Place::Groups => {
                format!("{name} works on a lock; {} lists those of the group", self.key_of(Command::OpenGroup))
            }
            None if place == Some(Place::Groups) => {
                format!("{name} works in groups of locks; {} groups the list", self.key_of(Command::Group))
            }
            None if place == Some(Place::Tuner) => {
                format!("{name} works in the tuner; {} on a rule of the alerts opens it", self.key_of(Command::Tune))
            }
            None if place == Some(Place::Asked) => format!("{name} works on a question and on its result"),
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
        use Command::{Copy, Extend, Free, Mark, MarkAll, Open, OpenGroup, Others};
        let acts = |command: Command| {
            command.moves() || matches!(command, Open | OpenGroup | Others | Mark | MarkAll | Copy | Free | Extend)
        };
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
        let (in_list, in_lab, in_timeline) = (self.in_list(), self.in_lab(), self.in_timeline());
        let (in_alerts, in_tuner) = (self.in_alerts(), self.in_tuner());
        match &mut self.overlay {
            Overlay::Results { scroll } => *scroll = scroll.saturating_add_signed(by).min(self.writing.results.len()),
            // Bounded when it is drawn.
            Overlay::Incident { scroll, text } => *scroll = scroll.saturating_add_signed(by).min(text.len()),
            Overlay::Help { scroll } => *scroll = scroll.saturating_add_signed(by).min(self.scene.help_most),
            Overlay::Filter(_) | Overlay::Command(_) | Overlay::Acquire(_) | Overlay::Dialog(_) => {}
            Overlay::Sort | Overlay::Group | Overlay::Leave | Overlay::Going(_) | Overlay::Asking(_) => {}
            Overlay::None if in_lab => self.lab.step(by),
            Overlay::None if in_tuner => self.step_tuner(by),
            Overlay::None if in_alerts => self.alerting.step(by),
            Overlay::None if in_timeline => self.timeline.step(by),
            Overlay::None if in_list => self.list.steps = self.list.steps.saturating_add(by),
            Overlay::None => self.page.scroll = self.page.scroll.saturating_add_signed(by).min(self.scene.scroll_most),
        }
    }

    /// The rows may be a second old, and the first no longer the worst: they are sorted before it is selected.
    fn go_to_top(&mut self) {
        let sorts = self.in_list() && !self.display.paused && self.groups_by().is_none();
        if sorts && matches!(self.overlay, Overlay::None) {
            (self.list.to_top, self.scene.outdated, self.list.steps) = (true, true, 0);
        } else {
            self.step(isize::MIN / 2);
        }
    }

    pub(super) fn show(&mut self, screen: Screen) {
        self.list.change(self.page.screen, screen);
        // The two lists have different rows.
        self.scene.outdated |= screen != self.page.screen && matches!(screen, Screen::Locks | Screen::Contention);
        self.page.screen = screen;
        self.page.opened = None;
        (self.page.why, self.page.scroll) = (false, 0);
    }

    fn open(&mut self, now: Time) {
        if self.page.screen == Screen::Events {
            return self.open_told(now);
        }
        match self.list.selected.clone() {
            Some(id) => (self.page.opened, self.page.why, self.page.scroll) = (Some(id), false, 0),
            None => self.say("there is no lock to open".into(), now),
        }
    }

    /// Opens the lock after or before the one that is open; the selection goes with it.
    fn turn(&mut self, by: isize, now: Time) {
        let beside = &self.scene.beside;
        match if by > 0 { &beside.next } else { &beside.previous } {
            Some((id, steps)) => {
                (self.page.opened, self.page.scroll) = (Some(id.clone()), 0);
                match self.page.screen {
                    Screen::Events => self.timeline.step(*steps),
                    _ => self.list.steps = self.list.steps.saturating_add(*steps),
                }
            }
            None => self.say(format!("this is the {} lock", if by > 0 { "last" } else { "first" }), now),
        }
    }

    /// Takes one step back: from the derivation to the lock, closes the opened lock, leaves the screen, clears the marks,
    /// leaves the group, clears the filter, then lists locks instead of groups.
    fn back(&mut self, now: Time) -> Vec<Effect> {
        self.page.scroll = 0;
        if self.writing.running.is_some() {
            self.say("stopping after the write that is under way".into(), now);
            return vec![Effect::Stop];
        }
        // One step only: the derivation first.
        if std::mem::take(&mut self.page.why) || self.page.opened.take().is_some() || self.leave_tuner() {
        } else if self.page.screen != Screen::Locks {
            self.show(Screen::Locks);
        } else if !self.list.marked.is_empty() {
            self.list.marked.clear();
        } else if self.leave_group() {
        } else if !self.list.filter_text.is_empty() {
            self.clear_filter();
        } else if !self.ungroup() {
            let quit = self.key_of(Command::Quit);
            self.say(format!("nothing to go back to; {quit} quits"), now);
        }
        Vec::new()
    }

    /// Only locks with findings, or all again.
    fn filter_findings(&mut self) {
        let text = if self.list.filter_text == ANY_FINDING { "" } else { ANY_FINDING };
        if let Ok(filter) = text.parse() {
            self.filter_by(text, filter);
        }
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
            self.say("there is no lock to copy".into(), now);
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
