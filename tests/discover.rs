//! `lockscope discover` on real servers: it proposes keyspaces of locks, and no others.

mod common;

use common::{Server, lockscope};
use serde_json::Value;

/// Runs commands in one pipeline: a keyspace is many keys.
fn fill<C: AsRef<[Vec<u8>]>>(server: &Server, commands: impl IntoIterator<Item = C>) {
    let mut pipe = redis::pipe();
    for command in commands {
        let mut line = redis::Cmd::new();
        for word in command.as_ref() {
            line.arg(word);
        }
        pipe.add_command(line).ignore();
    }
    pipe.query::<()>(&mut server.connection()).expect("the keys are written");
}

fn command(text: String) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.replace('~', " ").into_bytes()).collect()
}

fn uuid(number: u32) -> String {
    format!("{:08x}-aaaa-4bbb-8ccc-0123456789ab", number.wrapping_mul(2_654_435_761))
}

/// What an application keeps beside its locks.
fn fill_with_other_things(server: &Server, each: u32) {
    let lines = (0..each).flat_map(|i| {
        [
            format!("SET page:/products/{i} <html>{i}</html> EX 60"),
            format!("SET session:{} {{\"user\":{i}}} EX 1800", uuid(i + 1)),
            format!("SET csrf:{i} {} EX 3600", uuid(i + 7)),
            format!("SET views:{i} {}", i * 3),
            format!("SET ratelimit:10.0.0.{i} {} EX 30", i % 5 + 1),
            format!("HSET user:{i} name n{i} age {i}"),
            format!("RPUSH queue:mail:{i} a b c"),
            format!("ZADD board:{i} {i} a"),
            format!("SET city:{i} Berlin EX 30"),
            format!("SET cart:{i} {}", uuid(i + 9)),
        ]
    });
    fill(server, lines.map(command));
}

fn discover(server: &Server, options: &[&str]) -> Value {
    let output = lockscope().args(["discover", "--json", "-u", &server.url()]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "lockscope/1");
    document
}

fn patterns(document: &Value) -> Vec<&str> {
    document["keyspaces"].as_array().unwrap().iter().map(|keyspace| keyspace["pattern"].as_str().unwrap()).collect()
}

#[test]
fn locks_that_are_not_called_so_are_found_among_everything_else() {
    let server = Server::start();
    fill_with_other_things(&server, 40);
    fill(&server, (0..30).map(|i| command(format!("SET billing:guard:{i} {} PX {} NX", uuid(i), 20_000 + i * 300))));
    fill(&server, (0..5).map(|i| command(format!("SET import:tenant{i} web-{i}:4242 PX 30000 NX"))));
    let document = discover(&server, &[]);
    assert_eq!(document["sampled"], 435);
    assert_eq!(document["of"], 435);
    assert_eq!(patterns(&document)[0], "billing:guard:*", "{document:#}");
    let guard = &document["keyspaces"][0];
    assert_eq!((&guard["sampled"], &guard["keys_estimated"]), (&30.into(), &30.into()));
    assert_eq!(guard["ttl_share"], 1.0);
    assert_eq!(guard["covered_by_default"], false);
    assert!(guard["confidence"].as_f64().unwrap() > 0.8);
    assert!(guard["why"].as_str().unwrap().contains("20 of 20 values are random tokens"), "{guard}");
    assert!(guard["examples"][0].as_str().unwrap().starts_with("billing:guard:"));
    assert_eq!(patterns(&document)[1..], ["import:tenant*"], "{document:#}");
}

#[test]
fn caches_sessions_counters_and_queues_are_not_proposed() {
    let server = Server::start();
    fill_with_other_things(&server, 60);
    let document = discover(&server, &[]);
    assert_eq!(document["keyspaces"], Value::Array(Vec::new()), "{document:#}");
    let output = lockscope().args(["discover", "-u", &server.url()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nothing looks like locks among 600 keys"), "{said}");
}

#[test]
fn the_proposed_command_lists_exactly_the_proposed_locks() {
    let server = Server::start();
    fill_with_other_things(&server, 30);
    // Something else in the same keyspace as the locks; quotes and globs in the name.
    fill(&server, (0..9).map(|i| command(format!("SET it's[eu]*:{i} {} PX 60000", uuid(i)))));
    fill(&server, (0..9).map(|i| command(format!("SET it's[eu]*:report{} quarterly~report~of~sales~{i}", i % 2))));
    let output = lockscope().args(["discover", "-u", &server.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("lockscope ls")).unwrap_or_else(|| panic!("{text}")).trim();
    assert!(line.ends_with(r"-p 'it'\''s\[eu\]\*:[0-9]*'"), "{line}");
    let bin = common::binary();
    let line = line.replacen("lockscope", bin.to_str().unwrap(), 1);
    let listed = std::process::Command::new("sh").args(["-c", &format!("{line} --json")]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["locks"].as_array().unwrap().len(), 9, "{listed:#}");
    let config: toml::Table = text.lines().last().unwrap().trim().parse().unwrap();
    assert_eq!(config["patterns"][0].as_str(), Some(r"it's\[eu\]\*:[0-9]*"));
}

#[test]
fn what_ls_finds_by_itself_is_marked_and_needs_no_pattern() {
    let server = Server::start();
    fill(&server, (0..12).map(|i| command(format!("SET lock:order:{i} {} PX 30000 NX", uuid(i)))));
    fill(&server, (0..12).map(|i| command(format!("HSET orders:{i} {}:57 1", uuid(i)))));
    fill(&server, (0..12).map(|i| command(format!("PEXPIRE orders:{i} 30000"))));
    let document = discover(&server, &[]);
    let keyspaces = document["keyspaces"].as_array().unwrap();
    let of = |pattern: &str| keyspaces.iter().find(|keyspace| keyspace["pattern"] == pattern).unwrap();
    assert_eq!(of("lock:order:*")["covered_by_default"], true, "{document:#}");
    assert_eq!(of("orders:*")["dialect"], "redisson", "{document:#}");
    assert_eq!(of("orders:*")["covered_by_default"], false, "{document:#}");
    let output = lockscope().args(["discover", "-u", &server.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("lock:order:*") && line.contains("default")), "{text}");
    assert!(text.contains("-p 'orders:*'\n") && !text.contains("-p 'lock"), "{text}");
}

#[test]
fn a_sample_is_scaled_to_the_whole() {
    let server = Server::start();
    fill(&server, (0..3000).map(|i| command(format!("SET billing:guard:{i} {} PX 60000 NX", uuid(i)))));
    fill(&server, (0..3000).map(|i| command(format!("SET views:{i} {i}"))));
    let document = discover(&server, &["--sample", "1000"]);
    assert_eq!((&document["sampled"], &document["of"]), (&1000.into(), &6000.into()));
    assert_eq!(document["complete"], false);
    let guessed = document["keyspaces"][0]["keys_estimated"].as_u64().unwrap();
    assert!((2500..3500).contains(&guessed), "{document:#}");
    let output = lockscope().args(["discover", "--sample", "1000", "-u", &server.url()]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains(&format!(" ~{guessed} ")));
    assert!(String::from_utf8(output.stderr).unwrap().contains("1000 of 6000 keys"));
}

#[test]
fn ids_of_words_and_bytes_are_ids_too() {
    let server = Server::start();
    let names = ["anna", "ben", "carla", "dora", "emil", "fritz", "gerda", "hans", "ida", "jan", "karl", "lena", "max"];
    fill(&server, names.iter().zip(0..).map(|(name, i)| command(format!("SET guard:{name} {} PX 30000", uuid(i)))));
    let binary = (0..20u8).map(|i| {
        let name = [&b"sync:owner:"[..], &[0xff, 0x1b, i, 0x00]].concat();
        vec![b"SET".to_vec(), name, uuid(i.into()).into_bytes(), b"PX".to_vec(), b"30000".to_vec()]
    });
    fill(&server, binary);
    let output = lockscope().args(["discover", "-u", &server.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("-p 'guard:*'") && text.contains("-p 'sync:owner:*'"), "{text}");
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
    let document = discover(&server, &["--pattern", "sync:*"]);
    assert_eq!(patterns(&document), ["sync:owner:*"], "the patterns that were given are walked, and no others");
    assert_eq!(document["sampled"], 20);
    assert!(document["keyspaces"][0]["examples"][0].as_str().unwrap().contains("\\xff\\u{1b}"), "{document:#}");
}

#[test]
fn an_empty_database_has_nothing_to_find() {
    let server = Server::start();
    let document = discover(&server, &[]);
    assert_eq!((&document["sampled"], &document["of"]), (&0.into(), &0.into()));
    let output = lockscope().args(["discover", "-u", &server.url()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("there are no keys in database 0"));
}

#[test]
fn a_sample_of_nothing_is_wrong_usage() {
    for sample in ["0", "-1", "many"] {
        lockscope().args(["discover", "--sample", sample]).assert().code(2);
    }
}

#[test]
fn without_permission_there_is_a_sentence() {
    let server = Server::start();
    fill(&server, (0..5).map(|i| command(format!("SET billing:guard:{i} {} PX 30000", uuid(i)))));
    for (rules, expected) in [
        (&["~*", "+ping", "+select"][..], "the command SCAN"),
        (&["~elsewhere:*", "+@all"][..], "lets this user read none of 5 keys"),
    ] {
        let mut line = vec!["ACL", "SETUSER", "watcher", "reset", "on", ">pw"];
        line.extend(rules);
        server.cli(&line);
        let output = lockscope()
            .args(["discover", "-u", &server.url(), "--user", "watcher"])
            .env("LOCKSCOPE_PASSWORD", "pw")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_of_the_server() {
    let mut server = Server::start();
    server.kill();
    lockscope().args(["discover", "-u", &server.url()]).assert().code(3);
}
