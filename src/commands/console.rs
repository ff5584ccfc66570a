//! `lockscope` without a command: the console, on a real terminal.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
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
use rustix::process::{getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::session::Session;
use crate::alerts::Rules;
use crate::app::theme::Theme;
use crate::app::{App, Consent, RuleFile, Title, Writing};
use crate::base::fault::Fault;
use crate::base::shell::quoted;
use crate::console::chronicle;
use crate::console::operator::Operator;
use crate::console::run::{MEASURED, Tty, run as run_loop};
use crate::engine::Duty;
use crate::settings::keys::Keys;
use crate::sources::pace::Pace;

/// Refuses anything but a terminal before starting.
pub fn needs_a_terminal() -> Result<(), Fault> {
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Fault::usage("the console needs a terminal; 'lockscope ls' prints the locks to a file or a pipe"))
}

/// What the console is started with.
pub struct Options {
    pub rules: Rules,
    /// The file that they come from, which the tuner writes.
    pub file: Option<PathBuf>,
    /// A history to read.
    pub store: Option<PathBuf>,
    /// `None`: until the user quits.
    pub how_long: Option<Duration>,
    /// Attempts are sampled from the beginning.
    pub sampled: Option<Duty>,
}

/// Runs the console until the user quits, or for the requested time.
pub async fn run(session: &Session, options: Options) -> Result<u8, Fault> {
    let Options { rules, file, store, how_long, sampled } = options;
    needs_a_terminal()?;
    let history = store.map(|path| chronicle::open(&path, &session.target_label())).transpose()?;
    rules.check_windows(MEASURED)?;
    let settings = &session.settings;
    let keys = Keys::bound(&settings.keys)?;
    let theme = Theme { color: settings.color, ascii: settings.ascii };
    let target = settings.target.clone().unwrap_or_else(|| session.shown.clone());
    let again = match settings.again.as_str() {
        // The command may be run in another environment.
        "" => format!(" -u {}", quoted(&session.shown)),
        again => again.into(),
    };
    let protected_by = settings.protected_by.clone();
    let title = Title { target, environment: settings.environment, protected_by, again };
    let mut app = App::new(title, keys, theme);
    let mut engine = session.engine_for(&rules, session.pace(Pace::POLITE)).await?;
    app.watch_rules(rules);
    app.alerting.file = file.map(|path| RuleFile { path });
    if sampled.is_some() {
        app.consent = Consent::Given;
        engine.sample_by(sampled);
    }
    app.writing = Writing::new(settings.gate().closed().map(ToString::to_string), settings.write, engine.clock.now());
    let mut operator = Operator::new(settings, &session.topology, engine.observer(), &session.shown, None);
    if let Some(history) = history {
        operator.chronicle.read(history)?;
    }
    let mut tty = RealTty::open()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let looping = run_loop(&mut app, &mut engine, &mut operator, &mut terminal, &mut tty, EventStream::new());
    let ended = match how_long {
        Some(how_long) => tokio::time::timeout(how_long, looping).await.unwrap_or(Ok(())),
        None => looping.await,
    };
    drop(tty);
    let unfinished = operator.finish().await;
    if let Some(tally) = &unfinished {
        let _ = writeln!(io::stderr(), "lockscope: left while writing: {tally}");
    }
    for left in operator.close().await {
        // The terminal may be gone; that is not a failure.
        let _ = writeln!(io::stderr(), "lockscope: {left}");
    }
    let recorded = operator.chronicle.finish().await;
    ended?;
    recorded?;
    Ok(u8::from(unfinished.is_some()))
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
