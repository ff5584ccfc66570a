//! One rule at work: its series, and one machine for each set of labels. [`Evaluator`](super::Evaluator) has one for each
//! rule; replay fills one with whole columns and steps it over the grid.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::alerts::blind::{Blind, Sight};
use crate::alerts::column::{Point, Prometheus};
use crate::alerts::doubt::Doubt;
use crate::alerts::expression::{Expression, Join, Labels, Output, join};
use crate::alerts::machine::{Change, Condition, Machine};
use crate::alerts::replay::{Grid, Pieces, Shape, Track};
use crate::alerts::status;
use crate::alerts::{Alert, AlertChange, AlertState, Rule};
use crate::base::time::Time;
use crate::metrics::{MetricId, Series};

pub struct Watched {
    rule: Rule,
    names: Vec<&'static str>,
    expression: Expression,
    join: Join,
    groups: BTreeMap<Labels, Group>,
    /// Of a rule that fires without data.
    absence: Option<Absence>,
    /// Of a rule whose alerts stay without sight.
    blind: Option<Blind>,
    /// Of a rule whose calm may be none.
    doubt: Option<Doubt>,
    /// The place of the label `target` among the names.
    target: Option<usize>,
    /// Whether any set of labels had a value at the last evaluation.
    has_value: bool,
}

/// The sets of labels that make one alert.
struct Group {
    outputs: BTreeMap<Labels, Output>,
    machine: Machine,
}

struct Absence {
    labels: BTreeMap<String, String>,
    machine: Machine,
}

impl Watched {
    pub fn new(rule: Rule, lookback: Duration, version: Prometheus) -> Watched {
        let lookback = i64::try_from(lookback.as_millis()).unwrap_or(i64::MAX);
        let expression = Expression::of(&rule, lookback, version);
        let absence = rule
            .fires_without_data()
            .then(|| Absence { labels: rule.labels_of_absence(), machine: Machine::new(Condition::from(&rule)) });
        let names = rule.labels();
        let join = join(rule.metric.metric(), rule.compare);
        let (target, blind) = (names.iter().position(|name| *name == "target"), Blind::of(&rule, lookback, version));
        let doubt = Doubt::of(rule.metric.metric(), lookback, version);
        let groups = BTreeMap::new();
        Watched { names, expression, join, groups, absence, blind, doubt, target, rule, has_value: false }
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The metrics that it reads.
    pub fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.expression.metrics().chain(self.blind.iter().flat_map(|_| Blind::metrics()))
    }

    /// The metric that says whether its calm is none; no part of what it compares.
    pub fn doubted_by(&self) -> Option<MetricId> {
        self.doubt.as_ref().map(Doubt::metric)
    }

    /// Why its calm is none, at the last evaluation.
    pub fn doubt(&self) -> Option<String> {
        self.doubt.as_ref().and_then(Doubt::why)
    }

    /// Whether it reads that series.
    pub fn reads(&self, series: &Series) -> bool {
        self.expression.takes(series).is_some() || self.blind.as_ref().is_some_and(|blind| blind.takes(series))
    }

    /// How far an evaluation looks back.
    pub fn reach(&self) -> Duration {
        self.expression.reach()
    }

    /// Points of equal value that are no further apart than this are all alike to it, but for the first and the last. Zero
    /// if every point counts.
    pub fn slack(&self, metric: MetricId) -> Duration {
        let of_blindness = self.blind.as_ref().filter(|_| Blind::metrics().contains(&metric)).map(Blind::slack);
        let own = self.expression.metrics().any(|other| other == metric).then(|| self.expression.slack(metric));
        own.into_iter().chain(of_blindness).min().unwrap_or_default()
    }

    /// What must be measured for it, and is not always.
    pub fn needs(&self) -> Option<&'static str> {
        status::needs(self.expression.metrics())
    }

    /// Whether it fires where there is nothing.
    pub fn is_of_absence(&self) -> bool {
        self.absence.is_some()
    }

    /// Adds points of a series in the order of time, if the rule reads it: whether it does.
    pub fn add(&mut self, series: &Series, points: &[Point]) -> bool {
        if let Some(doubt) = &mut self.doubt {
            doubt.add(series, &self.rule.selector, points);
        }
        let of_blindness = self.blind.as_mut().is_some_and(|blind| {
            blind.add(series, points);
            blind.takes(series)
        });
        let Some(labels) = self.expression.takes(series) else { return of_blindness };
        let group = match self.rule.by {
            None => self.groups.entry(labels.clone()),
            Some(_) => {
                let value = |name: &&str| series.label(name).map(Arc::from).unwrap_or_default();
                self.groups.entry(self.names.iter().map(value).collect())
            }
        };
        let group = group
            .or_insert_with(|| Group { outputs: BTreeMap::new(), machine: Machine::new(Condition::from(&self.rule)) });
        let output = group.outputs.entry(labels).or_insert_with(|| self.expression.output());
        self.expression.add(output, series, points);
        true
    }

    /// An alert of the rule fires since before the first evaluation. Another's changes nothing.
    pub fn resume(&mut self, alert: &Alert) {
        let condition = Condition::from(&self.rule);
        let machine =
            Machine::firing(condition, alert.active_at, alert.fired_at.unwrap_or(alert.active_at), alert.value);
        if alert.rule != self.rule.name {
            return;
        }
        if let Some(absence) = &mut self.absence {
            if absence.labels == alert.labels {
                absence.machine = machine;
            }
            return;
        }
        let values = self.names.iter().map(|name| alert.labels.get(*name).map(|value| Arc::from(value.as_str())));
        if let Some(labels) = values.collect::<Option<Labels>>().filter(|labels| labels.len() == alert.labels.len()) {
            self.groups.insert(labels, Group { outputs: BTreeMap::new(), machine });
        }
    }

    /// Forgets which alerts fire, but for some of them.
    pub fn keep_firing(&mut self, kept: &mut impl FnMut(&Alert) -> bool) {
        let (rule, names) = (&self.rule, &self.names);
        let of_groups = self.groups.iter_mut().map(|(labels, group)| (named(names, labels), &mut group.machine));
        let of_absence = self.absence.iter_mut().map(|absence| (absence.labels.clone(), &mut absence.machine));
        for (labels, machine) in of_groups.chain(of_absence) {
            let fires = machine.state() == AlertState::Firing;
            if fires && !alert(rule, machine, labels).is_some_and(|alert| kept(&alert)) {
                *machine = Machine::new(Condition::from(rule));
            }
        }
    }

    /// Ends the series that had no point at this time: they were missing there.
    pub fn end_others(&mut self, at: Time) {
        for output in self.groups.values_mut().flat_map(|group| group.outputs.values_mut()) {
            self.expression.end_others(output, at);
        }
        self.blind.iter_mut().for_each(|blind| blind.end_others(at));
        self.doubt.iter_mut().for_each(|doubt| doubt.end_others(at));
    }

    /// Forgets what no evaluation at or after `oldest` reads.
    pub fn prune(&mut self, oldest: Time) {
        self.groups.retain(|_, group| {
            group.outputs.retain(|_, output| self.expression.prune(output, oldest));
            !group.outputs.is_empty() || group.machine.state() != AlertState::Inactive
        });
        self.blind.iter_mut().for_each(|blind| blind.prune(oldest));
        self.doubt.iter_mut().for_each(|doubt| doubt.prune(oldest));
    }

    /// Forgets all points, and keeps the alerts.
    pub fn forget(&mut self) {
        self.groups.values_mut().for_each(|group| group.outputs.clear());
        self.blind.iter_mut().for_each(Blind::forget);
        self.doubt.iter_mut().for_each(Doubt::forget);
    }

    /// One evaluation; `told` gets each change of an alert.
    pub fn step(&mut self, at: Time, mut told: impl FnMut(AlertChange)) {
        self.has_value = false;
        self.doubt.iter_mut().for_each(|doubt| doubt.step(at));
        let sight = self.blind.as_mut().map(|blind| blind.at(at)).unwrap_or_default();
        for (labels, group) in &mut self.groups {
            let value = joined(group.outputs.values_mut(), &self.expression, self.join, at);
            self.has_value |= value.is_some();
            if self.absence.is_some() {
                continue;
            }
            let unseen = sight.of(self.target.map(|at| &*labels[at]));
            if let Some(change) = group.machine.step(at, value, unseen) {
                told(changed(&self.rule, at, change, group.machine.value(), named(&self.names, labels)));
            }
        }
        if let Some(Absence { labels, machine }) = &mut self.absence
            && let Some(change) = machine.step(at, (!self.has_value).then_some(1.0), None)
        {
            told(changed(&self.rule, at, change, machine.value(), labels.clone()));
        }
    }

    /// All evaluations at these times. Changes are told alert by alert: that is several times faster than time by time.
    pub fn replay(&mut self, times: impl Iterator<Item = Time> + Clone, mut told: impl FnMut(AlertChange)) {
        if self.absence.is_some() {
            times.for_each(|at| self.step(at, &mut told));
            return;
        }
        let course = self.blind.as_mut().map(|blind| blind.course(times.clone())).unwrap_or_default();
        for (labels, Group { outputs, machine }) in &mut self.groups {
            let target = self.target.map(|at| &*labels[at]);
            let mut outputs: Vec<&mut Output> = outputs.values_mut().collect();
            let mut course = course.iter().peekable();
            for (index, at) in (0..).zip(times.clone()) {
                while course.next_if(|(range, _)| range.end <= index).is_some() {}
                let unseen = course.peek().filter(|(range, _)| range.contains(&index));
                let unseen = unseen.and_then(|(_, sight)| sight.of(target));
                let value = joined(outputs.iter_mut().map(|output| &mut **output), &self.expression, self.join, at);
                if let Some(change) = machine.step(at, value, unseen) {
                    told(changed(&self.rule, at, change, machine.value(), named(&self.names, labels)));
                }
            }
        }
    }

    /// The values of its alerts on a grid, to be replayed with any condition. The points are used up.
    pub fn tracks(&mut self, grid: Grid) -> Vec<Track> {
        let shape = self.expression.shape();
        let (expression, names, join) = (&self.expression, &self.names, self.join);
        if let Some(Absence { labels, .. }) = &self.absence {
            let groups = std::mem::take(&mut self.groups).into_values();
            let mut outputs: Vec<Output> = groups.flat_map(|group| group.outputs.into_values()).collect();
            let is_there = |at| outputs.iter_mut().any(|output| expression.number(output, at).is_some());
            let numbers = grid.times().map(is_there).map(|there| (!there).then_some(1.0));
            return vec![Track::new(labels.clone(), Shape::Level, grid, numbers)];
        }
        let course = self.blind.as_mut().map(|blind| blind.course(grid.times())).unwrap_or_default();
        let target = self.target;
        let track = |(labels, group): (Labels, Group)| {
            let stays = |sight: &Sight| sight.of(target.map(|at| &*labels[at])).is_some_and(|unseen| unseen.stays);
            let unseen = course.iter().filter(|(_, sight)| stays(sight)).map(|(range, _)| range.clone());
            let mut outputs: Vec<Output> = group.outputs.into_values().collect();
            let (mut pieces, mut index) = (Pieces::default(), 0);
            while index < grid.count {
                let at = grid.at(index);
                let number = number(outputs.iter_mut(), expression, join, at);
                pieces.push(index, number.unwrap_or(f64::NAN));
                let until = outputs.iter().map(|output| output.until(at)).min();
                index = grid.at_or_after(until.unwrap_or(at)).max(index + 1);
            }
            Track::of(named(names, &labels), shape, grid, pieces).unseen(unseen)
        };
        std::mem::take(&mut self.groups).into_iter().map(track).collect()
    }

    /// The alerts that are firing or pending.
    pub fn alerts(&self) -> impl Iterator<Item = Alert> {
        let of_groups = self.groups.iter().map(|(labels, group)| (named(&self.names, labels), &group.machine));
        let of_absence = self.absence.iter().map(|absence| (absence.labels.clone(), &absence.machine));
        of_groups.chain(of_absence).filter_map(|(labels, machine)| alert(&self.rule, machine, labels))
    }

    /// How many points it keeps.
    #[cfg(test)]
    pub(super) fn points(&self) -> usize {
        self.groups.values().flat_map(|group| group.outputs.values()).map(Output::points).sum()
    }

    /// Whether any of its series has a value.
    pub fn has_value(&self) -> bool {
        self.has_value
    }

    /// Whether it has any series.
    pub fn has_series(&self) -> bool {
        self.groups.values().any(|group| !group.outputs.is_empty())
    }
}

/// The value of all these sets of labels together.
fn joined<'a>(
    outputs: impl Iterator<Item = &'a mut Output>,
    expression: &Expression,
    join: Join,
    at: Time,
) -> Option<f64> {
    number(outputs, expression, join, at).map(|number| expression.shape().at(number, at))
}

/// The same as a number of the expression's shape.
fn number<'a>(
    outputs: impl Iterator<Item = &'a mut Output>,
    expression: &Expression,
    join: Join,
    at: Time,
) -> Option<f64> {
    let join = join.for_numbers(expression.shape());
    let numbers = outputs.filter_map(|output| expression.number(output, at));
    numbers.fold(None, |so_far, number| Some(join.of(so_far, number)))
}

fn named(names: &[&str], values: &Labels) -> BTreeMap<String, String> {
    names.iter().zip(values).map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// What it is now; `None` while it is inactive.
fn alert(rule: &Rule, machine: &Machine, labels: BTreeMap<String, String>) -> Option<Alert> {
    Some(Alert {
        rule: rule.name.clone(),
        severity: rule.severity,
        state: machine.state(),
        labels,
        value: machine.value(),
        threshold: rule.compare.threshold(),
        active_at: machine.active_at()?,
        fired_at: machine.fired_at(),
        unknown_since: machine.unknown_since(),
    })
}

fn changed(rule: &Rule, at: Time, change: Change, value: Option<f64>, labels: BTreeMap<String, String>) -> AlertChange {
    let alert = Alert {
        rule: rule.name.clone(),
        severity: rule.severity,
        state: change.to,
        labels,
        value,
        threshold: rule.compare.threshold(),
        active_at: change.active_at,
        fired_at: change.fired_at,
        unknown_since: change.unknown_since,
    };
    AlertChange { at, from: change.from, alert }
}
