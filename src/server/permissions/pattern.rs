//! Key patterns in the form that ACL rules allow, and a sample key for a pattern.

use crate::base::glob::Glob;

/// The pattern as one word for an ACL rule. Each byte that a rule or a prompt can't contain (spaces, quotes, anything
/// outside printable ASCII) becomes `?`, so the result may be a little wider.
pub fn acl_safe(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.as_bytes();
    while let [first, tail @ ..] = rest {
        match first {
            b'[' => {
                let (class, after) = tail.split_at(class_len(tail));
                if class.iter().all(|byte| is_safe(*byte)) {
                    out.push('[');
                    out.extend(class.iter().map(|byte| *byte as char));
                } else {
                    out.push('?');
                }
                rest = after;
            }
            b'\\' if !tail.is_empty() => {
                if is_safe(tail[0]) {
                    out.push('\\');
                    out.push(tail[0] as char);
                } else {
                    out.push('?');
                }
                rest = &tail[1..];
            }
            byte => {
                out.push(if is_safe(*byte) { *byte as char } else { '?' });
                rest = tail;
            }
        }
    }
    out
}

/// Length of what follows a `[`, up to and including its `]`.
fn class_len(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b']' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn is_safe(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'')
}

/// A key under the pattern: wildcards are filled in with letters.
pub fn sample_key(glob: &Glob) -> Vec<u8> {
    let mut key = Vec::new();
    let mut rest = glob.as_str().as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'*' => key.push(b'x'),
            b'?' => key.push(b'x'),
            b'\\' if !tail.is_empty() => {
                key.push(tail[0]);
                rest = &tail[1..];
            }
            b'[' => {
                let (class, after) = tail.split_at(class_len(tail));
                key.push(member(class));
                rest = after;
            }
            byte => key.push(*byte),
        }
    }
    key
}

/// A byte that a class admits, `x` if there is none.
fn member(class: &[u8]) -> u8 {
    let text = format!("[{}", String::from_utf8_lossy(class));
    let Ok(one) = Glob::new(&text) else { return b'x' };
    (b'!'..=b'~').rev().find(|byte| one.matches(&[*byte])).unwrap_or(b'x')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pattern_becomes_one_word() {
        assert_eq!(acl_safe("lock:*"), "lock:*");
        assert_eq!(acl_safe("my lock:\"a\""), "my?lock:?a?");
        assert_eq!(acl_safe("lö:*"), "l??:*");
        assert_eq!(acl_safe("a[b c]d\\ e\\*"), "a?d?e\\*");
    }

    #[test]
    fn a_sample_is_under_its_pattern() {
        for pattern in ["lock:*", "*[Ll][Oo][Cc][Kk]*", "a\\*b?", "x[^a-z]y", "{hangfire}:*:lock"] {
            let glob = Glob::new(pattern).unwrap();
            assert!(glob.matches(&sample_key(&glob)), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn nothing_falls_out_of_the_rule(pattern in "([a-c \"é*?]|\\[[a-c \"]{1,3}\\]|\\\\[ *a]){1,8}") {
            let glob = Glob::new(&pattern).unwrap();
            let key = sample_key(&glob);
            let rule = acl_safe(&pattern);
            prop_assert!(rule.bytes().all(is_safe), "{}", rule);
            prop_assert!(Glob::new(&rule).unwrap().matches(&key), "{} -> {} for {:?}", pattern, rule, key);
        }

        #[test]
        fn no_pattern_panics(pattern in "\\PC{1,20}") {
            let _ = acl_safe(&pattern);
            if let Ok(glob) = Glob::new(&pattern) {
                let _ = sample_key(&glob);
            }
        }
    }
}
