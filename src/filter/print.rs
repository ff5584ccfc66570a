//! Writes a filter so that it parses to the same filter again.

use std::fmt;
use std::time::Duration;

use super::field::{Field, Topic, Vocabulary};
use super::lex::{Token, lex};
use super::{Expr, Filter, Op, Pattern, Threshold};

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::And(parts) => between(f, parts, " and ", |part| matches!(part, Expr::Or(_))),
            Expr::Or(parts) => between(f, parts, " or ", |_| false),
            Expr::Not(inner) if matches!(**inner, Expr::And(_) | Expr::Or(_)) => write!(f, "not ({inner})"),
            Expr::Not(inner) => write!(f, "not {inner}"),
            Expr::TtlNone => f.write_str("ttl:none"),
            Expr::Matches(Topic::Key, pattern) if pattern.stands_bare() => f.write_str(&pattern.text),
            Expr::Matches(topic, pattern) => write!(f, "{}:{pattern}", Field::Topic(*topic).name()),
            Expr::Compare(measure, op, threshold) => {
                write!(f, "{}{op}{threshold}", Field::Measure(*measure).name())
            }
        }
    }
}

fn between(
    f: &mut fmt::Formatter<'_>,
    parts: &[Expr],
    word: &str,
    needs_parentheses: fn(&Expr) -> bool,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        if needs_parentheses(part) { write!(f, "({part})")? } else { write!(f, "{part}")? }
    }
    Ok(())
}

impl Pattern {
    /// Whether the text alone parses as this pattern of a key.
    fn stands_bare(&self) -> bool {
        super::parse::parse(&self.text, Vocabulary::Locks)
            .is_ok_and(|expr| expr == Expr::Matches(Topic::Key, self.clone()))
    }

    /// Whether the text can follow a field unquoted.
    fn follows_bare(&self) -> bool {
        let tokens = lex(&format!("key:{}", self.text), Vocabulary::Locks);
        let word = |tokens: Vec<_>| matches!(tokens.as_slice(), [_, (_, Token::Word(word))] if *word == self.text);
        self.glob == self.text.contains('*') && tokens.is_ok_and(word)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.follows_bare() { f.write_str(&self.text) } else { write!(f, "\"{}\"", self.text.replace('"', "\"\"")) }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Less => "<",
            Op::LessOrEqual => "<=",
            Op::Greater => ">",
            Op::GreaterOrEqual => ">=",
            Op::Equal => "=",
            Op::NotEqual => "!=",
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Threshold::Millis(millis) => {
                let text = humantime::format_duration(Duration::from_millis(*millis)).to_string();
                f.write_str(&text.replace(' ', ""))
            }
            Threshold::Number(number) => write!(f, "{number}"),
        }
    }
}
