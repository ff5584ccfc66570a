//! Makes bytes from a server safe to show.
//!
//! Keys, values and client names may contain any bytes. They reach a screen, a log or a document only through
//! [`visible`]: printable text stays as it is, everything else becomes an escape. Two different inputs never look the
//! same. Error replies go through [`said`], and whole sentences through [`harmless`].

use std::fmt::Write;

/// Printable text unchanged, everything else escaped: `\n`, `\t`, `\r`, `\\`, `\xNN` for bytes, `\u{N}` for characters
/// that have no shape of their own or change the direction of the text, `\x20` for a space at either end.
pub fn visible(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    // Nearly all names and tokens are that plain.
    if bytes.iter().all(|byte| matches!(byte, b'!'..=b'~') && *byte != b'\\')
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        out.push_str(text);
        return out;
    }
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_visible(&mut out, c);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    // A space at the end would be lost when somebody copies the text.
    if out.len() > 1 && out.ends_with(' ') {
        out.replace_range(out.len() - 1.., SPACE);
    }
    if out.starts_with(' ') {
        out.replace_range(..1, SPACE);
    }
    out
}

/// How many cells of a terminal a text takes. It has no control characters.
pub fn cells(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { unicode_width::UnicodeWidthStr::width(text) }
}

const SPACE: &str = "\\x20";

/// Why a text is not what [`visible`] writes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the escape at character {column} is not complete or not known; write \\\\ for a backslash, \\xNN for a byte, \\n, \\r, \\t or \\u{{N}}"
)]
pub struct BadEscape {
    /// The first character of the escape, counted from 1.
    pub column: usize,
}

/// The bytes behind a text that was written by [`visible`], or typed in the same way.
pub fn unescape(text: &str) -> Result<Vec<u8>, BadEscape> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let tail = &rest[at + 1..];
        let bad = || BadEscape { column: text[..text.len() - tail.len() - 1].chars().count() + 1 };
        rest = unescape_one(tail, &mut out).ok_or_else(bad)?;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// Takes one escape, without its backslash, and returns what follows it.
fn unescape_one<'a>(tail: &'a str, out: &mut Vec<u8>) -> Option<&'a str> {
    let simple = match tail.as_bytes().first()? {
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'\\' => Some(b'\\'),
        _ => None,
    };
    if let Some(byte) = simple {
        out.push(byte);
        return Some(&tail[1..]);
    }
    let hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(tail) = tail.strip_prefix('x') {
        let digits = tail.get(..2).filter(|digits| hex(digits))?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        return Some(&tail[2..]);
    }
    let (digits, tail) = tail.strip_prefix("u{")?.split_once('}')?;
    if !(1..=6).contains(&digits.len()) || !hex(digits) {
        return None;
    }
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Some(tail)
}

/// Whether [`visible`] would change nothing but backslashes: the text can be shown and typed as it is.
pub fn is_plain(bytes: &[u8]) -> bool {
    // The fast path: nearly all text is ASCII, and a document of a million locks checks every string.
    // It reads all of them, which is many at a time; stopping at the first would be one at a time.
    let odd = bytes.iter().fold(false, |odd, byte| odd | !matches!(byte, b' '..=b'~'));
    !odd || std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(|c| !is_hidden(c)))
}

/// A measured number for people: six digits, without the last bits of a float.
pub fn figure(value: f64) -> String {
    format!("{value:.5e}").parse::<f64>().unwrap_or(value).to_string()
}

/// A sentence on one line, with every character escaped that a terminal would obey, hide or reorder text by. Backslashes
/// stay. This is the safety net for whole sentences; names and values inside them went through [`visible`] before.
pub fn harmless(sentence: &str) -> String {
    if is_plain(sentence.as_bytes()) {
        return sentence.to_string();
    }
    let mut out = String::with_capacity(sentence.len());
    for c in sentence.chars() {
        if c == '\\' { out.push(c) } else { push_visible(&mut out, c) }
    }
    out
}

/// An error reply of a server, or an error of the client crate: on one line, and harmless. The only way to format one.
pub fn said(by: &impl std::fmt::Display) -> String {
    harmless(&by.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\\' => out.push_str("\\\\"),
        c if is_hidden(c) => {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        }
        c => out.push(c),
    }
}

/// Characters that a terminal obeys or hides, or by which it reorders text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text cut to `width` terminal columns, with an ellipsis where something is missing.
pub fn fit(text: &str, width: usize) -> String {
    fit_marked(text, width, '…')
}

/// The same, with another mark of one column for what is missing.
pub fn fit_marked(text: &str, width: usize, mark: char) -> String {
    use unicode_width::UnicodeWidthChar;
    if cells(text) <= width {
        return text.to_string();
    }
    if width == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w > width - 1 {
            break;
        }
        used += w;
        out.push(c);
    }
    out.push(mark);
    out
}

/// Breaks the text at spaces into lines of at most `width` columns. Below 20 columns it stays one line.
pub fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let Some(width) = width.filter(|width| *width >= 20) else { return vec![text.into()] };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// Our own words in ASCII: our signs are replaced by similar ones, everything else is escaped as in [`visible`].
pub fn ascii(text: &str) -> String {
    ascii_only(&text.replace('…', "..").replace('≥', ">=").replace('—', "-").replace('±', "+/-"))
}

/// The output of [`visible`] in ASCII. Two different inputs still never look the same.
pub fn ascii_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        }
    }
    out
}

/// A token shortened for a table: its first and last characters, enough to distinguish two.
pub fn short_token(text: &str) -> String {
    let count = text.chars().count();
    if count <= 16 {
        return text.to_string();
    }
    let head: String = text.chars().take(8).collect();
    let tail: String = text.chars().skip(count - 4).collect();
    format!("{head}…{tail}")
}

/// A duration in at most two units, as tables show it: `350ms`, `8.1s`, `14m02s`, `3d04h`.
pub fn short_duration(millis: u64) -> String {
    let s = millis / 1000;
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", s, millis % 1000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", s / 60, s % 60),
        3_600_000..86_400_000 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// `1,204 locks`
pub fn counted(count: u64, thing: &str) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{out} {thing}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lock_name_cannot_drive_the_terminal() {
        assert_eq!(visible(b"lock:\x1b[2J\x07"), "lock:\\u{1b}[2J\\u{7}");
        assert_eq!(visible(b"a\xffb"), "a\\xffb");
        assert_eq!(visible("сpу:锁".as_bytes()), "сpу:锁");
        assert_eq!(visible("\u{202e}abc".as_bytes()), "\\u{202e}abc");
        assert_eq!([&b" a b "[..], b" ", b""].map(visible), ["\\x20a b\\x20", "\\x20", ""]);
    }

    #[test]
    fn a_key_is_typed_as_it_was_shown() {
        assert_eq!(unescape("lock:a").unwrap(), b"lock:a");
        assert_eq!(unescape(r"a\x00\xFFb\n\r\t\\\u{1b}\u{202e}").unwrap(), b"a\x00\xffb\n\r\t\\\x1b\xe2\x80\xae");
    }

    #[test]
    fn a_wrong_escape_names_its_place() {
        for (text, column) in [
            ("锁\\q", 2),
            ("\\", 1),
            ("ab\\x4", 3),
            ("a\\x+1", 2),
            ("\\u{110000}", 1),
            ("\\u{}", 1),
            ("\\u{12", 1),
            ("\\\\\\xé", 3),
        ] {
            assert_eq!(unescape(text).unwrap_err().column, column, "{text}");
        }
        assert!(unescape("\\").unwrap_err().to_string().contains("character 1"));
    }

    proptest! {
        #[test]
        fn every_key_can_be_typed_back(a in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(unescape(&visible(&a)).unwrap(), a);
        }

        #[test]
        fn no_typed_key_panics(text in "\\\\?[a-z\\\\{}0-9é锁]{0,12}") {
            let _ = unescape(&text);
        }

        #[test]
        fn two_different_keys_never_look_the_same(a in prop::collection::vec(any::<u8>(), 0..12), b in prop::collection::vec(any::<u8>(), 0..12)) {
            prop_assert_eq!(a == b, visible(&a) == visible(&b));
        }

        #[test]
        fn nothing_visible_is_a_control_character(a in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(visible(&a).chars().all(|c| !c.is_control()));
        }
    }

    #[test]
    fn durations_stay_short() {
        assert_eq!(short_duration(350), "350ms");
        assert_eq!(short_duration(8_140), "8.1s");
        assert_eq!(short_duration(842_000), "14m02s");
        assert_eq!(short_duration(3 * 86_400_000 + 4 * 3_600_000), "3d04h");
    }

    #[test]
    fn wide_characters_count_two_columns() {
        assert_eq!(fit("锁锁锁", 5), "锁锁…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit_marked("abcd", 3, '~'), "ab~");
    }

    #[test]
    fn ascii_mode_has_nothing_else() {
        assert_eq!(ascii("≥3s 锁 a…b"), ">=3s \\u{9501} a..b");
    }
}
