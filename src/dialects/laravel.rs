//! Laravel's atomic locks: `<redis prefix><cache prefix><name>`, an owner of 16 letters and digits.
//!
//! Three families have names of their own: scheduled tasks (`framework/schedule-…`), unique jobs and jobs that must
//! not overlap. The schedule's key with a time of day at its end says "this run has been done on one server": it is
//! never freed, so it is a marker. Elsewhere the owner's shape is a guess.

use super::{Claim, Dialect, Release, Sight, Strength, Waiting, shape};
use crate::lock::{Kind, Mode};

pub struct Laravel;

const SCHEDULE: &[u8] = b"framework/schedule-";
const UNIQUE_JOB: &[u8] = b"laravel_unique_job:";
const OVERLAP: &[u8] = b"laravel-queue-overlap:";
const SHA1_LEN: usize = 40;

#[derive(Clone, Copy, PartialEq)]
enum Family {
    /// `withoutOverlapping`.
    Schedule,
    /// `onOneServer`.
    ScheduledOnce,
    UniqueJob,
    Overlap,
}

fn family(key: &[u8]) -> Option<Family> {
    if let Some(rest) = after(key, SCHEDULE) {
        let (hash, time) = rest.split_at_checked(SHA1_LEN).unwrap_or((rest, b""));
        let once = shape::is_hex(hash, SHA1_LEN) && is_time_of_day(time);
        return Some(if once { Family::ScheduledOnce } else { Family::Schedule });
    }
    if after(key, UNIQUE_JOB).is_some() {
        return Some(Family::UniqueJob);
    }
    after(key, OVERLAP).map(|_| Family::Overlap)
}

/// What follows `word` in the key; the application's prefixes come before it.
fn after<'a>(key: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let at = key.windows(word.len()).position(|window| window == word)?;
    Some(&key[at + word.len()..])
}

/// `HHMM`.
fn is_time_of_day(text: &[u8]) -> bool {
    text.len() == 4 && shape::is_decimal(text) && text[..2] < b"24"[..] && text[2..] < b"60"[..]
}

/// A serializer or a compressor may have wrapped the owner, so any short value is accepted, but no document.
fn could_be_wrapped_owner(value: &[u8]) -> bool {
    (1..=200).contains(&value.len())
        && !matches!(value[0], b'{' | b'[' | b'<')
        && !value.contains(&b'\n')
        && (value.len() >= 16 || value.is_ascii() && !value.iter().any(u8::is_ascii_control))
}

fn is_owner(value: &[u8]) -> bool {
    value.len() == 16 && shape::is_alphanumeric(value) && shape::is_mixed_case(value)
}

/// A slot of `Redis::funnel`: the name with a number at its end, and 20 characters.
fn is_funnel_slot(key: &[u8], value: &[u8]) -> bool {
    value.len() == 20
        && shape::is_alphanumeric(value)
        && shape::is_mixed_case(value)
        && key.last().is_some_and(u8::is_ascii_digit)
}

fn weight_of_owner(sight: &Sight<'_>) -> Option<Strength> {
    let words = shape::words(sight.key);
    let has = |word: &str| words.iter().any(|other| other == word);
    // The cache serializes the strings that it stores, so a bare one among them is an owner.
    match (has("database"), has("cache") && after_cache(sight.key)) {
        (true, true) => Some(Strength::Sure),
        (false, true) => sight.guess(Strength::Likely).max(Some(Strength::Possible)),
        _ => sight.guess(Strength::Likely),
    }
}

fn after_cache(key: &[u8]) -> bool {
    after(key, b"_cache_").or_else(|| after(key, b"-cache-")).is_some()
}

impl Dialect for Laravel {
    fn name(&self) -> &'static str {
        "laravel"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*framework/schedule-*", "*laravel_unique_job:*", "*laravel-queue-overlap:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let owner = sight.token()?;
        let family = family(sight.key);
        let slot = family.is_none() && is_funnel_slot(sight.key, owner) && sight.has_ttl();
        let strength = sight.told_or(|| match family {
            Some(_) if is_owner(owner) => Some(Strength::Certain),
            Some(_) => could_be_wrapped_owner(owner).then_some(Strength::Sure),
            None if is_owner(owner) => weight_of_owner(sight),
            None if slot => sight.guess(Strength::Possible),
            None => None,
        })?;
        if family == Some(Family::ScheduledOnce) {
            return Some(Claim { kind: Kind::Marker, mode: Mode::Exclusive, strength, holders: Vec::new() });
        }
        let claim = Claim::exclusive(strength, owner);
        Some(if slot { Claim { mode: Mode::Permit, ..claim } } else { claim })
    }

    /// A scheduled task may run on after the scheduler has ended, and a job is worked on by another process than the one
    /// that queued it.
    fn is_left_by_processes(&self) -> bool {
        true
    }

    fn stays(&self, key: &[u8]) -> bool {
        family(key).is_some()
    }

    /// The owner is made with the lock object, and each acquire of that object uses it.
    fn tokens_come_again(&self) -> bool {
        true
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        // A job that must not overlap goes back to its queue.
        if family(sight.key).is_some() { Waiting::Nobody } else { Waiting::polls_each(250) }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = Release::delete(sight.key);
        match family(sight.key) {
            Some(Family::Schedule) => release
                .warn("The task may still be running. If you free it, its next run can start beside it.")
                .warn("A task that still runs frees the key when it ends, even if the next run already holds it."),
            Some(Family::ScheduledOnce) => release
                .warn("onOneServer never frees this key, on purpose: it keeps other servers from doing the same run."),
            Some(Family::UniqueJob) => release.warn(
                "The job may still be queued or running. If you free it, the same job can be queued a second time.",
            ),
            Some(Family::Overlap) => {
                release.warn("The job may still be running. If you free it, another one starts beside it.")
            }
            None => release,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::Waiting;
    use crate::dialects::trial::*;
    use crate::lock::{Kind, Mode, RawValue};

    const OWNER: &str = "aZ3kP0qLmN8rTx5V";
    const SCHEDULE: &str = "shop-database-shop-cache-framework/schedule-da39a3ee5e6b4b0d3255bfef95601890afd80709";

    #[test]
    fn a_scheduled_task_is_known_by_its_name() {
        let best = found(SCHEDULE, OWNER, seconds(86_000));
        assert!(surely(&best, "laravel"));
        assert_eq!(best.unwrap().claim.kind, Kind::Lock);
    }

    #[test]
    fn a_run_on_one_server_is_a_marker_that_nobody_frees() {
        let key = format!("{SCHEDULE}0230");
        let claim = found(&key, "b:1;", seconds(3000)).unwrap().claim;
        assert_eq!((claim.kind, claim.holders.len()), (Kind::Marker, 0));
        let release = release("laravel", &key, &RawValue::string(b"b:1;"));
        assert!(release.hazards.iter().any(|hazard| hazard.contains("onOneServer")));
        assert_eq!(found(&format!("{SCHEDULE}9930"), OWNER, seconds(30)).unwrap().claim.kind, Kind::Lock);
    }

    #[test]
    fn unique_and_overlapping_jobs_are_known_by_their_names() {
        for key in [
            "laravel_database_laravel_cache_:laravel_unique_job:App\\Jobs\\Import:17",
            "shop-database-shop-cache-laravel-queue-overlap:App\\Jobs\\Import:17",
        ] {
            assert!(surely(&found(key, OWNER, Ttl::Never), "laravel"), "{key}");
            assert!(surely(&found(key, "s:16:\"aZ3kP0qLmN8rTx5V\";", Ttl::Never), "laravel"), "{key}");
            assert_eq!(waiting("laravel", key), Waiting::Nobody);
        }
        assert_no_garbage("laravel", "laravel_unique_job:App\\Jobs\\Import:17");
    }

    #[test]
    fn an_owner_elsewhere_is_a_guess_that_the_cache_prefix_confirms() {
        assert!(perhaps(&found("import_lock", OWNER, seconds(60)), "laravel"));
        assert!(surely(&found("shop_database_shop_cache_import_lock", OWNER, seconds(60)), "laravel"));
        assert!(perhaps(&given("shop-cache-import", OWNER, seconds(60)), "laravel"));
    }

    #[test]
    fn a_slot_of_a_funnel_is_one_permit() {
        let best = found("import-lock3", "aZ3kP0qLmN8rTx5VbY7w", seconds(60));
        assert!(perhaps(&best, "laravel"));
        assert_eq!(best.unwrap().claim.mode, Mode::Permit);
    }

    #[test]
    fn other_short_values_on_locks_are_not_taken() {
        for value in ["1", "1234567890123456", "abcdefghijklmnop", "aZ3kP0qLmN8rTx5", "web-1.eu.example", UUID4] {
            assert_ne!(names(&found("import_lock", value, seconds(60))).0, "laravel", "{value}");
        }
    }
}
