//! Series as a Prometheus would have them that scraped now and then: a reading at each scrape, and a stale marker where a
//! series was there before and is missing.

use std::time::Duration;

use super::History;
use crate::alerts::Point;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::metrics::{MetricId, Series};
use crate::store::{Column, Columns};

impl History {
    /// The series of a metric that are wanted, scraped at `from` and then each `every` up to and with `to`.
    pub fn scraped(
        &self,
        metric: MetricId,
        wanted: &dyn Fn(&Series) -> bool,
        (from, to): (Time, Time),
        every: Duration,
    ) -> Result<Vec<(Series, Vec<Point>)>, Fault> {
        // What the first scrape tells was read a little earlier.
        let columns = self.series(metric, wanted, from - COARSEST - SLACK, to)?;
        let scrapes = readings(&columns, (from, to), every);
        Ok(columns.columns.iter().map(|column| (column.series.clone(), points(column, &columns, &scrapes))).collect())
    }
}

/// The coarsest step of a store.
const COARSEST: Duration = Duration::from_secs(60);
/// How much later than its step a reading may come.
const SLACK: Duration = Duration::from_secs(2);

/// Each scrape with the index of the reading that it gets; `None` where there was none.
fn readings(columns: &Columns, (from, to): (Time, Time), every: Duration) -> Vec<(Time, Option<usize>)> {
    let step_at = |index: usize| {
        let span = columns.spans.iter().find(|span| span.range.contains(&index));
        span.map_or(Duration::ZERO, |span| span.step)
    };
    let mut scrapes = Vec::new();
    let (mut at, mut known) = (from, 0);
    while at <= to {
        while columns.times.get(known).is_some_and(|time| *time <= at) {
            known += 1;
        }
        let fresh = |index: &usize| at.since(columns.times[*index]) <= step_at(*index) + SLACK;
        let newest = known.checked_sub(1).filter(fresh);
        scrapes.push((at, newest));
        at = at + every;
    }
    scrapes
}

fn points(column: &Column, columns: &Columns, scrapes: &[(Time, Option<usize>)]) -> Vec<Point> {
    let mut stretches = column.stretches(&columns.times).peekable();
    let mut points: Vec<Point> = Vec::new();
    for (at, reading) in scrapes {
        let value = reading.and_then(|index| {
            while stretches.next_if(|(range, _)| range.end <= index).is_some() {}
            stretches.peek().filter(|(range, _)| range.contains(&index)).and_then(|(_, value)| *value)
        });
        match value {
            Some(value) => points.push(Point::new(*at, value)),
            None if points.last().is_some_and(|last| !last.is_stale()) => points.push(Point::stale(*at)),
            None => {}
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::Part;
    use crate::store::Span;

    #[test]
    fn a_scrape_gets_the_newest_reading_and_a_gap_ends_the_series() {
        // A reading each second from 0 to 29 s, and from 60 s on; the series is unknown from 20 s to 24 s.
        let times: Vec<Time> = (0..30).chain(60..90).map(|second| Time(second * 1_000 + 200)).collect();
        let series = Series {
            metric: MetricId::of("lockscope_waiters"),
            part: Part::Value,
            labels: [Arc::from("t"), Arc::from("p")].into(),
        };
        let last = vec![(0, 1.0), (12, 5.0), (20, f64::NAN), (25, 2.0)];
        let column = Column { series, last, largest: Vec::new() };
        let spans = vec![Span { range: 0..times.len(), step: Duration::from_secs(1) }];
        let columns = Columns { times: times.into(), spans, columns: vec![column], gaps: Vec::new() };
        let scrapes = readings(&columns, (Time(7_000), Time(82_000)), Duration::from_secs(15));
        let points = points(&columns.columns[0], &columns, &scrapes);
        let shown: Vec<(i64, Option<f64>)> =
            points.iter().map(|point| (point.at.0 / 1_000, (!point.is_stale()).then_some(point.value))).collect();
        assert_eq!(shown, [(7, Some(1.0)), (22, None), (67, Some(2.0)), (82, Some(2.0))]);
    }
}
