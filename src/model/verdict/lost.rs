//! What is said of a lock that the server lost, or may have: by what, how sure that is, and until when its holder may
//! believe in it.

use serde::{Deserialize, Serialize};

use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::lock::Token;
use crate::model::verdict::cause::who;
use crate::model::{Ending, Former, HeldIs, Loss};

/// The holder may still have been told of the loss, or have seen it by itself.
const PROVEN: f32 = 0.97;
/// It may as well have been released while nobody watched.
const UNPROVEN: f32 = 0.5;

/// A hold that the server lost, or may have, as readers get it. Nobody holds the lock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lost {
    pub by: Ending,
    /// Its holder can't have released it.
    pub proven: bool,
    /// When it was found to be gone.
    pub at: Time,
    /// Who held it, or one of them.
    pub holder: Option<Token>,
    pub holders: usize,
    /// When its lease would have ended; `None`: it had none.
    pub lease_ends: Option<Time>,
}

impl Lost {
    pub(in crate::model) fn of(former: &Former, loss: &Loss) -> Lost {
        let Loss { by, proven, at, holders, leased, .. } = *loss;
        let lease_ends = former.until.filter(|_| leased);
        Lost { by, proven, at, holder: former.token.clone(), holders, lease_ends }
    }

    /// Why nothing can be freed.
    pub fn nothing_to_free(&self) -> String {
        let holder = who(self.holder.as_ref(), None);
        let at_work = if self.proven { "may still be at work" } else { "may have released it" };
        format!("it is not on the server any more, so there is nothing to free; {holder}, who held it, {at_work}")
    }
}

impl Loss {
    /// 0 to 1.
    pub(in crate::model) fn confidence(&self) -> f32 {
        if self.proven { PROVEN } else { UNPROVEN }
    }

    /// It was written long enough ago for the new server to have it, so most likely it was released there.
    pub(in crate::model) fn reached(&self) -> bool {
        !self.proven && self.cut.is_some_and(|cut| self.given <= cut)
    }

    /// What happened, who held it, and what is left of the lease.
    pub(in crate::model) fn sentence(&self, former: &Former, now: Time) -> String {
        let ms = |later: Time, earlier: Time| short_duration(later.since(earlier).as_millis() as u64);
        let ago = ms(now, self.at);
        let how = match (self.by, self.cut.filter(|_| self.proven)) {
            (Ending::Failover, Some(cut)) => {
                let after = ms(self.since.0, cut);
                format!("lost in a failover {ago} ago: taken {after} after the last write that reached the new master")
            }
            (Ending::Failover, None) => format!("gone after a failover {ago} ago: lost, or released unseen"),
            (Ending::Restart, _) if self.proven => {
                format!("lost in a restart {ago} ago: the server came back with nothing")
            }
            (Ending::Restart, _) => format!("gone after a restart {ago} ago: lost, or released unseen"),
            (Ending::SlotTaken, _) => {
                format!("gone {ago} ago, when another node took its slot: lost, or released unseen")
            }
            (Ending::Evicted, _) => format!("evicted by the server {ago} ago"),
            (Ending::Flushed, _) => format!("flushed {ago} ago, by FLUSHALL, FLUSHDB or SWAPDB"),
            (Ending::Renamed, _) => format!("its key was renamed {ago} ago"),
            (ending, _) => format!("{} {ago} ago", ending.name()),
        };
        let least = if self.since.1 == HeldIs::Exact { "" } else { "at least " };
        let held = ms(self.at, self.since.0);
        let more = match self.holders.saturating_sub(1) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let lease = match former.until.filter(|_| self.leased) {
            Some(until) => format!("would have ended in {}", ms(until, now)),
            None => "had no end".into(),
        };
        let who = who(former.token.as_ref(), None);
        format!("{how}; {who}{more} held it for {least}{held} and may not know: the lease {lease}")
    }
}
