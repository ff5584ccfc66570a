//! The console's only loop: waits for keys, changes and the clock, updates the app, draws when something changed.
//!
//! Generic over the terminal's backend and the stream of input, so that tests run the whole console in process. Redis
//! is never awaited here: the engine's own tasks speak to it.

use std::future::{pending, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crossterm::event::{Event as Input, KeyEventKind};
use futures_util::{Stream, StreamExt};
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tokio::time::{Instant, MissedTickBehavior};

use crate::app::scene::Others;
use crate::app::{App, Effect, Event, Screen, Wish};
use crate::console::driver::{Known, Meter, World, compose, drive, take_news, target_label};
use crate::console::operator::Operator;
use crate::engine::Engine;
use crate::lab::{Order, Wanted};
use crate::model::LockView;
use crate::views;

/// Time between two frames when only data changed.
const DATA_FRAME: Duration = Duration::from_millis(100);
/// Time between two frames when only bars count down.
const CLOCK_FRAME: Duration = Duration::from_millis(200);
/// Time between two frames when only ages change.
const AGE_FRAME: Duration = Duration::from_millis(1_000);

/// Time between two moments for the alert rules.
pub const MEASURED: Duration = Duration::from_millis(1_000);

/// What the loop needs of a terminal besides drawing.
pub trait Tty {
    /// Called before and after a frame, so that the terminal shows it as a whole.
    fn begin_frame(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn end_frame(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn copy(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }
    fn mouse(&mut self, _on: bool) -> io::Result<()> {
        Ok(())
    }
    /// Gives the terminal back to the shell and stops the process; returns when the terminal is ours again.
    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Resolves when a signal asks the process to end.
    fn told_to_end(&mut self) -> impl Future<Output = ()>;
}

/// Runs the console until the user quits.
pub async fn run<B: Backend<Error = io::Error>>(
    app: &mut App,
    engine: &mut Engine,
    operator: &mut Operator,
    terminal: &mut Terminal<B>,
    tty: &mut impl Tty,
    input: impl Stream<Item = io::Result<Input>> + Unpin,
) -> io::Result<()> {
    let mut reader = engine.reader();
    let mut hand = Hand { input, held: None };
    let canvas = Canvas { drawn: Instant::now(), shown: Buffer::default(), cursor: None };
    let mut world = Real { engine, operator, terminal, tty, canvas };
    world.draw(app)?;
    let meter = Meter::of(app);
    let mut second = tokio::time::interval(MEASURED);
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut changed = false;
    loop {
        let pause = match changed {
            true => DATA_FRAME,
            false if app.scene.moves() => CLOCK_FRAME,
            false => AGE_FRAME,
        };
        let effects = tokio::select! {
            biased;
            _ = world.tty.told_to_end() => return Ok(()),
            event = hand.next(app.awaits_order()) => {
                let Some(event) = event else { return Ok(()) };
                let mut effects = hand.take(event?, app, world.engine);
                // Takes all queued keys before the next frame.
                while let Some(event) = hand.next_at_once(app.awaits_order()).await {
                    effects.extend(hand.take(event?, app, world.engine));
                }
                effects
            }
            _ = tokio::time::sleep_until(world.canvas.drawn + pause), if changed || !app.display.paused => Vec::new(),
            _ = second.tick() => {
                let effects = meter.measure(app, world.engine, &mut world.operator.chronicle);
                if drive(app, effects, &mut world)?.is_break() {
                    return Ok(());
                }
                changed |= !app.display.paused;
                continue;
            }
            // Lets other tasks run between two slices.
            _ = tokio::task::yield_now(), if app.is_ordering() => {
                if !order_on(app, world.engine) {
                    continue;
                }
                Vec::new()
            }
            done = world.operator.next() => app.update(done, world.engine.clock.now()),
            news = world.engine.next() => {
                let noticed = app.notice.is_some();
                let effects = take_news(app, world.engine, &mut reader);
                if drive(app, effects, &mut world)?.is_break() {
                    return Ok(());
                }
                changed |= news || app.notice.is_some() != noticed;
                // A flood of events keeps the engine always ready; sorting and frames must get their turn too.
                let ordered = order_on(app, world.engine);
                if !(ordered || changed && Instant::now() >= world.canvas.drawn + DATA_FRAME) {
                    continue;
                }
                Vec::new()
            }
        };
        if drive(app, effects, &mut world)?.is_break() {
            return Ok(());
        }
        world.draw(app)?;
        changed = false;
    }
}

/// What comes from the keyboard and the mouse.
struct Hand<S> {
    input: S,
    /// A key meant for rows that are not sorted yet. It waits for them, and so do all later keys.
    held: Option<Input>,
}

impl<S: Stream<Item = io::Result<Input>> + Unpin> Hand<S> {
    async fn next(&mut self, awaits_order: bool) -> Option<io::Result<Input>> {
        if self.held.is_none() {
            return self.input.next().await;
        }
        if awaits_order {
            pending().await
        }
        self.held.take().map(Ok)
    }

    /// Input that is already there. Polled with this task's own waker, because crossterm wakes only the first poller.
    async fn next_at_once(&mut self, awaits_order: bool) -> Option<io::Result<Input>> {
        let mut next = pin!(self.next(awaits_order));
        let asked = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
        if let Poll::Ready(input) = asked { input } else { None }
    }

    fn take(&mut self, input: Input, app: &mut App, engine: &Engine) -> Vec<Effect> {
        let acts_on_rows = match &input {
            Input::Key(key) => app.acts_on_rows(*key),
            Input::Mouse(_) => app.in_list(),
            _ => false,
        };
        if acts_on_rows && app.awaits_order() {
            self.held = Some(input);
            return Vec::new();
        }
        take_input(app, engine, input)
    }
}

fn take_input(app: &mut App, engine: &Engine, input: Input) -> Vec<Effect> {
    let event = match input {
        Input::Key(key) if key.kind != KeyEventKind::Release => Event::Key(key),
        Input::Mouse(mouse) => Event::Mouse(mouse),
        Input::Paste(text) => Event::Paste(text),
        Input::Resize(width, height) => Event::Resize(width, height),
        Input::Key(_) | Input::FocusGained | Input::FocusLost => return Vec::new(),
    };
    let now = engine.clock.now();
    let effects = app.update(event, now);
    // What is typed into a filter changes the list once a frame, not once a key.
    if !app.is_typing() {
        compose(app, Known::of(engine), others_of(app, engine));
    }
    effects
}

/// Continues sorting the locks for one slice, if a sort is under way. Returns whether a new order is ready.
fn order_on(app: &mut App, engine: &Engine) -> bool {
    app.is_ordering() && app.order_on(engine.table(), engine.clock.now())
}

/// The engine, the operator and the terminal, as the app's effects reach them.
struct Real<'a, B: Backend<Error = io::Error>, T: Tty> {
    engine: &'a mut Engine,
    operator: &'a mut Operator,
    terminal: &'a mut Terminal<B>,
    tty: &'a mut T,
    canvas: Canvas,
}

impl<B: Backend<Error = io::Error>, T: Tty> World for Real<'_, B, T> {
    fn known(&self) -> Known<'_> {
        Known::of(self.engine)
    }

    fn prove(&mut self, wish: Wish, locks: Vec<LockView>) -> Option<Event> {
        self.operator.see(wish, locks);
        None
    }

    fn carry_out(&mut self, effect: Effect, app: &App) -> io::Result<ControlFlow<(), Option<Event>>> {
        let writes = app.writing.is_on(self.engine.clock.now());
        match effect {
            Effect::Quit => return Ok(ControlFlow::Break(())),
            Effect::Rescan => self.engine.scan(),
            Effect::Copy(text) => self.tty.copy(&text)?,
            Effect::Mouse(on) => self.tty.mouse(on)?,
            Effect::Sample(on) => self.engine.sample(on),
            Effect::Recall => self.operator.recall(),
            Effect::Foresee(plans) => self.operator.foresee(plans),
            Effect::Perform(plans, reason) => self.operator.perform(plans, reason, writes),
            Effect::Stop => self.operator.stop(),
            Effect::Tune(order) => self.operator.tune(order),
            Effect::Lab(id, order) => {
                if let Order::Take(Wanted { key, token: Some(token), .. }) = &order {
                    self.engine.expect_test(key.clone(), token.clone());
                }
                self.operator.lab.obey(id, order, writes);
            }
            Effect::Record(path) => self.operator.record(path, &target_label(app), self.engine),
            Effect::Go(name) => self.operator.switch.go(name),
            Effect::Stay => self.operator.switch.stay(),
            Effect::Bundle(bundle, key, folder, reveal) => self.operator.bundle(*bundle, key, folder, reveal),
            Effect::Inspect(id) => self.engine.inspect(id.space, &id.key),
            Effect::Redraw => self.canvas.clear(self.terminal)?,
            Effect::Suspend => {
                self.tty.suspend()?;
                if app.display.mouse {
                    self.tty.mouse(true)?;
                }
                self.canvas.clear(self.terminal)?;
            }
            // The driver answers these from the table.
            Effect::See(..) | Effect::Retrace(_) | Effect::Gather(..) => {}
        }
        Ok(ControlFlow::Continue(None))
    }
}

impl<B: Backend<Error = io::Error>, T: Tty> Real<'_, B, T> {
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        let Real { engine, terminal, tty, canvas, .. } = self;
        canvas.drawn = Instant::now();
        terminal.autoresize()?;
        let area = terminal.get_frame().area();
        if app.display.size != (area.width, area.height) {
            app.update(Event::Resize(area.width, area.height), engine.clock.now());
        }
        compose(app, Known::of(engine), others_of(app, engine));
        let cursor = views::draw(&mut terminal.get_frame(), app);
        app.was_shown(views::question(app));
        let frame = terminal.current_buffer_mut();
        if *frame == canvas.shown && cursor == canvas.cursor {
            frame.reset();
            return Ok(());
        }
        canvas.shown.clone_from(frame);
        canvas.cursor = cursor;
        tty.begin_frame()?;
        terminal.apply_buffer_with_cursor(cursor)?;
        tty.end_frame()
    }
}

/// What is on the terminal now: a frame is drawn only if it differs.
struct Canvas {
    drawn: Instant,
    shown: Buffer,
    cursor: Option<Position>,
}

impl Canvas {
    /// Forgets what was drawn, because the terminal may have changed.
    fn clear<B: Backend<Error = io::Error>>(&mut self, terminal: &mut Terminal<B>) -> io::Result<()> {
        self.shown = Buffer::default();
        // `Terminal::clear` asks the terminal for its cursor, and the reader of keys would take the answer.
        terminal.resize(Rect::from((Position::ORIGIN, terminal.size()?)))
    }
}

/// The replicas are only on the Servers screen, the sentinels in the header.
fn others_of(app: &App, engine: &Engine) -> Others {
    Others::of(engine, app.page.screen == Screen::Servers)
}
