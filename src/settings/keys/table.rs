//! The rows of the key table: the name of each command, its keys, and the screens where they work.
//!
//! A new screen gets its keys here, with a `Where` of its own. Nothing else spells a key.

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
    LookAgain,
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
    /// Whether it writes; the footer hides it while lockscope is read-only.
    pub fn writes(self) -> bool {
        use Command::*;
        matches!(self, Free | Extend | LookAgain | Undo | Acquire | GiveBack | Renew | Watchdog | Contend | Relent)
    }

    /// Whether it moves the selection, or scrolls.
    pub fn moves(self) -> bool {
        use Command::*;
        matches!(self, Up | Down | PageUp | PageDown | Top | Bottom)
    }
}

/// The screens. A tab appears with its feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Screen {
    Locks,
    Contention,
    Events,
    Servers,
    Lab,
}

impl Screen {
    pub const TABS: [(Screen, Command, &'static str); 5] = [
        (Screen::Locks, Command::Locks, "Locks"),
        (Screen::Contention, Command::Contention, "Contention"),
        (Screen::Events, Command::Events, "Events"),
        (Screen::Servers, Command::Servers, "Servers"),
        (Screen::Lab, Command::Lab, "Lab"),
    ];
}

/// The place that the keys act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    On(Screen),
    /// An opened lock, over any screen.
    Opened,
    /// A question before a write, or what came of one, over any of these.
    Asked,
}

/// The places where a binding works. A binding for some places overrides one for all: a screen may use `left` for its
/// own command, and everywhere else it still means back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    All,
    Only {
        /// A word for the help and the README.
        name: &'static str,
        places: &'static [Place],
    },
}

const ALL: Where = Where::All;
const LOCKS: Where = Where::Only { name: "locks", places: &[Place::On(Screen::Locks)] };
const LISTS: Where = Where::Only { name: "lists", places: &[Place::On(Screen::Locks), Place::On(Screen::Contention)] };
/// Places where a lock is selected or open.
const LOCK: Where =
    Where::Only { name: "lock", places: &[Place::On(Screen::Locks), Place::On(Screen::Contention), Place::Opened] };
const ASKED: Where = Where::Only { name: "question", places: &[Place::Asked] };
const LAB: Where = Where::Only { name: "lab", places: &[Place::On(Screen::Lab)] };

impl Where {
    pub fn includes(self, place: Place) -> bool {
        match self {
            Where::All => true,
            Where::Only { places, .. } => places.contains(&place),
        }
    }

    /// The place to suggest to a user who is elsewhere.
    pub fn first(self) -> Place {
        match self {
            Where::All => Place::On(Screen::Locks),
            Where::Only { places, .. } => places.first().copied().unwrap_or(Place::Opened),
        }
    }

    /// Whether one key can't be bound in both.
    pub fn clashes(self, other: Where) -> bool {
        match (self, other) {
            (Where::All, Where::All) => true,
            (Where::Only { places, .. }, Where::Only { .. }) => places.iter().any(|place| other.includes(*place)),
            (Where::All, Where::Only { .. }) | (Where::Only { .. }, Where::All) => false,
        }
    }
}

/// One row of the table.
pub struct Binding {
    pub command: Command,
    pub at: Where,
    /// The name in the config and in the command bar.
    pub name: &'static str,
    /// The keys, unless the config says otherwise.
    pub keys: &'static [&'static str],
    /// What it does, for the help screen.
    pub about: &'static str,
    /// A word for the footer; none: it is not shown there.
    pub footer: Option<&'static str>,
}

pub(super) const fn row(
    command: Command,
    at: Where,
    name: &'static str,
    keys: &'static [&'static str],
    about: &'static str,
    footer: Option<&'static str>,
) -> Binding {
    Binding { command, at, name, keys, about, footer }
}

/// All bindings, in the order the help shows them.
pub const BINDINGS: &[Binding] = &[
    row(Command::Open, LISTS, "open", &["enter", "l", "right"], "open the selected lock", Some("detail")),
    row(Command::Back, ALL, "back", &["esc", "h", "left"], "back, or clear the filter", Some("back")),
    row(Command::Filter, ALL, "filter", &["/"], "words of the key, state:no-ttl, lib:NAME, ttl<5s", Some("filter")),
    row(Command::CommandBar, ALL, "command", &[":"], "type a command", None),
    row(Command::Sort, LOCKS, "sort", &["s"], "order by the next column", Some("sort")),
    row(Command::Reverse, LOCKS, "reverse", &["S"], "turn the order round", None),
    row(Command::Mark, LISTS, "mark", &["space"], "mark the lock, or take the mark off", Some("mark")),
    row(Command::MarkAll, LISTS, "mark-all", &["*"], "mark all that the filter shows, or none", None),
    row(Command::Pause, ALL, "pause", &["p"], "freeze the screen; lockscope goes on watching", Some("pause")),
    row(Command::Copy, LOCK, "copy", &["y"], "copy the key; of an opened lock, the token", Some("copy")),
    row(Command::Free, LOCK, "free", &["x"], "free it, or all that are marked; asks first", Some("free")),
    row(Command::Extend, LOCK, "extend", &["e"], "give it more time; asks first", Some("extend")),
    row(
        Command::LookAgain,
        ASKED,
        "look-again",
        &["ctrl-r"],
        "look at it as it is now; asks again",
        Some("look again"),
    ),
    row(Command::Undo, ALL, "undo", &["u"], "put back what was freed last; asks first", None),
    row(Command::Acquire, ALL, "acquire", &["a"], "take a test lock; asks which", Some("take")),
    row(Command::GiveBack, LAB, "give-back", &["d"], "give the test lock back, or forget it", Some("give back")),
    row(Command::Renew, LAB, "renew", &["n"], "renew the test lock once", Some("renew")),
    row(Command::Watchdog, LAB, "watchdog", &["w"], "its watchdog on or off", Some("watchdog")),
    row(Command::Contend, LAB, "contend", &["+"], "one more contender against it", Some("contend")),
    row(Command::Relent, LAB, "relent", &["-"], "one contender less", None),
    row(Command::Write, ALL, "write", &["W"], "writing on or off; it goes off by itself", None),
    row(Command::Rescan, ALL, "rescan", &["r"], "walk the keyspace again now", None),
    row(Command::Up, ALL, "up", &["up", "k"], "up", None),
    row(Command::Down, ALL, "down", &["down", "j"], "down", None),
    row(Command::PageUp, ALL, "page-up", &["pageup", "ctrl-b"], "a page up", None),
    row(Command::PageDown, ALL, "page-down", &["pagedown", "ctrl-f"], "a page down", None),
    row(Command::Top, ALL, "top", &["home", "g"], "to the first", None),
    row(Command::Bottom, ALL, "bottom", &["end", "G"], "to the last", None),
    row(Command::Locks, ALL, "locks", &["1"], "the locks, worst first", None),
    row(Command::Contention, ALL, "contention", &["2"], "who waits for what, and who blocks whom", None),
    row(Command::Events, ALL, "events", &["3"], "what happens, as it happens", None),
    row(Command::Servers, ALL, "servers", &["5"], "the servers, and what watching costs them", None),
    row(Command::Lab, ALL, "lab", &["6"], "test locks, and contenders against them", None),
    row(Command::Sample, ALL, "sample", &["M"], "sample attempts with MONITOR; asks first", None),
    row(Command::Reveal, ALL, "reveal", &["t"], "show whole tokens, or shorten them again", None),
    row(Command::Private, ALL, "private", &["P"], "hide holders and values, for a picture to send", None),
    row(Command::Mouse, ALL, "mouse", &["m"], "mouse on or off", None),
    row(Command::Redraw, ALL, "redraw", &["ctrl-l"], "draw the screen anew", None),
    row(Command::Suspend, ALL, "suspend", &["ctrl-z"], "back to the shell; fg returns", None),
    row(Command::Help, ALL, "help", &["?", "f1"], "this help", Some("help")),
    row(Command::Quit, ALL, "quit", &["q", "ctrl-c"], "quit", Some("quit")),
];
