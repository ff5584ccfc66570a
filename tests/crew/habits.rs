//! The habits of each library's users: how they use connections, whether and when they renew, and how long they work.

use std::time::Duration;

use super::book::Rule;
use super::connections::Uses;
use super::dice::Dice;
use crate::models::Subject;

/// How the users of one kind of lock behave.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub uses: Uses,
    pub renews: Renews,
    /// The process ends when its work is done, and leaves the lock to run out.
    pub leaves: bool,
    /// Who does not get it asks again until it does; else it is another job's turn.
    pub asks_again: bool,
    /// Which of the leases of its library they use.
    pub lease: Option<u64>,
    /// How many processes want it.
    pub processes: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Renews {
    Never,
    /// Always, each time this share of the lease is over.
    Each(f64),
    /// The same, unless its users give a lease of their own.
    Usually(f64),
}

/// `None`: it can't take part.
pub fn of(subject: &Subject) -> Option<Habits> {
    use Renews::*;
    use Uses::*;
    let idle = ClosesIdle(Duration::from_secs(10));
    let (uses, renews) = match (subject.dialect, subject.name) {
        // Its sleepers count all blocked clients of the server; the real library is here instead.
        (_, "python-redis-lock, ids of its own") => return None,
        // The same key as another one.
        (_, "redis-semaphore of npm, a name for each machine") => return None,
        // Of a reader it is not modelled that only the watchdog of its own process renews.
        (_, "redisson group lock") => (InTurn(8), Never),
        ("redisson", "redisson lock" | "redisson lock of a map's entry") => (InTurn(8), Usually(1.0 / 3.0)),
        ("redisson", _) => (idle, Usually(1.0 / 3.0)),
        ("redisson-permits" | "redisson-semaphore", _) => (InTurn(8), Never),
        ("sidekiq-unique-jobs", _) => (InTurn(5), Never),
        ("huey", _) => (InTurn(3), Never),
        ("bullmq" | "hangfire", _) => (One, Each(0.5)),
        ("redlock-net", _) => (One, Each(0.5)),
        ("medallion", _) => (One, Each(0.3)),
        ("redbeat", _) => (One, Each(0.2)),
        ("resque-scheduler", _) => (One, Each(1.0 / 36.0)),
        ("redis-semaphore-npm", _) => (One, Each(0.8)),
        ("spring", _) => (One, Usually(1.0 / 3.0)),
        ("symfony", _) => (EachWork, Usually(1.0 / 3.0)),
        ("laravel" | "celery-once" | "celery-singleton", _) => (EachWork, Never),
        ("shedlock", _) => (InTurn(4), Never),
        ("redsync", _) => (EachCall, Usually(0.5)),
        ("redislock", _) => (idle, Usually(0.5)),
        ("python-redis-lock", _) => (One, Usually(2.0 / 3.0)),
        ("rslock" | "redlock-py" | "redlock-rb", _) => (One, Never),
        ("plain", "plain, a constant token") => (EachCall, Never),
        ("plain" | "reentrant" | "leases", _) => (One, Usually(1.0 / 3.0)),
        _ => (One, Never),
    };
    let leaves = subject.is_a_marker || matches!(subject.dialect, "shedlock" | "laravel" | "symfony");
    let processes = if subject.is_a_marker { 1 } else { 2 };
    let asks_again = !matches!(subject.dialect, "shedlock" | "celery-once" | "celery-singleton");
    Some(Habits { uses, renews, leaves, asks_again, lease: None, processes })
}

impl Habits {
    /// What is true of its lock as a whole.
    pub fn rule(&self, subject: &Subject) -> Rule {
        let counts = subject.dialect == "redisson-semaphore";
        let lets_go = matches!(self.uses, Uses::EachCall | Uses::EachWork | Uses::ClosesIdle(_));
        Rule {
            marker: subject.is_a_marker,
            counts,
            in_two_steps: subject.takes_in_two_steps(),
            lets_go,
            contended: false,
        }
    }

    /// All users of one lock agree on its lease. One time in four they give one of their own, which is not renewed.
    pub fn settled(self, subject: &Subject, dice: &mut Dice) -> Habits {
        let lease = subject.leases[dice.below(subject.leases.len())];
        let renews = match self.renews {
            Renews::Usually(_) if dice.chance(0.25) => Renews::Never,
            Renews::Usually(share) => Renews::Each(share),
            other => other,
        };
        Habits { renews, lease, ..self }
    }
}
