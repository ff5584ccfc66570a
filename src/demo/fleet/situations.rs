//! What is planted in the fleet, on which keys, and what a person should be able to see.

use crate::base::glob::Glob;

/// One planted situation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Situation {
    pub name: &'static str,
    /// A glob of its keys.
    pub key: &'static str,
    /// The dialect of its keys.
    pub library: &'static str,
    pub what_to_see: &'static str,
    /// State words and findings that must each appear sooner or later. See [`is_usual`](crate::model::State::is_usual).
    pub shows: &'static [&'static str],
    /// Words that are sometimes true. All others are false alarms.
    pub may: &'static [&'static str],
    /// Its library can be used on a cluster.
    pub in_clusters: bool,
}

/// The word for locks whose holders wait for each other.
pub const DEADLOCK: &str = "deadlock";

impl Situation {
    const fn shows(self, words: &'static [&'static str]) -> Situation {
        Situation { shows: words, ..self }
    }

    const fn may(self, words: &'static [&'static str]) -> Situation {
        Situation { may: words, ..self }
    }

    /// Its script needs keys of several slots.
    const fn not_in_clusters(self) -> Situation {
        Situation { in_clusters: false, ..self }
    }

    /// The compiled pattern. Keep it if many keys are matched.
    pub fn glob(&self) -> Glob {
        Glob::new(self.key).expect("the patterns of the situations are valid")
    }
}

const fn situation(
    name: &'static str,
    key: &'static str,
    library: &'static str,
    what_to_see: &'static str,
) -> Situation {
    Situation { name, key, library, what_to_see, shows: &[], may: &[], in_clusters: true }
}

/// No two share a key.
pub const SITUATIONS: &[Situation] = &[
    situation(
        "healthy watchdog",
        "orders-lock:*",
        "redisson",
        "renewed each third of its 30s lease, a waiter on its channel, freed when the work is done",
    ),
    situation(
        "automatic renewal",
        "lock:*report-*",
        "python-redis-lock",
        "renewed at two thirds of its time; the next worker is blocked until the release wakes it",
    ),
    situation(
        "taken and freed again and again",
        "cart-lock:*",
        "redis-py",
        "short holds one after the other, none of them renewed",
    ),
    situation(
        "crashed holder",
        "stock-lock:*",
        "redisson",
        "renewals end and the holder's connection is gone; the lock waits for its time to be up",
    )
    .shows(&["orphan"])
    .may(&["stalled", "orphan-suspected", "expiring"]),
    situation(
        "stalled watchdog",
        "billing-lock:*",
        "redisson",
        "renewals end while the holder's connection lives: its work goes on, and soon without the lock",
    )
    .shows(&["stalled"])
    .may(&["orphan-suspected", "expiring"]),
    situation(
        "lock without a TTL",
        "reindex-lock",
        "redis-py",
        "taken without a timeout by somebody who is gone: it stays until somebody frees it",
    )
    .shows(&["no-ttl"])
    .may(&["orphan"]),
    situation(
        "one bucket of 64",
        "shelf-lock:*",
        "redis-py",
        "one process extends the locks of 64 buckets; one of them was taken without a timeout, and never ends",
    )
    .shows(&["no-ttl"])
    .may(&["non-atomic-acquire"]),
    situation("SETNX without EXPIRE", "import.lock", "plain", "its taker died between the two commands: it stays")
        .shows(&["no-ttl", "non-atomic-acquire"])
        .may(&["orphan"]),
    situation(
        "hot lock",
        "flash-sale-lock",
        "redis-py",
        "six pollers, most attempts refused, the holder changes each second",
    )
    .shows(&["contended"])
    .may(&["starving"]),
    situation(
        "two locks in the wrong order",
        "transfer-lock:*",
        "redis-py",
        "each of two workers holds one and wants the other: a deadlock, until one of them gives up",
    )
    .shows(&["deadlock"]),
    situation(
        "fair queue with a dead waiter",
        "print-lock:*",
        "redisson",
        "waiters in a list; one of them is dead, and as the head of the queue holds up the others",
    )
    .shows(&["dead-heads"])
    .may(&["contended"]),
    situation("readers", "catalogue-lock", "redisson", "several hold it to read, and a writer waits for all of them"),
    situation("writer", "prices-lock", "redisson", "one holds it to write, and readers wait for it"),
    situation(
        "scheduler's lease",
        "job-lock:default:*",
        "shedlock",
        "the job is done and nobody works, yet the key stays on purpose until its minute is over",
    ),
    situation(
        "handed over without a release",
        "invoice-lock:*",
        "plain",
        "the holder changes while it is held: each writes itself over the other",
    )
    .shows(&["split", "taken-over"]),
    situation(
        "work that outlives its lease",
        "export-lock:*",
        "redis-py",
        "it expires under its holder, another takes it, and for a while both work",
    )
    .shows(&["outlived"])
    .may(&["split", "expiring", "no-watchdog", "lease-too-short"]),
    situation(
        "idempotency markers",
        "completed:payment-*",
        "marker",
        "work that is done: nobody holds these, they keep it from being done twice",
    ),
    situation(
        "locks beside their markers",
        "lock:payment-*",
        "plain",
        "held while the payment of the same number is under way",
    ),
    situation(
        "unique jobs",
        "uniquejobs:*:LOCKED",
        "sidekiq-unique-jobs",
        "no TTL, as all of this library; jobs like one under way are refused",
    )
    .shows(&["no-ttl"])
    .not_in_clusters(),
    situation("claims on queued jobs", "bull:*mail*:*:lock", "bullmq", "renewed every 15s by setting it again"),
    situation("lock registry", "spring-locks:*", "spring", "one value on several keys: they belong to one process"),
    situation("exclusive lock with a deadline", "pdf-lock", "symfony", "300s long, and freed after a few seconds")
        .may(&["lease-too-long"]),
    situation(
        "scheduled task",
        "shop-database-shop-cache-framework/schedule-*",
        "laravel",
        "a lease of a day for a task of seconds: a crash would stop the task until tomorrow",
    )
    .may(&["lease-too-long"]),
    situation(
        "unique job without a TTL",
        "shop-database-shop-cache-laravel_unique_job:*",
        "laravel",
        "no TTL, and freed when the job is done",
    )
    .shows(&["no-ttl"]),
    situation("everyday checkout", "shop-database-shop-cache-checkout-lock:*", "laravel", "two workers take turns")
        .may(&["lease-too-long"]),
    situation("everyday sessions", "lock:session:*", "plain", "many, short, freed by their holders"),
    situation("everyday locks", "locks:account:*", "redlock", "many, short, freed by their holders"),
    situation("everyday mutexes", "seat-mutex:*", "redsync", "many, short, freed by their holders"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects;
    use crate::model::{State, findings};

    #[test]
    fn every_situation_has_a_valid_pattern_and_a_known_library() {
        for situation in SITUATIONS {
            assert!(dialects::by_name(situation.library).is_some(), "{}", situation.library);
            let same = |other: &&Situation| other.name == situation.name || other.glob().covers(&situation.glob());
            assert_eq!(SITUATIONS.iter().filter(same).count(), 1, "{}", situation.name);
        }
    }
    #[test]
    fn what_a_situation_shows_are_words_that_can_be_said() {
        for Situation { name, shows, may, .. } in SITUATIONS {
            for word in shows.iter().chain(*may) {
                let state = State::ALL.iter().any(|state| state.name() == *word && !state.is_usual());
                assert!(state || *word == DEADLOCK || findings::names().any(|known| known == *word), "{name}: {word}");
            }
            assert!(shows.iter().all(|word| !may.contains(word)), "{name}");
        }
    }
}
