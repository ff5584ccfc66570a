//! The fields that a filter can test, by name: those of a lock, and those that the series of metrics carry.

use crate::dialects;
use crate::lock::{Kind, Mode};
use crate::model::{State, findings};

/// Tested with `:` and a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Topic {
    Key,
    State,
    Library,
    Holder,
    Mode,
    Kind,
    Node,
    Finding,
    /// How a hold ended.
    Ending,
    /// The server that is watched, by its name.
    Target,
    /// How a rate was measured.
    Source,
}

/// Tested with a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    Ttl,
    Lease,
    Held,
    Renewals,
    Missed,
    Failures,
    Waiters,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Topic(Topic),
    Measure(Measure),
}

/// What is filtered: the names of its fields follow from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vocabulary {
    Locks,
    /// All fields of locks as well, so that one that series do not carry is refused by its name.
    Series,
}

/// All fields of a lock, by the names that users write.
pub(super) const FIELDS: [(&str, Field); 15] = [
    ("key", Field::Topic(Topic::Key)),
    ("state", Field::Topic(Topic::State)),
    ("lib", Field::Topic(Topic::Library)),
    ("holder", Field::Topic(Topic::Holder)),
    ("mode", Field::Topic(Topic::Mode)),
    ("kind", Field::Topic(Topic::Kind)),
    ("node", Field::Topic(Topic::Node)),
    ("finding", Field::Topic(Topic::Finding)),
    ("ttl", Field::Measure(Measure::Ttl)),
    ("lease", Field::Measure(Measure::Lease)),
    ("held", Field::Measure(Measure::Held)),
    ("renewals", Field::Measure(Measure::Renewals)),
    ("missed", Field::Measure(Measure::Missed)),
    ("fail", Field::Measure(Measure::Failures)),
    ("wait", Field::Measure(Measure::Waiters)),
];

/// What only series have. Their key is the pattern of the locks behind them.
const OF_SERIES: [(&str, Field); 4] = [
    ("pattern", Field::Topic(Topic::Key)),
    ("ending", Field::Topic(Topic::Ending)),
    ("target", Field::Topic(Topic::Target)),
    ("source", Field::Topic(Topic::Source)),
];

/// The values of the label `ending`.
const ENDINGS: [&str; 11] = [
    "released",
    "expired",
    "taken",
    "forced",
    "evicted",
    "flushed",
    "renamed",
    "failover",
    "restart",
    "slot-taken",
    "unseen",
];

impl Vocabulary {
    fn fields(self) -> impl Iterator<Item = (&'static str, Field)> {
        let more: &[_] = if self == Vocabulary::Series { &OF_SERIES } else { &[] };
        FIELDS.iter().chain(more).copied()
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.fields().map(|(name, _)| name)
    }

    pub(super) fn field(self, name: &str) -> Option<Field> {
        self.fields().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, field)| field)
    }
}

impl Field {
    pub(super) fn name(self) -> &'static str {
        Vocabulary::Series.fields().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }
}

impl Topic {
    /// Its possible words, if they are a closed set.
    pub(super) fn words(self) -> Option<Vec<&'static str>> {
        match self {
            Topic::State => Some(State::ALL.map(State::name).to_vec()),
            Topic::Library => Some(dialects::all().iter().map(|dialect| dialect.name()).collect()),
            Topic::Mode => Some([Mode::Exclusive, Mode::Read, Mode::Write, Mode::Permit].map(Mode::name).to_vec()),
            Topic::Kind => Some([Kind::Lock, Kind::Marker].map(Kind::name).to_vec()),
            Topic::Finding => Some(findings::names().collect()),
            Topic::Ending => Some(ENDINGS.to_vec()),
            Topic::Source => Some(vec!["counted", "sampled"]),
            Topic::Key | Topic::Holder | Topic::Node | Topic::Target => None,
        }
    }

    /// The noun for one of its words in a sentence.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Topic::Key => "key",
            Topic::State => "state",
            Topic::Library => "library",
            Topic::Holder => "holder",
            Topic::Mode => "mode",
            Topic::Kind => "kind",
            Topic::Node => "node",
            Topic::Finding => "finding",
            Topic::Ending => "ending",
            Topic::Target => "target",
            Topic::Source => "source",
        }
    }
}

impl Measure {
    pub(super) fn is_time(self) -> bool {
        matches!(self, Measure::Ttl | Measure::Lease | Measure::Held)
    }
}
