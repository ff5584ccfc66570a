//! Quotes words for a command line that people paste into a shell.

use std::fmt::Write;

/// A text as one word.
pub fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/@%+,=".contains(letter);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Any bytes as one word; `None` where no command line can carry them. Nothing in it moves a terminal's cursor but the
/// ends of lines.
pub fn word(bytes: &[u8]) -> Option<String> {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    match std::str::from_utf8(bytes) {
        _ if bytes.contains(&0) => None,
        Ok(text) if bytes.iter().all(is_text) => Some(quoted(text)),
        _ => {
            let mut word = String::from("$'");
            for byte in bytes {
                match byte {
                    b'\'' | b'\\' => word.extend(['\\', *byte as char]),
                    b' '..=b'~' => word.push(*byte as char),
                    _ => write!(word, "\\x{byte:02x}").ok()?,
                }
            }
            word.push('\'');
            Some(word)
        }
    }
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
            (b"a\xff\x1b[2Jb", "$'a\\xff\\x1b[2Jb'"),
            ("schl\u{f6}sser'".as_bytes(), "$'schl\\xc3\\xb6sser\\''"),
        ] {
            assert_eq!(word(bytes).as_deref(), Some(expected));
        }
        assert_eq!(word(b"a\0b"), None);
    }
}
