//! `lockscope tune`: would a rule have fired? Replays it over a recorded history, as it is and as it could be.

mod own;

use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;

use crate::actions::audit;
use crate::alerts::{Condition, Rule, Rules};
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::nearest;
use crate::base::talk;
use crate::base::text::visible;
use crate::base::time::Time;
use crate::daemon::SECOND;
use crate::output::TextStyle;
use crate::output::tune;
use crate::settings::cli::{Global, Labelling, Tune};
use crate::settings::{Settings, Talk};
use crate::store::{History, Label};
use crate::tune::{Asked, Change, Trial, load};

pub async fn run(global: &Global, options: &Tune) -> Result<u8, Fault> {
    match (&options.prometheus, &options.store) {
        (Some(url), _) => own::run(global, options, url).await,
        (None, Some(store)) => recorded(global, options, store),
        (None, None) => Err(Fault::usage("a history is needed: --store FILE or --prometheus URL")),
    }
}

fn recorded(global: &Global, options: &Tune, store: &Path) -> Result<u8, Fault> {
    let settings = Settings::load(global)?;
    let rules = settings.rules_of(options.rules.as_deref())?;
    rules.check_windows(SECOND)?;
    let wanted = wanted(&rules, options)?;
    let history = History::open(store)?;
    if !global.urls.is_empty() || global.target.is_some() {
        history.check_target(&settings.target_label()?)?;
    }
    let now = Clock::start().now();
    let asked = Asked { from: options.from.map(|when| when.at(now)), to: options.to.map(|when| when.at(now)) };
    let mut progress = Progress::new(settings.talk);
    let mut trials = Vec::new();
    for (rule, condition) in wanted {
        let subject = load(&history, &rule, asked, |done, of| progress.show(&rule.name, done, of))?;
        let mut trial = Trial::new(subject);
        trial.set(condition);
        if trial.is_changed() {
            trial.suggest();
        }
        trials.push(trial);
    }
    progress.clear();
    if let [trial] = &mut trials[..] {
        for labelling in &options.labels {
            label(&history, trial, labelling, now)?;
        }
    }
    let style = TextStyle::of_stdout(settings.color, settings.ascii);
    let source = visible(store.as_os_str().as_encoded_bytes());
    super::print(|out| match (&trials[..], options.json, &options.rule) {
        (trials, true, rule) => tune::json::write(out, &source, trials, rule.is_some()),
        ([trial], false, Some(_)) => tune::write(out, trial, &style),
        (trials, false, _) => tune::write_all(out, trials, &style),
    })
}

/// The rules that are replayed, each with the condition that is tried.
fn wanted(rules: &Rules, options: &Tune) -> Result<Vec<(Rule, Condition)>, Fault> {
    let all: Vec<Rule> = rules.iter().flat_map(|rule| [Some(rule.clone()), rule.companion()]).flatten().collect();
    if all.is_empty() {
        return Err(Fault::usage("no rules apply: the config or --rules leaves all of them out"));
    }
    let Some(name) = &options.rule else {
        return Ok(all.into_iter().map(|rule| (Condition::from(&rule), rule)).map(|(c, rule)| (rule, c)).collect());
    };
    let Some(rule) = all.iter().find(|rule| rule.name == *name) else {
        let hint = nearest::hint(name, all.iter().map(|rule| rule.name.as_str()));
        let names = if hint.is_empty() { "; without --rule all of them are listed" } else { &hint };
        return Err(Fault::usage(format!("there is no rule {name:?}{names}")));
    };
    let read = |text: &String| Change::parse(text);
    let changes = options.set.iter().map(read).collect::<Result<Vec<_>, String>>();
    let condition = changes.and_then(|changes| Change::all(&changes, rule));
    let condition = condition.map_err(|why| Fault::usage(format!("--set: {why}")))?;
    Ok(vec![(rule.clone(), condition)])
}

/// Labels an episode of the list.
fn label(history: &History, trial: &mut Trial, labelling: &Labelling, now: Time) -> Result<(), Fault> {
    let episodes = trial.episodes();
    let Some(listed) = episodes.iter().find(|listed| listed.name.to_string() == labelling.name) else {
        let names: Vec<String> = episodes.iter().rev().take(5).rev().map(|listed| listed.name.to_string()).collect();
        let has = match names.is_empty() {
            true => "the list is empty".to_string(),
            false => format!("the list ends with {}", names.join(", ")),
        };
        return Err(Fault::usage(format!("--label: there is no episode {}; {has}", labelling.name)));
    };
    let label = trial.labelled(&listed.episode, labelling.verdict);
    history.judge(&Label { by: audit::user(), at: now, ..label })?;
    trial.relabel(history.labels(&trial.subject.rule)?);
    Ok(())
}

/// A line on stderr, only on a terminal and only if it takes long.
struct Progress {
    enabled: bool,
    began: Instant,
    shown: bool,
}

impl Progress {
    fn new(talk: Talk) -> Progress {
        let enabled = talk > Talk::Quiet && std::io::stderr().is_terminal();
        Progress { enabled, began: Instant::now(), shown: false }
    }

    fn show(&mut self, rule: &str, done: usize, of: usize) {
        if self.enabled && self.began.elapsed().as_millis() >= 700 {
            self.shown = true;
            talk::progress(&format!("reading the history of {rule}: {}%", done * 100 / of.max(1)));
        }
    }

    fn clear(&self) {
        if self.shown {
            talk::progress("");
        }
    }
}
