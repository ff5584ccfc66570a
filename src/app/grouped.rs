//! The list as groups: by what, which group is selected, which one is open, and the way back.
//!
//! Groups are listed only on the screen of the locks. A group that is open is the list of its locks. `esc` goes back to
//! what was there before, with its filter and its selection.

use crossterm::event::{KeyCode, KeyEvent};

use super::{App, LockId, Overlay, Screen};
use crate::base::time::Time;
use crate::filter::Filter;
use crate::model::{GroupBy, GroupName};
use crate::settings::keys::Command;

/// At most this many steps back are kept.
const STEPS: usize = 20;

#[derive(Debug, Default)]
pub struct Grouped {
    /// Groups are listed, unless one is open.
    pub by: Option<GroupBy>,
    /// Only the locks of this group are listed.
    pub open: Option<GroupName>,
    pub selected: Option<GroupName>,
    /// The newest at the end.
    back: Vec<Step>,
}

/// What was on the screen before a group was opened.
#[derive(Debug)]
struct Step {
    screen: Screen,
    opened: Option<LockId>,
    by: Option<GroupBy>,
    open: Option<GroupName>,
    filter_text: String,
    filter: Option<Filter>,
    selected: Option<LockId>,
}

impl GroupBy {
    /// Its key in the choice.
    pub fn letter(self) -> char {
        match self {
            GroupBy::Pattern => 'p',
            // As in the choice of a column.
            GroupBy::Holder => 'o',
            GroupBy::Library => 'l',
            GroupBy::Node => 'n',
        }
    }
}

impl App {
    /// What the groups in the list are made by; `None`: it lists locks.
    pub fn groups_by(&self) -> Option<GroupBy> {
        self.list.grouped.by.filter(|_| self.page.screen == Screen::Locks && self.list.grouped.open.is_none())
    }

    /// The group whose locks are listed.
    pub fn open_group(&self) -> Option<&GroupName> {
        self.list.grouped.open.as_ref().filter(|_| self.page.screen == Screen::Locks)
    }

    /// The letter of a choice; the key that asked for it lists the locks again.
    pub(super) fn choose_group(&mut self, key: KeyEvent, now: Time) {
        self.overlay = Overlay::None;
        if self.keys.command(key, self.place()) == Some(Command::Group) {
            return self.group_by(None, now);
        }
        let KeyCode::Char(letter) = key.code else { return };
        match GroupBy::ALL.into_iter().find(|by| by.letter() == letter) {
            Some(by) => self.group_by(Some(by), now),
            None => self.say(format!("nothing has the letter {letter}; the list stays"), now),
        }
    }

    pub(super) fn group_by(&mut self, by: Option<GroupBy>, now: Time) {
        let grouped = &mut self.list.grouped;
        let text = match by {
            Some(by) => format!("grouped by {}", by.name()),
            None if grouped.by.is_none() && grouped.open.is_none() => "the locks are not grouped".into(),
            None => "not grouped".into(),
        };
        if grouped.by != by {
            self.scene.groups.all.clear();
        }
        (grouped.by, grouped.open) = (by, None);
        grouped.back.clear();
        self.regroup();
        self.say(text, now);
    }

    /// Lists the locks of the selected group.
    pub(super) fn enter_group(&mut self, now: Time) {
        match self.list.grouped.selected.clone() {
            Some(name) => self.go_to(Some(name), None),
            None => self.say("there is no group to open".into(), now),
        }
    }

    /// Lists everything that the holder of the selected or opened lock holds, whatever the filter.
    pub(super) fn show_others(&mut self, now: Time) {
        let Some(lock) = &self.scene.lock else { return self.say("there is no lock here".into(), now) };
        let Some(holder) = lock.holders.first() else {
            let why = format!("{} names no holder", lock.key);
            return self.say(why, now);
        };
        let (name, holders) = (GroupName::of_holder(holder), lock.holders.len());
        self.list.wanted = Some(LockId::of(lock));
        self.go_to(Some(name), Some((String::new(), None)));
        if holders > 1 {
            self.say(format!("these are the locks of the first of its {holders} holders"), now);
        }
    }

    /// Lists the locks of a group, or all, that another filter shows if one is given.
    pub(super) fn go_to(&mut self, open: Option<GroupName>, filter: Option<(String, Option<Filter>)>) {
        let list = &mut self.list;
        if self.page.screen == Screen::Locks && open.is_some() && list.grouped.open == open {
            self.page.opened = None;
            return;
        }
        let step = Step {
            screen: self.page.screen,
            opened: self.page.opened.take(),
            by: list.grouped.by,
            open: std::mem::replace(&mut list.grouped.open, open),
            filter_text: list.filter_text.clone(),
            filter: list.filter.clone(),
            selected: list.selected.clone(),
        };
        // Locks are listed, also where they are of no group.
        list.grouped.by = list.grouped.by.filter(|_| list.grouped.open.is_some());
        if list.grouped.back.len() == STEPS {
            list.grouped.back.remove(0);
        }
        list.grouped.back.push(step);
        if let Some((text, filter)) = filter {
            (list.filter_text, list.filter) = (text, filter);
        }
        let wanted = list.wanted.take();
        self.show(Screen::Locks);
        (self.list.wanted, self.scene.cursor) = (wanted, Some(0));
        self.regroup();
    }

    /// Goes back to what was there before. Returns whether there is anything to go back to.
    pub(super) fn leave_group(&mut self) -> bool {
        if self.page.screen != Screen::Locks || self.open_group().is_none() && self.list.grouped.back.is_empty() {
            return false;
        }
        match self.list.grouped.back.pop() {
            Some(step) => {
                self.show(step.screen);
                (self.list.grouped.by, self.list.grouped.open) = (step.by, step.open);
                (self.list.filter_text, self.list.filter) = (step.filter_text, step.filter);
                self.list.wanted = step.selected;
                self.page.opened = step.opened;
            }
            None => self.list.grouped.open = None,
        }
        self.regroup();
        true
    }

    /// Lists the locks again instead of groups. Returns whether there were groups.
    pub(super) fn ungroup(&mut self) -> bool {
        if self.groups_by().is_none() {
            return false;
        }
        self.list.grouped.by = None;
        self.regroup();
        true
    }

    fn regroup(&mut self) {
        (self.page.scroll, self.scene.refilter) = (0, true);
        self.scene.outdated |= self.display.paused;
    }
}

#[cfg(test)]
mod tests;
