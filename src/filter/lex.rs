//! Splits a filter into words, fields, comparisons, quoted texts and parentheses.
//!
//! Keys are full of `:`, so only a known name counts as a field: `lock:order` is a bare word, `state:held` is not.

use super::field::{Field, Vocabulary};
use super::{Op, Wrong};

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Open,
    Close,
    /// A known field and the comparison after it; `:` means `=`.
    Ask(Field, Op),
    Word(String),
    Quoted(String),
}

/// A token and the byte it starts at.
pub(super) type Placed = (usize, Token);

pub(super) fn lex(text: &str, vocabulary: Vocabulary) -> Result<Vec<Placed>, Wrong> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut wants_value = false;
    while let Some(first) = text[at..].chars().next() {
        let start = at;
        let token = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '(' | ')' => {
                at += 1;
                if first == '(' { Token::Open } else { Token::Close }
            }
            '"' | '\'' => {
                let (quoted, end) = quoted(text, at, first)?;
                at = end;
                Token::Quoted(quoted)
            }
            _ if !wants_value && op(&text[at..]).is_some() => {
                return Err(Wrong::new(start, "expected a field before the comparison, such as ttl<5s or held>1m"));
            }
            _ => match (!wants_value).then(|| ask(text, at, vocabulary)).transpose()?.flatten() {
                Some((token, end)) => {
                    at = end;
                    token
                }
                None => {
                    let length = text[at..].find(|c: char| c.is_whitespace() || c == '(' || c == ')');
                    at = length.map_or(text.len(), |length| at + length);
                    Token::Word(text[start..at].to_string())
                }
            },
        };
        wants_value = matches!(token, Token::Ask(..));
        tokens.push((start, token));
    }
    Ok(tokens)
}

/// A quoted text from its opening quote on, and where it ends; a doubled quote means one.
fn quoted(text: &str, start: usize, quote: char) -> Result<(String, usize), Wrong> {
    let mut out = String::new();
    let mut chars = text[start + 1..].char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        if c != quote {
            out.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            out.push(quote);
        } else {
            return Ok((out, start + 1 + offset + 1));
        }
    }
    Err(Wrong::new(start, format!("the quote is never closed; expected another {quote}")))
}

/// `field:` or `field<` at this place, if there is one, and where it ends.
fn ask(text: &str, at: usize, vocabulary: Vocabulary) -> Result<Option<(Token, usize)>, Wrong> {
    let rest = &text[at..];
    let name = &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())];
    let gap = rest[name.len()..].len() - rest[name.len()..].trim_start().len();
    let after = &rest[name.len() + gap..];
    if let Some(field) = vocabulary.field(name) {
        if let Some(tail) = rest[name.len()..].strip_prefix(':') {
            return Ok(Some((Token::Ask(field, Op::Equal), text.len() - tail.len())));
        }
        return Ok(op(after).map(|(op, length)| (Token::Ask(field, op), at + name.len() + gap + length)));
    }
    // No key is written with < or >, so this is a misspelt field.
    if !name.is_empty() && after.starts_with(['<', '>']) {
        return Err(Wrong::new(at, super::parse::no_field(name, vocabulary)));
    }
    Ok(None)
}

fn op(text: &str) -> Option<(Op, usize)> {
    let two = match text.get(..2) {
        Some("<=") => Some(Op::LessOrEqual),
        Some(">=") => Some(Op::GreaterOrEqual),
        Some("!=") => Some(Op::NotEqual),
        Some("==") => Some(Op::Equal),
        _ => None,
    };
    match (two, text.bytes().next()) {
        (Some(op), _) => Some((op, 2)),
        (None, Some(b'<')) => Some((Op::Less, 1)),
        (None, Some(b'>')) => Some((Op::Greater, 1)),
        (None, Some(b'=')) => Some((Op::Equal, 1)),
        _ => None,
    }
}
