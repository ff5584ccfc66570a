//! What can go wrong with locks on this server: eviction, restarts, failovers, clocks. Pure.

use super::check::{Check, bytes, count, percent};
use crate::base::text::short_duration;
use crate::server::{
    Fact, Flavor, Memory, Mode, Persistence, Product, Readiness, Replica, Role, ServerFacts, Upstream,
};

/// Takes the fact, or returns the check that says why it is not known.
macro_rules! known {
    ($fact:expr, $name:expr, $what:expr) => {
        match &$fact {
            Fact::Known(value) => value,
            Fact::Unknown(why) => return Check::unknown($name, $what, why),
        }
    };
}

pub fn version(facts: &ServerFacts) -> Check {
    const NAME: &str = "version";
    let product = known!(facts.product, NAME, "the server's version");
    if product.compatible < Product::OLDEST_USABLE {
        let finding = format!("{product} is too old: it has no RESP3, no ACL and no tracking.");
        return Check::bad(NAME, finding).fix("Use Redis 6.2 or later, or any Valkey.");
    }
    let lacks = product.lacks();
    let without = if lacks.is_empty() { String::new() } else { format!("; it has {}", lacks.join(", ")) };
    let tested = matches!(product.flavor, Flavor::Redis | Flavor::Valkey | Flavor::Redict);
    if !tested || product.compatible < Product::OLDEST_TESTED {
        return Check::warn(NAME, format!("{product} is not among the servers lockscope is tested on{without}."));
    }
    Check::ok(NAME, format!("{product} is supported{without}."))
}

pub fn readiness(facts: &ServerFacts) -> Check {
    const NAME: &str = "ready";
    match known!(facts.readiness, NAME, "whether the server has loaded its data") {
        Readiness::Ready => {
            let up = facts.uptime.known().map(|uptime| short_duration(uptime.as_millis() as u64));
            let up = up.map(|up| format!(" for {up}")).unwrap_or_default();
            Check::ok(NAME, format!("the server has been serving{up}."))
        }
        Readiness::Loading { left } => {
            let left = left.map(|left| format!(", for about {} more", short_duration(left.as_millis() as u64)));
            let finding =
                format!("the server is loading its data{}; no lock can be seen yet.", left.unwrap_or_default());
            Check::bad(NAME, finding).fix("Wait until it has loaded, then ask again.")
        }
        Readiness::Busy => {
            let finding =
                "a script or function has been running for seconds; nobody can take or free a lock meanwhile.";
            Check::bad(NAME, finding)
                .fix("SCRIPT KILL (or FUNCTION KILL); it works as long as the script has written nothing.")
        }
    }
}

pub fn topology(facts: &ServerFacts) -> Check {
    const NAME: &str = "topology";
    match known!(facts.mode, NAME, "whether this is a cluster") {
        Mode::Standalone => Check::ok(NAME, "the server is no node of a cluster."),
        Mode::Cluster => Check::ok(
            NAME,
            "this is a node of a cluster; all masters are read as one keyspace, unless --single-node was given.",
        ),
        Mode::Sentinel => Check::bad(NAME, "this is a sentinel, which holds no locks itself.")
            .fix("Connect to the master that it watches: without --single-node it is found."),
    }
}

pub fn eviction(facts: &ServerFacts) -> Check {
    const NAME: &str = "eviction";
    let memory = known!(facts.memory, NAME, "what happens when memory runs out");
    let Memory { used, max, policy, evicted } = memory;
    // With an LFU policy the server counts a key's uses instead of its idle time.
    let hidden = if policy.as_bytes().ends_with(b"lfu") {
        " With an LFU policy, those who poll for a lock can't be seen."
    } else {
        ""
    };
    if *max == 0 {
        let finding = format!("no memory limit is set, so nothing is evicted; {} in use.{hidden}", bytes(*used));
        return Check::ok(NAME, finding);
    }
    let full = percent(*used, *max);
    let room = format!("{} of {} in use ({full} %)", bytes(*used), bytes(*max));
    if *policy == "noeviction" {
        let finding = format!("locks are never evicted (noeviction); {room}.");
        if full < 90 {
            return Check::ok(NAME, finding);
        }
        return Check::warn(
            NAME,
            format!("{finding} When it is full, locks can be neither taken nor freed by script."),
        )
        .fix("Raise maxmemory, or take other data off this server.");
    }
    let which = match policy.as_bytes() {
        b"volatile-ttl" => "the keys that expire soonest, which is what locks are,",
        policy if policy.starts_with(b"volatile") => "keys with a TTL, which nearly all locks have,",
        _ => "any key, locks too,",
    };
    let so_far = match evicted {
        Some(0) => "nothing was evicted since the start".to_string(),
        Some(evicted) => format!("{evicted} keys were evicted since the start"),
        None => "how many keys were evicted is not known".to_string(),
    };
    let finding = format!(
        "{which} may be dropped when memory is full ({}): a dropped lock is free while its holder still works; \
         {room}, {so_far}.{hidden}",
        policy.visible()
    );
    let fix = "CONFIG SET maxmemory-policy noeviction (on a cache: keep locks on a server of their own).";
    if evicted.is_some_and(|evicted| evicted > 0) || full >= 80 {
        Check::bad(NAME, finding).fix(fix)
    } else {
        Check::warn(NAME, finding).fix(fix)
    }
}

pub fn persistence(facts: &ServerFacts) -> Check {
    const NAME: &str = "persistence";
    let Persistence { aof, aof_ok, rdb_ok, unsaved_changes, .. } =
        known!(facts.persistence, NAME, "what is kept on disk");
    if *aof && *aof_ok == Some(false) {
        return Check::bad(NAME, "the last write to the append-only file failed: the server refuses writes.")
            .fix("Look at the server's log and at its disk.");
    }
    let save = &facts.settings.save;
    if *rdb_ok == Some(false) && save.known().is_none_or(|save| !save.is_empty()) {
        return Check::bad(
            NAME,
            "the last snapshot failed: by default the server then refuses writes, so no lock can be taken.",
        )
        .fix("Look at the server's log and at its disk.");
    }
    if *aof {
        return match &facts.settings.appendfsync {
            Fact::Known(policy) if *policy == "always" => {
                Check::ok(NAME, "every write is on disk before it is answered.")
            }
            Fact::Known(policy) if *policy == "no" => Check::warn(
                NAME,
                "the append-only file is flushed when the operating system decides: a crash may lose many locks.",
            )
            .fix("CONFIG SET appendfsync everysec"),
            Fact::Known(_) => {
                Check::ok(NAME, "append-only file, flushed each second: a crash loses at most about a second of locks.")
            }
            Fact::Unknown(why) => {
                Check::ok(NAME, format!("append-only file; how often it is flushed is not known: {why}."))
            }
        };
    }
    let fix = "CONFIG SET appendonly yes (and CONFIG REWRITE to keep it).";
    match save {
        Fact::Known(save) if save.is_empty() => {
            Check::warn(NAME, "nothing is kept on disk: a restart loses every lock while the holders go on working.")
                .fix(fix)
        }
        Fact::Known(_) => {
            let unsaved = unsaved_changes.map(|changes| format!(" ({changes} changes now)")).unwrap_or_default();
            let finding = format!("snapshots only: a crash loses the locks taken since the last one{unsaved}.");
            Check::warn(NAME, finding).fix(fix)
        }
        Fact::Unknown(why) => {
            Check::warn(NAME, format!("no append-only file; whether snapshots are taken is not known: {why}.")).fix(fix)
        }
    }
}

/// `beside`: its master is read as well, so that a replica matters only for what it may become.
pub fn replication(facts: &ServerFacts, beside: bool) -> Check {
    const NAME: &str = "replication";
    match known!(facts.role, NAME, "whether this is a master or a replica") {
        Role::Sentinel => Check::ok(NAME, "a sentinel has no data to replicate."),
        Role::Replica(upstream) if upstream.link_up && (beside || facts.mode.known() == Some(&Mode::Cluster)) => {
            let silent = upstream.silent_s.map(|seconds| format!(", last heard {seconds}s ago")).unwrap_or_default();
            let master = upstream.master.visible();
            Check::ok(NAME, format!("a replica of {master}{silent}: it takes over if that fails."))
        }
        Role::Replica(upstream) if beside => {
            let state = if upstream.syncing { "is being copied" } else { "is lost" };
            let finding = format!(
                "a replica of {}, which {state}: what is taken now does not reach it.",
                upstream.master.visible()
            );
            Check::warn(NAME, finding).fix("Look at its log, and at masterauth and masteruser there.")
        }
        Role::Replica(upstream) => replica(NAME, upstream),
        Role::Master { replicas } if replicas.is_empty() => {
            Check::ok(NAME, "a master without replicas: no failover can lose a lock, but nothing takes over either.")
        }
        Role::Master { replicas } => master(NAME, replicas, &facts.settings.min_replicas),
    }
}

fn replica(name: &'static str, Upstream { master, link_up, silent_s, syncing }: &Upstream) -> Check {
    let master = master.visible();
    let fix = format!("Connect to the master: --url redis://{master}");
    if !link_up {
        let doing = if *syncing { "is still copying it" } else { "has lost it" };
        return Check::bad(name, format!("a replica of {master} that {doing}: what it shows is out of date.")).fix(fix);
    }
    let silent = silent_s.map(|seconds| format!(", last heard {seconds}s ago")).unwrap_or_default();
    let finding = format!(
        "a replica of {master}{silent}: locks are seen as late as they are replicated, those that ran out look deleted, \
         and none can be freed here."
    );
    Check::warn(name, finding).fix(fix)
}

fn master(name: &'static str, replicas: &[Replica], min_replicas: &Fact<u64>) -> Check {
    const LATE_S: u64 = 10;
    let online = replicas.iter().filter(|replica| replica.online).count();
    let lag = replicas.iter().filter_map(|replica| replica.lag_s).max();
    let behind = replicas.iter().filter_map(|replica| replica.behind).max();
    let mut finding = format!("a master with {}, {online} online", count(replicas.len(), "replica"));
    if let Some(lag) = lag {
        finding += &format!(", at most {lag}s behind");
    }
    if let Some(behind) = behind {
        finding += &format!(" ({})", bytes(behind));
    }
    finding += "; replication is asynchronous, so a failover can lose locks that were just taken";
    finding += &match min_replicas {
        Fact::Known(0) => {
            ", and min-replicas-to-write is 0: a master cut off from its replicas goes on granting locks.".into()
        }
        Fact::Known(least) => format!("; min-replicas-to-write is {least}."),
        Fact::Unknown(_) => ".".to_string(),
    };
    if online == 0 {
        let finding = format!(
            "a master none of whose {} is online: every lock is on this server alone.",
            count(replicas.len(), "replica")
        );
        return Check::bad(name, finding).fix("Look at the logs of the replicas: INFO replication names them.");
    }
    let late = online < replicas.len() || lag.is_some_and(|lag| lag > LATE_S);
    let check = if late { Check::warn(name, finding) } else { Check::ok(name, finding) };
    match min_replicas {
        Fact::Known(0) => check.fix("CONFIG SET min-replicas-to-write 1"),
        _ => check,
    }
}

pub fn clock(facts: &ServerFacts) -> Check {
    const NAME: &str = "clock";
    const FAR_US: u64 = 500_000;
    let clock = known!(facts.clock, NAME, "the server's clock");
    let side = if clock.offset_us < 0 { "behind" } else { "ahead of" };
    let offset = clock.offset_us.unsigned_abs() as f64 / 1000.0;
    let finding =
        format!("the server's clock is {offset:.1}ms {side} ours (+/- {:.1}ms)", clock.error_us as f64 / 1000.0);
    if let Some(drift) = facts.drift {
        let did = if drift.gained_us < 0 { "lost" } else { "gained" };
        let (gained, passed) = (drift.gained_ms().unsigned_abs(), drift.passed.as_millis() as u64);
        let finding = format!(
            "the server's clock {did} {} while {} passed ({:+.1} %): it jumped, or runs at another rate, and every TTL \
             there was off by as much; {finding}",
            short_duration(gained),
            short_duration(passed),
            drift.rate()
        );
        let fix =
            "Look at the time service of its host (chronyc tracking), and whether the machine was paused or moved.";
        return Check::bad(NAME, format!("{finding}.")).fix(fix);
    }
    if clock.certain_us() >= FAR_US {
        return Check::warn(NAME, format!("{finding}: times that holders store in their locks are off by as much."))
            .fix("Synchronise both clocks with NTP.");
    }
    Check::ok(NAME, format!("{finding}."))
}

pub fn subscribers(facts: &ServerFacts) -> Check {
    const NAME: &str = "subscribers";
    /// About how many bytes an unread keyspace event takes in a subscriber's buffer.
    const EVENT: u64 = 84;
    const SMALL: u64 = 8 << 20;
    let limit = known!(facts.settings.pubsub_buffer, NAME, "when the server cuts off a slow subscriber");
    if limit.hard == 0 {
        return Check::ok(NAME, "a slow subscriber is never cut off; its unread events grow in the server's memory.");
    }
    let soft = match (limit.soft, limit.soft_s) {
        (0, _) => String::new(),
        (soft, seconds) => format!(", or {} for {seconds}s", bytes(soft)),
    };
    let finding = format!(
        "a subscriber is cut off with {} unread{soft}, about {} events; lockscope then reads everything again.",
        bytes(limit.hard),
        limit.hard / EVENT
    );
    if limit.hard < SMALL {
        return Check::warn(NAME, finding).fix("CONFIG SET client-output-buffer-limit 'pubsub 33554432 8388608 60'");
    }
    Check::ok(NAME, finding)
}

pub fn connections(facts: &ServerFacts) -> Check {
    const NAME: &str = "connections";
    /// The console's connections: events and their guard, reads, one opened lock, waiters, clients, facts; two more while it
    /// scans, two while it samples, one while it writes. A test lock in the lab takes one more.
    const OURS: u64 = 12;
    let clients = known!(facts.clients, NAME, "how many clients are connected");
    let Some(max) = clients.max else {
        return Check::ok(NAME, format!("{} clients connected; the limit is not known.", clients.connected));
    };
    let full = percent(clients.connected, max);
    let finding =
        format!("{} of {max} client connections in use ({full} %); lockscope takes up to {OURS}", clients.connected);
    let fix = format!("CONFIG SET maxclients {}", max.saturating_mul(2));
    if clients.connected.saturating_add(OURS) > max {
        return Check::bad(NAME, format!("{finding}: there is no room.")).fix(fix);
    }
    if full >= 90 {
        return Check::warn(NAME, format!("{finding}: applications may soon be refused.")).fix(fix);
    }
    Check::ok(NAME, format!("{finding}."))
}
