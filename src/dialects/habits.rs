//! How a library's locks live: what renews them, who waits for them and where that can be seen, and what becomes of a
//! holder whose lock is freed. Each as a sentence too, for detail views and the page on libraries.

use std::time::Duration;

use super::step::word;
use crate::base::text;
use crate::base::time::Ttl;

/// What keeps a lock of a dialect alive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Renewal {
    /// Nothing: the lease runs out unless the application extends it by hand.
    Manual,
    /// A watchdog renews it each time this share of the lease has passed.
    Watchdog { share: f32 },
    /// A watchdog, but only where the application asked for one.
    Optional { share: f32 },
    /// The library's locks have no lease to renew.
    NoLease,
}

impl Renewal {
    /// In one sentence, for the detail view of a lock with this TTL.
    pub fn describe(&self, left: Ttl) -> String {
        match self {
            _ if left == Ttl::Never => "The key has no lease: it stays until it is freed.".into(),
            Renewal::Watchdog { share } => format!("A watchdog renews it after {} of the lease.", percent(*share)),
            Renewal::Optional { share } => {
                format!("A watchdog renews it after {} of the lease, if the application uses one.", percent(*share))
            }
            Renewal::NoLease => "The library renews nothing: the TTL runs out.".into(),
            Renewal::Manual => "The lease runs out unless the application extends it by hand.".into(),
        }
    }
}

fn percent(share: f32) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What becomes of a holder that lives when its lock is freed under it. The texts are clauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfFreed {
    Unknown,
    /// It notices: by an error, or by what a call returns.
    Notices(&'static str),
    /// It goes on, beside the next holder.
    Unnoticed,
    /// It takes the lock again, or does harm to the server or to the next holder. The holder is the subject.
    Harms(&'static str),
}

impl IfFreed {
    /// In one sentence, without the full stop.
    pub fn sentence(self) -> String {
        match self {
            IfFreed::Unknown => "It is not known what its holder would notice".into(),
            IfFreed::Notices(how) => format!("If its holder lives, {how}"),
            IfFreed::Unnoticed => "If its holder lives, it notices nothing, and works beside the next one".into(),
            IfFreed::Harms(how) => format!("If its holder lives, it {how}"),
        }
    }
}

/// Who waits for a lock, and where that can be seen on the server.
#[derive(Clone, PartialEq, Debug)]
pub enum Waiting {
    /// Waiters poll; the server keeps no list of them.
    Polls { every: Option<Duration> },
    /// Waiters are subscribed to this channel.
    Channel(Vec<u8>),
    /// Waiters are subscribed to a pattern that covers this channel.
    ChannelPattern(Vec<u8>),
    /// Where the list exists, an ordered queue: a list of waiter ids, a sorted set of their deadlines, and the prefix
    /// of each waiter's own channel. Where it doesn't, the lock is not a fair one and waiters share `channel`.
    Queue { channel: Vec<u8>, list: Vec<u8>, deadlines: Vec<u8>, channel_prefix: Vec<u8> },
    /// Waiters are blocked in a list pop on this key.
    BlockedOn(Vec<u8>),
    /// Nobody waits: a refused attempt gives up.
    Nobody,
}

impl Waiting {
    /// Waiters try again about this often.
    pub fn polls_each(millis: u64) -> Waiting {
        Waiting::Polls { every: Some(Duration::from_millis(millis)) }
    }

    /// In one sentence, for the detail view.
    pub fn describe(&self) -> String {
        match self {
            Waiting::Polls { every: Some(every) } => {
                let every = text::short_duration(every.as_millis() as u64);
                format!("Waiters poll every {every}; the server keeps no list of them.")
            }
            Waiting::Polls { every: None } => "Waiters poll; the server keeps no list of them.".into(),
            Waiting::Channel(channel) => format!("Waiters are subscribed to {}.", word(channel)),
            Waiting::ChannelPattern(channel) => {
                format!("Waiters are subscribed to a pattern that covers {}.", word(channel))
            }
            Waiting::Queue { channel, list, .. } => format!(
                "Waiters are subscribed to {}; those of a fair lock are queued in the list {}.",
                word(channel),
                word(list)
            ),
            Waiting::BlockedOn(list) => format!("Waiters are blocked on the list {}.", word(list)),
            Waiting::Nobody => "Nobody waits: a refused attempt gives up.".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_and_renewal_are_told_in_sentences() {
        let polls = Waiting::Polls { every: Some(Duration::from_millis(100)) };
        assert_eq!(polls.describe(), "Waiters poll every 100ms; the server keeps no list of them.");
        assert_eq!(Waiting::Channel(b"c".to_vec()).describe(), "Waiters are subscribed to c.");
        let renewal = Renewal::Watchdog { share: 1.0 / 3.0 };
        let left = Ttl::In(Duration::from_secs(9));
        assert_eq!(renewal.describe(left), "A watchdog renews it after 33 % of the lease.");
        assert_eq!(renewal.describe(Ttl::Never), Renewal::NoLease.describe(Ttl::Never), "there is nothing to renew");
        let stays = [Ttl::Never, Ttl::In(Duration::from_secs(9))].map(|left| Renewal::NoLease.describe(left));
        assert_eq!(Renewal::Manual.describe(Ttl::Never), stays[0], "what never expires has no lease to run out");
        assert!(stays[0].contains("stays until it is freed") && stays[1].contains("runs out"), "{stays:?}");
    }
}
