//! The tuner: a week of one rule is loaded and replayed, and a threshold is moved until it is drawn.
//!
//! The week is recorded by the real writer into a real file, in simulated time, and kept as by default: the last two days at
//! 1 s, what is older at 10 s. The waiters of each pattern change every half a minute on average. All of it runs in the
//! calling thread and waits for nobody: its processor time is what somebody waits on an idle machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use lockscope::alerts::Rules;
use lockscope::app::theme::Theme;
use lockscope::app::{App, Event, Past, Reply, Title};
use lockscope::base::time::Time;
use lockscope::metrics::{MetricId, Moment, Part, Sample, Series};
use lockscope::settings::keys::Keys;
use lockscope::store::{History, Keep, Recorder, Target, Ticks};
use lockscope::tune::{Asked, Trial, load};
use lockscope::views;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::console::p99;
use crate::limit::{Limit, Measured, ratio, whole};
use crate::machine::thread_time;
use crate::report::{Figure, Report};

const START: i64 = 1_763_013_600_000;
const WEEK: i64 = 7 * 86_400;
const RULE: &str = "LockManyWaiters";
/// Keys that move the threshold from 4 to 0, to 8 and back: at one end an alert fires nearly all the time, at the other never.
const ROUND: usize = 16;

pub fn measure(report: &mut Report, rounds: usize) {
    for (patterns, load_ms, move_ms, keys) in [(50, 300.0, 16.0, 40 * ROUND), (1_000, 3_000.0, 100.0, 8 * ROUND)] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("week.history");
        record(&file, patterns);
        let mut trial = None;
        let loaded = (0..rounds).map(|_| {
            let began = thread_time();
            trial = Some(loaded(&file));
            (thread_time() - began).as_secs_f64() * 1_000.0
        });
        let loaded = Measured::of(loaded.collect());
        let trial = trial.expect("at least one round");
        let (tracks, outcome) = (&trial.subject.tracks, &trial.current.outcome);
        assert_eq!(tracks.tracks.len(), patterns);
        assert!(outcome.firings > 0, "a rule that never fires shows nothing");
        report.note(format!(
            "{patterns} patterns: {} evaluations each, {} firings, {} near misses",
            tracks.grid.count, outcome.firings, outcome.near_misses
        ));
        report.add(Figure {
            name: format!("ms of CPU to load and replay a week of one rule, {patterns} patterns"),
            measured: loaded,
            limit: Limit::AtMost(load_ms),
            show: whole,
            command: "tune::load and Trial::new, from a store kept as by default".into(),
        });
        let moved = moved(trial, keys);
        let all = Measured::of(moved.clone());
        report.note(format!(
            "{patterns} patterns: a key took from {:.1} to {:.1} ms of CPU, half of them at most {:.1}",
            all.min, all.max, all.median
        ));
        report.add(Figure {
            name: format!(
                "ms of CPU from a key that moves the threshold to the new picture, {patterns} patterns: p99 of {keys} keys"
            ),
            measured: Measured::once(p99(moved)),
            limit: Limit::AtMost(move_ms),
            show: ratio,
            command: format!("{keys} keys into the app, each drawn at 140x40"),
        });
    }
}

fn loaded(file: &Path) -> Trial {
    let rules = Rules::default_rules();
    let rule = rules.named(RULE).expect("a default rule");
    let history = History::open(file).expect("a store");
    Trial::new(load(&history, rule, Asked::default(), |_, _| ()).expect("it is readable"))
}

/// How long each key takes, in milliseconds, until its frame is drawn.
fn moved(trial: Trial, keys: usize) -> Vec<f64> {
    let now = Time(START + WEEK * 1_000);
    let theme = Theme { color: true, ascii: false };
    let mut app = App::new(Title::default(), Keys::default(), theme);
    app.watch_rules(Rules::default_rules());
    let press = |app: &mut App, code| drop(app.update(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), now));
    app.update(Event::Resize(140, 40), now);
    app.update(Event::Past(Box::new(Past { store: "week.history".into(), ..Past::default() })), now);
    press(&mut app, KeyCode::Char('4'));
    while app.alerting.selected().is_some_and(|row| row.id.rule != RULE) {
        press(&mut app, KeyCode::Char('j'));
    }
    press(&mut app, KeyCode::Char('T'));
    app.update(Event::Tuned(Box::new(Reply::Loaded(RULE.into(), Ok(Box::new(trial))))), now);
    let mut terminal = Terminal::new(TestBackend::new(140, 40)).expect("a terminal in memory");
    let mut timed = Vec::new();
    for number in 0..keys {
        let code = if (ROUND / 4..ROUND * 3 / 4).contains(&(number % ROUND)) { KeyCode::Up } else { KeyCode::Down };
        let began = thread_time();
        press(&mut app, code);
        let draw = |frame: &mut ratatui::Frame<'_>| {
            views::draw(frame, &app);
        };
        terminal.draw(draw).expect("memory never fails");
        timed.push((thread_time() - began).as_secs_f64() * 1_000.0);
    }
    timed
}

/// Records the week.
fn record(file: &Path, patterns: usize) {
    let target = Target { name: "bench".into(), server: String::new() };
    let mut recorder = Recorder::open(file, &target, Keep::default()).expect("a new store");
    let metric = MetricId::named("lockscope_waiters_max").expect("a metric of the table");
    let sample = |number: usize| {
        let labels = ["bench".to_string(), format!("service{number}:lock:*")];
        let labels = labels.iter().map(|label| Arc::from(label.as_str())).collect();
        Sample { series: Series { metric, part: Part::Value, labels }, value: 0.0 }
    };
    let mut samples: Vec<Sample> = (0..patterns).map(sample).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    };
    for second in 0..WEEK {
        for sample in &mut samples {
            if below(30) == 0 {
                // Mostly few; now and then a queue.
                sample.value = if below(50) == 0 { 4.0 + below(9) as f64 } else { below(5) as f64 };
            }
        }
        let at = Time(START + second * 1_000);
        let passed = Duration::from_secs(1_000_000 + second as u64);
        recorder.moment_at(Moment { at, samples: samples.clone() }, Ticks { wall: at, awake: passed, asleep: passed });
        // A simulated second is shorter than a real one: let it be written.
        if second % 4 == 3 {
            recorder.settle();
        }
    }
    recorder.settle();
    let status = recorder.close().expect("it was written");
    assert_eq!((status.errors, status.omitted), (0, 0));
}
