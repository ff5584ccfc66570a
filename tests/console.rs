//! The whole console in process, on a real server: the test presses keys and waits for the screen.

mod common;

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::engine::{endpoint_at, options, start};
use common::{Server, row};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use futures_util::Stream;
use lockscope::alerts::Rules;
use lockscope::app::theme::Theme;
use lockscope::app::{App, Title};
use lockscope::console::run::{Tty, run};
use lockscope::engine::Engine;
use lockscope::model::Limits;
use lockscope::settings::Settings;
use lockscope::settings::cli::Environment;
use lockscope::settings::keys::Keys;
use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, TestBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(30);

/// A screen that the test reads while the console draws on it.
#[derive(Clone)]
struct Glass {
    screen: Rc<RefCell<TestBackend>>,
    /// How often the console asked for its size, which it does before each frame.
    asked: Rc<RefCell<usize>>,
}

impl Glass {
    fn new(width: u16, height: u16) -> Glass {
        Glass { screen: Rc::new(RefCell::new(TestBackend::new(width, height))), asked: Rc::default() }
    }

    fn text(&self) -> String {
        let backend = self.screen.borrow();
        let buffer = backend.buffer();
        let width = usize::from(buffer.area.width).max(1);
        let lines = buffer.content.chunks(width).map(|cells| cells.iter().map(Cell::symbol).collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn never<T>(done: Result<T, std::convert::Infallible>) -> io::Result<T> {
    done.map_err(io::Error::other)
}

impl Backend for Glass {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        never(self.screen.borrow_mut().draw(content))
    }
    fn hide_cursor(&mut self) -> io::Result<()> {
        never(self.screen.borrow_mut().hide_cursor())
    }
    fn show_cursor(&mut self) -> io::Result<()> {
        never(self.screen.borrow_mut().show_cursor())
    }
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        never(self.screen.borrow_mut().get_cursor_position())
    }
    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        never(self.screen.borrow_mut().set_cursor_position(position))
    }
    fn clear(&mut self) -> io::Result<()> {
        never(self.screen.borrow_mut().clear())
    }
    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        never(self.screen.borrow_mut().clear_region(region))
    }
    fn size(&self) -> io::Result<Size> {
        *self.asked.borrow_mut() += 1;
        never(self.screen.borrow().size())
    }
    fn window_size(&mut self) -> io::Result<WindowSize> {
        never(self.screen.borrow_mut().window_size())
    }
    fn flush(&mut self) -> io::Result<()> {
        never(self.screen.borrow_mut().flush())
    }
}

/// A terminal that only counts frames.
struct Counting {
    frames: Rc<RefCell<usize>>,
}

impl Tty for Counting {
    fn begin_frame(&mut self) -> io::Result<()> {
        *self.frames.borrow_mut() += 1;
        Ok(())
    }

    async fn told_to_end(&mut self) {
        std::future::pending().await
    }
}

/// Types and reads for the test.
struct Operator {
    glass: Glass,
    input: mpsc::UnboundedSender<Input>,
    frames: Rc<RefCell<usize>>,
}

impl Operator {
    fn press(&self, code: KeyCode) {
        self.hold(code, KeyModifiers::NONE);
    }

    fn hold(&self, code: KeyCode, with: KeyModifiers) {
        let _ = self.input.send(Input::Key(KeyEvent::new(code, with)));
    }

    fn write(&self, text: &str) {
        text.chars().for_each(|c| self.press(KeyCode::Char(c)));
    }

    fn resize(&self, width: u16, height: u16) {
        self.glass.screen.borrow_mut().resize(width, height);
        let _ = self.input.send(Input::Resize(width, height));
    }

    async fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.glass.text();
            if wanted(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}\n{screen}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A console on a screen of 80x24.
struct Console {
    app: App,
    engine: Engine,
    hands: lockscope::console::operator::Operator,
    glass: Glass,
    frames: Rc<RefCell<usize>>,
}

impl Console {
    async fn open(server: &str) -> Console {
        let settings = common::acting::settings(server, |_| {});
        Console::open_with(server, &settings, common::process::scratch("records")).await
    }

    async fn open_with(server: &str, settings: &Settings, place: PathBuf) -> Console {
        let (engine, topology) = start(&endpoint_at(server), options(Limits::default())).await;
        let hands =
            lockscope::console::operator::Operator::new(settings, &topology, engine.observer(), server, Some(place));
        let environment = settings.environment.unwrap_or(Environment::Dev);
        let title = Title { target: "test".into(), environment: Some(environment), ..Title::default() };
        let app = App::new(title, Keys::default(), Theme::default());
        Console { app, engine, hands, glass: Glass::new(80, 24), frames: Rc::default() }
    }

    async fn run(&mut self, input: impl Stream<Item = io::Result<Input>> + Unpin) -> io::Result<()> {
        let mut terminal = Terminal::new(self.glass.clone())?;
        let mut tty = Counting { frames: self.frames.clone() };
        run(&mut self.app, &mut self.engine, &mut self.hands, &mut terminal, &mut tty, input).await
    }
}

/// Opens the console on the server, lets the operator work, and quits.
async fn with_console(server: &str, work: impl AsyncFnOnce(&Operator)) {
    let settings = common::acting::settings(server, |_| {});
    with_settings(server, settings, common::process::scratch("records"), work).await;
}

/// The same with these settings; records are kept at `place`.
async fn with_settings(server: &str, settings: Settings, place: PathBuf, work: impl AsyncFnOnce(&Operator)) {
    operate(Console::open_with(server, &settings, place).await, work).await;
}

/// The same with these alert rules.
async fn with_rules(server: &str, rules: &str, work: impl AsyncFnOnce(&Operator)) {
    let mut console = Console::open(server).await;
    console.app.watch_rules(Rules::parse(rules).expect("rules"));
    operate(console, work).await;
}

async fn operate(mut console: Console, work: impl AsyncFnOnce(&Operator)) {
    let (input, mut keys) = mpsc::unbounded_channel();
    let stream = futures_util::stream::poll_fn(move |context| keys.poll_recv(context).map(|event| event.map(Ok)));
    let operator = Operator { glass: console.glass.clone(), input, frames: console.frames.clone() };
    let working = async {
        work(&operator).await;
        operator.press(KeyCode::Char('q'));
    };
    let (ended, ()) = tokio::time::timeout(PATIENCE * 3, futures_util::future::join(console.run(stream), working))
        .await
        .expect("q quits");
    ended.unwrap();
    assert_eq!(console.hands.close().await, Vec::<String>::new());
}

/// Whether the first is above the second.
fn above(screen: &str, first: &str, second: &str) -> bool {
    let line = |word: &str| screen.lines().position(|line| line.contains(word));
    matches!((line(first), line(second)), (Some(first), Some(second)) if first < second)
}

/// How many entries of the timeline say this of the lock.
fn told(screen: &str, what: &str, key: &str) -> usize {
    let says = |line: &&str| matches!((line.find(what), line.find(key)), (Some(what), Some(key)) if what < key);
    screen.lines().filter(says).count()
}

#[tokio::test]
async fn an_operator_finds_filters_and_opens_a_lock() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:fine", "worker-1", "PX", "600000"]);
    server.cli(&["SET", "lock:forever", "worker-2"]);
    with_console(&server.url(), async |operator| {
        let screen = operator.wait_for("the first walk", |screen| screen.contains("2 locks")).await;
        assert!(screen.contains("DEV  test"), "{screen}");
        operator.wait_for("the worst first", |screen| above(screen, "lock:forever", "lock:fine")).await;
        operator.wait_for("a live stream", |screen| screen.contains("live")).await;

        server.cli(&["SET", "lock:new", "worker-3", "PX", "600000"]);
        operator.wait_for("a lock that was just taken", |screen| screen.contains("lock:new")).await;
        server.cli(&["DEL", "lock:new"]);
        operator.wait_for("a lock that was just freed is gone", |screen| !screen.contains("lock:new")).await;

        operator.write("/state:no-ttl");
        operator.press(KeyCode::Enter);
        operator
            .wait_for("only what matches", |screen| screen.contains("forever") && !screen.contains("lock:fine"))
            .await;
        operator.press(KeyCode::Enter);
        operator.wait_for("the detail", |screen| screen.contains("lock:forever") && !screen.contains("STATE")).await;
        operator.resize(140, 40);
        operator.wait_for("the larger screen", |screen| screen.lines().count() == 40).await;
        operator.press(KeyCode::Esc);
        operator.press(KeyCode::Esc);
        operator.wait_for("everything again", |screen| screen.contains("lock:fine")).await;
        operator.resize(10, 3);
        operator.wait_for("a notice", |screen| screen.contains("too small")).await;
        operator.resize(80, 24);
        operator.write("3v");
        operator
            .wait_for("the story of the new lock", |screen| {
                screen.contains("acquired  lock:new") && screen.contains("released  lock:new")
            })
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_comes_back_is_shown_as_it_is_then() {
    let mut server = Server::notifying(&[]);
    let url = server.url();
    server.cli(&["SET", "lock:before", "worker-1", "PX", "600000"]);
    let server = RefCell::new(&mut server);
    with_console(&url, async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("HELD") && screen.contains("live")).await;
        server.borrow_mut().kill();
        let lost = operator.wait_for("the loss", |screen| screen.contains("RECONNECTING")).await;
        assert!(lost.contains("lock:before"), "what was known stays: {lost}");
        let marked = |line: &str| line.contains("stale ") && line.contains(" lock:before");
        assert!(lost.lines().any(marked), "and is marked: {lost}");
        server.borrow_mut().restart();
        server.borrow().cli(&["SET", "lock:after", "worker-2", "PX", "600000"]);
        operator
            .wait_for("the truth", |screen| {
                screen.contains("live") && screen.contains("lock:after") && !screen.contains("stale")
            })
            .await;
        operator.press(KeyCode::Char('G'));
        operator.press(KeyCode::Char('g'));
        operator
            .wait_for("the lost lock is no lock any more, and its holder may not know", |screen| {
                let is_lost = |line: &str| line.contains("LOST ") && line.contains(" lock:before");
                screen.contains("1 lock  1 lost") && screen.contains("lock:after") && screen.lines().any(is_lost)
            })
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_server_without_notifications_is_watched_all_the_same() {
    let server = Server::start();
    with_console(&server.url(), async |operator| {
        operator.wait_for("another way", |screen| screen.contains("tracking") || screen.contains("polling")).await;
        server.cli(&["SET", "lock:new", "worker-3", "PX", "600000"]);
        operator.wait_for("a lock that was just taken", |screen| screen.contains("lock:new")).await;
        operator.press(KeyCode::Char('5'));
        operator.wait_for("the fix", |screen| screen.contains("notify-keyspace-events '")).await;
    })
    .await;
}

#[tokio::test]
async fn a_frame_is_drawn_only_for_something_new() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:a", "worker-1", "PX", "600000"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("1 lock") && screen.contains("live")).await;
        operator.press(KeyCode::Char('p'));
        operator.wait_for("the pause", |screen| screen.contains("PAUSED")).await;
        let before = *operator.frames.borrow();
        for n in 0..50 {
            server.cli(&["SET", &format!("lock:{n}"), "worker", "PX", "600000"]);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(*operator.frames.borrow(), before);
        operator.press(KeyCode::Char('p'));
        operator.wait_for("all that came meanwhile", |screen| screen.contains("51 locks")).await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_composed_while_nothing_happens_but_ages_go_on() {
    let server = Server::notifying(&[]);
    with_console(&server.url(), async |operator| {
        let age =
            |screen: &str| screen.split("scan ").nth(1).and_then(|rest| rest.split(" ago").next().map(String::from));
        operator.resize(140, 40);
        let screen = operator.wait_for("the first walk", |screen| screen.contains(" ago")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (before, began) = (*operator.glass.asked.borrow(), Instant::now());
        let first = age(&screen);
        operator.wait_for("an age that goes on", |screen| age(screen) != first).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let frames = (*operator.glass.asked.borrow() - before) as f64;
        assert!(frames <= 2.0 + 1.5 * began.elapsed().as_secs_f64(), "{frames} frames in {:?}", began.elapsed());
    })
    .await;
}

fn exists(server: &Server, key: &str) -> bool {
    server.ask(&["EXISTS", key])
}

#[tokio::test]
async fn a_lock_is_freed_after_a_question_and_put_back() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:order", "worker-1", "PX", "600000"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:order") && screen.contains("live")).await;
        operator.press(KeyCode::Char('x'));
        let screen = operator.wait_for("read-only says so", |screen| screen.contains(":write turns writing on")).await;
        assert!(screen.contains("READ-ONLY"), "{screen}");
        operator.write(":write");
        operator.press(KeyCode::Enter);
        operator.wait_for("the banner", |screen| screen.contains("WRITING")).await;
        operator.press(KeyCode::Char('x'));
        let screen = operator.wait_for("the question", |screen| screen.contains("DEL lock:order")).await;
        assert!(screen.contains("held by   worker-1") && screen.contains("GET lock:order is worker-1"), "{screen}");
        operator.press(KeyCode::Enter);
        operator.wait_for("a word is needed", |screen| screen.contains("type y to free it")).await;
        assert!(exists(&server, "lock:order"));
        operator.press(KeyCode::Esc);
        operator.wait_for("left alone", |screen| !screen.contains("DEL lock:order")).await;
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("DEL lock:order")).await;
        operator.write("y the worker is gone");
        operator.press(KeyCode::Enter);
        operator.wait_for("freed", |screen| screen.contains("freed lock:order")).await;
        assert!(!exists(&server, "lock:order"));
        operator.press(KeyCode::Char('u'));
        operator.wait_for("the question", |screen| screen.contains("RESTORE lock:order")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        operator.wait_for("put back", |screen| screen.contains("put lock:order")).await;
        assert_eq!(server.ask::<String, _>(&["GET", "lock:order"]), "worker-1");
    })
    .await;
}

#[tokio::test]
async fn what_we_free_is_forced_at_once_and_what_we_put_back_is_no_new_hold() {
    let server = Server::notifying(&[]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("a live stream", |screen| screen.contains("live")).await;
        server.cli(&["SET", "lock:order", "worker-1", "PX", "600000"]);
        operator.wait_for("the lock", |screen| screen.contains("lock:order")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("DEL lock:order")).await;
        operator.write("y its host is down");
        operator.press(KeyCode::Enter);
        let screen =
            operator.wait_for("who freed it, and why", |screen| screen.contains("because \"its host is")).await;
        assert!(row(&screen, "FREE", "lock:order") && screen.contains(" ago by "), "{screen}");
        operator.press(KeyCode::Char('3'));
        let screen = operator.wait_for("the timeline", |screen| told(screen, "FREED", "lock:order") == 1).await;
        assert!(screen.contains("because \"its host is down\"; it was HELD"), "{screen}");
        operator.press(KeyCode::Char('v'));
        let screen = operator.wait_for("the event", |screen| screen.contains("forced    lock:order")).await;
        assert!(!screen.contains("released"), "{screen}");
        operator.press(KeyCode::Char('1'));
        operator.press(KeyCode::Char('u'));
        operator.wait_for("the question", |screen| screen.contains("RESTORE lock:order")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("who put it back", |screen| screen.contains("put back")).await;
        assert!(row(&screen, "HELD", "lock:order"), "{screen}");
        operator.press(KeyCode::Char('3'));
        let screen = operator.wait_for("the event", |screen| screen.contains("put back  lock:order")).await;
        assert_eq!(screen.matches("acquired").count(), 1, "{screen}");
        operator.press(KeyCode::Char('v'));
        operator.wait_for("the timeline", |screen| told(screen, "PUT BACK", "lock:order") == 1).await;
        operator.press(KeyCode::Char('v'));
        // Changes by others afterwards are not ours.
        server.cli(&["DEL", "lock:order"]);
        operator.wait_for("a release", |screen| screen.contains("released  lock:order")).await;
    })
    .await;
}

#[tokio::test]
async fn four_extensions_of_ours_leave_a_renewed_lock_its_rhythm() {
    let server = Server::notifying(&[]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("a live stream", |screen| screen.contains("live")).await;
        server.cli(&["SET", "lock:order", "worker-1", "PX", "30000"]);
        operator.wait_for("the lock", |screen| screen.contains("lock:order")).await;
        operator.press(KeyCode::Char('W'));
        let (done, renewals) = (std::cell::Cell::new(false), std::cell::Cell::new(0));
        let renewing = async {
            while !done.get() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                server.cli(&["PEXPIRE", "lock:order", "30000"]);
                renewals.set(renewals.get() + 1);
            }
        };
        let extending = async {
            for seconds in [61, 62, 63, 64] {
                operator.write(&format!(":extend {seconds}s"));
                operator.press(KeyCode::Enter);
                let question = format!("PEXPIRE lock:order {seconds}000");
                let (done, refused) = (format!("extended to 1m0{}s", seconds - 60), "lock:order was not ");
                loop {
                    operator.wait_for("the question", |screen| screen.contains(&question)).await;
                    operator.write("y");
                    operator.press(KeyCode::Enter);
                    let ended = |screen: &str| screen.contains(&done) || screen.contains(refused);
                    let screen = operator.wait_for("it is told who did it", ended).await;
                    if !screen.contains(refused) {
                        break;
                    }
                    // A renewal came under the question.
                    operator.hold(KeyCode::Char('r'), KeyModifiers::CONTROL);
                }
            }
            while renewals.get() < 6 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            operator.wait_for("a healthy lock", |screen| row(screen, "HELD", "lock:order")).await;
            done.set(true);
        };
        futures_util::future::join(renewing, extending).await;
        operator.press(KeyCode::Enter);
        let renewed = format!("{} seen", renewals.get());
        operator.wait_for("the renewals of the holder alone", |screen| screen.contains(&renewed)).await;
        operator.press(KeyCode::Char('3'));
        operator.wait_for("our writes", |screen| told(screen, "EXTENDED", "lock:order") == 4).await;
        operator.press(KeyCode::Char('v'));
        let screen = operator.wait_for("the events", |screen| screen.contains("renewed   lock:order")).await;
        assert_eq!(screen.matches("renewed   lock:order").count(), renewals.get(), "{screen}");
    })
    .await;
}

#[tokio::test]
async fn what_others_held_since_it_was_freed_is_not_put_back() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:order", "dead"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:order") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the gentler choice", |screen| screen.contains("PEXPIRE lock:order")).await;
        operator.press(KeyCode::Tab);
        operator.wait_for("the question", |screen| screen.contains("DEL lock:order")).await;
        operator.wait_for("whether it can be undone", |screen| screen.contains("undo      possible")).await;
        operator.write("y its worker is gone");
        operator.press(KeyCode::Enter);
        operator.wait_for("freed", |screen| screen.contains("freed lock:order")).await;
        // It was watched all the time, and nobody took it: no warning.
        operator.press(KeyCode::Char('u'));
        let screen = operator.wait_for("the question", |screen| screen.contains("RESTORE lock:order")).await;
        let asked: Vec<&str> = screen.lines().filter(|line| line.starts_with('│')).collect();
        assert!(asked.len() > 5 && !asked.join(" ").contains("not watched"), "{screen}");
        // A waiter takes the lock and frees it while the question is open.
        server.cli(&["SET", "lock:order", "alive", "PX", "60000"]);
        server.cli(&["DEL", "lock:order"]);
        server.cli(&["SET", "lock:fence", "f"]);
        operator.wait_for("all that was seen", |screen| screen.contains("lock:fence")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("refused", |screen| screen.contains("has held it since")).await;
        // The line break depends on how long ago it was.
        let said = screen.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("not put back") && said.contains("because \"its worker is gone\""), "{screen}");
        assert!(!exists(&server, "lock:order"));
        operator.press(KeyCode::Esc);
        operator.press(KeyCode::Char('u'));
        operator.wait_for("and at once", |screen| screen.contains("not put back: ")).await;
        assert!(!exists(&server, "lock:order"));
    })
    .await;
}

#[tokio::test]
async fn what_was_freed_before_the_console_began_is_put_back_with_a_word_of_doubt() {
    let server = Server::notifying(&[]);
    let settings = common::acting::settings(&server.url(), |_| {});
    let place = common::process::scratch("records-before");
    let mut acting = common::acting::Acting::on(&server).await;
    acting.journal = lockscope::actions::Journal::open_in(&place).unwrap();
    // A later write to another target does not hide this one.
    let other = Server::start();
    for server in [&server, &other] {
        server.cli(&["SET", "lock:order", "worker-1", "PX", "600000"]);
    }
    let lock = acting.see(b"lock:order", None).await.unwrap();
    acting.free(&lock, None).await;
    let mut elsewhere = common::acting::Acting::on(&other).await;
    elsewhere.journal = lockscope::actions::Journal::open_in(&place).unwrap();
    let lock = elsewhere.see(b"lock:order", None).await.unwrap();
    elsewhere.free(&lock, None).await;
    with_settings(&server.url(), settings, place, async |operator| {
        operator.wait_for("live", |screen| screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('u'));
        let screen = operator.wait_for("the question", |screen| screen.contains("RESTORE lock:order")).await;
        assert!(screen.contains("it was not watched all the"), "{screen}");
        operator.write("y");
        operator.press(KeyCode::Enter);
        operator.wait_for("put back", |screen| screen.contains("put lock:order")).await;
        assert!(exists(&server, "lock:order") && !exists(&other, "lock:order"));
    })
    .await;
}

#[tokio::test]
async fn what_changed_hands_under_the_question_is_refused() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:order", "worker-1", "PX", "600000"]);
    let settings = common::acting::settings(&server.url(), |_| {});
    let place = common::process::scratch("records-refused");
    with_settings(&server.url(), settings, place.clone(), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:order") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("DEL lock:order")).await;
        server.cli(&["SET", "lock:order", "worker-2", "PX", "600000"]);
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("refused", |screen| screen.contains("lock:order was not ")).await;
        assert!(screen.contains("it has another holder now: worker-2"), "{screen}");
        assert_eq!(server.ask::<String, _>(&["GET", "lock:order"]), "worker-2");
        operator.press(KeyCode::Esc);
    })
    .await;
    let (entries, _) = lockscope::actions::audit::read(&place).unwrap();
    assert_eq!(entries.last().unwrap()["outcome"], "refused");
}

#[tokio::test]
async fn what_was_renewed_under_the_question_is_asked_about_again_with_one_key() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:order", "worker-1", "PX", "20000"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:order") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        for (ask, runs, lease) in [('e', "PEXPIRE lock:order 60000", "25000"), ('x', "DEL lock:order", "90000")] {
            let confirm = || {
                operator.write("y");
                operator.press(KeyCode::Enter);
            };
            operator.press(KeyCode::Char(ask));
            operator.wait_for("the question", |screen| screen.contains(runs)).await;
            server.cli(&["PEXPIRE", "lock:order", lease]);
            confirm();
            let screen = operator.wait_for("refused", |screen| screen.contains("lock:order was not ")).await;
            assert!(screen.contains("ctrl-r looks again") && !screen.contains("--if-renewed"), "{screen}");
            assert!(server.ask::<i64, _>(&["PTTL", "lock:order"]) <= lease.parse().unwrap(), "nothing was written");
            operator.hold(KeyCode::Char('r'), KeyModifiers::CONTROL);
            operator.wait_for("the question, asked anew", |screen| screen.contains(runs)).await;
            confirm();
            let done = if ask == 'e' { "extended lock:order" } else { "freed lock:order" };
            operator.wait_for("it is done", |screen| screen.contains(done)).await;
        }
        assert!(!exists(&server, "lock:order"));
    })
    .await;
}

#[tokio::test]
async fn on_production_the_name_has_to_be_typed() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:order", "worker-1", "PX", "600000"]);
    server.cli(&["SET", "lock:forever", "worker-2"]);
    let settings = common::acting::settings(&server.url(), |global| {
        global.env = Some(lockscope::settings::cli::Environment::Prod)
    });
    with_settings(&server.url(), settings, common::process::scratch("records"), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:order") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.write("/order");
        operator.press(KeyCode::Enter);
        operator.wait_for("only that", |screen| !screen.contains("lock:forever")).await;
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("Type lock:order (")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        operator.wait_for("no", |screen| screen.contains("type lock:order to free it")).await;
        assert!(exists(&server, "lock:order"));
        operator.press(KeyCode::Backspace);
        operator.write("lock:order");
        operator.press(KeyCode::Enter);
        operator.wait_for("freed", |screen| screen.contains("freed lock:order")).await;
        assert!(!exists(&server, "lock:order"));
    })
    .await;
}

#[tokio::test]
async fn a_lock_without_an_end_is_offered_one_before_it_is_freed() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:forever", "worker-2"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:forever") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the gentler choice", |screen| screen.contains("PEXPIRE lock:forever 300000")).await;
        operator.press(KeyCode::Tab);
        operator.wait_for("the other one", |screen| screen.contains("DEL lock:forever")).await;
        operator.press(KeyCode::BackTab);
        operator.wait_for("the gentler choice", |screen| screen.contains("PEXPIRE lock:forever 300000")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        operator.wait_for("it has an end", |screen| screen.contains("extended lock:forever")).await;
        let ttl: i64 = server.ask(&["PTTL", "lock:forever"]);
        assert!((1..=300_000).contains(&ttl), "{ttl}");
    })
    .await;
}

#[tokio::test]
async fn marked_locks_without_an_end_get_one_by_one_answer() {
    let server = Server::notifying(&[]);
    let keys = ["lock:a", "lock:b", "lock:c"];
    keys.iter().for_each(|key| drop(server.cli(&["SET", key, "worker-2"])));
    server.cli(&["SET", "lock:ends", "worker-3", "PX", "600000"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the locks", |screen| screen.contains("4 locks") && screen.contains("live")).await;
        operator.write("W*x");
        let screen = operator.wait_for("the gentler choice", |screen| screen.contains("give 3 of 4 locks 5m00s")).await;
        assert!(!screen.contains("lock:ends  "), "it has an end: {screen}");
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("the results", |screen| screen.contains("┌ Result")).await;
        assert_eq!(screen.matches("extended lock:").count(), 3, "{screen}");
        for key in keys {
            let ttl: i64 = server.ask(&["PTTL", key]);
            assert!((1..=300_000).contains(&ttl), "{key}: {ttl}");
        }
        assert!(server.ask::<i64, _>(&["PTTL", "lock:ends"]) > 300_000);
        operator.press(KeyCode::Esc);
        operator.wait_for("the list again", |screen| !screen.contains("┌ Result")).await;
    })
    .await;
}

#[tokio::test]
async fn all_marked_locks_are_freed_and_each_outcome_is_listed() {
    let server = Server::notifying(&[]);
    for number in 0..5 {
        server.cli(&["SET", &format!("lock:{number}"), &format!("worker-{number}"), "PX", "600000"]);
    }
    with_console(&server.url(), async |operator| {
        operator.wait_for("the locks", |screen| screen.contains("5 locks") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.write("   ");
        operator.wait_for("marks", |screen| screen.contains("3 marked")).await;
        let marked: Vec<String> = (0..5).map(|number| format!("lock:{number}")).collect();
        operator.press(KeyCode::Char('x'));
        let screen = operator.wait_for("the question", |screen| screen.contains("free 3 locks")).await;
        let asked: Vec<&String> = marked
            .iter()
            .filter(|key| {
                screen.lines().any(|line| line.contains(*key) && line.contains("worker-") && line.contains("│ "))
            })
            .collect();
        // One of them changes hands while the question is open.
        server.cli(&["SET", asked[0], "worker-9", "PX", "600000"]);
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("the results", |screen| screen.contains("┌ Result;")).await;
        assert_eq!(screen.matches("freed lock:").count(), 2, "{screen}");
        assert_eq!(screen.matches("was not freed").count(), 1, "{screen}");
        let left: i64 = server.ask(&["DBSIZE"]);
        assert_eq!(left, 3);
        operator.press(KeyCode::Esc);
        operator.wait_for("the list again", |screen| !screen.contains("┌ Result;")).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_freed_together_is_put_back_together_and_what_can_not_be_is_named() {
    let server = Server::notifying(&[]);
    for number in 0..4 {
        server.cli(&["SET", &format!("lock:{number}"), &format!("worker-{number}"), "PX", "600000"]);
    }
    with_console(&server.url(), async |operator| {
        operator.wait_for("the locks", |screen| screen.contains("4 locks") && screen.contains("live")).await;
        operator.write("W*");
        operator.wait_for("marks", |screen| screen.contains("4 marked")).await;
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("free 4 locks")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("the results", |screen| screen.contains("u puts back; esc closes")).await;
        assert_eq!(screen.matches("freed lock:").count(), 4, "{screen}");
        assert_eq!(server.ask::<i64, _>(&["DBSIZE"]), 0);
        // Somebody takes one of them, and gives it back: it has had another holder.
        server.cli(&["SET", "lock:1", "worker-9", "PX", "600000"]);
        operator.press(KeyCode::Esc);
        operator.wait_for("the new holder", |screen| screen.contains("worker-9")).await;
        server.cli(&["DEL", "lock:1"]);
        operator.wait_for("its end", |screen| !screen.contains("worker-9 ")).await;
        operator.press(KeyCode::Char('u'));
        let screen = operator.wait_for("the question", |screen| screen.contains("put 3 locks back")).await;
        assert!(screen.contains("left out") && screen.contains("worker-9 has held it since"), "{screen}");
        operator.write("y");
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("the results", |screen| screen.contains("┌ Result;")).await;
        assert_eq!(screen.matches("put lock:").count(), 3, "{screen}");
        assert!(screen.contains("left out: not put back: worker-9 has held it since"), "{screen}");
        for (number, there) in [(0, true), (1, false), (2, true), (3, true)] {
            assert_eq!(exists(&server, &format!("lock:{number}")), there, "lock:{number}");
        }
        assert_eq!(server.ask::<String, _>(&["GET", "lock:2"]), "worker-2");
        operator.press(KeyCode::Esc);
        operator.wait_for("the list again", |screen| !screen.contains("┌ Result;")).await;
    })
    .await;
}

#[tokio::test]
async fn a_table_too_large_for_one_frame_is_ordered_all_the_same() {
    let server = Server::notifying(&[]);
    let mut pipe = redis::pipe();
    for n in 0..12_000 {
        pipe.cmd("SET").arg(format!("lock:{n:05}")).arg(format!("worker-{n}")).arg("PX").arg(600_000 + n).ignore();
    }
    pipe.exec(&mut server.connection()).unwrap();
    with_console(&server.url(), async |operator| {
        operator.wait_for("all locks", |screen| screen.contains("12,000 locks")).await;
        server.cli(&["SET", "lock:forever", "worker"]);
        operator.wait_for("the worst first", |screen| above(screen, "lock:forever", "lock:0")).await;
        operator.write("/lock:07 or forever");
        operator.press(KeyCode::Enter);
        operator.wait_for("what matches", |screen| screen.contains("1 of 1001") && screen.contains("lock:07")).await;
        operator.press(KeyCode::Esc);
        // Keys typed ahead apply to the rows that they asked for.
        operator.write(":sort key");
        operator.press(KeyCode::Enter);
        operator.press(KeyCode::Char('g'));
        operator.wait_for("another order", |screen| above(screen, "lock:00000", "lock:00001")).await;
        operator.press(KeyCode::Char('G'));
        operator.wait_for("the last", |screen| screen.contains("12001 of 12001")).await;
        operator.write("/lock:07123");
        operator.press(KeyCode::Enter);
        operator.press(KeyCode::Enter);
        operator
            .wait_for("the lock that was asked for", |screen| {
                screen.contains("worker-7123") && screen.contains("renewals")
            })
            .await;
    })
    .await;
}

#[tokio::test]
async fn keys_that_can_not_be_read_end_the_console_with_the_reason() {
    let server = Server::notifying(&[]);
    let mut console = Console::open(&server.url()).await;
    let broken = futures_util::stream::iter([Err(io::Error::other("the keyboard is gone"))]);
    let ended = console.run(broken).await;
    assert_eq!(ended.unwrap_err().to_string(), "the keyboard is gone");
    let closed = futures_util::stream::empty();
    assert!(console.run(closed).await.is_ok(), "nobody is there any more");
}

#[tokio::test]
async fn the_console_can_be_woken_by_every_key() {
    let server = Server::notifying(&[]);
    let mut console = Console::open(&server.url()).await;
    let mut keys = ["j", "k", "s", "q"]
        .map(|key| Input::Key(KeyEvent::new(key.parse().map(KeyCode::Char).unwrap(), KeyModifiers::NONE)))
        .into_iter();
    let (mut asked, mut first) = (0, None);
    // Every second poll is pending. Crossterm keeps the waker of the first pending poll.
    let input = futures_util::stream::poll_fn(move |context| {
        let first = first.get_or_insert_with(|| context.waker().clone());
        assert!(first.will_wake(context.waker()), "this waker does not wake the console");
        asked += 1;
        if asked % 2 == 0 { Poll::Ready(keys.next().map(Ok)) } else { Poll::Pending }
    });
    console.run(input).await.unwrap();
}

#[tokio::test]
async fn a_test_lock_is_told_from_others_and_is_gone_with_the_console() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:theirs", "worker-7", "PX", "600000"]);
    let settings = common::acting::settings(&server.url(), |global| global.write = true);
    with_settings(&server.url(), settings, common::process::scratch("lab-records"), async |operator| {
        operator.wait_for("the first walk", |screen| screen.contains("1 lock")).await;
        operator.write("W");
        operator.wait_for("writing", |screen| screen.contains("WRITING")).await;
        operator.write("a");
        operator.press(KeyCode::Enter);
        let both = |screen: &str| row(screen, "TEST", "lock:test") && row(screen, "HELD", "lock:theirs");
        let screen = operator.wait_for("both locks", both).await;
        assert!(screen.contains("1 test"), "{screen}");
        operator.write("6++");
        let counts = |screen: &str| screen.contains("2 contenders: ") && screen.contains("=c");
        operator.wait_for("what is counted", counts).await;
        assert!(exists(&server, "lock:test"));
    })
    .await;
    assert!(!exists(&server, "lock:test") && exists(&server, "lock:theirs"));
}

#[tokio::test]
async fn many_long_values_are_compared_whole() {
    let server = Server::notifying(&[]);
    let value = |last: u8| [&vec![b'x'; 2_000][..], &[last]].concat();
    for key in ["lock:one", "lock:two"] {
        server.cli(&[b"SET", key.as_bytes(), &value(b'a'), b"PX", b"600000"]);
    }
    let settings = common::acting::settings(&server.url(), |global| global.patterns = vec!["lock:*".into()]);
    with_settings(&server.url(), settings, common::process::scratch("records"), async |operator| {
        operator.wait_for("the locks", |screen| screen.contains("lock:two") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('*'));
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("free 2 locks")).await;
        server.cli(&[&b"SET"[..], b"lock:two", &value(b'b'), b"KEEPTTL"]);
        operator.write("y");
        operator.press(KeyCode::Enter);
        let told = |screen: &str| screen.contains("freed lock:") && screen.contains("lock:two was not freed");
        let screen = operator.wait_for("the results", told).await;
        assert!(screen.contains("it has another holder now"), "{screen}");
        assert!(!exists(&server, "lock:one") && exists(&server, "lock:two"));
        operator.press(KeyCode::Esc);
    })
    .await;
}

#[tokio::test]
async fn a_number_that_may_count_is_named_and_one_that_counts_gets_a_permit() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:import", "3"]);
    let settings = common::acting::settings(&server.url(), |_| {});
    with_settings(&server.url(), settings, common::process::scratch("records"), async |operator| {
        operator.wait_for("the lock", |screen| screen.contains("lock:import") && screen.contains("live")).await;
        operator.press(KeyCode::Char('W'));
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("may count the permits")).await;
        operator.press(KeyCode::Esc);
        server.cli(&["DECR", "lock:import"]);
        operator.wait_for("a semaphore", |screen| screen.contains("redisson")).await;
        operator.press(KeyCode::Char('x'));
        operator.wait_for("the question", |screen| screen.contains("INCRBY lock:import 1")).await;
        operator.write("y");
        operator.press(KeyCode::Enter);
        operator.wait_for("the result", |screen| screen.contains("gave ")).await;
        assert_eq!(server.ask::<String, _>(&["GET", "lock:import"]), "3");
    })
    .await;
}

#[tokio::test]
async fn buckets_are_one_row_and_what_else_a_holder_holds_is_one_key_away() {
    let server = Server::notifying(&[]);
    for bucket in 0..64 {
        let key = format!("lock:stock:{bucket}");
        let lease: &[&str] = if bucket == 17 { &[] } else { &["PX", "600000"] };
        server.cli(&[&["SET", &key, "worker-7"], lease].concat());
    }
    server.cli(&["SET", "lock:nightly", "worker-7", "PX", "600000"]);
    server.cli(&["SET", "lock:other", "worker-8", "PX", "600000"]);
    with_console(&server.url(), async |operator| {
        operator.wait_for("the first walk", |screen| screen.contains("66 locks")).await;
        operator.write("bp");
        let buckets = "64 lock:stock:*";
        let screen = operator.wait_for("the groups", |screen| screen.contains(buckets)).await;
        let line = |screen: &str| screen.lines().find(|line| line.contains(buckets)).unwrap_or_default().to_string();
        assert!(line(&screen).contains("1 NO-TTL: lock:stock:17"), "{screen}");
        // Repaired from outside, the row says so.
        server.cli(&["PEXPIRE", "lock:stock:17", "600000"]);
        operator.wait_for("nothing is odd any more", |screen| line(screen).contains("HELD")).await;
        operator.press(KeyCode::Home);
        operator.press(KeyCode::Enter);
        operator.wait_for("the locks of the group", |screen| screen.contains("pattern: ")).await;
        operator.press(KeyCode::Esc);
        operator.wait_for("the groups again", |screen| screen.contains("PATTERN")).await;
        operator.write("bb/nightly");
        operator.press(KeyCode::Enter);
        operator.wait_for("one lock", |screen| screen.contains("1 of 1")).await;
        operator.press(KeyCode::Char('o'));
        let screen = operator.wait_for("what else it holds", |screen| screen.contains("of 65")).await;
        assert!(!screen.contains("lock:other"), "{screen}");
        operator.press(KeyCode::Esc);
        operator.wait_for("back, with the filter", |screen| screen.contains("1 of 1")).await;
    })
    .await;
}

#[tokio::test]
async fn a_planted_lock_without_an_end_fires_and_one_key_leads_to_it() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:fine", "worker-1", "PX", "600000"]);
    let rules = "default_rules = false\n[[rules]]\nname = \"NoEnd\"\nmetric = \"lockscope_locks\"\n\
        selector = \"state:no-ttl\"\nabove = 0\nfor = \"6s\"\nseverity = \"page\"\nnote = \"Give it an end.\"\n";
    with_rules(&server.url(), rules, async |operator| {
        operator.wait_for("the first walk", |screen| screen.contains("1 lock")).await;
        operator.press(KeyCode::Char('4'));
        operator.wait_for("nothing fires", |screen| screen.contains("inactive") && screen.contains("NoEnd")).await;
        server.cli(&["SET", "lock:forever:17", "worker-2"]);
        operator.wait_for("it is pending", |screen| screen.contains("PENDING") && screen.contains("1 pending")).await;
        let screen = operator.wait_for("it fires", |screen| screen.contains("FIRING")).await;
        assert!(screen.contains("1 firing") && screen.contains("lock:forever:*"), "{screen}");
        operator.wait_for("the lock behind it", |screen| screen.contains("behind it: lock:forever:17")).await;
        operator.press(KeyCode::Enter);
        let screen = operator.wait_for("the locks", |screen| screen.contains("pattern: lock:forever")).await;
        assert!(row(&screen, "NO-TTL", "lock:forever:17") && screen.contains("1 firing"), "{screen}");
        operator.press(KeyCode::Esc);
        operator.wait_for("the alerts again", |screen| screen.contains("Give it an end.")).await;
        server.cli(&["DEL", "lock:forever:17"]);
        operator.wait_for("it is over", |screen| screen.contains("inactive") && !screen.contains("firing")).await;
    })
    .await;
}
