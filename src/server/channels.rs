//! The channels of keyspace notifications, by name.

use crate::base::glob::Globs;

/// The channels to subscribe to: one per pattern.
pub fn channels(db: i64, patterns: &Globs) -> Vec<String> {
    patterns.iter().map(|glob| format!("__keyspace@{db}__:{}", glob.as_str())).collect()
}

/// Wider channels, to try in this order where those are refused. An ACL compares the text of a pattern, not what it
/// matches, so only a pattern that the ACL names literally is permitted; these are the usual ones.
pub fn wider_channels(db: i64) -> [String; 3] {
    [format!("__keyspace@{db}__:*"), "__keyspace@*".into(), "__key*".into()]
}
