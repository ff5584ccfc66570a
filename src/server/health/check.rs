//! One check: its subject, its result, and what to do about it.

use serde::Serialize;

/// The result of a check, the mildest first. JSON writes it in lower case.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Could not be checked.
    Unknown,
    Warn,
    /// Locks can be lost, or lockscope can't do its work.
    Bad,
}

/// One finding of the doctor.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    /// A sentence with the numbers.
    pub finding: String,
    /// A command to paste, or a sentence where there is none.
    pub fix: Option<String>,
}

impl Check {
    pub fn ok(name: &'static str, finding: impl Into<String>) -> Check {
        Check { name, status: Status::Ok, finding: finding.into(), fix: None }
    }

    pub fn warn(name: &'static str, finding: impl Into<String>) -> Check {
        Check { status: Status::Warn, ..Check::ok(name, finding) }
    }

    pub fn bad(name: &'static str, finding: impl Into<String>) -> Check {
        Check { status: Status::Bad, ..Check::ok(name, finding) }
    }

    /// Not known, and why.
    pub fn unknown(name: &'static str, what: &str, why: &str) -> Check {
        Check { status: Status::Unknown, ..Check::ok(name, format!("{what} is not known: {why}.")) }
    }

    pub fn fix(self, fix: impl Into<String>) -> Check {
        Check { fix: Some(fix.into()), ..self }
    }
}

/// Bytes as people say them: `512 B`, `1.5 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A share in whole percent, rounded down: 100 only when it is full.
pub fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole.max(1))) as u64
}

/// `1 replica`, `2 replicas`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(33_554_432), "32.0 MB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TB");
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
        assert_eq!(percent(999, 1000), 99);
    }
}
