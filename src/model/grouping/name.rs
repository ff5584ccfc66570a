//! What identifies a group, and the names of the groups that a lock is in.

use std::sync::Arc;

use crate::base::text::visible;
use crate::base::time::Time;
use crate::dialects;
use crate::lock::{Holder, Instance, NodeId, Token};
use crate::model::figures::OTHER;
use crate::model::history::pattern;
use crate::model::{Lock, LockView, Table};

/// What locks are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupBy {
    /// The pattern of their names: ids and numbers as a `*`.
    Pattern,
    Holder,
    Library,
    Node,
}

impl GroupBy {
    pub const ALL: [GroupBy; 4] = [GroupBy::Pattern, GroupBy::Holder, GroupBy::Library, GroupBy::Node];

    /// As `--group` and `:group` name it.
    pub fn name(self) -> &'static str {
        match self {
            GroupBy::Pattern => "pattern",
            GroupBy::Holder => "holder",
            GroupBy::Library => "library",
            GroupBy::Node => "node",
        }
    }

    /// Of a table's column.
    pub fn title(self) -> &'static str {
        match self {
            GroupBy::Pattern => "PATTERN",
            GroupBy::Holder => "HOLDER",
            GroupBy::Library => "LIBRARY",
            GroupBy::Node => "NODE",
        }
    }

    pub fn named(text: &str) -> Option<GroupBy> {
        GroupBy::ALL.into_iter().find(|by| by.name().eq_ignore_ascii_case(text))
    }

    /// Whether each lock's value must be decoded for it.
    pub fn is_costly(self) -> bool {
        self == GroupBy::Holder
    }
}

/// The identity of a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupName {
    /// As it is shown everywhere.
    Pattern(Arc<str>),
    /// Names of patterns that are too many to have a group of their own.
    OtherPatterns,
    Holder(HolderName),
    /// Locks whose library names no holder, and markers.
    Nobody,
    Library(&'static str),
    Node(NodeId),
}

/// A holder: a process where its tokens tell, else all that use one token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HolderName {
    Client(Box<[u8]>),
    Process(Box<[u8]>, u64),
    Token(Box<[u8]>),
}

/// The same while a lock is looked at: nothing is copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum NameRef<'a> {
    Pattern(&'a str),
    OtherPatterns,
    Holder(Instance<'a>),
    Nobody,
    Library(&'static str),
    Node(NodeId),
}

impl NameRef<'_> {
    pub fn owned(self) -> GroupName {
        match self {
            NameRef::Pattern(pattern) => GroupName::Pattern(pattern.into()),
            NameRef::OtherPatterns => GroupName::OtherPatterns,
            NameRef::Holder(holder) => GroupName::Holder(match holder {
                Instance::Client(client) => HolderName::Client(client.into()),
                Instance::Process(host, pid) => HolderName::Process(host.into(), pid),
                Instance::Token(token) => HolderName::Token(token.into()),
            }),
            NameRef::Nobody => GroupName::Nobody,
            NameRef::Library(name) => GroupName::Library(name),
            NameRef::Node(node) => GroupName::Node(node),
        }
    }
}

impl GroupName {
    pub fn by(&self) -> GroupBy {
        match self {
            GroupName::Pattern(_) | GroupName::OtherPatterns => GroupBy::Pattern,
            GroupName::Holder(_) | GroupName::Nobody => GroupBy::Holder,
            GroupName::Library(_) => GroupBy::Library,
            GroupName::Node(_) => GroupBy::Node,
        }
    }

    /// The group of this holder.
    pub fn of_holder(holder: &Holder) -> GroupName {
        NameRef::Holder(holder.instance()).owned()
    }

    pub(super) fn as_ref(&self) -> NameRef<'_> {
        match self {
            GroupName::Pattern(pattern) => NameRef::Pattern(pattern),
            GroupName::OtherPatterns => NameRef::OtherPatterns,
            GroupName::Holder(holder) => NameRef::Holder(match holder {
                HolderName::Client(client) => Instance::Client(client),
                HolderName::Process(host, pid) => Instance::Process(host, *pid),
                HolderName::Token(token) => Instance::Token(token),
            }),
            GroupName::Nobody => NameRef::Nobody,
            GroupName::Library(name) => NameRef::Library(name),
            GroupName::Node(node) => NameRef::Node(*node),
        }
    }

    pub(super) fn is(&self, name: NameRef<'_>) -> bool {
        self.as_ref() == name
    }

    /// As people and programs read it; `None`: it has none. `node` names a node.
    pub fn text(&self, node: impl Fn(NodeId) -> String) -> Option<String> {
        match self {
            GroupName::Pattern(pattern) => Some(pattern.to_string()),
            GroupName::OtherPatterns => Some(OTHER.into()),
            GroupName::Holder(HolderName::Client(client)) => Some(visible(client)),
            GroupName::Holder(HolderName::Process(host, pid)) => Some(format!("{}:{pid}", visible(host))),
            GroupName::Holder(HolderName::Token(token)) => Some(visible(token)),
            GroupName::Nobody => None,
            GroupName::Library(name) => Some((*name).to_string()),
            GroupName::Node(id) => Some(node(*id)),
        }
    }

    /// The name itself, where it is bytes from a server.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            GroupName::Holder(HolderName::Client(bytes) | HolderName::Token(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The token, where that is all that is known of the holder: it is a secret of a kind, and shortened on screens.
    pub fn token(&self) -> Option<Token> {
        match self {
            GroupName::Holder(HolderName::Token(token)) => Some(Token::from(&**token)),
            _ => None,
        }
    }
}

/// Tells the names of the groups that the lock is in.
pub(super) fn each(table: &Table, lock: &Lock, by: GroupBy, now: Time, mut tell: impl FnMut(NameRef<'_>)) {
    match by {
        GroupBy::Pattern => match &**table.pattern_of(lock) {
            OTHER => tell(NameRef::OtherPatterns),
            pattern => tell(NameRef::Pattern(pattern)),
        },
        GroupBy::Holder if lock.is_held() => each_holder(&table.holders(lock, now), tell),
        GroupBy::Holder => tell(NameRef::Nobody),
        GroupBy::Library => {
            lock.reading()
                .into_iter()
                .for_each(|reading| tell(NameRef::Library(dialects::dialect(reading.dialect).name())));
        }
        GroupBy::Node => tell(NameRef::Node(lock.node)),
    }
}

/// The same of a lock of a paused screen. Those are few enough for each pattern to have its own group.
pub(super) fn each_of_view(lock: &LockView, by: GroupBy, mut tell: impl FnMut(NameRef<'_>)) {
    match by {
        GroupBy::Pattern => {
            let mut folded = Vec::new();
            pattern::write(lock.key.as_bytes(), &mut folded);
            tell(NameRef::Pattern(&visible(&folded)));
        }
        GroupBy::Holder => each_holder(&lock.holders, tell),
        GroupBy::Library => tell(NameRef::Library(lock.dialect)),
        GroupBy::Node => tell(NameRef::Node(lock.node)),
    }
}

/// Each once: threads of one process may share a lock.
fn each_holder(holders: &[Holder], mut tell: impl FnMut(NameRef<'_>)) {
    if holders.is_empty() {
        tell(NameRef::Nobody);
    }
    for (index, holder) in holders.iter().enumerate() {
        let name = holder.instance();
        if !holders[..index].iter().any(|before| before.instance() == name) {
            tell(NameRef::Holder(name));
        }
    }
}
