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
    Findings,
    CommandBar,
    Sort,
    Reverse,
    Group,
    OpenGroup,
    Others,
    Mark,
    MarkAll,
    Pause,
    Copy,
    Incident,
    Bundle,
    Why,
    Next,
    Previous,
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
    Since,
    Raw,
    Dismiss,
    Locks,
    Contention,
    Events,
    Alerts,
    OpenAlert,
    Tune,
    Lever,
    NextEpisode,
    PreviousEpisode,
    OpenEpisode,
    LabelReal,
    LabelNoise,
    TakeSuggestion,
    WriteRule,
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
    Alerts,
    Servers,
    Lab,
}

impl Screen {
    pub const TABS: [(Screen, Command, &'static str); 6] = [
        (Screen::Locks, Command::Locks, "Locks"),
        (Screen::Contention, Command::Contention, "Contention"),
        (Screen::Events, Command::Events, "Events"),
        (Screen::Alerts, Command::Alerts, "Alerts"),
        (Screen::Servers, Command::Servers, "Servers"),
        (Screen::Lab, Command::Lab, "Lab"),
    ];
}

/// The place that the keys act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    On(Screen),
    /// The list of locks, while it shows groups of them.
    Groups,
    /// The tuner, over the alerts.
    Tuner,
    /// An opened lock, over any screen.
    Opened,
    /// A question before a write, or its result, over any of these.
    Asked,
}

/// The places where a binding works. A binding for some places overrides one for all: a screen may use `left` for its
/// own command, and everywhere else it still means back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    All,
    Only {
        /// A word for the help and docs/screens.md.
        name: &'static str,
        places: &'static [Place],
    },
}

const ALL: Where = Where::All;
const GROUPS: Where = Where::Only { name: "groups", places: &[Place::Groups] };
const LOCKS_AND_GROUPS: Where =
    Where::Only { name: "locks, groups", places: &[Place::On(Screen::Locks), Place::Groups] };
const LISTS_AND_GROUPS: Where = Where::Only {
    name: "lists, groups",
    places: &[Place::On(Screen::Locks), Place::On(Screen::Contention), Place::Groups],
};
const LISTS: Where = Where::Only { name: "lists", places: &[Place::On(Screen::Locks), Place::On(Screen::Contention)] };
const EVENTS: Where = Where::Only { name: "events", places: &[Place::On(Screen::Events)] };
const TUNER: Where = Where::Only { name: "tuner", places: &[Place::Tuner] };
const ALERTS: Where = Where::Only { name: "alerts", places: &[Place::On(Screen::Alerts)] };
/// Places where something about a lock is selected.
const ROWS: Where = Where::Only {
    name: "lists, events",
    places: &[Place::On(Screen::Locks), Place::On(Screen::Contention), Place::On(Screen::Events)],
};
/// Places where a lock is selected or open.
const LOCK: Where =
    Where::Only { name: "lock", places: &[Place::On(Screen::Locks), Place::On(Screen::Contention), Place::Opened] };
const OPENED: Where = Where::Only { name: "opened", places: &[Place::Opened] };
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
    row(Command::Open, ROWS, "open", &["enter", "l", "right"], "open the selected lock", Some("detail")),
    row(Command::Back, ALL, "back", &["esc", "h", "left"], "back, or clear the filter", Some("back")),
    row(Command::Filter, ALL, "filter", &["/"], "words of the key, state:no-ttl, lib:NAME, ttl<5s", Some("filter")),
    row(Command::Findings, LISTS_AND_GROUPS, "findings", &["!"], "only locks with findings, or all", None),
    row(Command::CommandBar, ALL, "command", &[":"], "type a command", None),
    row(Command::Sort, LOCKS_AND_GROUPS, "sort", &["s"], "choose the column to sort by", Some("sort")),
    row(Command::Reverse, LOCKS_AND_GROUPS, "reverse", &["S"], "reverse the order", None),
    row(Command::Group, LOCKS_AND_GROUPS, "group", &["b"], "by pattern, holder, library, node", Some("group")),
    row(Command::OpenGroup, GROUPS, "open-group", &["enter", "l", "right"], "the locks of the group", Some("open")),
    row(
        Command::OpenAlert,
        ALERTS,
        "open-alert",
        &["enter", "l", "right"],
        "the locks behind the alert",
        Some("locks"),
    ),
    row(Command::Others, LOCK, "others", &["o"], "what else its holder holds", Some("others")),
    row(Command::Since, EVENTS, "since", &["s"], "the last 5 minutes, 15, or the whole hour", Some("since")),
    row(Command::Raw, EVENTS, "raw", &["v"], "every single event, or what matters again", Some("all events")),
    row(Command::Dismiss, ALL, "dismiss", &["D"], "dismiss the line about lost locks", None),
    row(Command::Tune, ALERTS, "tune", &["T"], "the rule over its recorded history", Some("tune")),
    row(Command::Mark, LISTS, "mark", &["space"], "mark the lock, or unmark it", Some("mark")),
    row(Command::MarkAll, LISTS, "mark-all", &["*"], "mark all that the filter shows, or none", None),
    row(Command::Pause, ALL, "pause", &["p"], "freeze the screen; lockscope goes on watching", Some("pause")),
    row(Command::Copy, LOCK, "copy", &["y"], "copy the key; of an opened lock, the token", Some("copy")),
    row(Command::Incident, LOCK, "incident", &["Y"], "copy the incident as text, for the chat", None),
    row(Command::Bundle, LOCK, "bundle", &["B"], "write the incident as a page, into a folder", None),
    row(Command::Why, OPENED, "why", &["i"], "why this verdict, as a tree", Some("why")),
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
    row(Command::Next, OPENED, "next", &["n"], "the next lock of the list", Some("next")),
    row(Command::Previous, OPENED, "previous", &["N"], "the lock before it", None),
    row(Command::Lever, TUNER, "lever", &["tab"], "what up and down move: for, recover", Some("switch")),
    row(Command::NextEpisode, TUNER, "later", &["right", "l", "n"], "the next episode", None),
    row(Command::PreviousEpisode, TUNER, "earlier", &["left", "h", "N"], "the episode before", None),
    row(Command::OpenEpisode, TUNER, "episode", &["enter"], "which locks, and who held them", Some("locks")),
    row(Command::LabelReal, TUNER, "real", &["r"], "it was real; again: no label", Some("real")),
    row(Command::LabelNoise, TUNER, "noise", &["o"], "it was noise; again: no label", Some("noise")),
    row(Command::TakeSuggestion, TUNER, "suggested", &["s"], "try the suggested threshold", None),
    row(Command::WriteRule, TUNER, "write-rule", &["w"], "write it to its file; shows how first", Some("write")),
    row(Command::Write, ALL, "write", &["W"], "writing on or off; it goes off by itself", None),
    row(Command::Rescan, ALL, "rescan", &["r"], "scan the keyspace again now", None),
    row(Command::Up, ALL, "up", &["up", "k"], "up", None),
    row(Command::Down, ALL, "down", &["down", "j"], "down", None),
    row(Command::PageUp, ALL, "page-up", &["pageup", "ctrl-b"], "a page up", None),
    row(Command::PageDown, ALL, "page-down", &["pagedown", "ctrl-f"], "a page down", None),
    row(Command::Top, ALL, "top", &["home", "g"], "to the first", None),
    row(Command::Bottom, ALL, "bottom", &["end", "G"], "to the last", None),
    row(Command::Locks, ALL, "locks", &["1"], "the locks, worst first", None),
    row(Command::Contention, ALL, "contention", &["2"], "who waits for what, and who blocks whom", None),
    row(Command::Events, ALL, "events", &["3"], "what happened in the last hour", None),
    row(Command::Alerts, ALL, "alerts", &["4"], "the alert rules, those that fire first", None),
    row(Command::Servers, ALL, "servers", &["5"], "the servers, and what watching costs them", None),
    row(Command::Lab, ALL, "lab", &["6"], "test locks, and contenders against them", None),
    row(Command::Sample, ALL, "sample", &["M"], "sample attempts with MONITOR; asks first", None),
    row(Command::Reveal, ALL, "reveal", &["t"], "show whole tokens, or shorten them again", None),
    row(Command::Private, ALL, "private", &["P"], "hide holders and values, for a picture to send", None),
    row(Command::Mouse, ALL, "mouse", &["m"], "mouse on or off", None),
    row(Command::Redraw, ALL, "redraw", &["ctrl-l"], "redraw the screen", None),
    row(Command::Suspend, ALL, "suspend", &["ctrl-z"], "back to the shell; fg returns", None),
    row(Command::Help, ALL, "help", &["?", "f1"], "this help", Some("help")),
    row(Command::Quit, ALL, "quit", &["q", "ctrl-c"], "quit", Some("quit")),
];
