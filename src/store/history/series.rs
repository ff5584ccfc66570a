//! Series over time: which blocks and rows have the times that were asked for, and the columns put together from them.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::{History, Why};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::metrics::{MetricId, Series};
use crate::store::body::{decode_columns, decode_times};
use crate::store::joined::Joined;
use crate::store::names::series_of;
use crate::store::overlap::{Extent, counting};
use crate::store::row::Rows;
use crate::store::sealed::{Opener, place};
use crate::store::writer::{BLOCKS, COLUMNS, SECOND_MS, TAIL};
use crate::store::{Column, Columns, Span};

/// With more patterns than this it is faster to read all between the first and the last in a block than each by itself.
const FEW_PATTERNS: usize = 8;

/// Times that count, and where what they have is kept.
pub struct Piece {
    kept: Kept,
    step: i64,
    /// Indices in the block or the tail.
    range: Range<u32>,
    pub times: Vec<Time>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Block(i64),
    Tail,
}

/// Series that are asked for, by their numbers; and the patterns that have them.
pub struct Wanted {
    metric: i64,
    patterns: BTreeSet<i64>,
    places: HashMap<i64, usize>,
    pub series: Vec<Series>,
}

impl History {
    /// The series of a metric that are wanted, at the finest step there is, from one time up to and with another.
    pub fn series(
        &self,
        metric: MetricId,
        wanted: &dyn Fn(&Series) -> bool,
        from: Time,
        to: Time,
    ) -> Result<Columns, Fault> {
        self.ask(|db| {
            let mut opener = Opener::new();
            let pieces = pieces(db, &mut opener, from, to)?;
            let times: Arc<[Time]> = pieces.iter().flat_map(|piece| &piece.times).copied().collect();
            let mut columns = Vec::new();
            if let Some(wanted) = wanted_series(db, metric, wanted)? {
                let joined = read(db, &mut opener, &wanted, &pieces)?;
                let finished = joined.into_iter().map(|column| column.finish(times.len() as u32));
                let found = wanted.series.iter().zip(finished).filter_map(|(series, pair)| {
                    let pair = pair?;
                    Some(Column { series: series.clone(), last: pair.last, largest: pair.largest })
                });
                columns = found.collect();
            }
            let gaps = super::log::gaps(db, from, to)?;
            Ok(Columns { times, spans: spans(&pieces), columns, gaps })
        })
    }
}

impl History {
    /// All series of a metric, whenever they were.
    pub fn series_of(&self, metric: MetricId) -> Result<Vec<Series>, Fault> {
        self.ask(|db| Ok(wanted_series(db, metric, &|_| true)?.map(|found| found.series).unwrap_or_default()))
    }
}

/// Everything that counts of that time, in its order.
pub fn pieces(db: &Connection, opener: &mut Opener, from: Time, to: Time) -> Result<Vec<Piece>, Why> {
    let tails = tails(db)?;
    let extents = extents(db, &tails)?;
    let mut pieces = Vec::new();
    let mut add = |kept, step, run, all: &[Time], offset: u32| {
        for range in counting(all, run, &extents, from, to) {
            let times = all[range.clone()].to_vec();
            let range = offset + range.start as u32..offset + range.end as u32;
            pieces.push(Piece { kept, step, range, times });
        }
    };
    let mut statement =
        db.prepare_cached("SELECT id, step, run, first, last, times FROM blocks WHERE last >= ?1 AND first <= ?2")?;
    let mut rows = statement.query([from.0, to.0])?;
    while let Some(row) = rows.next()? {
        let (step, first, last): (i64, i64, i64) = (row.get(1)?, row.get(3)?, row.get(4)?);
        let plain = opener.open(place(BLOCKS, [step, first, last]), blob(row, 5)?);
        let times = plain.and_then(decode_times).ok_or(Why::Damaged)?;
        add(Kept::Block(row.get(0)?), step, row.get(2)?, &times, 0);
    }
    // Indices of the tail count over all its runs.
    let mut offset = 0;
    for (run, times) in &tails {
        add(Kept::Tail, SECOND_MS, *run, times, offset);
        offset += times.len() as u32;
    }
    pieces.sort_by_key(|piece| piece.times.first().copied());
    Ok(pieces)
}

/// The times of the tail, by run, in the order of its rows.
fn tails(db: &Connection) -> Result<Vec<(i64, Vec<Time>)>, Why> {
    let mut tails: Vec<(i64, Vec<Time>)> = Vec::new();
    let mut statement = db.prepare_cached("SELECT run, at FROM tail ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (run, at) = (row.get(0)?, Time(row.get(1)?));
        match tails.last_mut() {
            Some((last, times)) if *last == run => times.push(at),
            _ => tails.push((run, vec![at])),
        }
    }
    Ok(tails)
}

/// The first and the last moment of every run.
fn extents(db: &Connection, tails: &[(i64, Vec<Time>)]) -> Result<Vec<Extent>, Why> {
    let mut statement = db.prepare_cached("SELECT run, min(first), max(last) FROM blocks GROUP BY run")?;
    let found = statement
        .query_map([], |row| Ok(Extent { run: row.get(0)?, first: Time(row.get(1)?), last: Time(row.get(2)?) }))?;
    let mut extents = found.collect::<Result<Vec<_>, _>>()?;
    for (run, times) in tails {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { continue };
        extents.push(Extent { run: *run, first: *first, last: *last });
    }
    Ok(extents)
}

fn spans(pieces: &[Piece]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut start = 0;
    for piece in pieces {
        let (range, step) = (start..start + piece.times.len(), Duration::from_millis(piece.step.max(0) as u64));
        start = range.end;
        match spans.last_mut() {
            Some(span) if span.step == step => span.range.end = range.end,
            _ => spans.push(Span { range, step }),
        }
    }
    spans
}

/// The series of a metric that are wanted; `None` if the file has no such metric.
pub fn wanted_series(
    db: &Connection,
    metric: MetricId,
    wanted: &dyn Fn(&Series) -> bool,
) -> Result<Option<Wanted>, Why> {
    let named = "SELECT id FROM names WHERE name = ?1";
    let id: Option<i64> = db.prepare_cached(named)?.query_row([metric.metric().name], |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(None) };
    let mut found = Wanted { metric: id, patterns: BTreeSet::new(), places: HashMap::new(), series: Vec::new() };
    let mut statement = db.prepare_cached("SELECT id, pattern, part, labels FROM series WHERE metric = ?1")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let (part, labels) = (text(row, 2)?, text(row, 3)?);
        let Some(series) = series_of(metric, part, labels).filter(|series| wanted(series)) else { continue };
        found.patterns.insert(row.get(1)?);
        found.places.insert(row.get(0)?, found.series.len());
        found.series.push(series);
    }
    Ok(Some(found))
}

/// The columns of those series over those pieces, in the order of both.
pub fn read(db: &Connection, opener: &mut Opener, wanted: &Wanted, pieces: &[Piece]) -> Result<Vec<Joined>, Why> {
    let mut columns = vec![Joined::default(); wanted.series.len()];
    let mut start = 0;
    for piece in pieces {
        match piece.kept {
            Kept::Block(block) => read_block(db, opener, wanted, block, (start, &piece.range), &mut columns)?,
            Kept::Tail => read_tail(db, opener, wanted, (start, &piece.range), &mut columns)?,
        }
        start += piece.times.len() as u32;
    }
    Ok(columns)
}

fn read_block(
    db: &Connection,
    opener: &mut Opener,
    wanted: &Wanted,
    block: i64,
    (start, range): (u32, &Range<u32>),
    columns: &mut [Joined],
) -> Result<(), Why> {
    let mut take = |pattern: i64, sealed: &[u8]| {
        let plain = opener.open(place(COLUMNS, [wanted.metric, block, pattern]), sealed)?;
        decode_columns(plain, |series, last, largest| match wanted.places.get(&series) {
            Some(place) => columns[*place].add(start, range.clone(), last, largest),
            None => Some(()),
        })
    };
    if wanted.patterns.len() <= FEW_PATTERNS {
        let one = "SELECT body FROM columns WHERE metric = ?1 AND block = ?2 AND pattern = ?3";
        let mut statement = db.prepare_cached(one)?;
        for pattern in &wanted.patterns {
            let mut rows = statement.query([wanted.metric, block, *pattern])?;
            if let Some(row) = rows.next()? {
                take(*pattern, blob(row, 0)?).ok_or(Why::Damaged)?;
            }
        }
        return Ok(());
    }
    let (Some(first), Some(last)) = (wanted.patterns.first(), wanted.patterns.last()) else { return Ok(()) };
    let some = "SELECT pattern, body FROM columns WHERE metric = ?1 AND block = ?2 AND pattern BETWEEN ?3 AND ?4";
    let mut statement = db.prepare_cached(some)?;
    let mut rows = statement.query([wanted.metric, block, *first, *last])?;
    while let Some(row) = rows.next()? {
        let pattern = row.get(0)?;
        if wanted.patterns.contains(&pattern) {
            take(pattern, blob(row, 1)?).ok_or(Why::Damaged)?;
        }
    }
    Ok(())
}

/// Adds what the rows of the tail say of one piece of it.
fn read_tail(
    db: &Connection,
    opener: &mut Opener,
    wanted: &Wanted,
    (start, range): (u32, &Range<u32>),
    columns: &mut [Joined],
) -> Result<(), Why> {
    let end = start + (range.end - range.start);
    columns.iter_mut().for_each(|column| column.begin(start, end));
    let mut walk = Rows::default();
    let mut statement = db.prepare_cached("SELECT run, at, body FROM tail ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut index = 0;
    while let Some(row) = rows.next()? {
        if index >= range.end {
            break;
        }
        let (run, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let plain = opener.open(place(TAIL, [run, at, 0]), blob(row, 2)?).ok_or(Why::Damaged)?;
        // What changed before the piece holds from its beginning.
        let to = start + index.saturating_sub(range.start);
        let change = |series: i64, value: f64| {
            if let Some(place) = wanted.places.get(&series) {
                columns[*place].set(to, value);
            }
        };
        walk.step(plain, |series| wanted.places.contains_key(&series), change).ok_or(Why::Damaged)?;
        index += 1;
    }
    Ok(())
}

fn blob<'a>(row: &'a rusqlite::Row, column: usize) -> Result<&'a [u8], Why> {
    row.get_ref(column)?.as_blob().map_err(|_| Why::Damaged)
}

fn text<'a>(row: &'a rusqlite::Row, column: usize) -> Result<&'a str, Why> {
    row.get_ref(column)?.as_str().map_err(|_| Why::Damaged)
}
