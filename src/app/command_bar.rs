//! Parses what is typed after `:`. It is refused with the reason, or becomes a [`Deed`] that runs on the app.

use super::prompt::Offer;
use super::{App, Effect, Form, Order, Screen, Wish, filtering, recording, targets};
use crate::actions::plan;
use crate::base::nearest;
use crate::base::time::Time;
use crate::base::time::duration;
use crate::filter::{BadFilter, Filter};
use crate::lab::Wanted;
use crate::model::{Column, GroupBy};
use crate::settings::Offered;
use crate::settings::cli::OwnTune;
use crate::settings::keys;

/// What a typed command does.
pub(super) type Deed = Box<dyn FnOnce(&mut App, Time) -> Vec<Effect>>;

/// Commands that take words after them, and so are not in the key table, or do more than it says.
const WITH_WORDS: [&str; 11] =
    ["filter", "sort", "group", "since", "extend", "acquire", "incident", "record", "bundle", "target", "tune"];

/// `:group none`: the locks themselves.
const NONE: &str = "none";

fn names() -> Vec<&'static str> {
    let mut names = keys::names();
    names.extend(WITH_WORDS);
    names.sort_unstable();
    names.dedup();
    names
}

/// What `tab` offers: the names of commands, and the words after those that have some.
pub(super) fn offer(before: &str, targets: &[Offered]) -> Offer {
    let Some((name, rest)) = before.split_once(' ') else {
        let begun = names().into_iter().filter(|name| name.starts_with(before)).map(String::from);
        return Offer { start: 0, words: begun.collect() };
    };
    let start = name.len() + 1;
    match name {
        "filter" => {
            let Offer { start: inner, words } = filtering::offer(rest);
            Offer { start: start + inner, words }
        }
        "sort" => {
            let columns = Column::ALL.iter().map(|column| column.title().to_lowercase());
            Offer { start, words: columns.filter(|column| column.starts_with(rest)).collect() }
        }
        "group" => {
            let words = GroupBy::ALL.map(GroupBy::name).into_iter().chain([NONE]);
            Offer { start, words: words.filter(|word| word.starts_with(rest)).map(String::from).collect() }
        }
        "incident" => {
            let forms = ["json", "text"].into_iter().filter(|form| form.starts_with(rest));
            Offer { start, words: forms.map(String::from).collect() }
        }
        "tune" => {
            let options = ["--prometheus", "--rule", "--from", "--to", "--user", "--password-file", "--bearer-file"];
            let begun = rest.rfind(' ').map_or(0, |space| space + 1);
            let words = options.into_iter().filter(|option| option.starts_with(&rest[begun..]));
            Offer { start: start + begun, words: words.map(String::from).collect() }
        }
        "record" => {
            let words = [recording::OFF].into_iter().filter(|word| word.starts_with(rest));
            Offer { start, words: words.map(String::from).collect() }
        }
        "target" => targets::offer(start, rest, targets),
        _ => Offer::default(),
    }
}

/// `:` commands: the names of the key table, `filter …`, `sort COLUMN`, `group BY`, `since TIME`, `extend TTL`, `incident json`,
/// `bundle DIR`, `record FILE`, `target NAME`, `tune --prometheus URL --rule NAME` and `acquire KEY …`.
pub(super) fn parse(text: &str) -> Result<Deed, String> {
    let (name, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let rest = rest.trim().to_string();
    match (name, rest.is_empty()) {
        ("", _) => Ok(Box::new(|_, _| Vec::new())),
        ("q" | "quit", _) => Ok(Box::new(|_, _| vec![Effect::Quit])),
        ("filter", false) => {
            let filter: Filter = rest.parse().map_err(|bad: BadFilter| bad.to_string())?;
            Ok(Box::new(move |app, _| {
                app.filter_by(&rest, filter);
                Vec::new()
            }))
        }
        ("sort", false) => {
            let Some(column) = Column::named(&rest) else {
                let names = Column::ALL.map(Column::name).join(", ");
                return Err(format!("there is no column {rest:?}; there are {names}"));
            };
            Ok(Box::new(move |app, _| {
                app.order_by(Order { column, reversed: false });
                Vec::new()
            }))
        }
        ("group", false) => {
            let by = GroupBy::named(&rest);
            if by.is_none() && rest != NONE {
                let names = GroupBy::ALL.map(GroupBy::name).join(", ");
                return Err(format!("there is no group by {rest:?}; there are {names} and {NONE}"));
            }
            Ok(Box::new(move |app, now| {
                app.show(Screen::Locks);
                app.group_by(by, now);
                Vec::new()
            }))
        }
        ("since", false) => {
            let since = duration(&rest).map_err(|why| format!("{why}; write :since 5m"))?;
            Ok(Box::new(move |app, _| {
                app.show_since(since);
                Vec::new()
            }))
        }
        ("extend", false) => {
            let ttl = duration(&rest).map_err(|why| format!("{why}; write :extend 5m"))?;
            plan::may_extend_by(ttl).map_err(|why| why.to_string())?;
            Ok(Box::new(move |app, now| app.wish(Wish::Extend(Some(ttl)), now)))
        }
        ("incident", false) => match rest.as_str() {
            "text" => Ok(Box::new(|app, now| app.hand_over(Form::Text, now))),
            "json" => Ok(Box::new(|app, now| app.hand_over(Form::Json, now))),
            other => Err(format!("an incident has no form {other:?}; write :incident, or :incident json")),
        },
        ("bundle", false) => Ok(Box::new(move |app, now| app.hand_over(Form::Page(Some(rest.into())), now))),
        ("record", false) => Ok(Box::new(move |app, now| app.record(&rest, now))),
        ("record", true) => Ok(Box::new(|app, now| {
            app.tell_recording(now);
            Vec::new()
        })),
        ("target", false) => Ok(Box::new(move |app, now| app.visit_target(&rest, now))),
        ("target", true) => Ok(Box::new(|app, now| {
            app.list_targets(now);
            Vec::new()
        })),
        ("tune", false) => {
            let asked = OwnTune::parse(&rest)?;
            Ok(Box::new(move |app, now| app.tune_own(asked, now)))
        }
        ("acquire", false) => {
            let wanted = Wanted::parse(&rest).map_err(|bad| bad.why)?;
            Ok(Box::new(move |app, now| app.acquire(&rest, wanted, now)))
        }
        (name, _) => match keys::named(name) {
            Some(command) => Ok(Box::new(move |app, now| app.obey(command, now))),
            None => Err(match nearest::hint(name, names()) {
                hint if hint.is_empty() => format!("there is no command {name:?}; tab lists them"),
                hint => format!("there is no command {name:?}{hint}"),
            }),
        },
    }
}
