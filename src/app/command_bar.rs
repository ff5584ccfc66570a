//! Parses what is typed after `:`. It is refused with the reason, or becomes a [`Deed`] that runs on the app.

use super::{App, Effect, Order, Wish};
use crate::actions::plan;
use crate::base::time::Time;
use crate::base::time::duration;
use crate::filter::{BadFilter, Filter};
use crate::lab::Wanted;
use crate::model::Column;
use crate::settings::keys;

/// What a typed command does.
pub(super) type Deed = Box<dyn FnOnce(&mut App, Time) -> Vec<Effect>>;

/// `:` commands: the names of the key table, `filter …`, `sort COLUMN`, `extend TTL` and `acquire KEY …`.
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
            let column = Column::ALL.into_iter().find(|column| column.title().eq_ignore_ascii_case(&rest));
            let Some(column) = column else {
                let names: Vec<String> = Column::ALL.iter().map(|column| column.title().to_lowercase()).collect();
                return Err(format!("there is no column {rest:?}; there are {}", names.join(", ")));
            };
            Ok(Box::new(move |app, _| {
                app.list.order = Order { column, reversed: false };
                app.scene.outdated = true;
                Vec::new()
            }))
        }
        ("extend", false) => {
            let ttl = duration(&rest).map_err(|why| format!("{why}; write :extend 5m"))?;
            plan::may_extend_by(ttl).map_err(|why| why.to_string())?;
            Ok(Box::new(move |app, now| app.wish(Wish::Extend(Some(ttl)), now)))
        }
        ("acquire", false) => {
            let wanted = Wanted::parse(&rest).map_err(|bad| bad.why)?;
            Ok(Box::new(move |app, now| app.acquire(&rest, wanted, now)))
        }
        (name, _) => match keys::named(name) {
            Some(command) => Ok(Box::new(move |app, now| app.obey(command, now))),
            None => {
                let nearest = crate::base::nearest::nearest(name, keys::BINDINGS.iter().map(|binding| binding.name));
                Err(format!("there is no command {name:?}; did you mean {nearest:?}?"))
            }
        },
    }
}
