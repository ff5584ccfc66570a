//! The one table of keys: what each key means, where, and how it is told.
//!
//! Dispatch, the footer, the help screen, the README's list and rebinding from the config all read this table; a key is
//! spelled nowhere else.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::base::fault::Fault;
use crate::base::nearest::nearest;

/// What a key means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Command {
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Open,
    Back,
    Filter,
    CommandBar,
    Sort,
    Reverse,
    Mark,
    MarkAll,
    Pause,
    Copy,
    Rescan,
    Free,
    Extend,
    Undo,
    Acquire,
    GiveBack,
    Renew,
    Watchdog,
    Contend,
    Relent,
    Write,
    Reveal,
    Private,
    Mouse,
    Sample,
    Locks,
    Contention,
    Events,
    Servers,
    Lab,
    Help,
    Redraw,
    Suspend,
    Quit,
}

impl Command {
    /// Whether it is about something written: out of sight while lockscope is read-only.
    pub fn writes(self) -> bool {
        use Command::*;
        matches!(self, Free | Extend | Undo | Acquire | GiveBack | Renew | Watchdog | Contend | Relent)
    }

    /// Whether it is about a test lock in the lab.
    pub fn is_of_lab(self) -> bool {
        use Command::*;
        matches!(self, GiveBack | Renew | Watchdog | Contend | Relent)
    }

    /// Whether it moves the selection, or scrolls.
    pub fn moves(self) -> bool {
        use Command::*;
        matches!(self, Up | Down | PageUp | PageDown | Top | Bottom)
    }
}

/// One row of the table.
pub struct Binding {
    pub command: Command,
    /// The name in the config and in the command bar.
    pub name: &'static str,
    /// The keys, unless the config says otherwise.
    keys: &'static [&'static str],
    /// What it does, for the help screen.
    pub about: &'static str,
    /// A word for the footer; none: it is not shown there.
    pub footer: Option<&'static str>,
}

const fn row(
    command: Command,
    name: &'static str,
    keys: &'static [&'static str],
    about: &'static str,
    footer: Option<&'static str>,
) -> Binding {
    Binding { command, name, keys, about, footer }
}

/// All bindings, in the order the help shows them.
pub const BINDINGS: &[Binding] = &[
    row(Command::Open, "open", &["enter", "l", "right"], "open the selected lock", Some("detail")),
    row(Command::Back, "back", &["esc", "h", "left"], "back, or clear the filter", Some("back")),
    row(Command::Filter, "filter", &["/"], "words of the key, state:no-ttl, lib:NAME, ttl<5s", Some("filter")),
    row(Command::CommandBar, "command", &[":"], "type a command", None),
    row(Command::Sort, "sort", &["s"], "order by the next column", Some("sort")),
    row(Command::Reverse, "reverse", &["S"], "turn the order round", None),
    row(Command::Mark, "mark", &["space"], "mark the lock, or take the mark off", Some("mark")),
    row(Command::MarkAll, "mark-all", &["*"], "mark all that the filter lets through, or none", None),
    row(Command::Pause, "pause", &["p"], "freeze the screen; lockscope goes on watching", Some("pause")),
    row(Command::Copy, "copy", &["y"], "copy the key, or in the detail the holder's token", Some("copy")),
    row(Command::Free, "free", &["x"], "free the lock, or all that are marked; asks first", Some("free")),
    row(Command::Extend, "extend", &["e"], "give the lock more time; asks first", Some("extend")),
    row(Command::Undo, "undo", &["u"], "put back what was freed last; asks first", None),
    row(Command::Acquire, "acquire", &["a"], "take a test lock; asks which", Some("take")),
    row(Command::GiveBack, "give-back", &["d"], "lab: give the test lock back, or forget it", Some("give back")),
    row(Command::Renew, "renew", &["n"], "lab: renew the test lock once", Some("renew")),
    row(Command::Watchdog, "watchdog", &["w"], "lab: its watchdog on or off", Some("watchdog")),
    row(Command::Contend, "contend", &["+"], "lab: one more contender against it", Some("contend")),
    row(Command::Relent, "relent", &["-"], "lab: one contender less", None),
    row(Command::Write, "write", &["W"], "writing on or off; it goes off by itself", None),
    row(Command::Rescan, "rescan", &["r"], "walk the keyspace again now", None),
    row(Command::Up, "up", &["up", "k"], "up", None),
    row(Command::Down, "down", &["down", "j"], "down", None),
    row(Command::PageUp, "page-up", &["pageup", "ctrl-b"], "a page up", None),
    row(Command::PageDown, "page-down", &["pagedown", "ctrl-f"], "a page down", None),
    row(Command::Top, "top", &["home", "g"], "to the first", None),
    row(Command::Bottom, "bottom", &["end", "G"], "to the last", None),
    row(Command::Locks, "locks", &["1"], "the locks, worst first", None),
    row(Command::Contention, "contention", &["2"], "who waits for what, and who blocks whom", None),
    row(Command::Events, "events", &["3"], "what happens, as it happens", None),
    row(Command::Servers, "servers", &["5"], "the servers, and what watching costs them", None),
    row(Command::Lab, "lab", &["6"], "test locks, and contenders against them", None),
    row(Command::Sample, "sample", &["M"], "sample attempts with MONITOR; asks first", None),
    row(Command::Reveal, "reveal", &["t"], "show whole tokens, or shorten them again", None),
    row(Command::Private, "private", &["P"], "hide holders and values, for a picture to send", None),
    row(Command::Mouse, "mouse", &["m"], "mouse on or off", None),
    row(Command::Redraw, "redraw", &["ctrl-l"], "draw the screen anew", None),
    row(Command::Suspend, "suspend", &["ctrl-z"], "back to the shell; fg returns", None),
    row(Command::Help, "help", &["?", "f1"], "this help", Some("help")),
    row(Command::Quit, "quit", &["q", "ctrl-c"], "quit", Some("quit")),
];

/// A key with its modifiers, as the table and the config write it: `q`, `G`, `ctrl-c`, `enter`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Press {
    code: KeyCode,
    ctrl: bool,
    alt: bool,
}

const NAMED: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("space", KeyCode::Char(' ')),
    ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

impl From<KeyEvent> for Press {
    fn from(event: KeyEvent) -> Press {
        // Shift is part of the character itself.
        let has = |modifier| event.modifiers.contains(modifier);
        Press { code: event.code, ctrl: has(KeyModifiers::CONTROL), alt: has(KeyModifiers::ALT) }
    }
}

impl FromStr for Press {
    type Err = String;

    fn from_str(text: &str) -> Result<Press, String> {
        let (mut rest, mut ctrl, mut alt) = (text, false, false);
        loop {
            if let Some(tail) = rest.strip_prefix("ctrl-") {
                (rest, ctrl) = (tail, true);
            } else if let Some(tail) = rest.strip_prefix("alt-") {
                (rest, alt) = (tail, true);
            } else {
                break;
            }
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(one), None) => KeyCode::Char(one),
            _ => match NAMED.iter().find(|(name, _)| *name == rest) {
                Some((_, code)) => *code,
                None => match rest.strip_prefix('f').and_then(|number| number.parse().ok()) {
                    Some(number @ 1..=12) => KeyCode::F(number),
                    _ => return Err(format!("{text:?} is no key; write q, G, ctrl-c, enter, space, pageup or f1")),
                },
            },
        };
        Ok(Press { code, ctrl, alt })
    }
}

impl fmt::Display for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ctrl {
            f.write_str("ctrl-")?;
        }
        if self.alt {
            f.write_str("alt-")?;
        }
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, KeyCode::F(number)) => write!(f, "f{number}"),
            (None, other) => write!(f, "{other:?}"),
        }
    }
}

/// The bindings in force.
#[derive(Clone, Debug)]
pub struct Keys(Vec<(Press, Command)>);

impl Default for Keys {
    fn default() -> Keys {
        Keys::bound(&BTreeMap::new()).expect("the table's own keys are valid")
    }
}

impl Keys {
    /// The table, with the keys of some commands replaced: `quit = ["q", "ctrl-q"]`. A key that is given to a command
    /// is taken from whichever had it.
    pub fn bound(replaced: &BTreeMap<String, Vec<String>>) -> Result<Keys, Fault> {
        let names = names();
        if let Some(unknown) = replaced.keys().find(|name| !names.contains(&name.as_str())) {
            let hint = nearest(unknown, names);
            return Err(Fault::usage(format!(
                "there is no command {unknown:?} to bind keys to; did you mean {hint:?}?"
            )));
        }
        let mut keys: Vec<(Press, Command)> = Vec::new();
        for binding in BINDINGS {
            let Some(own) = replaced.get(binding.name) else { continue };
            for text in own {
                let press: Press = text.parse().map_err(|why| Fault::usage(format!("keys.{}: {why}", binding.name)))?;
                if let Some((_, other)) = keys.iter().find(|(taken, _)| *taken == press) {
                    let other = name_of(*other);
                    return Err(Fault::usage(format!("the key {press} is bound to both {other} and {}", binding.name)));
                }
                keys.push((press, binding.command));
            }
        }
        for binding in BINDINGS.iter().filter(|binding| !replaced.contains_key(binding.name)) {
            for text in binding.keys {
                let press: Press = text.parse().map_err(Fault::usage)?;
                if !keys.iter().any(|(taken, _)| *taken == press) {
                    keys.push((press, binding.command));
                }
            }
        }
        Ok(Keys(keys))
    }

    pub fn command(&self, event: KeyEvent) -> Option<Command> {
        let press = Press::from(event);
        self.0.iter().find(|(bound, _)| *bound == press).map(|(_, command)| *command)
    }

    /// The keys of a command, the first one first.
    pub fn of(&self, command: Command) -> impl Iterator<Item = Press> + '_ {
        self.0.iter().filter(move |(_, bound)| *bound == command).map(|(press, _)| *press)
    }
}

/// The name of a command, as the config and the command bar write it.
pub fn name_of(command: Command) -> &'static str {
    BINDINGS.iter().find(|binding| binding.command == command).map_or("", |binding| binding.name)
}

/// The names of all commands.
pub fn names() -> Vec<&'static str> {
    BINDINGS.iter().map(|binding| binding.name).collect()
}

/// The command of that name.
pub fn named(name: &str) -> Option<Command> {
    BINDINGS.iter().find(|binding| binding.name == name).map(|binding| binding.command)
}

/// The table as Markdown, for the README.
pub fn markdown() -> String {
    let mut out = String::from("| keys | command | what it does |\n|---|---|---|\n");
    for binding in BINDINGS {
        let keys: Vec<String> = binding.keys.iter().map(|key| format!("`{key}`")).collect();
        out.push_str(&format!("| {} | `{}` | {} |\n", keys.join(" "), binding.name, binding.about));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let Keys(keys) = Keys::default();
        let all: usize = BINDINGS.iter().map(|binding| binding.keys.len()).sum();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn the_usual_keys_do_the_usual() {
        use Command::*;
        let usual = [
            ("up k", Up),
            ("down j", Down),
            ("left h esc", Back),
            ("right l enter", Open),
            ("g", Top),
            ("G", Bottom),
            ("pageup", PageUp),
            ("pagedown", PageDown),
            ("/", Filter),
            (":", CommandBar),
            ("space", Mark),
            ("s", Sort),
            ("p", Pause),
            ("y", Copy),
            ("r", Rescan),
            ("?", Help),
            ("q", Quit),
            ("1", Locks),
            ("3", Events),
            ("5", Servers),
            ("a", Acquire),
            ("6", Lab),
        ];
        let Keys(keys) = Keys::default();
        for (written, command) in usual {
            for key in written.split(' ') {
                assert!(keys.contains(&(key.parse().unwrap(), command)), "{key} is no {command:?}");
            }
        }
    }

    #[test]
    fn every_key_prints_as_it_is_written() {
        for key in BINDINGS.iter().flat_map(|binding| binding.keys) {
            assert_eq!(key.parse::<Press>().unwrap().to_string(), *key);
        }
    }

    #[test]
    fn a_rebound_key_is_taken_from_its_old_command() {
        let keys = Keys::bound(&BTreeMap::from([("mark".into(), vec!["q".into()])])).unwrap();
        let press = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        assert_eq!(keys.command(press('q')), Some(Command::Mark));
        assert_eq!(keys.command(press(' ')), None);
        assert_eq!(keys.of(Command::Quit).next().unwrap().to_string(), "ctrl-c");
    }

    #[test]
    fn a_wrong_binding_says_what_is_wrong() {
        let bound = |name: &str, key: &str| Keys::bound(&BTreeMap::from([(name.into(), vec![key.into()])]));
        assert!(bound("quti", "q").unwrap_err().to_string().contains("\"quit\""));
        assert!(bound("quit", "hyper-q").unwrap_err().to_string().contains("is no key"));
    }
}
