//! Writes another threshold into the text of a file of rules, or of the config. Everything else stays as it is: comments,
//! order, spaces. Pure: nobody reads or writes a file here.

use std::time::Duration;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value, value};

use crate::alerts::rules::RULES;
use crate::alerts::{Compare, Condition, Rules, written};
use crate::base::time;

/// The text in which the rule of that name has another condition. A default rule that the file does not name is added with
/// what changes of it.
pub fn edited(text: &str, name: &str, from: &Condition, to: &Condition) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|why| format!("it is not valid TOML: {why}"))?;
    let rules = document.entry(RULES).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let Some(rules) = rules.as_array_of_tables_mut() else {
        return Err("its rules are not written as [[rules]]; change the number there by hand".into());
    };
    let is_it = |table: &Table| table.get("name").and_then(Item::as_str) == Some(name);
    let known = rules.iter().position(is_it);
    if let Some(changed) = changed(known.and_then(|at| rules.get(at)), name, from)? {
        return Err(format!("the rule was changed meanwhile: {changed}; read the rules again, then tune it"));
    }
    let mut added = Table::new();
    added.insert("name", value(name));
    let table = match known {
        Some(at) => rules.get_mut(at).ok_or("the rule is gone")?,
        None => &mut added,
    };
    let level = to.compare.threshold();
    if level != from.compare.threshold() {
        let key = if matches!(to.compare, Compare::Above(_)) { "above" } else { "below" };
        put(table, key, number(level));
    }
    if to.hold_for != from.hold_for {
        put(table, "for", written(Duration::from_millis(to.hold_for.max(0) as u64)).into());
    }
    match (from.recover, to.recover) {
        (before, after) if before == after => {}
        (_, Some(level)) => put(table, "recover", number(level)),
        (_, None) if table.remove("recover").is_some() => {}
        (_, None) => return Err("its recovery level is that of the default rule, which can't be left out here".into()),
    }
    if known.is_none() {
        rules.push(added);
    }
    Ok(document.to_string())
}

/// What the file says of the rule by now, and is not as it was tuned.
fn changed(table: Option<&Table>, name: &str, from: &Condition) -> Result<Option<String>, String> {
    let default = Rules::default_rules().named(name).map(Condition::from);
    let key = |key: &str| table.and_then(|table| table.get(key)).and_then(Item::as_value);
    let level =
        |name: &str| key(name).and_then(|value| value.as_float().or(value.as_integer().map(|whole| whole as f64)));
    let compare = match (level("above"), level("below"), default) {
        (Some(level), _, _) => Compare::Above(level),
        (None, Some(level), _) => Compare::Below(level),
        (None, None, Some(default)) => default.compare,
        (None, None, None) => return Err("it has no rule of that name any more, and no default rule has it".into()),
    };
    let wait = key("for").and_then(Value::as_str).and_then(|wait| time::duration(wait).ok());
    let wait = wait.map(|wait| wait.as_millis() as i64).or(default.map(|default| default.hold_for)).unwrap_or(0);
    let recover = level("recover").or(default.and_then(|default| default.recover));
    let side = |compare: Compare| if matches!(compare, Compare::Above(_)) { "above" } else { "below" };
    let shown = |compare: Compare| format!("{} = {}", side(compare), compare.threshold());
    let millis = |millis: i64| written(Duration::from_millis(millis.max(0) as u64));
    let level = |level: Option<f64>| level.map_or("none".to_string(), |level| level.to_string());
    Ok(match () {
        _ if compare != from.compare => Some(format!("{} there now, not {}", shown(compare), shown(from.compare))),
        _ if wait != from.hold_for => Some(format!("for is {} there now, not {}", millis(wait), millis(from.hold_for))),
        _ if recover != from.recover => {
            Some(format!("recover is {} there now, not {}", level(recover), level(from.recover)))
        }
        _ => None,
    })
}

/// Whole numbers are written without a point.
fn number(level: f64) -> Value {
    if level.fract() == 0.0 && level.abs() < 1e15 { (level as i64).into() } else { level.into() }
}

/// Sets a value; what stands around the old one, a comment for example, stays.
fn put(table: &mut Table, key: &str, mut new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => {
            table.insert(key, Item::Value(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::DEFAULT_RULES;

    const FILE: &str = "# Ours.\n\n[[rules]]\nname = \"A\"   # the first\nmetric = \"lockscope_waiters_max\"\n\
        above =  4 # a guess\nfor = '2m'\nrecover = 2\n\n# Off for now.\n[[rules]]\nname = \"LockOrphan\"\noff = true\n";

    fn condition(level: f64, hold_for: i64, recover: Option<f64>) -> Condition {
        Condition { compare: Compare::Above(level), recover, hold_for, keep_firing_for: 0 }
    }

    #[test]
    fn only_the_numbers_change_and_comments_stay() {
        let from = condition(4.0, 120_000, Some(2.0));
        let text = edited(FILE, "A", &from, &condition(7.5, 90_000, Some(2.0))).unwrap();
        assert_eq!(text, FILE.replace("4 # a guess", "7.5 # a guess").replace("'2m'", "\"90s\""));
        let text = edited(FILE, "A", &from, &condition(4.0, 120_000, None)).unwrap();
        assert_eq!(text, FILE.replace("recover = 2\n", ""));
        assert_eq!(edited(FILE, "A", &from, &from).unwrap(), FILE);
    }

    #[test]
    fn a_default_rule_is_added_with_what_changes_and_the_file_says_the_same() {
        let from = condition(4.0, 120_000, None);
        let text = edited(FILE, "LockManyWaiters", &from, &condition(7.0, 120_000, None)).unwrap();
        assert!(text.starts_with(FILE), "{text}");
        assert!(text.ends_with("\n[[rules]]\nname = \"LockManyWaiters\"\nabove = 7\n"), "{text}");
        let rules = Rules::parse(&text).unwrap();
        assert_eq!(rules.named("LockManyWaiters").unwrap().compare, Compare::Above(7.0));
        let text = edited("", "LockManyWaiters", &from, &condition(7.0, 60_000, None)).unwrap();
        assert_eq!(text, "[[rules]]\nname = \"LockManyWaiters\"\nabove = 7\nfor = \"1m\"\n");
    }

    #[test]
    fn a_rule_that_another_changed_meanwhile_is_not_half_overwritten() {
        let tuned = condition(4.0, 120_000, Some(2.0));
        let to = condition(7.0, 120_000, Some(2.0));
        for (now, part) in [
            (FILE.replace("above =  4", "above = 9"), "above = 9 there now, not above = 4"),
            (FILE.replace("'2m'", "'5m'"), "for is 5m there now, not 2m"),
            (FILE.replace("recover = 2\n", ""), "recover is none there now, not 2"),
        ] {
            let why = edited(&now, "A", &tuned, &to).unwrap_err();
            assert!(why.contains(part) && why.contains("changed meanwhile"), "{why}");
        }
        let default = condition(4.0, 120_000, None);
        let now = "[[rules]]\nname = \"LockManyWaiters\"\nabove = 6\n";
        let why = edited(now, "LockManyWaiters", &default, &condition(4.0, 60_000, None)).unwrap_err();
        assert!(why.contains("above = 6 there now"), "{why}");
    }

    #[test]
    fn every_default_rule_can_be_written_back() {
        for rule in Rules::default_rules() {
            let from = Condition::from(&rule);
            let to = Condition { compare: from.compare.with(123.0), hold_for: 77_000, recover: None, ..from };
            let Ok(text) = edited(DEFAULT_RULES, &rule.name, &from, &to) else { continue };
            let rules = Rules::parse(&text).unwrap_or_else(|fault| panic!("{}: {fault}", rule.name));
            assert_eq!(Condition::from(rules.named(&rule.name).unwrap()), to, "{}", rule.name);
        }
    }

    #[test]
    fn what_can_not_be_edited_is_told() {
        let from = condition(4.0, 0, Some(2.0));
        assert!(edited("rules = [{ name = 'A' }]", "A", &from, &from).unwrap_err().contains("[[rules]]"));
        assert!(edited("a = ", "A", &from, &from).unwrap_err().contains("not valid TOML"));
        let default = edited("", "A", &from, &condition(4.0, 0, None)).unwrap_err();
        assert!(default.contains("default rule"), "{default}");
    }
}
