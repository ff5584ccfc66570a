//! Views of the table: each lock decoded and judged at one moment.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::base::time::Time;
use crate::dialects::{self, Strength};
use crate::lock::{Kind, Mode};
use crate::model::table::Table;
use crate::model::table::markers::id_of;
use crate::model::verdict::findings::is_said_by;
use crate::model::{Contention, Lock, LockView, Lost, Presence, Proof, RenewalView, Snapshot, Source, Waits};

/// How long a lock must have been watched before "no renewals" means anything.
const WATCHED_MS: u64 = 1_000;

impl Table {
    /// All held locks, those that were lost, and markers at `now`, worst first.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        // Sorted before they are decoded, because moving views is expensive.
        let badness = |lock: &Lock| (self.severity(lock, now), Reverse(self.held_for(lock, now).map(|(ms, _)| ms)));
        let mut order: Vec<_> = self.listed(now).map(|lock| (badness(lock), &lock.key, lock.space, lock)).collect();
        order.sort_unstable_by_key(|&(badness, key, space, _)| (badness, key, space));
        let mut locks: Vec<LockView> = order.into_iter().filter_map(|(.., lock)| self.view(lock, now)).collect();
        relate(&mut locks);
        let (complete, dropped, lost_beyond) = (self.is_complete(), self.locks_dropped(), self.lost_beyond(now));
        Snapshot { at: now, locks, complete, incomplete: None, dropped, lost_beyond }
    }

    /// One lock at `now`, decoded; `None` if it was never read as a lock.
    pub fn view(&self, lock: &Lock, now: Time) -> Option<LockView> {
        let reading = lock.reading?;
        let dialect = dialects::dialect(reading.dialect);
        let ttl = lock.left(now);
        let holders = if lock.is_held() { self.holders(lock, now) } else { Vec::new() };
        let presence: Vec<Presence> = holders.iter().map(|holder| self.presence(lock, holder)).collect();
        let (cause, signs) = self.cause(lock, now);
        let mut verdict = self.verdict(lock, &cause, signs, now);
        let findings = self.findings(lock, &holders, (verdict.state, signs), now);
        let telling = findings.iter().find(|finding| !is_said_by(finding.name, verdict.state));
        verdict.evidence.extend(telling.map(|finding| finding.sentence.clone()));
        let waits = lock.waits(now).filter(|_| lock.is_held());
        let liveness = self.liveness(lock, &verdict, signs, &findings, &presence, now);
        let held = self.held_for(lock, now);
        let (name, second) = (dialect.name(), reading.second.filter(|_| reading.strength < Strength::Sure));
        Some(LockView {
            space: lock.space,
            node: lock.node,
            clustered: self.is_clustered(lock.space),
            key: lock.key.clone(),
            kind: reading.kind,
            type_name: lock.value.type_name().to_string(),
            dialect: name,
            dialect_confidence: reading.strength.number(),
            second_choice: second.map(|(id, strength)| (dialects::dialect(id).name(), strength.number())),
            mode: reading.mode,
            lost: self.listed_loss(lock, now).map(|(former, loss)| Lost::of(former, loss)),
            verdict,
            liveness,
            holders,
            ttl,
            lease_ms: lock.lease().map(|(ms, _)| ms),
            lease_is: lock.lease().map(|(_, is)| is),
            held_ms: held.map(|(ms, _)| ms),
            held_is: held.map(|(_, is)| is),
            beats: lock.beats().map(|beats| beats.recent().collect()).unwrap_or_default(),
            waits,
            blocked: waits.filter(Waits::is_at_most).map(|_| self.blocked(lock.node).to_vec()).unwrap_or_default(),
            tries: self.tries(lock, now),
            wanted: lock.wanted(now).filter(|_| lock.is_held()),
            demand: lock.demand(now),
            contenders: lock.contention().map(|contention| contention.contenders().to_vec()).unwrap_or_default(),
            presence,
            connection: self.standing(lock).connection().cloned(),
            notices: lock.contention().into_iter().flat_map(Contention::notices).cloned().collect(),
            findings,
            renewals: self.renewals(lock, now),
            fencing_token: lock.contention().and_then(|contention| contention.fencing_token),
            related: self.marker_of(lock).map(|marker| marker.key.clone()),
            value: lock.value.clone(),
            proof: Proof::default(),
            past: lock.past().cloned().collect(),
            usual: self.holds(lock).usual(),
            confirmed: lock.confirmed,
            stale: self.is_stale(lock),
            source: self.source(lock.node).unwrap_or(Source::Scan),
            at: now,
        })
    }

    /// The renewals of the current hold; `None` if it was not watched long enough.
    pub fn renewals(&self, lock: &Lock, now: Time) -> Option<RenewalView> {
        renewals(lock, self.known_until(lock, now), self.heard_until(lock, now), now)
    }

    /// The names of its findings alone: cheaper than the whole view.
    pub fn finding_names(&self, lock: &Lock, now: Time) -> impl Iterator<Item = &'static str> {
        // Findings ask only for holders that hold it side by side.
        let permits = lock.reading.is_some_and(|reading| reading.mode == Mode::Permit);
        let shared = permits || !lock.held_by.shares().is_empty();
        let holders = if lock.is_held() && shared { self.holders(lock, now) } else { Vec::new() };
        let (cause, signs) = self.cause(lock, now);
        self.findings(lock, &holders, (cause.state(), signs), now).into_iter().map(|finding| finding.name)
    }
}

/// A renewal that could not have been reported is not missed, so missed ones are judged at `heard_until`.
fn renewals(lock: &Lock, known_until: Time, heard_until: Time, now: Time) -> Option<RenewalView> {
    let beats = lock.beats();
    let watched = known_until.since(lock.first_seen).as_millis() as u64;
    if !lock.is_held() || (beats.is_none() && watched < WATCHED_MS) {
        return None;
    }
    // Of a lock that many hold, the renewals of one hide those of another.
    let cadence = lock.cadence(heard_until).filter(|_| lock.has_one_holder());
    Some(RenewalView {
        count: beats.map_or(0, |beats| beats.count),
        last_ms: beats.and_then(|beats| beats.last()).map(|last| now.since(last).as_millis() as u64),
        period_ms: cadence.map(|cadence| cadence.period_ms),
        expected_ms: lock.expected_ms(),
        missed: cadence.map(|cadence| cadence.missed),
        jitter_ms: cadence.map(|cadence| cadence.jitter_ms),
        due_in_ms: cadence.map(|cadence| cadence.due.0 - now.0),
    })
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
            && locks[marker].space == lock.space
        {
            let (lock_key, marker_key) = (lock.key.clone(), locks[marker].key.clone());
            locks[index].related = Some(marker_key);
            locks[marker].related = Some(lock_key);
        }
    }
}
