//! What was measured, as a table for people and as Markdown for the README.

use std::fmt::Write;

use crate::machine;

/// A value measured several times.
#[derive(Clone, Copy)]
pub struct Histogram {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Histogram {
    pub fn of(mut values: Vec<f64>) -> Histogram {
        values.sort_by(f64::total_cmp);
        Histogram { median: median(&values), min: values[0], max: values[values.len() - 1] }
    }

    /// With the range of the middle half: of many short measurements the extremes say nothing.
    pub fn middle_half(mut values: Vec<f64>) -> Histogram {
        values.sort_by(f64::total_cmp);
        let quarter = values.len() / 4;
        Histogram { median: median(&values), min: values[quarter], max: values[values.len() - 1 - quarter] }
    }

    pub fn once(value: f64) -> Histogram {
        Histogram { median: value, min: value, max: value }
    }

    /// Single measurements differ too much for their middle to mean much.
    fn is_wide(&self) -> bool {
        self.min > 0.0 && self.max / self.min > 1.4
    }
}

/// The middle of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// What a figure has to be.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

impl Limit {
    /// `show`: a value that reads like the limit is not below it.
    fn holds(self, value: f64, show: fn(f64) -> String) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::Below(limit) => value < limit && show(value) != show(limit),
            Limit::AtLeast(limit) => value >= limit,
        }
    }

    fn text(self, show: fn(f64) -> String) -> String {
        match self {
            Limit::AtMost(limit) => format!("≤ {}", show(limit)),
            Limit::Below(limit) => format!("< {}", show(limit)),
            Limit::AtLeast(limit) => format!("≥ {}", show(limit)),
        }
    }
}

const HEADING: &str = "measured (min..max)";

/// One row.
pub struct Figure {
    pub name: String,
    pub measured: Histogram,
    pub limit: Limit,
    pub show: fn(f64) -> String,
    /// What was run and measured.
    pub command: String,
}

pub struct Report {
    figures: Vec<Figure>,
    notes: Vec<String>,
}

impl Report {
    pub fn new() -> Report {
        Report { figures: Vec::new(), notes: Vec::new() }
    }

    pub fn add(&mut self, figure: Figure) {
        eprintln!("{}", line(&figure));
        self.figures.push(figure);
    }

    /// Something a reader of the figures has to know.
    pub fn note(&mut self, text: String) {
        eprintln!("note: {text}");
        self.notes.push(text);
    }

    pub fn print(&self) {
        let name = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
        let value = self.figures.iter().map(|figure| measured(figure).chars().count()).max().unwrap_or(0);
        let value = value.max(HEADING.len());
        let limit = self.figures.iter().map(|figure| figure.limit.text(figure.show).chars().count()).max().unwrap_or(0);
        println!("\n{:name$}  {:value$}  {:limit$}  ", "figure", HEADING, "limit");
        for figure in &self.figures {
            let (shown, allowed) = (measured(figure), figure.limit.text(figure.show));
            println!("{:name$}  {shown:value$}  {allowed:limit$}  {}", figure.name, verdict(figure));
            println!("{:name$}  {}", "", figure.command);
        }
        for note in &self.notes {
            println!("note: {note}");
        }
        println!("{}", machine::describe());
    }

    pub fn print_markdown(&self) {
        let mut text = String::from("| Figure | Measured (min..max) | Limit | | How |\n|---|---|---|---|---|\n");
        for figure in &self.figures {
            let (shown, allowed) = (measured(figure), figure.limit.text(figure.show));
            let command = figure.command.replace('|', "\\|");
            let _ = writeln!(text, "| {} | {shown} | {allowed} | {} | {command} |", figure.name, verdict(figure));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        println!("{text}\n{}", machine::describe());
    }
}

fn line(figure: &Figure) -> String {
    format!("{}: {}, {} {}", figure.name, measured(figure), figure.limit.text(figure.show), verdict(figure))
}

fn measured(figure: &Figure) -> String {
    let (Histogram { median, min, max }, show) = (figure.measured, figure.show);
    let noisy = if figure.measured.is_wide() { ", noisy" } else { "" };
    if min == max { show(median) } else { format!("{} ({}..{}{noisy})", show(median), show(min), show(max)) }
}

fn verdict(figure: &Figure) -> &'static str {
    let Histogram { min, max, .. } = figure.measured;
    match (figure.limit.holds(min, figure.show), figure.limit.holds(max, figure.show)) {
        (true, true) => "holds",
        (false, false) => "MISSED",
        // Some measurements keep the limit and some do not: nothing is proven either way.
        _ => "inconclusive",
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
