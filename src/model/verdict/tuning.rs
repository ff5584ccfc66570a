//! Every threshold of the verdicts and findings, with its default and the name by which a config changes it.
//!
//! One list, below: the config, its template and its error messages are generated from it.

/// One threshold as a config names it: `[findings.long]` with `times = 3.0`.
#[derive(Clone, Copy)]
pub struct Knob {
    /// The state or finding that it belongs to.
    pub finding: &'static str,
    pub key: &'static str,
    pub what: &'static str,
    pub default: f64,
    field: fn(&mut Tuning) -> &mut f64,
}

macro_rules! tuning {
    ($($field:ident: $finding:literal $key:literal = $default:literal, $what:literal;)*) => {
        /// The thresholds in force.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Tuning {
            /// Findings that are not reported.
            silenced: Vec<&'static str>,
            $(#[doc = $what] pub $field: f64,)*
        }

        impl Default for Tuning {
            fn default() -> Tuning {
                Tuning { silenced: Vec::new(), $($field: $default,)* }
            }
        }

        /// All of them.
        pub const KNOBS: &[Knob] = &[$(Knob {
            finding: $finding,
            key: $key,
            what: $what,
            default: $default,
            field: |tuning| &mut tuning.$field,
        },)*];
    };
}

tuning! {
    split_for_s: "split" "for_s" = 30.0, "two count as holding it for this long after a former holder was last seen";
    orphan_closed_s: "orphan" "closed_s" = 2.0, "the holder's connection has been closed for this long";
    orphan_periods: "orphan" "periods" = 3.0, "its watchdog has been silent for this many of its own periods";
    contended_waiters: "contended" "waiters" = 3.0, "this many wait for it";
    contended_failures: "contended" "failures_per_s" = 25.0, "where it is not known who tries: at least this many attempts a second fail";
    contended_share: "contended" "share" = 0.5, "and at least this share of all attempts";
    long_holds: "long" "holds" = 20.0, "this many holds of its kind must have ended first";
    long_times: "long" "times" = 3.0, "held this many times as long as 99 % of them";
    long_beyond_s: "long" "beyond_s" = 5.0, "and this much longer";
    expiring_share: "expiring" "share" = 0.1, "less than this share of the lease is left";
    expiring_left_s: "expiring" "left_s" = 10.0, "and less than this";
    expiring_lease_s: "expiring" "lease_s" = 5.0, "of a lease at least this long";
    renewed_late_share: "renewed-late" "share" = 0.72, "renewed only when this share of the lease has passed";
    no_watchdog_share: "no-watchdog" "share" = 0.8, "5 % of the holds last at least this share of the lease";
    no_watchdog_holds: "no-watchdog" "holds" = 5.0, "this many holds of its kind must have ended first";
    never_stops_times: "never-stops" "times" = 10.0, "renewed, and held this many times as long as 99 % of the holds";
    never_stops_beyond_s: "never-stops" "beyond_s" = 60.0, "and this much longer";
    non_atomic_after_s: "non-atomic-acquire" "after_s" = 0.1, "it had no TTL for this long after it was taken";
    outlived_share: "outlived" "share" = 0.5, "more than this share of the last holds ran out";
    outlived_for_s: "outlived" "for_s" = 300.0, "a late release or renewal is reported for this long";
    freed_by_other_for_s: "freed-by-other" "for_s" = 300.0, "it is reported for this long";
    taken_over_for_s: "taken-over" "for_s" = 300.0, "it is reported for this long";
    lease_holds: "lease-too-long" "holds" = 20.0, "this many holds of its kind must have ended first";
    lease_too_long_times: "lease-too-long" "times" = 20.0, "the lease is this many times as long as 99 % of the holds";
    lease_too_long_s: "lease-too-long" "lease_s" = 60.0, "and at least this long";
    lease_too_short_holds: "lease-too-short" "holds" = 20.0, "this many holds of its kind must have ended first";
    lease_too_short_share: "lease-too-short" "share" = 0.95, "1 % of the holds last at least this share of the lease";
    starving_passed: "starving" "passed_over" = 5.0, "this many others got it before a contender that still tries";
    starving_s: "starving" "waits_s" = 10.0, "which has waited for this long";
    leaked_permits_times: "leaked-permits" "times" = 10.0, "held this many times as long as the median of the others";
    marker_early_s: "marker-early" "held_s" = 5.0, "held for this long while a marker says that its work is done";
    eviction_full: "eviction-hazard" "full" = 0.8, "the server's memory is full to this share";
    orphan_suspected_s: "orphan-suspected" "held_s" = 600.0, "a lock without a TTL is held for this long";
}

impl Tuning {
    pub fn set(&mut self, knob: &Knob, value: f64) {
        *(knob.field)(self) = value;
    }

    /// Stops reporting the finding of that name.
    pub fn silence(&mut self, name: &'static str) {
        if !self.is_silenced(name) {
            self.silenced.push(name);
        }
    }

    pub fn is_silenced(&self, name: &str) -> bool {
        self.silenced.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{State, findings};

    #[test]
    fn each_threshold_has_a_name_of_its_own_and_belongs_to_something() {
        for (index, knob) in KNOBS.iter().enumerate() {
            let same = |other: &Knob| (other.finding, other.key) == (knob.finding, knob.key);
            assert!(!KNOBS[..index].iter().any(same), "{}.{}", knob.finding, knob.key);
            let known = findings::names().chain(State::ALL.map(State::name)).any(|name| name == knob.finding);
            assert!(known, "{}", knob.finding);
        }
        for name in
            findings::names().filter(|name| !["dead-heads", "dead-holder", "renewed-by-nobody-known"].contains(name))
        {
            assert!(KNOBS.iter().any(|knob| knob.finding == name), "{name} can't be tuned");
        }
    }

    #[test]
    fn a_threshold_is_changed_by_its_name() {
        let mut tuning = Tuning::default();
        let knob = KNOBS.iter().find(|knob| (knob.finding, knob.key) == ("long", "times")).unwrap();
        tuning.set(knob, 7.0);
        assert_eq!((tuning.long_times, tuning.long_beyond_s, knob.default), (7.0, 5.0, 3.0));
        tuning.silence("starving");
        assert!(tuning.is_silenced("starving") && !tuning.is_silenced("outlived"));
    }
}
