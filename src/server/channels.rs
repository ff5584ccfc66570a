//! The channels of keyspace notifications, by name.

use crate::base::glob::Globs;

/// The channels to subscribe to: one per pattern.
pub fn channels(db: i64, patterns: &Globs) -> Vec<String> {
    patterns.iter().map(|glob| format!("__keyspace@{db}__:{}", glob.as_str())).collect()
}

/// What is tried, one after the other, where those are refused: an ACL compares the text of a pattern, not what it
/// matches, so these are the common ways to permit all of them.
pub fn wider_channels(db: i64) -> [String; 3] {
    [format!("__keyspace@{db}__:*"), "__keyspace@*".into(), "__key*".into()]
}
