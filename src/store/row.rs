//! One moment as a row of the tail: what changed since the row before, as bytes and back. Pure.
//!
//! Now and then a row has everything, so that a reader can begin there; the first of a run and the first after packing do.

use std::collections::HashMap;

use crate::store::bytes::{Bytes, put, put_signed};
use crate::store::changes::{put_value, take_value};

/// What changed, by the numbers of the series. Not a number: not known any more. `whole`: everything that is known.
pub fn encode_row(whole: bool, changed: &[(i64, f64)]) -> Vec<u8> {
    let mut out = vec![u8::from(whole)];
    put(&mut out, changed.len() as u64);
    let mut before = 0;
    for (series, _) in changed {
        put_signed(&mut out, series - before);
        before = *series;
    }
    changed.iter().for_each(|(_, value)| put_value(&mut out, *value));
    out
}

fn decode_row(plain: &[u8], mut take: impl FnMut(i64, f64)) -> Option<bool> {
    let (whole, rest) = plain.split_first()?;
    let mut ids = Bytes(rest);
    let count = ids.count()?;
    let mut values = ids;
    for _ in 0..count {
        values.number()?;
    }
    let mut series = 0_i64;
    for _ in 0..count {
        series = series.checked_add(ids.signed()?)?;
        take(series, take_value(&mut values)?);
    }
    values.is_empty().then_some(*whole == 1)
}

/// Goes through the rows of the tail and knows what every series was last.
#[derive(Default)]
pub struct Rows {
    known: HashMap<i64, f64>,
    /// Whether a whole row was met: before, nothing is known.
    begun: bool,
}

impl Rows {
    /// The changes of one row, of the series that are wanted; `None` if it is damaged.
    pub fn step(&mut self, plain: &[u8], wanted: impl Fn(i64) -> bool, mut change: impl FnMut(i64, f64)) -> Option<()> {
        let mut changed = Vec::new();
        let whole = decode_row(plain, |series, value| {
            if wanted(series) {
                changed.push((series, value));
            }
        })?;
        if whole {
            let mut gone = std::mem::take(&mut self.known);
            changed.iter().for_each(|(series, _)| {
                gone.remove(series);
            });
            gone.into_keys().for_each(|series| change(series, f64::NAN));
        }
        self.begun |= whole;
        if !self.begun {
            return None;
        }
        for (series, value) in changed {
            if value.is_nan() {
                self.known.remove(&series);
            } else {
                self.known.insert(series, value);
            }
            change(series, value);
        }
        Some(())
    }

    /// Everything that is known after the last row.
    pub fn known(&self) -> impl Iterator<Item = (i64, f64)> {
        self.known.iter().map(|(series, value)| (*series, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_to_what_was_known() {
        let mut rows = Rows::default();
        let mut said = Vec::new();
        for (whole, changed) in [
            (true, vec![(5, 1.0), (2, 0.5)]),
            (false, vec![(2, f64::NAN), (9, f64::MIN)]),
            (false, vec![]),
            (true, vec![(9, 7.0)]),
        ] {
            let row = encode_row(whole, &changed);
            rows.step(&row, |_| true, |series, value| said.push((series, (!value.is_nan()).then_some(value)))).unwrap();
        }
        let expected = [(5, Some(1.0)), (2, Some(0.5)), (2, None), (9, Some(f64::MIN)), (5, None), (9, Some(7.0))];
        assert_eq!(said, expected);
        assert_eq!(rows.known().collect::<Vec<_>>(), [(9, 7.0)]);
    }

    #[test]
    fn a_row_without_what_it_changes_says_nothing() {
        let mut rows = Rows::default();
        assert_eq!(rows.step(&encode_row(false, &[(1, 1.0)]), |_| true, |_, _| {}), None);
        assert_eq!(rows.step(&[1, 200], |_| true, |_, _| {}), None);
    }
}
