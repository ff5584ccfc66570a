//! The console's only loop: waits for keys, changes and the clock, updates the app, draws when something changed.
//!
//! Generic over the terminal's backend and the stream of input, so that tests run the whole console in process. Redis
//! is never awaited here: the monitor's own tasks speak to it.

use std::io;
use std::time::Duration;

use crossterm::event::{Event as Input, KeyEventKind};
use futures_util::{Stream, StreamExt};
use ratatui::Terminal;
use ratatui::backend::Backend;
use tokio::time::Instant;

use crate::app::{App, Effect, Event, LockId};
use crate::model::NodeId;
use crate::monitor::Monitor;
use crate::views;

/// Between two frames that only data asked for.
const DATA_FRAME: Duration = Duration::from_millis(100);
/// Between two frames of bars that count down.
const CLOCK_FRAME: Duration = Duration::from_millis(200);

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
    monitor: &mut Monitor,
    terminal: &mut Terminal<B>,
    tty: &mut impl Tty,
    mut input: impl Stream<Item = io::Result<Input>> + Unpin,
) -> io::Result<()> {
    let size = terminal.size()?;
    app.update(Event::Resize(size.width, size.height), monitor.clock.now());
    let mut drawn = draw(app, monitor, terminal, tty)?;
    let mut changed = false;
    loop {
        let next_frame = drawn + if changed { DATA_FRAME } else { CLOCK_FRAME };
        let counts_down = app.scene.moves() && !app.paused;
        tokio::select! {
            biased;
            _ = tty.told_to_end() => return Ok(()),
            event = input.next() => {
                let Some(event) = event else { return Ok(()) };
                let mut effects = take_input(app, monitor, event?);
                // Keys that wait already are taken before anything is drawn.
                while let Some(Some(event)) = futures_util::FutureExt::now_or_never(input.next()) {
                    effects.extend(take_input(app, monitor, event?));
                }
                for effect in effects {
                    match effect {
                        Effect::Quit => return Ok(()),
                        effect => perform(effect, app, monitor, terminal, tty)?,
                    }
                }
                drawn = draw(app, monitor, terminal, tty)?;
                changed = false;
            }
            _ = tokio::time::sleep_until(next_frame), if changed || counts_down => {
                drawn = draw(app, monitor, terminal, tty)?;
                changed = false;
            }
            _ = monitor.next() => {
                let (changes, left_out) = monitor.take_transitions();
                let mut effects = app.update(Event::Changes(changes, left_out), monitor.clock.now());
                if let Some((node, key, found)) = monitor.take_inspected() {
                    effects.extend(app.update(Event::Inspected(LockId { node, key }, found), monitor.clock.now()));
                }
                for effect in effects {
                    perform(effect, app, monitor, terminal, tty)?;
                }
                changed = true;
                // A flood keeps the monitor ready all the time; frames have their turn nevertheless.
                if Instant::now() >= drawn + DATA_FRAME {
                    drawn = draw(app, monitor, terminal, tty)?;
                    changed = false;
                }
            }
        }
    }
}

fn take_input(app: &mut App, monitor: &Monitor, input: Input) -> Vec<Effect> {
    let event = match input {
        Input::Key(key) if key.kind != KeyEventKind::Release => Event::Key(key),
        Input::Mouse(mouse) => Event::Mouse(mouse),
        Input::Paste(text) => Event::Paste(text),
        Input::Resize(width, height) => Event::Resize(width, height),
        Input::Key(_) | Input::FocusGained | Input::FocusLost => return Vec::new(),
    };
    let now = monitor.clock.now();
    let effects = app.update(event, now);
    compose(app, monitor);
    effects
}

fn compose(app: &mut App, monitor: &Monitor) {
    let rows = views::list_rows(app);
    app.compose(monitor.table(), monitor.nodes(), monitor.clock.now(), rows);
    app.scene.scroll_most = views::scroll_most(app);
    app.scroll = app.scroll.min(app.scene.scroll_most);
}

fn perform<B: Backend<Error = io::Error>>(
    effect: Effect,
    app: &mut App,
    monitor: &mut Monitor,
    terminal: &mut Terminal<B>,
    tty: &mut impl Tty,
) -> io::Result<()> {
    match effect {
        Effect::Quit => Ok(()),
        Effect::Rescan => {
            for node in 0..monitor.nodes().len() {
                monitor.scan(NodeId(node as u16));
            }
            Ok(())
        }
        Effect::Copy(text) => tty.copy(&text),
        Effect::Mouse(on) => tty.mouse(on),
        Effect::Redraw => terminal.clear(),
        Effect::Inspect(id) => {
            monitor.inspect(id.node, &id.key);
            Ok(())
        }
        Effect::Suspend => {
            tty.suspend()?;
            let size = terminal.size()?;
            app.update(Event::Resize(size.width, size.height), monitor.clock.now());
            terminal.clear()
        }
    }
}

fn draw<B: Backend<Error = io::Error>>(
    app: &mut App,
    monitor: &Monitor,
    terminal: &mut Terminal<B>,
    tty: &mut impl Tty,
) -> io::Result<Instant> {
    compose(app, monitor);
    tty.begin_frame()?;
    terminal.draw(|frame| views::draw(frame, app))?;
    tty.end_frame()?;
    Ok(Instant::now())
}
