//! Suggests a sufficient lease, as a round number that a person would choose.

const ROUND_S: [u64; 14] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200];
/// The margin for a hold that is slower than all seen so far.
const ROOM: u64 = 3;

/// For holds whose 99th percentile is `p99_ms`.
pub fn lease_ms(p99_ms: u64) -> u64 {
    let needed = p99_ms.saturating_mul(ROOM);
    ROUND_S.into_iter().map(|s| s * 1_000).find(|ms| *ms >= needed).unwrap_or(needed.next_multiple_of(3_600_000))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_suggestion_is_round_and_leaves_room() {
        for (p99, lease) in [(0, 1_000), (400, 2_000), (9_000, 30_000), (50_000, 300_000), (3_600_000, 10_800_000)] {
            assert_eq!(super::lease_ms(p99), lease);
        }
    }
}
