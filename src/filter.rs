//! The filter language, one for the console, the command line and the alert rules.
//!
//! Bare words match the key; `state:no-ttl`, `lib:redisson`, `holder:10.0.3.7`, `mode:read`, `kind:marker`, `node:`,
//! `key:`, `finding:starving`; `ttl<5s`, `ttl:none`, `held>1m`, `lease`, `renewals`, `missed`, `fail` and `wait` with
//! `<`, `<=`, `>`, `>=`, `=`, `!=`; joined by `and` (or nothing), `or`, `not` and parentheses. A `*` matches anything,
//! and a word with one must match as a whole; text in quotes is literal, and a quote inside it is doubled. Any
//! comparison with an unknown value is false.

mod complete;
mod eval;
mod field;
mod lex;
mod matchers;
mod parse;
mod print;
mod selector;
mod subject;
#[cfg(test)]
mod tests;

use std::str::FromStr;

pub use complete::{Completion, complete};
use field::{Measure, Topic, Vocabulary};
pub use selector::Selector;
pub use subject::Subject;

use crate::base::fault::Fault;
use crate::model::State;

/// A parsed filter.
#[derive(Clone, PartialEq, Debug)]
pub struct Filter(Expr);

/// Prints as a text that parses to the same expression.
#[derive(Clone, PartialEq, Debug)]
enum Expr {
    /// All of them must match; an empty list matches everything.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// The lock never expires.
    TtlNone,
    Matches(Topic, Pattern),
    Compare(Measure, Op, Threshold),
}

/// A text to look for.
#[derive(Clone, PartialEq, Debug)]
struct Pattern {
    /// Lower case.
    text: String,
    /// A `*` in it matches anything, and it must match as a whole.
    glob: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Threshold {
    Millis(u64),
    Number(f64),
}

impl Filter {
    /// Whether the lock matches.
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        self.0.holds(subject)
    }

    /// Whether it names this state, if only to leave it out.
    pub fn names_state(&self, state: State) -> bool {
        self.0.has(&|expr: &Expr| expr.names_state(state))
    }

    /// Whether testing one lock takes long: its holders are decoded, or its findings made.
    pub fn is_costly(&self) -> bool {
        self.0.has(&Expr::is_costly)
    }

    /// Whether it asks for ages or renewals, which one look at a lock does not show.
    pub fn needs_watching(&self) -> bool {
        self.0.has(&Expr::needs_watching)
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.0 == Expr::And(Vec::new())
    }
}

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Filter, BadFilter> {
        parse::parse(text, Vocabulary::Locks).map(Filter).map_err(|wrong| wrong.within(text))
    }
}

/// The place of an error in a filter, and what was expected there.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("the filter is wrong at column {column}: {why}")]
pub struct BadFilter {
    /// In characters, from 1.
    pub column: usize,
    pub why: String,
    text: String,
}

impl BadFilter {
    /// Two lines: the filter, and a caret under the place.
    pub fn caret(&self) -> String {
        use unicode_width::UnicodeWidthStr;
        let shown = crate::base::text::harmless;
        let before: String = self.text.chars().take(self.column - 1).collect();
        format!("  {}\n  {}^", shown(&self.text), " ".repeat(shown(&before).width()))
    }
}

impl From<BadFilter> for Fault {
    fn from(bad: BadFilter) -> Fault {
        Fault::usage(bad.to_string()).with_detail(bad.caret())
    }
}

/// An error at this byte of the text.
struct Wrong {
    at: usize,
    why: String,
}

impl Wrong {
    fn new(at: usize, why: impl Into<String>) -> Wrong {
        Wrong { at, why: why.into() }
    }

    fn within(self, text: &str) -> BadFilter {
        BadFilter { column: text[..self.at].chars().count() + 1, why: self.why, text: text.to_string() }
    }
}
