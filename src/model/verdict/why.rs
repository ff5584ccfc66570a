//! Why a lock has its verdict, as a tree: questions, what speaks for and against a yes, what is not known, and what would
//! settle it.
//!
//! Evidence is data: a new kind is a [`Fact`] with its sentence here, and a line in `derive` that says which question it
//! belongs to. Readers print the tree ([`output::tree`](crate::output::tree)) or write it as JSON.

mod derive;
#[cfg(test)]
mod tests;

use crate::base::text::{short_duration, visible};
use crate::base::time::Time;
use crate::dialects::Renewal;
use crate::model::verdict::liveness::until_renewed;
use crate::model::{Address, Certainty, Ending, HeldIs, SOMEBODY, Sign, State, Waits};

/// The derivation of a verdict.
#[derive(Clone, PartialEq, Debug)]
pub struct Why {
    pub state: State,
    pub certainty: Certainty,
    /// In the order in which a verdict asks them: the first whose answer is bad decides.
    pub questions: Vec<Question>,
    /// When it was derived.
    pub at: Time,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    pub about: About,
    pub answer: Answer,
    /// How sure the answer is; `None` where there is none.
    pub certainty: Option<Certainty>,
    /// The verdict follows from it.
    pub decides: bool,
    pub evidence: Vec<Evidence>,
    pub missing: Vec<Missing>,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    Held,
    Second,
    Lives,
    Ends,
    Wanted,
    Long,
    Library,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Yes,
    No,
    /// Nothing speaks for a yes, which is all that can be seen.
    NothingSeen,
    NotKnown,
}

/// One thing that was seen or read.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    pub fact: Fact,
    pub says: Says,
    pub by: By,
    /// When it was seen; `None` for what holds at any time.
    pub at: Option<Time>,
}

/// What a fact says about a yes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    For,
    Against,
    Neither,
}

/// Who saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// A read of the key.
    Read,
    Notification,
    Tracking,
    /// Regular reads of the key, since nothing reports changes.
    Polling,
    ClientList,
    Monitor,
    /// OBJECT IDLETIME: when the key was last accessed.
    IdleTime,
    /// Subscribers, queues or blocked clients were counted.
    Counted,
    /// What the library is known to do.
    Library,
    /// Holds of the same name pattern.
    History,
    /// Concluded from several of these.
    Judgement,
}

/// What was seen, with its numbers.
#[derive(Clone, PartialEq, Debug)]
pub enum Fact {
    KeyThere {
        type_name: String,
        holders: usize,
    },
    /// It counts permits, or a key that nobody holds.
    Vacant,
    Ended {
        how: Ending,
        held_ms: u64,
    },
    Age {
        ms: u64,
        is: HeldIs,
    },
    Renewed {
        count: u64,
        every_ms: Option<u64>,
        last_ms: u64,
    },
    Missed {
        count: u64,
        last_ms: u64,
    },
    NeverRenewed,
    Connected {
        address: Address,
    },
    Closed {
        address: Address,
        ago_ms: Option<u64>,
    },
    /// Others from there, by its name and user, are connected.
    LikeIt,
    Absent,
    /// What a first look shows.
    Sign(Sign),
    Expires {
        left_ms: u64,
        lease: Option<String>,
    },
    NoTtl,
    Renewer(Renewal),
    Waits(Waits),
    Failures {
        per_s: f64,
        attempts_per_s: f64,
    },
    Contenders(usize),
    Polled,
    /// Its library does not wait.
    GivesUp,
    Usual(String),
    Recognised {
        dialect: &'static str,
        by_user: bool,
    },
    OrElse {
        dialect: &'static str,
    },
    /// A sentence of the verdict or of a finding, which has its numbers already.
    Said(String),
}

/// What is not known.
#[derive(Clone, PartialEq, Debug)]
pub enum Missing {
    /// It was not watched for as long as its renewals take.
    Renewals {
        watch_ms: Option<u64>,
    },
    /// Notifications were not followed: it was looked at once, or the server sends none.
    Events,
    Client,
    Waiters,
    Attempts,
    Library,
    /// By a finding's own words.
    Said(String),
}

/// How MONITOR is had where a sentence is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Monitor {
    /// It runs: nobody has to start it.
    Runs,
    /// By this key of the console.
    Key(String),
    /// By a command, with these options that lead it to the same server.
    Command(String),
}

impl Monitor {
    const ASKED: &str = "sample with MONITOR";

    /// What would settle something, with how to do that here. Advice to sample begins with the same words everywhere.
    pub fn told(&self, settle: &str) -> String {
        match self {
            Monitor::Runs => settle.replace(Self::ASKED, "MONITOR runs already"),
            Monitor::Key(key) => settle.replace(Self::ASKED, &format!("{} ({key})", Self::ASKED)),
            Monitor::Command(again) => {
                settle.replace(Self::ASKED, &format!("{} ('lockscope contention --monitor{again}')", Self::ASKED))
            }
        }
    }
}

impl About {
    /// The word for programs.
    pub fn name(self) -> &'static str {
        match self {
            About::Held => "held",
            About::Second => "second-holder",
            About::Lives => "holder-lives",
            About::Ends => "ends-by-itself",
            About::Wanted => "wanted",
            About::Long => "longer-than-usual",
            About::Library => "library",
        }
    }

    pub fn question(self) -> &'static str {
        match self {
            About::Held => "Is it held?",
            About::Second => "Are two at work under it?",
            About::Lives => "Does its holder live?",
            About::Ends => "Does it end by itself?",
            About::Wanted => "Does anybody wait for it?",
            About::Long => "Is it held for longer than usual?",
            About::Library => "Is its library known?",
        }
    }
}

impl Answer {
    pub fn word(self) -> &'static str {
        match self {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::NothingSeen => "nothing shows it",
            Answer::NotKnown => "not known",
        }
    }
}

impl Says {
    pub fn word(self) -> &'static str {
        match self {
            Says::For => "for",
            Says::Against => "against",
            Says::Neither => "neither",
        }
    }
}

impl By {
    pub fn word(self) -> &'static str {
        match self {
            By::Read => "read",
            By::Notification => "notification",
            By::Tracking => "tracking",
            By::Polling => "polling",
            By::ClientList => "CLIENT LIST",
            By::Monitor => "MONITOR",
            By::IdleTime => "OBJECT IDLETIME",
            By::Counted => "counted",
            By::Library => "library",
            By::History => "earlier holds",
            By::Judgement => "judgement",
        }
    }
}

impl Fact {
    /// In one sentence without a full stop.
    pub fn sentence(&self) -> String {
        let time = |ms: &u64| short_duration(*ms);
        match self {
            Fact::KeyThere { type_name, holders } => {
                let holders = match holders {
                    0 => "names no holder".into(),
                    1 => "names 1 holder".to_string(),
                    count => format!("names {count} holders"),
                };
                format!("its key exists (a {}) and {holders}", visible(type_name.as_bytes()))
            }
            Fact::Vacant => "its key exists, but nobody holds it".into(),
            Fact::Ended { how, held_ms } => format!("its last hold ended: {} after {}", how.name(), time(held_ms)),
            Fact::Age { ms, is: HeldIs::Exact } => format!("it was taken {} ago, and that was seen", time(ms)),
            Fact::Age { ms, is: HeldIs::AtLeast } => format!("it has been held for at least {}", time(ms)),
            Fact::Age { ms, is: HeldIs::Estimated } => format!("taken {} ago, by the clock of its holder", time(ms)),
            Fact::Renewed { count, every_ms, last_ms } => {
                let every = every_ms.as_ref().map(|ms| format!(" every {}", time(ms))).unwrap_or_default();
                let times = if *count == 1 { "once".into() } else { format!("{count} times") };
                format!("renewed {times}{every}, last {} ago", time(last_ms))
            }
            Fact::Missed { count: 1, last_ms } => format!("1 renewal is missing: silent for {}", time(last_ms)),
            Fact::Missed { count, last_ms } => format!("{count} renewals are missing: silent for {}", time(last_ms)),
            Fact::NeverRenewed => "no renewal was seen".into(),
            Fact::Connected { address } => format!("its client {address} is connected"),
            Fact::Closed { address, ago_ms } => {
                let ago = ago_ms.as_ref().map(|ms| format!(" {} ago", time(ms))).unwrap_or_default();
                format!("its client's connection {address} closed{ago}")
            }
            Fact::LikeIt => "others like its client are connected: one of them may be its own".into(),
            Fact::Absent => {
                "no client has its holder's name, though the clients of other holders like it are connected".into()
            }
            Fact::Sign(sign) => sign.sentence(),
            Fact::Expires { left_ms, lease: Some(lease) } => {
                format!("its TTL ends in {} (lease {lease})", time(left_ms))
            }
            Fact::Expires { left_ms, lease: None } => format!("its TTL ends in {}", time(left_ms)),
            Fact::NoTtl => "it has no TTL".into(),
            Fact::Renewer(Renewal::Watchdog { .. }) => "its library always renews while the holder lives".into(),
            Fact::Renewer(Renewal::Optional { .. }) => "its library renews where the application asks for it".into(),
            Fact::Renewer(Renewal::Manual) => "its library renews nothing by itself".into(),
            Fact::Renewer(Renewal::NoLease) => "its library gives no TTL by itself".into(),
            Fact::Waits(waits) => waits.sentence(waits.counted),
            Fact::Failures { per_s, attempts_per_s } => {
                format!("{per_s:.1} of {attempts_per_s:.1} attempts a second fail")
            }
            Fact::Contenders(1) => "1 client was refused, and tried lately".into(),
            Fact::Contenders(count) => format!("{count} clients were refused, and tried lately"),
            Fact::Polled => format!("{SOMEBODY}; who it is, is not known"),
            Fact::GivesUp => "in its library a refused attempt gives up".into(),
            Fact::Usual(usual) => usual.clone(),
            Fact::Recognised { dialect, by_user: true } => format!("you said that its library is {dialect}"),
            Fact::Recognised { dialect, by_user: false } => format!("its name and value are as {dialect} writes them"),
            Fact::OrElse { dialect } => format!("its library could also be {dialect}"),
            Fact::Said(sentence) => sentence.clone(),
        }
    }
}

impl Missing {
    /// What is not known, in a clause.
    pub fn sentence(&self) -> String {
        match self {
            Missing::Renewals { .. } => "how often it is renewed: it was not watched long enough".into(),
            Missing::Events => "changes between two looks: notifications were not followed".into(),
            Missing::Client => "which client holds it".into(),
            Missing::Waiters => "how many wait".into(),
            Missing::Attempts => "how many attempts fail".into(),
            Missing::Library => "which library it belongs to".into(),
            Missing::Said(_) => "whether that is so".into(),
        }
    }

    /// What would settle it, where MONITOR is had in this way.
    pub fn settle(&self, monitor: &Monitor) -> String {
        match self {
            Missing::Renewals { watch_ms: Some(ms) } => {
                format!("watch it for {} (--observe, or the console)", until_renewed(*ms))
            }
            Missing::Renewals { watch_ms: None } => "watch it for some time (--observe, or the console)".into(),
            Missing::Events => {
                "watch it (--observe, or the console); 'lockscope doctor' says whether the server sends them".into()
            }
            Missing::Client => monitor.told("sample with MONITOR: it shows the client at its next command"),
            Missing::Waiters | Missing::Attempts => monitor.told("sample with MONITOR: it shows who is refused"),
            Missing::Library => "name it with --dialect NAME=GLOB".into(),
            Missing::Said(how) => monitor.told(how),
        }
    }
}
