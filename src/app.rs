//! The console's state and what changes it: pure.
//!
//! [`App::update`] takes an [`Event`] and the time and returns what the loop must do ([`Effect`]); it never draws,
//! waits or speaks to Redis. [`scene`](crate::app::scene) composes what is visible from the table into a [`Scene`], and
//! the views draw only `&App`. Selection is a lock's identity, never a row number. `app/commands.rs` holds what each
//! command does.

mod closer;
mod command_bar;
mod commands;
mod consent;
mod dialog;
mod feed;
mod input;
mod lab;
pub mod prompt;
mod retrace;
pub mod scene;
pub mod theme;
mod writing;

use std::collections::BTreeSet;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent, MouseEventKind};

use crate::actions::{Kept, Performed, Plan};
use crate::app::prompt::Prompt;
use crate::app::scene::Scene;
use crate::app::theme::Theme;
use crate::base::time::Time;
use crate::filter::Filter;
use crate::lab::{Order as LabOrder, Report, TestId};
use crate::lock::{Key, KeyspaceId};
use crate::model::Column;
use crate::model::{LockView, Transition};
use crate::settings::cli::Environment;
use crate::settings::keys::Keys;
use crate::sources::inspect::Inspection;

pub use crate::settings::keys::{Place, Screen};
pub use closer::Closer;
pub use consent::Consent;
pub use dialog::{Dialog, Sight};
pub use feed::Feed;
pub use lab::{Row, Workbench};
pub use retrace::Since;
pub use writing::{Ended, Wish, Writing};

/// A lock's identity. Selection and marks are stored by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockId {
    pub space: KeyspaceId,
    pub key: Key,
}

impl LockId {
    pub fn of(lock: &LockView) -> LockId {
        LockId { space: lock.space, key: lock.key.clone() }
    }

    pub fn of_plan(plan: &Plan) -> LockId {
        LockId { space: plan.space, key: plan.key.clone() }
    }

    pub fn is(&self, lock: &LockView) -> bool {
        self.space == lock.space && self.key == lock.key
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
    /// Changes of locks, and how many more were dropped.
    Changes(Vec<Transition>, u64),
    /// A lock was inspected.
    Inspected(LockId, Box<Inspection>),
    /// The locks requested by [`Effect::See`] that still exist.
    Seen(Wish, Vec<LockView>),
    /// The last undo record, if any, or why it can't be put back.
    Recalled(Result<Option<Box<Kept>>, String>),
    /// What happened to the lock after this record's write freed it.
    Retraced(Box<Kept>, Since),
    /// The plans, each with whether it could be undone.
    Foreseen(Vec<Plan>),
    /// One plan ended: done, refused or unknown.
    Performed(Box<Plan>, Box<Performed>),
    AllPerformed,
    /// The state of all test locks.
    Lab(Vec<Report>),
}

/// What the loop must do.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    Quit,
    Rescan,
    /// Copy this to the terminal's clipboard.
    Copy(String),
    Suspend,
    Redraw,
    Mouse(bool),
    /// Start or stop sampling attempts by bursts of MONITOR.
    Sample(bool),
    /// Inspect this lock.
    Inspect(LockId),
    /// Return these locks as they are now.
    See(Wish, Vec<LockId>),
    /// Return the last undo record.
    Recall,
    /// Return what happened to the lock since this record's write freed it.
    Retrace(Box<Kept>),
    /// Ask whether these could be undone.
    Foresee(Vec<Plan>),
    /// Perform the plans one after the other, and record the reason.
    Perform(Vec<Plan>, Option<String>),
    /// Start no further plan.
    Stop,
    /// Carry out this order on a test lock.
    Lab(TestId, LabOrder),
}

/// What lies over the screen and takes the keys.
#[derive(Debug)]
pub enum Overlay {
    None,
    Help {
        scroll: usize,
    },
    Filter(Prompt),
    Command(Prompt),
    /// Which test lock to take.
    Acquire(Prompt),
    /// The question before anything is written.
    Dialog(Box<Dialog>),
    /// The results of the writes.
    Results {
        scroll: usize,
    },
    /// Asks whether to quit while writes are running.
    Leave,
}

/// How the list of locks is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// [`Column::State`] is worst first.
    pub column: Column,
    pub reversed: bool,
}

/// A line that disappears by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    pub text: String,
    until: Time,
}

/// What the console is connected to; does not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Title {
    /// The target's name, or its address without a password.
    pub target: String,
    pub environment: Option<Environment>,
    /// The restriction that other targets set for the same address.
    pub protected_by: Option<String>,
}

/// What is on the screen, and how far it is scrolled.
#[derive(Debug)]
pub struct Page {
    pub screen: Screen,
    /// The lock that is opened, over any screen.
    pub opened: Option<LockId>,
    pub closer: Closer,
    /// How many lines the feed, the detail or the servers are scrolled.
    pub scroll: usize,
}

/// What the keys do to the list of locks: selected, marked, ordered, filtered.
#[derive(Debug)]
pub struct List {
    pub selected: Option<LockId>,
    /// How far the keys moved the selection since the scene was composed.
    pub steps: isize,
    pub marked: BTreeSet<LockId>,
    /// Mark all listed locks when the scene is next composed.
    pub marks_all: bool,
    pub order: Order,
    pub filter: Option<Filter>,
    /// The text of the filter in force, as it was typed.
    pub filter_text: String,
}

/// How things are shown, on every screen.
#[derive(Debug)]
pub struct Display {
    pub paused: bool,
    pub reveal: bool,
    pub private: bool,
    pub mouse: bool,
    /// The terminal's size, in columns and rows.
    pub size: (u16, u16),
}

pub struct App {
    pub title: Title,
    pub keys: Keys,
    pub theme: Theme,
    pub page: Page,
    pub list: List,
    pub display: Display,
    pub overlay: Overlay,
    pub writing: Writing,
    pub lab: Workbench,
    pub feed: Feed,
    pub consent: Consent,
    pub notice: Option<Notice>,
    /// When a key was last pressed: rows do not move for a moment after it.
    pub touched: Time,
    pub scene: Scene,
}

const NOTICE: Duration = Duration::from_secs(4);

impl App {
    pub fn new(title: Title, keys: Keys, theme: Theme) -> App {
        let order = Order { column: Column::State, reversed: false };
        App {
            title,
            keys,
            theme,
            page: Page { screen: Screen::Locks, opened: None, closer: Closer::default(), scroll: 0 },
            list: List {
                selected: None,
                steps: 0,
                marked: BTreeSet::new(),
                marks_all: false,
                order,
                filter: None,
                filter_text: String::new(),
            },
            display: Display { paused: false, reveal: false, private: false, mouse: false, size: (80, 24) },
            overlay: Overlay::None,
            writing: Writing::default(),
            lab: Workbench::default(),
            feed: Feed::default(),
            consent: Consent::None,
            notice: None,
            touched: Time(0),
            scene: Scene::default(),
        }
    }

    /// Takes in what happened.
    pub fn update(&mut self, event: Event, now: Time) -> Vec<Effect> {
        let mut effects = self.take(event, now);
        effects.extend(self.look_closer(now));
        effects.extend(self.dismiss_contenders());
        effects
    }

    fn take(&mut self, event: Event, now: Time) -> Vec<Effect> {
        if self.notice.as_ref().is_some_and(|notice| notice.until <= now) {
            self.notice = None;
        }
        self.keep_writing(matches!(event, Event::Key(_)), now);
        match event {
            Event::Resize(width, height) => self.display.size = (width, height),
            Event::Changes(changes, left_out) => {
                let effects = self.check_tests(&changes);
                if let Overlay::Dialog(dialog) = &mut self.overlay {
                    dialog.watch(&changes);
                }
                self.take_changes(changes, left_out);
                return effects;
            }
            Event::Inspected(id, found) => {
                let effects = self.take_closer_look(&id, &found, now);
                self.page.closer.take(&id, found, self.display.paused);
                return effects;
            }
            Event::Seen(wish, locks) => return self.take_seen(wish, locks, now),
            Event::Recalled(kept) => return self.take_recalled(kept, now),
            Event::Retraced(kept, since) => self.take_retraced(kept, since, now),
            Event::Foreseen(plans) => self.take_foreseen(&plans),
            Event::Performed(plan, performed) => self.take_performed(&plan, &performed, now),
            Event::AllPerformed => self.all_performed(),
            Event::Lab(reports) => self.take_reports(reports, now),
            Event::Key(key) => {
                self.touched = now;
                return self.take_key(key, now);
            }
            Event::Paste(text) => self.paste(&text),
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

    fn filter_by(&mut self, text: &str, filter: Filter) {
        self.list.filter_text = text.trim().to_string();
        self.list.filter = Some(filter).filter(|filter| !filter.is_empty());
        self.page.scroll = 0;
        self.scene.outdated = true;
    }

    fn say(&mut self, text: String, now: Time) {
        self.notice = Some(Notice { text, until: now + NOTICE });
    }
}

#[cfg(test)]
mod tests;
