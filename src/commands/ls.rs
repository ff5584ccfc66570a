//! `lockscope ls`: all locks, once, or as groups.

mod groups;

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::session::Session;
use super::{fencing, roster, waiters};
use crate::base::fault::Fault;
use crate::base::talk;
use crate::dialects::LeftOut;
use crate::engine::{Engine, NodeStatus, Stream};
use crate::filter::{Filter, Subject};
use crate::lock::Kind;
use crate::model::{Life, LockView, findings, order};
use crate::output::{self, Place};
use crate::settings::Talk;
use crate::settings::cli::Ls;
use crate::sources::pace::Pace;

/// How to learn whether holders live.
const WATCH: &str = "'--observe 15s' shows who renews";

pub async fn run(session: &Session, options: &Ls) -> Result<u8, Fault> {
    if options.limit == Some(0) {
        return Err(Fault::usage("--limit is at least 1"));
    }
    let filter: Option<Filter> = options.filter.as_deref().map(str::parse).transpose()?;
    groups::may_sort(options)?;
    let mut engine = session.engine(session.pace(Pace::Fast), options.observe.is_some()).await?;
    take_inventory(session, &mut engine, options.observe).await?;
    waiters::count(session, &mut engine).await?;
    if options.observe.is_none() {
        roster::read(session, &mut engine).await;
    }
    if let Some(by) = options.group {
        return groups::run(session, &engine, by, filter.as_ref(), options);
    }
    let mut snapshot = engine.snapshot();
    let place = session.place();
    let mut locks = std::mem::take(&mut snapshot.locks);
    let lost = locks.iter().filter(|lock| lock.lost.is_some()).count();
    let found = locks.len() - lost;
    let markers = locks.iter().filter(|lock| lock.kind == Kind::Marker).count();
    keep_matching(&mut locks, filter.as_ref(), &place);
    tell_unwatched(session, filter.as_ref(), (found, locks.len()), options.observe);
    order::sort(&mut locks, options.sort);
    let matched = locks.iter().filter(|lock| lock.lost.is_none()).count();
    locks.truncate(options.limit.unwrap_or(usize::MAX));
    fencing::read(session, &mut engine, &mut locks).await?;
    let server = session.describe(&engine);
    super::print(|out| match (options.json, options.csv) {
        (true, _) => output::json::write_list(out, &snapshot, &locks, &place, &server),
        (_, true) => output::csv::write(out, &locks, &place),
        _ => output::table::write(out, &locks, &session.style()),
    })?;
    let shown = locks.iter().filter(|lock| lock.lost.is_none()).count();
    if !options.json && !options.csv {
        session.say(&footer(session, &engine, (found, markers), matched, shown));
        tell_lost(session, lost, snapshot.lost_beyond);
        let unknown = |lock: &&LockView| lock.liveness.as_ref().is_some_and(|liveness| liveness.is == Life::Unknown);
        match locks.iter().filter(unknown).count() {
            0 => {}
            1 => session.say(&format!("1 lock is held, and whether its holder lives is not known yet; {WATCH}")),
            count => session
                .say(&format!("{count} locks are held, and whether their holders live is not known yet; {WATCH}")),
        }
        for (name, sentence) in findings::summaries(&locks) {
            session.say(&format!("{sentence} (finding:{name})"));
        }
    }
    tell_gaps(session, &engine, snapshot.incomplete.as_deref());
    let code = session.still_there(&engine);
    // The process ends here, so freeing the memory of a million locks would only take time.
    std::mem::forget((engine, locks));
    code
}

/// All locks that match, in the order of the list.
pub async fn matching(
    session: &Session,
    engine: &mut Engine,
    filter: &str,
    observe: Option<Duration>,
) -> Result<Vec<LockView>, Fault> {
    let filter: Filter = filter.parse()?;
    take_inventory(session, engine, observe).await?;
    if let Some(why) = engine.incomplete() {
        session.say(&format!("not every lock was judged: {why}"));
    }
    waiters::count(session, engine).await?;
    let mut locks = engine.snapshot().locks;
    // There is nothing to write to what was lost.
    locks.retain(|lock| lock.lost.is_none());
    let found = locks.len();
    keep_matching(&mut locks, Some(&filter), &session.place());
    tell_unwatched(session, Some(&filter), (found, locks.len()), observe);
    order::sort(&mut locks, None);
    Ok(locks)
}

/// Nobody holds them, so they are not among the locks that are counted.
fn tell_lost(session: &Session, lost: usize, beyond: u64) {
    let more = if beyond > 0 { format!("; {beyond} more were lost and are not listed") } else { String::new() };
    match lost {
        0 => {}
        1 => session.say(&format!("1 lock is gone from the server, and its holder may not know (LOST){more}")),
        many => {
            session.say(&format!("{many} locks are gone from the server, and their holders may not know (LOST){more}"))
        }
    }
}

/// Says why a filter by age matches nothing: one look does not show for how long a lock is held, or who renews it.
fn tell_unwatched(
    session: &Session,
    filter: Option<&Filter>,
    (found, matched): (usize, usize),
    observe: Option<Duration>,
) {
    if found > 0 && matched == 0 && observe.is_none() && filter.is_some_and(Filter::needs_watching) {
        session.say(
            "one look does not show for how long locks are held or whether they are renewed, so that held, renewals and \
             missed match little; '--observe 20s' watches first",
        );
    }
}

pub fn keep_matching(locks: &mut Vec<LockView>, filter: Option<&Filter>, place: &Place) {
    if let Some(filter) = filter {
        locks.retain(|lock| filter.matches(&Subject::from(lock).on_node(&place.node(lock.node))));
    }
}

/// Runs the engine until every lock was read, and for the requested time.
pub async fn take_inventory(session: &Session, engine: &mut Engine, observe: Option<Duration>) -> Result<(), Fault> {
    let mut progress = ProgressLine::new(session);
    let until = tokio::time::Instant::now() + observe.unwrap_or_default();
    loop {
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        if left.is_zero() {
            if engine.has_inventory() {
                break;
            }
            // If the server is lost, the inventory will never complete.
            session.still_there(engine)?;
        }
        let _ = tokio::time::timeout(if left.is_zero() { Duration::MAX } else { left }, engine.next()).await;
        progress.show(engine);
    }
    progress.clear();
    let told = |node: &NodeStatus| Some(node.scan.as_ref()?.names.as_ref()?.sentence(&node.name));
    engine.nodes().filter_map(told).for_each(|told| session.say(&told));
    match engine.unwalkable() {
        Some(error) => Err(session.fault(error)),
        None => Ok(()),
    }
}

fn footer(
    session: &Session,
    engine: &Engine,
    (found, markers): (usize, usize),
    matched: usize,
    shown: usize,
) -> String {
    let mut text = match (found, matched, shown) {
        (0, ..) => "no locks found".to_string(),
        (found, matched, shown) if matched < found => format!("{shown} of {found} locks, {matched} match the filter"),
        (found, _, shown) if shown < found => format!("{shown} of {found} locks"),
        (1, ..) => "1 lock".to_string(),
        (found, ..) => format!("{found} locks"),
    };
    match markers {
        0 => {}
        1 => text.push_str(" (1 is a marker of work that is done)"),
        many => text.push_str(&format!(" ({many} are markers of work that is done)")),
    }
    if engine.nodes().len() > 1 {
        text.push_str(&among(engine));
    }
    for node in engine.nodes().filter(|_| engine.nodes().len() == 1) {
        let scan = node.scan.as_ref();
        let keys = node.facts.keys.known().copied().unwrap_or_else(|| scan.map_or(0, |scan| scan.walked));
        let took = scan.map_or(0, |scan| scan.finished.since(scan.started).as_millis() as u64);
        text.push_str(&format!(" among {keys} keys of {} in {}", node.name, crate::base::text::short_duration(took)));
        if let Stream::Live(_) = node.stream {
            text.push_str(&format!(", watched by {}", node.stream.name()));
        }
    }
    if found == 0 {
        let again = &session.settings.again;
        text.push_str(&format!("; 'lockscope discover{again}' finds keyspaces that look like locks"));
    }
    text
}

/// Where several nodes were read: all their keys, the longest walk, and how they are watched if all are watched alike.
fn among(engine: &Engine) -> String {
    let scans = || engine.nodes().filter_map(|node| node.scan.as_ref());
    let keys: u64 = engine.nodes().filter_map(|node| node.facts.keys.known()).sum();
    let took = scans().map(|scan| scan.finished.since(scan.started).as_millis() as u64).max().unwrap_or(0);
    let took = crate::base::text::short_duration(took);
    let mut text = format!(" among {keys} keys of {} nodes in {took}", engine.nodes().len());
    let mut streams = engine.nodes().map(|node| &node.stream);
    if let Some(first @ Stream::Live(_)) = streams.next()
        && streams.all(|stream| stream == first)
    {
        text.push_str(&format!(", watched by {}", first.name()));
    }
    text
}

/// Reports what was left out, and why.
fn tell_gaps(session: &Session, engine: &Engine, incomplete: Option<&str>) {
    if let Some(why) = incomplete {
        session.say_incomplete(why);
    }
    if session.settings.talk > Talk::Normal {
        let helpers = engine.nodes().filter_map(|node| node.scan.as_ref()).map(|scan| scan.helpers).sum();
        let left_out = engine.table().left_out().and(LeftOut::helpers(helpers));
        left_out.sentence().into_iter().for_each(|sentence| session.say(&sentence));
    }
    for node in engine.nodes() {
        let too_large = node.scan.as_ref().map_or(0, |scan| scan.unread - scan.denied);
        if too_large > 0 {
            session.say(&format!("{too_large} keys were not read: too large for a lock"));
        }
        if let Some(note) = &node.note
            && session.settings.talk > Talk::Normal
        {
            session.say(note);
        }
    }
}

/// A progress line on stderr, only on a terminal and only if the scan takes long.
struct ProgressLine {
    enabled: bool,
    began: tokio::time::Instant,
    shown: Option<tokio::time::Instant>,
}

impl ProgressLine {
    const AFTER: Duration = Duration::from_millis(700);
    const EVERY: Duration = Duration::from_millis(200);

    fn new(session: &Session) -> ProgressLine {
        let enabled = session.settings.talk > Talk::Quiet && std::io::stderr().is_terminal();
        ProgressLine { enabled, began: tokio::time::Instant::now(), shown: None }
    }

    fn show(&mut self, engine: &Engine) {
        let due = self.shown.is_none_or(|shown| shown.elapsed() >= Self::EVERY);
        if !self.enabled || self.began.elapsed() < Self::AFTER || !due {
            return;
        }
        self.shown = Some(tokio::time::Instant::now());
        let walked: u64 = engine.nodes().map(|node| node.progress.walked.load(Ordering::Relaxed)).sum();
        let keys: u64 = engine.nodes().filter_map(|node| node.facts.keys.known()).sum();
        let percent = (walked * 100).checked_div(keys).unwrap_or(0).min(100);
        talk::progress(&format!("scanning: {percent}% of {keys} keys, {} locks so far", engine.table().held()));
    }

    fn clear(&self) {
        if self.shown.is_some() {
            talk::progress("");
        }
    }
}
