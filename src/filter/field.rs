//! The fields of a lock that a filter can test, by name.

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

/// All fields, by the names that users write.
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

pub(super) fn field(name: &str) -> Option<Field> {
    FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, field)| *field)
}

impl Field {
    pub(super) fn name(self) -> &'static str {
        FIELDS.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
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
            Topic::Key | Topic::Holder | Topic::Node => None,
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
        }
    }
}

impl Measure {
    pub(super) fn is_time(self) -> bool {
        matches!(self, Measure::Ttl | Measure::Lease | Measure::Held)
    }
}
