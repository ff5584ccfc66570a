//! ShedLock: string `job-lock:<env>:<name>` with `ADDED:<time>@<host>[:<uuid>]`, so host and time are readable.
//!
//! The scheduled job that comes second is skipped, nobody waits. With `lockAtLeastFor` the key stays on purpose after
//! the job has ended; that is not a stuck lock.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Strength, Waiting, shape, sight};
use crate::base::time::Time;
use crate::lock::{Holder, Mode};

pub struct ShedLock;

fn added(value: &[u8]) -> Option<(Time, &[u8])> {
    let rest = value.strip_prefix(b"ADDED:")?;
    let at = rest.iter().position(|byte| *byte == b'@')?;
    let time = shape::iso_time(std::str::from_utf8(&rest[..at]).ok()?)?;
    Some((time, without_uuid(&rest[at + 1..])))
}

/// Since 6.7.0 a UUID follows the host name.
fn without_uuid(host: &[u8]) -> &[u8] {
    match host.len().checked_sub(37) {
        Some(end) if host[end] == b':' && shape::is_uuid(&host[end + 1..]) => &host[..end],
        _ => host,
    }
}

impl Dialect for ShedLock {
    fn name(&self) -> &'static str {
        "shedlock"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["job-lock:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let value = sight.token()?;
        let parsed = added(value);
        // The value is so characteristic that any prefix is accepted.
        let strength = sight.told_or(|| (parsed.is_some() && value.len() <= 400).then_some(Strength::Certain))?;
        let mut holder = Holder::new(value);
        if let Some((since, host)) = parsed {
            holder.since = Some(since);
            holder.host = sight::name(host);
        }
        Some(Claim::lock(strength, Mode::Exclusive, vec![holder]))
    }

    /// With `lockAtLeastFor` it outlives its job.
    fn stays(&self, _key: &[u8]) -> bool {
        true
    }

    fn tells_when_taken(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 0.5 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("deletes the lock of the next one when its job ends, unless it uses safeUpdate")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Nobody
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn("With lockAtLeastFor the key stays on purpose after the job. If you free it early, the job may run once more.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Time;
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    const VALUE: &str = "ADDED:2025-10-09T08:50:00.125Z@batch-3";

    #[test]
    fn the_value_tells_host_and_time() {
        let best = found("job-lock:default:Nightly", format!("{VALUE}:{UUID4}"), seconds(600));
        assert!(surely(&best, "shedlock"));
        let holder = holder(best);
        assert_eq!(holder.host.as_ref().map(|text| text.visible()).as_deref(), Some("batch-3"));
        assert_eq!(holder.since, Some(Time(1_759_999_800_125)));
    }

    #[test]
    fn values_from_before_the_uuid_are_read_too() {
        assert_eq!(
            holder(found("job-lock:default:Nightly", VALUE, seconds(600)))
                .host
                .as_ref()
                .map(|text| text.visible())
                .as_deref(),
            Some("batch-3")
        );
    }

    #[test]
    fn the_prefix_alone_is_not_shedlock() {
        for value in ["1", UUID4, "ADDED:yesterday@batch-3", "ADDED:2025-10-09T08:50:00.125Z"] {
            assert_ne!(names(&found("job-lock:default:Nightly", value, seconds(600))).0, "shedlock", "{value}");
        }
        assert_no_garbage("shedlock", "job-lock:default:Nightly");
    }

    #[test]
    fn the_operator_hears_that_a_lock_may_stay_on_purpose() {
        let release = release("shedlock", "job-lock:default:Nightly", &RawValue::string(VALUE.as_bytes()));
        assert!(release.hazards.iter().any(|hazard| hazard.contains("on purpose")));
    }
}
