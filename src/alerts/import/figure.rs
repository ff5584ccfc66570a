//! What a rule of Prometheus compares, in our words: guesses that the caller checks.

use std::time::Duration;

use super::foreign::Foreign;
use crate::alerts::promql::{Op, Placed, Split, Token, split, stripped, tokens};
use crate::alerts::{Compare, NoData, Rule};
use crate::filter::Selector;
use crate::metrics::{Kind, METRICS, Metric, MetricId};

/// Rules that may mean the same. The caller compares what they are in PromQL.
pub fn drafts(foreign: &Foreign) -> Result<Vec<Rule>, String> {
    let base = Rule {
        name: foreign.name.clone(),
        metric: MetricId::of("lockscope_absent"),
        selector: Selector::default(),
        by: None,
        compare: Compare::Above(0.0),
        hold_for: foreign.hold_for,
        keep_firing_for: foreign.keep_firing_for,
        recover: None,
        window: None,
        no_data: NoData::Ok,
        severity: foreign.severity(),
        note: foreign.note(),
        runbook: foreign.runbook(),
        of_absence: false,
    };
    let all: Vec<Token> = tokens(&foreign.expr)?.into_iter().map(|placed| placed.token).collect();
    if all.first().is_some_and(|first| first.is_word("absent")) {
        return Ok(vec![base]);
    }
    let Split { lhs, op, threshold, recovery, stay } = split(&foreign.expr)?;
    let compare = match op {
        Op::Above => Compare::Above(threshold),
        Op::Below => Compare::Below(threshold),
        Op::AtLeast | Op::AtMost => {
            let fix = if op == Op::AtLeast { "'>' with a number below it" } else { "'<' with a number above it" };
            return Err(format!("'{}' is not a comparison of our rules; write {fix}", op.sign()));
        }
    };
    if recovery.as_ref().is_some_and(|recovery| recovery.alert != foreign.name) {
        return Err("it recovers by another alert than its own".into());
    }
    if stay.as_ref().is_some_and(|stay| stay.alert != foreign.name) {
        return Err("it stays with another alert than its own".into());
    }
    let lhs: Vec<Token> = tokens(&lhs)?.into_iter().map(|placed| placed.token).collect();
    let found = Found::of(&lhs)?;
    let mut drafts = Vec::new();
    for (metric, fixed) in found.metrics() {
        let matchers: Vec<_> = found.matchers.iter().filter(|matcher| !fixed.contains(matcher)).cloned().collect();
        let selector = Selector::of_matchers(&matchers)?;
        for by in [None, found.by(metric)] {
            drafts.push(Rule {
                metric: MetricId::of_index(metric),
                selector: selector.clone(),
                by,
                compare,
                recover: recovery.as_ref().map(|recovery| recovery.level),
                window: found.window,
                no_data: match &stay {
                    Some(stay) => NoData::Stay(stay.longest),
                    None => found.keep.map_or(NoData::Ok, NoData::Keep),
                },
                ..base.clone()
            });
        }
    }
    Ok(drafts)
}

/// Whether two expressions are the same but for spaces, empty braces, and brackets around the whole left side.
pub fn is_same(one: &str, other: &str) -> bool {
    let sides = |text: &str| -> Option<(Vec<Token>, Split)> {
        let split = split(text).ok()?;
        let lhs = tokens(&split.lhs).ok()?;
        Some((plain(stripped(&lhs)), Split { lhs: String::new(), ..split }))
    };
    let whole = |text: &str| Some(plain(&tokens(text).ok()?));
    match (sides(one), sides(other)) {
        (Some(one), Some(other)) => one == other,
        _ => whole(one).is_some_and(|one| Some(one) == whole(other)),
    }
}

/// The tokens without empty braces.
fn plain(part: &[Placed]) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    for placed in part {
        match placed.token.is("}") && out.last().is_some_and(|last| last.is("{")) {
            true => drop(out.pop()),
            false => out.push(placed.token.clone()),
        }
    }
    out
}

/// Whether it computes nothing from its series.
pub fn is_bare(expr: &str) -> bool {
    tokens(expr).is_ok_and(|all| !all.iter().any(|placed| placed.token.is("(")))
}

/// Why nothing of ours is the same.
pub fn why_not(expr: &str) -> String {
    let names = tokens(expr).unwrap_or_default().into_iter().filter_map(|placed| match placed.token {
        Token::Word(word) => Some(word),
        _ => None,
    });
    let (mut ours, mut histogram) = (None, None);
    for name in names {
        let of = METRICS.iter().find(|metric| {
            name.strip_prefix(metric.name).is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        });
        match of {
            Some(metric) if matches!(metric.kind, Kind::Histogram(_)) => histogram = Some(metric.name),
            Some(metric) => ours = Some(metric.name),
            None => {}
        }
    }
    match (histogram, ours) {
        (Some(name), _) => format!("{name} is a histogram; our rules compare gauges, counters and derived metrics"),
        (None, Some(name)) => format!("our rules compute nothing like it from {name}"),
        (None, None) => "it reads no metric of lockscope".into(),
    }
}

/// What stands in the left side.
struct Found {
    name: &'static Metric,
    matchers: Vec<(String, String, String)>,
    by: Option<Vec<String>>,
    window: Option<Duration>,
    keep: Option<Duration>,
}

impl Found {
    fn of(lhs: &[Token]) -> Result<Found, String> {
        let metric = |token: &Token| match token {
            Token::Word(word) => METRICS.iter().find(|metric| metric.name == *word && metric.kind != Kind::Derived),
            _ => None,
        };
        let first = lhs.iter().enumerate().find_map(|(at, token)| Some((at, metric(token)?)));
        let Some((at, name)) = first else { return Err(why_not_tokens(lhs)) };
        let matchers = match lhs.get(at + 1) {
            Some(open) if open.is("{") => matchers(&lhs[at + 2..])?,
            _ => Vec::new(),
        };
        let by = match lhs {
            [Token::Word(join), by, open, rest @ ..]
                if by.is_word("by") && open.is("(") && ["sum", "min", "max"].contains(&join.as_str()) =>
            {
                let labels = rest.iter().take_while(|token| !token.is(")"));
                Some(
                    labels
                        .filter_map(|token| if let Token::Word(label) = token { Some(label.clone()) } else { None })
                        .collect(),
                )
            }
            _ => None,
        };
        let ranged = |function: &str| {
            let mut after = lhs.iter().skip_while(|token| !token.is_word(function)).skip_while(|token| !token.is("["));
            match after.nth(1) {
                Some(Token::Duration(millis)) => Some(Duration::from_millis(*millis)),
                _ => None,
            }
        };
        Ok(Found { name, matchers, by, window: ranged("increase"), keep: ranged("last_over_time") })
    }

    /// The metrics that may be meant, with the matchers that belong to the metric itself.
    fn metrics(&self) -> impl Iterator<Item = (usize, Vec<(String, String, String)>)> {
        METRICS.iter().enumerate().filter_map(|(index, metric)| {
            if *metric == *self.name {
                return Some((index, Vec::new()));
            }
            let at = metric.promql.find(&format!("{}{{", self.name.name))?;
            let inside = tokens(&metric.promql[at + self.name.name.len() + 1..]).ok()?;
            let inside: Vec<Token> = inside.into_iter().map(|placed| placed.token).collect();
            Some((index, matchers(&inside).ok()?))
        })
    }

    /// The labels by which it is added up, as far as the metric has them.
    fn by(&self, metric: usize) -> Option<Vec<&'static str>> {
        let known = |label: &String| METRICS[metric].labels.iter().find(|known| *known == label).copied();
        self.by.as_ref()?.iter().map(known).collect()
    }
}

fn why_not_tokens(lhs: &[Token]) -> String {
    let words: Vec<&str> =
        lhs.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None }).collect();
    why_not(&words.join(" "))
}

/// Matchers up to the closing brace.
fn matchers(rest: &[Token]) -> Result<Vec<(String, String, String)>, String> {
    let inside: Vec<&Token> = rest.iter().take_while(|token| !token.is("}")).collect();
    let mut found = Vec::new();
    for one in inside.split(|token| token.is(",")).filter(|one| !one.is_empty()) {
        match one {
            [Token::Word(label), Token::Sign(op @ ("=" | "!=" | "=~" | "!~")), Token::Text(text)] => {
                found.push((label.clone(), op.to_string(), text.clone()));
            }
            _ => return Err("what is in its braces is not understood".into()),
        }
    }
    Ok(found)
}
