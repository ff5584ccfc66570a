//! An alert's PromQL, split at its comparison: `lhs op number`, and the recovery form that our export writes.
//!
//! It does not parse PromQL, and need not: comparisons bind weaker than all arithmetic and stronger than `and`, `or` and
//! `unless`, so that one comparison outside of all brackets, with no such word outside of them, splits the whole. Everything
//! else is refused with the reason.

use std::time::Duration;

use super::tokens::{Placed, Token, tokens};
use crate::alerts::Compare;

/// `lhs > threshold`, with another level at which it ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Split {
    /// What is compared, as it was written.
    pub lhs: String,
    pub op: Op,
    pub threshold: f64,
    pub recovery: Option<Recovery>,
    pub stay: Option<Stay>,
}

/// The alert stays while its target is out of sight.
#[derive(Clone, PartialEq, Debug)]
pub struct Stay {
    pub alert: String,
    /// Only while its own target is; else any.
    pub of_target: bool,
    /// For less than this.
    pub longest: Duration,
}

/// The level at which a firing alert ends, and the alert that it asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovery {
    pub level: f64,
    pub alert: String,
    /// The labels by which a series finds its alert.
    pub labels: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Op {
    pub fn sign(self) -> &'static str {
        match self {
            Op::Above => ">",
            Op::AtLeast => ">=",
            Op::Below => "<",
            Op::AtMost => "<=",
        }
    }

    /// The comparison with that level. Between a number and the next one there is no other, so that `>=` is `>` of the one
    /// before.
    pub fn compare(self, level: f64) -> Compare {
        match self {
            Op::Above => Compare::Above(level),
            Op::AtLeast => Compare::Above(level.next_down()),
            Op::Below => Compare::Below(level),
            Op::AtMost => Compare::Below(level.next_up()),
        }
    }

    fn of(sign: &str) -> Option<Op> {
        [Op::Above, Op::AtLeast, Op::Below, Op::AtMost].into_iter().find(|op| op.sign() == sign)
    }

    /// The same with its sides exchanged.
    fn flipped(self) -> Op {
        match self {
            Op::Above => Op::Below,
            Op::AtLeast => Op::AtMost,
            Op::Below => Op::Above,
            Op::AtMost => Op::AtLeast,
        }
    }
}

/// Splits the expression; `Err` says why it can't be.
pub fn split(text: &str) -> Result<Split, String> {
    let all = tokens(text)?;
    if !is_balanced(&all) {
        return Err("its brackets do not match".into());
    }
    let part = stripped(&all);
    let ors = outside(part, |token| token.is_word("or"));
    let stay = ors.last().and_then(|last| staying(&part[*last + 1..]));
    let (part, ors) = match (&stay, ors.as_slice()) {
        (Some(_), [before @ .., last]) => (&part[..*last], before),
        (_, all) => (part, all),
    };
    let split = match ors {
        [] => compared(text, stripped(part)),
        [one] => recovering(text, &part[..*one], &part[*one + 1..]),
        _ => Err("'or' joins several conditions; write a rule for each".into()),
    };
    split.map(|split| Split { stay, ..split })
}

/// What our export writes of an alert that stays while its target is out of sight.
fn staying(part: &[Placed]) -> Option<Stay> {
    let part = stripped(part);
    let alert = part.iter().find_map(|placed| match &placed.token {
        Token::Text(alert) => Some(alert.clone()),
        _ => None,
    })?;
    let longest = part.iter().find_map(|placed| match placed.token {
        Token::Duration(millis) => Some(Duration::from_millis(millis)),
        _ => None,
    })?;
    let bare = |part: &[Placed]| part.iter().map(|placed| placed.token.clone()).collect::<Vec<_>>();
    [true, false].into_iter().find_map(|of_target| {
        let stay = Stay { alert: alert.clone(), of_target, longest };
        let ours = tokens(&super::staying(&stay)).ok()?;
        (bare(&ours) == bare(part)).then_some(stay)
    })
}

/// Without brackets around the whole.
pub fn stripped(mut part: &[Placed]) -> &[Placed] {
    while let [first, inner @ .., last] = part {
        let (open, close) = (first.token.is("("), last.token.is(")"));
        if !open || !close || !is_balanced(inner) {
            break;
        }
        part = inner;
    }
    part
}

/// Whether every bracket has its partner in here.
fn is_balanced(part: &[Placed]) -> bool {
    let mut open = Vec::new();
    for placed in part {
        let Token::Sign(sign) = placed.token else { continue };
        match sign {
            "(" | "[" | "{" => open.push(sign),
            ")" | "]" | "}" => {
                let partner = match sign {
                    ")" => "(",
                    "]" => "[",
                    _ => "{",
                };
                if open.pop() != Some(partner) {
                    return false;
                }
            }
            _ => {}
        }
    }
    open.is_empty()
}

/// The indices of such tokens outside of all brackets.
fn outside(part: &[Placed], wanted: impl Fn(&Token) -> bool) -> Vec<usize> {
    let mut depth = 0_i32;
    let mut found = Vec::new();
    for (index, placed) in part.iter().enumerate() {
        let token = &placed.token;
        if ["(", "[", "{"].iter().any(|sign| token.is(sign)) {
            depth += 1;
        } else if [")", "]", "}"].iter().any(|sign| token.is(sign)) {
            depth -= 1;
        } else if depth == 0 && wanted(token) {
            found.push(index);
        }
    }
    found
}

fn compared(text: &str, part: &[Placed]) -> Result<Split, String> {
    for word in ["and", "or", "unless"] {
        if !outside(part, |token| token.is_word(word)).is_empty() {
            return Err(format!("{word:?} joins two conditions, and no single number decides"));
        }
    }
    let signs = [">", ">=", "<", "<=", "==", "!="];
    let found = outside(part, |token| signs.iter().any(|sign| token.is(sign)));
    let [at] = found.as_slice() else {
        return Err(match found.is_empty() {
            true => "it compares nothing with a number".into(),
            false => "it compares several times, and no single number decides".into(),
        });
    };
    let Token::Sign(sign) = part[*at].token else { return Err("it compares nothing with a number".into()) };
    let Some(op) = Op::of(sign) else { return Err(format!("'{sign}' has no level that could be moved")) };
    let (left, right) = (&part[..*at], &part[*at + 1..]);
    if right.first().is_some_and(|first| first.token.is_word("bool")) {
        return Err("'bool' gives a 0 or a 1 instead of nothing: it always has a result".into());
    }
    let whole = |part: &[Placed]| -> Result<String, String> {
        let [first, ..] = part else { return Err("one side of the comparison is empty".into()) };
        Ok(text[first.at.start..part[part.len() - 1].at.end].to_string())
    };
    match (number(left), number(right)) {
        (None, Some(threshold)) => Ok(Split { lhs: whole(left)?, op, threshold, recovery: None, stay: None }),
        (Some(threshold), None) => {
            Ok(Split { lhs: whole(right)?, op: op.flipped(), threshold, recovery: None, stay: None })
        }
        (Some(_), Some(_)) => Err("it compares two numbers".into()),
        (None, None) => Err("it compares two series, and no number decides".into()),
    }
}

/// One number, with or without a sign, or a product of some.
fn number(part: &[Placed]) -> Option<f64> {
    let part = stripped(part);
    let times = outside(part, |token| token.is("*"));
    if let Some(last) = times.last() {
        return Some(number(&part[..*last])? * number(&part[*last + 1..])?);
    }
    match part {
        [one] => match one.token {
            Token::Number(number) if number.is_finite() => Some(number),
            _ => None,
        },
        [sign, one] if sign.token.is("-") => number(std::slice::from_ref(one)).map(|number| -number),
        [sign, one] if sign.token.is("+") => number(std::slice::from_ref(one)),
        _ => None,
    }
}

/// `lhs > high or (lhs > low and on (labels) ALERTS{alertname="NAME", alertstate="firing"})`
fn recovering(text: &str, left: &[Placed], right: &[Placed]) -> Result<Split, String> {
    const OTHER: &str = "'or' joins two conditions, and no single number decides";
    let right = stripped(right);
    let [and] = outside(right, |token| token.is_word("and"))[..] else { return Err(OTHER.into()) };
    let (low, alerts) = (&right[..and], &right[and + 1..]);
    let (Ok(high), Ok(low), Some((alert, labels))) = (compared(text, left), compared(text, low), firing(alerts)) else {
        return Err(OTHER.into());
    };
    let bare = |lhs: &str| tokens(lhs).map(|all| all.into_iter().map(|placed| placed.token).collect::<Vec<_>>());
    if bare(&high.lhs)? != bare(&low.lhs)? || high.op != low.op {
        return Err(OTHER.into());
    }
    let recovery = Recovery { level: low.threshold, alert, labels };
    Ok(Split { recovery: Some(recovery), ..high })
}

/// The alert that `on (labels) ALERTS{alertname="NAME", alertstate="firing"}` asks for, and the labels.
fn firing(part: &[Placed]) -> Option<(String, Vec<String>)> {
    let mut rest = part.iter().map(|placed| &placed.token);
    let mut next = || rest.next();
    if !next()?.is_word("on") || !next()?.is("(") {
        return None;
    }
    let mut labels = Vec::new();
    loop {
        match next()? {
            Token::Word(label) => labels.push(label.clone()),
            token if token.is(",") => {}
            token if token.is(")") => break,
            _ => return None,
        }
    }
    let rest: Vec<&Token> = std::iter::from_fn(next).collect();
    let [series, open, name, is, Token::Text(alert), comma, state, is_too, Token::Text(firing), close] = rest[..]
    else {
        return None;
    };
    let fits = *series == Token::Word("ALERTS".into())
        && open.is("{")
        && name.is_word("alertname")
        && is.is("=")
        && comma.is(",")
        && state.is_word("alertstate")
        && is_too.is("=")
        && firing == "firing"
        && close.is("}");
    fits.then(|| (alert.clone(), labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comparison_with_a_number_is_split() {
        for (text, lhs, op, threshold) in [
            ("up < 1", "up", Op::Below, 1.0),
            ("(a / b) >= 1e-3", "(a / b)", Op::AtLeast, 1e-3),
            ("a / b * 100 > 5", "a / b * 100", Op::Above, 5.0),
            (
                "sum by (x) (rate(a{b=\"c > 1 and d\"}[5m] offset 1h)) <= -2",
                "sum by (x) (rate(a{b=\"c > 1 and d\"}[5m] offset 1h))",
                Op::AtMost,
                -2.0,
            ),
            ("((5 < m{a='}'})) # and more", "m{a='}'}", Op::Above, 5.0),
            ("time() - x > 15 * 60", "time() - x", Op::Above, 900.0),
            ("max_over_time((a > bool 0)[5m:1m]) > 0", "max_over_time((a > bool 0)[5m:1m])", Op::Above, 0.0),
            ("(a and b) > 3", "(a and b)", Op::Above, 3.0),
            ("job:x:rate5m > (0x10)", "job:x:rate5m", Op::Above, 16.0),
        ] {
            let expected = Split { lhs: lhs.into(), op, threshold, recovery: None, stay: None };
            assert_eq!(split(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_recovery_form_of_our_export_is_recognised() {
        let split =
            split("m > 10 or ( m>5 and on (target, pattern) ALERTS{alertname=\"N\", alertstate=\"firing\"})").unwrap();
        assert_eq!((split.lhs.as_str(), split.op, split.threshold), ("m", Op::Above, 10.0));
        let labels = vec!["target".to_string(), "pattern".to_string()];
        assert_eq!(split.recovery, Some(Recovery { level: 5.0, alert: "N".into(), labels }));
    }

    #[test]
    fn an_alert_that_stays_without_sight_is_recognised_with_and_without_recovery() {
        let stay = |of_target| Stay { alert: "N".into(), of_target, longest: Duration::from_secs(3_600) };
        let stays = |of_target| super::super::staying(&stay(of_target));
        let recovers = "m > 10 or (m > 5 and on (target) ALERTS{alertname=\"N\", alertstate=\"firing\"})";
        for (text, of_target, recovery) in [
            (format!("m > 10 or ({})", stays(true)), true, None),
            (format!("(m) > 10 or {}", stays(false)), false, None),
            (format!("{recovers} or ({})", stays(true)), true, Some(5.0)),
        ] {
            let split = split(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((split.threshold, split.recovery.map(|recovery| recovery.level)), (10.0, recovery), "{text}");
            assert_eq!(split.stay, Some(stay(of_target)), "{text}");
        }
        let other = stays(true).replace("max without", "min without");
        assert!(split(&format!("m > 10 or ({other})")).is_err());
    }

    #[test]
    fn what_can_not_be_split_is_refused_with_the_reason() {
        for (text, part) in [
            ("up", "nothing with a number"),
            ("absent(up)", "nothing with a number"),
            ("a > 1 and b > 2", "\"and\" joins"),
            ("a > 1 unless b", "\"unless\" joins"),
            ("a > 1 or b > 2", "'or' joins"),
            ("a > 1 or (b > 0 and on () ALERTS{alertname=\"N\", alertstate=\"firing\"})", "'or' joins"),
            ("a > 1 or b or c", "several conditions"),
            ("a > b", "two series"),
            ("a > on (x) b", "two series"),
            ("1 > 2", "two numbers"),
            ("a > bool 1", "'bool'"),
            ("a == 0", "'=='"),
            ("a != 0", "'!='"),
            ("a > 1 < 5", "several times"),
            ("a > NaN", "two series"),
            ("a > (1", "brackets"),
            ("a > 1)", "brackets"),
            ("a > \"x", "never closed"),
            ("a > 1 ~ 2", "not understood"),
            ("> 1", "empty"),
            ("", "nothing with a number"),
        ] {
            let why = split(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn at_least_a_number_is_more_than_the_one_before() {
        let compare = Op::AtLeast.compare(5.0);
        assert!(compare.holds(5.0) && !compare.holds(5.0_f64.next_down()));
        assert!(Op::AtMost.compare(0.0).holds(0.0) && !Op::AtMost.compare(0.0).holds(0.0_f64.next_up()));
    }
}
