//! Packing: rows of the tail become a block of compressed columns, in one transaction, so that a reader finds each moment
//! in one of both.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::Writer;
use super::tail::TAIL;
use crate::base::time::Time;
use crate::store::body::{Pair, encode_columns, encode_times};
use crate::store::changes::push;
use crate::store::row::Rows;
use crate::store::sealed::{Seal, place};

/// The tables, for the checksums.
pub const BLOCKS: u8 = 2;
pub const COLUMNS: u8 = 3;

pub const SECOND_MS: i64 = 1_000;
const BLOCK_MS: i64 = 600_000;

/// A block that is put together from rows.
#[derive(Default)]
struct Packed {
    run: i64,
    times: Vec<Time>,
    columns: HashMap<i64, Pair>,
}

impl Writer {
    /// Packs the whole tail, a block for each run and ten minutes.
    pub fn pack(&mut self) -> rusqlite::Result<()> {
        // What is packed is there twice until the tail goes.
        self.enforce_limit(self.tail.bytes)?;
        self.begin()?;
        let mut packed = Packed::default();
        let mut rows = Rows::default();
        let (mut blocks, mut damaged) = (Vec::new(), Vec::new());
        {
            let mut statement = self.db.prepare_cached("SELECT run, at, body FROM tail ORDER BY id")?;
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                let (run, at) = (row.get::<_, i64>(0)?, Time(row.get(1)?));
                if packed.is_over(run, at) {
                    let begun = Packed::begin(run, &rows, packed.run == run);
                    blocks.push(std::mem::replace(&mut packed, begun));
                }
                let index = packed.times.len() as u32;
                packed.times.push(at);
                let plain = self.opener.open(place(TAIL, [run, at.0, 0]), row.get_ref(2)?.as_blob()?);
                let columns = &mut packed.columns;
                let changed = |series, value| push(&mut columns.entry(series).or_default().last, index, value);
                // A damaged row is a moment of which nothing is known.
                if plain.and_then(|plain| rows.step(plain, |_| true, changed)).is_none() {
                    packed.columns.values_mut().for_each(|pair| push(&mut pair.last, index, f64::NAN));
                    rows = Rows::default();
                    damaged.push(at);
                }
            }
        }
        blocks.push(packed);
        for at in damaged {
            self.write_omitted(at, "damaged", 1)?;
        }
        for block in blocks.into_iter().filter(|block| !block.times.is_empty()) {
            let moments = block.times.len() as i64;
            let id = insert_block(&self.db, &mut self.seal, SECOND_MS, block.run, &block.times, moments)?;
            insert_columns(&self.db, &mut self.seal, id, block.columns)?;
        }
        self.db.execute("DELETE FROM tail", [])?;
        self.commit_now()?;
        self.names.tidy();
        self.tail.emptied();
        Ok(())
    }
}

impl Packed {
    fn is_over(&self, run: i64, at: Time) -> bool {
        let window = |time: &Time| time.0.div_euclid(BLOCK_MS);
        self.times.last().is_some_and(|last| self.run != run || *last >= at || window(last) != window(&at))
            || self.times.is_empty() && self.run != run
    }

    /// An empty block that goes on where another one ended.
    fn begin(run: i64, rows: &Rows, goes_on: bool) -> Packed {
        let known = rows.known().filter(|_| goes_on);
        let columns = known.map(|(series, value)| (series, Pair { last: vec![(0, value)], largest: Vec::new() }));
        Packed { run, times: Vec::new(), columns: columns.collect() }
    }
}

/// Writes a block without its columns; returns its number.
pub fn insert_block(
    db: &Connection,
    seal: &mut Seal,
    step: i64,
    run: i64,
    times: &[Time],
    moments: i64,
) -> rusqlite::Result<i64> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(0) };
    let body = seal.seal(place(BLOCKS, [step, first.0, last.0]), &encode_times(times));
    db.prepare_cached("INSERT INTO blocks(step, run, first, last, moments, times) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .insert(params![step, run, first.0, last.0, moments, body])
}

/// Writes the columns of a block, those of a metric and a pattern together.
fn insert_columns(db: &Connection, seal: &mut Seal, block: i64, columns: HashMap<i64, Pair>) -> rusqlite::Result<()> {
    let known = |pair: &Pair| pair.last.iter().any(|(_, value)| !value.is_nan());
    let mut belonging = db.prepare_cached("SELECT metric, pattern FROM series WHERE id = ?1")?;
    let mut sorted = Vec::with_capacity(columns.len());
    for (series, pair) in columns.iter().filter(|(_, pair)| known(pair)) {
        let (metric, pattern): (i64, i64) = belonging.query_row([series], |row| Ok((row.get(0)?, row.get(1)?)))?;
        sorted.push((metric, pattern, *series, pair));
    }
    sorted.sort_unstable_by_key(|(metric, pattern, series, _)| (*metric, *pattern, *series));
    for group in sorted.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
        let (metric, pattern) = (group[0].0, group[0].1);
        let plain = encode_columns(group.iter().map(|(_, _, series, pair)| (*series, *pair)));
        insert_body(db, seal, [metric, block, pattern], &plain)?;
    }
    Ok(())
}

/// Writes the columns of one metric and pattern.
pub fn insert_body(db: &Connection, seal: &mut Seal, key: [i64; 3], plain: &[u8]) -> rusqlite::Result<()> {
    let body = seal.seal(place(COLUMNS, key), plain);
    db.prepare_cached("INSERT INTO columns(metric, block, pattern, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![key[0], key[1], key[2], body])
        .map(|_| ())
}
