//! `lockscope` without a command: the console, on a real terminal.

mod visit;

use std::future::poll_fn;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, EventStream,
};
use crossterm::execute;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use futures_util::StreamExt;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::process::{getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::session::Session;
use crate::app::Consent;
use crate::base::fault::Fault;
use crate::console::run::{Tty, run as run_loop};
use crate::engine::Duty;
pub use visit::Start;
use visit::{Left, Visit, arrive};

/// Refuses anything but a terminal before starting.
pub fn needs_a_terminal() -> Result<(), Fault> {
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Fault::usage("the console needs a terminal; 'lockscope ls' prints the locks to a file or a pipe"))
}

/// How the console is used.
pub struct Options {
    /// How it was started, for going to other targets; `None`: there are none.
    pub start: Option<Start>,
    /// `None`: until the user quits.
    pub how_long: Option<Duration>,
    /// Attempts are sampled from the beginning.
    pub sampled: Option<Duty>,
}

/// Runs the console until the user quits, or for the requested time.
pub async fn run(session: Session, options: Options) -> Result<u8, Fault> {
    let Options { start, how_long, sampled } = options;
    needs_a_terminal()?;
    let start = start.map(Arc::new);
    let arrival = arrive(session, start.as_ref().and_then(|start| start.rules.as_deref())).await?;
    let mut visit = Visit::new(arrival, start.as_ref())?;
    if sampled.is_some() {
        visit.app.consent = Consent::Given;
        visit.engine.sample_by(sampled);
    }
    let mut tty = RealTty::open()?;
    let until = how_long.map(|how_long| Instant::now() + how_long);
    let mut way = Way::default();
    let (last, ended) = way.go(visit, start.as_ref(), &mut tty, until).await;
    drop(tty);
    way.take(last.leave().await);
    for sentence in &way.told {
        // The terminal may be gone; that is not a failure.
        let _ = writeln!(io::stderr(), "lockscope: {sentence}");
    }
    ended?;
    way.recorded?;
    Ok(u8::from(way.unfinished))
}

/// The targets that were left.
struct Way {
    /// What the operator has to know of them.
    told: Vec<String>,
    unfinished: bool,
    recorded: Result<(), Fault>,
}

impl Default for Way {
    fn default() -> Way {
        Way { told: Vec::new(), unfinished: false, recorded: Ok(()) }
    }
}

impl Way {
    /// Goes from target to target until the user quits; returns the last one.
    async fn go(
        &mut self,
        mut visit: Visit,
        start: Option<&Arc<Start>>,
        tty: &mut RealTty,
        until: Option<Instant>,
    ) -> (Visit, Result<(), Fault>) {
        let mut input = EventStream::new();
        let mut terminal = match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => terminal,
            Err(why) => return (visit, Err(why.into())),
        };
        loop {
            let Visit { app, engine, operator } = &mut visit;
            let looping = run_loop(app, engine, operator, &mut terminal, tty, &mut input);
            let ended = match until {
                Some(until) => tokio::time::timeout_at(until, looping).await.unwrap_or(Ok(())),
                None => looping.await,
            };
            let (Ok(()), Some(arrival)) = (&ended, operator.switch.arrival()) else {
                return (visit, ended.map_err(Fault::from));
            };
            let mut next = match Visit::new(arrival, start) {
                Ok(next) => next,
                Err(why) => {
                    let (told, now) = (format!("could not go there: {why}"), visit.engine.clock.now());
                    visit.app.tell(told, now);
                    continue;
                }
            };
            let left = visit.leave().await;
            next.follow(&left);
            self.take(left);
            forget_keys(&mut input).await;
            visit = next;
        }
    }

    fn take(&mut self, left: Left) {
        self.told.extend(left.told);
        self.unfinished |= left.unfinished;
        if left.recorded.is_err() {
            self.recorded = left.recorded;
        }
    }
}

/// Drops the keys that were pressed before anything of the next target could be seen.
async fn forget_keys(input: &mut EventStream) {
    poll_fn(|context| {
        while let Poll::Ready(Some(Ok(_))) = input.poll_next_unpin(context) {}
        Poll::Ready(())
    })
    .await;
}

/// The terminal while it is ours. It is given back on every way out, including a panic.
struct RealTty {
    signals: [Signal; 3],
}

impl RealTty {
    fn open() -> io::Result<RealTty> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            hook(panic);
        }));
        let signals =
            [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?];
        let tty = RealTty { signals };
        take()?;
        Ok(tty)
    }
}

/// Whether the terminal is ours now. A panic gives it back, prints its message and drops everything; giving it back a
/// second time would damage the message.
static TAKEN: AtomicBool = AtomicBool::new(false);

fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide)
}

/// Undoes everything that was turned on. If one step fails, the rest is still tried.
fn give_back() {
    if !TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(
        io::stdout(),
        EndSynchronizedUpdate,
        DisableMouseCapture,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    );
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

impl Drop for RealTty {
    fn drop(&mut self) {
        give_back();
    }
}

impl Tty for RealTty {
    fn begin_frame(&mut self) -> io::Result<()> {
        execute!(io::stdout(), BeginSynchronizedUpdate)
    }

    fn end_frame(&mut self) -> io::Result<()> {
        execute!(io::stdout(), EndSynchronizedUpdate)
    }

    fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    fn mouse(&mut self, on: bool) -> io::Result<()> {
        if on { execute!(io::stdout(), EnableMouseCapture) } else { execute!(io::stdout(), DisableMouseCapture) }
    }

    fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // Stops this process until SIGCONT.
        kill_process(getpid(), rustix::process::Signal::TSTP)?;
        take()
    }

    async fn told_to_end(&mut self) {
        let [terminate, hangup, interrupt] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    use super::*;

    /// Run by the test below, on a terminal of its own.
    #[tokio::test]
    #[ignore = "a part of a_panic_gives_the_terminal_back_and_can_be_read"]
    async fn panics_with_the_terminal_taken() {
        let mut tty = RealTty::open().unwrap();
        tty.mouse(true).unwrap();
        tty.begin_frame().unwrap();
        panic!("the panic is shown");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_can_be_read() {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args([
            "--ignored",
            "--exact",
            "commands::console::tests::panics_with_the_terminal_taken",
            "--nocapture",
        ]);
        command.env("RUST_BACKTRACE", "0");
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut raw = Vec::new();
        // Linux ends the stream with an error when the last program on the terminal is gone.
        let _ = pair.master.try_clone_reader().unwrap().read_to_end(&mut raw);
        child.wait().unwrap();
        let mut emulator = vt100::Parser::default();
        emulator.process(&raw);
        let (screen, raw) = (emulator.screen(), String::from_utf8_lossy(&raw));
        assert!(screen.contents().contains("the panic is shown"), "{raw:?}");
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste(), "{raw:?}");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert_eq!(raw.matches("\x1b[?1049l").count(), 1, "given back once, or the message would be overwritten");
        assert!(raw.find("\x1b[?1049l") < raw.find("the panic is shown"), "{raw:?}");
        assert_eq!(raw.matches("\x1b[?2026h").count(), 1);
    }
}
