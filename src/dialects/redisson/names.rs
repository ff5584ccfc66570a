//! The names of the keys and channels that Redisson keeps around a lock.
//!
//! They contain the lock's name in braces, so that all of them share a slot, unless the name has its own brace.

const HELPERS: [&[u8]; 4] =
    [b"redisson_unlock_latch:", b"redisson_lock_queue:", b"redisson_lock_timeout:", b"redisson_lock_token:"];
const READ_TIMEOUT: &[u8] = b":rwlock_timeout:";

/// `prefix:{NAME}`.
pub fn prefixed(prefix: &str, name: &[u8]) -> Vec<u8> {
    [prefix.as_bytes(), b":", &in_braces(name)].concat()
}

/// `{NAME}:suffix`.
pub fn suffixed(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    [&in_braces(name), b":".as_slice(), suffix].concat()
}

/// The name in front of `:suffix`. `{x}:suffix` may come from the name `x` or `{x}`; it is read as `x`, which people
/// use.
pub fn without_suffix<'a>(key: &'a [u8], suffix: &str) -> Option<&'a [u8]> {
    let name = key.strip_suffix(suffix.as_bytes())?.strip_suffix(b":")?;
    let inside = name.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    match inside {
        Some(inside) if !inside.contains(&b'{') && !inside.contains(&b'}') => Some(inside),
        _ => name.contains(&b'{').then_some(name),
    }
}

/// The channel on which waiters of a lock listen.
pub fn channel(name: &[u8]) -> Vec<u8> {
    prefixed("redisson_lock__channel", name)
}

/// Queues, deadlines, fencing counters, latches and the leases of single readers.
pub fn is_helper(key: &[u8]) -> bool {
    HELPERS.iter().any(|prefix| key.starts_with(prefix)) || of_read_timeout(key).is_some()
}

/// The part before `:rwlock_timeout:<n>`.
pub fn of_read_timeout(key: &[u8]) -> Option<&[u8]> {
    let number = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    key[..key.len() - number].strip_suffix(READ_TIMEOUT).filter(|_| number > 0)
}

fn in_braces(name: &[u8]) -> Vec<u8> {
    if name.contains(&b'{') { name.to_vec() } else { [b"{", name, b"}"].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_brace_gets_no_more_of_them() {
        assert_eq!(channel(b"lock:a"), b"redisson_lock__channel:{lock:a}");
        assert_eq!(channel(b"{map}:aGk=:lock"), b"redisson_lock__channel:{map}:aGk=:lock");
        assert_eq!(suffixed(b"s", b"timeout"), b"{s}:timeout");
        assert_eq!(suffixed(b"{app}:s", b"timeout"), b"{app}:s:timeout");
    }

    #[test]
    fn a_suffix_comes_off_again() {
        assert_eq!(without_suffix(b"{s}:timeout", "timeout"), Some(&b"s"[..]));
        assert_eq!(without_suffix(b"{app}:s:timeout", "timeout"), Some(&b"{app}:s"[..]));
        assert_eq!(without_suffix(b"{a}:{b}:timeout", "timeout"), Some(&b"{a}:{b}"[..]));
        assert_eq!(without_suffix(b"request:timeout", "timeout"), None, "Redisson would have put it in braces");
        assert_eq!(without_suffix(b"{s}:other", "timeout"), None);
    }

    #[test]
    fn companions_are_helpers_and_locks_are_not() {
        for helper in [
            &b"redisson_unlock_latch:{lock:a}:0123456789abcdef0123456789abcdef"[..],
            b"redisson_lock_queue:{lock:a}",
            b"redisson_lock_timeout:{map}:aGk=:fairlock",
            b"redisson_lock_token:{lock:a}",
            b"{lock:a}:2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57:rwlock_timeout:2",
        ] {
            assert!(is_helper(helper), "{}", crate::base::text::visible(helper));
        }
        for lock in [&b"lock:a"[..], b"my:rwlock_timeout:", b"redisson_lock", b"rwlock_timeout:a"] {
            assert!(!is_helper(lock), "{}", crate::base::text::visible(lock));
        }
    }
}
