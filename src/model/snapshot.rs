//! Views of the table: each lock decoded and judged at one moment.

use std::collections::HashMap;

use super::table::Table;
use super::{HeldIs, Key, Kind, Lock, LockView, Mode, RawValue, RenewalView, Snapshot, Source, State, Time, Verdict};
use crate::dialects::{self, Claim, Renewal};

/// How long a lock must have been watched before "no renewals" means anything.
const WATCHED_MS: u64 = 1_000;

impl Table {
    /// All held locks and markers at `now`, worst first.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let mut locks: Vec<LockView> = self.locks().filter_map(|lock| self.view(lock, now)).collect();
        relate(&mut locks);
        Snapshot { at: now, locks, complete: self.is_complete(), dropped: self.locks_dropped() }
    }

    /// One lock at `now`, decoded; `None` where it was never read as a lock.
    pub fn view(&self, lock: &Lock, now: Time) -> Option<LockView> {
        let reading = lock.reading?;
        let dialect = dialects::dialect(reading.dialect);
        let ttl = lock.ttl(now);
        let holders = if lock.is_held() { self.holders(lock, now) } else { Vec::new() };
        let no_lease = dialect.renewal() == Renewal::NoLease;
        let verdict = match (lock.is_held(), reading.kind) {
            (false, _) => Verdict { state: State::Free, evidence: Vec::new(), confidence: 1.0 },
            (true, Kind::Marker) => Verdict { state: State::Done, evidence: Vec::new(), confidence: 1.0 },
            (true, Kind::Lock) if holders.is_empty() && !counts_permits(lock) => {
                Verdict { state: State::Free, evidence: vec!["nobody holds it right now".into()], confidence: 1.0 }
            }
            (true, Kind::Lock) => Verdict::of_held(ttl, no_lease, 1.0),
        };
        // Seen once only, its age is not known at all.
        let known_until = self.known_until(lock, now);
        let age_known = lock.is_held() && (lock.since_is != HeldIs::AtLeast || known_until > lock.since);
        let (name, second) = (dialect.name(), reading.second.filter(|_| reading.confidence < Claim::SURE));
        Some(LockView {
            node: lock.node,
            key: lock.key.clone(),
            kind: reading.kind,
            type_name: lock.value.type_name().to_string(),
            dialect: name,
            dialect_confidence: reading.confidence,
            second_choice: second.map(|(id, confidence)| (dialects::dialect(id).name(), confidence)),
            mode: reading.mode,
            verdict,
            holders,
            ttl,
            lease_ms: lock.lease_ms.map(u64::from),
            held_ms: age_known.then(|| now.since(lock.since).as_millis() as u64),
            held_is: age_known.then_some(lock.since_is),
            renewals: renewals(lock, dialect.renewal(), known_until, now),
            fencing_token: None,
            related: None,
            value: lock.value.clone(),
            past: lock.past().cloned().collect(),
            confirmed: lock.confirmed,
            stale: self.is_stale(lock),
            source: self.source(lock.node).unwrap_or(Source::Scan),
        })
    }
}

/// A bare counter of permits names nobody.
fn counts_permits(lock: &Lock) -> bool {
    matches!(lock.value, RawValue::Str { .. }) && lock.reading.is_some_and(|reading| reading.mode == Mode::Permit)
}

fn renewals(lock: &Lock, renewal: Renewal, known_until: Time, now: Time) -> Option<RenewalView> {
    let beats = lock.beats();
    let watched = known_until.since(lock.first_seen).as_millis() as u64;
    if !lock.is_held() || (beats.is_none() && watched < WATCHED_MS) {
        return None;
    }
    let lease = lock.lease_ms.map(f64::from);
    let expected_ms = match renewal {
        Renewal::Watchdog { share } => lease.map(|lease| (lease * f64::from(share)) as u64),
        Renewal::Optional { share } if beats.is_some() => lease.map(|lease| (lease * f64::from(share)) as u64),
        _ => None,
    };
    let last_ms = beats.and_then(|beats| beats.last()).map(|last| now.since(last).as_millis() as u64);
    let period_ms = beats.and_then(|beats| beats.period_ms());
    let missed = match (last_ms, period_ms.or(expected_ms)) {
        (Some(last), Some(period)) if period > 0 => Some(if last * 2 > period * 3 { last / period } else { 0 }),
        _ => None,
    };
    Some(RenewalView { count: beats.map_or(0, |beats| beats.count), last_ms, period_ms, expected_ms, missed })
}

/// Puts markers and locks of the same id side by side: `completed:17` and `lock:17`.
fn relate(locks: &mut [LockView]) {
    let markers: HashMap<Vec<u8>, usize> = locks
        .iter()
        .enumerate()
        .filter(|(_, lock)| lock.kind == Kind::Marker)
        .filter_map(|(index, lock)| Some((id_of(&lock.key)?.to_vec(), index)))
        .collect();
    if markers.is_empty() {
        return;
    }
    for index in 0..locks.len() {
        let lock = &locks[index];
        if lock.kind == Kind::Lock
            && let Some(&marker) = id_of(&lock.key).and_then(|id| markers.get(id))
            && locks[marker].node == lock.node
        {
            let (lock_key, marker_key) = (lock.key.clone(), locks[marker].key.clone());
            locks[index].related = Some(marker_key);
            locks[marker].related = Some(lock_key);
        }
    }
}

/// What stands behind the first colon.
fn id_of(key: &Key) -> Option<&[u8]> {
    let bytes = key.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some(&bytes[colon + 1..]).filter(|id| !id.is_empty())
}
