//! A rule as it is against a candidate, over one history.

use std::time::Duration;

use super::spans::Spans;
use super::{Calibration, Coverage, Labelled, Marks, Profile, Suggestion};
use crate::alerts::Condition;
use crate::alerts::replay::{Episode, Kind, Outcome, Tracks};
use crate::store::{Label, Verdict};

/// How often a Prometheus usually reads; what that would miss is told.
const SCRAPES: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(60)];
/// More firings an hour than this, and nobody reads them.
const NOISY: f64 = 1.0;

/// A rule with its history: all that a replay needs.
#[derive(Clone, Debug)]
pub struct Subject {
    pub rule: String,
    /// `page`, `ticket` or `info`; whatever else a foreign rule says.
    pub severity: String,
    /// What is compared, for people.
    pub expression: String,
    /// The metric, if it is one of ours: it tells how numbers are shown.
    pub metric: String,
    /// The rule as it is.
    pub condition: Condition,
    /// Why its threshold can't be tuned.
    pub fixed: Option<String>,
    pub tracks: Tracks,
    pub coverage: Coverage,
    /// Whether the replay gives what another evaluator recorded, where there is one.
    pub calibration: Option<Calibration>,
    /// What people said of its episodes.
    pub labels: Labelled,
    /// Why it can't be told what rarer readings would miss.
    pub unscraped: Option<String>,
    /// Why it says little that it does not fire.
    pub warning: Option<String>,
}

/// What rarer readings would have seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Scraped {
    pub every: Duration,
    pub firings: u64,
    /// The firings that it would have missed.
    pub missed: Vec<Episode>,
}

/// One condition, tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Tried {
    pub condition: Condition,
    pub outcome: Outcome,
    pub marks: Marks,
    pub scraped: Vec<Scraped>,
    /// Firings an hour of what was recorded.
    pub an_hour: f64,
}

impl Tried {
    pub fn is_noisy(&self) -> bool {
        self.an_hour > NOISY
    }
}

#[derive(Clone, Debug)]
pub struct Trial {
    pub subject: Subject,
    /// The same with rarer readings.
    scraped: Vec<Tracks>,
    pub current: Tried,
    pub candidate: Tried,
    pub suggestion: Result<Suggestion, String>,
    pub profile: Profile,
}

impl Trial {
    pub fn new(subject: Subject) -> Trial {
        let every = |every: &Duration| {
            let step = every.as_millis() / subject.tracks.grid.interval().as_millis();
            (subject.unscraped.is_none() && step > 1).then(|| subject.tracks.every(step as u32))
        };
        let scraped: Vec<Tracks> = SCRAPES.iter().filter_map(every).collect();
        let current = tried(&subject, &scraped, subject.condition);
        let suggestion = Suggestion::of(&subject, subject.condition);
        let profile = Profile::of(&subject.tracks);
        Trial { candidate: current.clone(), current, scraped, subject, suggestion, profile }
    }

    /// Tries another condition.
    pub fn set(&mut self, condition: Condition) {
        if condition == self.candidate.condition {
            return;
        }
        self.candidate = match condition == self.current.condition {
            true => self.current.clone(),
            false => tried(&self.subject, &self.scraped, condition),
        };
    }

    /// The candidate is the rule from now on.
    pub fn adopt(&mut self) {
        self.subject.condition = self.candidate.condition;
        self.current = self.candidate.clone();
    }

    /// Suggests for the candidate's `for`.
    pub fn suggest(&mut self) {
        self.suggestion = Suggestion::of(&self.subject, self.candidate.condition);
    }

    /// The labels were changed.
    pub fn relabel(&mut self, labels: Vec<Label>) {
        self.subject.labels = Labelled::new(labels, &self.subject.tracks.tracks);
        for tried in [&mut self.current, &mut self.candidate] {
            tried.marks = self.subject.labels.marks(&Spans::of(tried.outcome.fired()));
        }
        self.suggest();
    }

    /// A label of an episode, by nobody yet.
    pub fn labelled(&self, episode: &Episode, verdict: Option<Verdict>) -> Label {
        Label {
            rule: self.subject.rule.clone(),
            labels: self.subject.tracks.tracks[episode.track].labels.clone(),
            from: episode.from,
            to: episode.to,
            verdict,
            note: String::new(),
            by: String::new(),
            at: episode.to,
        }
    }

    pub fn is_changed(&self) -> bool {
        self.candidate.condition != self.current.condition
    }

    /// Episodes of the candidate, and those firings of the rule as it is that the candidate has not; oldest first.
    pub fn episodes(&self) -> Vec<Listed> {
        let (current, candidate) = (&self.current.outcome, &self.candidate.outcome);
        let (now, then) = (Spans::of(current.fired()), Spans::of(candidate.fired()));
        let listed = |episode: &Episode| Listed {
            episode: *episode,
            fires_now: now.has(episode),
            fires_then: then.has(episode),
            verdict: self.subject.labels.of(episode).and_then(|label| label.verdict),
        };
        let near = Spans::of(candidate.episodes.iter().filter(|episode| episode.kind != Kind::Fired));
        let lost = current.fired().filter(|episode| !then.has(episode) && !near.has(episode));
        let mut all: Vec<Listed> = candidate.episodes.iter().chain(lost).map(listed).collect();
        all.sort_by_key(|listed| (listed.episode.from, listed.episode.track));
        all
    }
}

/// One row of the list of episodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Listed {
    pub episode: Episode,
    /// The rule as it is fires in that time.
    pub fires_now: bool,
    /// The candidate does.
    pub fires_then: bool,
    pub verdict: Option<Verdict>,
}

fn tried(subject: &Subject, scraped: &[Tracks], condition: Condition) -> Tried {
    let outcome = subject.tracks.replay(condition);
    let hours = subject.coverage.recorded.as_secs_f64() / 3_600.0;
    let an_hour = if hours > 0.0 { outcome.firings as f64 / hours } else { 0.0 };
    let scraped = scraped.iter().map(|tracks| {
        let rarer = tracks.firings(condition);
        let seen = Spans::of(rarer.iter());
        let missed = outcome.fired().filter(|episode| !seen.has(episode)).copied().collect();
        Scraped { every: tracks.grid.interval(), firings: rarer.len() as u64, missed }
    });
    let scraped = scraped.collect();
    let marks = subject.labels.marks(&Spans::of(outcome.fired()));
    Tried { condition, marks, scraped, an_hour, outcome }
}
