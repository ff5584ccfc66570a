//! `lockscope ls --group`: the same locks, as groups.

use super::{footer, tell_gaps, tell_lost, tell_unwatched};
use crate::base::fault::Fault;
use crate::base::text;
use crate::commands::{self, session::Session};
use crate::engine::Engine;
use crate::filter::{Filter, Subject};
use crate::lock::Kind;
use crate::model::{Column, GroupBy, Grouping, grouping};
use crate::output;
use crate::settings::cli::Ls;

/// Groups have only some of the columns.
pub fn may_sort(options: &Ls) -> Result<(), Fault> {
    let Some((by, column)) = options.group.zip(options.sort) else { return Ok(()) };
    if grouping::SORTABLE.contains(&column) || column.name() == by.name() {
        return Ok(());
    }
    let names = grouping::SORTABLE.map(Column::name).join(", ");
    Err(Fault::usage(format!("groups have no {}; '--group' sorts by one of {names}", column.name())))
}

/// `--group`: the same locks as groups.
pub fn run(
    session: &Session,
    engine: &Engine,
    by: GroupBy,
    filter: Option<&Filter>,
    options: &Ls,
) -> Result<u8, Fault> {
    let (table, now, place) = (engine.table(), engine.clock.now(), session.place());
    let mut grouping = Grouping::new(by, usize::MAX);
    let (mut found, mut lost, mut markers, mut matched) = (0, 0, 0, 0);
    for (at, lock) in table.places_listed_in(0..table.slots(), now) {
        let Some(subject) = Subject::of_kept(table, lock, now) else { continue };
        found += usize::from(lock.is_held());
        lost += usize::from(lock.is_lost());
        markers += usize::from(lock.reading().is_some_and(|reading| reading.kind == Kind::Marker));
        let node = place.node(lock.node);
        if filter.is_none_or(|filter| filter.matches(&subject.on_node(&node))) {
            matched += usize::from(lock.is_held());
            grouping.add(table, at, now);
        }
    }
    tell_unwatched(session, filter, (found, matched), options.observe);
    // The name of a group is its key, whatever it is grouped by.
    let column = match options.sort {
        Some(column) if column.name() == by.name() => Column::Key,
        column => column.unwrap_or(Column::State),
    };
    let mut groups = grouping::sort(grouping.done().0, column, false);
    let all = groups.len();
    groups.truncate(options.limit.unwrap_or(usize::MAX));
    let incomplete = engine.incomplete();
    let server = session.describe(engine);
    commands::print(|out| match (options.json, options.csv) {
        (true, _) => output::groups::write_json(out, now, incomplete.as_deref(), &groups, (&place, &server)),
        (_, true) => output::groups::write_csv(out, &groups, &place),
        _ => output::groups::write(out, by, &groups, &place, &session.style()),
    })?;
    if !options.json && !options.csv {
        let of = if groups.len() < all { format!("{} of ", groups.len()) } else { String::new() };
        let groups = text::counted(all as u64, "group");
        session.say(&format!("{of}{groups}: {}", footer(session, engine, (found, markers), matched, matched)));
        tell_lost(session, lost, table.lost_beyond(now));
    }
    tell_gaps(session, engine, incomplete.as_deref());
    session.still_there(engine)
}
