//! `lockscope` without a command: the console, on a real terminal.

use std::io::{self, IsTerminal, Write};
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
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::session::Session;
use crate::app::{App, Title};
use crate::fault::Fault;
use crate::keys::Keys;
use crate::pace::Pace;
use crate::run::{Tty, run as run_loop};
use crate::theme::Theme;

/// Refuses what is no terminal, before anything is started.
pub fn needs_a_terminal() -> Result<(), Fault> {
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Fault::usage("the console needs a terminal; 'lockscope ls' prints the locks to a file or a pipe"))
}

/// Opens the console until somebody quits, or for as long as was asked for.
pub async fn run(session: &Session, how_long: Option<Duration>) -> Result<u8, Fault> {
    needs_a_terminal()?;
    let settings = &session.settings;
    let keys = Keys::bound(&settings.keys)?;
    let theme = Theme { color: settings.color, ascii: settings.ascii };
    let target = settings.target.clone().unwrap_or_else(|| session.shown.clone());
    let title = Title { target, environment: settings.environment.map(|environment| environment.name()) };
    let mut app = App::new(title, keys, theme, None);
    let mut monitor = session.monitor(session.pace(Pace::POLITE), true).await?;
    let mut tty = RealTty::open()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let looping = run_loop(&mut app, &mut monitor, &mut terminal, &mut tty, EventStream::new());
    let ended = match how_long {
        Some(how_long) => tokio::time::timeout(how_long, looping).await.unwrap_or(Ok(())),
        None => looping.await,
    };
    drop(tty);
    ended?;
    Ok(0)
}

/// The terminal while it is ours: given back on every way out, a panic included.
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

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide)
}

/// Undoes all that was turned on. Whatever fails, the rest is tried.
fn give_back() {
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
        // SAFETY: raising a signal in our own process; SIGTSTP stops it until SIGCONT.
        unsafe { libc::raise(libc::SIGTSTP) };
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
