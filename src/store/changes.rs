//! One column: where a series changes and to what, as bytes and back. Pure.
//!
//! Integers, and decimals with up to six places, are kept as differences; other numbers as the bits that differ from the
//! number before. Each comes back bit for bit. Not a number means not known.

use crate::store::bytes::{Bytes, folded, put, put_signed, unfolded};

/// From which index on the series has which value, ascending.
pub type Changes = Vec<(u32, f64)>;

const PLACES: [f64; 7] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
/// In place of the number of decimal places: bits.
const BITS: u8 = 7;
/// Up to here every integer is a float of its own.
const EXACT: f64 = (1_u64 << 53) as f64;

/// The number of steps of that size, if the value is exactly that many.
pub fn steps(value: f64, places: usize) -> Option<i64> {
    let scaled = (value * PLACES[places]).round();
    // Compared as it will be read back: minus zero is no number of steps.
    let is_exact = |steps: &i64| self::value(*steps, places).to_bits() == value.to_bits();
    (scaled.abs() <= EXACT).then_some(scaled as i64).filter(is_exact)
}

/// The value of that many steps.
pub fn value(steps: i64, places: usize) -> f64 {
    if places == 0 { steps as f64 } else { steps as f64 / PLACES[places] }
}

/// Adds that the series has that value from that index on, which is none before the last one that was added.
pub fn push(changes: &mut Changes, index: u32, value: f64) {
    if changes.last().is_some_and(|(last, _)| *last == index) {
        changes.pop();
    }
    let same = |last: f64| last.to_bits() == value.to_bits() || last.is_nan() && value.is_nan();
    if !changes.last().is_some_and(|(_, last)| same(*last)) {
        changes.push((index, value));
    }
}

/// Appends the changes as bytes.
pub fn encode(changes: &[(u32, f64)], out: &mut Vec<u8>) {
    let known = || changes.iter().map(|(_, value)| *value).filter(|value| !value.is_nan());
    let places = (0..PLACES.len()).find(|places| known().all(|value| steps(value, *places).is_some()));
    put(out, changes.len() as u64);
    out.push(places.map_or(BITS, |places| places as u8));
    let mut next = 0;
    for (index, value) in changes {
        put(out, u64::from(index - next) << 1 | u64::from(value.is_nan()));
        next = index + 1;
    }
    match places {
        Some(places) => {
            let mut before = 0;
            for steps in known().filter_map(|value| steps(value, places)) {
                put_signed(out, steps - before);
                before = steps;
            }
        }
        None => {
            let mut before = 0;
            for value in known() {
                put(out, value.to_bits() ^ before);
                before = value.to_bits();
            }
        }
    }
}

/// Reads them back, each with `shift` added to its index; `None` if the bytes are none that [`encode`] made.
pub fn decode(bytes: &mut Bytes, shift: u32, mut take: impl FnMut(u32, f64)) -> Option<()> {
    let count = bytes.count()?;
    let places = bytes.take(1)?[0];
    if places > BITS {
        return None;
    }
    let mut indices = *bytes;
    bytes.skip(count)?;
    let (mut next, mut steps, mut bits) = (shift, 0_i64, 0_u64);
    for _ in 0..count {
        let gap = indices.number()?;
        let index = next.checked_add(u32::try_from(gap >> 1).ok()?)?;
        next = index.checked_add(1)?;
        if gap & 1 == 1 {
            take(index, f64::NAN);
        } else if places == BITS {
            bits ^= bytes.number()?;
            take(index, f64::from_bits(bits));
        } else {
            steps = steps.checked_add(bytes.signed()?)?;
            take(index, value(steps, usize::from(places)));
        }
    }
    Some(())
}

/// A single value in few bytes.
pub fn put_value(out: &mut Vec<u8>, value: f64) {
    const KINDS: [usize; 2] = [0, 3];
    // Three bits are needed beside the number: its sign and the kind.
    let small = |steps: &i64| steps.abs() < 1 << 60;
    let found = KINDS.iter().enumerate().find_map(|(kind, places)| Some((kind, steps(value, *places).filter(small)?)));
    match found {
        Some((kind, steps)) => put(out, folded(steps) << 2 | kind as u64),
        None if value.is_nan() => out.push(3),
        None => {
            out.push(2);
            out.extend(value.to_bits().to_le_bytes());
        }
    }
}

pub fn take_value(bytes: &mut Bytes) -> Option<f64> {
    let number = bytes.number()?;
    match number & 3 {
        0 => Some(value(unfolded(number >> 2), 0)),
        1 => Some(value(unfolded(number >> 2), 3)),
        2 => Some(f64::from_bits(u64::from_le_bytes(bytes.take(8)?.try_into().ok()?))),
        _ => Some(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(changes: &[(u32, f64)]) -> Changes {
        let mut out = Vec::new();
        encode(changes, &mut out);
        let (mut bytes, mut back) = (Bytes(&out), Changes::new());
        decode(&mut bytes, 0, |index, value| back.push((index, value))).expect("it was just made");
        assert!(bytes.is_empty());
        back
    }

    fn bits(changes: &[(u32, f64)]) -> Vec<(u32, Option<u64>)> {
        changes.iter().map(|(index, value)| (*index, (!value.is_nan()).then_some(value.to_bits()))).collect()
    }

    fn any_value() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (-1_000_i64..1_000).prop_map(|whole| whole as f64),
            2 => (0_i64..2_000_000_000_000).prop_map(|thousandths| thousandths as f64 / 1_000.0),
            2 => any::<f64>(),
            1 => prop_oneof![
                Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0), Just(f64::MAX), Just(f64::MIN),
                Just(f64::MIN_POSITIVE), Just(9_007_199_254_740_992.0), Just(9_007_199_254_740_993.0), Just(0.1 + 0.2),
            ],
        ]
    }

    proptest! {
        #[test]
        fn a_column_comes_back_bit_for_bit(gaps in prop::collection::vec((0_u32..5, any_value()), 0..80)) {
            let mut next = 0;
            let changes: Changes = gaps.into_iter().map(|(gap, value)| {
                next += gap + 1;
                (next - 1, value)
            }).collect();
            prop_assert_eq!(bits(&there_and_back(&changes)), bits(&changes));
        }

        #[test]
        fn a_single_value_comes_back_bit_for_bit(value in any_value()) {
            let mut out = Vec::new();
            put_value(&mut out, value);
            let mut bytes = Bytes(&out);
            let back = take_value(&mut bytes).expect("it was just made");
            prop_assert_eq!(bits(&[(0, back)]), bits(&[(0, value)]));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn garbage_is_refused_and_hurts_nobody(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut count = 0;
            let _ = decode(&mut Bytes(&garbage), u32::MAX - 3, |_, _| count += 1);
            prop_assert!(count <= garbage.len());
            let _ = take_value(&mut Bytes(&garbage));
        }
    }

    #[test]
    fn a_column_that_never_changes_takes_a_few_bytes() {
        let mut out = Vec::new();
        encode(&[(0, 3.0)], &mut out);
        assert!(out.len() <= 4, "{out:?}");
    }

    #[test]
    fn only_changes_are_kept() {
        let mut changes = Changes::new();
        for (index, value) in [(0, f64::NAN), (1, f64::NAN), (2, 1.0), (3, 1.0), (4, f64::NAN), (5, 0.0), (6, -0.0)] {
            push(&mut changes, index, value);
        }
        assert_eq!(changes.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2, 4, 5, 6]);
        push(&mut changes, 6, 7.0);
        assert_eq!(changes.last(), Some(&(6, 7.0)), "the later of two for the same index");
        push(&mut changes, 6, 0.0);
        assert_eq!(changes.last(), Some(&(5, 0.0)), "it did not change after all");
    }
}
