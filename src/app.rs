//! The console's state and what changes it: pure.
//!
//! [`App::update`] takes an [`Event`] and the time and says what the loop must do ([`Effect`]); it never draws, waits or
//! speaks to Redis. What there is to see is composed from the table into a [`Scene`] (see [`scene`](crate::scene)), and
//! the views draw `&App`, nothing else. Selection is a lock's identity, never a row number.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent, MouseEventKind};

use crate::filter::{BadFilter, Filter, Subject};
use crate::inspect::Inspection;
use crate::keys::{self, Command, Keys};
use crate::model::{Key, LockView, NodeId, Time, Transition};
use crate::output::Column;
use crate::prompt::Prompt;
use crate::scene::Scene;
use crate::theme::Theme;

/// A lock's identity: what selection and marks are kept by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockId {
    pub node: NodeId,
    pub key: Key,
}

impl LockId {
    pub fn of(lock: &LockView) -> LockId {
        LockId { node: lock.node, key: lock.key.clone() }
    }

    pub fn is(&self, lock: &LockView) -> bool {
        self.node == lock.node && self.key == lock.key
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    /// The terminal's size, in columns and rows.
    Resize(u16, u16),
    /// Locks changed, and how many changes were left out.
    Changes(Vec<Transition>, u64),
    /// A closer look at a lock was taken.
    Inspected(LockId, Box<Inspection>),
    /// The loop has something to say.
    Say(String),
}

/// What the loop must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    Quit,
    Rescan,
    /// Put this on the clipboard of the terminal.
    Copy(String),
    Suspend,
    Redraw,
    Mouse(bool),
    /// Have a closer look taken at this lock.
    Inspect(LockId),
}

/// The screens. A tab appears with its feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Screen {
    Locks,
    Events,
    Servers,
}

impl Screen {
    pub const TABS: [(Screen, Command, &'static str); 3] = [
        (Screen::Locks, Command::Locks, "Locks"),
        (Screen::Events, Command::Events, "Events"),
        (Screen::Servers, Command::Servers, "Servers"),
    ];
}

/// What lies over the screen and takes the keys.
#[derive(Debug)]
pub enum Overlay {
    None,
    Help { scroll: usize },
    Filter(Prompt),
    Command(Prompt),
}

/// How the list of locks is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// [`Column::State`] is worst first.
    pub column: Column,
    pub reversed: bool,
}

/// A line that goes away by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    pub text: String,
    until: Time,
}

/// What the console is about; does not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Title {
    /// The target's name, or its address without a password.
    pub target: String,
    pub environment: Option<&'static str>,
}

pub struct App {
    pub title: Title,
    pub keys: Keys,
    pub theme: Theme,
    pub screen: Screen,
    /// The lock that is opened, over any screen.
    pub opened: Option<LockId>,
    pub closer: Closer,
    pub overlay: Overlay,
    pub selected: Option<LockId>,
    /// How far the keys moved the selection since the scene was composed.
    pub steps: isize,
    pub marked: BTreeSet<LockId>,
    pub order: Order,
    pub filter: Option<Filter>,
    /// The text of the filter in force, as it was typed.
    pub filter_text: String,
    pub feed: VecDeque<Transition>,
    /// Changes that came while the screen was paused.
    unseen: VecDeque<Transition>,
    /// Changes that came too fast for the feed.
    pub feed_dropped: u64,
    /// How many lines the feed, the detail or the servers are scrolled.
    pub scroll: usize,
    pub paused: bool,
    pub reveal: bool,
    pub private: bool,
    pub mouse: bool,
    pub size: (u16, u16),
    pub notice: Option<Notice>,
    /// When a key was last pressed: the order does not move for a moment after it.
    pub touched: Time,
    pub scene: Scene,
}

/// The closer looks at the opened lock.
#[derive(Debug, Default)]
pub struct Closer {
    of: Option<LockId>,
    asked: Option<Time>,
    /// What the last one found; `None` until then.
    pub found: Option<Box<Inspection>>,
}

/// What a typed command does.
type Deed = Box<dyn FnOnce(&mut App, Time) -> Vec<Effect>>;

/// As many changes as the feed keeps.
const FEED: usize = 2_000;
const NOTICE: Duration = Duration::from_secs(4);
/// Between two closer looks at the opened lock.
const LOOK_CLOSER: Duration = Duration::from_secs(2);

impl App {
    pub fn new(title: Title, keys: Keys, theme: Theme, filter: Option<(String, Filter)>) -> App {
        let (filter_text, filter) = filter.map_or((String::new(), None), |(text, filter)| (text, Some(filter)));
        App {
            title,
            keys,
            theme,
            screen: Screen::Locks,
            opened: None,
            closer: Closer::default(),
            overlay: Overlay::None,
            selected: None,
            steps: 0,
            marked: BTreeSet::new(),
            order: Order { column: Column::State, reversed: false },
            filter,
            filter_text,
            feed: VecDeque::new(),
            unseen: VecDeque::new(),
            feed_dropped: 0,
            scroll: 0,
            paused: false,
            reveal: false,
            private: false,
            mouse: false,
            size: (80, 24),
            notice: None,
            touched: Time(0),
            scene: Scene::default(),
        }
    }

    /// Takes in what happened.
    pub fn update(&mut self, event: Event, now: Time) -> Vec<Effect> {
        let mut effects = self.take(event, now);
        effects.extend(self.look_closer(now));
        effects
    }

    fn take(&mut self, event: Event, now: Time) -> Vec<Effect> {
        if self.notice.as_ref().is_some_and(|notice| notice.until <= now) {
            self.notice = None;
        }
        match event {
            Event::Resize(width, height) => self.size = (width, height),
            Event::Changes(changes, left_out) => self.take_changes(changes, left_out),
            Event::Inspected(id, found) => {
                // An answer that comes late is about a lock that was closed since. A paused screen keeps what it has.
                if self.closer.of.as_ref() == Some(&id) && !(self.paused && self.closer.found.is_some()) {
                    self.closer.found = Some(found);
                }
            }
            Event::Say(text) => self.say(text, now),
            Event::Key(key) => {
                self.touched = now;
                return self.take_key(key, now);
            }
            Event::Paste(text) => {
                if let Overlay::Filter(prompt) | Overlay::Command(prompt) = &mut self.overlay {
                    prompt.paste(&text);
                }
            }
            Event::Mouse(mouse) => {
                let by = match mouse.kind {
                    MouseEventKind::ScrollUp => -1,
                    MouseEventKind::ScrollDown => 1,
                    _ => return Vec::new(),
                };
                self.touched = now;
                self.step(by);
            }
        }
        Vec::new()
    }

    /// Asks for a closer look at the opened lock: at once when it is opened, then every now and then.
    fn look_closer(&mut self, now: Time) -> Option<Effect> {
        if self.closer.of != self.opened {
            self.closer = Closer { of: self.opened.clone(), ..Closer::default() };
        }
        let id = self.opened.as_ref().filter(|_| !self.paused)?;
        if self.closer.asked.is_some_and(|asked| now.since(asked) < LOOK_CLOSER) {
            return None;
        }
        self.closer.asked = Some(now);
        Some(Effect::Inspect(id.clone()))
    }

    fn take_changes(&mut self, changes: Vec<Transition>, left_out: u64) {
        self.feed_dropped += left_out;
        if self.paused {
            self.unseen.extend(changes);
            let over = self.unseen.len().saturating_sub(FEED);
            self.unseen.drain(..over);
        } else {
            self.feed_on(changes);
        }
    }

    fn feed_on(&mut self, changes: impl IntoIterator<Item = Transition>) {
        for change in changes {
            // What somebody has scrolled to stays in sight.
            if self.scroll > 0 && self.screen == Screen::Events && self.opened.is_none() && self.tells(&change) {
                self.scroll += 1;
            }
            self.feed.push_back(change);
        }
        let over = self.feed.len().saturating_sub(FEED);
        self.feed.drain(..over);
    }

    /// Whether the filter lets the change into the feed.
    pub fn tells(&self, change: &Transition) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(&Subject::of_change(change, None)))
    }

    fn take_key(&mut self, key: KeyEvent, now: Time) -> Vec<Effect> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return vec![Effect::Quit];
        }
        match &mut self.overlay {
            Overlay::None => {}
            Overlay::Help { .. } => {
                match self.keys.command(key) {
                    Some(command) if command.moves() => return self.obey(command, now),
                    _ => self.overlay = Overlay::None,
                }
                return Vec::new();
            }
            Overlay::Filter(prompt) | Overlay::Command(prompt) => {
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
        match self.keys.command(key) {
            Some(command) => self.obey(command, now),
            None => {
                let help = self.key_of(Command::Help);
                self.say(format!("{} does nothing here; {help} lists the keys", keys::Press::from(key)), now);
                Vec::new()
            }
        }
    }

    /// What was typed into a prompt is done, or refused with the place of the mistake.
    fn enter(&mut self, now: Time) -> Vec<Effect> {
        match std::mem::replace(&mut self.overlay, Overlay::None) {
            Overlay::Filter(mut prompt) => match prompt.text().parse::<Filter>() {
                Ok(filter) => self.filter_by(prompt.text(), filter),
                Err(bad) => {
                    // The old filter stays, and the prompt too, with what is wrong.
                    prompt.refuse(bad.to_string(), bad.column);
                    self.overlay = Overlay::Filter(prompt);
                }
            },
            Overlay::Command(mut prompt) => match self.parse_command(prompt.text()) {
                Ok(effects) => return effects(self, now),
                Err(why) => {
                    prompt.refuse(why, 1);
                    self.overlay = Overlay::Command(prompt);
                }
            },
            Overlay::None | Overlay::Help { .. } => {}
        }
        Vec::new()
    }

    fn filter_by(&mut self, text: &str, filter: Filter) {
        self.filter_text = text.trim().to_string();
        self.filter = Some(filter).filter(|filter| !filter.is_empty());
        self.scroll = 0;
        self.scene.outdated = true;
    }

    /// `:` commands: the names of the key table, `filter …` and `sort COLUMN`.
    fn parse_command(&self, text: &str) -> Result<Deed, String> {
        let (name, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let rest = rest.trim().to_string();
        match (name, rest.is_empty()) {
            ("", _) => Ok(Box::new(|_, _| Vec::new())),
            ("q" | "quit", _) => Ok(Box::new(|_, _| vec![Effect::Quit])),
            ("filter", false) => {
                let filter: Filter = rest.parse().map_err(|bad: BadFilter| bad.to_string())?;
                Ok(Box::new(move |app, _| {
                    app.filter_by(&rest, filter);
                    Vec::new()
                }))
            }
            ("sort", false) => {
                let column = Column::ALL.into_iter().find(|column| column.title().eq_ignore_ascii_case(&rest));
                let Some(column) = column else {
                    let names: Vec<String> = Column::ALL.iter().map(|column| column.title().to_lowercase()).collect();
                    return Err(format!("there is no column {rest:?}; there are {}", names.join(", ")));
                };
                Ok(Box::new(move |app, _| {
                    app.order = Order { column, reversed: false };
                    app.scene.outdated = true;
                    Vec::new()
                }))
            }
            (name, _) => match keys::named(name) {
                Some(command) => Ok(Box::new(move |app, now| app.obey(command, now))),
                None => {
                    let nearest = crate::nearest::nearest(name, keys::BINDINGS.iter().map(|binding| binding.name));
                    Err(format!("there is no command {name:?}; did you mean {nearest:?}?"))
                }
            },
        }
    }

    fn obey(&mut self, command: Command, now: Time) -> Vec<Effect> {
        if !self.can(command) {
            let key = self.key_of(Command::Locks);
            self.say(format!("{} works in the list of locks; {key} shows it", keys::name_of(command)), now);
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
            Command::Back => self.back(now),
            Command::Filter => self.overlay = Overlay::Filter(Prompt::new(&self.filter_text)),
            Command::CommandBar => self.overlay = Overlay::Command(Prompt::new("")),
            Command::Sort => self.sort(now),
            Command::Reverse => {
                self.order.reversed = !self.order.reversed;
                self.scene.outdated = true;
            }
            Command::Mark => self.mark(now),
            Command::Pause => self.pause(),
            Command::Copy => return self.copy(now),
            Command::Rescan => {
                self.say("walking the keyspace again".into(), now);
                return vec![Effect::Rescan];
            }
            Command::Reveal => {
                self.reveal = !self.reveal;
                self.say(if self.reveal { "tokens are whole" } else { "tokens are shortened" }.into(), now);
            }
            Command::Private => {
                self.private = !self.private;
                let are = if self.private { "hidden" } else { "shown" };
                self.say(format!("holders and values are {are}"), now);
            }
            Command::Mouse => {
                self.mouse = !self.mouse;
                self.say(format!("mouse {}", if self.mouse { "on" } else { "off" }), now);
                return vec![Effect::Mouse(self.mouse)];
            }
            Command::Locks => self.show(Screen::Locks),
            Command::Events => self.show(Screen::Events),
            Command::Servers => self.show(Screen::Servers),
            Command::Help => self.overlay = Overlay::Help { scroll: 0 },
            Command::Redraw => return vec![Effect::Redraw],
            Command::Suspend => return vec![Effect::Suspend],
            Command::Quit => return vec![Effect::Quit],
        }
        Vec::new()
    }

    /// Whether the command means anything on the screen as it is.
    pub fn can(&self, command: Command) -> bool {
        match command {
            Command::Open | Command::Mark | Command::Sort | Command::Reverse => self.in_list(),
            Command::Copy => self.in_list() || self.opened.is_some(),
            _ => true,
        }
    }

    /// Whether the list of locks is what the keys move in.
    pub fn in_list(&self) -> bool {
        self.screen == Screen::Locks && self.opened.is_none()
    }

    /// The first key of a command, as it is told to people.
    pub fn key_of(&self, command: Command) -> String {
        self.keys.of(command).next().map_or(format!(":{}", keys::name_of(command)), |press| press.to_string())
    }

    fn step(&mut self, by: isize) {
        let in_list = self.in_list();
        match &mut self.overlay {
            Overlay::Help { scroll } => *scroll = scroll.saturating_add_signed(by).min(self.scene.help_most),
            Overlay::Filter(_) | Overlay::Command(_) => {}
            Overlay::None if in_list => self.steps = self.steps.saturating_add(by),
            Overlay::None => self.scroll = self.scroll.saturating_add_signed(by).min(self.scene.scroll_most),
        }
    }

    fn show(&mut self, screen: Screen) {
        self.screen = screen;
        self.opened = None;
        self.scroll = 0;
    }

    fn open(&mut self, now: Time) {
        match self.selected.clone() {
            Some(id) => (self.opened, self.scroll) = (Some(id), 0),
            None => self.say("there is no lock to open".into(), now),
        }
    }

    /// One thing less: the opened lock, the other screen, the marks, the filter.
    fn back(&mut self, now: Time) {
        self.scroll = 0;
        if self.opened.take().is_some() {
        } else if self.screen != Screen::Locks {
            self.screen = Screen::Locks;
        } else if !self.marked.is_empty() {
            self.marked.clear();
        } else if !self.filter_text.is_empty() {
            self.filter = None;
            self.filter_text.clear();
            self.scene.outdated = true;
        } else {
            let quit = self.key_of(Command::Quit);
            self.say(format!("nothing to go back to; {quit} quits"), now);
        }
    }

    fn sort(&mut self, now: Time) {
        let columns = Column::ALL;
        let at = columns.iter().position(|column| *column == self.order.column).unwrap_or(0);
        let column = columns[(at + 1) % columns.len()];
        self.order = Order { column, reversed: false };
        self.scene.outdated = true;
        let by = match column {
            Column::State => "state, the worst first".into(),
            column => column.title().to_lowercase(),
        };
        self.say(format!("ordered by {by}"), now);
    }

    fn mark(&mut self, now: Time) {
        let Some(id) = self.selected.clone() else { return self.say("there is no lock to mark".into(), now) };
        if !self.marked.remove(&id) {
            self.marked.insert(id);
        }
        self.step(1);
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if !self.paused {
            let unseen = std::mem::take(&mut self.unseen);
            self.feed_on(unseen);
            self.scene.outdated = true;
        }
    }

    fn copy(&mut self, now: Time) -> Vec<Effect> {
        let Some(lock) = &self.scene.lock else {
            self.say("there is no lock to copy the name of".into(), now);
            return Vec::new();
        };
        let (what, text) = match (&self.opened, lock.holders.first()) {
            (Some(_), Some(holder)) => ("the holder's token", holder.token.to_string()),
            _ => ("the key", lock.key.to_string()),
        };
        self.say(format!("copied {what}"), now);
        vec![Effect::Copy(text)]
    }

    fn say(&mut self, text: String, now: Time) {
        self.notice = Some(Notice { text, until: now + NOTICE });
    }
}

#[cfg(test)]
mod tests;
