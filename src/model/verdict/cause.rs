//! Why a lock is in its state: the numbers behind the word, and the sentence made from them.
//!
//! Found without decoding or allocating anything, because it is computed for every lock all the time; sentences are
//! made only for the locks that are shown.

use crate::base::text::{short_duration, short_token, visible};
use crate::base::time::Time;
use crate::lock::Token;
use crate::model::history::cadence::Rhythm;
use crate::model::verdict::signs::Signs;
use crate::model::{Address, Connection, Former, HeldIs, Hold, Holds, Loss, State, Succession, Tries};

/// The worst state of a lock, with its evidence.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Cause<'a> {
    Split(Second<'a>),
    Lost(&'a Former, &'a Loss),
    Orphan(Gone<'a>),
    NoTtl {
        of_the_library: bool,
    },
    Stalled {
        rhythm: Rhythm,
        lost_in_ms: u64,
    },
    Contended(Wanted),
    Long {
        held_ms: u64,
        held_is: HeldIs,
        holds: &'a Holds,
    },
    Expiring {
        left_ms: u64,
        lease_ms: u64,
        lease_is: HeldIs,
        watched: bool,
    },
    Held,
    Test,
    Done,
    /// The key is there, but nobody holds it.
    Vacant,
    Free {
        last: Option<&'a Hold>,
    },
}

/// The evidence of a second holder.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Second<'a> {
    /// The lock was taken from a holder whose lease still runs until then.
    Took { from: Option<&'a Token>, at: Time, until: Option<Time> },
    /// A holder that lost it was seen again after another took it.
    Late { token: &'a Token, address: Option<&'a Address>, renewal: bool, at: Time, taken: Time },
    /// It is held at a master that was replaced and still takes writes.
    Elsewhere { token: &'a Token, at: Time, succession: &'a Succession },
    /// A reader and a writer hold it at once, or two hold one item, which its library never means to let happen.
    Beside { exclusive: bool },
}

/// The evidence that the holder is gone.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Gone<'a> {
    /// `doubtful`: others like its client are connected, a pool may have closed it, or the lock is left to run out.
    Closed {
        connection: &'a Connection,
        at: Time,
        rhythm: Option<Rhythm>,
        doubtful: bool,
    },
    Silent(Rhythm),
    /// At least two that have nothing to do with each other.
    Signs(Signs),
}

/// The evidence that many want it.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Wanted {
    /// By its waiters, which every lock's evidence names anyway.
    Waits,
    Failures(Tries),
    Contenders(usize, Option<Tries>),
}

impl Cause<'_> {
    pub fn state(&self) -> State {
        match self {
            Cause::Split(_) => State::Split,
            Cause::Lost(..) => State::Lost,
            Cause::Orphan(_) => State::Orphan,
            Cause::NoTtl { .. } => State::NoTtl,
            Cause::Stalled { .. } => State::Stalled,
            Cause::Contended(_) => State::Contended,
            Cause::Long { .. } => State::Long,
            Cause::Expiring { .. } => State::Expiring,
            Cause::Held => State::Held,
            Cause::Test => State::Test,
            Cause::Done => State::Done,
            Cause::Vacant | Cause::Free { .. } => State::Free,
        }
    }

    /// It may as well not be so.
    pub fn is_doubted(&self) -> bool {
        matches!(self, Cause::Lost(_, loss) if !loss.proven)
    }

    /// 0 to 1.
    pub fn confidence(&self) -> f32 {
        match self {
            Cause::Split(Second::Took { .. }) => 0.9,
            Cause::Split(Second::Late { .. } | Second::Elsewhere { .. }) => 0.95,
            Cause::Lost(_, loss) => loss.confidence(),
            Cause::Orphan(Gone::Closed { rhythm, doubtful, .. }) => match rhythm {
                Some(rhythm) if rhythm.missed > 0 => {
                    if *doubtful {
                        0.85
                    } else {
                        0.97
                    }
                }
                _ if *doubtful => 0.7,
                // It may have more than one connection, and the next renewal is not due yet.
                Some(_) => 0.8,
                None => 0.85,
            },
            Cause::Orphan(Gone::Silent(_)) => 0.75,
            Cause::Orphan(Gone::Signs(signs)) => signs.confidence(),
            Cause::Long { .. } => 0.9,
            Cause::Expiring { watched: false, .. } => 0.7,
            Cause::Expiring { .. } => 0.9,
            _ => 1.0,
        }
    }

    /// What else must be known to decide what to do.
    pub fn remark(&self) -> Option<String> {
        let Cause::Split(Second::Elsewhere { succession, .. }) = self else { return None };
        let (old, new) = (succession.old.host(), succession.new.host());
        Some(format!("the hold on {new} stays: {old} throws away what is written there when it is demoted"))
    }

    /// The sentence with its numbers; `None` if the state word says it all.
    pub fn sentence(&self, now: Time) -> Option<String> {
        let ago = |at: Time| short_duration(now.since(at).as_millis() as u64);
        Some(match self {
            Cause::Split(second) => second.sentence(now),
            Cause::Lost(former, loss) => loss.sentence(former, now),
            Cause::Orphan(Gone::Closed { connection, at, rhythm, .. }) => {
                let renewed = rhythm.map(|rhythm| format!("; {}", until(&rhythm, now))).unwrap_or_default();
                format!("holder's connection {} closed {} ago{renewed}", connection.address, ago(*at))
            }
            Cause::Orphan(Gone::Silent(rhythm)) => {
                format!("{}, {} missed, and there is no other sign of its holder", until(rhythm, now), rhythm.missed)
            }
            Cause::Orphan(Gone::Signs(signs)) => signs.sentence(),
            Cause::NoTtl { of_the_library } => no_ttl(*of_the_library),
            Cause::Stalled { rhythm, lost_in_ms } => format!(
                "{}, {} missed: lost in {} unless renewed",
                until(rhythm, now),
                rhythm.missed,
                short_duration(*lost_in_ms)
            ),
            Cause::Contended(Wanted::Waits) | Cause::Held | Cause::Done => return None,
            Cause::Contended(Wanted::Failures(tries)) => failing(tries),
            Cause::Contended(Wanted::Contenders(count, tries)) => {
                let rate = tries.map(|tries| format!("; {}", failing(&tries))).unwrap_or_default();
                format!("{count} clients tried to take it just now and failed{rate}")
            }
            Cause::Long { held_ms, held_is, holds } => {
                let least = if *held_is == HeldIs::AtLeast { "at least " } else { "" };
                format!(
                    "held for {least}{}, while 99 % of the holds of {} end within {} ({} were timed)",
                    short_duration(*held_ms),
                    visible(holds.pattern()),
                    short_duration(holds.p99_ms().unwrap_or(0)),
                    holds.timed()
                )
            }
            Cause::Expiring { left_ms, lease_ms, lease_is, .. } => {
                let least = if *lease_is == HeldIs::AtLeast { "at least " } else { "" };
                let (left, lease) = (short_duration(*left_ms), short_duration(*lease_ms));
                format!("{left} left of {least}{lease}, and nothing renews it")
            }
            Cause::Test => "lockscope took it, as a test".into(),
            Cause::Vacant => "nobody holds it right now".into(),
            Cause::Free { last } => free((*last)?, now),
        })
    }
}

/// `9.0 attempts a second fail (+/- 2.0), 90 % of all`
fn failing(tries: &Tries) -> String {
    // All attempts with an unknown outcome may have failed.
    let least = if tries.unknown_why().is_some() { "at least " } else { "" };
    let share = 100.0 * tries.failures as f64 / tries.attempts.max(1) as f64;
    format!("{least}{:.1} attempts a second fail{}, {least}{share:.0} % of all", tries.failures_per_s(), margin(tries))
}

/// Empty if each attempt is counted.
fn margin(tries: &Tries) -> String {
    if tries.margin_per_s > 0.0 { format!(" (+/- {:.1})", tries.margin_per_s) } else { String::new() }
}

impl Second<'_> {
    fn sentence(&self, now: Time) -> String {
        let ms = |later: Time, earlier: Time| short_duration(later.since(earlier).as_millis() as u64);
        match self {
            Second::Beside { exclusive: true } => "two holders have the same item, and both leases still run".into(),
            Second::Beside { exclusive: false } => {
                "a reader and a writer hold it at the same time, which its library never allows".into()
            }
            Second::Took { from, at, until } => {
                let rest = match until {
                    Some(until) => format!("whose lease still runs for {}", ms(*until, now)),
                    None => "whose lease had no end".into(),
                };
                format!("taken over {} ago from {}, {rest}: both may be at work", ms(now, *at), who(*from, None))
            }
            Second::Elsewhere { token, at, succession } => {
                let (who, ago) = (who(Some(token), None), ms(now, *at));
                let (old, new) = (succession.old.words(), succession.new.words());
                format!(
                    "{who} holds it on {old}, seen at work there {ago} ago; {new} has replaced that: both may be at work"
                )
            }
            Second::Late { token, address, renewal, at, taken } => {
                let (what, who) = (if *renewal { "renew" } else { "release" }, who(Some(token), *address));
                let both = ms(*at, *taken);
                format!("{who} tried to {what} it {} ago, {both} after another had taken it: both worked", ms(now, *at))
            }
        }
    }
}

pub(in crate::model) fn no_ttl(of_the_library: bool) -> String {
    let whose = if of_the_library { ", as is usual for its library" } else { "" };
    format!("it has no TTL{whose}: if its holder died, it stays until somebody frees it")
}

/// `renewed every 10.0s until 32.0s ago`.
pub(in crate::model) fn until(rhythm: &Rhythm, now: Time) -> String {
    let last = now.since(rhythm.last).as_millis() as u64;
    format!("renewed every {} until {} ago", short_duration(rhythm.period_ms), short_duration(last))
}

fn free(last: &Hold, now: Time) -> String {
    let ago = short_duration(now.since(last.until).as_millis() as u64);
    let held = short_duration(last.until.since(last.since).as_millis() as u64);
    let least = if last.exact { "" } else { "at least " };
    let by = last.forced.as_ref().map(|write| format!(" {}", write.by_words())).unwrap_or_default();
    let how = if last.forced.is_some() { "freed" } else { last.ending.name() };
    format!("{how} {ago} ago{by}, after a hold of {least}{held}")
}

/// A client in a sentence: its token shortened, its address beside it.
pub(in crate::model) fn who(token: Option<&Token>, address: Option<&Address>) -> String {
    match (token.map(|token| short_token(&token.to_string())), address) {
        (Some(token), Some(address)) => format!("{token} at {address}"),
        (Some(token), None) => token,
        (None, Some(address)) => address.to_string(),
        (None, None) => "somebody".into(),
    }
}
