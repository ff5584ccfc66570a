//! `lockscope watch`: one line for each change, as it happens.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::session::Session;
use crate::base::fault::{Fault, quiet_pipe};
use crate::engine::{Engine, Stream};
use crate::filter::{Filter, Subject};
use crate::lock::NodeId;
use crate::model::Transition;
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
    let mut talker = Talker::default();
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
        talker.tell(session, &engine);
        let (changes, left_out) = reader.take();
        if left_out > 0 {
            session.say(&format!("{left_out} changes were left out: they came faster than they could be written"));
        }
        let place = printer.place.clone();
        let wanted = changes.iter().filter(|change| matches(filter.as_ref(), change, &engine, &place));
        match printer.print(wanted) {
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

fn matches(filter: Option<&Filter>, change: &Transition, engine: &Engine, place: &Place) -> bool {
    let Some(filter) = filter else { return true };
    let table = engine.table();
    let lock = table.lock_named(change.space, change.key.as_bytes());
    let view = lock.and_then(|lock| table.view(lock, engine.clock.now()));
    filter.matches(&Subject::of_change(change, view.as_ref()).on_node(&place.node(change.node)))
}

struct Printer {
    out: BufWriter<io::StdoutLock<'static>>,
    json: bool,
    style: TextStyle,
    place: Place,
}

impl Printer {
    fn print<'a>(&mut self, changes: impl Iterator<Item = &'a Transition>) -> io::Result<()> {
        for change in changes {
            if self.json {
                output::json::write_change(&mut self.out, change, &self.place)?;
            } else {
                output::watch::write(&mut self.out, change, &self.style)?;
            }
        }
        self.out.flush()
    }
}

/// Reports on stderr how changes are observed, each time that changes.
#[derive(Default)]
struct Talker {
    said: BTreeMap<NodeId, String>,
    lost: u64,
}

impl Talker {
    fn tell(&mut self, session: &Session, engine: &Engine) {
        for node in engine.nodes() {
            let sentence = match (&node.stream, &node.note) {
                (Stream::Reconnecting { why, .. }, _) => format!("lost {}, trying again: {why}", node.name),
                (Stream::Live(_), None) => format!("watching {} by {}", node.name, node.stream.name()),
                (Stream::Live(_), Some(note)) => format!("watching {} by {}: {note}", node.name, node.stream.name()),
                (Stream::Off | Stream::Starting, _) => continue,
            };
            if self.said.get(&node.id) != Some(&sentence) {
                session.say(&sentence);
                self.said.insert(node.id, sentence);
            }
        }
        let lost: u64 = engine.nodes().map(|node| node.lost).sum();
        if lost > self.lost {
            session
                .say(&format!("{} events came too fast and were lost; looking at everything again", lost - self.lost));
            self.lost = lost;
        }
    }
}
