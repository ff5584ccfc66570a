//! `lockscope watch`: one line for each change, as it happens, or for each entry of the timeline (`--notable`).

use std::io::{self, BufWriter, Write};

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::session::Session;
use crate::base::fault::{Fault, quiet_pipe};
use crate::engine::{Engine, News};
use crate::filter::{Filter, Subject};
use crate::lock::{Key, KeyspaceId};
use crate::model::{LockView, Notable, Transition};
use crate::output::{self, Place, TextStyle};
use crate::settings::cli::Watch;
use crate::sources::pace::Pace;

pub async fn run(session: &Session, options: &Watch) -> Result<u8, Fault> {
    let filter: Option<Filter> = options.filter.as_deref().map(str::parse).transpose()?;
    let mut engine = session.engine(session.pace(Pace::POLITE), true).await?;
    let mut reader = engine.reader();
    let mut printer = Printer {
        out: BufWriter::new(io::stdout().lock()),
        json: options.json,
        style: session.style(),
        place: session.place(),
    };
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let ends = options.duration.map(|duration| Instant::now() + duration);
    let mut news = News::default();
    let mut next = 0;
    loop {
        let end = async {
            match ends {
                Some(ends) => tokio::time::sleep_until(ends).await,
                None => std::future::pending().await,
            }
        };
        let over = tokio::select! {
            biased;
            _ = interrupted.recv() => true,
            _ = terminated.recv() => true,
            _ = end => true,
            _ = engine.next() => false,
        };
        news.tell(&engine, |sentence| session.say(sentence));
        if session.topology.shared().is_some() {
            // Nodes may have come.
            printer.place = session.place();
        }
        let (changes, missed) = reader.take();
        let timeline = engine.table().timeline();
        let left_out = if options.notable { timeline.first().saturating_sub(next) } else { missed };
        if left_out > 0 {
            session.say(&format!("{left_out} changes were left out: they came faster than they could be written"));
        }
        let printed = match options.notable {
            true => printer.print_notable(timeline.from(next).map(|(_, entry)| entry), filter.as_ref(), &engine),
            false => printer.print(&changes, filter.as_ref(), &engine),
        };
        next = timeline.end();
        match printed {
            Ok(()) => {}
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            gone => quiet_pipe(gone)?,
        }
        if over {
            break;
        }
    }
    session.still_there(&engine)
}

fn view(engine: &Engine, space: KeyspaceId, key: &Key) -> Option<LockView> {
    let table = engine.table();
    table.view(table.lock_named(space, key.as_bytes())?, engine.clock.now())
}

struct Printer {
    out: BufWriter<io::StdoutLock<'static>>,
    json: bool,
    style: TextStyle,
    place: Place,
}

impl Printer {
    fn print(&mut self, changes: &[Transition], filter: Option<&Filter>, engine: &Engine) -> io::Result<()> {
        for change in changes {
            let passes = |filter: &Filter| {
                let lock = view(engine, change.space, &change.key);
                filter.matches(&Subject::of_change(change, lock.as_ref()).on_node(&self.place.node(change.node)))
            };
            if !filter.is_none_or(passes) {
                continue;
            }
            if self.json {
                output::json::write_change(&mut self.out, change, &self.place)?;
            } else {
                output::watch::write(&mut self.out, change, &self.style)?;
            }
        }
        self.out.flush()
    }

    fn print_notable<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Notable>,
        filter: Option<&Filter>,
        engine: &Engine,
    ) -> io::Result<()> {
        for entry in entries {
            let passes = |filter: &Filter| {
                let subject = Subject::of_notable(entry, engine.table(), engine.clock.now());
                subject.is_none_or(|subject| filter.matches(&subject.on_node(&self.place.node(entry.node))))
            };
            if !filter.is_none_or(passes) {
                continue;
            }
            if self.json {
                output::notable::write_json(&mut self.out, entry, &self.place)?;
            } else {
                output::notable::write(&mut self.out, entry, &self.place, &self.style)?;
            }
        }
        self.out.flush()
    }
}
