//! A rule as it is against a candidate, over one history.

use std::time::Duration;

use super::spans::Spans;
use super::{Calibration, Coverage, Labelled, Logged, Marks, Name, Profile, Scraped, Suggestion};
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
    /// Which of them were told when they fired.
    pub logged: Logged,
    /// Why it can't be told what rarer readings would miss.
    pub unscraped: Option<String>,
    /// Why it says little that it does not fire.
    pub warning: Option<String>,
}

/// One condition, tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Tried {
    pub condition: Condition,
    pub outcome: Outcome,
    /// What fires, by alert.
    fired: Spans,
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
    pub fn new(mut subject: Subject) -> Trial {
        let every = |every: &Duration| {
            let step = every.as_millis() / subject.tracks.grid.interval().as_millis();
            (subject.unscraped.is_none() && step > 1).then(|| subject.tracks.every(step as u32))
        };
        let mut scraped: Vec<Tracks> = SCRAPES.iter().filter_map(every).collect();
        let condition = subject.condition;
        prepare(&mut subject, &mut scraped, condition);
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
            false => {
                prepare(&mut self.subject, &mut self.scraped, condition);
                tried(&self.subject, &self.scraped, condition)
            }
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
            tried.marks = self.subject.labels.marks(&tried.fired);
        }
        self.suggest();
    }

    /// The value of an episode that is farthest beyond the threshold.
    pub fn peak(&self, episode: &Episode) -> f64 {
        self.subject.tracks.peak(episode, self.subject.condition.compare)
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
        let (current, candidate) = (&self.current, &self.candidate);
        let near = Spans::of(candidate.outcome.episodes.iter().filter(|episode| episode.kind != Kind::Fired));
        let (mut fires_then, mut nearly, mut fires_now) =
            (candidate.fired.forward(), near.forward(), current.fired.forward());
        let mut name = self.subject.logged.names();
        let mut listed = |episode: &Episode, is_lost: bool| Listed {
            name: name(episode),
            episode: *episode,
            fires_now: fires_now(episode),
            fires_then: episode.kind == Kind::Fired && !is_lost,
            verdict: self.subject.labels.of(episode).and_then(|label| label.verdict),
        };
        let lost = current.outcome.fired().filter(|_| self.is_changed());
        let mut lost = lost.filter(|episode| !fires_then(episode) && !nearly(episode)).peekable();
        let mut all = Vec::with_capacity(candidate.outcome.episodes.len());
        // Both are in the order of time.
        let order = |episode: &Episode| (episode.from, episode.track);
        for episode in &candidate.outcome.episodes {
            while let Some(lost) = lost.next_if(|lost| order(lost) < order(episode)) {
                all.push(listed(lost, true));
            }
            all.push(listed(episode, false));
        }
        all.extend(lost.map(|lost| listed(lost, true)));
        all
    }
}

/// One row of the list of episodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Listed {
    pub name: Name,
    pub episode: Episode,
    /// The rule as it is fires in that time.
    pub fires_now: bool,
    /// The candidate does.
    pub fires_then: bool,
    pub verdict: Option<Verdict>,
}

/// Makes the next trials with that `for` fast.
fn prepare(subject: &mut Subject, scraped: &mut [Tracks], condition: Condition) {
    subject.tracks.prepare(condition);
    scraped.iter_mut().for_each(|rarer| rarer.prepare(condition));
}

fn tried(subject: &Subject, scraped: &[Tracks], condition: Condition) -> Tried {
    let outcome = subject.tracks.replay(condition);
    let hours = subject.coverage.recorded.as_secs_f64() / 3_600.0;
    let an_hour = if hours > 0.0 { outcome.firings as f64 / hours } else { 0.0 };
    let fired = Spans::of(outcome.fired());
    let scraped = scraped.iter().map(|rarer| Scraped::of(rarer, condition, &outcome, &fired)).collect();
    let marks = subject.labels.marks(&fired);
    Tried { condition, marks, scraped, an_hour, outcome, fired }
}
