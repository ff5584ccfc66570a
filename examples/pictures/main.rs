//! Makes the pictures of README and docs from a real run of the demo: `make docs`.

mod night;
mod svg;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use lockscope::alerts::Rules;
use lockscope::app::scene::Others;
use lockscope::app::theme::Theme;
use lockscope::app::{App, Effect, Event, Past, Reply, Title, Wish};
use lockscope::console::chronicle::Chronicle;
use lockscope::console::driver::{Known, Meter, World, compose, drive, take_news};
use lockscope::demo::{DUTY, Demo, Options};
use lockscope::dialects::Recogniser;
use lockscope::engine::{self, Engine, Reader};
use lockscope::model::LockView;
use lockscope::settings::cli::Environment;
use lockscope::settings::keys::Keys;
use lockscope::sources::pace::Pace;
use lockscope::views;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// Long enough to show every situation of the fleet.
const WATCHED: Duration = Duration::from_secs(45);
/// Time between two moments for the alert rules.
const MEASURED: Duration = Duration::from_secs(1);
/// This many make a good sawtooth.
const RENEWALS: usize = 3;
const SIZE: (u16, u16) = (140, 34);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder for the pictures")?;
    let server = std::env::args().nth(2).map(Into::into);
    let demo = Demo::open(&Options { server, ..Options::default() }).await?;
    let topology = demo.stage.topology().await?;
    let options = engine::Options::following(Recogniser::default(), Pace::POLITE);
    let mut engine = Engine::start(&topology, options).await?;
    engine.sample_by(Some(DUTY));
    let mut reader = engine.reader();
    let title = Title { target: "demo".into(), environment: Some(Environment::Dev), ..Title::default() };
    let theme = Theme { color: true, ascii: false };
    let mut app = App::new(title, Keys::default(), theme);
    app.watch_rules(Rules::default_rules());
    app.update(Event::Resize(SIZE.0, SIZE.1), engine.clock.now());
    watch(&mut app, &mut engine, &mut reader, WATCHED).await;

    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    save(folder, "locks", "The console: locks, the worst first", &app)?;
    write(&mut app, &engine, "bp");
    watch(&mut app, &mut engine, &mut reader, Duration::from_secs(2)).await;
    save(folder, "groups", "The same locks by the pattern of their names", &app)?;
    write(&mut app, &engine, "bb2");
    watch(&mut app, &mut engine, &mut reader, Duration::from_secs(2)).await;
    save(folder, "contention", "Who waits for what, and who blocks whom", &app)?;
    write(&mut app, &engine, "1/orders\n:sort renewals\n");
    // Its workers finish from time to time; soon one hold is renewed several times in a row.
    let renewed = |app: &App| app.scene.rows.first().is_some_and(|lock| lock.beats.len() >= RENEWALS);
    let began = tokio::time::Instant::now();
    while !renewed(&app) && began.elapsed() < 2 * WATCHED {
        watch(&mut app, &mut engine, &mut reader, Duration::from_secs(1)).await;
    }
    write(&mut app, &engine, "g\n");
    watch(&mut app, &mut engine, &mut reader, Duration::from_secs(3)).await;
    let began = tokio::time::Instant::now();
    // It may have changed hands meanwhile.
    let opened = |app: &App| app.scene.lock.as_ref().is_some_and(|lock| lock.beats.len() >= RENEWALS);
    while !(app.page.closer.found.is_some() && opened(&app)) && began.elapsed() < 2 * WATCHED {
        watch(&mut app, &mut engine, &mut reader, Duration::from_millis(500)).await;
    }
    save(folder, "detail", "One lock opened: its lease, renewals and history", &app)?;
    press(&mut app, &engine, KeyCode::Esc);
    press(&mut app, &engine, KeyCode::Esc);
    write(&mut app, &engine, "3");
    save(folder, "events", "What mattered: verdicts that changed, locks that were lost or taken over", &app)?;
    write(&mut app, &engine, "4");
    watch(&mut app, &mut engine, &mut reader, Duration::from_secs(2)).await;
    save(folder, "alerts", "The alert rules: what fires, what is not known, what is calm", &app)?;
    tune(&mut app, &engine)?;
    save(folder, "tuner", "The tuner: a rule over a recorded night, and what another threshold would have done", &app)?;
    press(&mut app, &engine, KeyCode::Esc);
    write(&mut app, &engine, "5");
    save(folder, "servers", "The server, how it is watched, and what can hurt locks there", &app)?;
    drop(engine);
    demo.fleet.stop().await;
    Ok(())
}

/// Opens the tuner on a recorded night, and moves the threshold.
fn tune(app: &mut App, engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    let night = tempfile::tempdir()?;
    let store = night.path().join("night.history");
    let trial = night::trial(&store)?;
    let past = Past { store: "night.history".into(), ..Past::default() };
    app.update(Event::Past(Box::new(past)), engine.clock.now());
    write(app, engine, "g");
    while app.alerting.selected().is_some_and(|row| row.id.rule != night::RULE) {
        write(app, engine, "j");
    }
    write(app, engine, "T");
    let loaded = Reply::Loaded(night::RULE.into(), Ok(Box::new(trial)));
    app.update(Event::Tuned(Box::new(loaded)), engine.clock.now());
    (0..2).for_each(|_| press(app, engine, KeyCode::Up));
    Ok(())
}

async fn watch(app: &mut App, engine: &mut Engine, reader: &mut Reader, how_long: Duration) {
    let until = tokio::time::Instant::now() + how_long;
    let (meter, mut measured) = (Meter::of(app), tokio::time::Instant::now());
    while tokio::time::Instant::now() < until {
        engine.next().await;
        let effects = take_news(app, engine, reader);
        let _ = drive(app, effects, &mut Watching(engine)).expect("watching can't fail");
        if measured.elapsed() >= MEASURED {
            measured += MEASURED;
            meter.measure(app, engine, &mut Chronicle::default());
        }
        compose(app, Known::of(engine), Others::default());
    }
}

/// Only reads: nothing is written, and there is no terminal.
struct Watching<'a>(&'a mut Engine);

impl World for Watching<'_> {
    fn known(&self) -> Known<'_> {
        Known::of(self.0)
    }

    fn prove(&mut self, _: Wish, _: Vec<LockView>) -> Option<Event> {
        None
    }

    fn carry_out(&mut self, effect: Effect, _: &App) -> std::io::Result<ControlFlow<(), Option<Event>>> {
        if let Effect::Inspect(id) = effect {
            self.0.inspect(id.space, &id.key);
        }
        Ok(ControlFlow::Continue(None))
    }
}

fn write(app: &mut App, engine: &Engine, text: &str) {
    for c in text.chars() {
        press(app, engine, if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) });
    }
}

fn press(app: &mut App, engine: &Engine, code: KeyCode) {
    app.update(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), engine.clock.now());
    compose(app, Known::of(engine), Others::default());
}

fn save(folder: &Path, name: &str, title: &str, app: &App) -> std::io::Result<()> {
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("a test terminal can't fail");
    terminal
        .draw(|frame| {
            views::draw(frame, app);
        })
        .expect("a test terminal can't fail");
    let picture = svg::svg(terminal.backend().buffer(), title);
    std::fs::write(folder.join(format!("{name}.svg")), picture)
}
