//! The console's state and what changes it: pure.
//!
//! [`App::update`] takes an [`Event`] and the time and returns what the loop must do ([`Effect`]); it never draws,
//! waits or speaks to Redis. [`scene`](crate::app::scene) composes what is visible from the table into a [`Scene`], and
//! the views draw only `&App`. Selection is a lock's identity, never a row number. `app/commands.rs` holds what each
//! command does.

mod alerting;
mod closer;
mod command_bar;
mod commands;
mod consent;
mod dialog;
mod feed;
mod filtering;
mod grouped;
mod incident;
mod input;
mod lab;
mod past;
mod privacy;
pub mod prompt;
mod recording;
mod retrace;
pub mod scene;
mod sort_by;
mod targets;
pub mod theme;
pub mod timeline;
mod tuner;
mod writing;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent, MouseEventKind};

use crate::actions::{Performed, Plan};
use crate::app::prompt::Prompt;
use crate::app::scene::Scene;
use crate::app::theme::Theme;
use crate::app::timeline::TimelinePage;
use crate::base::time::Time;
use crate::filter::Filter;
use crate::lab::{Order as LabOrder, Report, TestId};
use crate::lock::{Key, KeyspaceId};
use crate::metrics::Moment;
use crate::model::Column;
use crate::model::{LockView, Transition};
use crate::output::incident::Bundle;
use crate::settings::Offered;
use crate::settings::cli::Environment;
use crate::settings::keys::Keys;
use crate::sources::inspect::Inspection;

pub use crate::settings::keys::{Place, Screen};
pub use alerting::{AlertId, AlertRow, Alerting, Behind};
pub use closer::Closer;
pub use consent::Consent;
pub use dialog::{Dialog, Sight};
pub use feed::Feed;
pub use filtering::Filtering;
pub use grouped::Grouped;
pub use incident::{Form, Gathered};
pub use lab::{Row, Workbench};
pub use past::{DAY, Past};
pub use privacy::HIDDEN;
pub use recording::{Recorded, Recording};
pub use retrace::{Batch, Since};
pub use tuner::{Lever, Order as TuneOrder, Over, Proposal, Reply, RuleFile, Stage, Tuner};
pub use writing::{Asking, Ended, Wish, Writing};

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
    /// All that is known about this lock; `None`: nothing.
    Gathered(LockId, Option<Box<Gathered>>, Form),
    /// The locks requested by [`Effect::See`] that still exist.
    Seen(Wish, Vec<LockView>),
    /// What was freed last, if anything, or why it can't be put back.
    Recalled(Result<Batch, String>),
    /// What happened to each of these locks since it was freed.
    Retraced(Batch, Vec<Since>),
    /// The plans, each with whether it could be undone.
    Foreseen(Vec<Plan>),
    /// One plan ended: done, refused or unknown.
    Performed(Box<Plan>, Box<Performed>),
    AllPerformed,
    /// The result of an order of the tuner.
    Tuned(Box<Reply>),
    /// What was measured, about once a second.
    Moment(Box<Moment>),
    /// The state of all test locks.
    Lab(Vec<Report>),
    /// What the store has now.
    Past(Box<Past>),
    /// What became of recording.
    Recorded(Recorded),
    /// The other target is ready, or why it can't be opened.
    Opened(Result<(), String>),
    /// The page of an incident was written here, or why not.
    Bundled(Result<PathBuf, String>),
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
    /// Return all that is known about this lock, to be handed over.
    Gather(LockId, Form),
    /// Return these locks as they are now.
    See(Wish, Vec<LockId>),
    /// Return what was freed last.
    Recall,
    /// Return what happened to each of these locks since it was freed.
    Retrace(Batch),
    /// Ask whether these could be undone.
    Foresee(Vec<Plan>),
    /// Perform the plans one after the other, and record the reason.
    Perform(Vec<Plan>, Option<String>),
    /// Start no further plan.
    Stop,
    /// Carry out this order of the tuner.
    Tune(TuneOrder),
    /// Carry out this order on a test lock.
    Lab(TestId, LabOrder),
    /// Write the page of this lock's incident into this folder, or one of its own; whether with tokens and values.
    Bundle(Box<Bundle>, Key, Option<PathBuf>, bool),
    /// Record into this file; `None` ends it.
    Record(Option<PathBuf>),
    /// Open this target, beside this one.
    Go(String),
    /// Do not go there after all.
    Stay,
}

/// What lies over the screen and takes the keys.
#[derive(Debug)]
pub enum Overlay {
    None,
    Help {
        scroll: usize,
    },
    Filter(Box<Filtering>),
    Command(Prompt),
    /// Which test lock to take.
    Acquire(Prompt),
    /// The question before anything is written.
    Dialog(Box<Dialog>),
    /// Which column to sort by.
    Sort,
    /// What to group by.
    Group,
    /// The results of the writes.
    Results {
        scroll: usize,
    },
    /// What was copied to be handed over.
    Incident {
        text: String,
        scroll: usize,
    },
    /// Asks whether to quit while writes are running.
    Leave,
    /// This target is being opened.
    Going(String),
    /// What a write would be compared with is being read.
    Asking(Asking),
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
    /// The targets that one can go to.
    pub targets: Vec<Offered>,
    /// The options that lead a command to the same server, each after a space; without any secret.
    pub again: String,
}

/// What is on the screen, and how far it is scrolled.
#[derive(Debug)]
pub struct Page {
    pub screen: Screen,
    /// The lock that is opened, over any screen.
    pub opened: Option<LockId>,
    /// The derivation of its verdict is shown instead of what is known of it.
    pub why: bool,
    pub closer: Closer,
    /// How many lines the feed, the detail or the servers are scrolled.
    pub scroll: usize,
}

/// What the keys do to the list of locks: selected, marked, ordered, filtered.
#[derive(Debug)]
pub struct List {
    pub selected: Option<LockId>,
    /// What was selected when each of the two lists was left: the locks, and the wanted ones.
    left: [Option<LockId>; 2],
    /// What to select in the next order of the rows, if it is there.
    wanted: Option<LockId>,
    /// How far the keys moved the selection since the scene was composed.
    pub steps: isize,
    /// The first row of the next order is selected, whichever lock that is.
    to_top: bool,
    pub marked: BTreeSet<LockId>,
    /// Mark all listed locks when the scene is next composed.
    pub marks_all: bool,
    pub order: Order,
    pub filter: Option<Filter>,
    /// The text of the filter in force, as it was typed.
    pub filter_text: String,
    pub grouped: Grouped,
    /// The filters before it, the newest first.
    past: Vec<String>,
}

impl List {
    /// Another screen is shown. Each list has a selection of its own.
    fn change(&mut self, from: Screen, to: Screen) {
        let place = |screen| match screen {
            Screen::Locks => Some(0),
            Screen::Contention => Some(1),
            Screen::Events | Screen::Alerts | Screen::Servers | Screen::Lab => None,
        };
        if from == to {
            return;
        }
        if let Some(at) = place(from) {
            self.left[at] = self.selected.clone();
        }
        self.wanted = place(to).and_then(|at| self.left[at].clone());
    }
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
    /// The commands that were typed, the newest first.
    typed: Vec<String>,
    pub writing: Writing,
    pub lab: Workbench,
    pub feed: Feed,
    pub timeline: TimelinePage,
    pub alerting: Alerting,
    /// Over the Alerts screen, if it is open.
    pub tuner: Option<Tuner>,
    pub consent: Consent,
    pub recording: Recording,
    pub notice: Option<Notice>,
    /// When a key was last pressed: rows do not move for a moment after it.
    pub touched: Time,
    pub scene: Scene,
}

const NOTICE: Duration = Duration::from_secs(4);
/// Of several sentences.
const LONG_NOTICE: Duration = Duration::from_secs(10);

impl App {
    pub fn new(title: Title, keys: Keys, theme: Theme) -> App {
        let order = Order { column: Column::State, reversed: false };
        App {
            title,
            keys,
            theme,
            page: Page { screen: Screen::Locks, opened: None, why: false, closer: Closer::default(), scroll: 0 },
            list: List {
                selected: None,
                left: [None, None],
                wanted: None,
                steps: 0,
                to_top: false,
                marked: BTreeSet::new(),
                marks_all: false,
                order,
                filter: None,
                filter_text: String::new(),
                grouped: Grouped::default(),
                past: Vec::new(),
            },
            typed: Vec::new(),
            display: Display { paused: false, reveal: false, private: false, mouse: false, size: (80, 24) },
            overlay: Overlay::None,
            writing: Writing::default(),
            lab: Workbench::default(),
            feed: Feed::default(),
            timeline: TimelinePage::default(),
            alerting: Alerting::default(),
            tuner: None,
            consent: Consent::None,
            recording: Recording::Off,
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
        self.give_up_asking(now);
        self.feed.began.get_or_insert(now);
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
            Event::Gathered(id, found, form) => return self.take_gathered(&id, found, form, now),
            Event::Seen(wish, locks) => return self.take_seen(wish, locks, now),
            Event::Recalled(kept) => return self.take_recalled(kept, now),
            Event::Retraced(batch, since) => return self.take_retraced(batch, &since, now),
            Event::Foreseen(plans) => self.take_foreseen(&plans),
            Event::Performed(plan, performed) => self.take_performed(&plan, &performed, now),
            Event::AllPerformed => self.all_performed(),
            Event::Tuned(reply) => self.take_reply(*reply, now),
            Event::Moment(moment) => self.take_moment(&moment, now),
            Event::Opened(opened) => return self.take_opened(opened, now),
            Event::Bundled(written) => self.take_bundled(written, now),
            Event::Past(past) => self.take_past(*past),
            Event::Recorded(recorded) => self.take_recorded(recorded, now),
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

    fn say(&mut self, text: String, now: Time) {
        self.notice = Some(Notice { text, until: now + NOTICE });
    }

    /// Shows this for longer, since there is more to read.
    pub fn tell(&mut self, text: String, now: Time) {
        self.notice = Some(Notice { text, until: now + LONG_NOTICE });
    }
}

#[cfg(test)]
mod tests;
