//! Quotes words for a command line that people paste into a shell.

use std::fmt::Write;

use crate::base::text;

/// A text as one word.
pub fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/@%+,=".contains(letter);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Any bytes as one word of a POSIX shell; `None` where no command line can carry them. Nothing in it moves a terminal's
/// cursor but the ends of lines.
pub fn word(bytes: &[u8]) -> Option<String> {
    let is_text = |letter: char| letter == '\n' || !text::is_hidden(letter);
    match std::str::from_utf8(bytes) {
        _ if bytes.contains(&0) => None,
        Ok(text) if text.chars().all(is_text) => Some(quoted(text)),
        _ => printed(bytes),
    }
}

/// The bytes as `printf` writes them: every POSIX shell has it, and `$'…'` is of some shells only.
fn printed(bytes: &[u8]) -> Option<String> {
    // Ends of lines at the end are lost on the way.
    let kept = bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let mut word = String::from("\"$(printf '");
    for byte in &bytes[..kept] {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' | b'/' => word.push(*byte as char),
            _ => write!(word, "\\{byte:03o}").ok()?,
        }
    }
    word.push_str("')\"");
    if kept < bytes.len() {
        word.push_str(&quoted(&"\n".repeat(bytes.len() - kept)));
    }
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_a_name_a_shell_reads_it_back() {
        for (bytes, expected) in [
            (&b"lock:a"[..], "lock:a"),
            (b"", "''"),
            (b"it's $HOME", "'it'\\''s $HOME'"),
            (b"a\xff\x1b[2Jb", "\"$(printf 'a\\377\\033\\1332Jb')\""),
            (b"\xff\n\n", "\"$(printf '\\377')\"'\n\n'"),
            ("schl\u{f6}sser'".as_bytes(), "'schl\u{f6}sser'\\'''"),
        ] {
            let word = word(bytes).unwrap();
            assert_eq!(word, expected);
            let script = format!("printf %s {word}");
            let read = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(read.stdout, bytes, "{script}");
        }
        assert_eq!(word(b"a\0b"), None);
    }
}
