//! The pattern of a lock's name: the name without its ids. Locks of one pattern do the same work on different things,
//! so what is usual for one is usual for all.

/// Only this many bytes of a name are used for its pattern.
const LONGEST: usize = 200;
/// A word of at least this many hex digits is an id, if it contains a number.
const HEX: usize = 8;
/// A word of at least this many mixed letters and numbers is an id.
const MIXED: usize = 16;
const UUID: usize = 36;

/// Writes the pattern of `key` into `out`: each id as one `*`.
pub(in crate::model) fn write(key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let key = &key[..key.len().min(LONGEST)];
    let mut at = 0;
    while at < key.len() {
        let rest = &key[at..];
        if is_uuid(rest) {
            star(out);
            at += UUID;
            continue;
        }
        let length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if length == 0 {
            out.push(rest[0]);
            at += 1;
            continue;
        }
        word(&rest[..length], out);
        at += length;
    }
}

/// The pattern of a key as every reader shows it.
pub fn name(key: &[u8]) -> String {
    let mut pattern = Vec::new();
    write(key, &mut pattern);
    crate::base::text::visible(&pattern)
}

fn word(word: &[u8], out: &mut Vec<u8>) {
    let numbers = word.iter().any(u8::is_ascii_digit);
    let hex = word.len() >= HEX && word.iter().all(u8::is_ascii_hexdigit);
    if numbers && (hex || word.len() >= MIXED) {
        return star(out);
    }
    for byte in word {
        if byte.is_ascii_digit() { star(out) } else { out.push(*byte) }
    }
}

fn star(out: &mut Vec<u8>) {
    if out.last() != Some(&b'*') {
        out.push(b'*');
    }
}

fn is_uuid(text: &[u8]) -> bool {
    let ends = text.get(UUID).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    text.len() >= UUID && ends && crate::dialects::shape::is_uuid(&text[..UUID])
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_taken_out_and_words_stay() {
        for (key, expected) in [
            ("lock:order:8841", "lock:order:*"),
            ("orders-lock:17:item-3", "orders-lock:*:item-*"),
            ("lock:worker12", "lock:worker*"),
            ("lock:3f2a8c00-beef-4222-8333-444455556666:x", "lock:*:x"),
            ("SINGLETONLOCK_9e107d9d372bb6826bd81d3542a419d6", "SINGLETONLOCK_*"),
            ("lock:facade", "lock:facade"),
            ("lock:deadbeef", "lock:deadbeef"),
            ("lock:deadbee7", "lock:*"),
            ("{user:42}:lock", "{user:*}:lock"),
            ("lock:2026-11-16", "lock:*-*-*"),
            ("", ""),
        ] {
            let mut out = Vec::new();
            super::write(key.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn a_name_without_end_makes_a_short_pattern() {
        let mut out = Vec::new();
        super::write(&[b'x'; 100_000], &mut out);
        assert_eq!(out.len(), super::LONGEST);
    }
}
