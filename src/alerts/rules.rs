//! The rules that apply: the default ones, changed and added to by a file or by the config.
//!
//! A file's rules stand beside the default ones. A rule with the name of a default one only needs the keys that it changes,
//! and `off = true` switches it off; `default_rules = false` at the top leaves all default rules out.

use std::time::Duration;

use crate::alerts::Rule;
use crate::alerts::read::{self, Draft};
use crate::base::fault::Fault;
use crate::base::section::Section;

/// The default rules in TOML, with the reason of each number: what `rules template` prints.
pub const DEFAULT_RULES: &str = include_str!("default_rules.toml");

/// The key of the list of rules, in a file of rules and in the config.
pub const RULES: &str = "rules";
/// The key that leaves the default rules out.
pub const WITH_DEFAULTS: &str = "default_rules";

/// Rules with different names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads a file of rules. A fault begins with the line; the caller puts the file's name in front.
    pub fn parse(text: &str) -> Result<Rules, Fault> {
        Rules::read(&Section::parse(text, "", &[RULES, WITH_DEFAULTS])?)
    }

    /// The rules of a section that has the keys [`RULES`] and [`WITH_DEFAULTS`].
    pub fn read(section: &Section<'_>) -> Result<Rules, Fault> {
        let mut drafts = match section.flag_or(WITH_DEFAULTS, true)? {
            true => defaults(),
            false => Vec::new(),
        };
        let inherited = drafts.len();
        let mut own: Vec<String> = Vec::new();
        for section in section.tables_in_list(RULES, read::KEYS)? {
            let name = read::name(&section)?;
            if own.contains(&name) {
                return Err(section.wrong("name", &format!("there are two rules named {name:?}; rename one of them")));
            }
            let known = drafts[..inherited].iter().position(|draft| draft.name == name);
            own.push(name);
            let draft = Draft::read(&section, known.map(|at| &drafts[at]))?;
            match known {
                Some(at) => drafts[at] = draft,
                None => drafts.push(draft),
            }
        }
        let rules: Vec<Rule> = drafts.into_iter().filter(|draft| !draft.off).map(|draft| draft.rule).collect();
        for companion in rules.iter().filter_map(Rule::companion) {
            if rules.iter().any(|rule| rule.name == companion.name) {
                let name = companion.name;
                return Err(Fault::usage(format!(
                    "the rule {name:?} has the name of the alert that no_data = \"alert\" makes; rename it"
                )));
            }
        }
        Ok(Rules(rules))
    }

    /// The rules that apply where no others are given.
    pub fn default_rules() -> Rules {
        Rules(defaults().into_iter().map(|draft| draft.rule).collect())
    }

    /// Whether every window has at least two samples, if one is taken every `interval`.
    pub fn check_windows(&self, interval: Duration) -> Result<(), Fault> {
        let short = |rule: &&Rule| rule.window.is_some_and(|window| window < interval * 2);
        let Some(rule) = self.iter().find(short) else { return Ok(()) };
        Err(Fault::usage(format!(
            "the rule {:?} has a window of {}, which is less than two samples, one every {}; make it at least {}",
            rule.name,
            read::written(rule.window.unwrap_or_default()),
            read::written(interval),
            read::written(interval * 2)
        )))
    }

    /// The same rules without waiting: a condition that holds fires.
    pub fn at_once(mut self) -> Rules {
        self.0.iter_mut().for_each(|rule| rule.hold_for = Duration::ZERO);
        self
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The rule of that name.
    pub fn named(&self, name: &str) -> Option<&Rule> {
        self.iter().find(|rule| rule.name == name)
    }

    /// Whether a rule asks for this pattern of locks by its name: it gets series of its own before others do.
    pub fn name_pattern(&self, pattern: &str) -> bool {
        self.iter().any(|rule| rule.selector.names_pattern(pattern))
    }
}

#[cfg(test)]
impl From<Vec<Rule>> for Rules {
    fn from(rules: Vec<Rule>) -> Rules {
        Rules(rules)
    }
}

impl IntoIterator for Rules {
    type Item = Rule;
    type IntoIter = std::vec::IntoIter<Rule>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn defaults() -> Vec<Draft> {
    let read = || -> Result<Vec<Draft>, Fault> {
        let section = Section::parse(DEFAULT_RULES, "", &[RULES, WITH_DEFAULTS])?;
        section.tables_in_list(RULES, read::KEYS)?.iter().map(|section| Draft::read(section, None)).collect()
    };
    read().expect("the default rules are valid: a test reads them")
}

#[cfg(test)]
mod tests;
