//! Which server it is: its kind, its version, and what that version lacks.
//!
//! Forks report a `redis_version` for compatibility beside their own version. We decide features by the former and show
//! the latter.

use std::fmt;

use super::info::InfoText;

/// Which family a server belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    Redis,
    Valkey,
    Redict,
    KeyDb,
    Dragonfly,
    Other,
}

impl Flavor {
    pub fn name(self) -> &'static str {
        match self {
            Flavor::Redis => "redis",
            Flavor::Valkey => "valkey",
            Flavor::Redict => "redict",
            Flavor::KeyDb => "keydb",
            Flavor::Dragonfly => "dragonfly",
            Flavor::Other => "other",
        }
    }
}

/// `major.minor.patch`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `7.0.15`, `9.1`, `df-v1.40.1`, `8.0.0-rc1`: the first dotted number in the text.
    pub fn parse(text: &str) -> Option<Version> {
        let start = text.find(|c: char| c.is_ascii_digit())?;
        let mut parts = text[start..].split('.').map(|part| {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            part[..digits].parse::<u32>()
        });
        let major = parts.next()?.ok()?;
        let minor = parts.next().and_then(Result::ok).unwrap_or(0);
        let patch = parts.next().and_then(Result::ok).unwrap_or(0);
        Some(Version(major, minor, patch))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A server's kind and version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    pub flavor: Flavor,
    pub version: Version,
    /// The Redis version it claims to be compatible with.
    pub compatible: Version,
}

impl Product {
    /// The oldest Redis we run our tests on.
    pub const OLDEST_TESTED: Version = Version(6, 2, 0);
    /// Below this there is no RESP3, no ACL and no tracking.
    pub const OLDEST_USABLE: Version = Version(6, 0, 0);

    pub fn from_info(info: &InfoText<'_>) -> Option<Product> {
        let compatible = info.word("redis_version").and_then(Version::parse);
        let own = |flavor, field: &str| {
            let version = info.word(field).and_then(Version::parse)?;
            Some(Product { flavor, version, compatible: compatible.unwrap_or(version) })
        };
        let executable = info.word("executable").unwrap_or_default();
        own(Flavor::Valkey, "valkey_version")
            .or_else(|| own(Flavor::Dragonfly, "dragonfly_version"))
            .or_else(|| own(Flavor::Redict, "redict_version"))
            .or_else(|| {
                let flavor = match info.word("server_name") {
                    _ if info.has_section("KeyDB") || executable.contains("keydb") => Flavor::KeyDb,
                    _ if executable.contains("redict") => Flavor::Redict,
                    None | Some("redis") => Flavor::Redis,
                    Some(_) => Flavor::Other,
                };
                own(flavor, "redis_version")
            })
    }

    /// Events of the class `n`, which distinguish an acquire from a renewal that sets the key again.
    pub fn sends_new_key_events(&self) -> bool {
        self.compatible >= Version(7, 0, 0)
    }

    /// ACL rules for reading alone (`%R~pattern`), and ACL DRYRUN.
    pub fn has_read_rules(&self) -> bool {
        self.compatible >= Version(7, 0, 0)
    }

    /// CLIENT NO-TOUCH: our reads do not reset a key's idle time.
    pub fn has_no_touch(&self) -> bool {
        self.compatible >= Version(7, 2, 0)
    }

    /// What this server lacks, as clauses.
    pub fn lacks(&self) -> Vec<&'static str> {
        let mut lacks = Vec::new();
        if !self.sends_new_key_events() {
            lacks.push("no events for new keys (an acquire may look like a renewal)");
        }
        if !self.has_read_rules() {
            lacks.push("no ACL DRYRUN (what this user may do shows only when we try it)");
        }
        if !self.has_no_touch() {
            lacks.push("no CLIENT NO-TOUCH (reading a lock resets its idle time)");
        }
        lacks
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flavor {
            Flavor::Other => write!(f, "an unknown server compatible with redis {}", self.compatible),
            flavor => write!(f, "{} {}", flavor.name(), self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn product(info: &str) -> Product {
        Product::from_info(&InfoText::parse(info)).unwrap()
    }

    #[test]
    fn forks_are_known_by_their_own_version() {
        let valkey = product("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n");
        assert_eq!(valkey.to_string(), "valkey 9.1.2");
        assert_eq!(valkey.compatible, Version(7, 2, 4));
        assert_eq!(product("redis_version:7.0.15\r\n").to_string(), "redis 7.0.15");
        assert_eq!(product("redis_version:6.3.4\r\n# KeyDB\r\nmvcc_depth:0\r\n").flavor, Flavor::KeyDb);
        assert_eq!(product("redis_version:7.4.0\ndragonfly_version:df-v1.40.1").to_string(), "dragonfly 1.40.1");
        assert_eq!(product("redis_version:7.2.4\r\nserver_name:newfork\r\n").flavor, Flavor::Other);
    }

    #[test]
    fn an_old_server_says_what_it_lacks() {
        assert_eq!(product("redis_version:6.2.14").lacks().len(), 3);
        assert_eq!(product("redis_version:7.0.15").lacks().len(), 1);
        assert!(product("redis_version:7.2.4\nvalkey_version:8.0.1").lacks().is_empty());
    }

    #[test]
    fn versions_are_read_however_they_are_dressed() {
        assert_eq!(Version::parse("8.0.0-rc1"), Some(Version(8, 0, 0)));
        assert_eq!(Version::parse("df-v1.40.1"), Some(Version(1, 40, 1)));
        assert_eq!(Version::parse("7"), Some(Version(7, 0, 0)));
        assert_eq!(Version::parse("unstable"), None);
        assert_eq!(Version::parse("99999999999999.1"), None);
    }

    proptest! {
        #[test]
        fn no_version_text_panics(text in "\\PC{0,30}") {
            let _ = Version::parse(&text);
        }
    }
}
