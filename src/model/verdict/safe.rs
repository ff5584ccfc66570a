//! Whether a lock is safe to free: the advice, and the facts that it follows from, in one line.
//!
//! Every screen and command that speaks of freeing prints this line, so that none says more than another. Pure: it judges
//! a [`LockView`] and asks nobody. "Free it" is said only where the verdict is certain or likely.

use serde::{Deserialize, Serialize};

use crate::base::text::short_duration;
use crate::dialects::{self, Claim, Dialect, IfFreed, Renewal};
use crate::lock::{Kind, Mode};
use crate::model::verdict::liveness::until_renewed;
use crate::model::{Certainty, Life, LockView, MatchedBy, Presence, SOMEBODY, State};

/// What ends sooner than this is waited for: a release can go wrong, and takes an operator as long.
const SOON_MS: u64 = 10_000;
/// What nothing was seen to renew is waited for as long as this.
const PATIENT_MS: u64 = 60_000;

/// What an operator should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Advice {
    /// Nobody holds it.
    NothingToFree,
    Leave(Stays),
    /// Its library does harm when a lock is gone, even one of a dead holder.
    Never,
    /// What is known of it is old.
    LookAgain,
    /// It counts permits: they are given back one by one.
    GivePermitsBack,
    Free,
    /// Some of its holders are gone, and others are not.
    FreeShare,
    /// It ends by itself in this many milliseconds.
    Wait {
        ms: u64,
        unless_renewed: bool,
    },
    /// It would stay for ever, and nothing shows that its holder is gone.
    GiveTtl,
    AskOwner(Because),
    /// One renewal period, or a burst of MONITOR, would show whether its holder lives.
    Settle {
        watch_ms: Option<u64>,
    },
}

/// Why a lock is left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Stays {
    /// It marks work as done.
    Marker,
    /// lockscope took it.
    Test,
    /// Its library keeps it beyond the work.
    OnPurpose,
}

/// Why only its owner knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Because {
    Renewing,
    Connected,
    JustTaken,
    /// Two may be at work: the owner must decide who keeps it.
    TwoAtWork,
    /// Nothing on the server shows whether the work goes on.
    NotShown,
}

/// What of its holder was seen last, and so what an operator should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulse {
    /// Its renewals come in time.
    Renews {
        last_ms: u64,
    },
    /// Its client is connected, whether it renews or not.
    Connected,
    /// Somebody took it just now.
    JustTaken,
    /// The verdict says that it is gone.
    Gone,
    /// Its renewals have stopped, or something else says that it may be gone.
    Suspected,
    Unknown,
}

/// The line, in parts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Safe {
    pub advice: Advice,
    state: State,
    /// How sure the state is.
    confidence: f32,
    /// Whether it is renewed, as a clause.
    pub silence: String,
    /// Whether its holder's client is connected, as a clause.
    pub connection: String,
    /// Who waits for it, as a clause.
    pub waiting: String,
    /// What its library does to a holder that lives, as a sentence.
    pub if_freed: String,
}

impl Advice {
    /// The word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Advice::NothingToFree => "nothing-to-free",
            Advice::Leave(_) => "leave",
            Advice::Never => "never",
            Advice::LookAgain => "look-again",
            Advice::GivePermitsBack => "give-permits-back",
            Advice::Free => "free",
            Advice::FreeShare => "free-share",
            Advice::Wait { .. } => "wait",
            Advice::GiveTtl => "give-ttl",
            Advice::AskOwner(_) => "ask-owner",
            Advice::Settle { .. } => "settle",
        }
    }

    /// The answer to "is it safe to free?".
    pub fn answer(self) -> &'static str {
        match self {
            Advice::Free | Advice::FreeShare => "yes",
            Advice::Wait { .. } | Advice::GiveTtl | Advice::LookAgain => "not yet",
            Advice::Settle { .. } => "not known",
            Advice::NothingToFree
            | Advice::Leave(_)
            | Advice::Never
            | Advice::GivePermitsBack
            | Advice::AskOwner(_) => "no",
        }
    }

    /// As a clause: `ask the owner: it is renewing`.
    pub fn words(self) -> String {
        match self {
            Advice::NothingToFree => "nobody holds it".into(),
            Advice::Leave(Stays::Marker) => "leave it: it marks work as done".into(),
            Advice::Leave(Stays::Test) => "leave it: lockscope took it as a test, and gives it back".into(),
            Advice::Leave(Stays::OnPurpose) => "leave it: its library may keep it on purpose until its TTL ends".into(),
            Advice::Never => "leave it: its library does harm when its lock is freed".into(),
            Advice::LookAgain => "look again first: what is shown is old".into(),
            Advice::GivePermitsBack => "give single permits back: who has them is not stored".into(),
            Advice::Free => "free it".into(),
            Advice::FreeShare => "free only the hold that is gone: the others keep the lock".into(),
            Advice::Wait { ms, unless_renewed } => {
                let unless = if unless_renewed { " unless it is renewed" } else { "" };
                format!("wait {}: it ends by itself{unless}", short_duration(ms))
            }
            Advice::GiveTtl => {
                "give it a TTL first, longer than its work can take: it ends then, even if its holder still works"
                    .into()
            }
            Advice::AskOwner(Because::Renewing) => "ask the owner: it is renewing".into(),
            Advice::AskOwner(Because::Connected) => "ask the owner: its client is connected".into(),
            Advice::AskOwner(Because::JustTaken) => "ask the owner: it was taken just now".into(),
            Advice::AskOwner(Because::TwoAtWork) => "ask the owner which of the two must stop".into(),
            Advice::AskOwner(Because::NotShown) => {
                "ask the owner: nothing on the server shows whether the work goes on".into()
            }
            Advice::Settle { watch_ms: Some(ms) } => {
                format!("watch it for {}", until_renewed(ms))
            }
            Advice::Settle { watch_ms: None } => {
                "find out first whether its holder lives: a burst of MONITOR shows its client".into()
            }
        }
    }
}

impl Pulse {
    pub fn of(lock: &LockView) -> Pulse {
        if lock.verdict.state == State::Orphan {
            return Pulse::Gone;
        }
        let life = lock.liveness.as_ref().map(|liveness| liveness.is);
        let renewals = lock.renewals.as_ref().filter(|_| lock.kind == Kind::Lock);
        // Where a single renewal was seen, none can be missed yet.
        let missed = renewals.and_then(|renewals| renewals.missed).unwrap_or(0);
        match renewals.and_then(|renewals| renewals.last_ms) {
            // It renewed, and is not late. An operator who put it back did not renew it.
            Some(last_ms) if missed == 0 && !matches!(life, Some(Life::Suspected | Life::Unknown)) => {
                Pulse::Renews { last_ms }
            }
            _ if lock.presence.iter().any(|presence| presence.is_connected() == Some(true)) => Pulse::Connected,
            _ if life == Some(Life::Lives) => Pulse::JustTaken,
            Some(_) => Pulse::Suspected,
            None if life == Some(Life::Suspected) => Pulse::Suspected,
            None => Pulse::Unknown,
        }
    }
}

impl Safe {
    pub fn of(lock: &LockView) -> Safe {
        Safe {
            advice: advise(lock),
            state: lock.verdict.state,
            confidence: lock.verdict.confidence,
            silence: silence(lock),
            connection: connection(lock),
            // What somebody has just seen comes before the last count.
            waiting: lock.proof.waiting.clone().unwrap_or_else(|| counted(lock)),
            if_freed: if_freed(lock),
        }
    }

    /// The same, by who is known to wait by now.
    pub fn with_waiting(self, waiting: String) -> Safe {
        Safe { waiting, ..self }
    }

    /// The whole line.
    pub fn sentence(&self) -> String {
        match self.advice {
            Advice::NothingToFree | Advice::Leave(_) | Advice::GivePermitsBack => self.short(),
            _ => format!("{} {}.", self.short(), self.if_freed),
        }
    }

    /// The line without what the library does: `not yet; wait 6.0s: it ends by itself. ORPHAN (likely), silent for …`
    pub fn short(&self) -> String {
        let Safe { advice, state, silence, connection, waiting, .. } = self;
        let (answer, words) = (advice.answer(), advice.words());
        if matches!(advice, Advice::NothingToFree | Advice::Leave(_) | Advice::GivePermitsBack) {
            return format!("{answer}; {words}.");
        }
        let (state, certainty) = (state.label(), Certainty::of(self.confidence).word());
        format!("{answer}; {words}. {state} ({certainty}), {silence}, {connection}, {waiting}.")
    }
}

/// What to do about a lock: every lock has one advice.
pub fn advise(lock: &LockView) -> Advice {
    match lock.verdict.state {
        State::Free | State::Lost => return Advice::NothingToFree,
        State::Done => return Advice::Leave(Stays::Marker),
        State::Test => return Advice::Leave(Stays::Test),
        _ if lock.stale => return Advice::LookAgain,
        State::Split => return Advice::AskOwner(Because::TwoAtWork),
        _ => {}
    }
    if lock.mode == Mode::Permit && lock.holders.is_empty() {
        return Advice::GivePermitsBack;
    }
    let Some(dialect) = dialects::by_name(lock.dialect).map(dialects::dialect) else {
        return Advice::Settle { watch_ms: None };
    };
    if dialect.release(&lock.sight(lock.at)).only_by_force.is_some() {
        return Advice::Never;
    }
    let left_ms = lock.ttl.remaining().map(|left| left.as_millis() as u64);
    if dialect.stays(lock.key.as_bytes()) {
        return match left_ms {
            None => Advice::AskOwner(Because::NotShown),
            Some(ms @ 0..=SOON_MS) => Advice::Wait { ms, unless_renewed: false },
            Some(_) => Advice::Leave(Stays::OnPurpose),
        };
    }
    let is_dead_share =
        |name: &str, confidence| name == "dead-holder" && Certainty::of(confidence) >= Certainty::Likely;
    if lock.findings.iter().any(|finding| is_dead_share(finding.name, finding.confidence)) {
        return Advice::FreeShare;
    }
    match (Pulse::of(lock), left_ms) {
        (Pulse::Gone, Some(ms @ 0..=SOON_MS)) => Advice::Wait { ms, unless_renewed: false },
        (Pulse::Gone, _) if Certainty::of(lock.verdict.confidence) >= Certainty::Likely => Advice::Free,
        (Pulse::Renews { .. }, _) => Advice::AskOwner(Because::Renewing),
        (Pulse::Connected, _) => Advice::AskOwner(Because::Connected),
        (Pulse::JustTaken, _) => Advice::AskOwner(Because::JustTaken),
        (Pulse::Gone | Pulse::Suspected | Pulse::Unknown, None) => {
            let by_time = dialects::is_freed_by_time(dialect, &lock.sight(lock.at));
            let own_ends = lock.holders.iter().any(|holder| holder.until.is_some());
            if by_time && !own_ends { Advice::GiveTtl } else { Advice::AskOwner(Because::NotShown) }
        }
        (Pulse::Gone | Pulse::Suspected | Pulse::Unknown, Some(ms)) => in_doubt(lock, dialect, ms),
    }
}

/// Nothing shows whether its holder lives, and it ends by itself.
fn in_doubt(lock: &LockView, dialect: &dyn Dialect, left_ms: u64) -> Advice {
    let unless_renewed = lock.verdict.state != State::Expiring && dialect.renewal() != Renewal::NoLease;
    let wait = Advice::Wait { ms: left_ms, unless_renewed };
    match lock.liveness.as_ref().and_then(|liveness| liveness.watch_ms) {
        _ if lock.verdict.state == State::Expiring || left_ms <= SOON_MS => wait,
        Some(ms) => Advice::Settle { watch_ms: Some(ms) },
        _ if left_ms <= PATIENT_MS => wait,
        // MONITOR would show what is known already.
        _ if lock.presence.iter().any(|presence| presence.is_connected() == Some(false)) => {
            Advice::AskOwner(Because::NotShown)
        }
        _ => Advice::Settle { watch_ms: None },
    }
}

fn silence(lock: &LockView) -> String {
    let Some(renewals) = &lock.renewals else { return "renewals not known".into() };
    match (renewals.last_ms, renewals.missed) {
        (Some(last), Some(missed @ 1..)) => {
            format!("silent for {} ({missed} missed)", short_duration(last))
        }
        (Some(last), _) => format!("renewed {} ago", short_duration(last)),
        (None, _) => "no renewal was seen".into(),
    }
}

fn connection(lock: &LockView) -> String {
    let count = |connected: Option<bool>| lock.presence.iter().filter(|one| one.is_connected() == connected).count();
    match lock.presence.as_slice() {
        [Presence::Closed { connection, .. }] => match connection.closed {
            Some(at) => format!("client closed {} ago", { short_duration(lock.at.since(at).as_millis() as u64) }),
            None => "client closed".into(),
        },
        [Presence::Absent] => "no such client connected".into(),
        [one] if one.is_connected() == Some(true) => "client connected".into(),
        [Presence::Connected { by: MatchedBy::Host, .. }] => "its host connected, perhaps by others".into(),
        [Presence::Connected { .. }] => "client seen, and not listed yet".into(),
        [] | [_] => "client not known".into(),
        several if count(None) == several.len() => "clients not known".into(),
        several => format!("{} of {} clients connected", count(Some(true)), several.len()),
    }
}

fn counted(lock: &LockView) -> String {
    if let Some(seen) = lock.tried_by() {
        return waiting(seen.into(), "at least ");
    }
    match lock.waits {
        None if lock.wanted.is_some() => SOMEBODY.into(),
        None if lock.gives_up() => waiting(0, ""),
        None => "waiters not known".into(),
        Some(waits) if waits.is_at_most() => format!("at most {} wait", waits.count),
        Some(waits) if waits.at_least => waiting(waits.count.into(), "at least "),
        Some(waits) => waiting(waits.count.into(), ""),
    }
}

/// `nobody waits`, `1 waits`, `at least 3 wait`.
pub fn waiting(count: u64, bound: &str) -> String {
    match (count, bound) {
        (0, "") => "nobody waits".into(),
        (1, _) => format!("{bound}1 waits"),
        (count, _) => format!("{bound}{count} wait"),
    }
}

/// What its library does to a holder that lives; where the library is a guess, that is one too.
fn if_freed(lock: &LockView) -> String {
    let known = dialects::by_name(lock.dialect).map_or(IfFreed::Unknown, |id| dialects::dialect(id).if_freed());
    let sentence = known.sentence();
    match known {
        IfFreed::Unknown => sentence,
        _ if lock.dialect_confidence >= Claim::SURE => sentence,
        // The sentence begins with "If", or with "What" where nothing is known.
        _ => sentence.replacen("If ", &format!("If the library is {} and ", lock.dialect), 1),
    }
}

#[cfg(test)]
mod tests;
