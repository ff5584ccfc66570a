//! The question before anything is written: what will be done, and the word that confirms it.

use crossterm::event::{KeyCode, KeyEvent};

use crate::actions::{Action, Plan};
use crate::app::prompt::Prompt;
use crate::app::{Effect, LockId, Wish};
use crate::base::text;
use crate::lock::Key;
use crate::model::{Change, Transition};

/// So many lines are shown again when the text is read on.
const AGAIN: usize = 2;

/// One way to go on.
#[derive(Debug)]
pub struct Choice {
    pub label: String,
    pub plans: Vec<Plan>,
    /// Locks that it leaves out, and why.
    pub left_out: Vec<String>,
    /// Locks of it that the filter hides.
    pub hidden: Vec<Key>,
}

impl Choice {
    pub fn of(label: impl Into<String>, plan: Plan) -> Choice {
        Choice { label: label.into(), plans: vec![plan], left_out: Vec::new(), hidden: Vec::new() }
    }
}

#[derive(Debug)]
pub struct Dialog {
    /// What was asked for; `None`: to undo what was done last.
    wish: Option<Wish>,
    choices: Vec<Choice>,
    at: usize,
    /// Who waits for the lock, in a sentence.
    pub waiters: Option<String>,
    production: bool,
    pub prompt: Prompt,
    pub scroll: usize,
    /// So many of its lines were shown, from the first on.
    read: usize,
    /// What of it was drawn last, since its text is what it is.
    shown: Option<Sight>,
    /// Locks whose hold was seen to end while the question was open, though the server could not distinguish it from the next one.
    ended: Vec<Key>,
}

/// What of the question is in sight: its lines from `first` to before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    pub first: usize,
    pub end: usize,
    /// So many of its lines come before the commands: all that has to be read first.
    pub warnings: usize,
    pub width: u16,
}

/// What a key came to.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// Nothing yet.
    Open,
    Leave,
    /// The hold that was shown was seen to end: there is nothing left to confirm.
    Over(Key),
    Do {
        plans: Vec<Plan>,
        left_out: Vec<String>,
        reason: Option<String>,
    },
}

impl Dialog {
    /// There is one choice at least.
    pub fn new(wish: Option<Wish>, choices: Vec<Choice>, waiters: Option<String>, production: bool) -> Dialog {
        Dialog {
            wish,
            choices,
            at: 0,
            waiters,
            production,
            prompt: Prompt::new(""),
            scroll: 0,
            read: 0,
            shown: None,
            ended: Vec::new(),
        }
    }

    /// Asks for the same again, for the locks as they are then.
    pub fn again(&self) -> Effect {
        match self.wish {
            None => Effect::Recall,
            Some(wish) => Effect::See(wish, self.choice().plans.iter().map(LockId::of_plan).collect()),
        }
    }

    /// Whether it was asked to free locks; giving one a TTL may be the gentler choice.
    pub fn is_to_free(&self) -> bool {
        self.wish == Some(Wish::Free)
    }

    pub fn choice(&self) -> &Choice {
        &self.choices[self.at]
    }

    /// Notes which of its plans could be undone.
    pub fn foresee(&mut self, foreseen: &[Plan]) {
        for plan in self.choices.iter_mut().flat_map(|choice| &mut choice.plans) {
            let same = |one: &&Plan| (&one.key, one.space, &one.holders) == (&plan.key, plan.space, &plan.holders);
            if let Some(known) = foreseen.iter().filter(|one| one.action == plan.action).find(same) {
                plan.undo.clone_from(&known.undo);
            }
        }
        self.read_anew();
    }

    /// Takes in what was drawn. Lines count as read only where none was skipped.
    pub fn was_shown(&mut self, sight: Sight) {
        if self.shown.is_some_and(|before| before.width != sight.width) {
            // Its lines are broken elsewhere.
            self.read_anew();
        }
        self.scroll = self.scroll.min(sight.first);
        if sight.first <= self.read {
            self.read = self.read.max(sight.end);
        }
        self.shown = Some(sight);
    }

    /// Its text is another one.
    fn read_anew(&mut self) {
        (self.scroll, self.read, self.shown) = (0, 0, None);
    }

    /// Whether all warnings were shown.
    fn is_read(&self) -> bool {
        self.shown.is_some_and(|shown| self.read >= shown.warnings)
    }

    /// Shows what comes after the lines that were shown, and the last of those again, if there is room.
    fn read_on(&mut self) {
        let room = self.shown.map_or(0, |shown| shown.end - shown.first);
        self.scroll = self.read.saturating_sub(AGAIN.min(room.saturating_sub(1)));
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
    /// looks the same on the server: a thread of Redisson, a lock without TTL, an object of a library that takes its
    /// lock again with the random token that it was made with. If the holder changed, the script on the server refuses.
    pub fn watch(&mut self, changes: &[Transition]) {
        // An undo is about a hold that has ended already.
        let is_of_a_hold = |plan: &&Plan| !matches!(plan.action, Action::Undo(_));
        let plans = || self.choices.iter().flat_map(|choice| &choice.plans).filter(is_of_a_hold);
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
        self.prompt = Prompt::new("");
        self.read_anew();
    }

    /// Expects the word, then optionally the reason.
    fn enter(&mut self) -> Decision {
        let (word, typed) = (self.word(), self.prompt.text().trim().to_string());
        let rest = typed.strip_prefix(&word).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        let over = self.choice().plans.iter().find(|plan| self.ended.contains(&plan.key));
        if let (Some(_), Some(plan)) = (rest, over) {
            return Decision::Over(plan.key.clone());
        }
        match rest.map(|rest| rest.trim().to_string()) {
            Some(_) if !self.is_read() => {
                self.read_on();
                self.prompt
                    .refuse("There is more to read first: scroll down, then press enter again".into(), usize::MAX);
                Decision::Open
            }
            Some(reason) => {
                let Choice { plans, left_out, .. } = self.choice();
                let reason = (!reason.is_empty()).then_some(reason);
                Decision::Do { plans: plans.clone(), left_out: left_out.clone(), reason }
            }
            None => {
                self.prompt.refuse(format!("type {word} to {}, or press esc to cancel", self.choice().label), 1);
                Decision::Open
            }
        }
    }
}
