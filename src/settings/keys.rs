//! The one table of keys: what each key does, where, and how it is shown.
//!
//! Dispatch, the footer, the help screen, the list in docs/screens.md and rebinding from the config all read this table; a key is
//! spelled nowhere else.

mod press;
mod table;

use std::collections::BTreeMap;

use crossterm::event::KeyEvent;

use crate::base::fault::Fault;
use crate::base::nearest;

pub use press::Press;
pub use table::{BINDINGS, Binding, Command, Place, Screen, Where};

/// The bindings in force.
#[derive(Clone, Debug)]
pub struct Keys(Vec<Bound>);

#[derive(Clone, Copy, Debug)]
struct Bound {
    press: Press,
    command: Command,
    at: Where,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys::bound(&BTreeMap::new()).expect("the table's own keys are valid")
    }
}

impl Keys {
    /// The table, with the keys of some commands replaced: `quit = ["q", "ctrl-q"]`. A key given to a command is taken
    /// from any other command that had it in the same place.
    pub fn bound(replaced: &BTreeMap<String, Vec<String>>) -> Result<Keys, Fault> {
        let names = names();
        if let Some(unknown) = replaced.keys().find(|name| !names.contains(&name.as_str())) {
            let hint = nearest::hint(unknown, names);
            return Err(Fault::usage(format!("there is no command {unknown:?} to bind keys to{hint}")));
        }
        Keys::of_table(BINDINGS, replaced)
    }

    fn of_table(table: &[Binding], replaced: &BTreeMap<String, Vec<String>>) -> Result<Keys, Fault> {
        let mut asked = Vec::new();
        for binding in table {
            for text in replaced.get(binding.name).into_iter().flatten() {
                bind(&mut asked, binding, text)?;
            }
        }
        let mut usual = Vec::new();
        for binding in table.iter().filter(|binding| !replaced.contains_key(binding.name)) {
            for text in binding.keys {
                bind(&mut usual, binding, text)?;
            }
        }
        let is_taken = |usual: &Bound| {
            let takes = |asked: &Bound| asked.at == Where::All || asked.at.clashes(usual.at);
            asked.iter().any(|asked| asked.press == usual.press && takes(asked))
        };
        usual.retain(|bound| !is_taken(bound));
        asked.extend(usual);
        Ok(Keys(asked))
    }

    /// What the key means at this place.
    pub fn command(&self, event: KeyEvent, here: Place) -> Option<Command> {
        self.meaning(Press::from(event), here)
    }

    /// The command that the key has in any place.
    pub fn elsewhere(&self, event: KeyEvent) -> Option<Command> {
        let press = Press::from(event);
        self.0.iter().find(|bound| bound.press == press).map(|bound| bound.command)
    }

    fn meaning(&self, press: Press, here: Place) -> Option<Command> {
        let there = self.0.iter().filter(|bound| bound.press == press && bound.at.includes(here));
        there.min_by_key(|bound| bound.at == Where::All).map(|bound| bound.command)
    }

    /// The keys of a command in order: those for this place, or for the place where it works.
    pub fn presses(&self, command: Command, here: Place) -> impl Iterator<Item = Press> + '_ {
        let own = self.0.iter().filter(move |bound| bound.command == command);
        own.filter_map(move |bound| {
            let place = if bound.at.includes(here) { here } else { bound.at.first() };
            (self.meaning(bound.press, place) == Some(command)).then_some(bound.press)
        })
    }
}

/// Adds a key, unless it has another command in one of the binding's places.
fn bind(keys: &mut Vec<Bound>, binding: &Binding, text: &str) -> Result<(), Fault> {
    let (name, command, at) = (binding.name, binding.command, binding.at);
    let press: Press = text.parse().map_err(|why| Fault::usage(format!("keys.{name}: {why}")))?;
    if let Some(other) = keys.iter().find(|other| other.press == press && other.at.clashes(at)) {
        let other = name_of(other.command);
        return Err(Fault::usage(format!("the key {press} is bound to both {other} and {name}")));
    }
    keys.push(Bound { press, command, at });
    Ok(())
}

/// The row of a command.
pub fn binding(command: Command) -> Option<&'static Binding> {
    BINDINGS.iter().find(|binding| binding.command == command)
}

/// The name of a command, as the config and the command bar write it.
pub fn name_of(command: Command) -> &'static str {
    binding(command).map_or("", |binding| binding.name)
}

/// The names of all commands.
pub fn names() -> Vec<&'static str> {
    BINDINGS.iter().map(|binding| binding.name).collect()
}

/// The command of that name.
pub fn named(name: &str) -> Option<Command> {
    BINDINGS.iter().find(|binding| binding.name == name).map(|binding| binding.command)
}

/// The table as Markdown, for docs/screens.md.
pub fn markdown() -> String {
    let mut out = String::from("| keys | where | command | what it does |\n|---|---|---|---|\n");
    for binding in BINDINGS {
        let keys: Vec<String> = binding.keys.iter().map(|key| format!("`{key}`")).collect();
        let at = match binding.at {
            Where::All => "everywhere",
            Where::Only { name, .. } => name,
        };
        out.push_str(&format!("| {} | {at} | `{}` | {} |\n", keys.join(" "), binding.name, binding.about));
    }
    out
}

#[cfg(test)]
mod tests;
