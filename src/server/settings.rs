//! The few server settings that matter to locks, from CONFIG GET. Pure parsing.

use super::fact::Fact;
use super::flags::EventFlags;
use crate::base::server_text::ServerText;
use crate::base::text::{fit, visible};

/// The settings we ask for, each known or not.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// `notify-keyspace-events`.
    pub events: Fact<EventFlags>,
    /// `save`: the schedule of RDB snapshots, empty for none.
    pub save: Fact<ServerText>,
    /// `appendfsync`: `always`, `everysec` or `no`.
    pub appendfsync: Fact<ServerText>,
    /// `min-replicas-to-write`.
    pub min_replicas: Fact<u64>,
    /// The limits of a subscriber's output buffer.
    pub pubsub_buffer: Fact<BufferLimit>,
}

/// When the server cuts off a client that does not read: at once over `hard`, after `soft_s` seconds over `soft`.
/// Zero: never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLimit {
    pub hard: u64,
    pub soft: u64,
    pub soft_s: u64,
}

impl Settings {
    pub const NAMES: [&'static str; 5] =
        ["notify-keyspace-events", "save", "appendfsync", "min-replicas-to-write", "client-output-buffer-limit"];

    /// From the answers to CONFIG GET, in the order of [`Settings::NAMES`].
    pub fn from_answers(answers: [Fact<String>; 5]) -> Settings {
        let [events, save, appendfsync, min_replicas, buffers] = answers;
        Settings {
            events: events.map(|text| EventFlags::parse(&text)),
            save: save.map(ServerText::from),
            appendfsync: appendfsync.map(ServerText::from),
            min_replicas: min_replicas.and_then(|text| read(text.parse().ok(), &text)),
            pubsub_buffer: buffers.and_then(|text| read(BufferLimit::of_pubsub(&text), &text)),
        }
    }
}

fn read<T>(value: Option<T>, text: &str) -> Fact<T> {
    match value {
        Some(value) => Fact::Known(value),
        None => {
            let shown = fit(&visible(text.as_bytes()), 60);
            Fact::Unknown(format!("the server's answer \"{shown}\" makes no sense"))
        }
    }
}

impl BufferLimit {
    /// Reads `normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60`.
    pub fn of_pubsub(text: &str) -> Option<BufferLimit> {
        let mut words = text.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
        let mut number = || words.next()?.parse().ok();
        Some(BufferLimit { hard: number()?, soft: number()?, soft_s: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_subscribers_limit_is_found_among_the_others() {
        let text = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(BufferLimit::of_pubsub(text), Some(BufferLimit { hard: 33554432, soft: 8388608, soft_s: 60 }));
        assert_eq!(BufferLimit::of_pubsub("normal 0 0 0 pubsub 1 2"), None);
    }

    proptest! {
        #[test]
        fn no_answer_panics(answers in prop::array::uniform5("\\PC{0,40}")) {
            let _ = Settings::from_answers(answers.map(Fact::Known));
        }
    }
}
