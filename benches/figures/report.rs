//! The measured figures, as a table for people and as Markdown for docs/benchmarks.md.

use std::fmt::Write;

use crate::limit::{Limit, Measured};
use crate::machine;

const HEADING: &str = "measured (min..max)";

/// One row.
pub struct Figure {
    pub name: String,
    pub measured: Measured,
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

    /// Something that a reader of the figures must know.
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
            println!(
                "{:name$}  {shown:value$}  {allowed:limit$}  {}",
                figure.name,
                figure.limit.verdict(figure.measured, figure.show)
            );
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
            let _ = writeln!(
                text,
                "| {} | {shown} | {allowed} | {} | {command} |",
                figure.name,
                figure.limit.verdict(figure.measured, figure.show)
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        println!("{text}\n{}", machine::describe());
    }
}

fn line(figure: &Figure) -> String {
    format!(
        "{}: {}, {} {}",
        figure.name,
        measured(figure),
        figure.limit.text(figure.show),
        figure.limit.verdict(figure.measured, figure.show)
    )
}

fn measured(figure: &Figure) -> String {
    let (Measured { median, min, max }, show) = (figure.measured, figure.show);
    let noisy = if figure.measured.is_wide() { ", noisy" } else { "" };
    if min == max { show(median) } else { format!("{} ({}..{}{noisy})", show(median), show(min), show(max)) }
}
