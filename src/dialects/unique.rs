//! Whether a token belongs to only one hold. Pure.
//!
//! A random token distinguishes two holds of a lock; `1`, a host's name or a thread's number does not. In doubt a token
//! is not unique: then the lease is compared too, and at worst the operator has to look twice.

use super::shape;

/// A random part has at least this many characters, and at least this many different ones.
const LONG: usize = 16;
const DIFFERENT: usize = 8;
/// A longer run of lower-case letters is a word.
const WORD: usize = 6;
/// The length of a UUID with its dashes.
const UUID: usize = 36;

/// Whether it is so random that no other hold has it.
pub fn is_unique(token: &[u8]) -> bool {
    // Random bytes rarely repeat; the bytes of a serialised value do.
    let Ok(text) = std::str::from_utf8(token) else {
        return token.len() >= LONG && different(token) * 4 >= token.len() * 3;
    };
    has_uuid(token) || has_time(text) || !is_machine(token) && (is_16_bytes(token) || parts(token).any(is_random))
}

/// The id that a cloud gives a virtual machine: `i-0abcd1234ef567890`.
fn is_machine(token: &[u8]) -> bool {
    let id = token.strip_prefix(b"i-").unwrap_or_default();
    [8, 17].contains(&id.len()) && id.iter().all(u8::is_ascii_hexdigit)
}

fn has_uuid(token: &[u8]) -> bool {
    token.windows(UUID).any(|part| shape::is_uuid(part) && different(part) >= DIFFERENT)
}

/// A time to the millisecond, as some libraries write it: two holds do not begin in the same millisecond.
fn has_time(text: &str) -> bool {
    text.split('@').any(|part| {
        let at = part.find("20").map(|at| &part[at..]);
        at.is_some_and(|time| time.contains('.') && shape::iso_time(time).is_some())
    })
}

/// The whole token, if it may be base64, and its parts.
fn parts(token: &[u8]) -> impl Iterator<Item = &[u8]> {
    let plain = token.strip_suffix(b"==").or(token.strip_suffix(b"=")).unwrap_or(token);
    let base64 = plain.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/_-".contains(byte));
    let whole = Some(plain).filter(|plain| base64 && !is_words(plain));
    whole.into_iter().chain(token.split(|byte| !byte.is_ascii_alphanumeric()))
}

/// 16 random bytes in URL-safe base64. They may have as many separators as a name, but the case changes more often.
fn is_16_bytes(text: &[u8]) -> bool {
    const LEN: usize = 22;
    let fits = shape::is_base64_url(text, LEN) && shape::ends_as_16_bytes(text) && shape::is_mixed_case(text);
    fits && is_restless(text)
}

/// Parts with separators between them, as names of hosts, pods and machines have: `web-7d9f-x2x4z`, `i-0abc1234`. Those
/// have no capitals; random letters of that length do.
fn is_words(text: &[u8]) -> bool {
    let separators = text.iter().filter(|byte| b"_-".contains(byte)).count();
    separators * 8 > text.len() || separators > 0 && !text.iter().any(u8::is_ascii_uppercase)
}

fn is_random(part: &[u8]) -> bool {
    let letters = part.iter().any(u8::is_ascii_alphabetic);
    let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
    let word = part.split(|byte| !byte.is_ascii_lowercase()).map(<[u8]>::len).max().unwrap_or(0);
    let no_name = digits > 0 && word <= WORD && turns(part) * 5 >= part.len();
    part.len() >= LONG && letters && different(part) >= DIFFERENT && (is_restless(part) || no_name)
}

/// Random text changes between lower case, upper case and digit at about every second character; names rarely do.
fn is_restless(part: &[u8]) -> bool {
    turns(part) * 5 >= part.len() * 2
}

/// Counts such changes. A dash or an underscore does not count: names have those between their words.
fn turns(part: &[u8]) -> usize {
    let turn = |pair: &&[u8]| class(pair[0]) != class(pair[1]) && !pair.iter().any(|byte| b"_-".contains(byte));
    part.windows(2).filter(turn).count()
}

fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

fn different(bytes: &[u8]) -> usize {
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_are_unique() {
        for token in [
            "3f2a8c00-1111-4222-8333-444455556666:57",
            "0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50",
            "q6bGZ0cQ1m3yq8Vb0h9s5kXo",
            "UCs3Yk0xZ1lHc0pUd2FmZQ==",
            "c232ab00941411ecb3c89f6bdeced846",
            "507f1f77bcf86cd799439011",
            "WEB-02_910_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50",
            "lockscope-test:host:17:0b5e7c1a94f24d3b8e6a2f1c9d7b3a50",
            "ADDED:2026-11-16T04:01:46.123Z@worker-3",
            "h8Kd03JsLq91ZxPw",
            "q-oZ5RVloZeU_-BgegCzVg",
        ] {
            assert!(is_unique(token.as_bytes()), "{token}");
        }
        assert!(is_unique(b"\x00\x9f\x13\xfe5678abcdef\xff\x01"));
    }

    #[test]
    fn names_numbers_and_words_are_not() {
        for token in [
            "",
            "1",
            "0",
            "locked",
            "true",
            "worker-7",
            "web-1:4242",
            "ip-10-0-3-17.eu-west-1.compute.internal",
            "billing-worker-7d9f8b6c5d-x2x4z:17",
            "pool-1-thread-12",
            "ThreadPoolExecutor-0_3",
            "ThreadPoolExecutor12",
            "Pool-A1-Thr-3-Wor-B-1g",
            "Job-Queue_Eu-West-1-DbQ",
            "MainThread:140234567890123",
            "1759999000",
            "140735293485888",
            "00000000-0000-0000-0000-000000000000",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "backgroundworker1",
            "ADDED:2026-11-16T04:01:46Z@worker-3",
        ] {
            assert!(!is_unique(token.as_bytes()), "{token}");
        }
        assert!(!is_unique(b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe"));
    }

    #[test]
    fn nearly_all_tokens_that_libraries_make_are_found_to_be_random() {
        use base64::Engine;
        let random = |count: usize| {
            let mut bytes = vec![0u8; count];
            getrandom::fill(&mut bytes).expect("random bytes");
            bytes
        };
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let base64 = |bytes: Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
        let url = |bytes: Vec<u8>| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        for make in [
            &(|| hex(random(16))) as &dyn Fn() -> String,
            &|| hex(random(20)),
            &|| base64(random(16)),
            &|| base64(random(18)),
            &|| url(random(16)),
        ] {
            let found = (0..1_000).filter(|_| is_unique(make().as_bytes())).count();
            assert!(found > 950, "{found} of 1,000 such as {}", make());
        }
    }

    #[test]
    fn a_serialised_constant_is_not_random() {
        assert!(!is_unique(b"\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x011\x94."), "a pickled 1");
        assert!(is_unique(b"\xff\x83H\x1d\x82\xe5\x828Q\xa9\x18\x92\xded\xfc6\xd149\xc4"), "20 random bytes");
        assert!(!is_unique(b"i-0abcd1234ef567890") && !is_unique(b"billing-worker-7d9f8b6c5-x2k4p"));
    }
}
