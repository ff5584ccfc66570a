//! PromQL as a list of tokens, with the place of each in the text. Spaces and comments are gone, texts are unescaped.

use std::ops::Range;

#[derive(Clone, PartialEq, Debug)]
pub enum Token {
    /// A name or a keyword.
    Word(String),
    Number(f64),
    /// In milliseconds.
    Duration(u64),
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// A token and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    pub token: Token,
    pub at: Range<usize>,
}

impl Token {
    pub fn is(&self, sign: &str) -> bool {
        matches!(self, Token::Sign(own) if *own == sign)
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own.eq_ignore_ascii_case(word))
    }
}

/// The longer ones first.
const SIGNS: [&str; 24] = [
    "==", "!=", "=~", "!~", ">=", "<=", "(", ")", "{", "}", "[", "]", ",", "=", ">", "<", "+", "-", "*", "/", "%", "^",
    "@", ":",
];
const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
];

/// The tokens of an expression; `Err` says what is not understood.
pub fn tokens(text: &str) -> Result<Vec<Placed>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '"' | '\'' | '`' => quoted(rest, first)?,
            c if c.is_ascii_alphabetic() || c == '_' => word(rest),
            c if c.is_ascii_digit() || c == '.' => number(rest)?,
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let sign = sign.ok_or_else(|| format!("{first:?} is not understood"))?;
                (Token::Sign(sign), sign.len())
            }
        };
        found.push(Placed { token, at: at..at + length });
        at += length;
    }
    Ok(found)
}

fn word(rest: &str) -> (Token, usize) {
    // A colon belongs to the names of recorded series.
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
    let word = &rest[..end];
    match word.to_ascii_lowercase().as_str() {
        "inf" => (Token::Number(f64::INFINITY), end),
        "nan" => (Token::Number(f64::NAN), end),
        _ => (Token::Word(word.to_string()), end),
    }
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let mut end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(rest.len());
    // The sign of an exponent.
    let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
    if !is_hex && rest[..end].ends_with(['e', 'E']) && rest[end..].starts_with(['+', '-']) {
        let tail = &rest[end + 1..];
        end += 1 + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
    }
    let text = &rest[..end];
    if let Some(millis) = duration(text) {
        return Ok((Token::Duration(millis), end));
    }
    let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let value = match hex {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|value| value as f64),
        None => text.parse::<f64>().ok(),
    };
    value.map(|value| (Token::Number(value), end)).ok_or_else(|| format!("{text:?} is no number"))
}

/// A duration of Prometheus, such as `1h30m`, in milliseconds.
pub fn duration(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
        let (unit, millis) = UNITS.iter().find(|(unit, _)| rest[digits..].starts_with(unit))?;
        sum = sum.checked_add(rest[..digits].parse::<u64>().ok()?.checked_mul(*millis)?)?;
        rest = &rest[digits + unit.len()..];
    }
    (!text.is_empty()).then_some(sum)
}

fn quoted(rest: &str, quote: char) -> Result<(Token, usize), String> {
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        let c = rest[at..].chars().next().ok_or("a quote is never closed")?;
        at += c.len_utf8();
        match c {
            c if c == quote => break,
            '\\' if quote != '`' => at += escape(&rest[at..], &mut out).ok_or("an escape is not understood")?,
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let text = String::from_utf8(out).map_err(|_| "a text is no UTF-8".to_string())?;
    Ok((Token::Text(text), at))
}

/// One escape after its backslash; how long it is.
fn escape(rest: &str, out: &mut Vec<u8>) -> Option<usize> {
    let simple = match rest.bytes().next()? {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        other @ (b'\\' | b'"' | b'\'') => other,
        b'x' => {
            out.push(u8::from_str_radix(rest.get(1..3)?, 16).ok()?);
            return Some(3);
        }
        kind @ (b'u' | b'U') => {
            let end = if kind == b'u' { 5 } else { 9 };
            let c = char::from_u32(u32::from_str_radix(rest.get(1..end)?, 16).ok()?)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(end);
        }
        b'0'..=b'7' => {
            out.push(u8::from_str_radix(rest.get(..3)?, 8).ok()?);
            return Some(3);
        }
        _ => return None,
    };
    out.push(simple);
    Some(1)
}
