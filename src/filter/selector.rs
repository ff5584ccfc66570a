//! A filter over the series of metrics: which of them an alert rule looks at.
//!
//! The same language and the same parser as for locks, as far as series carry the fields; the rest is refused by name.
//! It has to mean the same in PromQL, so it is a list of conditions that must all hold, each about one label.

use super::field::{Field, Topic, Vocabulary};
use super::{Expr, Pattern};

/// Which series are meant. Without conditions: all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selector {
    text: String,
    conditions: Vec<Condition>,
}

/// The label has one of these values, or none of them.
#[derive(Clone, PartialEq, Debug)]
struct Condition {
    topic: Topic,
    negated: bool,
    any: Vec<Pattern>,
}

impl Selector {
    /// Parses it; what is wrong with it is a sentence.
    pub fn parse(text: &str) -> Result<Selector, String> {
        let expr = super::parse::parse(text, Vocabulary::Series).map_err(|wrong| wrong.within(text).to_string())?;
        let mut conditions = Vec::new();
        collect(&expr, false, &mut conditions)?;
        Ok(Selector { text: text.trim().to_string(), conditions })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The labels that it asks about.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.conditions.iter().map(|condition| condition.label())
    }

    /// Whether it asks for this pattern of locks, and not for all of them.
    pub fn names_pattern(&self, pattern: &str) -> bool {
        let of_patterns = |condition: &&Condition| condition.topic == Topic::Key && !condition.negated;
        self.conditions.iter().filter(of_patterns).any(|condition| condition.holds(pattern))
    }

    /// Whether a series with these labels is meant. One without the label has it empty, as in PromQL.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(label(condition.label()).unwrap_or_default()))
    }

    /// The label matchers of PromQL that mean the same: `state="split"`.
    pub fn promql(&self) -> Vec<String> {
        self.conditions.iter().map(Condition::promql).collect()
    }

    /// The labels that `absent()` of PromQL gives its result: those that can only have one value.
    pub fn certain(&self) -> Vec<(&'static str, &str)> {
        let alone = |label| self.labels().filter(|other| *other == label).count() == 1;
        let one = |condition: &'_ Condition| condition.equals().is_some() && alone(condition.label());
        let certain = self.conditions.iter().filter(|condition| one(condition));
        certain.filter_map(|condition| Some((condition.label(), condition.equals()?))).collect()
    }
}

impl Condition {
    fn label(&self) -> &'static str {
        match self.topic {
            Topic::Key => "pattern",
            topic => Field::Topic(topic).name(),
        }
    }

    /// Words of a closed set are matched as a whole, names in part.
    fn is_name(&self) -> bool {
        self.topic.words().is_none()
    }

    fn holds(&self, value: &str) -> bool {
        let one = |pattern: &Pattern| if self.is_name() { pattern.is_in(value) } else { pattern.is(value) };
        self.any.iter().any(one) != self.negated
    }

    /// The one value that the label must have.
    fn equals(&self) -> Option<&str> {
        match self.any.as_slice() {
            [one] if !self.negated && !self.is_name() && !one.glob => Some(&one.text),
            _ => None,
        }
    }

    fn promql(&self) -> String {
        let label = self.label();
        if let [one] = self.any.as_slice()
            && !self.is_name()
            && !one.glob
        {
            return format!("{label}{}{}", if self.negated { "!=" } else { "=" }, quoted(&one.text));
        }
        let any: Vec<String> = self.any.iter().map(|pattern| pattern.regex(self.is_name())).collect();
        let case = if self.is_name() { "(?i)" } else { "" };
        format!("{label}{}{}", if self.negated { "!~" } else { "=~" }, quoted(&format!("{case}{}", any.join("|"))))
    }
}

impl Pattern {
    /// The whole text as a regular expression of RE2.
    fn regex(&self, in_part: bool) -> String {
        match (self.glob, in_part) {
            (true, _) => self.text.split('*').map(literal).collect::<Vec<_>>().join(".*"),
            (false, true) => format!(".*{}.*", literal(&self.text)),
            (false, false) => literal(&self.text),
        }
    }
}

fn literal(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A text in quotes, as PromQL writes it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The conditions that the expression, or its opposite, stands for.
fn collect(expr: &Expr, negated: bool, found: &mut Vec<Condition>) -> Result<(), String> {
    match (expr, negated) {
        (Expr::And(parts), false) => parts.iter().try_for_each(|part| collect(part, false, found)),
        (Expr::Or(parts), true) => parts.iter().try_for_each(|part| collect(part, true, found)),
        (Expr::Not(inner), _) => collect(inner, !negated, found),
        (Expr::Or(parts), false) | (Expr::And(parts), true) => {
            found.push(either(parts, negated)?);
            Ok(())
        }
        (expr, negated) => {
            let (topic, pattern) = condition(expr)?;
            found.push(Condition { topic, negated, any: vec![pattern.clone()] });
            Ok(())
        }
    }
}

/// One condition out of several values of one field.
fn either(parts: &[Expr], negated: bool) -> Result<Condition, String> {
    const MIXED: &str = "a selector is a list of conditions that must all hold, and 'or' stands only between values \
                         of one field, as in (state:orphan or state:split); write a rule for each alternative";
    let mut any = Vec::new();
    let mut topics = Vec::new();
    for part in parts {
        if negated || matches!(part, Expr::And(_) | Expr::Or(_) | Expr::Not(_)) {
            return Err(MIXED.into());
        }
        let (topic, pattern) = condition(part)?;
        topics.push(topic);
        any.push(pattern.clone());
    }
    match topics.as_slice() {
        [topic, others @ ..] if others.iter().all(|other| other == topic) => {
            Ok(Condition { topic: *topic, negated: false, any })
        }
        _ => Err(MIXED.into()),
    }
}

fn condition(expr: &Expr) -> Result<(Topic, &Pattern), String> {
    let refused = |name: &str| {
        Err(format!(
            "series are counts by pattern and do not carry {name:?}; a selector can ask for pattern (or key), state, \
             finding, ending, node, target and source"
        ))
    };
    match expr {
        Expr::Matches(topic @ (Topic::Library | Topic::Holder | Topic::Mode | Topic::Kind), _) => {
            refused(Field::Topic(*topic).name())
        }
        Expr::Matches(topic, pattern) => Ok((*topic, pattern)),
        Expr::TtlNone => refused("ttl"),
        Expr::Compare(measure, ..) => refused(Field::Measure(*measure).name()),
        Expr::And(_) | Expr::Or(_) | Expr::Not(_) => refused("that"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(text: &str, labels: &[(&str, &str)]) -> bool {
        let selector = Selector::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        selector.matches(|name| labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value))
    }

    #[test]
    fn a_selector_asks_for_what_series_carry() {
        let labels = [("target", "orders"), ("pattern", "lock:Order:*"), ("state", "no-ttl")];
        for (text, expected) in [
            ("", true),
            ("order", true),
            ("pattern:lock:*", true),
            ("order*", false),
            ("state:no-ttl", true),
            ("state!=no-ttl", false),
            ("state:orphan or state:no-ttl", true),
            ("not (state:orphan or state:split)", true),
            ("not state:n*", false),
            ("target:orders and not cart", true),
            ("ending:expired", false),
        ] {
            assert_eq!(selects(text, &labels), expected, "{text}");
        }
    }

    #[test]
    fn it_is_written_in_promql_with_the_same_meaning() {
        for (text, expected) in [
            ("state:Split", r#"state="split""#),
            ("state!=split", r#"state!="split""#),
            ("ending:evicted or ending:flushed", r#"ending=~"evicted|flushed""#),
            ("not (state:free or state:done)", r#"state!="free" state!="done""#),
            ("order", r#"pattern=~"(?i).*order.*""#),
            ("a.b{x}*", r#"pattern=~"(?i)a\\.b\\{x\\}.*""#),
            (r#"key:"say ""hi"" \n""#, r#"pattern=~"(?i).*say \"hi\" \\\\n.*""#),
        ] {
            assert_eq!(Selector::parse(text).unwrap().promql().join(" "), expected, "{text}");
        }
        assert_eq!(Selector::parse("state:split order").unwrap().certain(), [("state", "split")]);
    }

    #[test]
    fn what_series_do_not_carry_is_refused_by_name() {
        for (text, part) in [
            ("held>1m", "do not carry \"held\""),
            ("ttl:none", "do not carry \"ttl\""),
            ("holder:app-1", "do not carry \"holder\""),
            ("lib:redisson", "do not carry \"lib\""),
            ("state:orphn", "did you mean \"orphan\"?"),
            ("ending:lost", "there is no ending \"lost\""),
            ("sate:orphan", "did you mean \"state\"?"),
            ("state:orphan or order", "a rule for each alternative"),
            ("not (state:orphan and order)", "a rule for each alternative"),
            ("a or (b and c)", "a rule for each alternative"),
        ] {
            let why = Selector::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn a_filter_of_locks_knows_nothing_of_endings() {
        let filter: crate::filter::Filter = "ending:expired".parse().expect("a part of a key");
        assert_eq!(filter.to_string(), "ending:expired");
    }
}
