//! What the config forbids stays forbidden: for every key that a write would change, and however the server is named.

mod common;

use std::time::Duration;

use common::acting::{Acting, settings};
use common::samples::ALL;
use common::{Desk, Ran, Server};
use lockscope::actions::{Outcome, plan};
use lockscope::base::glob::{Glob, escape};

#[test]
fn a_lock_that_writes_a_protected_key_is_not_freed() {
    let server = Server::start();
    // A Redisson permit that expires: freeing it gives a permit back to the counter.
    server.cli(&["SET", "downloads", "1"]);
    let permit: [&[u8]; 4] = [b"ZADD", b"{downloads}:timeout", b"9999999999999", b"\xffaaaaaaaaaaaaaaa"];
    server.cli(&permit);
    let before = server.everything();
    let desk = Desk::at(&server);
    desk.configure("protected = [\"downloads\"]\n");
    let free = |way: &str| desk.run(&["release", "{downloads}:timeout", "--holder", "\\xffaaaaaaaaaaaaaaa", way]);
    let shown = free("--dry-run");
    assert!(shown.code == 0 && shown.out.contains("protected"), "{shown:?}");
    let ran = free("--yes");
    assert!(ran.refusal().contains("downloads is protected"), "{ran:?}");
    assert_eq!(server.everything(), before);
    desk.configure("protected = [\"uploads\"]\n");
    assert_eq!(free("--yes").code, 0);
    assert_eq!(server.ask::<i64, _>(&["GET", "downloads"]), 2);
}

#[tokio::test]
async fn every_key_that_would_be_written_has_to_be_let_through() {
    for (name, create) in ALL {
        let server = Server::start();
        let sample = create(&mut server.connection());
        let mut acting = Acting::on(&server).await;
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await;
        let lock = lock.unwrap_or_else(|| panic!("{name} reads as a lock"));
        let free = acting.plan_free(&lock, None);
        let extend = plan::extend(&lock, None, Duration::from_secs(900), acting.clock.now()).ok();
        let before = server.everything();
        for plan in [Some(free.clone()), extend].into_iter().flatten() {
            let keys: Vec<Vec<u8>> = plan.writes.iter().flat_map(|write| write.keys()).collect();
            assert!(keys.contains(&sample.key) || plan.writes.len() > 1, "{name}: {keys:?}");
            for key in keys {
                let Ok(pattern) = String::from_utf8(escape(&key)) else { continue };
                let mut forbidding = settings(&server.url(), |_| {});
                forbidding.protected = vec![Glob::new(&pattern).unwrap()];
                acting.gate = forbidding.gate();
                let performed = acting.perform(&plan).await;
                assert!(matches!(performed.outcome, Outcome::Refused(_)), "{name}: {pattern}: {performed:?}");
                assert_eq!(server.everything(), before, "{name}: {pattern}");
            }
        }
        // And these keys include everything that the release changed on the server.
        let keys: Vec<Vec<u8>> = free.writes.iter().flat_map(|write| write.keys()).collect();
        acting.gate = settings(&server.url(), |_| {}).gate();
        let freed = acting.perform(&free).await;
        assert!(matches!(freed.outcome, Outcome::Done { .. }), "{name}: {freed:?}");
        let after = server.everything();
        let changed = before.keys().chain(after.keys()).filter(|key| before.get(*key) != after.get(*key));
        for key in changed {
            assert!(keys.contains(key), "{name}: {} was written", String::from_utf8_lossy(key));
        }
    }
}

#[test]
fn no_command_that_writes_is_sent_past_the_gate() {
    const WRITES: [&str; 18] = [
        "SET", "DEL", "UNLINK", "PEXPIRE", "EXPIRE", "PERSIST", "HSET", "HDEL", "ZADD", "ZREM", "SADD", "SREM",
        "LPUSH", "RPUSH", "RESTORE", "EVAL", "EVALSHA", "PUBLISH",
    ];
    let mut seen = Vec::new();
    for file in walk(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        // The demo plays applications on its own server.
        if name.contains("src/demo/") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for write in WRITES {
            if text.contains(&format!("cmd(\"{write}\")")) || text.contains(&format!("Cmd::new(\"{write}\")")) {
                seen.push(format!("{name} sends {write}"));
            }
        }
        // Only code with an admission runs scripts.
        if text.contains(".command(\"EVAL") && !name.ends_with("actions/gate.rs") {
            seen.push(format!("{name} runs scripts"));
        }
    }
    assert!(seen.is_empty(), "{seen:?}");
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Frees a lock on the server that `arguments` and the environment name.
fn release(desk: &Desk, environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let command = [arguments, &["release", "lock:a", "--holder", "t", "--yes"]].concat();
    desk.run_in(environment, &command)
}

#[test]
fn a_target_s_protection_follows_its_address() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let (desk, port) = (Desk::at(&server), server.port());
    let config = |host: &str, rule: &str| format!("[target.orders-prod]\nurl = \"redis://{host}:{port}/0\"\n{rule}\n");
    let before = server.everything();
    let places = [
        format!("redis://127.0.0.1:{port}"),
        format!("redis://localhost:{port}"),
        format!("redis://LOCALHOST:{port}/3"),
        format!("redis://localhost.:{port}"),
        format!("redis://[::1]:{port}"),
        format!("redis://[::ffff:127.0.0.1]:{port}"),
        format!("redis://127.0.0.1:{port}?db=1"),
        format!("redis://:x@127.1:{port}"),
        format!("rediss://127.0.0.1:{port}"),
    ];
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        for (rule, word) in [("read_only = true", "read_only"), ("protected = [\"lock:*\"]", "protected")] {
            desk.configure(&config(host, rule));
            for place in &places {
                for (environment, arguments) in [
                    (&[][..], &["-u", place.as_str()][..]),
                    (&[("REDIS_URL", place.as_str())], &[]),
                    (&[("LOCKSCOPE_URL", place.as_str())], &[]),
                ] {
                    // Protected keys are checked after the lock was read, which needs the real server.
                    if word == "protected" && *place != places[0] && *place != places[1] {
                        continue;
                    }
                    let ran = release(&desk, environment, arguments);
                    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{host} {place}: {ran:?}");
                    assert!(ran.err.contains(word) && ran.err.contains("orders-prod"), "{host} {place}: {ran:?}");
                }
            }
        }
    }
    assert_eq!(server.everything(), before);
    // Production also asks for the name there, and another port is another server.
    desk.configure(&config("localhost", "environment = \"prod\""));
    let info = desk.run_bare(&["info", "-u", &places[0]]);
    assert!(info.out.contains("environment  prod"), "{info:?}");
    let listed = desk.run_bare(&["ls", "-u", &places[0]]);
    assert!(listed.err.contains("prod: target orders-prod has this address"), "{listed:?}");
    let other = Server::start();
    other.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    desk.configure(&config("localhost", "read_only = true"));
    assert_eq!(release(&desk, &[], &["-u", &other.url()]).code, 0);
}

#[test]
fn the_strictest_of_all_targets_with_an_address_counts() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let url = server.url();
    let targets = format!(
        "[target.lax]\nurl = \"{url}\"\nenvironment = \"dev\"\n\
         [target.strict]\nurl = \"{url}/5\"\nread_only = true\nenvironment = \"prod\"\nprotected = [\"a\"]\n\
         [target.third]\nurl = \"{url}\"\nprotected = [\"b\"]\n"
    );
    desk.configure(&targets);
    for way in [&["-u", url.as_str()][..], &["-t", "lax"], &["-t", "third"], &["--env", "dev", "-u", url.as_str()]] {
        let info = desk.run_bare(&[way, &["info"]].concat());
        assert!(info.out.contains("environment  prod"), "{info:?}");
        let ran = desk.run_bare(&[way, &["release", "--filter", "x", "--yes"]].concat());
        assert!(ran.code == 1 && ran.err.contains("strict"), "{ran:?}");
        let listed = desk.run_bare(&[way, &["ls"]].concat());
        assert!(listed.err.contains("read-only, prod, protects a: target strict has this address"), "{listed:?}");
    }
    // A chosen target is not warned about itself.
    let listed = desk.run_bare(&["-t", "strict", "ls"]);
    assert!(!listed.err.contains("target strict") && listed.err.contains("protects b: target third"), "{listed:?}");
}

#[test]
fn a_socket_is_the_same_by_whatever_path() {
    let server = Server::on_socket(&[]);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let desk = Desk::at(&server);
    let link = server.directory().join("link");
    std::os::unix::fs::symlink(server.socket(), &link).unwrap();
    desk.configure(&format!("[target.prod]\nurl = \"unix://{}\"\nread_only = true\n", server.socket().display()));
    let dotted = server.directory().join("./socket");
    for path in [server.socket(), link, dotted] {
        let ran = release(&desk, &[], &["-u", &format!("unix://{}", path.display())]);
        assert!(ran.code == 1 && ran.err.contains("prod"), "{}: {ran:?}", path.display());
    }
}

#[test]
fn no_extension_ends_a_lock() {
    let server = Server::start();
    server.cli(&["SET", "lock:never", "t"]);
    server.cli(&["SET", "lock:short", "t", "PX", "600000"]);
    let desk = Desk::at(&server);
    for key in ["lock:never", "lock:short"] {
        for ttl in ["0s", "0ms", "1ms", "999ms", "31days", "99years"] {
            for way in ["--yes", "--dry-run"] {
                let ran = desk.run(&["extend", key, "--holder", "t", "--ttl", ttl, way]);
                assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ttl}: {ran:?}");
                assert!(ran.err.contains("1s") && ran.err.contains("30 days"), "{ttl}: {ran:?}");
            }
        }
    }
    assert_eq!(server.ask::<i64, _>(&["PTTL", "lock:never"]), -1);
    assert_eq!(desk.run(&["extend", "lock:never", "--holder", "t", "--ttl", "30days", "--yes"]).code, 0);
    assert_eq!(desk.audit().len(), 2, "what is refused as wrong usage is not begun");
}
