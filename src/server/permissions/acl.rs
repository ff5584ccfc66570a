//! The ACL lines to paste: the least an observer and an operator need, for the patterns in use, and what sampling adds.
//! Pure.
//!
//! The server compares PSUBSCRIBE patterns with channel rules as text, so the rules are exactly the subscriptions.

use super::needs::{Party, SAMPLING, SAMPLING_ENDS_WITH, WAKE_CHANNELS};
use super::pattern::{acl_safe, sample_key};
use crate::base::glob::{Glob, Globs};
use crate::server::channels;
use crate::server::{Product, Version};

/// What we watch: the patterns, the database, and the subscriptions to keyspace events.
#[derive(Clone, Debug)]
pub struct Scope {
    pub patterns: Globs,
    pub db: i64,
    /// The patterns given to PSUBSCRIBE, exactly.
    pub subscriptions: Vec<String>,
    /// The other servers of its service or cluster are looked at as well.
    pub beside: bool,
}

/// What a line needs beyond that on a node of a cluster: finding the other nodes, and reading keys on their way to this one.
pub const CLUSTER: &str = " +cluster|nodes +asking";

const OBSERVER: &str = "lockscope-observer";

/// The line that lets the observer sample attempts as well.
pub fn sampling_line() -> String {
    format!("ACL SETUSER {OBSERVER} +{} +{SAMPLING_ENDS_WITH}", SAMPLING.command)
}

/// A lock of a library, a key that goes with it, and the pattern of all of them.
const COMPANIONS: [(&str, &str, &str); 2] = [
    ("uniquejobs:x:LOCKED", "uniquejobs:x:QUEUED", "uniquejobs:*"),
    ("SEMAPHORE:x:GRABBED", "SEMAPHORE:x:AVAILABLE", "SEMAPHORE:*"),
];

impl Scope {
    /// One subscription for each pattern, to the events by key of one database.
    pub fn new(patterns: Globs, db: i64) -> Scope {
        let subscriptions = channels::channels(db, &patterns);
        Scope { patterns, db, subscriptions, beside: false }
    }

    /// Keys that libraries keep beside a lock, where the patterns do not cover them: Redisson's `prefix:{NAME}` and
    /// `{NAME}:suffix`, which is `prefix:NAME` where the name has braces of its own, python-redis-lock's `lock-signal:`,
    /// the counts of our scripts, and those of [`COMPANIONS`].
    fn companions(&self) -> Vec<String> {
        let known = COMPANIONS.iter().filter(|(lock, companion, _)| {
            self.patterns.matches(lock.as_bytes()) && !self.patterns.matches(companion.as_bytes())
        });
        let mut found: Vec<String> = known.map(|(_, _, pattern)| pattern.to_string()).collect();
        for glob in self.patterns.iter() {
            let key = String::from_utf8_lossy(&sample_key(glob)).into_owned();
            if !self.patterns.matches(format!("redisson_lock_queue:{{{key}}}").as_bytes()) {
                found.push(format!("*{{{}}}*", glob.as_str()));
                found.push(format!("redisson_*:{}", glob.as_str()));
            }
            if let Some(rest) = glob.as_str().strip_prefix("lock:")
                && !self.patterns.matches(format!("lock-signal:{key}").as_bytes())
            {
                found.push(format!("lock-signal:{rest}"));
            }
        }
        if !self.patterns.matches(b"lockscope:x{x}:counts") {
            found.push("lockscope:*:counts".into());
        }
        found
    }

    /// The key rules of a party.
    pub fn key_rules(&self, party: Party, product: Option<&Product>) -> Vec<String> {
        let reads_only = party == Party::Observer && product.is_some_and(Product::has_read_rules);
        let sign = if reads_only { "%R~" } else { "~" };
        let patterns = self.patterns.iter().map(Glob::as_str).map(String::from);
        let mut rules: Vec<String> =
            patterns.chain(self.companions()).map(|pattern| format!("{sign}{}", acl_safe(&pattern))).collect();
        rules.dedup();
        rules
    }

    /// The channel rules of a party.
    pub fn channel_rules(&self, party: Party) -> Vec<String> {
        // A rule can't contain every subscription as it is; such a subscription needs all channels.
        if self.subscriptions.iter().any(|pattern| acl_safe(pattern) != *pattern) {
            return vec!["allchannels".into()];
        }
        let mut rules: Vec<String> = self.subscriptions.iter().map(|pattern| format!("&{pattern}")).collect();
        if party == Party::Operator {
            rules.extend(WAKE_CHANNELS.map(|channel| format!("&{channel}")));
        }
        rules
    }

    /// The whole line, with the word `PASSWORD` in place of one.
    pub fn acl_line(&self, party: Party, product: Option<&Product>) -> String {
        // For an unknown server take what 6.2 has: all later ones have that too.
        let compatible = product.map_or(Version(6, 2, 0), |product| product.compatible);
        let (name, parties): (&str, &[Party]) = match party {
            Party::Observer => (OBSERVER, &[Party::Observer]),
            Party::Operator => ("lockscope-operator", &[Party::Observer, Party::Operator]),
        };
        let mut words: Vec<String> =
            ["ACL", "SETUSER", name, "reset", "on", ">PASSWORD", "resetchannels"].map(String::from).into();
        words.extend(self.channel_rules(party));
        words.extend(self.key_rules(party, product));
        let needs = parties.iter().flat_map(|party| party.own_needs());
        words.extend(needs.filter(|need| need.exists_in(compatible)).map(|need| format!("+{}", need.command)));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Flavor;

    fn scope(patterns: &[&str]) -> Scope {
        Scope::new(Globs::new(patterns.iter().map(|text| Glob::new(text).unwrap()).collect()), 0)
    }

    fn redis(major: u32, minor: u32) -> Product {
        let version = Version(major, minor, 0);
        Product { flavor: Flavor::Redis, version, compatible: version }
    }

    #[test]
    fn an_observer_reads_and_no_more() {
        let line = scope(&["lock:*"]).acl_line(Party::Observer, Some(&redis(7, 0)));
        assert!(line.contains(" &__keyspace@0__:lock:* %R~lock:* %R~*{lock:*}* "), "{line}");
        for beside in ["redisson_*:lock:*", "lock-signal:*", "lockscope:*:counts"] {
            assert!(line.contains(&format!(" %R~{beside} ")), "{line}");
        }
        assert!(!line.contains("+set") && !line.contains("+eval") && !line.contains("no-touch"), "{line}");
        assert!(line.contains(">PASSWORD"));
    }

    #[test]
    fn old_servers_get_rules_they_understand() {
        let line = scope(&["lock:*"]).acl_line(Party::Operator, Some(&redis(6, 2)));
        assert!(line.contains(" ~lock:* ") && !line.contains('%') && !line.contains("spublish"), "{line}");
        assert_eq!(line, scope(&["lock:*"]).acl_line(Party::Operator, None), "unknown is taken for old");
    }

    #[test]
    fn a_pattern_that_covers_the_companions_needs_no_rule_for_them() {
        assert_eq!(scope(&["*lock*"]).key_rules(Party::Operator, None), ["~*lock*"]);
        assert_eq!(scope(&["uniquejobs:*", "*{*"]).key_rules(Party::Operator, None), ["~uniquejobs:*", "~*{*"]);
    }

    #[test]
    fn a_lock_is_freed_with_all_that_goes_with_it() {
        let rules = scope(&["*:LOCKED", "*{*"]).key_rules(Party::Operator, None);
        assert_eq!(rules, ["~*:LOCKED", "~*{*", "~uniquejobs:*"]);
    }

    #[test]
    fn a_subscription_no_rule_can_carry_asks_for_all_channels() {
        assert_eq!(scope(&["my lock:*"]).channel_rules(Party::Observer), ["allchannels"]);
    }
}
