//! Parses tokens into an expression: `or` binds least, then `and` (also implied between neighbours), then `not`.

use super::field::{Field, Measure, Topic, Vocabulary};
use super::lex::{Placed, Token, lex};
use super::{Expr, Op, Pattern, Threshold, Wrong};
use crate::base::nearest::{self, nearly};

/// Deeper than any person nests, and still safe for the stack.
const DEPTH: usize = 64;

pub(super) fn parse(text: &str, vocabulary: Vocabulary) -> Result<Expr, Wrong> {
    let mut parser = Parser { vocabulary, tokens: lex(text, vocabulary)?, next: 0, end: text.len(), depth: 0 };
    if parser.tokens.is_empty() {
        return Ok(Expr::And(Vec::new()));
    }
    let expr = parser.or()?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(Wrong::new(parser.at(), "there is a ')' without its '('")),
    }
}

struct Parser {
    vocabulary: Vocabulary,
    tokens: Vec<Placed>,
    next: usize,
    end: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    fn or(&mut self) -> Result<Expr, Wrong> {
        let mut parts = vec![self.and()?];
        while self.take_keyword("or") {
            parts.push(self.and()?);
        }
        Ok(joined(parts, Expr::Or, |expr| match expr {
            Expr::Or(parts) => Ok(parts),
            other => Err(other),
        }))
    }

    fn and(&mut self) -> Result<Expr, Wrong> {
        let mut parts = vec![self.unary()?];
        loop {
            let more = match self.peek() {
                None | Some(Token::Close) => false,
                Some(Token::Word(word)) if word.eq_ignore_ascii_case("or") => false,
                Some(_) => true,
            };
            if !more {
                break;
            }
            self.take_keyword("and");
            parts.push(self.unary()?);
        }
        Ok(joined(parts, Expr::And, |expr| match expr {
            Expr::And(parts) => Ok(parts),
            other => Err(other),
        }))
    }

    fn unary(&mut self) -> Result<Expr, Wrong> {
        if self.depth == DEPTH {
            return Err(Wrong::new(self.at(), format!("nested more than {DEPTH} deep")));
        }
        self.depth += 1;
        let expr = if self.take_keyword("not") { Expr::Not(Box::new(self.unary()?)) } else { self.primary()? };
        self.depth -= 1;
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, Wrong> {
        const EXPECTED: &str = "expected a word, a field such as state:held or ttl<5s, or '('";
        let at = self.at();
        let Some(token) = self.peek().cloned() else { return Err(Wrong::new(at, EXPECTED)) };
        self.next += 1;
        match token {
            Token::Open => {
                let inner = self.or()?;
                if self.peek() != Some(&Token::Close) {
                    return Err(Wrong::new(at, "this '(' is never closed; expected a ')' at the end"));
                }
                self.next += 1;
                Ok(inner)
            }
            Token::Close => Err(Wrong::new(at, EXPECTED)),
            Token::Ask(Field::Topic(topic), op) => self.topic(at, topic, op),
            Token::Ask(Field::Measure(measure), op) => self.measure(at, measure, op),
            Token::Quoted(text) => Ok(Expr::Matches(Topic::Key, literal(at, &text)?)),
            Token::Word(word) => bare(at, &word, self.vocabulary),
        }
    }

    fn value(&mut self, what: &str) -> Result<(usize, Token), Wrong> {
        let at = self.at();
        match self.peek().cloned() {
            Some(token @ (Token::Word(_) | Token::Quoted(_))) => {
                self.next += 1;
                Ok((at, token))
            }
            _ => Err(Wrong::new(at, format!("expected {what}"))),
        }
    }

    fn topic(&mut self, at: usize, topic: Topic, op: Op) -> Result<Expr, Wrong> {
        let name = Field::Topic(topic).name();
        if !matches!(op, Op::Equal | Op::NotEqual) {
            return Err(Wrong::new(at, format!("{name} is a word, not a number; write {name}:… or {name}!=…")));
        }
        let (at, token) = self.value(&format!("a {} after {name}", topic.noun()))?;
        let pattern = match token {
            Token::Word(word) => pattern(&word),
            Token::Quoted(text) => literal(at, &text)?,
            _ => return Err(Wrong::new(at, format!("expected a {}", topic.noun()))),
        };
        if let Some(words) = topic.words().filter(|_| !pattern.glob)
            && !words.iter().any(|word| word.eq_ignore_ascii_case(&pattern.text))
        {
            let (noun, hint) = (topic.noun(), nearest::hint(&pattern.text, words));
            return Err(Wrong::new(at, format!("there is no {noun} {:?}{hint}", pattern.text)));
        }
        let matches = Expr::Matches(topic, pattern);
        Ok(if op == Op::NotEqual { Expr::Not(Box::new(matches)) } else { matches })
    }

    fn measure(&mut self, start: usize, measure: Measure, op: Op) -> Result<Expr, Wrong> {
        let name = Field::Measure(measure).name();
        let example = match measure {
            Measure::Ttl => "a duration such as 5s, or none",
            measure if measure.is_time() => "a duration such as 500ms, 30s, 5m or 2h",
            _ => "a number such as 3 or 0.5",
        };
        let (at, token) = self.value(&format!("{example} after {name}"))?;
        let Token::Word(word) = token else {
            return Err(Wrong::new(at, format!("expected {example}, without quotes")));
        };
        let expected = || Wrong::new(at, format!("expected {example} after {name}, not {word:?}"));
        if measure == Measure::Ttl && word.eq_ignore_ascii_case("none") {
            return match op {
                Op::Equal => Ok(Expr::TtlNone),
                Op::NotEqual => Ok(Expr::Not(Box::new(Expr::TtlNone))),
                _ => Err(Wrong::new(start, "'none' is no number; write ttl:none or ttl!=none")),
            };
        }
        let threshold = if measure.is_time() {
            let millis =
                humantime::parse_duration(&word).ok().and_then(|duration| u64::try_from(duration.as_millis()).ok());
            Threshold::Millis(millis.ok_or_else(expected)?)
        } else {
            let plain = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let number = word.parse::<f64>().ok().filter(|number| plain && number.is_finite());
            Threshold::Number(number.ok_or_else(expected)?)
        };
        Ok(Expr::Compare(measure, op, threshold))
    }
}

/// A single part as it is; several as a group, with nested groups of the same kind flattened.
fn joined(parts: Vec<Expr>, group: fn(Vec<Expr>) -> Expr, open: fn(Expr) -> Result<Vec<Expr>, Expr>) -> Expr {
    let mut flat = Vec::new();
    for part in parts {
        match open(part) {
            Ok(inner) => flat.extend(inner),
            Err(part) => flat.push(part),
        }
    }
    if flat.len() == 1 { flat.remove(0) } else { group(flat) }
}

/// A bare word: part of a key, unless it can only be a mistake.
fn bare(at: usize, word: &str, vocabulary: Vocabulary) -> Result<Expr, Wrong> {
    let expected = match word.to_ascii_lowercase().as_str() {
        "&&" | "&" => Some("and"),
        "||" | "|" => Some("or"),
        "!" => Some("not"),
        "and" | "or" => return Err(Wrong::new(at, format!("expected a word or a field before {word:?}"))),
        _ => None,
    };
    if let Some(expected) = expected {
        return Err(Wrong::new(at, format!("write {expected:?} instead of {word:?}")));
    }
    if let Some((name, value)) = word.split_once([':', '='])
        && mistyped(name, value, vocabulary)
    {
        return Err(Wrong::new(at, format!("{} Put it in quotes if it is part of a key.", no_field(name, vocabulary))));
    }
    Ok(Expr::Matches(Topic::Key, pattern(word)))
}

/// Whether `name:value` is a misspelt field and not part of a key: `sate:held` is, since `held` is a state; `order:7`
/// and `folder:x` are keys, although they are close to `holder`.
fn mistyped(name: &str, value: &str, vocabulary: Vocabulary) -> bool {
    let near = column(name).or_else(|| nearly(name, vocabulary.names()));
    let Some(near) = near else { return false };
    match vocabulary.field(near) {
        Some(Field::Topic(topic)) => topic.words().is_some_and(|words| words.contains(&value.to_lowercase().as_str())),
        Some(Field::Measure(_)) => value.eq_ignore_ascii_case("none"),
        None => false,
    }
}

/// The field for a table column that has another name.
fn column(name: &str) -> Option<&'static str> {
    ["library", "dialect"].iter().any(|title| title.eq_ignore_ascii_case(name)).then_some("lib")
}

pub(super) fn no_field(name: &str, vocabulary: Vocabulary) -> String {
    let hint = match column(name) {
        Some(field) => format!("; did you mean {field:?}?"),
        None => nearest::hint(name, vocabulary.names()),
    };
    format!("there is no field {name:?}{hint}")
}

fn pattern(word: &str) -> Pattern {
    Pattern { text: word.to_lowercase(), glob: word.contains('*') }
}

fn literal(at: usize, text: &str) -> Result<Pattern, Wrong> {
    if text.is_empty() {
        return Err(Wrong::new(at, "expected something between the quotes"));
    }
    Ok(Pattern { text: text.to_lowercase(), glob: false })
}
