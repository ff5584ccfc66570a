//! Can we see locks, follow them live, and act on them? Notifications and permissions. Pure.

use super::check::{Check, Status};
use crate::base::server_text::ServerText;
use crate::base::text::visible;
use crate::server::permissions::{Denial, Granted, Party, Permission, Permissions, Scope};
use crate::server::{Coverage, EventFlags, Fact, Gap, Product, Role, ServerFacts};

/// How changes would be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feed {
    Notifications,
    /// Client-side caching broadcasts.
    Tracking,
    Polling,
}

/// The feed that works on this server: notifications if they report enough, else tracking, else polling. A feed is
/// assumed to work unless it is known to be refused.
pub fn feed(facts: &ServerFacts, permissions: &Permissions) -> Feed {
    let refused = |command: &str| matches!(permissions.permission(command), Some(Permission::Denied { .. }));
    let is_enough = |flags: &EventFlags| flags.covers_locks(facts.product.known()).is_enough();
    if facts.settings.events.known().is_some_and(is_enough) && !refused("psubscribe") {
        return Feed::Notifications;
    }
    let tracks = facts.product.known().is_none_or(|product| product.compatible >= Product::OLDEST_USABLE);
    if tracks && !refused("client|tracking") { Feed::Tracking } else { Feed::Polling }
}

/// How changes are followed, as a clause.
fn followed(feed: Feed, scope: &Scope) -> &'static str {
    match feed {
        Feed::Notifications => "lockscope follows locks by notifications",
        Feed::Tracking if scope.patterns.iter().all(|glob| !glob.literal_prefix().is_empty()) => {
            "lockscope follows locks by tracking, which reports that a lock changed but not how"
        }
        Feed::Tracking => {
            "lockscope follows locks by tracking, which reports that a lock changed but not how, and only under prefixes \
             where scans have found locks"
        }
        Feed::Polling => "lockscope polls: changes between two reads are missed",
    }
}

/// The cost of turning notifications on, measured with a load of nothing but writes to locks.
const COST: &str = "once they are on, a write costs the server at most 1.7 times as much, and a read the same";

pub fn notifications(facts: &ServerFacts, permissions: &Permissions, scope: &Scope) -> Check {
    const NAME: &str = "notifications";
    let feed = followed(feed(facts, permissions), scope);
    let product = facts.product.known();
    let flags = match &facts.settings.events {
        Fact::Known(flags) => flags,
        Fact::Unknown(why) => {
            let check = Check::unknown(NAME, "notify-keyspace-events", &format!("{why}; {feed}"));
            let absent =
                permissions.permission("config|get").is_some_and(|config| is_denied_as(config, Denial::Absent));
            return Check { fix: setuser(permissions, "+config|get").filter(|_| !absent), ..check };
        }
    };
    let turn_on = format!("CONFIG SET notify-keyspace-events '{}'", flags.wanted(product));
    let shown = flags.as_str();
    let check = match flags.covers_locks(product) {
        Coverage::None if flags.is_off() => {
            Check::warn(NAME, format!("notify-keyspace-events is off; {feed}. {}.", capital(COST))).fix(turn_on)
        }
        Coverage::None => {
            let finding = format!("notify-keyspace-events is {shown:?}, without events by key (K); {feed}.");
            Check::warn(NAME, finding).fix(turn_on)
        }
        Coverage::Full => Check::ok(NAME, format!("notify-keyspace-events is {shown:?}; {feed}.")),
        Coverage::Partial(gaps) if gaps.iter().all(|gap| !gap.sure) => {
            let finding = format!(
                "notify-keyspace-events is {shown:?}; {feed}. Whether it reports new keys (n) does not show while A is set; \
                 without them an acquire may look like a renewal."
            );
            Check::ok(NAME, finding).fix(turn_on)
        }
        Coverage::Partial(gaps) => {
            let finding = format!("notify-keyspace-events is {shown:?}; {feed}. Not reported: {}.", lost(&gaps));
            Check::warn(NAME, finding).fix(turn_on)
        }
    };
    match permissions.permission("psubscribe") {
        Some(Permission::Denied { reason, .. }) if check.status == Status::Ok => {
            let finding = format!("{} But we may not subscribe: {reason}.", check.finding);
            let rules = format!("+psubscribe {}", scope.channel_rules(Party::Observer).join(" "));
            Check { fix: setuser(permissions, &rules), ..Check::warn(NAME, finding) }
        }
        _ => check,
    }
}

fn lost(gaps: &[Gap]) -> String {
    let parts: Vec<String> = gaps.iter().map(|gap| format!("{} ({})", gap.lost, gap.letter)).collect();
    parts.join("; ")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

/// Whether this user may watch locks.
pub fn looking(facts: &ServerFacts, permissions: &Permissions, scope: &Scope) -> Check {
    const NAME: &str = "permissions";
    if let Some(why) = all_unknown(&permissions.observer) {
        return Check::unknown(NAME, "what this user may do", why);
    }
    let user = name(permissions);
    let denied: Vec<&Granted> = denied(&permissions.observer).collect();
    let unreadable: Vec<&str> = refused_patterns(&permissions.readable);
    if denied.is_empty() && unreadable.is_empty() {
        let count = permissions.observer.len();
        let open = permissions.observer.iter().find_map(|granted| match &granted.permission {
            Permission::Unknown(why) => Some((granted.need.command, why)),
            _ => None,
        });
        return match open {
            Some((command, why)) => Check::unknown(NAME, &format!("whether user {user} may run {command}"), why),
            None => Check::ok(NAME, format!("user {user} may run all {count} commands that watching locks needs.")),
        };
    }
    let mut sentences = Vec::new();
    if !denied.is_empty() {
        sentences.push(format!("user {user} may not run {}", listed(denied.iter().map(|granted| missing(granted)))));
    }
    let refused_keys = !unreadable.is_empty()
        && permissions.permission("getrange").is_some_and(|read| !is_denied_as(read, Denial::Command));
    if refused_keys {
        sentences.push(format!(
            "keys under {} may not be read",
            listed(unreadable.iter().map(|pattern| visible(pattern.as_bytes())))
        ));
    }
    let finding = format!("{}.", sentences.join("; "));
    let essential = refused_keys || denied.iter().any(|granted| granted.need.essential);
    let check = if essential { Check::bad(NAME, finding) } else { Check::warn(NAME, finding) };
    let fix = grant(facts, &denied, refused_keys, scope).and_then(|rules| setuser(permissions, &rules));
    Check { fix, ..check }
}

/// The rules that would allow what is denied.
fn grant(facts: &ServerFacts, denied: &[&Granted], keys: bool, scope: &Scope) -> Option<String> {
    let mut rules = Vec::new();
    let any = |by: Denial| denied.iter().any(|granted| is_denied_as(&granted.permission, by));
    if any(Denial::Channel) || denied.iter().any(|granted| granted.need.command == "psubscribe") {
        rules.extend(scope.channel_rules(Party::Observer));
    }
    if keys || any(Denial::Key) {
        rules.extend(scope.key_rules(Party::Observer, facts.product.known()));
    }
    let commands = denied.iter().filter(|granted| is_denied_as(&granted.permission, Denial::Command));
    rules.extend(commands.map(|granted| format!("+{}", granted.need.command)));
    (!rules.is_empty()).then(|| rules.join(" "))
}

/// Whether this user may sample attempts; `lines`: what would allow it. It is optional, so the check is never worse than ok.
pub fn sampling(permissions: &Permissions, lines: &str) -> Check {
    const NAME: &str = "sampling";
    let user = name(permissions);
    match &permissions.sampling {
        Permission::Allowed => {
            Check::ok(NAME, format!("user {user} may run MONITOR: attempts can be sampled, by consent."))
        }
        Permission::Denied { by: Denial::Absent, .. } => {
            Check::ok(NAME, "this server has no MONITOR: attempts to take locks can't be sampled.")
        }
        Permission::Denied { .. } => Check::ok(
            NAME,
            format!("user {user} may not run MONITOR: attempts to take locks can't be sampled. {lines} allows it."),
        ),
        Permission::Unknown(why) => Check::unknown(NAME, "whether attempts may be sampled", why),
    }
}

/// Whether this user may free, extend and take locks here; `lines`: what would allow it.
pub fn writing(facts: &ServerFacts, permissions: &Permissions, lines: &str) -> Check {
    const NAME: &str = "writing";
    if let Some(Role::Replica(upstream)) = facts.role.known() {
        let finding = "a replica takes no writes: locks are freed, extended and taken on its master,";
        return Check::ok(NAME, format!("{finding} {}.", upstream.master.visible()));
    }
    if let Some(why) = all_unknown(&permissions.operator) {
        return Check::unknown(NAME, "whether this user may free locks", why);
    }
    let user = name(permissions);
    let essential = || permissions.operator.iter().filter(|granted| granted.need.essential);
    let allowed = essential().filter(|granted| granted.permission == Permission::Allowed).count();
    let denied: Vec<&Granted> = denied(&permissions.operator).collect();
    let unwritable = refused_patterns(&permissions.writable);
    if denied.is_empty() && unwritable.is_empty() {
        return Check::ok(NAME, format!("user {user} may free, extend and take locks."));
    }
    let absent = |granted: &&Granted| is_denied_as(&granted.permission, Denial::Absent);
    let hint = match unwritable.is_empty() && denied.iter().all(absent) {
        true => "No rule can allow what the server does not have.".to_string(),
        false => format!("{lines} allows it."),
    };
    if allowed == 0 {
        return Check::ok(NAME, format!("user {user} may only watch: freeing and taking locks is refused. {hint}"));
    }
    let mut sentences = Vec::new();
    if !denied.is_empty() {
        sentences.push(format!("user {user} may not run {}", listed(denied.iter().map(|granted| missing(granted)))));
    }
    if !unwritable.is_empty() {
        sentences.push(format!(
            "keys under {} may not be written",
            listed(unwritable.iter().map(|pattern| visible(pattern.as_bytes())))
        ));
    }
    Check::warn(NAME, format!("{}. {hint}", sentences.join("; ")))
}

/// The user's name, safe to show: servers allow any bytes but spaces in it.
fn name(permissions: &Permissions) -> String {
    permissions.user.known().map_or_else(|| "(unknown)".into(), ServerText::visible)
}

/// The command that gives our user more rules, where we know who that is.
fn setuser(permissions: &Permissions, rules: &str) -> Option<String> {
    permissions.user.known().map(|_| format!("ACL SETUSER {} {rules}", name(permissions)))
}

/// The reason, if nothing at all is known.
fn all_unknown(granted: &[Granted]) -> Option<&str> {
    let mut why = None;
    for granted in granted {
        match &granted.permission {
            Permission::Unknown(reason) => why = Some(reason.as_str()),
            _ => return None,
        }
    }
    why
}

fn denied(granted: &[Granted]) -> impl Iterator<Item = &Granted> {
    granted.iter().filter(|granted| matches!(granted.permission, Permission::Denied { .. }))
}

fn is_denied_as(permission: &Permission, kind: Denial) -> bool {
    matches!(permission, Permission::Denied { by, .. } if *by == kind)
}

fn refused_patterns(patterns: &[(String, Permission)]) -> Vec<&str> {
    let refused = patterns.iter().filter(|(_, permission)| matches!(permission, Permission::Denied { .. }));
    refused.map(|(pattern, _)| pattern.as_str()).collect()
}

fn missing(granted: &Granted) -> String {
    let command = granted.need.command.replace('|', " ").to_ascii_uppercase();
    let why = match &granted.permission {
        Permission::Denied { by: Denial::Key, .. } => " on keys under the patterns",
        Permission::Denied { by: Denial::Channel, .. } => " on the channels it needs",
        Permission::Denied { by: Denial::Absent, .. } => ", which this server does not have",
        _ => "",
    };
    format!("{command}{why} ({})", granted.need.purpose)
}

/// The first few, and how many more.
fn listed(items: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 6;
    let all: Vec<String> = items.collect();
    match all.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", all[..SHOWN].join(", ")),
        _ => all.join(", "),
    }
}
