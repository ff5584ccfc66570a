//! The measured value of a figure, its limit, and whether it keeps the limit.
//!
//! `tests/figures.rs` tests this file: it must not use anything else of the benchmark.

/// A value measured several times.
#[derive(Clone, Copy)]
pub struct Measured {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Measured {
    pub fn of(mut values: Vec<f64>) -> Measured {
        values.sort_by(f64::total_cmp);
        Measured { median: median(&values), min: values[0], max: values[values.len() - 1] }
    }

    /// With the range of the middle half: the extremes of many short measurements mean nothing.
    pub fn middle_half(mut values: Vec<f64>) -> Measured {
        values.sort_by(f64::total_cmp);
        let quarter = values.len() / 4;
        Measured { median: median(&values), min: values[quarter], max: values[values.len() - 1 - quarter] }
    }

    pub fn once(value: f64) -> Measured {
        Measured { median: value, min: value, max: value }
    }

    /// The measurements differ too much for their median to mean much.
    pub fn is_wide(&self) -> bool {
        self.min > 0.0 && self.max / self.min > 1.4
    }
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The limit of a figure.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

impl Limit {
    /// `show`: a value that prints like the limit does not count as below it.
    fn holds(self, value: f64, show: fn(f64) -> String) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::Below(limit) => value < limit && show(value) != show(limit),
            Limit::AtLeast(limit) => value >= limit,
        }
    }

    /// Whether the whole range of measurements keeps the limit.
    pub fn verdict(self, measured: Measured, show: fn(f64) -> String) -> &'static str {
        match (self.holds(measured.min, show), self.holds(measured.max, show)) {
            (true, true) => "holds",
            (false, false) => "MISSED",
            // Some measurements keep the limit and some do not: nothing is proven either way.
            _ => "inconclusive",
        }
    }

    pub fn text(self, show: fn(f64) -> String) -> String {
        match self {
            Limit::AtMost(limit) => format!("≤ {}", show(limit)),
            Limit::Below(limit) => format!("< {}", show(limit)),
            Limit::AtLeast(limit) => format!("≥ {}", show(limit)),
        }
    }
}

pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

pub fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
