//! What lockscope itself leaves on a server: the tokens of its test locks, and the counts beside a lock.
//!
//! Names only, and pure. Test locks get their token from [`test_token`], so that everybody can distinguish them from an
//! application's locks.

use super::{shape, sight};
use crate::base::server_text::ServerText;
use crate::lock::Holder;

const TEST: &[u8] = b"lockscope-test:";
const COUNTS: (&[u8], &[u8]) = (b"lockscope:", b":counts");

/// The token of a test lock: `lockscope-test:<host>:<pid>:<random>`.
pub fn test_token(host: &str, pid: u32, random: [u8; 16]) -> Vec<u8> {
    // The shown token must equal the stored one, so the host's name must not contain escapes or separators.
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')).collect();
    let host = if host.is_empty() { "unknown".to_string() } else { host };
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("lockscope-test:{host}:{pid}:{random}").into_bytes()
}

/// Host and process in the token of a test lock; `None` for everybody else's.
pub fn test_holder(token: &[u8]) -> Option<(ServerText, u64)> {
    let mut parts = token.strip_prefix(TEST)?.split(|byte| *byte == b':');
    let (host, pid, random) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !shape::is_hex(random, 32) {
        return None;
    }
    Some((sight::name(host)?, sight::pid(pid)?))
}

/// Fills in what the token of a test lock says about its holder.
pub fn tell(holder: &mut Holder) {
    if let Some((host, pid)) = test_holder(holder.token.as_bytes()) {
        holder.host = Some(host);
        holder.pid = Some(pid);
    }
}

/// The key where the counting scripts count attempts at a lock, in the same slot of a cluster.
///
/// A name with a closing brace but no hash tag can't have such a key; its counts key works only outside clusters.
pub fn counts_key(lock: &[u8]) -> Vec<u8> {
    let (before, after) = COUNTS;
    if has_tag(lock) { [before, lock, after].concat() } else { [before, b"{", lock, b"}", after].concat() }
}

/// Whether a key holds counts and is not a lock.
pub fn is_counts_key(key: &[u8]) -> bool {
    let (before, after) = COUNTS;
    let inner = key.strip_prefix(before).and_then(|key| key.strip_suffix(after));
    inner.is_some_and(has_tag)
}

/// Whether a cluster hashes only a part of the name: the first part between braces, if it is not empty.
fn has_tag(name: &[u8]) -> bool {
    let Some(open) = name.iter().position(|byte| *byte == b'{') else { return false };
    name[open + 1..].iter().position(|byte| *byte == b'}').is_some_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::testing::{hash, recognised};
    use crate::lock::RawValue;

    fn token() -> Vec<u8> {
        test_token("web-3.example", 812, [0xab; 16])
    }

    #[test]
    fn a_test_lock_tells_its_host_and_process() {
        assert_eq!(test_holder(&token()), Some(("web-3.example".into(), 812)));
        for other in [&b"lockscope-test:"[..], b"lockscope-test:h:1:x", b"lockscope-test:h:x:00", b"web-3:812"] {
            assert_eq!(test_holder(other), None);
        }
        assert_eq!(test_holder(&test_token("\u{1b}:", 1, [0; 16])), Some(("unknown".into(), 1)));
    }

    #[test]
    fn test_locks_read_as_what_they_are() {
        let field = String::from_utf8(token()).unwrap();
        let values = [("plain", RawValue::string(&token())), ("reentrant", hash(&[(&field, "1")]))];
        for (dialect, value) in values {
            let (name, claim) = recognised(b"lock:import", &value).unwrap();
            assert_eq!((name, claim.holders[0].pid), (dialect, Some(812)));
            assert_eq!(claim.holders[0].host.as_ref().map(|text| text.visible()).as_deref(), Some("web-3.example"));
        }
    }

    #[test]
    fn counts_are_named_after_their_lock_and_are_none() {
        assert_eq!(counts_key(b"lock:a"), b"lockscope:{lock:a}:counts");
        assert_eq!(counts_key(b"lock:{a}:b"), b"lockscope:lock:{a}:b:counts");
        assert_eq!(counts_key(b"lock{a"), b"lockscope:{lock{a}:counts");
        for lock in [&b"lock:a"[..], b"lock:{a}:b", b"lock:{}", b"lock}"] {
            assert!(is_counts_key(&counts_key(lock)), "{}", crate::base::text::visible(lock));
        }
        assert!(!is_counts_key(b"lockscope:lock:counts") && !is_counts_key(b"lock:{a}:counts"));
    }
}
