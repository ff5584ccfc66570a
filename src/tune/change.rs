//! One change of a rule to try, such as `above=5`, as `--set` gives it.

use crate::alerts::{Compare, Condition, Rule};
use crate::base::nearest;
use crate::base::time::duration;

const KEYS: [&str; 4] = ["above", "below", "for", "recover"];

/// What is changed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    Above(f64),
    Below(f64),
    /// In milliseconds.
    For(i64),
    /// `None`: no level of its own.
    Recover(Option<f64>),
}

impl Change {
    /// Reads `key=value`. The sentence says what is wrong.
    pub fn parse(text: &str) -> Result<Change, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("{text:?} is not written key=value, such as above=5"));
        };
        let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']));
        let number = || {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| format!("{key} is a number, such as {key}=5, not {value:?}"))
        };
        match key {
            "above" => Ok(Change::Above(number()?)),
            "below" => Ok(Change::Below(number()?)),
            "recover" if value == "none" => Ok(Change::Recover(None)),
            "recover" => Ok(Change::Recover(Some(number()?))),
            "for" => {
                let wait = duration(value).map_err(|why| format!("for={value}: {why}"))?;
                i64::try_from(wait.as_millis()).map(Change::For).map_err(|_| "that 'for' is too long".to_string())
            }
            _ => Err(format!("{key:?} can't be set, only above, below, for and recover{}", nearest::hint(key, KEYS))),
        }
    }

    /// The condition with that change.
    pub fn apply(self, mut condition: Condition) -> Result<Condition, String> {
        let wrong = |has: &str, not: &str| Err(format!("the rule has '{has}' and not '{not}'; set {has}=NUMBER"));
        match (self, condition.compare) {
            (Change::Above(_), Compare::Below(_)) => return wrong("below", "above"),
            (Change::Below(_), Compare::Above(_)) => return wrong("above", "below"),
            (Change::Above(level) | Change::Below(level), compare) => condition.compare = compare.with(level),
            (Change::For(millis), _) => condition.hold_for = millis,
            (Change::Recover(level), _) => condition.recover = level,
        }
        Ok(condition)
    }

    /// The condition with all of these.
    pub fn all(changes: &[Change], rule: &Rule) -> Result<Condition, String> {
        Change::all_of(changes, Condition::from(rule))
    }

    /// The same of a condition that is no rule's of ours.
    pub fn all_of(changes: &[Change], condition: Condition) -> Result<Condition, String> {
        let changed = changes.iter().try_fold(condition, |so_far, change| change.apply(so_far))?;
        match changed.wrong_recovery() {
            Some(why) => Err(why),
            None => Ok(changed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::Rules;

    #[test]
    fn changes_are_read_and_nonsense_is_told() {
        assert_eq!(Change::parse("above=5"), Ok(Change::Above(5.0)));
        assert_eq!(Change::parse(" for = '90s' "), Ok(Change::For(90_000)));
        assert_eq!(Change::parse("recover=none"), Ok(Change::Recover(None)));
        for (text, told) in [
            ("5", "key=value"),
            ("above=five", "a number"),
            ("above=inf", "a number"),
            ("for=soon", "500ms, 30s"),
            ("abov=5", "did you mean \"above\"?"),
            ("severity=page", "can't be set"),
        ] {
            let why = Change::parse(text).unwrap_err();
            assert!(why.contains(told), "{text}: {why}");
        }
    }

    #[test]
    fn a_change_must_fit_the_rule() {
        let rules = Rules::default_rules();
        let rule = rules.named("LockManyWaiters").unwrap();
        let all = |changes: &[Change]| Change::all(changes, rule);
        assert_eq!(all(&[Change::Above(7.0)]).unwrap().compare, Compare::Above(7.0));
        assert!(all(&[Change::Below(7.0)]).unwrap_err().contains("set above=NUMBER"));
        assert!(all(&[Change::Recover(Some(9.0))]).unwrap_err().contains("lower than above = 4"));
        assert!(all(&[Change::Recover(Some(9.0)), Change::Above(10.0)]).is_ok(), "together they make sense");
    }
}
