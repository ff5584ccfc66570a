//! Medallion's DistributedLock.Redis (.NET): a holder's id is `<machine>_<pid>_<guid>`, so host and pid are readable.
//!
//! A mutex is a string under the caller's key. A reader-writer lock is a set `<name>.readers` and a string
//! `<name>.writer`; while a writer only waits for the readers to leave, its id ends in `_WRITERWAITING` and nobody
//! holds that key. A semaphore is a sorted set of ids by the time each ends. All are kept alive every 9 of 30 seconds.

use super::{Claim, Dialect, IfFreed, Obstacle, Release, Renewal, Sight, Step, Strength, Waiting, shape, sight};
use crate::base::time::Time;
use crate::lock::{Holder, Mode, RawValue};

pub struct Medallion;

const WAITING: &[u8] = b"_WRITERWAITING";
const WRITER: &[u8] = b".writer";
const READERS: &[u8] = b".readers";
const GUID_LEN: usize = 32;

/// Host and pid of an id.
fn machine_and_pid(id: &[u8]) -> Option<(&[u8], u64)> {
    let (rest, guid) = id.split_at_checked(id.len().checked_sub(GUID_LEN)?)?;
    let rest = rest.strip_suffix(b"_")?;
    let at = rest.iter().rposition(|byte| *byte == b'_')?;
    let host = &rest[..at];
    let plain = !host.is_empty() && host.len() <= 255 && !host.iter().any(|byte| byte.is_ascii_control());
    (shape::is_hex(guid, GUID_LEN) && plain).then_some((host, sight::pid(&rest[at + 1..])?))
}

fn is_id(id: &[u8]) -> bool {
    machine_and_pid(id).is_some()
}

fn holder(id: &[u8]) -> Holder {
    let mut holder = Holder::new(id);
    if let Some((host, pid)) = machine_and_pid(id) {
        holder.host = sight::name(host);
        holder.pid = Some(pid);
    }
    holder
}

/// Such an id is strong evidence even if the name does not suggest a lock.
fn weight(sight: &Sight<'_>) -> Strength {
    sight.weigh(Strength::Sure, Strength::Sure).unwrap_or(Strength::Possible)
}

fn a_writer_waits(sight: &Sight<'_>) -> bool {
    let id = sight.value.as_string().and_then(|value| value.strip_suffix(WAITING));
    sight.key.ends_with(WRITER) && id.is_some_and(is_id)
}

fn read_string(sight: &Sight<'_>) -> Option<Claim> {
    let id = sight.token()?;
    let writer = sight.key.ends_with(WRITER);
    let mode = if writer { Mode::Write } else { Mode::Exclusive };
    if a_writer_waits(sight) {
        return Some(Claim::lock(Strength::Certain, mode, Vec::new()));
    }
    let strength = sight.told_or(|| is_id(id).then(|| if writer { Strength::Certain } else { weight(sight) }))?;
    Some(Claim::lock(strength, mode, vec![holder(id)]))
}

fn read_readers(sight: &Sight<'_>, members: &[Box<[u8]>]) -> Option<Claim> {
    let fits = || !members.is_empty() && sight.key.ends_with(READERS) && members.iter().all(|id| is_id(id));
    let strength = sight.told_or(|| fits().then_some(Strength::Certain))?;
    Some(Claim::lock(strength, Mode::Read, members.iter().map(|id| holder(id)).collect()))
}

/// The permits that have not expired; expired ones stay in the set until a client asks for a permit.
fn live(members: &[(Box<[u8]>, f64)], now: Time) -> impl Iterator<Item = (&[u8], Time)> {
    let timed = members.iter().map(|(id, score)| (&**id, Time(*score as i64)));
    timed.filter(move |(_, until)| *until > now)
}

fn read_permits(sight: &Sight<'_>, members: &[(Box<[u8]>, f64)]) -> Option<Claim> {
    let fits = || !members.is_empty() && members.iter().all(|(id, _)| is_id(id));
    let strength = sight.told_or(|| fits().then(|| weight(sight)))?;
    let holders = live(members, sight.now).map(|(id, until)| Holder { until: Some(until), ..holder(id) }).collect();
    Some(Claim::lock(strength, Mode::Permit, holders))
}

const ONE_TTL: &str = "Readers share one TTL: the server does not show which of them still live.";

/// Takes one id out of the set of readers or of the permits.
fn remove(sight: &Sight<'_>, id: &[u8]) -> Step {
    let (key, member) = (sight.key.to_vec(), id.to_vec());
    match sight.value {
        RawValue::Set { .. } => Step::RemoveMember { key, member },
        _ => Step::RemoveScored { key, member },
    }
}

/// A permit is put back only before it expires, and only if a place is still free.
fn within_limit(sight: &Sight<'_>, release: Release) -> Release {
    let key = || sight.key.to_vec();
    release
        .unless(Obstacle::Ended { key: key(), lease_ms: 0 })
        .unless(Obstacle::Members { key: key(), lease_ms: Some(0) })
}

impl Medallion {
    /// Readers and a writer keep each other out.
    fn shut_out_by_other_half(&self, sight: &Sight<'_>, release: Release) -> Release {
        self.companions(sight).into_iter().map(Obstacle::Key).fold(release, Release::unless)
    }
}

impl Dialect for Medallion {
    fn name(&self) -> &'static str {
        "medallion"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "The key of a semaphore lives three times as long as a permit: what counts is the end of each permit.",
            "A writer that waits marks `<name>.writer`, and turns its own mark into its id once the readers have left: one holder.",
        ]
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*.readers", "*.writer"]
    }

    fn keeps_sets(&self, key: &[u8]) -> bool {
        key.ends_with(READERS)
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        match sight.value {
            RawValue::Set { members, .. } => read_readers(sight, members),
            RawValue::Zset { members, .. } => read_permits(sight, members),
            _ => read_string(sight),
        }
    }

    fn holds_by(&self, token: &[u8]) -> bool {
        !token.ends_with(WAITING)
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: 0.3 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its HandleLostToken is cancelled")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(400)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = match sight.value {
            // Only the holders that were seen: one that came later keeps its share.
            RawValue::Set { members, .. } => {
                members.iter().map(|id| remove(sight, id)).fold(Release::default(), Release::and).warn(ONE_TTL)
            }
            RawValue::Zset { members, .. } => {
                let all = live(members, sight.now).map(|(id, _)| remove(sight, id));
                within_limit(sight, all.fold(Release::default(), Release::and))
            }
            _ if a_writer_waits(sight) => Release::delete(sight.key)
                .warn("Nobody holds this key: a writer waits here for the readers to leave, and keeps new ones out."),
            _ => Release::delete(sight.key),
        };
        self.shut_out_by_other_half(sight, release)
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        let release = match sight.value {
            RawValue::Set { .. } => Release::default().and(remove(sight, token)).warn(ONE_TTL),
            RawValue::Zset { .. } => within_limit(sight, Release::default().and(remove(sight, token))),
            _ => return self.release(sight),
        };
        self.shut_out_by_other_half(sight, release)
    }

    /// The other half of a reader-writer lock.
    fn companions(&self, sight: &Sight<'_>) -> Vec<Vec<u8>> {
        let half = |of: &[u8], other: &[u8]| Some([sight.key.strip_suffix(of)?, other].concat());
        half(READERS, WRITER).or_else(|| half(WRITER, READERS)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Time;
    use crate::dialects::Step;
    use crate::dialects::trial::*;
    use crate::lock::{Mode, RawValue};

    const ID: &str = "WEB_EU-1_4711_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50";
    const OTHER: &str = "web2_9_f3a9c07be15d28466cb1709e5ad2488f";

    #[test]
    fn readers_and_writer_belong_together() {
        let value = RawValue::string(ID.as_bytes());
        assert_eq!(companions("medallion", "stock.readers", &value), ["stock.writer"]);
        assert_eq!(companions("medallion", "stock.writer", &value), ["stock.readers"]);
        assert_eq!(companions("medallion", "stock", &value), [""; 0]);
    }

    #[test]
    fn an_id_tells_host_and_pid() {
        let best = found("orders-lock", ID, seconds(25));
        assert!(surely(&best, "medallion"));
        let holder = holder(best);
        assert_eq!(
            (holder.host.as_ref().map(|text| text.visible()).as_deref(), holder.pid),
            (Some("WEB_EU-1"), Some(4711))
        );
    }

    #[test]
    fn a_writer_writes_and_readers_read() {
        let writer = found("orders.writer", ID, seconds(25));
        assert!(surely(&writer, "medallion"));
        assert_eq!(writer.unwrap().claim.mode, Mode::Write);
        let readers = RawValue::set([ID.as_bytes(), OTHER.as_bytes()]);
        let claim = found_value("orders.readers", &readers, seconds(25)).unwrap().claim;
        assert_eq!((claim.mode, claim.holders.len()), (Mode::Read, 2));
        assert_eq!(claim.holders[1].pid, Some(9));
    }

    #[test]
    fn a_writer_that_waits_does_not_hold() {
        let value = format!("{ID}_WRITERWAITING");
        let claim = found("orders.writer", &value, seconds(25)).unwrap().claim;
        assert_eq!((claim.mode, claim.holders.len()), (Mode::Write, 0));
        let release = release("medallion", "orders.writer", &RawValue::string(value.as_bytes()));
        assert!(release.hazards[0].starts_with("Nobody holds"));
    }

    #[test]
    fn a_permit_that_has_ended_is_nobodys() {
        let ahead = (NOW.0 + 20_000) as f64;
        let permits = RawValue::zset([(ID.as_bytes(), ahead), (OTHER.as_bytes(), (NOW.0 - 1) as f64)]);
        let best = found_value("orders-semaphore-lock", &permits, seconds(80));
        assert!(surely(&best, "medallion"));
        let claim = best.unwrap().claim;
        assert_eq!((claim.mode, claim.holders.len()), (Mode::Permit, 1));
        assert_eq!(claim.holders[0].until, Some(Time(NOW.0 + 20_000)));
        let steps = release("medallion", "orders-semaphore-lock", &permits).steps;
        let remove = Step::RemoveScored { key: b"orders-semaphore-lock".to_vec(), member: ID.as_bytes().to_vec() };
        assert_eq!(steps, [remove]);
    }

    #[test]
    fn a_release_removes_only_the_readers_that_were_seen() {
        let remove = |id: &str| Step::RemoveMember { key: b"orders.readers".to_vec(), member: id.as_bytes().to_vec() };
        let readers = RawValue::set([ID.as_bytes(), OTHER.as_bytes()]);
        assert_eq!(release("medallion", "orders.readers", &readers).steps, [remove(ID), remove(OTHER)]);
        assert_eq!(release_holder("medallion", "orders.readers", &readers, OTHER).steps, [remove(OTHER)]);
    }

    #[test]
    fn what_only_resembles_an_id_is_not_taken() {
        for value in
            ["web_x_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50", "_4711_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50", "web_4711_0b5e", "1"]
        {
            assert_ne!(names(&found("orders-lock", value, seconds(25))).0, "medallion", "{value}");
        }
        let names_of_people = RawValue::set([&b"anna"[..], b"bert"]);
        assert_eq!(names(&found_value("book.readers", &names_of_people, seconds(25))), ("", ""));
        assert_no_garbage("medallion", "orders.writer");
    }
}
