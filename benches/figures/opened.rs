//! A console in its own thread on a screen of 140x40. The benchmark presses its keys, reads its screen and meters it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use lockscope::alerts::Rules;
use lockscope::app::theme::Theme;
use lockscope::app::{App, Title};
use lockscope::console::operator::Operator;
use lockscope::console::run::{Tty, run};
use lockscope::dialects::Recogniser;
use lockscope::engine::Options;
use lockscope::settings::keys::Keys;
use lockscope::sources::pace::Pace;
use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, TestBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use tokio::sync::mpsc;

use crate::common::engine::{endpoint_at, start};
use crate::common::process::scratch;
use crate::machine::{Scheduled, thread_id, thread_time};

const SIZE: (u16, u16) = (140, 40);
/// The columns of the locks' keys on the screen.
const KEY_COLUMN: std::ops::Range<usize> = 11..49;
const PATIENCE: Duration = Duration::from_secs(120);

/// An open console.
pub struct Console {
    keys: mpsc::UnboundedSender<Input>,
    screen: Arc<Mutex<TestBackend>>,
    selections: std_mpsc::Receiver<Selection>,
    thread: JoinHandle<()>,
    thread_id: u32,
    frames: Arc<Mutex<Vec<Duration>>>,
    turns: Arc<Mutex<Vec<Duration>>>,
}

/// Another lock is selected on the screen.
pub struct Selection {
    pub at: Instant,
    /// How long the console's thread had waited for a processor by then.
    pub waited: Duration,
    /// What its row shows of its key.
    pub key: String,
}

impl Console {
    /// Opens it as `lockscope` does by default.
    pub fn open(url: &str) -> Console {
        let (keys, mut pressed) = mpsc::unbounded_channel();
        let (seen, selections) = std_mpsc::channel();
        let (here, there) = std_mpsc::channel();
        let screen = Arc::new(Mutex::new(TestBackend::new(SIZE.0, SIZE.1)));
        let frames = Arc::new(Mutex::new(Vec::new()));
        let turns = Arc::new(Mutex::new(Vec::new()));
        let (url, shown, costs, looks) = (url.to_string(), screen.clone(), frames.clone(), turns.clone());
        let thread = std::thread::spawn(move || {
            here.send(thread_id()).expect("somebody opens the console");
            let began = Rc::new(RefCell::new(Duration::ZERO));
            let mut meter = Meter { began: began.clone(), frames: costs };
            let glass = Glass { screen: shown, began, seen, selected: None };
            let mut looked = thread_time();
            let input = futures_util::stream::poll_fn(move |context| {
                let before = std::mem::replace(&mut looked, thread_time());
                looks.lock().expect("an operator that lives").push(looked - before);
                pressed.poll_recv(context).map(|key| key.map(Ok))
            });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let ended = runtime.block_on(async {
                let (mut engine, topology) =
                    start(&endpoint_at(&url), Options::following(Recogniser::default(), Pace::POLITE)).await;
                let settings = crate::common::acting::settings(&url, |_| {});
                let mut operator =
                    Operator::new(&settings, &topology, engine.observer(), &url, Some(scratch("records")));
                let title = Title { target: url.clone(), environment: None, ..Title::default() };
                let mut app = App::new(title, Keys::default(), Theme { color: true, ascii: false });
                app.watch_rules(Rules::default_rules());
                let mut terminal = Terminal::new(glass)?;
                run(&mut app, &mut engine, &mut operator, &mut terminal, &mut meter, input).await
            });
            ended.expect("the console ends well");
        });
        let thread_id = there.recv().expect("a thread that says its number");
        Console { keys, screen, selections, thread, thread_id, frames, turns }
    }

    pub fn press(&self, code: KeyCode) {
        self.keys.send(Input::Key(KeyEvent::new(code, KeyModifiers::NONE))).expect("the console is open");
    }

    /// Waits until the screen shows this.
    pub fn wait_for(&self, text: &str) {
        let began = Instant::now();
        while !self.text().contains(text) {
            assert!(began.elapsed() < PATIENCE, "waited in vain for {text:?}:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the selection changes after [`Console::forget_selections`].
    pub fn next_selection(&self) -> Selection {
        self.selections.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no other lock is selected:\n{}", self.text()))
    }

    pub fn forget_selections(&self) {
        self.selections.try_iter().for_each(drop);
    }

    pub fn text(&self) -> String {
        let screen = self.screen.lock().expect("a console that lives");
        screen.buffer().content.iter().map(Cell::symbol).collect()
    }

    /// How long its thread has run and waited so far.
    pub fn scheduled(&self) -> Scheduled {
        Scheduled::of(self.thread_id)
    }

    /// The processor time of each frame since the last call.
    pub fn take_frames(&self) -> Vec<Duration> {
        std::mem::take(&mut self.frames.lock().expect("a console that lives"))
    }

    /// The processor time between each two polls for keys since the last call: a key waits at most that long.
    pub fn take_turns(&self) -> Vec<Duration> {
        std::mem::take(&mut self.turns.lock().expect("a console that lives"))
    }

    pub fn quit(self) {
        self.press(KeyCode::Char('q'));
        self.thread.join().expect("the console ends well");
    }
}

/// The screen: reports when another lock is selected. The console asks for its size when it begins a frame.
struct Glass {
    screen: Arc<Mutex<TestBackend>>,
    began: Rc<RefCell<Duration>>,
    seen: std_mpsc::Sender<Selection>,
    selected: Option<String>,
}

impl Glass {
    fn tell_selection(&mut self) {
        let screen = self.screen.lock().expect("an operator that lives");
        let mut rows = screen.buffer().content.chunks(usize::from(SIZE.0));
        let selected = rows.find(|row| row[0].symbol() == "▌");
        let selected = selected.map(|row| row[KEY_COLUMN].iter().map(Cell::symbol).collect::<String>());
        if selected != self.selected {
            self.selected = selected;
            let waited = Scheduled::of(thread_id()).waited;
            let key = self.selected.clone().unwrap_or_default();
            // The benchmark may have stopped listening.
            let _ = self.seen.send(Selection { at: Instant::now(), waited, key });
        }
    }

    fn on_screen<T, E>(&self, act: impl FnOnce(&mut TestBackend) -> Result<T, E>) -> io::Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        act(&mut self.screen.lock().expect("an operator that lives")).map_err(io::Error::other)
    }
}

impl Backend for Glass {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        self.on_screen(|screen| screen.draw(content))
    }
    fn hide_cursor(&mut self) -> io::Result<()> {
        self.on_screen(TestBackend::hide_cursor)
    }
    fn show_cursor(&mut self) -> io::Result<()> {
        self.on_screen(TestBackend::show_cursor)
    }
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.on_screen(TestBackend::get_cursor_position)
    }
    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.on_screen(|screen| screen.set_cursor_position(position))
    }
    fn clear(&mut self) -> io::Result<()> {
        self.on_screen(TestBackend::clear)
    }
    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.on_screen(|screen| screen.clear_region(region))
    }
    fn size(&self) -> io::Result<Size> {
        self.began.replace(thread_time());
        self.on_screen(|screen| screen.size())
    }
    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.on_screen(TestBackend::window_size)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.on_screen(TestBackend::flush)?;
        self.tell_selection();
        Ok(())
    }
}

/// Measures each frame that differs from the previous one: composing, drawing and writing it to the screen.
struct Meter {
    began: Rc<RefCell<Duration>>,
    frames: Arc<Mutex<Vec<Duration>>>,
}

impl Tty for Meter {
    fn end_frame(&mut self) -> io::Result<()> {
        let cost = thread_time() - *self.began.borrow();
        self.frames.lock().expect("an operator that lives").push(cost);
        Ok(())
    }

    async fn told_to_end(&mut self) {
        std::future::pending().await
    }
}
