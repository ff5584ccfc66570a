//! `ls --group`: a table for people, JSON and CSV, and the cells that the console shows too.
//!
//! What is not known of all locks of a group is told as a bound (`≥3`) where a part is known, else as `?` and `null`.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use super::closer::rounded;
use super::columns::{paint, rate};
use super::json::SCHEMA;
use super::{Place, TextStyle, csv};
use crate::base::json::{put, put_all, write_value};
use crate::base::text::{fit_marked, short_duration};
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::grouping::Sum;
use crate::model::{Group, GroupBy, HeldIs, State};

/// The name of the group of locks that name no holder.
pub const NOBODY: &str = "(no holder named)";
/// At most this many keys are named in a table.
const NAMED: usize = 3;

/// How many are in which state, the odd ones by name: `63 held, 1 NO-TTL: stock:17`.
pub fn states(group: &Group, key: impl Fn(&Key) -> String) -> String {
    let mut states: Vec<_> = group.states().collect();
    states.reverse();
    let word = |(state, count)| match State::is_usual(state) {
        true => format!("{count} {}", state.name()),
        false => format!("{count} {}", state.label()),
    };
    let mut parts: Vec<String> = states.into_iter().map(word).collect();
    if group.worst.is_suspected() {
        parts.push(format!("{} {}", group.as_bad, group.worst.label()));
    }
    parts.join(", ") + &names(group, key)
}

/// The same of the odd ones alone: `1 NO-TTL: stock:17`; empty if there are none.
pub fn odd_ones(group: &Group, key: impl Fn(&Key) -> String) -> String {
    if !group.has_odd_ones() {
        return String::new();
    }
    format!("{} {}{}", group.as_bad, group.worst.label(), names(group, key))
}

/// `: stock:17, stock:18 and 3 more`.
fn names(group: &Group, key: impl Fn(&Key) -> String) -> String {
    if !group.has_odd_ones() {
        return String::new();
    }
    let named: Vec<String> = group.worst_keys().take(NAMED).map(key).collect();
    let more = group.as_bad - named.len().min(group.as_bad);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(": {}{more}", named.join(", "))
}

/// The age of the oldest hold. "At least 0" is shown as unknown.
pub fn oldest(group: &Group) -> String {
    match group.oldest() {
        None | Some((0..1000, HeldIs::AtLeast)) => "?".into(),
        Some((ms, HeldIs::AtLeast)) => format!("≥{}", short_duration(ms)),
        Some((ms, HeldIs::Estimated)) => format!("~{}", short_duration(ms)),
        Some((ms, HeldIs::Exact)) => short_duration(ms),
    }
}

pub fn waiters(group: &Group) -> String {
    sum(&group.waiters, |count| format!("{count:.0}"))
}

/// Refused attempts a second, with the source of the number.
pub fn failures(group: &Group) -> String {
    let mark = group.failures_per_s.from().mark();
    sum(&group.failures_per_s, |per_s| format!("{}{mark}", rate(per_s)))
}

fn sum(sum: &Sum, text: impl Fn(f64) -> String) -> String {
    match (sum.exact(), sum.at_least()) {
        (Some(exact), _) => text(exact),
        (None, Some(least)) if least > 0.0 => format!("≥{}", text(least)),
        // At least none says nothing.
        (None, _) => "?".into(),
    }
}

fn name(group: &Group, place: &Place) -> Option<String> {
    group.name.text(|node| place.node(node).into_owned())
}

const TITLES: [&str; 7] = ["WORST", "LOCKS", "", "STATES", "OLDEST", "WAIT", "FAIL/S"];
/// Columns and their smallest widths, cut in this order on a narrow terminal.
const CUT: [(usize, usize); 2] = [(3, 12), (2, 16)];
const GAP: usize = 2;

/// Writes a header and a line for each group, in the order given.
pub fn write(out: &mut impl Write, by: GroupBy, groups: &[Group], place: &Place, style: &TextStyle) -> io::Result<()> {
    let cells = |group: &Group| {
        let name = name(group, place).unwrap_or_else(|| NOBODY.into());
        let name = if group.name.token().is_some() { style.token(&name) } else { name };
        [
            group.worst.label().into_owned(),
            group.locks.to_string(),
            name,
            states(group, Key::to_string),
            oldest(group),
            waiters(group),
            failures(group),
        ]
        .map(|text| style.plain(text).into_owned())
    };
    let mut titles = TITLES;
    titles[2] = by.title();
    let rows: Vec<[String; 7]> = std::iter::once(titles.map(String::from)).chain(groups.iter().map(cells)).collect();
    let mut widths = [0; TITLES.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(room) = style.width {
        for (column, least) in CUT {
            let over = (widths.iter().sum::<usize>() + GAP * (TITLES.len() - 1)).saturating_sub(room);
            widths[column] -= over.min(widths[column].saturating_sub(least));
        }
    }
    let mark = if style.ascii { '~' } else { '…' };
    for (index, row) in rows.iter().enumerate() {
        let code = index.checked_sub(1).map_or("", |at| paint(groups[at].worst.state));
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = fit_marked(cell, width, mark);
            let padding = " ".repeat(width - cell.width().min(width));
            let is_number = matches!(column, 1 | 4..=6);
            let cell = if column == 0 { style.painted(code, &cell) } else { cell };
            line.push_str(&if is_number { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// `ls --group --json`: one document. `server` describes the target.
pub fn write_json(
    out: &mut impl Write,
    at: Time,
    incomplete: Option<&str>,
    groups: &[Group],
    (place, server): (&Place, &Value),
) -> io::Result<()> {
    write!(out, "{{\"schema\":\"{SCHEMA}\",\"at\":\"{}\",\"server\":", at.rfc3339())?;
    write_value(out, server)?;
    write!(out, ",\"complete\":{},\"incomplete\":", incomplete.is_none())?;
    write_value(out, &incomplete)?;
    out.write_all(b",\"groups\":[")?;
    for (index, group) in groups.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        write_value(out, &object(group, place))?;
    }
    out.write_all(if groups.is_empty() { b"]}\n" } else { b"\n]}\n" })
}

fn object(group: &Group, place: &Place) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("by".into(), group.name.by().name().into());
    match group.name.bytes() {
        Some(bytes) => put(&mut object, "name", bytes),
        None => drop(object.insert("name".into(), name(group, place).into())),
    }
    let states: Map<String, Value> = group.states().map(|(state, count)| (state.name().into(), count.into())).collect();
    let whole = |value: Option<f64>| value.map(|value| value as u64);
    let mut add = |name: &str, value: Value| drop(object.insert(name.into(), value));
    add("locks", group.locks.into());
    add("states", states.into());
    add("worst", group.worst.state.name().into());
    add("worst_suspected", group.worst.is_suspected().into());
    add("oldest_held_ms", group.oldest().map(|(ms, _)| ms).into());
    add("oldest_held_is", group.oldest().map(|(_, is)| is.name()).into());
    add("waiters", whole(group.waiters.exact()).into());
    add("waiters_at_least", whole(group.waiters.at_least()).into());
    add("failures_per_s", json!(group.failures_per_s.exact().map(rounded)));
    add("failures_at_least_per_s", json!(group.failures_per_s.at_least().map(rounded)));
    put_all(&mut object, "worst_keys", group.worst_keys().map(Key::as_bytes));
    object
}

const HEADER: [&str; 9] =
    ["by", "name", "locks", "states", "worst", "worst_keys", "oldest_held_ms", "waiters", "failures_per_s"];

/// `ls --group --csv`: a header and a row for each group; unknown values are empty cells.
pub fn write_csv(out: &mut impl Write, groups: &[Group], place: &Place) -> io::Result<()> {
    out.write_all(csv::record(HEADER).as_bytes())?;
    for group in groups {
        let states: Vec<String> = group.states().map(|(state, count)| format!("{count} {}", state.name())).collect();
        let keys: Vec<String> = group.worst_keys().map(Key::to_string).collect();
        let row = [
            group.name.by().name().to_string(),
            csv::cell(name(group, place).unwrap_or_default()),
            group.locks.to_string(),
            states.join(" "),
            group.worst.state.name().to_string(),
            csv::cell(keys.join(" ")),
            group.oldest().map(|(ms, _)| ms.to_string()).unwrap_or_default(),
            group.waiters.exact().map(|count| format!("{count:.0}")).unwrap_or_default(),
            group.failures_per_s.exact().map(|per_s| rounded(per_s).to_string()).unwrap_or_default(),
        ];
        out.write_all(csv::record(row).as_bytes())?;
    }
    out.flush()
}
