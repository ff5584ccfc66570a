//! The comparisons before a write, by name, so that a test build can switch one off.
//!
//! A test proves nothing if it still passes without the comparison. Only debug builds have the switch, and only code in
//! the same process can reach it; a release build always compares.

/// Every comparison that keeps a write from hitting what the operator did not see.
pub const ALL: &[&str] = &[
    "absent",
    "present",
    "value",
    "digest",
    "field",
    "field_value",
    "fields",
    "member",
    "score",
    "members",
    "element",
    "elements",
    "no_field",
    "no_member",
    "held_as",
    "at_least",
    "listed",
    "no_ttl",
    "lease",
    "ttl_at_most",
    "nobody_blocked",
    "before",
    "dump",
    "fields_at_most",
    "live_at_most",
    "on_record",
    "keyspace",
    "confirmed",
];

/// Comparisons that random sequences of a library's own operations do not reach; `tests/switched_off.rs` shows what
/// happens without each.
pub const SINGLE: &[&str] = &["nobody_listens", "counter", "held_since", "no_element", "unheard"];

#[cfg(debug_assertions)]
static OFF: std::sync::Mutex<Option<&'static str>> = std::sync::Mutex::new(None);

/// Leaves one comparison out from now on, in the whole process; `None` compares everything again.
#[cfg(debug_assertions)]
pub fn switch_off(name: Option<&'static str>) {
    assert!(name.is_none_or(|name| [ALL, SINGLE].concat().contains(&name)), "no comparison is called {name:?}");
    *OFF.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = name;
}

/// Whether this comparison is made: always, unless a test has switched it off.
#[cfg(debug_assertions)]
pub(crate) fn is_made(name: &str) -> bool {
    debug_assert!(ALL.contains(&name) || SINGLE.contains(&name), "{name} is missing in the list of comparisons");
    *OFF.lock().unwrap_or_else(std::sync::PoisonError::into_inner) != Some(name)
}

#[cfg(not(debug_assertions))]
pub(crate) fn is_made(_name: &str) -> bool {
    true
}
