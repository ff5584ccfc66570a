//! The numbers of series in the file, and what each was last.
//!
//! A number is looked up once and then remembered. After a transaction that was rolled back, [`Names::forget`]:
//! numbers that were given in it are not in the file.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use crate::base::time::Time;
use crate::metrics::{METRICS, MetricId, Moment, Part, Series};

const DAY_MS: i64 = 86_400_000;

/// A series that was met lately.
struct Met {
    id: i64,
    value: f64,
    /// The moment, counted from the beginning, that it was last in.
    moment: u64,
    /// The day that the file has as the last one of this series.
    day: i64,
}

#[derive(Default)]
pub struct Names {
    met: Vec<Met>,
    places: HashMap<Series, usize>,
    /// The series of the moment before, by their places: the next moment usually has the same in the same order.
    order: Vec<(Series, usize)>,
    moment: u64,
    /// Whether the rows so far say everything that `met` has.
    begun: bool,
}

impl Names {
    pub fn forget(&mut self) {
        *self = Names::default();
    }

    /// The next row has everything.
    pub fn begin(&mut self) {
        self.begun = false;
    }

    /// What changed since the moment before, or everything if `whole` or if there was none before: then the first of the
    /// pair is true.
    pub fn changes(
        &mut self,
        db: &Connection,
        moment: &Moment,
        whole: bool,
    ) -> rusqlite::Result<(bool, Vec<(i64, f64)>)> {
        self.moment += 1;
        let whole = whole || !std::mem::replace(&mut self.begun, true);
        let day = moment.at.0.div_euclid(DAY_MS) * DAY_MS;
        let mut changed = Vec::new();
        for (at, sample) in moment.samples.iter().enumerate() {
            // What is not a number is not known.
            if sample.value.is_nan() {
                continue;
            }
            let place = self.place(db, at, &sample.series, day)?;
            let met = &mut self.met[place];
            // The first of two values counts.
            if std::mem::replace(&mut met.moment, self.moment) == self.moment {
                continue;
            }
            if met.day != day {
                met.day = day;
                db.prepare_cached("UPDATE series SET seen = ?2 WHERE id = ?1")?.execute([met.id, day])?;
            }
            if whole || met.value.to_bits() != sample.value.to_bits() {
                met.value = sample.value;
                changed.push((met.id, sample.value));
            }
        }
        self.order.truncate(moment.samples.len());
        for met in self.met.iter_mut().filter(|met| met.moment != self.moment && !met.value.is_nan()) {
            met.value = f64::NAN;
            if !whole {
                changed.push((met.id, f64::NAN));
            }
        }
        Ok((whole, changed))
    }

    /// Forgets series that are gone, so that those of a day ago need no memory. After that the next row has everything.
    pub fn tidy(&mut self) {
        let gone = self.met.iter().filter(|met| met.value.is_nan()).count();
        if gone > self.met.len() / 2 {
            self.forget();
        }
        self.begin();
    }

    fn place(&mut self, db: &Connection, at: usize, series: &Series, day: i64) -> rusqlite::Result<usize> {
        if let Some((same, place)) = self.order.get(at)
            && same == series
        {
            return Ok(*place);
        }
        let place = match self.places.get(series) {
            Some(place) => *place,
            None => {
                let id = id_of(db, series, day)?;
                self.met.push(Met { id, value: f64::NAN, moment: 0, day });
                self.places.insert(series.clone(), self.met.len() - 1);
                self.met.len() - 1
            }
        };
        let entry = (series.clone(), place);
        if at < self.order.len() {
            self.order[at] = entry;
        } else if at == self.order.len() {
            self.order.push(entry);
        }
        Ok(place)
    }
}

/// The number of a series; a new one gets one.
fn id_of(db: &Connection, series: &Series, day: i64) -> rusqlite::Result<i64> {
    let metric = name_id(db, series.metric().name)?;
    let (part, labels) = (part_name(series.part), labels_json(series));
    let known = db
        .prepare_cached("SELECT id FROM series WHERE metric = ?1 AND labels = ?2 AND part = ?3")?
        .query_row(params![metric, labels, part], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    let pattern = name_id(db, series.label("pattern").unwrap_or_default())?;
    db.prepare_cached("INSERT INTO series(metric, pattern, part, labels, seen) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .insert(params![metric, pattern, part, labels, day])
}

fn name_id(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    let known =
        db.prepare_cached("SELECT id FROM names WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()?;
    match known {
        Some(id) => Ok(id),
        None => db.prepare_cached("INSERT INTO names(name) VALUES (?1)")?.insert([name]),
    }
}

pub fn part_name(part: Part) -> &'static str {
    match part {
        Part::Value => "value",
        Part::Bucket => "bucket",
        Part::Sum => "sum",
        Part::Count => "count",
    }
}

fn labels_json(series: &Series) -> String {
    let bucket = (series.part == Part::Bucket).then_some("le");
    let names = series.metric().labels.iter().copied().chain(bucket);
    let pairs = names.zip(&series.labels).map(|(name, value)| (name.to_string(), Value::from(&**value)));
    Value::Object(pairs.collect::<Map<_, _>>()).to_string()
}

/// A series as the file names it; `None` if this version does not know such a metric.
pub fn series_of(metric: MetricId, part: &str, labels: &str) -> Option<Series> {
    let part =
        [Part::Value, Part::Bucket, Part::Sum, Part::Count].into_iter().find(|known| part_name(*known) == part)?;
    let named: Map<String, Value> = serde_json::from_str(labels).ok()?;
    let bucket = (part == Part::Bucket).then_some("le");
    let names = METRICS[usize::from(metric.0)].labels.iter().copied().chain(bucket);
    // A label that the metric did not have when it was written is empty, as in Prometheus.
    let value = |name: &str| named.get(name).and_then(Value::as_str).unwrap_or_default().into();
    Some(Series { metric, part, labels: names.map(value).collect() })
}

/// Drops the names of series that nothing refers to any more: those not seen since long before the oldest moment.
pub fn drop_unused(db: &Connection, oldest: Time) -> rusqlite::Result<()> {
    db.execute("DELETE FROM series WHERE seen < ?1", [oldest.0.saturating_sub(2 * DAY_MS)])?;
    db.execute("DELETE FROM names WHERE id NOT IN (SELECT metric FROM series UNION SELECT pattern FROM series)", [])?;
    Ok(())
}
