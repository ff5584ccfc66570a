//! The speed of the fleet.
//!
//! Roles use production times, such as a lease of thirty seconds and a renewal every ten; the tempo converts them into
//! real times, so that a test need not wait.

use std::time::Duration;

/// How many times faster than production.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tempo(f64);

impl Default for Tempo {
    fn default() -> Tempo {
        Tempo::REAL
    }
}

impl Tempo {
    /// Production speed.
    pub const REAL: Tempo = Tempo(1.0);

    /// `factor` times as fast, within limits: leases must stay longer than a round trip to the server.
    pub fn times(factor: f64) -> Tempo {
        Tempo(factor.clamp(0.1, 50.0))
    }

    /// The time that really passes.
    pub fn real(self, nominal: Duration) -> Duration {
        nominal.div_f64(self.0)
    }

    /// The next longer time that is a whole number of real seconds, for leases that are given in seconds.
    pub fn whole_seconds(self, nominal: Duration) -> Duration {
        let real = self.real(nominal).as_secs_f64().ceil().max(1.0);
        Duration::from_secs_f64(real).mul_f64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_fleet_lives_through_the_same_in_less_time() {
        let thirty = Duration::from_secs(30);
        assert_eq!(Tempo::REAL.real(thirty), thirty);
        assert_eq!(Tempo::times(10.0).real(thirty), Duration::from_secs(3));
    }

    #[test]
    fn leases_in_seconds_really_are_whole_seconds() {
        let tempo = Tempo::times(12.5);
        let lease = tempo.whole_seconds(Duration::from_secs(30));
        assert_eq!(tempo.real(lease), Duration::from_secs(3));
        assert_eq!(Tempo::REAL.whole_seconds(Duration::from_secs(30)), Duration::from_secs(30));
        assert_eq!(Tempo::times(50.0).real(Tempo::times(50.0).whole_seconds(Duration::from_secs(2))).as_secs(), 1);
    }
}
