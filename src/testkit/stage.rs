//! A console without a server, for unit tests: a table fed by hand, nodes made from INFO texts, a clock that tests set.
//!
//! Changes on the stage's pretended server (`acquire`, `renew`, `release`, `flush`) reach the table as they do in
//! production: as events, and as the reads that the table asks for.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent as Press, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Color;
use unicode_width::UnicodeWidthStr;

use crate::app::scene::Others;
use crate::app::theme::Theme;
use crate::app::{App, Effect, Event, Title, Wish};
use crate::base::time::*;
use crate::console::driver::{self, Known, World, drive};
use crate::daemon::Own;
use crate::engine::{NodeStatus, ScanReport, Stream};
use crate::lock::*;
use crate::metrics::{self, MetricId, Moment};
use crate::model::*;
use crate::server::{Fact, ServerFacts, Settings};
use crate::settings::cli::Environment;
use crate::settings::keys::Keys;
use crate::sources::inspect::{Inspection, Subject};
use crate::testkit::pretend::{self, Keyspace};
use crate::views;

pub use crate::testkit::pretend::{NODE, START};

const INFO: &str = "redis_version:7.4.2\r\nredis_mode:standalone\r\nrun_id:ab\r\nuptime_in_seconds:93784\r\n\
    connected_clients:12\r\nmaxclients:10000\r\nused_memory:1048576\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
    evicted_keys:0\r\nloading:0\r\naof_enabled:1\r\naof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\n\
    role:master\r\nconnected_slaves:0\r\n# Keyspace\r\ndb0:keys=200,expires=190,avg_ttl=0\r\n";
const SETTINGS: [&str; 5] = ["g$lshzxenK", "", "everysec", "0", "normal 0 0 0 pubsub 33554432 8388608 60"];

pub struct Stage {
    pub app: App,
    pub table: Table,
    pub node: NodeStatus,
    /// What stands beside it.
    pub others: Others,
    pub now: Time,
    server: Keyspace,
    /// What our own write freed last.
    freed: Option<(RawValue, Option<Time>)>,
}

impl Stage {
    /// A live server without locks, whose keyspace was just walked.
    pub fn new() -> Stage {
        let mut stage = Stage::unscanned();
        stage.pass(1_000);
        stage.scan();
        stage
    }

    /// The same before the first walk.
    pub fn unscanned() -> Stage {
        Stage::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Stage {
        let table = pretend::table(pretend::recogniser("*"), limits);
        let place = (NODE, KeyspaceId::FIRST, 0);
        let stream = Stream::Live(Source::Notification);
        let mut node = NodeStatus::new(place, "10.0.3.7:6379".into(), facts(INFO), stream, Arc::default());
        (node.reached, node.watched_since) = (true, Some(START));
        let title = Title { target: "orders-redis".into(), environment: Some(Environment::Prod), ..Title::default() };
        let theme = Theme { color: true, ascii: false };
        let app = App::new(title, Keys::default(), theme);
        Stage { app, table, node, others: Others::default(), now: START, server: Keyspace::default(), freed: None }
    }

    /// Changes lines of the server's INFO.
    pub fn inform(&mut self, lines: &[&str]) {
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_string();
        let lines =
            INFO.split("\r\n").map(|old| lines.iter().find(|new| name(new) == name(old)).unwrap_or(&old).to_string());
        self.node.facts = facts(&lines.collect::<Vec<_>>().join("\r\n"));
    }

    pub fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        for key in self.server.drop_expired(self.now) {
            self.tell(&key, &[KeyEvent::Expired]);
        }
        self.settle();
        self.table.patrol(usize::MAX, self.now);
    }

    /// A walk of the keyspace, in no time.
    pub fn scan(&mut self) {
        let at = self.now;
        for (key, _) in self.server.iter() {
            let (seen, key) = (self.server.look(key, at), Key::from(&key[..]));
            let (asked, answered, source) = (at, at, Source::Scan);
            self.table.apply(Observation::Read { node: NODE, key, asked, answered, seen, source });
        }
        self.table.apply(Observation::Swept { node: NODE, started: at });
        self.node.scan = Some(ScanReport {
            started: at,
            finished: at,
            walked: 200,
            matched: 20,
            helpers: 0,
            calls: 2,
            count: 100,
            unread: 0,
            denied: 0,
            shortfall: None,
            names: None,
            failed: None,
        });
        self.settle();
    }

    /// The holder takes a lock now.
    pub fn acquire(&mut self, key: impl AsRef<[u8]>, token: &str, ttl_ms: impl Into<Option<u64>>) {
        self.take(key.as_ref(), RawValue::string(token.as_bytes()), ttl_ms.into());
    }

    /// The same as Redisson does it.
    pub fn acquire_redisson(&mut self, key: &str, token: &str, ttl_ms: u64) {
        self.take(key.as_bytes(), RawValue::hash([(token.as_bytes(), &b"1"[..])]), Some(ttl_ms));
    }

    fn take(&mut self, key: &[u8], value: RawValue, ttl_ms: Option<u64>) {
        let expires = ttl_ms.map(|ms| self.now + Duration::from_millis(ms));
        self.server.put(key, value, expires);
        self.tell(key, &[KeyEvent::New, KeyEvent::Set]);
        if expires.is_some() {
            self.tell(key, &[KeyEvent::Expire]);
        }
        self.settle();
    }

    pub fn renew(&mut self, key: &str, ttl_ms: u64) {
        if self.server.renew(key, self.now + Duration::from_millis(ttl_ms)) {
            self.tell(key.as_bytes(), &[KeyEvent::Expire]);
            self.settle();
        }
    }

    pub fn release(&mut self, key: impl AsRef<[u8]>) {
        if self.server.remove(key.as_ref()) {
            self.tell(key.as_ref(), &[KeyEvent::Del]);
            self.settle();
        }
    }

    /// A lock that exists and was not reported.
    pub fn hold_unseen(&mut self, key: &str, token: &str) {
        self.server.put(key, RawValue::string(token.as_bytes()), None);
    }

    /// Releases a lock, and no event tells of it.
    pub fn release_unheard(&mut self, key: &str) {
        self.server.remove(key);
    }

    /// Somebody else writes the lock over.
    pub fn take_over(&mut self, key: &str, token: &str, ttl_ms: u64) {
        self.server.put(key, RawValue::string(token.as_bytes()), Some(self.now + Duration::from_millis(ttl_ms)));
        self.tell(key.as_bytes(), &[KeyEvent::Set, KeyEvent::Expire]);
        self.settle();
    }

    /// So many wait for the lock, by its library's own count.
    pub fn want(&mut self, key: &str, count: u32) {
        let waits = Waits { count, at: WaitsAt::Queue, at_least: false, counted: self.now, dead_heads: None };
        self.table.apply(Observation::Counted { node: NODE, key: Key::from(key), waits });
    }

    pub fn evict(&mut self, key: &str) {
        self.server.remove(key);
        self.tell(key.as_bytes(), &[KeyEvent::Evicted]);
        self.settle();
    }

    /// The operator's write reaches the table as in production: announced, done, reported.
    pub fn write_ourselves(&mut self, key: &str, write: OwnWrite) {
        let (node, name, at) = (NODE, Key::from(key), self.now);
        self.table.apply(Observation::Acting { node, key: name.clone(), at });
        let events: &[KeyEvent] = match write.act {
            Act::PutBack { .. } => {
                let (value, expires) = self.freed.take().expect("something was freed");
                self.server.put(key, value, expires);
                &[KeyEvent::New, KeyEvent::Set]
            }
            _ => {
                self.freed = self.server.take(key);
                &[KeyEvent::Del]
            }
        };
        self.tell(key.as_bytes(), events);
        self.table.apply(Observation::Acted { node, key: name, write: Some(write), sent: at, answered: at });
        self.settle();
    }

    pub fn flush(&mut self) {
        self.server.clear();
        self.table.apply(Observation::Flushed { node: NODE, at: self.now });
        self.settle();
    }

    /// The connection is lost, and events with it.
    pub fn lose(&mut self) {
        let why = "connection refused".to_string();
        self.table.apply(Observation::Noted { node: NODE, at: self.now, what: What::Away { why: why.clone() } });
        self.node.stream = Stream::Reconnecting { why, since: self.now };
        self.node.reconnects += 1;
        self.table.apply(Observation::Gap { node: NODE, at: self.now });
    }

    pub fn come_back(&mut self) {
        if let Stream::Reconnecting { since, .. } = self.node.stream {
            let away_ms = self.now.since(since).as_millis() as u64;
            self.table.apply(Observation::Noted {
                node: NODE,
                at: self.now,
                what: What::Back { away_ms, source: Source::Notification },
            });
        }
        self.node.stream = Stream::Live(Source::Notification);
        self.scan();
    }

    /// The same after a restart that kept no data.
    pub fn come_back_empty(&mut self) {
        self.server.clear();
        self.table.apply(Observation::Noted { node: NODE, at: self.now, what: What::Restarted });
        self.come_back();
    }

    fn tell(&mut self, key: &[u8], events: &[KeyEvent]) {
        self.node.events += events.len() as u64;
        let events: Vec<_> = events.iter().map(|event| (key, *event)).collect();
        pretend::tell(&mut self.table, self.now, &events);
    }

    /// Answers the table's reads, unless the server is lost, and passes the transitions to the app.
    fn settle(&mut self) {
        if !matches!(self.node.stream, Stream::Reconnecting { .. }) {
            self.server.settle(&mut self.table, self.now);
        }
        let (changes, left_out) = self.table.take_transitions();
        self.app.update(Event::Changes(changes, left_out), self.now);
    }

    /// What the loop measures each second.
    pub fn measure(&mut self) {
        let (mut moment, target, node) = (Moment::new(self.now), Arc::from("orders-redis"), Arc::from("10.0.3.7:6379"));
        let up = matches!(self.node.stream, Stream::Live(_));
        moment.push(MetricId::of("lockscope_up"), &[&target, &node], f64::from(u8::from(up)));
        metrics::of_table(&mut moment, &self.table, &target);
        Own::new().add_build(&mut moment);
        self.app.update(Event::Moment(Box::new(moment)), self.now);
    }

    /// What the loop does when it draws.
    pub fn compose(&mut self) {
        let known = Known { table: &self.table, nodes: vec![&self.node], now: self.now };
        driver::compose(&mut self.app, known, self.others.clone());
        self.app.was_shown(views::question(&self.app));
    }

    /// Presses keys in order, written as in the key table: `"j enter ctrl-z"`.
    pub fn press(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in keys.split(' ') {
            let caused = self.app.update(Event::Key(press(key)), self.now);
            effects.extend(self.drive(caused));
            self.compose();
        }
        effects
    }

    /// Carries out the effects as the loop does, and returns those that only a server could carry out.
    fn drive(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut double = Double { table: &self.table, node: &self.node, now: self.now, left: Vec::new() };
        let ended = drive(&mut self.app, effects, &mut double).expect("the double never fails");
        assert!(ended.is_continue(), "the double never ends the console");
        double.left
    }

    /// Types a text, character by character.
    pub fn write(&mut self, text: &str) {
        for c in text.chars() {
            self.app.update(Event::Key(Press::new(KeyCode::Char(c), KeyModifiers::NONE)), self.now);
        }
        self.compose();
    }

    /// Types a filter and applies it.
    pub fn filter(&mut self, text: &str) {
        self.press("/ ctrl-u");
        self.write(text);
        self.press("enter");
    }

    pub fn resize(&mut self, width: u16, height: u16) {
        self.app.update(Event::Resize(width, height), self.now);
        self.compose();
    }

    /// The keys of the rows, from the top.
    pub fn rows(&self) -> Vec<String> {
        self.app.scene.rows.iter().map(|lock| lock.key.to_string()).collect()
    }

    pub fn selected(&self) -> Option<String> {
        self.app.list.selected.as_ref().map(|id| id.key.to_string())
    }

    pub fn notice(&self) -> &str {
        self.app.notice.as_ref().map_or("", |notice| &notice.text)
    }

    /// The screen as it would be drawn now.
    pub fn draw(&mut self) -> Buffer {
        self.compose();
        let (width, height) = self.app.display.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let draw = |frame: &mut ratatui::Frame<'_>| {
            views::draw(frame, &self.app);
        };
        terminal.draw(draw).unwrap();
        terminal.backend().buffer().clone()
    }

    pub fn screen(&mut self) -> String {
        text(&self.draw())
    }
}

/// The world without a server: locks come from the table, and inspections find nothing.
struct Double<'a> {
    table: &'a Table,
    node: &'a NodeStatus,
    now: Time,
    left: Vec<Effect>,
}

impl World for Double<'_> {
    fn known(&self) -> Known<'_> {
        Known { table: self.table, nodes: vec![self.node], now: self.now }
    }

    fn prove(&mut self, wish: Wish, locks: Vec<LockView>) -> Option<Event> {
        Some(Event::Seen(wish, locks))
    }

    fn carry_out(&mut self, effect: Effect, app: &App) -> io::Result<ControlFlow<(), Option<Event>>> {
        let found = match effect {
            Effect::Inspect(id) if app.page.opened.is_none() => self.known().lock(&id).map(|lock| {
                let subject = Subject::new(&lock, 0, &self.node.facts, self.now);
                let found = Inspection::failed(&subject, self.now, "nobody was asked".into());
                Event::Inspected(id, Box::new(found))
            }),
            other => {
                self.left.push(other);
                None
            }
        };
        Ok(ControlFlow::Continue(found))
    }
}

fn facts(info: &str) -> ServerFacts {
    let settings = Settings::from_answers(SETTINGS.map(|text| Fact::Known(text.into())));
    let clock = Fact::Unknown("not asked".into());
    ServerFacts::read(&Fact::Known(info.into()), 0, Fact::Known("default".into()), settings, clock)
}

/// The text of a buffer, line by line. A wide character takes two cells.
pub fn text(buffer: &Buffer) -> String {
    let mut lines = Vec::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += symbol.width().max(1) as u16;
        }
        lines.push(line.trim_end().to_string());
    }
    lines.join("\n")
}

/// The same with what is not in the default style marked: `{red bold|ORPHAN}`.
pub fn painted(buffer: &Buffer) -> String {
    let name = |cell: &Cell| {
        let mut words = Vec::new();
        if cell.fg != Color::Reset {
            words.push(format!("{:?}", cell.fg).to_lowercase());
        }
        words.extend(cell.modifier.iter_names().map(|(name, _)| name.to_lowercase()));
        words.join(" ")
    };
    let mut lines = Vec::new();
    for y in 0..buffer.area.height {
        let mut runs: Vec<(String, String)> = Vec::new();
        let mut x = 0;
        while x < buffer.area.width {
            let cell = &buffer[(x, y)];
            x += cell.symbol().width().max(1) as u16;
            match runs.last_mut().filter(|(style, _)| *style == name(cell)) {
                Some((_, text)) => text.push_str(cell.symbol()),
                None => runs.push((name(cell), cell.symbol().to_string())),
            }
        }
        let run = |(style, text): &(String, String)| match style.as_str() {
            "" => text.clone(),
            style => format!("{{{style}|{text}}}"),
        };
        lines.push(runs.iter().map(run).collect::<String>().trim_end().to_string());
    }
    lines.join("\n")
}

fn press(key: &str) -> Press {
    let (key, modifiers) = match key.strip_prefix("ctrl-") {
        Some(key) => (key, KeyModifiers::CONTROL),
        None => (key, KeyModifiers::NONE),
    };
    let code = match key {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "space" => KeyCode::Char(' '),
        "backspace" => KeyCode::Backspace,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "insert" => KeyCode::Insert,
        "f1" => KeyCode::F(1),
        key => KeyCode::Char(key.chars().next().expect("a key")),
    };
    Press::new(code, modifiers)
}
