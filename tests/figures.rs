//! The benchmark's verdict on a figure: a figure holds only if every measurement that counts keeps the limit.

#[path = "../benches/figures/limit.rs"]
mod limit;

use limit::{Limit, Measured, ratio, whole};

fn verdict(limit: Limit, measured: &[f64]) -> &'static str {
    limit.verdict(Measured::of(measured.to_vec()), ratio)
}

#[test]
fn a_range_on_both_sides_of_the_limit_proves_nothing() {
    let medians_that_hold = [
        (Limit::Below(1.0), [0.80, 0.90, 1.20]),
        (Limit::AtMost(1.0), [0.80, 0.90, 1.01]),
        (Limit::AtLeast(1.0), [0.90, 1.10, 1.20]),
    ];
    for (limit, measured) in medians_that_hold {
        assert_eq!(verdict(limit, &measured), "inconclusive", "{measured:?} {}", limit.text(ratio));
    }
    // Nor if the median misses it.
    assert_eq!(verdict(Limit::Below(1.0), &[0.99, 1.10, 1.20]), "inconclusive");
}

#[test]
fn a_range_on_one_side_of_the_limit_is_decided() {
    assert_eq!(verdict(Limit::Below(1.0), &[0.80, 0.90, 0.99]), "holds");
    assert_eq!(verdict(Limit::Below(1.0), &[1.10, 1.20, 1.30]), "MISSED");
    assert_eq!(verdict(Limit::AtLeast(1.0), &[1.10, 1.20, 1.30]), "holds");
    assert_eq!(verdict(Limit::AtLeast(1.0), &[0.80, 0.90, 0.99]), "MISSED");
    // A limit that is met exactly.
    assert_eq!(verdict(Limit::AtMost(1.0), &[1.0]), "holds");
    assert_eq!(verdict(Limit::AtLeast(1.0), &[1.0]), "holds");
    assert_eq!(verdict(Limit::Below(1.0), &[1.0]), "MISSED");
}

#[test]
fn a_figure_that_reads_like_its_limit_is_not_below_it() {
    assert_eq!(ratio(0.996), ratio(1.0));
    assert_eq!(verdict(Limit::Below(1.0), &[0.996]), "MISSED");
    assert_eq!(verdict(Limit::Below(1.0), &[0.90, 0.996]), "inconclusive");
    assert_eq!(Limit::Below(2_000.0).verdict(Measured::once(1_999.6), whole), "MISSED");
}

#[test]
fn what_is_no_number_does_not_hold() {
    for limit in [Limit::Below(1.0), Limit::AtMost(1.0), Limit::AtLeast(1.0)] {
        assert_eq!(verdict(limit, &[f64::NAN]), "MISSED");
        assert_ne!(verdict(limit, &[1.0, f64::NAN]), "holds");
    }
}

#[test]
fn the_middle_half_leaves_out_a_quarter_at_either_end() {
    let values: Vec<f64> = (1..=8).rev().map(f64::from).collect();
    let (all, middle) = (Measured::of(values.clone()), Measured::middle_half(values));
    assert_eq!((all.min, all.median, all.max), (1.0, 4.5, 8.0));
    assert_eq!((middle.min, middle.median, middle.max), (3.0, 4.5, 6.0));
    assert!(all.is_wide() && middle.is_wide() && !Measured::of(vec![1.0, 1.4]).is_wide());
}
