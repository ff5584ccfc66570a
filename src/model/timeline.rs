//! The timeline: what mattered during the last hour, oldest first.
//!
//! Bounded by age, by number and by bytes, at most 8 MB in all. The oldest go first, and how many went for lack of room is
//! counted. Each entry has a number that never changes, so that any reader can go on where it stopped. What happened to
//! servers is also kept apart, the last of it however long ago, with how many locks it cost.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::text::counted;
use crate::base::time::Time;
use crate::model::{LostBy, Notable, ServerNews, What};

/// Entries older than this are dropped.
const AGE: Duration = Duration::from_secs(3_600);
const ENTRIES: usize = 16_384;
/// What names and sentences may take beside the entries themselves.
const TEXTS: usize = 5_000_000;

/// What happened to servers: at most this many are kept.
const SERVERS: usize = 64;
/// Locks that are lost later than this are not counted to it.
const AFTERMATH: Duration = Duration::from_secs(60);

/// Something that happened to a server.
#[derive(Clone, PartialEq, Debug)]
pub struct Served {
    pub entry: Notable,
    /// How many locks were held there then, where slots changed hands.
    pub locks: Option<u64>,
    /// How many of them it cost.
    pub lost: u64,
}

impl Served {
    /// In a sentence: who took over from whom, and what became of the locks.
    pub fn sentence(&self) -> String {
        let kept = self.locks.map(|locks| format!(", {} kept", counted(locks.saturating_sub(self.lost), "lock")));
        let lost = (self.lost > 0).then(|| format!(", {} lost", self.lost));
        let told = self.entry.what.sentence(|_| String::new());
        format!("{told}{}{}", kept.unwrap_or_default(), lost.unwrap_or_default())
    }
}

#[derive(Debug, Default)]
pub struct Timeline {
    servers: VecDeque<Served>,
    entries: VecDeque<Notable>,
    /// The number of the first entry.
    first: u64,
    texts: usize,
    left_out: u64,
    began: Option<Time>,
}

impl Timeline {
    /// What happened to a server; `locks`: how many were held there, if slots changed hands.
    pub(in crate::model) fn push_served(&mut self, entry: Notable, locks: Option<u64>) {
        if entry.what.is_of_server() {
            self.servers.truncate(SERVERS - 1);
            self.servers.push_front(Served { entry: entry.clone(), locks, lost: 0 });
        }
        self.push(entry);
    }

    /// What happened to servers, the newest first.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = &Served> {
        self.servers.iter()
    }

    /// Locks were lost: by what happened to their server last, if that can lose locks.
    fn charge(&mut self, entry: &Notable) {
        let What::Lost { cause, locks, .. } = &entry.what else { return };
        if matches!(cause, LostBy::Flush | LostBy::Eviction | LostBy::Rename) {
            return;
        }
        let deposed = matches!(cause, LostBy::Deposed { .. });
        let loses = |what: &What| match what {
            What::Server(ServerNews::SplitBrain { .. }) => deposed,
            What::Restarted | What::Failover { .. } | What::Server(_) => !deposed,
            _ => false,
        };
        let its = |served: &&mut Served| served.entry.node == entry.node && loses(&served.entry.what);
        let caused = self.servers.iter_mut().find(its);
        if let Some(served) = caused.filter(|served| entry.at.since(served.entry.at) <= AFTERMATH) {
            served.lost += locks;
        }
    }

    pub(in crate::model) fn push(&mut self, entry: Notable) {
        self.charge(&entry);
        self.texts += entry.heap();
        if self.entries.len() == ENTRIES {
            self.drop_first();
            self.left_out += 1;
        }
        self.entries.push_back(entry);
        while self.texts > TEXTS {
            self.drop_first();
            self.left_out += 1;
        }
    }

    /// Drops what is older than an hour.
    pub(in crate::model) fn age(&mut self, now: Time) {
        self.began.get_or_insert(now);
        while self.entries.front().is_some_and(|entry| now.since(entry.at) > AGE) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let dropped = self.entries.pop_front();
        self.first += u64::from(dropped.is_some());
        self.texts -= dropped.map_or(0, |entry| entry.heap());
    }

    /// The number of the oldest entry, and the number that the next one will get.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The entry of that number, unless it was dropped.
    pub fn get(&self, number: u64) -> Option<&Notable> {
        self.entries.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The entries from that number on, each with its number, oldest first.
    pub fn from(&self, number: u64) -> impl Iterator<Item = (u64, &Notable)> {
        let skipped = number.clamp(self.first, self.end()) - self.first;
        (self.first + skipped..).zip(self.entries.range(skipped as usize..))
    }

    /// How many entries of the last hour were dropped for lack of room, at most.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Since when nothing that matters is missing here; `None` before anything was watched.
    pub fn since(&self, now: Time) -> Option<Time> {
        let oldest = self.entries.front().filter(|_| self.left_out > 0).map(|entry| entry.at);
        Some(oldest.or(self.began)?.max(now - AGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Key, KeyspaceId, NodeId};
    use crate::model::{State, What};

    fn entry(at: i64, why: &str) -> Notable {
        let (from, to, why) = (State::Held, State::Stalled, Some(why.to_string()));
        let what = What::State { from, to, holder: None, ending: None, why };
        Notable { at: Time(at), space: KeyspaceId::FIRST, node: NodeId(0), key: Some(Key::from("lock:a")), what }
    }

    fn numbers(timeline: &Timeline) -> Vec<u64> {
        timeline.from(0).map(|(number, _)| number).collect()
    }

    #[test]
    fn what_happened_to_servers_is_kept_with_what_it_cost_and_bounded() {
        let mut timeline = Timeline::default();
        let of_node = |at, node, what| Notable { node: NodeId(node), key: None, what, ..entry(at, "") };
        let failover = What::Failover { from: "a:1".into(), to: "b:2".into(), slots: 5_461 };
        timeline.push_served(of_node(1_000, 1, failover), Some(214));
        timeline.push_served(of_node(1_500, 2, What::Restarted), None);
        let lost = |cause| What::Lost { cause, locks: 2, some: Vec::new(), previous: None };
        timeline.push(of_node(2_000, 1, lost(LostBy::Unseen)));
        timeline.push(of_node(2_000, 1, lost(LostBy::Eviction)));
        timeline.push(of_node(90_000, 1, lost(LostBy::Unseen)));
        let told: Vec<String> = timeline.servers().map(Served::sentence).collect();
        assert_eq!(
            told,
            ["the server was restarted", "b:2 took over 5,461 slots from a:1, 212 locks kept, 2 lost"],
            "the newest first; evicted locks and those of later are not its work"
        );
        timeline.push_served(of_node(3_000, 1, What::Sampling { on: true }), None);
        assert_eq!(timeline.servers().len(), 2, "sampling is not the server's");
        for at in 0..1_000 {
            timeline.push_served(of_node(at, 3, What::Missed { events: None }), None);
        }
        assert_eq!(timeline.servers().len(), SERVERS);
    }

    #[test]
    fn an_hour_is_kept_and_numbers_stay() {
        let mut timeline = Timeline::default();
        timeline.age(Time(0));
        for at in [0, 1_000, 3_600_500] {
            timeline.push(entry(at, ""));
        }
        timeline.age(Time(3_600_500));
        assert_eq!((numbers(&timeline), timeline.end()), (vec![1, 2], 3));
        assert_eq!(timeline.get(0), None);
        assert_eq!(timeline.get(1).map(|entry| entry.at), Some(Time(1_000)));
        assert_eq!(timeline.left_out(), 0, "an hour is what was promised");
        assert_eq!(timeline.since(Time(3_600_500)), Some(Time(500)));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_is_claimed_for_that_time() {
        let mut timeline = Timeline::default();
        timeline.age(Time(0));
        for at in 0..ENTRIES as i64 + 10 {
            timeline.push(entry(at, ""));
        }
        assert_eq!((timeline.entries.len(), timeline.left_out(), timeline.first()), (ENTRIES, 10, 10));
        assert_eq!(timeline.since(Time(60_000)), Some(Time(10)));
    }

    #[test]
    fn a_timeline_takes_at_most_8_megabytes() {
        let mut timeline = Timeline::default();
        let why = "x".repeat(2_000);
        for at in 0..2 * ENTRIES as i64 {
            timeline.push(entry(at, &why));
        }
        let texts: usize = timeline.entries.iter().map(Notable::heap).sum();
        assert_eq!(texts, timeline.texts, "what is dropped is not counted any more");
        assert!(timeline.left_out() > ENTRIES as u64 && texts <= TEXTS);
        let mut timeline = Timeline::default();
        for at in 0..2 * ENTRIES as i64 {
            timeline.push(entry(at, ""));
        }
        let slots = timeline.entries.capacity() * size_of::<Notable>();
        assert!(slots + TEXTS <= 8_000_000, "{slots} bytes for {} entries", timeline.entries.capacity());
    }
}
