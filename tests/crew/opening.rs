//! Openings of lockscope beside a crew: a fresh engine as the console has it, or the program's `ls` and `show`, and
//! everything that it says of every lock.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use lockscope::dialects::{Mapping, Recogniser};
use lockscope::engine::{Engine, Options};
use lockscope::sources::pace::Pace;
use serde_json::Value;

use super::book::Window;
use super::dice::Dice;
use crate::common::engine::{endpoint_at, start};
use crate::common::judged::{DUTY, view};
use crate::common::{lockscope_process, process};
use crate::models::subjects::ALL;

/// How late lockscope may hear of something, on a busy machine.
const SLACK: Duration = Duration::from_millis(1_500);
/// How often an engine is looked at, and how often what it goes on saying is written down again.
const LOOK: Duration = Duration::from_millis(400);
const AGAIN: Duration = Duration::from_secs(2);
/// How long it may take to walk the keyspace.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub enum How {
    /// As the console does: it goes on watching.
    Watch {
        time: Duration,
        monitor: bool,
    },
    Ls {
        observe: Option<Duration>,
    },
    Show {
        key: String,
    },
}

/// One opening, planned.
#[derive(Clone, Debug)]
pub struct Opening {
    pub number: usize,
    /// After the crew began.
    pub at: Duration,
    pub how: How,
    /// The user says of which library the locks are that can't be told by themselves.
    pub told: bool,
}

/// What was said of a lock: a state or a finding.
#[derive(Clone, Debug)]
pub struct Said {
    pub opening: usize,
    pub key: Vec<u8>,
    pub word: String,
    pub confidence: f64,
    pub sentence: String,
    pub window: Window,
    /// In the first answer, not while watching.
    pub first: bool,
}

/// So many openings at random moments of this time.
pub fn plan(count: usize, time: Duration, longest: Duration, dice: &mut Dice) -> Vec<Opening> {
    let (shortest, longest) = (2.0, longest.as_secs_f64());
    let mut all: Vec<Opening> = (0..count)
        .map(|number| {
            let how = match dice.below(10) {
                0..=5 => How::Watch { time: dice.seconds(shortest, longest), monitor: dice.chance(0.6) },
                6 | 7 => How::Ls { observe: None },
                8 => How::Ls { observe: Some(dice.seconds(shortest, longest / 2.0)) },
                _ => How::Show { key: shown(dice) },
            };
            Opening { number, at: dice.seconds(0.0, time.as_secs_f64()), how, told: dice.chance(0.5) }
        })
        .collect();
    all.sort_by_key(|opening| opening.at);
    all
}

/// A lock whose name is text.
fn shown(dice: &mut Dice) -> String {
    let names =
        ["orders-lock:17", "catalogue-lock", "stock-lock", "lock:report", "invoice-lock:4711", "accounting-lock"];
    names[dice.below(names.len())].into()
}

/// What a user says with `--dialect`, of the locks of the crew that need it.
fn mappings() -> Vec<String> {
    let told = ALL.iter().filter(|subject| subject.told && !subject.name.contains("npm"));
    let key = |name: &str| match name {
        "redisson semaphore" => "uploads-semaphore",
        "RedLock.net" => "redlock:the-thing",
        "spring" => "order-service:payment-lock-9",
        "redlock-rb" => "resource_lock_key",
        "stackexchange" => "pricing-lock",
        other => panic!("{other} has a key that is not known here"),
    };
    told.map(|subject| format!("{}={}", subject.dialect, key(subject.name))).collect()
}

impl Opening {
    /// Runs it, and returns all that was said.
    pub fn run(&self, url: &str) -> Vec<Said> {
        match &self.how {
            How::Watch { time, monitor } => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(self.watch(url, *time, *monitor))
            }
            How::Ls { observe } => {
                let observe = observe.map(|time| format!("{}ms", time.as_millis()));
                let mut arguments = vec!["ls", "--json"];
                arguments.extend(observe.iter().flat_map(|time| ["--observe", time]));
                self.ask(url, &arguments)
            }
            How::Show { key } => self.ask(url, &["show", key, "--json"]),
        }
    }

    async fn watch(&self, url: &str, time: Duration, monitor: bool) -> Vec<Said> {
        let mappings = self.told.then(mappings).into_iter().flatten();
        let mappings = mappings.map(|text| Mapping::parse(&text).expect("a mapping")).collect();
        let recogniser = Recogniser::new(Vec::new(), Vec::new(), mappings);
        let began = Instant::now();
        let (mut engine, _) = start(&endpoint_at(url), Options::following(recogniser, Pace::POLITE)).await;
        if monitor {
            engine.sample_by(Some(DUTY));
        }
        while !engine.has_inventory() {
            assert!(began.elapsed() < PATIENCE, "no inventory");
            engine.next().await;
        }
        let mut fence = Fence::new(url, self.number);
        fence.pass(&mut engine).await;
        let mut notes = Notes { opening: self.number, lately: BTreeMap::new(), said: Vec::new(), first: true };
        notes.look(&engine);
        notes.first = false;
        let end = Instant::now() + time;
        while Instant::now() < end {
            engine.run_for(LOOK).await;
            fence.pass(&mut engine).await;
            notes.look(&engine);
        }
        notes.said
    }

    /// Asks the program, whose answer is a document.
    fn ask(&self, url: &str, arguments: &[&str]) -> Vec<Said> {
        let began = Instant::now();
        let mut command = lockscope_process(&process::scratch(&format!("opening-{}", self.number)));
        command.args(arguments).args(["-u", url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.told {
            mappings().iter().for_each(|mapping| {
                command.args(["--dialect", mapping]);
            });
        }
        let output = command.spawn().and_then(|child| child.wait_with_output()).expect("lockscope runs");
        let document: Value = match serde_json::from_slice(&output.stdout) {
            Ok(document) => document,
            // It was free at this moment.
            Err(_) if matches!(self.how, How::Show { .. }) => return Vec::new(),
            Err(why) => panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)),
        };
        let window = Window { from: began - SLACK, to: Instant::now() + SLACK };
        let one = std::slice::from_ref(&document);
        let locks = document["locks"].as_array().map_or(one, Vec::as_slice);
        let said = locks.iter().flat_map(|lock| self.of_document(lock, window));
        said.filter(|one| !one.key.starts_with(FENCE.as_bytes())).collect()
    }

    fn of_document(&self, lock: &Value, window: Window) -> Vec<Said> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        let key = lock["key_base64"].as_str().map_or_else(|| text(&lock["key"]).into_bytes(), decode);
        let said = |word: &Value, confidence: &Value, sentence: String| Said {
            opening: self.number,
            key: key.clone(),
            word: text(word),
            confidence: confidence.as_f64().unwrap_or_else(|| panic!("how sure is it? {lock}")),
            sentence,
            window,
            first: true,
        };
        let evidence = lock["evidence"].as_array().into_iter().flatten().map(&text).collect::<Vec<_>>().join("; ");
        let state = said(&lock["state"], &lock["confidence"], evidence);
        let findings = lock["findings"].as_array().into_iter().flatten();
        let findings = findings.map(|one| said(&one["name"], &one["confidence"], text(&one["sentence"])));
        std::iter::once(state).chain(findings).collect()
    }
}

/// A lock that is not the crew's: when an engine has seen its new holder, it has heard of everything before. On a busy
/// machine it may lag behind, which is not what is tried here.
struct Fence {
    key: String,
    passed: u64,
    client: redis::Connection,
}

const FENCE: &str = "fence-lock:";

impl Fence {
    fn new(url: &str, number: usize) -> Fence {
        let client = redis::Client::open(url).and_then(|client| client.get_connection()).expect("the test's server");
        Fence { key: format!("{FENCE}{number}"), passed: 0, client }
    }

    async fn pass(&mut self, engine: &mut Engine) {
        self.passed += 1;
        let token = format!("fence-{}", self.passed);
        redis::cmd("SET").arg(&self.key).arg(&token).arg("PX").arg(600_000).exec(&mut self.client).expect("a server");
        let began = Instant::now();
        let is_there = |engine: &Engine| {
            view(engine, &self.key)
                .is_some_and(|lock| lock.holders.iter().any(|one| one.token.as_bytes() == token.as_bytes()))
        };
        while !is_there(engine) {
            assert!(began.elapsed() < PATIENCE, "the engine hears nothing");
            engine.next().await;
        }
    }
}

/// What one engine says: each word when it comes up, and again every now and then.
struct Notes {
    opening: usize,
    lately: BTreeMap<(Vec<u8>, &'static str), (u32, Instant)>,
    said: Vec<Said>,
    first: bool,
}

impl Notes {
    fn look(&mut self, engine: &Engine) {
        let now = Instant::now();
        let mut current = BTreeMap::new();
        for lock in engine.snapshot().locks {
            let key = lock.key.as_bytes().to_vec();
            if key.starts_with(FENCE.as_bytes()) {
                continue;
            }
            let verdict = (lock.verdict.state.name(), lock.verdict.confidence, lock.verdict.evidence.join("; "));
            let findings = lock.findings.iter().map(|one| (one.name, one.confidence, one.sentence.clone()));
            for (word, confidence, sentence) in std::iter::once(verdict).chain(findings) {
                let sure = (confidence * 100.0) as u32;
                let before = self.lately.get(&(key.clone(), word)).copied();
                let noted = before.filter(|(then, at)| *then == sure && now - *at < AGAIN);
                current.insert((key.clone(), word), noted.unwrap_or((sure, now)));
                if noted.is_none() {
                    let window = Window { from: now - SLACK, to: now + SLACK };
                    let (key, word, first) = (key.clone(), word.to_string(), self.first);
                    let confidence = f64::from(confidence);
                    self.said.push(Said { opening: self.opening, key, word, confidence, sentence, window, first });
                }
            }
        }
        self.lately = current;
    }
}
