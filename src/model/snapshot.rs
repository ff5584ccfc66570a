//! Views of the table: each lock decoded and judged at one moment.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::table::Table;
use super::touched;
use super::{
    Beats, HeldIs, Key, Kind, Lock, LockView, Mode, RenewalView, Snapshot, Source, State, Time, Verdict, Waits,
};
use crate::dialects::{self, Claim, Renewal};
use crate::text::short_duration;
use crate::watchdog_probe::cadence::Cadence;

/// How long a lock must have been watched before "no renewals" means anything.
const WATCHED_MS: u64 = 1_000;

impl Table {
    /// All held locks and markers at `now`, worst first.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        // In order before they are decoded: a view is too large to be moved about.
        let badness = |lock: &Lock| (self.state(lock, now), Reverse(self.held_for(lock, now).map(|(ms, _)| ms)));
        let mut order: Vec<_> = self.locks().map(|lock| (badness(lock), &lock.key, lock.node, lock)).collect();
        order.sort_unstable_by_key(|&(badness, key, node, _)| (badness, key, node));
        let mut locks: Vec<LockView> = order.into_iter().filter_map(|(.., lock)| self.view(lock, now)).collect();
        relate(&mut locks);
        Snapshot { at: now, locks, complete: self.is_complete(), dropped: self.locks_dropped() }
    }

    /// The verdict on one lock at `now`.
    pub fn judge(&self, lock: &Lock, now: Time) -> Verdict {
        let state = self.state(lock, now);
        let mut evidence = match state {
            State::NoTtl => {
                let all = lock
                    .reading
                    .is_some_and(|reading| dialects::dialect(reading.dialect).renewal() == Renewal::NoLease);
                vec![Verdict::no_ttl_sentence(all)]
            }
            State::Free if lock.is_held() => vec!["nobody holds it right now".into()],
            State::Free => lock.past().last().map(|hold| Verdict::free_sentence(hold, now)).into_iter().collect(),
            State::Stalled => {
                lock.cadence(now).map(|cadence| stalled_sentence(lock, cadence, now)).into_iter().collect()
            }
            State::Test => vec!["lockscope took it, as a test".into()],
            State::Contended | State::Held | State::Done => Vec::new(),
        };
        // Whoever is about to free it has to know who waits for it.
        let waits = lock.waits(now).filter(|waits| waits.count > 0 && lock.is_held());
        evidence.extend(waits.map(|waits| waits.sentence(now)));
        // Where attempts are counted, they say more.
        let wanted = lock.wanted(now).filter(|_| lock.is_held() && lock.tries(now).is_none());
        evidence.extend(wanted.map(|wanted| touched::sentence(wanted, now)));
        Verdict { state, evidence, confidence: 1.0 }
    }

    /// The state word alone: cheap enough to ask of every lock.
    pub fn state(&self, lock: &Lock, now: Time) -> State {
        match lock.reading {
            _ if !lock.is_held() => State::Free,
            Some(reading) if reading.kind == Kind::Marker => State::Done,
            Some(reading) if reading.vacant => State::Free,
            _ if lock.expires.is_none() => State::NoTtl,
            Some(reading) if self.is_stalled(lock, reading.mode, now) => State::Stalled,
            _ if lock.waits(now).is_some_and(|waits| waits.count >= Waits::MANY) => State::Contended,
            Some(reading) if reading.test => State::Test,
            _ => State::Held,
        }
    }

    fn is_stalled(&self, lock: &Lock, mode: Mode, now: Time) -> bool {
        // Of a lock that many hold, the renewals of one hide those of another.
        let alone = matches!(mode, Mode::Exclusive | Mode::Write);
        alone && self.told_of(lock) && lock.cadence(now).is_some_and(|cadence| cadence.missed > 0)
    }

    /// How long it has been held at `now`, and how well that is known.
    pub fn held_for(&self, lock: &Lock, now: Time) -> Option<(u64, HeldIs)> {
        // Seen once only, its age is not known at all.
        let known = lock.is_held() && (lock.since_is != HeldIs::AtLeast || self.known_until(lock, now) > lock.since);
        known.then(|| (now.since(lock.since).as_millis() as u64, lock.since_is))
    }

    /// One lock at `now`, decoded; `None` where it was never read as a lock.
    pub fn view(&self, lock: &Lock, now: Time) -> Option<LockView> {
        let reading = lock.reading?;
        let dialect = dialects::dialect(reading.dialect);
        let ttl = lock.ttl(now);
        let holders = if lock.is_held() { self.holders(lock, now) } else { Vec::new() };
        let verdict = self.judge(lock, now);
        let held = self.held_for(lock, now);
        let known_until = self.known_until(lock, now);
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
            held_ms: held.map(|(ms, _)| ms),
            held_is: held.map(|(_, is)| is),
            beats: lock.beats().map(|beats| beats.recent().collect()).unwrap_or_default(),
            waits: lock.waits(now).filter(|_| lock.is_held()),
            tries: lock.tries(now),
            wanted: lock.wanted(now).filter(|_| lock.is_held()),
            contenders: lock.contention().map(|contention| contention.contenders().to_vec()).unwrap_or_default(),
            connection: self.connection(lock).cloned(),
            findings: Vec::new(),
            renewals: renewals(lock, known_until, self.heard_until(lock, now), now),
            fencing_token: None,
            related: None,
            value: lock.value.clone(),
            past: lock.past().cloned().collect(),
            confirmed: lock.confirmed,
            stale: self.is_stale(lock),
            source: self.source(lock.node).unwrap_or(Source::Scan),
            at: now,
        })
    }
}

/// A renewal that nobody could have told us of is not missed: that is judged at `heard_until`.
fn renewals(lock: &Lock, known_until: Time, heard_until: Time, now: Time) -> Option<RenewalView> {
    let beats = lock.beats();
    let watched = known_until.since(lock.first_seen).as_millis() as u64;
    if !lock.is_held() || (beats.is_none() && watched < WATCHED_MS) {
        return None;
    }
    let cadence = lock.cadence(heard_until);
    Some(RenewalView {
        count: beats.map_or(0, |beats| beats.count),
        last_ms: beats.and_then(|beats| beats.last()).map(|last| now.since(last).as_millis() as u64),
        period_ms: cadence.map(|cadence| cadence.period_ms),
        expected_ms: lock.expected_ms(),
        missed: cadence.map(|cadence| cadence.missed),
    })
}

fn stalled_sentence(lock: &Lock, cadence: Cadence, now: Time) -> String {
    let last = lock.beats().and_then(Beats::last).map_or(0, |last| now.since(last).as_millis() as u64);
    format!(
        "renewed every {} until {} ago, {} missed: lost in {} unless renewed",
        short_duration(cadence.period_ms),
        short_duration(last),
        cadence.missed,
        short_duration(cadence.lost_in.map_or(0, |left| left.as_millis() as u64))
    )
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
