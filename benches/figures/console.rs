//! The console: the cost of a frame, how long a key waits for its turn and takes to show, the processor time under load
//! and at rest, and how soon the first locks appear.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::KeyCode;
use redis::{Connection, Pipeline};

use crate::common::Server;
use crate::keyspace::{Keyspace, uuid};
use crate::limit::{Limit, Measured, whole};
use crate::machine::{Scheduled, disturbance};
use crate::opened::Console;
use crate::report::{Figure, Report};

const LOCKS: usize = 100_000;
/// How many of those are renewed in turn, and how many change hands; the others are only held.
const RENEWED: usize = 10_000;
const PASSED_ON: usize = 5_000;
/// What happens in each beat: 20 renewals, and 5 times a release (1 event) and a take (3 events).
const RENEWALS: usize = 20;
const PASSES: usize = 5;
const BEAT: Duration = Duration::from_millis(20);
const EVENTS_PER_S: f64 = 2_000.0;
/// How long the console runs without keys, and how many keys are pressed after that.
const WATCHED: Duration = Duration::from_secs(30);
const KEYS: usize = 200;
/// How long each kind of groups is shown.
const GROUPED: Duration = Duration::from_secs(15);
/// A load never runs longer.
const LONGEST: Duration = Duration::from_secs(400);
const LONG_LEASE_MS: usize = 24 * 3_600_000;
const SHORT_LEASE_MS: usize = 30_000;

const IDLE: Duration = Duration::from_secs(10);

pub fn measure(report: &mut Report) {
    at_work(report);
    at_rest(report, 100, "% of a core at rest: 100 locks that count down, no events");
    at_rest(report, 0, "% of a core at rest: no locks at all");
}

fn at_work(report: &mut Report) {
    let server = Server::notifying(&[]);
    let load = Load::start(server.connection());
    let console = Console::open(&server.url());
    console.wait_for("first scan");
    console.wait_for(" ago");

    // Includes a scan of the whole keyspace, because there is one each minute.
    console.press(KeyCode::Char('r'));
    console.take_frames();
    console.take_turns();
    let (began, before, events) = (Instant::now(), console.scheduled(), load.events());
    std::thread::sleep(WATCHED);
    let (scheduled, wall) = (console.scheduled().since(before), began.elapsed());
    let rate = (load.events() - events) as f64 / wall.as_secs_f64();
    let frames = in_ms(console.take_frames());
    let turns = in_ms(console.take_turns());
    let longest = turns.iter().copied().fold(0.0, f64::max);
    let keys: Vec<Pressed> = (0..KEYS).map(|number| press(&console, number)).collect();
    let grouped = ["bp", "bo"].map(|keys| while_grouped(&console, keys));
    console.quit();
    load.stop();

    let about = format!("{} locks, {} events/s", whole(LOCKS as f64), whole(EVENTS_PER_S));
    let how = "the whole console in process, a screen of 140x40, a private server";
    report.add(Figure {
        name: format!("ms of CPU for a frame, {about}: mean"),
        measured: Measured::once(frames.iter().sum::<f64>() / frames.len() as f64),
        limit: Limit::AtMost(4.0),
        show: |ms| format!("{ms:.2}"),
        command: format!("{} frames in {} s, {how}", frames.len(), wall.as_secs()),
    });
    report.add(Figure {
        name: "the same: p99".into(),
        measured: Measured::once(p99(frames)),
        limit: Limit::AtMost(4.0),
        show: |ms| format!("{ms:.2}"),
        command: "composed, drawn and brought to the screen".into(),
    });
    report.add(Figure {
        name: "ms of CPU between two looks at the keys: p99".into(),
        command: format!(
            "{} turns: a slice of the order, a frame, or changes taken in; the longest {longest:.2}",
            turns.len()
        ),
        measured: Measured::once(p99(turns)),
        limit: Limit::AtMost(4.0),
        show: |ms| format!("{ms:.2}"),
    });
    report.add(Figure {
        name: "% of a core that it takes".into(),
        measured: Measured::once(scheduled.ran.as_secs_f64() / wall.as_secs_f64() * 100.0),
        limit: Limit::Below(25.0),
        show: |share| format!("{share:.1}"),
        command: format!("CPU time of the console's thread, a walk of the keyspace in it; {rate:.0} events/s came"),
    });
    report.add(Figure {
        name: "ms from a key to the screen: p99".into(),
        measured: Measured::once(p99(keys.iter().map(|key| key.wall).collect())),
        limit: Limit::AtMost(50.0),
        show: |ms| format!("{ms:.1}"),
        command: format!("{KEYS} keys at random moments, until another lock is selected on the screen"),
    });
    report.add(Figure {
        name: "the same without waits for a processor: p99".into(),
        measured: Measured::once(p99(keys.iter().map(|key| key.undisturbed).collect())),
        limit: Limit::AtMost(50.0),
        show: |ms| format!("{ms:.1}"),
        command: "less the time in which the console's thread could have run".into(),
    });
    for (by, (frames, turns)) in ["pattern", "holder"].iter().zip(grouped) {
        let longest = turns.iter().copied().fold(0.0, f64::max);
        report.add(Figure {
            name: format!("ms of CPU for a frame while grouped by {by}: p99"),
            command: format!("{} frames in {} s", frames.len(), GROUPED.as_secs()),
            measured: Measured::once(p99(frames)),
            limit: Limit::AtMost(4.0),
            show: |ms| format!("{ms:.2}"),
        });
        report.add(Figure {
            name: format!("ms of CPU between two looks at the keys while grouped by {by}: p99"),
            command: format!("{} turns; the longest {longest:.2}", turns.len()),
            measured: Measured::once(p99(turns)),
            limit: Limit::AtMost(4.0),
            show: |ms| format!("{ms:.2}"),
        });
    }
    if (rate / EVENTS_PER_S - 1.0).abs() > 0.1 {
        report.note(format!("console: the load made {rate:.0} events a second"));
    }
    if let Some(text) = disturbance("the console", scheduled) {
        report.note(format!("console: {text}"));
    }
}

/// The frames and the turns of the loop, in milliseconds, while the list shows groups.
fn while_grouped(console: &Console, keys: &str) -> (Vec<f64>, Vec<f64>) {
    keys.chars().for_each(|key| console.press(KeyCode::Char(key)));
    console.wait_for("WORST");
    console.take_frames();
    console.take_turns();
    std::thread::sleep(GROUPED);
    (in_ms(console.take_frames()), in_ms(console.take_turns()))
}

/// How long a key took to show, in milliseconds.
pub struct Pressed {
    pub wall: f64,
    /// Without the time that the console's thread waited for a processor.
    pub undisturbed: f64,
}

/// Presses a key at a random moment. Some pauses are long enough for the rows to move again.
fn press(console: &Console, number: usize) -> Pressed {
    let random = uuid(number).bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let pause = if number.is_multiple_of(10) { 1_600 + random % 1_000 } else { 20 + random % 230 };
    std::thread::sleep(Duration::from_millis(pause));
    console.forget_selections();
    let (began, before) = (Instant::now(), console.scheduled().waited);
    console.press([KeyCode::Down, KeyCode::PageDown, KeyCode::Up, KeyCode::Down][number % 4]);
    let shown = console.next_selection();
    let wall = shown.at.saturating_duration_since(began);
    let undisturbed = wall.saturating_sub(shown.waited.saturating_sub(before));
    Pressed { wall: wall.as_secs_f64() * 1e3, undisturbed: undisturbed.as_secs_f64() * 1e3 }
}

fn at_rest(report: &mut Report, locks: usize, name: &str) {
    let server = Server::notifying(&[]);
    let mut pipe = redis::pipe();
    for number in 0..locks {
        let lease = SHORT_LEASE_MS * (1 + number % 10) + 10_000;
        pipe.cmd("SET").arg(key(number)).arg(uuid(number)).arg("PX").arg(lease).ignore();
    }
    if locks > 0 {
        pipe.exec(&mut server.connection()).expect("the server takes locks");
    }
    let console = Console::open(&server.url());
    console.wait_for(" ago");
    std::thread::sleep(Duration::from_secs(2));
    console.take_frames();
    let (began, before) = (Instant::now(), console.scheduled());
    std::thread::sleep(IDLE);
    let (scheduled, wall) = (console.scheduled().since(before), began.elapsed());
    let frames = console.take_frames().len();
    console.quit();
    report.add(Figure {
        name: name.into(),
        measured: Measured::once(scheduled.ran.as_secs_f64() / wall.as_secs_f64() * 100.0),
        limit: Limit::Below(1.0),
        show: |share| format!("{share:.2}"),
        command: format!("CPU time of the console's thread over {} s; {frames} frames", wall.as_secs()),
    });
}

/// How soon the first lock of five million keys is on the screen.
pub fn measure_opening(report: &mut Report, keyspace: &Keyspace, rounds: usize) {
    let mut waits = Scheduled::default();
    let mut opening = || {
        let began = Instant::now();
        let console = Console::open(&keyspace.server.url());
        let shown = console.next_selection().at - began;
        let scheduled = console.scheduled();
        (waits.ran, waits.waited) = (waits.ran + scheduled.ran, waits.waited + scheduled.waited);
        console.quit();
        shown.as_secs_f64() * 1e3
    };
    report.add(Figure {
        name: "ms until the first of 50,000 locks among 5,000,000 keys is on the screen".into(),
        measured: Measured::of((0..rounds).map(|_| opening()).collect()),
        limit: Limit::AtMost(1_000.0),
        show: whole,
        command: "from before the connection is opened, at the default pace".into(),
    });
    if let Some(text) = disturbance("the console", waits) {
        report.note(format!("console, opening: {text}"));
    }
}

/// Renews locks and hands them over until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    events: Arc<std::sync::atomic::AtomicU64>,
    thread: JoinHandle<()>,
}

impl Load {
    fn start(mut conn: Connection) -> Load {
        take_all(&mut conn);
        let (stop, events) = (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::atomic::AtomicU64::new(0)));
        let load = (stop.clone(), Arc::clone(&events));
        let thread = std::thread::spawn(move || {
            let (stop, events) = load;
            let began = Instant::now();
            let (mut beat, mut due) = (0, began);
            while !stop.load(Ordering::Relaxed) && began.elapsed() < LONGEST {
                one_beat(&mut conn, beat);
                events.fetch_add((RENEWALS + PASSES * 4) as u64, Ordering::Relaxed);
                beat += 1;
                due += BEAT;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        });
        Load { stop, events, thread }
    }

    /// The number of events made so far.
    fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load ends well");
    }
}

pub fn take_all(conn: &mut Connection) {
    for first in (0..LOCKS).step_by(10_000) {
        let mut pipe = redis::pipe();
        for number in first..first + 10_000 {
            let lease = if number < RENEWED { SHORT_LEASE_MS } else { LONG_LEASE_MS };
            take(&mut pipe, number, number, lease);
        }
        pipe.exec(conn).expect("the server takes locks");
    }
}

fn one_beat(conn: &mut Connection, beat: usize) {
    let mut pipe = redis::pipe();
    for index in beat * RENEWALS..(beat + 1) * RENEWALS {
        pipe.cmd("PEXPIRE").arg(key(index % RENEWED)).arg(SHORT_LEASE_MS).ignore();
    }
    for index in beat * PASSES..(beat + 1) * PASSES {
        let number = RENEWED + index % PASSED_ON;
        pipe.cmd("DEL").arg(key(number)).ignore();
        // This lock was released a few beats ago.
        let before = RENEWED + (index + PASSED_ON - PASSES * 10) % PASSED_ON;
        take(&mut pipe, before, LOCKS + index, LONG_LEASE_MS);
    }
    pipe.exec(conn).expect("the server takes commands");
}

fn take(pipe: &mut Pipeline, number: usize, token: usize, lease: usize) {
    pipe.cmd("SET").arg(key(number)).arg(uuid(token)).arg("NX").arg("PX").arg(lease).ignore();
}

pub fn key(number: usize) -> String {
    format!("lock:order:{number:06}")
}

fn in_ms(times: Vec<Duration>) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
}

pub fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}
