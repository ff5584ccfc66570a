//! The question before anything is written: what will be done, and the word that confirms it.

use crossterm::event::{KeyCode, KeyEvent};

use crate::actions::Plan;
use crate::app::prompt::Prompt;
use crate::base::text;
use crate::lock::Key;
use crate::model::{Change, Transition};

/// One way to go on.
#[derive(Debug)]
pub struct Choice {
    pub label: String,
    pub plans: Vec<Plan>,
    /// Locks that it leaves out, and why.
    pub left_out: Vec<String>,
}

impl Choice {
    pub fn of(label: impl Into<String>, plan: Plan) -> Choice {
        Choice { label: label.into(), plans: vec![plan], left_out: Vec::new() }
    }
}

#[derive(Debug)]
pub struct Dialog {
    choices: Vec<Choice>,
    at: usize,
    /// Who waits for the lock, in a sentence.
    pub waiters: Option<String>,
    production: bool,
    pub prompt: Prompt,
    pub scroll: usize,
    /// Locks whose hold was seen to end while the question stood, though the server could not tell it from the next one.
    ended: Vec<Key>,
}

/// What a key came to.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// Nothing yet.
    Open,
    Leave,
    Do {
        plans: Vec<Plan>,
        reason: Option<String>,
    },
}

impl Dialog {
    /// There is one choice at least.
    pub fn new(choices: Vec<Choice>, waiters: Option<String>, production: bool) -> Dialog {
        Dialog { choices, at: 0, waiters, production, prompt: Prompt::new(""), scroll: 0, ended: Vec::new() }
    }

    pub fn choice(&self) -> &Choice {
        &self.choices[self.at]
    }

    /// Notes which of its plans could be undone.
    pub fn foresee(&mut self, foreseen: &[Plan]) {
        for plan in self.choices.iter_mut().flat_map(|choice| &mut choice.plans) {
            let same = |one: &&Plan| (&one.key, one.space, &one.holders) == (&plan.key, plan.space, &plan.holders);
            if let Some(told) = foreseen.iter().filter(|one| one.action == plan.action).find(same) {
                plan.undo.clone_from(&told.undo);
            }
        }
    }

    /// The number of the current choice, and how many there are.
    pub fn place(&self) -> (usize, usize) {
        (self.at + 1, self.choices.len())
    }

    /// The word that must be typed: on production the lock's name, or the number of locks.
    pub fn word(&self) -> String {
        match (self.production, self.choice().plans.as_slice()) {
            (false, _) => "y".into(),
            (true, [one]) => text::visible(one.key.as_bytes()),
            (true, many) => many.len().to_string(),
        }
    }

    pub fn press(&mut self, key: KeyEvent) -> Decision {
        match key.code {
            KeyCode::Esc => return Decision::Leave,
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(self.choices.len() - 1),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::Enter => return self.enter(),
            _ => self.prompt.press(key),
        }
        Decision::Open
    }

    /// Notes holds that end while the question is open. The next hold is not the one that the operator saw, even if it
    /// looks the same on the server (the same thread of Redisson, a lock without TTL). If the holder changed, the
    /// script on the server refuses.
    pub fn watch(&mut self, changes: &[Transition]) {
        let plans = || self.choices.iter().flat_map(|choice| &choice.plans).filter(|plan| plan.is_repeatable());
        let ends = |change: &&Transition| {
            let again = change.change == Change::Taken && change.holder == change.previous;
            (again || matches!(change.change, Change::Ended(_)))
                && plans().any(|plan| {
                    let same = (plan.space, &plan.key) == (change.space, &change.key);
                    same && change.previous.as_ref().is_some_and(|holder| plan.holders.contains(holder))
                })
        };
        let ended: Vec<Key> = changes.iter().filter(ends).map(|change| change.key.clone()).collect();
        self.ended.extend(ended);
    }

    fn turn(&mut self, by: usize) {
        self.at = (self.at + by) % self.choices.len();
        (self.scroll, self.prompt) = (0, Prompt::new(""));
    }

    /// Expects the word, then optionally the reason.
    fn enter(&mut self) -> Decision {
        let (word, typed) = (self.word(), self.prompt.text().trim().to_string());
        let rest = typed.strip_prefix(&word).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        let over = self.choice().plans.iter().find(|plan| self.ended.contains(&plan.key));
        if let (Some(_), Some(plan)) = (rest, over) {
            self.prompt.refuse(format!("{} was freed since you were asked: esc, and look again", plan.key), 1);
            return Decision::Open;
        }
        match rest.map(|rest| rest.trim().to_string()) {
            Some(reason) => {
                let plans = self.choice().plans.clone();
                Decision::Do { plans, reason: (!reason.is_empty()).then_some(reason) }
            }
            None => {
                self.prompt.refuse(format!("type {word} to {}, or esc to leave it", self.choice().label), 1);
                Decision::Open
            }
        }
    }
}
