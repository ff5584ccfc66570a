//! One entry of the timeline: something that matters to a person who asks what happened.
//!
//! Ordinary acquires, renewals and releases do not matter; a verdict that changed, a lock that was lost or taken over, a
//! restart, a time without watching and our own writes do. The console and `watch --notable` take their words from here.
//! An entry can be written to a file, like a transition.

use serde::{Deserialize, Serialize};

use crate::base::text::{counted, short_duration, visible};
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, NodeId, SLOTS, Token};
use crate::model::{Act, Ending, OwnWrite, ServerNews, Source, State};

/// One entry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Notable {
    pub at: Time,
    pub space: KeyspaceId,
    pub node: NodeId,
    /// The lock; `None` if it concerns the whole server or many locks.
    pub key: Option<Key>,
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum What {
    /// The verdict changed. `ending`: how the hold ended; `why`: the first sentence of evidence, if it goes on.
    State {
        from: State,
        to: State,
        holder: Option<Token>,
        ending: Option<Ending>,
        why: Option<String>,
    },
    /// The holder changed without a release in between.
    Taken {
        holder: Option<Token>,
        previous: Option<Token>,
    },
    /// Locks ended, and nobody released them. `some`: the names of the first of them.
    Lost {
        cause: LostBy,
        locks: u64,
        some: Vec<Key>,
        previous: Option<Token>,
    },
    /// This lockscope wrote to the lock, which was in that state.
    Wrote {
        from: State,
        write: Box<OwnWrite>,
    },
    Restarted,
    /// Another node of the cluster is the master of these slots now.
    Failover {
        from: String,
        to: String,
        slots: u16,
    },
    /// Nodes came or went, slots moved, or a clock jumped.
    Server(ServerNews),
    /// The server was lost, so that changes are missed.
    Away {
        why: String,
    },
    /// It is watched again.
    Back {
        away_ms: u64,
        source: Source,
    },
    /// Events came too fast and were lost; `None`: nobody knows how many.
    Missed {
        events: Option<u64>,
    },
    /// Sampling by MONITOR was turned on or off.
    Sampling {
        on: bool,
    },
}

/// Why locks were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LostBy {
    /// They did not survive a restart of the server.
    Restart,
    /// They were not there when another server took its place; without a proof, their holders may have released them.
    Failover {
        proven: bool,
    },
    /// They were gone when another node took their slot; their holders may have released them.
    SlotTaken,
    /// They were written to a master that was replaced, and thrown away when it was demoted; or it does not answer any more.
    Deposed {
        demoted: bool,
    },
    Flush,
    Eviction,
    Rename,
    /// They were gone after a time without watching; their holders may have released them.
    Unseen,
}

impl LostBy {
    /// The word of the JSON contract.
    pub fn name(self) -> &'static str {
        match self {
            LostBy::Restart => "restart",
            LostBy::Failover { .. } | LostBy::Deposed { .. } => "failover",
            LostBy::SlotTaken => "slot-taken",
            LostBy::Flush => "flush",
            LostBy::Eviction => "eviction",
            LostBy::Rename => "rename",
            LostBy::Unseen => "unseen",
        }
    }

    /// Whether the server took them: their holders did not release them.
    pub fn is_proven(self) -> bool {
        use LostBy::*;
        matches!(self, Restart | Failover { proven: true } | Deposed { demoted: true } | Flush | Eviction)
    }
}

impl What {
    /// The word of the JSON contract.
    pub fn name(&self) -> &'static str {
        match self {
            What::State { .. } => "state",
            What::Taken { .. } => "taken",
            What::Lost { .. } => "lost",
            What::Wrote { write, .. } => match write.act {
                Act::Free { .. } => "freed",
                Act::Extend(_) => "extended",
                Act::PutBack { .. } => "put-back",
            },
            What::Restarted => "restart",
            What::Failover { .. } => "failover",
            What::Server(news) => news.name(),
            What::Away { .. } => "away",
            What::Back { .. } => "back",
            What::Missed { .. } => "missed",
            What::Sampling { .. } => "sampling",
        }
    }

    /// A few words for people: `HELD → STALLED`, `FREED`.
    pub fn headline(&self, arrow: &str) -> String {
        match self {
            What::State { from, to, .. } => format!("{} {arrow} {}", from.label(), to.label()),
            What::Lost { cause: LostBy::Unseen, .. } => "ENDED UNSEEN".into(),
            What::Server(news) => news.headline().into(),
            What::Away { .. } => "GAP BEGINS".into(),
            What::Back { .. } => "GAP ENDS".into(),
            What::Missed { .. } => "GAP".into(),
            What::Sampling { on: true } => "SAMPLING ON".into(),
            What::Sampling { on: false } => "SAMPLING OFF".into(),
            What::Wrote { .. } | What::Taken { .. } | What::Lost { .. } => self.name().replace('-', " ").to_uppercase(),
            What::Restarted | What::Failover { .. } => self.name().replace('-', " ").to_uppercase(),
        }
    }

    /// The rest, in a sentence. `token`: how a token may be shown.
    pub fn sentence(&self, token: impl Fn(&Token) -> String) -> String {
        let held = |by: &Option<Token>| by.as_ref().map(|by| format!("; held by {}", token(by))).unwrap_or_default();
        let who = |by: &Option<Token>| by.as_ref().map_or("somebody".into(), &token);
        match self {
            What::State { ending: Some(ending), holder, .. } => format!("{}{}", ending.name(), held(holder)),
            What::State { why: Some(why), .. } => why.clone(),
            What::State { holder, .. } => {
                holder.as_ref().map(|by| format!("held by {}", token(by))).unwrap_or_default()
            }
            What::Taken { holder, previous } => {
                format!("{} took it from {} without a release", who(holder), who(previous))
            }
            What::Lost { cause, locks: 1, previous, .. } => format!("{}{}", lost_words(*cause, false), held(previous)),
            What::Lost { cause, locks, some, .. } => {
                let named: Vec<String> = some.iter().map(Key::to_string).collect();
                let others = if *locks > some.len() as u64 { ", …" } else { "" };
                let (many, how) = (counted(*locks, "lock"), lost_words(*cause, true));
                format!("{many} {how}: {}{others}", named.join(", "))
            }
            What::Wrote { from, write } => {
                let long = match write.act {
                    Act::Extend(by) => format!("to {} ", short_duration(by.as_millis() as u64)),
                    _ => String::new(),
                };
                let was = match write.act {
                    Act::PutBack { .. } => String::new(),
                    _ => format!("; it was {}", from.label()),
                };
                format!("{long}{}{was}", write.by_words())
            }
            What::Restarted => "the server was restarted".into(),
            What::Failover { from, to, slots } => {
                // Where one server has all, slots mean nothing: a Sentinel service.
                let slots = Some(*slots).filter(|slots| *slots < SLOTS);
                let slots = slots.map(|slots| format!(" {}", counted(u64::from(slots), "slot"))).unwrap_or_default();
                format!("{} took over{slots} from {}", visible(to.as_bytes()), visible(from.as_bytes()))
            }
            What::Server(news) => news.sentence(),
            What::Away { why } => format!("the server does not answer: {}", visible(why.as_bytes())),
            What::Back { away_ms, source } => {
                format!("not watched for {}; watched again by {}", short_duration(*away_ms), source.stream())
            }
            What::Missed { events } => {
                let lost = events.map_or("events".into(), |events| counted(events, "event"));
                format!("{lost} lost: more came than could be read")
            }
            What::Sampling { .. } => "attempts are sampled with MONITOR while it is on".into(),
        }
    }

    /// Whether it concerns a server, and not locks or what we do there.
    pub fn is_of_server(&self) -> bool {
        matches!(
            self,
            What::Restarted
                | What::Failover { .. }
                | What::Server(_)
                | What::Away { .. }
                | What::Back { .. }
                | What::Missed { .. }
        )
    }

    /// The tokens that a filter may ask for.
    pub fn tokens(&self) -> [Option<&Token>; 2] {
        match self {
            What::State { holder, .. } => [holder.as_ref(), None],
            What::Taken { holder, previous } => [holder.as_ref(), previous.as_ref()],
            What::Lost { previous, .. } => [previous.as_ref(), None],
            What::Wrote { write, .. } => [write.holders.first(), None],
            _ => [None, None],
        }
    }

    /// The states that a filter may ask for.
    pub fn states(&self) -> [Option<State>; 2] {
        match self {
            What::State { from, to, .. } => [Some(*from), Some(*to)],
            What::Wrote { from, .. } => [Some(*from), None],
            _ => [None, None],
        }
    }
}

fn lost_words(cause: LostBy, many: bool) -> &'static str {
    match (cause, many) {
        (LostBy::Restart, _) => "did not survive the restart",
        (LostBy::Failover { proven: true }, _) => "did not survive the failover",
        (LostBy::Failover { proven: false }, true) => "were lost in the failover, or released unseen",
        (LostBy::Failover { proven: false }, false) => "was lost in the failover, or released unseen",
        (LostBy::Deposed { demoted: true }, true) => {
            "were written on the deposed master, and thrown away when it was demoted"
        }
        (LostBy::Deposed { demoted: true }, false) => {
            "was written on the deposed master, and thrown away when it was demoted"
        }
        (LostBy::Deposed { demoted: false }, true) => {
            "were written on the deposed master, which does not answer any more"
        }
        (LostBy::Deposed { demoted: false }, false) => {
            "was written on the deposed master, which does not answer any more"
        }
        (LostBy::SlotTaken, true) => "were lost when their slots moved, or released unseen",
        (LostBy::SlotTaken, false) => "was lost when its slot moved, or released unseen",
        (LostBy::Flush, true) => "were flushed",
        (LostBy::Flush, false) => "was flushed",
        (LostBy::Eviction, true) => "were evicted",
        (LostBy::Eviction, false) => "was evicted",
        (LostBy::Rename, true) => "were renamed away",
        (LostBy::Rename, false) => "was renamed away",
        (LostBy::Unseen, _) => "ended while nothing was watched",
    }
}

impl Notable {
    /// The bytes that it takes beside its own size.
    pub(in crate::model) fn heap(&self) -> usize {
        /// What an allocation costs beside its contents.
        const EACH: usize = 16;
        let token = |token: &Option<Token>| token.as_ref().map_or(0, |token| token.as_bytes().len() + EACH);
        let key = |key: &Key| key.as_bytes().len() + EACH;
        let what = match &self.what {
            What::State { holder, why, .. } => token(holder) + why.as_ref().map_or(0, |why| why.capacity() + EACH),
            What::Taken { holder, previous } => token(holder) + token(previous),
            What::Lost { some, previous, .. } => {
                some.iter().map(key).sum::<usize>() + some.capacity() * size_of::<Key>() + EACH + token(previous)
            }
            What::Wrote { write, .. } => {
                let holders = write.holders.iter().map(|token| token.as_bytes().len() + EACH + size_of::<Token>());
                let reason = write.reason.as_ref().map_or(0, |reason| reason.capacity() + EACH);
                size_of::<OwnWrite>() + EACH + holders.sum::<usize>() + write.by.capacity() + EACH + reason
            }
            What::Failover { from, to, .. } => from.capacity() + to.capacity() + 2 * EACH,
            What::Server(news) => news.heap() + 2 * EACH,
            What::Away { why } => why.capacity() + EACH,
            What::Restarted | What::Back { .. } | What::Missed { .. } | What::Sampling { .. } => 0,
        };
        self.key.as_ref().map_or(0, key) + what
    }
}
