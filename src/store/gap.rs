//! A time of which less is known than was asked for, and why.

use crate::base::time::Time;

/// Why nothing, or not everything, was recorded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// A node did not answer, or its changes were not learnt.
    NotConnected,
    /// Events went missing, and locks were not confirmed since.
    Stale,
    /// No lockscope recorded.
    NotRunning,
    /// The wall clock was set, ahead or back.
    ClockJumped,
    /// The wall clock and the time that really passed came apart little by little.
    ClockDrifted,
    /// The machine slept.
    Suspended,
    /// There was more to write than could be written.
    Overload,
    /// The store could not be written: the disk was full, for example.
    NotWritten,
}

impl Reason {
    pub const ALL: [Reason; 8] = [
        Reason::NotConnected,
        Reason::Stale,
        Reason::NotRunning,
        Reason::ClockJumped,
        Reason::ClockDrifted,
        Reason::Suspended,
        Reason::Overload,
        Reason::NotWritten,
    ];

    /// As the file has it, and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NotConnected => "not-connected",
            Reason::Stale => "stale",
            Reason::NotRunning => "not-running",
            Reason::ClockJumped => "clock-jumped",
            Reason::ClockDrifted => "clock-drifted",
            Reason::Suspended => "suspended",
            Reason::Overload => "overload",
            Reason::NotWritten => "not-written",
        }
    }

    pub fn named(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// For people: follows "nothing is known, because".
    pub fn words(self) -> &'static str {
        match self {
            Reason::NotConnected => "the server did not answer",
            Reason::Stale => "events went missing",
            Reason::NotRunning => "lockscope did not run",
            Reason::ClockJumped => "the clock was set",
            Reason::ClockDrifted => "the clock drifted",
            Reason::Suspended => "the machine slept",
            Reason::Overload => "more came than could be written",
            Reason::NotWritten => "the store could not be written",
        }
    }
}

/// A gap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    pub from: Time,
    /// `None` while it lasts.
    pub to: Option<Time>,
    pub reason: Reason,
    /// The node that it concerns; `None`: everything.
    pub node: Option<String>,
}
