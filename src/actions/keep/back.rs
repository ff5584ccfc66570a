//! Plans putting back what was freed: pure. Only what was surely freed, only while its lease would still run, and only
//! if the lock is free by the library's own rule.

use super::{Barrier, Blob, Deed, Keep, Kept, State, What};
use crate::actions::check::Check;
use crate::actions::comparisons;
use crate::actions::gate::Refusal;
use crate::actions::keyspace::Keyspace;
use crate::actions::plan::{Action, Plan};
use crate::actions::queue;
use crate::actions::semaphore;
use crate::actions::staying::Staying;
use crate::actions::write::Write;
use crate::base::text::{self, short_duration};
use crate::base::time::{Time, Ttl};
use crate::dialects::{by_name, dialect};
use crate::lock::{Key, KeyspaceId, Token};

/// A score above this is not a time but "never"; it also keeps sums within bounds.
const NEVER: i64 = 100_000_000_000_000;

impl Kept {
    /// Puts it all back, if nobody has taken the lock since and its lease would still run.
    pub fn plan(&self, now: Time) -> Result<Plan, Refusal> {
        if self.deed == Deed::Extended {
            return Err(Refusal::NotSo(format!("{} gave {} more time, which can't be undone", self.id(), self.lock())));
        }
        if self.state != State::Confirmed && comparisons::is_made("confirmed") {
            return Err(Refusal::NotSo(self.unconfirmed()));
        }
        if self.things.is_empty() {
            return Err(Refusal::NotSo(format!("nothing was kept of {}", self.id())));
        }
        // All times here are by the server's clock.
        let now = Time(now.0 + self.ahead);
        if let Some(until) = self.until.filter(|until| *until <= now.0) {
            return Err(self.over(until, now));
        }
        let mut checks: Vec<Check> = self.until.map(Check::Before).into_iter().collect();
        let living = self.living(now, &mut checks)?;
        let over = |token: &Blob| {
            let is_it = |keep: &Keep| matches!(&keep.what, What::Scored { member, .. } if member == token);
            self.things.iter().any(is_it) && !living.iter().any(is_it)
        };
        checks.extend(self.obstacles.iter().filter_map(|barrier| barrier.check(&living)));
        let mut writes = Vec::new();
        for keep in &living {
            let (its_checks, write) = keep.back();
            checks.extend(its_checks);
            writes.push(write);
        }
        let dropped: Vec<Token> = self.dropped.iter().map(|token| Token::from(&token.0[..])).collect();
        let noticed = match living.as_slice() {
            [Keep { what: What::Permits { .. }, .. }] => {
                "Somebody may have got a permit since; then one more than allowed is at work."
            }
            _ => "The holder may have noticed the loss and stopped its work.",
        };
        let mut hazards = vec![noticed.to_string()];
        hazards.extend(
            queue::not_put_back(&dropped, self.overdue, true).map(|what| format!("Dropped waiters are {what}.")),
        );
        let ttl = self.until.map_or(Ttl::Never, |until| Ttl::In(Time(until).since(now)));
        Plan {
            action: Action::Undo(self.id().to_string()),
            space: KeyspaceId::FIRST,
            clustered: self.about.keyspace.as_ref().is_some_and(Keyspace::is_cluster),
            key: self.lock(),
            dialect: by_name(&self.dialect).map_or("plain", |id| dialect(id).name()),
            guessed: self.guessed,
            safe: None,
            holders: self.holders.iter().filter(|t| !over(t)).map(|token| Token::from(&token.0[..])).collect(),
            staying: Staying::default(),
            ttl,
            checks,
            writes,
            hazards,
            obstacles: Vec::new(),
            only_by_force: None,
            doubt: None,
            end: None,
            keyspace: self.about.keyspace.clone(),
            undo: None,
            dropped,
            overdue: self.overdue,
        }
        .within_slots()
    }

    /// The same record if the user insists that the release happened, and in this data.
    pub fn insisted(mut self, here: Option<Keyspace>) -> Kept {
        self.state = State::Confirmed;
        self.about.keyspace = here;
        self
    }

    /// When it was freed, by whom and why, in a clause.
    pub fn freed_when(&self, now: Time) -> String {
        let about = &self.about;
        let safe = |text: &String| text::visible(text.as_bytes());
        let ago = short_duration(now.since(Time(about.at)).as_millis() as u64);
        let why = about.reason.as_ref().map(|why| format!(", because \"{}\"", safe(why))).unwrap_or_default();
        let what = match self.things.as_slice() {
            [Keep { what: What::Permits { permits, .. }, .. }] => {
                let were = if *permits == 1 { "was" } else { "were" };
                format!("{} of {} {were} given back", semaphore::words(*permits), self.lock())
            }
            _ => format!("{} was freed", self.lock()),
        };
        format!("{what} {ago} ago by {}{why}", safe(&about.by))
    }

    /// The message if the release surely did not happen.
    pub fn not_freed(&self) -> String {
        format!("{} did not free {}: what it would have deleted is still there", self.id(), self.lock())
    }

    /// The message if that is unknown.
    pub fn perhaps_freed(&self) -> String {
        format!("{}; it is gone now, but its holder may have released it, or it expired", self.unconfirmed())
    }

    fn unconfirmed(&self) -> String {
        let why = match self.state {
            State::Unknown => "the server's answer was lost",
            State::Begun | State::Confirmed => "lockscope ended in the middle of it",
        };
        format!("it is not known whether {} freed {}: {why}", self.id(), self.lock())
    }

    fn over(&self, until: i64, now: Time) -> Refusal {
        let ago = short_duration((now.0 - until).max(0) as u64);
        Refusal::NotSo(format!("the lease of {} would have ended {ago} ago", Key::from(&self.key.0[..])))
    }

    /// The parts that would not have expired by now. A check ensures the same when they are written.
    fn living(&self, now: Time, checks: &mut Vec<Check>) -> Result<Vec<Keep>, Refusal> {
        let mut living: Vec<Keep> = Vec::new();
        let (mut ended, mut last) = (0, None);
        for keep in &self.things {
            // A part of the lock that would have expired by itself stays gone.
            if keep.until.is_some_and(|until| until <= now.0) {
                continue;
            }
            match self.deadline(&keep.what) {
                Some(deadline) if deadline <= now.0 => {
                    last = last.max(Some(deadline));
                    ended += 1;
                    continue;
                }
                Some(deadline) if deadline < NEVER => checks.push(Check::Before(deadline)),
                _ => {}
            }
            living.push(keep.clone());
        }
        // An expired permit counts as given back, so it is not taken again.
        for keep in &mut living {
            if let What::Permits { permits, .. } = &mut keep.what {
                *permits = permits.saturating_sub(ended);
            }
        }
        living.retain(|keep| !matches!(keep.what, What::Permits { permits: 0, .. }));
        if let Some(until) = last.filter(|_| living.is_empty()) {
            return Err(self.over(until, now));
        }
        for barrier in &self.obstacles {
            if let Some(until) = barrier.end(&self.things) {
                if until <= now.0 {
                    return Err(self.over(until, now));
                }
                checks.push(Check::Before(until));
            }
        }
        Ok(living)
    }

    /// When a hold ends by its own score.
    fn deadline(&self, what: &What) -> Option<i64> {
        let What::Scored { key, score, .. } = what else { return None };
        let lease = self.obstacles.iter().find_map(|barrier| match barrier {
            Barrier::Ended { key: of, lease_ms } if of == key => Some(*lease_ms),
            _ => None,
        })?;
        let score: f64 = score.parse().ok()?;
        Some((score as i64).saturating_add(lease))
    }
}

impl Barrier {
    /// Checks that it does not prevent what is put back.
    fn check(&self, back: &[Keep]) -> Option<Check> {
        let room = |most: u64, of: &Blob, is_one: fn(&What) -> Option<&Blob>| {
            let holds = back.iter().filter(|keep| is_one(&keep.what) == Some(of)).count() as u64;
            most.saturating_sub(holds)
        };
        Some(match self {
            Barrier::Key(key) => Check::Absent(key.0.clone()),
            Barrier::NoRest(key) => Check::Rest(key.0.clone()),
            Barrier::Scored { key, member } => Check::NoMember { key: key.0.clone(), member: member.0.clone() },
            Barrier::Mode { key, field, value } => {
                Check::HeldAs { key: key.0.clone(), field: field.0.clone(), value: value.0.clone() }
            }
            Barrier::Fields { key, most } => {
                let count = room(*most, key, |what| match what {
                    What::Field { key, .. } => Some(key),
                    _ => None,
                });
                Check::FieldsAtMost { key: key.0.clone(), count }
            }
            Barrier::Members { key, lease_ms, most } => {
                let count = room(*most, key, |what| match what {
                    What::Scored { key, .. } => Some(key),
                    _ => None,
                });
                Check::LiveAtMost { key: key.0.clone(), lease_ms: *lease_ms, count }
            }
            Barrier::Counter { key, value } => Check::Counter { key: key.0.clone(), value: value.0.clone() },
            Barrier::Ended { .. } | Barrier::EndField { .. } | Barrier::Leases(_) => return None,
        })
    }

    /// The time when the whole hold ends.
    fn end(&self, things: &[Keep]) -> Option<i64> {
        match self {
            Barrier::EndField { key, field } => things.iter().find_map(|keep| match &keep.what {
                What::Field { key: of, field: its, value } if (of, its) == (key, field) => {
                    std::str::from_utf8(&value.0).ok()?.parse().ok()
                }
                _ => None,
            }),
            Barrier::Leases(keys) => {
                let is_lease = |keep: &&Keep| matches!(&keep.what, What::Whole { key, .. } if keys.contains(key));
                let ends: Option<Vec<i64>> = things.iter().filter(is_lease).map(|keep| keep.until).collect();
                ends?.into_iter().max()
            }
            _ => None,
        }
    }
}

impl Keep {
    fn back(&self) -> (Vec<Check>, Write) {
        let until = self.until;
        match self.what.clone() {
            What::Whole { key: Blob(key), dump: Blob(dump) } => {
                (vec![Check::Absent(key.clone())], Write::Restore { key, dump, until })
            }
            What::Field { key: Blob(key), field: Blob(field), value: Blob(value) } => {
                let check = Check::NoField { key: key.clone(), field: field.clone() };
                (vec![check], Write::PutField { key, field, value, until })
            }
            What::Base { key: Blob(key), field: Blob(field), value: Blob(value) } => {
                let check = Check::HeldAs { key: key.clone(), field: field.clone(), value: value.clone() };
                (vec![check], Write::PutField { key, field, value, until })
            }
            What::Scored { key: Blob(key), member: Blob(member), score } => {
                let check = Check::NoMember { key: key.clone(), member: member.clone() };
                (vec![check], Write::PutScored { key, member, score, until })
            }
            What::Member { key: Blob(key), member: Blob(member) } => {
                let check = Check::NoElement { key: key.clone(), member: member.clone() };
                (vec![check], Write::PutMember { key, member, until })
            }
            What::Permits { counter: Blob(counter), permits } => {
                let check = Check::AtLeast { key: counter.clone(), count: permits };
                (vec![check], Write::TakePermits { counter, permits })
            }
            What::Pushed { list: Blob(list), token: Blob(token) } => {
                let check = Check::Listed { key: list.clone(), item: token.clone() };
                (vec![check], Write::TakeBack { list, token })
            }
        }
    }
}
