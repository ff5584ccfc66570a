//! The console's only loop: waits for keys, changes and the clock, updates the app, draws when something changed.
//!
//! Generic over the terminal's backend and the stream of input, so that tests run the whole console in process. Redis
//! is never awaited here: the engine's own tasks speak to it.

use std::collections::VecDeque;
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
use tokio::time::Instant;

use crate::actions::{Performed, Plan, Refusal};
use crate::app::{App, Effect, Event, LockId, Since};
use crate::console::operator::Operator;
use crate::engine::Engine;
use crate::lab::{Order, Wanted};
use crate::lock::KeyspaceId;
use crate::model::State;
use crate::views;

/// Between two frames that only data asked for.
const DATA_FRAME: Duration = Duration::from_millis(100);
/// Between two frames of bars that count down.
const CLOCK_FRAME: Duration = Duration::from_millis(200);
/// Between two frames in which only ages go on.
const AGE_FRAME: Duration = Duration::from_millis(1_000);

/// What the loop needs of a terminal beside drawing.
pub trait Tty {
    /// Before and after a frame, so that it appears at once.
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
    /// Gives the terminal back to the shell and stops; returns when it is ours again.
    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Resolves when the process is told to end.
    fn told_to_end(&mut self) -> impl Future<Output = ()>;
}

/// Runs the console until somebody quits.
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
    let mut canvas = Canvas { drawn: Instant::now(), shown: Buffer::default(), cursor: None };
    canvas.draw(app, engine, terminal, tty)?;
    let mut changed = false;
    loop {
        let pause = match changed {
            true => DATA_FRAME,
            false if app.scene.moves() => CLOCK_FRAME,
            false => AGE_FRAME,
        };
        tokio::select! {
            biased;
            _ = tty.told_to_end() => return Ok(()),
            event = hand.next(app.awaits_order()) => {
                let Some(event) = event else { return Ok(()) };
                let mut effects = hand.take(event?, app, engine);
                // Keys that wait already are taken before anything is drawn.
                while let Some(event) = hand.next_at_once(app.awaits_order()).await {
                    effects.extend(hand.take(event?, app, engine));
                }
                if canvas.perform(effects, app, engine, operator, terminal, tty)?.is_break() {
                    return Ok(());
                }
                canvas.draw(app, engine, terminal, tty)?;
                changed = false;
            }
            _ = tokio::time::sleep_until(canvas.drawn + pause), if changed || !app.paused => {
                canvas.draw(app, engine, terminal, tty)?;
                changed = false;
            }
            // Whoever waits for their turn gets it between two slices.
            _ = tokio::task::yield_now(), if app.is_ordering() => {
                if order_on(app, engine) {
                    canvas.draw(app, engine, terminal, tty)?;
                    changed = false;
                }
            }
            done = operator.next() => {
                let effects = app.update(done, engine.clock.now());
                if canvas.perform(effects, app, engine, operator, terminal, tty)?.is_break() {
                    return Ok(());
                }
                canvas.draw(app, engine, terminal, tty)?;
            }
            news = engine.next() => {
                let told = app.notice.is_some();
                let (changes, left_out) = reader.take();
                let mut effects = app.update(Event::Changes(changes, left_out), engine.clock.now());
                if let Some((space, key, found)) = engine.take_inspected() {
                    effects.extend(app.update(Event::Inspected(LockId { space, key }, found), engine.clock.now()));
                }
                if canvas.perform(effects, app, engine, operator, terminal, tty)?.is_break() {
                    return Ok(());
                }
                changed |= news || app.notice.is_some() != told;
                // A flood keeps the engine ready all the time; the order and frames have their turn nevertheless.
                let ordered = order_on(app, engine);
                if ordered || changed && Instant::now() >= canvas.drawn + DATA_FRAME {
                    canvas.draw(app, engine, terminal, tty)?;
                    changed = false;
                }
            }
        }
    }
}

/// What comes from the keyboard and the mouse.
struct Hand<S> {
    input: S,
    /// Meant for rows that are not there yet: it waits for them, and whatever comes after it too.
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

    /// What is there already. Asked for as the task that we are: crossterm wakes only whoever asked first.
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
    compose(app, engine);
    effects
}

fn compose(app: &mut App, engine: &Engine) {
    let rows = views::list_rows(app);
    app.compose(engine.table(), engine.nodes(), engine.clock.now(), rows);
    app.bound_scrolling(views::scroll_most(app), views::help_most(app));
}

/// Works on the order of the locks for a moment, if it is being worked out. Says whether there is a new one.
fn order_on(app: &mut App, engine: &Engine) -> bool {
    app.is_ordering() && app.order_on(engine.table(), engine.clock.now())
}

/// Has it done, unless somebody has held the lock since that is to be put back: it may have been while the question stood.
fn perform(plans: Vec<Plan>, reason: Option<String>, app: &mut App, engine: &Engine, operator: &mut Operator) {
    let now = engine.clock.now();
    let recalled = app.writing.recalled.as_deref();
    let spoiled = plans.iter().find_map(|plan| {
        let watched = engine.watched_since(plan.space, &plan.key);
        match Since::of_plan(plan, recalled, engine.table(), watched, now) {
            Some(Since::Held(why)) => Some((plan.clone(), why)),
            _ => None,
        }
    });
    let Some((plan, why)) = spoiled else {
        return operator.perform(plans, reason, app.writing.is_on(now));
    };
    let refused = Performed::refused(String::new(), Refusal::Moved(why));
    app.update(Event::Performed(Box::new(plan), Box::new(refused)), now);
    app.update(Event::AllPerformed, now);
}

/// What is on the terminal now: only what differs from it is worth a frame.
struct Canvas {
    drawn: Instant,
    shown: Buffer,
    cursor: Option<Position>,
}

impl Canvas {
    /// Does what the app asks for; a break ends the console.
    fn perform<B: Backend<Error = io::Error>>(
        &mut self,
        effects: Vec<Effect>,
        app: &mut App,
        engine: &mut Engine,
        operator: &mut Operator,
        terminal: &mut Terminal<B>,
        tty: &mut impl Tty,
    ) -> io::Result<ControlFlow<()>> {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Quit => return Ok(ControlFlow::Break(())),
                Effect::Rescan => engine.scan(),
                Effect::Copy(text) => tty.copy(&text)?,
                Effect::Mouse(on) => tty.mouse(on)?,
                Effect::Sample(on) => engine.sample(on),
                Effect::See(wish, ids) => {
                    let (now, table) = (engine.clock.now(), engine.table());
                    let view = |id: &LockId| table.view(table.lock_named(id.space, id.key.as_bytes())?, now);
                    let locks = ids.iter().filter_map(view).filter(|lock| lock.verdict.state != State::Free).collect();
                    operator.see(wish, locks);
                }
                Effect::Recall => operator.recall(),
                Effect::Retrace(kept) => {
                    let now = engine.clock.now();
                    let watched = engine.watched_since(KeyspaceId::FIRST, &kept.lock());
                    let since = Since::of(&kept, engine.table(), watched, now);
                    effects.extend(app.update(Event::Retraced(kept, since), now));
                }
                Effect::Foresee(plans) => operator.foresee(plans),
                Effect::Perform(plans, reason) => perform(plans, reason, app, engine, operator),
                Effect::Stop => operator.stop(),
                Effect::Lab(id, order) => {
                    if let Order::Take(Wanted { key, token: Some(token), .. }) = &order {
                        engine.expect_test(key.clone(), token.clone());
                    }
                    operator.lab.obey(id, order, app.writing.is_on(engine.clock.now()));
                }
                Effect::Inspect(id) => engine.inspect(id.space, &id.key),
                Effect::Redraw => self.clear(terminal)?,
                Effect::Suspend => {
                    tty.suspend()?;
                    if app.mouse {
                        tty.mouse(true)?;
                    }
                    self.clear(terminal)?;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Nothing that was drawn can be relied on.
    fn clear<B: Backend<Error = io::Error>>(&mut self, terminal: &mut Terminal<B>) -> io::Result<()> {
        self.shown = Buffer::default();
        // `Terminal::clear` asks the terminal for its cursor, and the answer would go to whoever reads the keys.
        terminal.resize(Rect::from((Position::ORIGIN, terminal.size()?)))
    }

    fn draw<B: Backend<Error = io::Error>>(
        &mut self,
        app: &mut App,
        engine: &Engine,
        terminal: &mut Terminal<B>,
        tty: &mut impl Tty,
    ) -> io::Result<()> {
        self.drawn = Instant::now();
        terminal.autoresize()?;
        let area = terminal.get_frame().area();
        if app.size != (area.width, area.height) {
            app.update(Event::Resize(area.width, area.height), engine.clock.now());
        }
        compose(app, engine);
        let cursor = views::draw(&mut terminal.get_frame(), app);
        let frame = terminal.current_buffer_mut();
        if *frame == self.shown && cursor == self.cursor {
            frame.reset();
            return Ok(());
        }
        self.shown.clone_from(frame);
        self.cursor = cursor;
        tty.begin_frame()?;
        terminal.apply_buffer_with_cursor(cursor)?;
        tty.end_frame()
    }
}
