//! Each file of tests/scenarios is a story: what was observed of a lock and when, and which verdicts it must or must
//! not get.
//!
//! Times are in seconds from the start of the story. A step first does something, then checks something; either may be
//! missing. [`Step`] lists what it can do. The last test fails for a finding or state without a story for it and one
//! against it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::base::glob::Glob;
use crate::base::time::*;
use crate::dialects::Recogniser;
use crate::lock::*;
use crate::model::*;
use crate::testkit::pretend::{self, Keyspace, NODE, START, assert_replays};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    /// The lock of all steps that do not name another.
    #[serde(default = "usual_key")]
    key: String,
    #[serde(default)]
    silence: Vec<String>,
    steps: Vec<Step>,
}

fn usual_key() -> String {
    "lock:job:1".into()
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Step {
    at: f64,
    key: Option<String>,

    /// A client takes it with this token, and with this TTL or none.
    take: Option<String>,
    ttl: Option<f64>,
    /// A client writes this value, with these events.
    write: Option<Written>,
    /// A client overwrites the holder.
    take_over: Option<String>,
    /// Sets this TTL again, or for the first time.
    renew: Option<f64>,
    release: bool,
    expire: bool,
    evict: bool,
    /// This many holds, one after the other, each this long, with a second in between.
    holds: Option<u32>,
    lasting: f64,
    /// Permits of a semaphore, each with the time when it ends.
    permits: Option<Vec<f64>>,
    /// Permits of a semaphore that stores when each was taken.
    grabbed: Option<Vec<f64>>,

    /// A scan meets it, without an event.
    walked: bool,
    /// By the server, nobody had used it for this many seconds when the scan met it.
    idle: Option<f64>,
    /// A snapshot ended then, the last before this.
    saved: Option<f64>,
    /// A child of the server runs.
    saving: bool,
    /// The server tells nothing of its children.
    untold: bool,

    /// The server changes, but no event is delivered yet.
    unheard: bool,
    /// The events that arrive now, by name.
    heard: Vec<String>,
    /// When the look that they cause is answered, if not at once; or not before the check of this step.
    looked: Option<f64>,
    unread: bool,
    /// We are about to write to it.
    acting: bool,
    /// A write of ours ended: `free`, `put-back`, `extend` to the `ttl`, or `nothing`.
    acted: Option<String>,
    /// When it was sent.
    sent: f64,
    /// The holder that it concerned.
    whom: String,

    waiters: Option<u32>,
    dead_heads: Option<u32>,
    tries: Option<Attempts>,
    contender: Option<Trying>,
    late: Option<Late>,
    /// A burst saw a client hold it by this token.
    seen_holding: Option<String>,
    /// A client at this address deletes it without comparing the holder.
    freed_by: Option<String>,
    /// The client that was seen to hold it then, at another address.
    freed_from: Option<String>,
    /// These threads of Redisson instances hold it, as readers if it is `shared`, with the `ttl`.
    threads: Option<Vec<String>>,
    shared: bool,
    /// These read it together, each with its own end (Symfony), with the `ttl`.
    ends: Option<BTreeMap<String, f64>>,
    /// The holder's client was seen at this address.
    client: Option<String>,
    /// The holder whose client it is, if there are several.
    by: Option<String>,
    /// Exactly these are connected: an address, then `since=` and `idle=` in seconds and `name=`.
    connected: Option<Vec<String>>,
    memory: Option<Memory>,
    /// The event stream was lost.
    gap: bool,
    /// The server was found to have been restarted.
    restarted: bool,
    /// Every change up to this time has been reported.
    heard_until: Option<f64>,

    state: Option<String>,
    /// Parts of the evidence.
    says: Vec<String>,
    findings: Vec<String>,
    /// Parts of the sentences of the findings.
    found: Vec<String>,
    /// Parts of what would settle them.
    settle: Vec<String>,
    /// Whether its holder lives.
    life: Option<String>,
    /// Parts of what says so, and of what would settle it.
    signs: Vec<String>,
    /// States and findings that must not appear; `findings` means none at all.
    not: Vec<String>,
    /// The changes since the last step that checked them, in the words of `watch`, with `!` if we made them.
    changes: Option<Vec<String>>,
    /// How long it has been held, in seconds.
    held: Option<f64>,
    /// How many hold it.
    holders: Option<usize>,
    /// What is left of it, and the lease that it was taken for, in seconds.
    left: Option<f64>,
    lease: Option<f64>,
    period: Option<f64>,
    renewals: Option<u64>,
    surer_than: Option<f32>,
    less_sure_than: Option<f32>,
}

/// One of these, and the names of the events.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Written {
    string: Option<String>,
    /// A value `+20` is the time of 20 seconds from the beginning of the story, in milliseconds.
    hash: Option<BTreeMap<String, String>>,
    /// Members with the end of each, in seconds.
    zset: Option<BTreeMap<String, f64>>,
    set: Option<Vec<String>>,
    events: Vec<String>,
}

impl Written {
    fn value(&self) -> RawValue {
        let timed = |text: &String| match text.strip_prefix('+').and_then(|seconds| seconds.parse().ok()) {
            Some(seconds) => time(seconds).0.to_string(),
            None => text.clone(),
        };
        if let Some(fields) = &self.hash {
            let fields: Vec<(&String, String)> = fields.iter().map(|(field, value)| (field, timed(value))).collect();
            return RawValue::hash(fields.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())));
        }
        if let Some(members) = &self.zset {
            return RawValue::zset(members.iter().map(|(member, end)| (member.as_bytes(), time(*end).0 as f64)));
        }
        if let Some(members) = &self.set {
            return RawValue::set(members.iter().map(|member| member.as_bytes()));
        }
        RawValue::string(self.string.as_deref().expect("a value").as_bytes())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempts {
    attempts: u64,
    failures: u64,
    seconds: f64,
    margin: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trying {
    address: String,
    since: f64,
    failures: u64,
    passed_over: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Late {
    token: String,
    address: Option<String>,
    renewal: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    policy: String,
    used: u64,
    max: u64,
}

/// The table of a story, and a pretended server.
struct Stage {
    table: Table,
    server: Keyspace,
    unheard: bool,
    /// All changes so far that a step asked for.
    transitions: Vec<Transition>,
}

fn time(seconds: f64) -> Time {
    Time(START.0 + (seconds * 1_000.0).round() as i64)
}

fn tuning(silence: &[String]) -> Tuning {
    let mut tuning = Tuning::default();
    for name in silence {
        tuning.silence(findings::names().find(|known| known == name).expect("a finding to silence"));
    }
    tuning
}

/// A line of the list of clients at that time.
fn listed(text: &str, at: Time) -> Connection {
    let mut words = text.split(' ');
    let mut listed = Connection::new(address(words.next().expect("an address")), at);
    listed.id = listed.address.as_str().rsplit(':').next().and_then(|port| port.parse().ok());
    for word in words {
        match word.split_once('=').unwrap_or_else(|| panic!("{word} says nothing")) {
            ("since", seconds) => listed.since = Some(time(seconds.parse().expect("seconds"))),
            ("idle", seconds) => listed.used = Some(at - Duration::from_secs(seconds.parse().expect("seconds"))),
            ("name", name) => listed.name = Some(name.into()),
            other => panic!("{other:?} is not known"),
        }
    }
    listed
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|| panic!("{text} is no address"))
}

impl Stage {
    fn new(silence: &[String]) -> Stage {
        let recogniser = Recogniser::new(Vec::new(), vec![Glob::new("lock:*").unwrap()], Vec::new());
        let mut table = pretend::table(recogniser, Limits::default());
        table.record(10_000);
        table.apply(Observation::Swept { node: NODE, started: START - Duration::from_secs(1) });
        table.tune(tuning(silence));
        Stage { table, server: Keyspace::default(), unheard: false, transitions: Vec::new() }
    }

    fn events(&mut self, at: Time, key: &str, events: &[KeyEvent]) {
        if self.unheard {
            return;
        }
        let events: Vec<_> = events.iter().map(|event| (key, *event)).collect();
        pretend::tell(&mut self.table, at, &events);
        self.server.settle(&mut self.table, at);
    }

    fn write(&mut self, at: Time, key: &str, value: RawValue, ttl: Option<f64>, mut events: Vec<KeyEvent>) {
        let expires = ttl.map(|ttl| at + Duration::from_secs_f64(ttl));
        self.server.put(key, value, expires);
        events.extend(ttl.map(|_| KeyEvent::Expire));
        self.events(at, key, &events);
    }

    fn end(&mut self, at: Time, key: &str, event: KeyEvent) {
        self.server.remove(key);
        self.events(at, key, &[event]);
    }

    fn holder(&self, key: &str) -> Token {
        match self.server.value(key) {
            Some(RawValue::Str { head, .. }) => Token::from(&head[..]),
            other => panic!("{key} has no single holder: {other:?}"),
        }
    }

    fn sampled(&mut self, key: &str, sample: Sample) {
        self.table.apply(Observation::Sampled { node: NODE, key: Key::from(key), sample: Box::new(sample) });
    }

    fn act(&mut self, step: &Step, key: &str) {
        use KeyEvent::{Del, Evicted, Expire, Expired, New, Set, Written};
        let at = time(step.at);
        self.server.settle(&mut self.table, at);
        self.unheard = step.unheard;
        if step.walked {
            let ended = step.saved.map(time);
            let children = Children { at, running: step.saving, ended, undated: Duration::ZERO };
            let children = Some(children).filter(|_| !step.untold);
            self.table.apply(Observation::Children { node: NODE, children });
            let (seen, key) = (self.server.look(key.as_bytes(), at), Key::from(key));
            self.table.apply(Observation::Read {
                node: NODE,
                key: key.clone(),
                asked: at,
                answered: at,
                seen,
                source: Source::Scan,
            });
            if let Some(seconds) = step.idle {
                let idle = Duration::from_secs_f64(seconds);
                self.table.apply(Observation::Unused { node: NODE, key, asked: at, idle });
            }
        }
        if step.acting {
            self.table.apply(Observation::Acting { node: NODE, key: Key::from(key), at });
        }
        if let Some(count) = step.holds {
            let token = |number: u32| RawValue::string(format!("worker-{number}").as_bytes());
            for number in 0..count {
                let begin = step.at + f64::from(number) * (step.lasting + 1.0);
                self.write(time(begin), key, token(number), step.ttl, vec![New, Set]);
                let event = if step.expire { Expired } else { Del };
                self.end(time(begin + step.lasting), key, event);
            }
            return;
        }
        if let Some(token) = &step.take {
            self.write(at, key, RawValue::string(token.as_bytes()), step.ttl, vec![New, Set]);
        }
        if let Some(written) = &step.write {
            let expires = step.ttl.map(|ttl| at + Duration::from_secs_f64(ttl));
            self.server.put(key, written.value(), expires);
            let events: Vec<KeyEvent> =
                written.events.iter().map(|name| KeyEvent::from_name(name.as_bytes())).collect();
            self.events(at, key, &events);
        }
        if let Some(token) = &step.take_over {
            self.write(at, key, RawValue::string(token.as_bytes()), step.ttl, vec![Set]);
        }
        if let Some(permits) = &step.permits {
            let member = |number: usize| [0xf0 | number as u8; 16];
            let ends = permits.iter().enumerate();
            let members = ends.map(|(number, end)| (member(number)[..].into(), time(*end).0 as f64)).collect();
            let value = RawValue::Zset { members, len: permits.len() as u64 };
            self.write(at, key, value, None, vec![New, Written]);
        }
        if let Some(grabbed) = &step.grabbed {
            let fields: Vec<(String, String)> = (0..)
                .zip(grabbed)
                .map(|(number, since): (u32, _)| {
                    (number.to_string(), format!("{:.3}", time(*since).0 as f64 / 1_000.0))
                })
                .collect();
            let value = RawValue::hash(fields.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())));
            self.write(at, key, value, None, vec![New, Written]);
        }
        if let Some(threads) = &step.threads {
            let known = self.server.value(key).is_some();
            let mode = step.shared.then_some((&b"mode"[..], &b"read"[..]));
            let fields = mode.into_iter().chain(threads.iter().map(|thread| (thread.as_bytes(), &b"1"[..])));
            let events = if known { vec![Written] } else { vec![New, Written] };
            self.write(at, key, RawValue::hash(fields), step.ttl, events);
        }
        if let Some(ends) = &step.ends {
            let events = if self.server.value(key).is_some() { vec![Written] } else { vec![New, Written] };
            let members = ends.iter().map(|(token, end)| (token.as_bytes().into(), time(*end).0 as f64)).collect();
            let value = RawValue::Zset { members, len: ends.len() as u64 };
            self.write(at, key, value, step.ttl, events);
        }
        if let Some(ttl) = step.renew {
            assert!(self.server.renew(key, at + Duration::from_secs_f64(ttl)), "nothing to renew");
            self.events(at, key, &[Expire]);
        }
        for (done, event) in [(step.release, Del), (step.expire, Expired), (step.evict, Evicted)] {
            if done {
                self.end(at, key, event);
            }
        }
        if !step.heard.is_empty() {
            let heard: Vec<KeyEvent> = step.heard.iter().map(|name| KeyEvent::from_name(name.as_bytes())).collect();
            let events: Vec<_> = heard.iter().map(|event| (key, *event)).collect();
            pretend::tell(&mut self.table, at, &events);
            if !step.unread {
                self.server.settle(&mut self.table, step.looked.map_or(at, time));
            }
        }
        self.take_outcome(step, key, at);
        self.hear(step, key, at);
    }

    fn take_outcome(&mut self, step: &Step, key: &str, at: Time) {
        let Some(acted) = &step.acted else { return };
        let act = match acted.as_str() {
            "free" => Some(Act::Free { whole: true }),
            "put-back" => Some(Act::PutBack { whole: true }),
            "extend" => Some(Act::Extend(Duration::from_secs_f64(step.ttl.expect("a ttl")))),
            "nothing" => None,
            other => panic!("{other} is no write"),
        };
        let holders = vec![Token::from(step.whom.as_bytes())];
        let (by, reason) = ("anna".to_string(), Some("its host is down".to_string()));
        let write = act.map(|act| OwnWrite { act, holders, by, reason });
        let (key, sent) = (Key::from(key), time(step.sent));
        self.table.apply(Observation::Acted { node: NODE, key, write, sent, answered: at });
        self.server.settle(&mut self.table, at);
    }

    /// Observations that are not events.
    fn hear(&mut self, step: &Step, key: &str, at: Time) {
        if let Some(count) = step.waiters {
            let waits = Waits { count, at: WaitsAt::Queue, at_least: false, counted: at, dead_heads: step.dead_heads };
            self.table.apply(Observation::Counted { node: NODE, key: Key::from(key), waits });
        }
        if let Some(Attempts { attempts, failures, seconds, margin }) = step.tries {
            let looked = Duration::from_secs_f64(seconds);
            let (span, margin_per_s, from) = (looked * 10, margin, TriesFrom::Sampled);
            let tries = Tries { attempts, failures, unjudged: 0, unclear: 0, looked, span, margin_per_s, from, at };
            self.sampled(key, Sample { tries: Some(tries), ..Sample::default() });
        }
        if let Some(trying) = &step.contender {
            let contender = Contender {
                token: None,
                address: Some(address(&trying.address)),
                first: time(trying.since),
                last: at,
                attempts: trying.failures,
                failures: trying.failures,
                won: None,
                passed_over: trying.passed_over,
                tokens: Tokens::default(),
            };
            self.sampled(key, Sample { contenders: vec![contender], ..Sample::default() });
        }
        if let Some(token) = &step.seen_holding {
            self.sampled(key, Sample { held: vec![Token::from(token.as_bytes())], ..Sample::default() });
        }
        let late = step.late.as_ref().map(|late| Notice::Late {
            token: Token::from(late.token.as_bytes()),
            address: late.address.as_deref().map(address),
            renewal: late.renewal,
        });
        let freed = step.freed_by.as_deref().map(|by| Notice::FreedBy {
            holder: step.freed_from.as_deref().map(|token| Token::from(token.as_bytes())),
            address: Some(address(by)),
        });
        for notice in late.into_iter().chain(freed) {
            self.sampled(key, Sample { notices: vec![(at, notice)], ..Sample::default() });
        }
        if let Some(client) = &step.client {
            let token = step.by.as_ref().map_or_else(|| self.holder(key), |token| Token::from(token.as_bytes()));
            let spoke = vec![Spoke { token, address: address(client), at }];
            self.sampled(key, Sample { spoke, ..Sample::default() });
        }
        if let Some(connected) = &step.connected {
            let present = connected.iter().map(|text| listed(text, at)).collect();
            self.table.apply(Observation::Connections { node: NODE, at, asked: Asked::All, present });
        }
        if let Some(Memory { policy, used, max }) = &step.memory {
            let hazards = Hazards::of_memory(&policy.as_str().into(), *used, *max);
            self.table.apply(Observation::Hazards { node: NODE, hazards });
        }
        if let Some(until) = step.heard_until {
            self.table.apply(Observation::Heard { node: NODE, until: time(until) });
        }
        if step.gap {
            self.table.apply(Observation::Gap { node: NODE, at });
        }
        if step.restarted {
            self.table.apply(Observation::Noted { node: NODE, at, what: What::Restarted });
        }
    }

    fn expect(&mut self, step: &Step, key: &str) {
        let now = time(step.at);
        if let Some(expected) = &step.changes {
            let ours = |change: &Transition| if change.source == Source::Action { "!" } else { "" };
            let word = |change: &Transition| format!("{}{}", change.change.name(), ours(change));
            let changed = self.table.take_transitions().0;
            let changes: Vec<String> = changed.iter().map(word).collect();
            self.transitions.extend(changed);
            assert_eq!(changes, *expected, "{key} after {} s", step.at);
        }
        let numbers = [step.held, step.left, step.lease, step.period].iter().any(Option::is_some);
        let lives = step.life.is_some() || !step.signs.is_empty();
        let asks = lives || numbers || step.renewals.is_some() || step.state.is_some() || step.holders.is_some();
        if !asks && step.says.is_empty() && step.findings.is_empty() && step.not.is_empty() {
            return;
        }
        let lock =
            self.table.lock_named(KeyspaceId::FIRST, key.as_bytes()).unwrap_or_else(|| panic!("{key} is not known"));
        let view = self.table.view(lock, now).unwrap_or_else(|| panic!("{key} is no lock"));
        let place = format!("{key} after {} s: {:?} {:?}", step.at, view.verdict, view.findings);
        let state = view.verdict.state.name();
        assert_eq!(state, self.table.state(lock, now).name(), "{place}");
        assert_eq!(view.severity(), self.table.severity(lock, now), "{place}");
        if let Some(expected) = &step.state {
            assert_eq!(state, expected, "{place}");
        }
        if let Some(seconds) = step.held {
            assert_eq!(view.held_ms, Some((seconds * 1_000.0).round() as u64), "{place}");
        }
        let ms = |seconds: f64| Some((seconds * 1_000.0).round() as u64);
        if let Some(count) = step.holders {
            assert_eq!(view.holders.len(), count, "{place}");
        }
        if let Some(seconds) = step.left {
            assert_eq!(view.ttl.remaining().map(|left| left.as_millis() as u64), ms(seconds), "{place}");
        }
        if let Some(seconds) = step.lease {
            assert_eq!(view.lease_ms, ms(seconds), "{place}");
        }
        if let Some(seconds) = step.period {
            assert_eq!(view.renewals.as_ref().and_then(|renewals| renewals.period_ms), ms(seconds), "{place}");
        }
        if let Some(count) = step.renewals {
            assert_eq!(view.renewals.as_ref().map_or(0, |renewals| renewals.count), count, "{place}");
        }
        let names: Vec<&str> = view.findings.iter().map(|finding| finding.name).collect();
        for name in &step.findings {
            assert!(names.contains(&name.as_str()), "{name} was not found: {place}");
        }
        for word in &step.not {
            assert!(state != word && !names.contains(&word.as_str()), "{word} was invented: {place}");
            assert!(word != "findings" || names.is_empty(), "findings were invented: {place}");
        }
        let parts = |wanted: &[String], texts: Vec<&str>| {
            for part in wanted {
                assert!(texts.iter().any(|text| text.contains(part.as_str())), "nothing says {part:?}: {place}");
            }
        };
        parts(&step.says, view.verdict.evidence.iter().map(String::as_str).collect());
        let liveness = view.liveness.as_ref();
        if let Some(life) = &step.life {
            assert_eq!(liveness.map(|liveness| liveness.is.name()), Some(life.as_str()), "{liveness:?}: {place}");
        }
        let said = liveness.map(Liveness::sentence).unwrap_or_default();
        let settle = liveness.and_then(|liveness| liveness.settle.as_deref()).unwrap_or_default();
        parts(&step.signs, vec![&said, settle]);
        if let Advice::Settle { watch_ms: Some(ms) } = Safe::of(&view).advice
            && !settle.is_empty()
        {
            let ms = crate::base::text::short_duration(ms);
            assert!(settle.contains(&ms), "the advice is to watch {ms}, and the other line says {settle:?}: {place}");
        }
        parts(&step.found, view.findings.iter().map(|finding| finding.sentence.as_str()).collect());
        parts(&step.settle, view.findings.iter().filter_map(|finding| finding.settle.as_deref()).collect());
        let sure = view.verdict.confidence;
        assert!(
            step.surer_than.is_none_or(|least| sure > least) && step.less_sure_than.is_none_or(|most| sure < most),
            "{place}"
        );
    }
}

fn stories() -> Vec<(String, Story)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut stories = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let story = toml::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        stories.push((name, story));
    }
    stories.sort_by(|(a, _), (b, _)| a.cmp(b));
    stories
}

#[test]
fn every_story_is_judged_as_it_says_and_so_is_its_record() {
    let mut failed = Vec::new();
    for (name, story) in stories() {
        let played = std::panic::catch_unwind(|| {
            let mut stage = Stage::new(&story.silence);
            for step in &story.steps {
                let key = step.key.as_ref().unwrap_or(&story.key);
                stage.act(step, key);
                stage.expect(step, key);
            }
            let end = time(story.steps.last().map_or(0.0, |step| step.at));
            let mut other = Table::new(stage.table.recogniser.clone(), Limits::default());
            other.tune(tuning(&story.silence));
            assert_replays(&mut stage.table, other, &stage.transitions, end);
        });
        if played.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "these stories are judged otherwise, see above: {failed:?}");
}

#[test]
fn every_finding_and_state_has_a_story_for_it_and_one_against_it() {
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for (_, story) in stories() {
        for step in story.steps {
            fires.extend(step.state.into_iter().chain(step.findings));
            silent.extend(step.not);
        }
    }
    let states =
        [State::Split, State::Orphan, State::NoTtl, State::Stalled, State::Contended, State::Long, State::Expiring];
    for name in findings::names().chain(states.map(State::name)) {
        assert!(fires.contains(name), "no story expects {name}");
        assert!(silent.contains(name), "no story says when there is no {name}");
    }
}
