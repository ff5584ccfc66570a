//! RReadWriteLock: a hash with a `mode`, readers as `uuid:thread`, a writer as `uuid:thread:write`.
//!
//! Each hold of a reader has a lease of its own in a string beside the hash, `{NAME}:uuid:thread:rwlock_timeout:<n>`.
//! A writer may read too; it is one holder then, known by its write field.

use super::lock::{count, holder};
use super::{Fields, names};
use crate::dialects::{Claim, Obstacle, Premise, Release, Step, Strength};
use crate::lock::{Holder, Mode, Token};

pub const MODE: &[u8] = b"mode";
const READ: &[u8] = b"read";
const WRITER: &[u8] = b":write";
/// The message that wakes all waiters, not just one.
const WAKE_ALL: &[u8] = b"1";
/// At most this many leases of one reader are deleted; the rest expire by themselves.
const LEASES_DELETED: i64 = 32;

/// Who holds by this field, whether it reads or writes: a writer that reads on after its write is still the same.
pub fn thread_of(field: &[u8]) -> &[u8] {
    field.strip_suffix(WRITER).filter(|id| holder(id).is_some()).unwrap_or(field)
}

/// The mode that the hash says it is in, if it is a read-write lock.
pub fn mode(fields: Fields<'_>) -> Option<Mode> {
    let (_, value) = fields.iter().find(|(field, _)| **field == *MODE)?;
    match &**value {
        READ => Some(Mode::Read),
        b"write" => Some(Mode::Write),
        _ => None,
    }
}

pub fn read(fields: Fields<'_>, mode: Mode, mapped: bool) -> Option<Claim> {
    let mut holders: Vec<Holder> = Vec::new();
    for (field, value) in fields.iter().filter(|(field, _)| **field != *MODE) {
        let count = count(value)?;
        let (id, its_mode) = match field.strip_suffix(WRITER) {
            Some(id) => (id, Mode::Write),
            None => (&**field, Mode::Read),
        };
        let holder = holder(id)?;
        holders.push(Holder {
            token: Token::from(&**field),
            count: Some(count),
            mode: (its_mode != mode).then_some(its_mode),
            ..holder
        });
    }
    // A hash with only the mode still blocks writers, but nobody holds it.
    if holders.is_empty() && !mapped {
        return None;
    }
    Some(Claim::lock(Strength::Certain, mode, one_per_thread(holders)))
}

/// Adds the reads of a thread that also writes to its write.
fn one_per_thread(holders: Vec<Holder>) -> Vec<Holder> {
    let same = |a: &Holder, b: &Holder| a.client == b.client && a.thread == b.thread;
    let (mut writers, readers): (Vec<Holder>, Vec<Holder>) =
        holders.into_iter().partition(|holder| holder.token.as_bytes().ends_with(WRITER));
    let mut others = Vec::new();
    for reader in readers {
        match writers.iter_mut().find(|writer| same(writer, &reader)) {
            Some(writer) => writer.count = writer.count.zip(reader.count).map(|(a, b)| a.saturating_add(b)),
            None => others.push(reader),
        }
    }
    writers.append(&mut others);
    writers
}

pub fn channel(name: &[u8]) -> Vec<u8> {
    names::prefixed("redisson_rwlock", name)
}

pub fn release(name: &[u8], fields: Fields<'_>) -> Release {
    let mut release = Release::delete(name).and(wake(name));
    release.steps.extend(all_leases(name, fields).map(Step::Delete));
    release
}

/// The leases of one reader.
pub fn leases_of(name: &[u8], fields: Fields<'_>, reader: &[u8]) -> Vec<Vec<u8>> {
    let its = fields.iter().find(|(field, _)| **field == *reader);
    its.map(|(_, value)| leases(name, reader, value).collect()).unwrap_or_default()
}

/// The lock and the reader whose lease a key is: `{NAME}:uuid:thread:rwlock_timeout:<n>`.
pub fn lease_of(key: &[u8]) -> Option<(Vec<u8>, Token)> {
    let lease = names::of_read_timeout(key)?;
    let mut colons = lease.iter().enumerate().rev().filter(|(_, byte)| **byte == b':').map(|(index, _)| index);
    let at = colons.nth(1)?;
    let reader = &lease[at + 1..];
    holder(reader)?;
    Some((names::without_suffix(lease, std::str::from_utf8(reader).ok()?)?.to_vec(), Token::from(reader)))
}

/// Takes one reader out, and frees the lock if it was the last.
pub fn release_reader(name: &[u8], fields: Fields<'_>, reader: &[u8]) -> Release {
    let mut steps = vec![Step::DeleteField { key: name.to_vec(), field: reader.to_vec() }];
    let leases = leases_of(name, fields, reader);
    steps.extend(leases.iter().cloned().map(Step::Delete));
    // As the library's own unlock does: writers must not wait for the lease of a reader that is gone.
    if fields.iter().any(|(field, _)| **field != *MODE && **field != *reader) {
        steps.push(Step::LastAsReaders { key: name.to_vec(), prefix: names::suffixed(name, b"") });
    }
    steps.push(Step::WhenEmptied {
        key: name.to_vec(),
        besides: Some(MODE.to_vec()),
        then: vec![Step::Delete(name.to_vec()), wake(name)],
    });
    let reads = Premise::Field { key: name.to_vec(), field: MODE.to_vec(), value: READ.to_vec() };
    Release { steps, ..Release::default() }
        .while_so(reads)
        .unless(Obstacle::Mode { key: name.to_vec(), field: MODE.to_vec(), value: READ.to_vec() })
        .unless(Obstacle::Leases(leases))
}

fn wake(name: &[u8]) -> Step {
    Step::Publish { channel: channel(name), message: WAKE_ALL.to_vec() }
}

/// The keys of the leases of all readers.
pub fn all_leases(name: &[u8], fields: Fields<'_>) -> impl Iterator<Item = Vec<u8>> {
    let readers = fields.iter().filter(|(field, _)| holder(field).is_some());
    readers.flat_map(move |(reader, value)| leases(name, reader, value))
}

fn leases(name: &[u8], reader: &[u8], value: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
    let prefix = [&names::suffixed(name, reader), b":rwlock_timeout:".as_slice()].concat();
    let holds = count(value).unwrap_or(0).min(LEASES_DELETED);
    (1..=holds).map(move |n| [prefix.as_slice(), n.to_string().as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::super::Redisson;
    use super::super::tests::{A57, B9};
    use crate::dialects::testing::{hash, mapped, recognised, sight};
    use crate::dialects::{Dialect, Waiting};
    use crate::lock::Mode;

    #[test]
    fn a_lease_tells_whose_it_is() {
        let of = |key: &str| super::lease_of(key.as_bytes()).map(|(name, token)| (name, token.as_bytes().to_vec()));
        let (a57, expected) = (super::super::tests::A57, |name: &str| Some((name.into(), A57.as_bytes().to_vec())));
        assert_eq!(of(&format!("{{lock:a}}:{a57}:rwlock_timeout:1")), expected("lock:a"));
        assert_eq!(of(&format!("{{app}}:a:{a57}:rwlock_timeout:12")), expected("{app}:a"));
        for other in ["{lock:a}:somebody:1:rwlock_timeout:1", "lock:a", ":rwlock_timeout:1"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn readers_are_several_holders() {
        let value = hash(&[("mode", "read"), (A57, "2"), (B9, "1")]);
        let (dialect, claim) = recognised(b"lock:catalogue", &value).unwrap();
        assert_eq!((dialect, claim.mode), ("redisson", Mode::Read));
        let counts: Vec<_> = claim.holders.iter().map(|holder| (holder.count, holder.mode)).collect();
        assert_eq!(counts, [(Some(2), None), (Some(1), None)]);
    }

    #[test]
    fn a_writer_that_also_reads_is_one_holder() {
        let writer = format!("{A57}:write");
        let value = hash(&[("mode", "write"), (A57, "2"), (&writer, "1")]);
        let (_, claim) = recognised(b"lock:catalogue", &value).unwrap();
        assert_eq!(claim.mode, Mode::Write);
        let [holder] = claim.holders.as_slice() else { panic!("{:?}", claim.holders) };
        assert_eq!(holder.token.as_bytes(), writer.as_bytes());
        assert_eq!(holder.thread.as_ref().map(|text| text.visible()).as_deref(), Some("57"));
        assert_eq!((holder.count, holder.mode), (Some(3), None));
    }

    #[test]
    fn a_hash_that_merely_has_a_mode_is_not_taken() {
        for fields in [
            &[("mode", "read"), ("size", "3")][..],
            &[("mode", "fast"), (A57, "1")],
            &[("mode", "read"), (A57, "x")],
            &[("mode", "read")],
        ] {
            assert_eq!(Redisson.read(&sight(b"lock:a", &hash(fields))), None, "{fields:?}");
        }
        let leftover = hash(&[("mode", "read")]);
        assert_eq!(Redisson.read(&mapped(b"lock:a", &leftover)).unwrap().holders, []);
    }

    #[test]
    fn freeing_wakes_all_and_ends_the_readers_leases() {
        let value = hash(&[("mode", "read"), (A57, "2")]);
        let sight = sight(b"lock:a", &value);
        let lease = format!("DEL {{lock:a}}:{A57}:rwlock_timeout:");
        let expected = [
            "DEL lock:a".into(),
            "PUBLISH redisson_rwlock:{lock:a} 1".into(),
            format!("{lease}1"),
            format!("{lease}2"),
        ];
        assert_eq!(Redisson.release(&sight).describe(), expected);
        assert_eq!(Redisson.waiting(&sight), Waiting::Channel(b"redisson_rwlock:{lock:a}".to_vec()));
    }

    #[test]
    fn a_dead_reader_goes_without_the_others() {
        let value = hash(&[("mode", "read"), (A57, "1"), (B9, "1")]);
        let lines = Redisson.release_holder(&sight(b"lock:a", &value), B9.as_bytes()).describe();
        assert_eq!(
            lines,
            [
                format!("HDEL lock:a {B9}"),
                format!("DEL {{lock:a}}:{B9}:rwlock_timeout:1"),
                "PEXPIRE lock:a <the longest lease of the readers that stay>".into(),
                "if nothing but mode is left in lock:a: DEL lock:a; PUBLISH redisson_rwlock:{lock:a} 1".into(),
            ]
        );
    }

    #[test]
    fn a_writer_goes_with_its_lock() {
        let writer = format!("{A57}:write");
        let value = hash(&[("mode", "write"), (&writer, "1")]);
        let sight = sight(b"lock:a", &value);
        assert_eq!(Redisson.release_holder(&sight, writer.as_bytes()), Redisson.release(&sight));
        assert_eq!(Redisson.release(&sight).describe(), ["DEL lock:a", "PUBLISH redisson_rwlock:{lock:a} 1"]);
    }

    #[test]
    fn the_leases_of_its_readers_belong_to_it() {
        let value = hash(&[("mode", "read"), (A57, "2"), (B9, "1")]);
        let keys = Redisson.companions(&sight(b"lock:a", &value));
        let lease = |reader: &str, n: u8| format!("{{lock:a}}:{reader}:rwlock_timeout:{n}").into_bytes();
        assert_eq!(keys, [lease(A57, 1), lease(A57, 2), lease(B9, 1)]);
    }

    #[test]
    fn a_huge_count_does_not_make_a_huge_release() {
        let value = hash(&[("mode", "read"), (A57, "9223372036854775807")]);
        assert!(Redisson.release(&sight(b"lock:a", &value)).steps.len() < 40);
    }
}
