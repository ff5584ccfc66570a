//! Shapes of tokens and names by which the dialects distinguish libraries.

use chrono::DateTime;

use crate::base::time::Time;
use crate::lock::RawValue;

/// `8-4-4-4-12` hex digits; returns the version nibble.
pub fn uuid_version(bytes: &[u8]) -> Option<u8> {
    if bytes.len() != 36 {
        return None;
    }
    for (i, byte) in bytes.iter().enumerate() {
        let fine = if matches!(i, 8 | 13 | 18 | 23) { *byte == b'-' } else { byte.is_ascii_hexdigit() };
        if !fine {
            return None;
        }
    }
    hex_digit(bytes[14])
}

/// A random UUID (version 4, RFC variant).
pub fn is_uuid4(bytes: &[u8]) -> bool {
    uuid_version(bytes) == Some(4) && matches!(bytes[19].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b')
}

pub fn is_uuid(bytes: &[u8]) -> bool {
    uuid_version(bytes).is_some()
}

/// Exactly `len` lower-case hex digits.
pub fn is_hex(bytes: &[u8], len: usize) -> bool {
    bytes.len() == len && bytes.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

pub fn is_alphanumeric(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_alphanumeric)
}

pub fn is_decimal(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// Standard base64, with its padding, of exactly `bytes_inside` bytes.
pub fn is_base64(text: &[u8], bytes_inside: usize) -> bool {
    let padding = (3 - bytes_inside % 3) % 3;
    text.len() == bytes_inside.div_ceil(3) * 4
        && text[..text.len() - padding].iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
        && text[text.len() - padding..].iter().all(|b| *b == b'=')
}

/// URL-safe base64 without padding, of exactly `len` characters.
pub fn is_base64_url(text: &[u8], len: usize) -> bool {
    text.len() == len && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Whether the first 22 characters can be 16 bytes in base64, standard or URL-safe: the last one carries only two bits.
pub fn ends_as_16_bytes(text: &[u8]) -> bool {
    text.len() >= 22 && matches!(text[21], b'A' | b'Q' | b'g' | b'w')
}

/// Upper and lower case letters both occur, as in nearly every random token and in few names.
pub fn is_mixed_case(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_uppercase) && bytes.iter().any(u8::is_ascii_lowercase)
}

/// The time inside a UUIDv1 written as 32 hex digits, if it is one: Python's `uuid1().hex`.
pub fn uuid1_hex_time(hex: &[u8]) -> Option<Time> {
    if !is_hex(hex, 32) || hex[12] != b'1' || !matches!(hex[16], b'8' | b'9' | b'a' | b'b') {
        return None;
    }
    let text = std::str::from_utf8(hex).ok()?;
    let low = u64::from_str_radix(&text[0..8], 16).ok()?;
    let mid = u64::from_str_radix(&text[8..12], 16).ok()?;
    let high = u64::from_str_radix(&text[13..16], 16).ok()?;
    let ticks = high << 48 | mid << 32 | low;
    // 100 ns steps since 1582-10-15.
    let since_epoch = ticks.checked_sub(0x01b2_1dd2_1381_4000)?;
    Some(Time((since_epoch / 10_000) as i64))
}

/// An RFC 3339 time.
pub fn iso_time(text: &str) -> Option<Time> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| Time(at.timestamp_millis()))
}

/// Seconds since the epoch, as a decimal number with a fraction.
pub fn epoch_seconds(text: &[u8]) -> Option<Time> {
    let seconds: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (seconds.is_finite() && seconds > 1e8 && seconds < 1e11).then_some(Time((seconds * 1000.0) as i64))
}

/// A Unix time in seconds (with or without a fraction) or milliseconds that lies within ten years before `now` and one
/// after it; other numbers are just numbers.
pub fn plausible_epoch(text: &[u8], now: Time) -> Option<Time> {
    const YEAR_MS: i64 = 366 * 86_400_000;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = &text[digits..];
    let fine = fraction.is_empty() || (fraction[0] == b'.' && digits == 10 && is_decimal(&fraction[1..]));
    if !fine {
        return None;
    }
    let number = |bytes| std::str::from_utf8(bytes).ok()?.parse::<i64>().ok();
    let at = match digits {
        10 => epoch_seconds(text)?,
        13 => Time(number(text)?),
        _ => return None,
    };
    let range = now.0.saturating_sub(10 * YEAR_MS)..=now.0.saturating_add(YEAR_MS);
    range.contains(&at.0).then_some(at)
}

/// Whether a string may be a Unix time or a document that has one: a quick look, to save reading the others.
pub fn may_tell_a_time(value: &RawValue) -> bool {
    let RawValue::Str { head, .. } = value else { return false };
    let number = || (10..=20).contains(&head.len()) && head.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    head.first() == Some(&b'{') || number()
}

/// The words of a name: split at everything that is neither a letter nor a digit, and inside camelCase; lower case.
pub fn words(name: &[u8]) -> Vec<String> {
    each_word(name).collect()
}

/// Lazily, so that a search stops at the first match.
fn each_word(name: &[u8]) -> impl Iterator<Item = String> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let start = rest.iter().position(u8::is_ascii_alphanumeric)?;
        rest = &rest[start..];
        let ends = |pair: &[u8]| {
            !pair[1].is_ascii_alphanumeric() || (pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        };
        let (word, tail) = rest.split_at(rest.windows(2).position(ends).map_or(rest.len(), |last| last + 1));
        rest = tail;
        Some(word.iter().map(|byte| byte.to_ascii_lowercase() as char).collect())
    })
}

/// Whether a name suggests a lock: one of its words is lock, mutex, … or ends in "lock" as `redlock`, `joblock` do,
/// but not `block`, `clock`, `unlock`.
pub fn names_a_lock(key: &[u8]) -> bool {
    each_word(key).any(|word| match word.as_str() {
        "lock" | "locks" | "locked" | "mutex" | "mutexes" | "semaphore" | "lck" => true,
        word => {
            (word.ends_with("lock") || word.ends_with("locks") || word.starts_with("lock"))
                && !OTHER_WORDS.iter().any(|other| word.contains(other))
        }
    })
}

/// Words with "lock" in them that name something else.
const OTHER_WORDS: [&str; 10] =
    ["block", "clock", "unlock", "flock", "locker", "lockout", "lockdown", "lockscreen", "padlock", "locksmith"];

/// Whether the last word of a name says that it is a setting about locks: `locks:enabled`, `lock:timeout`.
pub fn names_a_setting(key: &[u8]) -> bool {
    const SETTINGS: [&str; 9] =
        ["enabled", "disabled", "config", "settings", "options", "timeout", "ttl", "version", "mode"];
    each_word(key).last().is_some_and(|word| SETTINGS.contains(&word.as_str()))
}

/// Whether a value says that nobody has it: a switch that is off is no lock.
fn says_no(text: &str) -> bool {
    const NOT_TAKEN: [&str; 9] = ["off", "no", "false", "none", "null", "nil", "disabled", "free", "unlocked"];
    NOT_TAKEN.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a value can be a token: short, on one line, and not a document.
pub fn could_be_token(value: &[u8]) -> bool {
    if value.is_empty() || value.len() > 200 {
        return false;
    }
    match std::str::from_utf8(value) {
        Ok(text) => {
            !text.contains(['\n', '\r', '<', '{'])
                && text.split(' ').count() <= 4
                && !text.chars().any(|c| c.is_control())
                && !says_no(text)
        }
        // Raw random bytes, as some libraries use them.
        Err(_) => (16..=32).contains(&value.len()),
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names() {
        assert_eq!(words(b"job-lock:default:Nightly"), ["job", "lock", "default", "nightly"]);
        assert_eq!(words(b"orderLock_17"), ["order", "lock", "17"]);
        assert!(names_a_lock(b"SINGLETONLOCK_ab12"));
        assert!(names_a_lock(b"redbeat::lock"));
        assert!(!names_a_lock(b"block:17"));
        assert!(!names_a_lock(b"clock"));
        assert!(!names_a_lock(b"blocked-users"));
        assert!(!names_a_lock(b"lockdown:status"));
        assert!(names_a_setting(b"locks:enabled") && names_a_setting(b"app.lockTimeout"));
        assert!(!names_a_setting(b"lock:timeout:17") && !names_a_setting(b"lock:order"));
    }

    #[test]
    fn a_uuid1_tells_its_time() {
        // uuid.UUID('c232ab00-9414-11ec-b3c8-9f6bdeced846') is 2022-02-22T19:22:22Z.
        assert_eq!(uuid1_hex_time(b"c232ab00941411ecb3c89f6bdeced846"), Some(Time(1_645_557_742_000)));
        assert_eq!(uuid1_hex_time(b"c232ab00941441ecb3c89f6bdeced846"), None);
    }

    #[test]
    fn base64_shapes() {
        assert!(is_base64(b"AAAAAAAAAAAAAAAAAAAAAA==", 16));
        assert!(is_base64(b"AAAAAAAAAAAAAAAAAAAAAAAA", 18));
        assert!(!is_base64(b"AAAAAAAAAAAAAAAAAAAAAAAA", 16));
    }
}
