//! Cuts the newest episode of each rule out of a history, as a Prometheus would have scraped it.
//!
//! The history is searched in parts, newest first, so that months of it fit into memory. Times are then moved to begin at zero.

use std::time::Duration;

use crate::alerts::{AlertChange, AlertState, Excerpt, Point, Rule, Rules, Watched};
use crate::base::fault::Fault;
use crate::base::text::visible;
use crate::base::time::Time;
use crate::daemon::LOOKBACK;
use crate::metrics::{MetricId, Series};
use crate::store::History;

/// What is searched at once.
const PART: Duration = Duration::from_secs(6 * 3_600);
/// The longest cut: of a longer alert there is only the beginning.
const LONGEST: Duration = Duration::from_secs(2 * 3_600);

/// The newest episode of every rule, and the rules that have none, with the reason.
pub type Cut = (Vec<Excerpt>, Vec<(String, String)>);

pub fn episodes(history: &History, rules: &Rules, interval: Duration) -> Result<Cut, Fault> {
    let summary = history.summary()?;
    let (Some(oldest), Some(newest)) = (summary.oldest, summary.newest) else { return Ok((Vec::new(), Vec::new())) };
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for rule in rules.iter().flat_map(|rule| [Some(rule.clone()), rule.companion()]).flatten() {
        let search = Search { history, offset: offset(&rule, interval), lead: lead(&rule, interval), interval, rule };
        match search.newest(oldest, newest)? {
            Ok(episode) => found.push(episode),
            Err(why) => silent.push((visible(search.rule.name.as_bytes()), why)),
        }
    }
    Ok((found, silent))
}

struct Search<'a> {
    history: &'a History,
    rule: Rule,
    interval: Duration,
    /// How long after an evaluation it is scraped.
    offset: Duration,
    /// How long before an alert its cut begins.
    lead: Duration,
}

impl Search<'_> {
    fn newest(&self, oldest: Time, newest: Time) -> Result<Result<Excerpt, String>, Fault> {
        let mut to = newest;
        while to > oldest {
            let from = (to - PART).max(oldest);
            let changes = self.changes((from - self.lead - self.rule.hold_for).max(oldest), to)?;
            let fired = changes.iter().rfind(|change| change.alert.state == AlertState::Firing && change.at > from);
            if let Some(fired) = fired {
                return self.cut(fired, newest);
            }
            to = from;
        }
        Ok(Err(format!("it did not fire in what a Prometheus sees that asks every {}s", self.interval.as_secs())))
    }

    /// What the rule does on the grid in that time.
    fn changes(&self, from: Time, to: Time) -> Result<Vec<AlertChange>, Fault> {
        let (mut watched, from) = (self.watched(), self.on_grid(from));
        for (series, points) in self.scraped(&watched, &|_| true, from, to)? {
            watched.add(&series, &points);
        }
        let mut changes = Vec::new();
        let steps = to.since(from).as_millis() / self.interval.as_millis();
        let times = (0..=steps as u32).map(|step| from + self.interval * step);
        watched.replay(times, |change| changes.push(change));
        changes.sort_by_key(|change| change.at);
        Ok(changes)
    }

    fn watched(&self) -> Watched {
        Watched::new(self.rule.clone(), LOOKBACK, Default::default())
    }

    fn on_grid(&self, at: Time) -> Time {
        let step = self.interval.as_millis() as i64;
        Time(at.0.div_euclid(step) * step)
    }

    fn scraped(
        &self,
        watched: &Watched,
        wanted: &dyn Fn(&Series) -> bool,
        from: Time,
        to: Time,
    ) -> Result<Vec<(Series, Vec<Point>)>, Fault> {
        let mut metrics: Vec<MetricId> = watched.metrics().collect();
        metrics.sort();
        metrics.dedup();
        let mut all = Vec::new();
        for metric in metrics {
            all.extend(self.history.scraped(metric, wanted, (from + self.offset, to), self.interval)?);
        }
        Ok(all)
    }

    /// The time around an alert: from its lead to two steps after its end.
    fn cut(&self, fired: &AlertChange, newest: Time) -> Result<Result<Excerpt, String>, Fault> {
        let alert = &fired.alert;
        let begin = self.on_grid(alert.active_at - self.lead);
        let most = (fired.at + LONGEST).min(newest);
        let of_alert = |change: &&AlertChange| change.alert.labels == alert.labels && change.at > fired.at;
        let changes = self.changes(begin, most)?;
        let over = changes.iter().filter(of_alert).find(|change| change.alert.state == AlertState::Inactive);
        let end = over.map_or(most, |over| over.at) + self.interval * 2;
        let ours = |series: &Series| {
            alert.labels.iter().all(|(name, value)| series.label(name).is_none_or(|label| label == value))
        };
        let mut watched = self.watched();
        let mut series = self.scraped(&watched, &ours, begin, end)?;
        series.retain(|(series, points)| watched.add(series, points));
        for (series, points) in &mut series {
            points.iter_mut().for_each(|point| *point = moved(*point, series.metric, begin));
        }
        let labels = alert.labels.values().map(|value| visible(value.as_bytes())).collect::<Vec<_>>().join(", ");
        let name = format!("{} at {} ({labels})", self.rule.name, fired.at.rfc3339());
        let episode = Excerpt { rule: self.rule.clone(), name, series, length: end.since(begin) };
        Ok(match episode.fires_at(self.interval) {
            true => Ok(episode),
            false => Err("what made it fire began long before".into()),
        })
    }
}

/// The point with its time, and the time that it tells, counted from `begin`.
fn moved(point: Point, metric: MetricId, begin: Time) -> Point {
    let at = Time(point.at.0 - begin.0);
    match metric.is_time() && !point.is_stale() {
        true => Point::new(at, ((point.value * 1_000.0).round() - begin.0 as f64) / 1_000.0),
        false => Point { at, ..point },
    }
}

/// How far the rule looks back.
fn reaches(rule: &Rule) -> impl Iterator<Item = Duration> {
    let kept = match rule.no_data {
        crate::alerts::NoData::Keep(longest) => Some(longest),
        _ => None,
    };
    [Some(LOOKBACK), rule.window, kept].into_iter().flatten()
}

fn lead(rule: &Rule, interval: Duration) -> Duration {
    reaches(rule).max().unwrap_or_default() + interval
}

/// Half of the interval or near it, so that no reading ever lies on the border of what the rule looks back to: there the
/// versions of Prometheus differ.
fn offset(rule: &Rule, interval: Duration) -> Duration {
    let whole = interval.as_secs();
    let on_border = |offset: u64| {
        reaches(rule).any(|reach| (reach.as_millis() + u128::from(offset) * 1_000) % interval.as_millis() == 0)
    };
    let half = whole / 2;
    let near = (0..whole).flat_map(|away| [half.checked_sub(away), half.checked_add(away)]).flatten();
    let found = near.filter(|offset| (1..whole).contains(offset)).find(|offset| !on_border(*offset));
    Duration::from_secs(found.unwrap_or(half.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reading_lies_on_the_border_of_a_window() {
        let rule = |window: &str| {
            let text = format!(
                "default_rules = false\n[[rules]]\nname = 'N'\nmetric = 'lockscope_renewals_total'\nwindow = '{window}'\nabove = 0"
            );
            Rules::parse(&text).unwrap().iter().next().unwrap().clone()
        };
        let seconds = |window: &str, interval: u64| offset(&rule(window), Duration::from_secs(interval)).as_secs();
        assert_eq!([seconds("5m", 15), seconds("38s", 15), seconds("5m", 2), seconds("90500ms", 15)], [7, 6, 1, 7]);
    }

    #[test]
    fn a_time_that_a_value_tells_moves_with_the_times() {
        let at = Time(1_763_000_000_000);
        let point = Point::new(at + Duration::from_secs(7), 1_762_999_730.5);
        let held = moved(point, MetricId::of("lockscope_oldest_hold_timestamp_seconds"), at);
        assert_eq!((held.at, held.value), (Time(7_000), -269.5));
        assert_eq!(moved(point, MetricId::of("lockscope_waiters"), at).value, point.value);
        assert!(moved(Point::stale(at), MetricId::of("lockscope_oldest_hold_timestamp_seconds"), at).is_stale());
    }
}
