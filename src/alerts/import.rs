//! Rules of Prometheus read as ours: what our export wrote, and simple rules of others on the same metrics. Pure.
//!
//! A rule is taken only if it is exactly the same: what was understood is written as PromQL again and compared token by
//! token. Everything else is named with the reason.

mod figure;
mod foreign;

use crate::alerts::promql::{self, Exported};
use crate::alerts::{NoData, Rule, Rules, write};
use crate::base::yaml;
use foreign::{Foreign, groups};

/// What became of a file.
#[derive(Debug, Default)]
pub struct Imported {
    pub rules: Vec<Rule>,
    /// Rules that were left out: their line, their name, and why.
    pub refused: Vec<(usize, String, String)>,
    /// What differs in a rule that was taken.
    pub remarks: Vec<(usize, String, String)>,
}

impl Imported {
    /// The rules as a file of rules.
    pub fn toml(&self) -> String {
        let rules: Vec<String> = self.rules.iter().map(write::toml).collect();
        format!("default_rules = false\n\n{}", rules.join("\n"))
    }
}

/// Reads a file of rules of Prometheus. A file that is not one is an error; a rule that can't be taken is not.
pub fn import(text: &str) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let mut left = Vec::new();
    let document = yaml::parse(text)?;
    for (foreign, refused) in groups(&document)? {
        if let Some(why) = refused {
            imported.refused.push((foreign.line, foreign.name, why));
            continue;
        }
        match taken(&foreign) {
            Ok(rule) if imported.rules.iter().any(|other| other.name == rule.name) => {
                imported.refused.push((foreign.line, foreign.name, "there is another rule of that name".into()));
            }
            Ok(rule) => {
                imported.remarks.extend(foreign.remarks().map(|why| (foreign.line, foreign.name.clone(), why)));
                imported.rules.push(rule);
            }
            Err(why) => left.push((foreign, why)),
        }
    }
    for (foreign, why) in left {
        if !is_companion(&mut imported.rules, &foreign) {
            imported.refused.push((foreign.line, foreign.name, why));
        }
    }
    imported.refused.sort();
    Ok(imported)
}

/// The rule of ours that means the same.
fn taken(foreign: &Foreign) -> Result<Rule, String> {
    let drafts = figure::drafts(foreign)?;
    let mut why = None;
    for draft in drafts {
        // Read like any file, so that what a rule may not be is refused here as well.
        let text = format!("default_rules = false\n{}", write::toml(&draft));
        let rule = match Rules::parse(&text) {
            Ok(rules) => rules.into_iter().next().ok_or("it is switched off")?,
            Err(fault) => {
                why.get_or_insert(without_line(&fault.to_string()));
                continue;
            }
        };
        let same = promql::promql(&rule).first().is_some_and(|told| figure::is_same(&told.expr, &foreign.expr));
        if same {
            return Ok(rule);
        }
    }
    // Where something is computed, the mistake is not in the rule but in our guess.
    Err(why.filter(|_| figure::is_bare(&foreign.expr)).unwrap_or_else(|| figure::why_not(&foreign.expr)))
}

fn without_line(told: &str) -> String {
    match told.split_once(": ") {
        Some((place, why)) if place.starts_with("line ") => why.to_string(),
        _ => told.to_string(),
    }
}

/// Whether it is the rule that fires where another one has no data; that one then says so.
fn is_companion(rules: &mut [Rule], foreign: &Foreign) -> bool {
    let Some(of) = foreign.name.strip_suffix("NoData") else { return false };
    let Some(rule) = rules.iter_mut().find(|rule| rule.name == of && rule.no_data == NoData::Ok) else { return false };
    let alerting = Rule { no_data: NoData::Alert, ..rule.clone() };
    let same = |told: &Exported| foreign.is(told) && figure::is_same(&told.expr, &foreign.expr);
    let fits = promql::promql(&alerting).get(1).is_some_and(same);
    if fits {
        *rule = alerting;
    }
    fits
}

#[cfg(test)]
mod tests;
