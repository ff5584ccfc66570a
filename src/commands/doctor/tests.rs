//! Reports on servers that exist only as INFO texts.

use super::*;
use crate::base::glob::{Glob, Globs};
use crate::server::ServerFacts;
use crate::server::health::{Feed, Report, Status, feed, judge};
use crate::server::permissions::Permissions;
use crate::server::{ClockOffset, Fact, Settings};

fn scope(pattern: &str) -> Scope {
    Scope::new(Globs::new(vec![Glob::new(pattern).unwrap()]), 0)
}

/// The permissions on a server without ACL DRYRUN: all unknown.
fn nothing_known(scope: &Scope) -> Permissions {
    Permissions::unknown(Fact::Known("default".into()), scope, "this server has no ACL DRYRUN")
}

fn examined(facts: ServerFacts) -> Report {
    let scope = scope("lock:*");
    judge(facts, nothing_known(&scope), &scope)
}

fn facts(info: &str, settings: [&str; 5], offset_us: i64) -> ServerFacts {
    let settings = Settings::from_answers(settings.map(|text| Fact::Known(text.to_string())));
    let clock = Fact::Known(ClockOffset { offset_us, error_us: 200, reading: None });
    ServerFacts::read(&Fact::Known(info.into()), 0, Fact::Known("default".into()), settings, clock)
}

const HEALTHY: &str = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nredis_mode:standalone\r\nloading:0\r\n\
    uptime_in_seconds:90\r\nused_memory:1000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n\
    connected_clients:3\r\nmaxclients:10000\r\nrole:master\r\nconnected_slaves:0\r\n# Keyspace\r\n";
const SETTINGS: [&str; 5] = ["g$lshzxenK", "", "everysec", "0", "normal 0 0 0 pubsub 33554432 8388608 60"];

fn report(info: &str, settings: [&str; 5]) -> Report {
    examined(facts(info, settings, 0))
}

fn status(report: &Report, name: &str) -> Status {
    report.check(name).unwrap().status
}

#[test]
fn a_healthy_server_has_nothing_to_fix() {
    let report = report(HEALTHY, SETTINGS);
    for check in &report.checks {
        let expected =
            if matches!(check.name, "permissions" | "sampling" | "writing") { Status::Unknown } else { Status::Ok };
        assert_eq!((check.status, &check.fix), (expected, &None), "{check:?}");
    }
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn a_cache_that_already_evicts_is_bad_for_locks() {
    let full = "used_memory:95\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\nevicted_keys:7\r\n";
    let report = report(&format!("{HEALTHY}{full}"), SETTINGS);
    let check = report.check("eviction").unwrap();
    assert_eq!((check.status, report.exit_code()), (Status::Bad, 1));
    assert!(check.finding.contains("95 %") && check.finding.contains("7 keys"), "{}", check.finding);
    let full = "used_memory:95\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n";
    assert_eq!(status(&self::report(&format!("{HEALTHY}{full}"), SETTINGS), "eviction"), Status::Warn);
}

#[test]
fn what_a_crash_would_forget_is_said() {
    let no_aof = format!("{HEALTHY}aof_enabled:0\r\nrdb_changes_since_last_save:12\r\n");
    let [events, _, fsync, least, buffers] = SETTINGS;
    let nothing = report(&no_aof, SETTINGS);
    assert!(nothing.check("persistence").unwrap().finding.contains("every lock"));
    let snapshots = report(&no_aof, [events, "3600 1", fsync, least, buffers]);
    assert!(snapshots.check("persistence").unwrap().finding.contains("12 changes"));
    let failing = report(&format!("{no_aof}rdb_last_bgsave_status:err\r\n"), [events, "3600 1", fsync, least, buffers]);
    assert_eq!(status(&failing, "persistence"), Status::Bad);
}

#[test]
fn sentinels_clusters_and_lost_replicas_are_told() {
    assert_eq!(status(&report(&format!("{HEALTHY}redis_mode:sentinel\r\n"), SETTINGS), "topology"), Status::Bad);
    assert_eq!(status(&report(&format!("{HEALTHY}redis_mode:cluster\r\n"), SETTINGS), "topology"), Status::Ok);
    let lost = "role:slave\r\nmaster_host:a\r\nmaster_port:1\r\nmaster_link_status:down\r\n";
    assert_eq!(status(&report(&format!("{HEALTHY}{lost}"), SETTINGS), "replication"), Status::Bad);
    let slow = "connected_slaves:1\r\nslave0:ip=b,port=2,state=online,offset=0,lag=60\r\nmaster_repl_offset:2048\r\n";
    let report = report(&format!("{HEALTHY}{slow}"), SETTINGS);
    let check = report.check("replication").unwrap();
    assert_eq!(check.status, Status::Warn);
    assert!(check.finding.contains("60s") && check.finding.contains("2.0 kB"), "{}", check.finding);
}

#[test]
fn a_clock_is_only_off_beyond_its_error_bar() {
    let off = examined(facts(HEALTHY, SETTINGS, -2_000_000));
    assert_eq!(status(&off, "clock"), Status::Warn);
    let near = examined(facts(HEALTHY, SETTINGS, 500_100));
    assert_eq!(status(&near, "clock"), Status::Ok);
}

#[test]
fn without_notifications_it_is_said_what_tracking_misses() {
    let [_, rest @ ..] = SETTINGS;
    let facts = facts(HEALTHY, ["", rest[0], rest[1], rest[2], rest[3]], 0);
    for (pattern, limited) in [("lock:*", false), ("*lock*", true)] {
        let scope = scope(pattern);
        assert_eq!(feed(&facts, &nothing_known(&scope)), Feed::Tracking);
        let report = judge(facts.clone(), nothing_known(&scope), &scope);
        let finding = &report.check("notifications").unwrap().finding;
        assert_eq!(finding.contains("only under prefixes"), limited, "{finding}");
    }
}

#[test]
fn the_text_is_aligned_wrapped_and_plain_ascii_when_asked() {
    let report = report(&format!("{HEALTHY}redis_mode:sentinel\r\n"), SETTINGS);
    let mut out = Vec::new();
    text(&report, &TextStyle { ascii: true, width: Some(80), color: false }, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.is_ascii());
    assert!(out.contains("\nBAD   topology  this is a sentinel"), "{out}");
    assert!(out.contains("\n                fix: Connect to the master"), "{out}");
    let wide = |line: &&str| line.len() > 80 && !line.contains("fix: ") && !line.starts_with("ACL SETUSER");
    assert_eq!(out.lines().find(|line| wide(line) && !line.starts_with("The minimum")), None);
    assert!(out.contains("Of 3 checks: 1 bad; the rest is fine."));
}

#[test]
fn the_document_has_its_shape() {
    let mut out = Vec::new();
    json(&report(HEALTHY, SETTINGS), &mut out).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["schema"], "lockscope/1");
    assert_eq!(document["checks"][0]["status"], "ok");
    assert_eq!(document["checks"][0]["fix"], serde_json::Value::Null);
    assert!(document["acl"]["observer"].as_str().unwrap().starts_with("ACL SETUSER"));
}
