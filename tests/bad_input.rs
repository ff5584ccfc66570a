//! Every mistake, in the environment or on the command line, gives one sentence that names the fix, the right exit
//! code, no panic, and never the password.

mod common;

use std::io::Write;
use std::net::TcpListener;

use common::{Server, lockscope, process, wait_until};

const SECRET: &str = "s3cr3t-w0rd";

/// Runs `lockscope` with these arguments, and expects this failure.
#[track_caller]
fn fails(arguments: &[&str], code: i32, parts: &[&str]) -> String {
    fails_in(&mut lockscope(), arguments, code, parts)
}

/// `NEW` in an argument is a place where nothing is, nor is made.
#[track_caller]
fn fails_in(command: &mut assert_cmd::Command, arguments: &[&str], code: i32, parts: &[&str]) -> String {
    let new = process::scratch("new");
    let placed = arguments.iter().map(|word| word.replace("NEW", new.to_str().unwrap()));
    let output = command.args(placed).output().expect("lockscope runs");
    assert!(!new.exists(), "{arguments:?} left something behind");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*out), (Some(code), ""), "{arguments:?}: {err}");
    assert!(err.starts_with("lockscope: "), "{arguments:?}: {err}");
    // Only a filter error has more lines, with a mark under the filter.
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines.len() == 1 || (lines.len() == 3 && lines[2].trim() == "^"), "{arguments:?}: {err}");
    for part in parts {
        assert!(err.contains(part), "{arguments:?} should say {part:?}: {err}");
    }
    for never in [SECRET, "panicked", "RUST_BACKTRACE", "stack backtrace"] {
        assert!(!err.contains(never), "{arguments:?} says {never:?}: {err}");
    }
    err.into_owned()
}

/// Every command that speaks to a server.
const COMMANDS: [&[&str]; 9] = [
    &["ls"],
    &["ls", "--observe", "1s"],
    &["show", "lock:a"],
    &["watch", "--for", "5s"],
    &["check", "--for", "5s"],
    &["serve", "--listen", "127.0.0.1:0", "--for", "5s"],
    &["record", "--store", "NEW", "--for", "5s"],
    &["bundle", "lock:a", "--out", "NEW"],
    &["doctor"],
];

#[track_caller]
fn every_command_fails(url: &str, options: &[&str], parts: &[&str]) {
    for command in COMMANDS {
        fails(&[command, &["-u", url], options].concat(), 3, parts);
    }
}

#[test]
fn nobody_there() {
    let port = common::server::free_port();
    every_command_fails(&format!("redis://x:{SECRET}@127.0.0.1:{port}"), &[], &["nothing listens", "--url"]);
    fails(&["ls", "-u", "redis://no-such-host.invalid"], 3, &["host", "not known"]);
    fails(&["ls", "-u", "unix:///no/such/socket"], 3, &["no socket", "unixsocket"]);
}

#[test]
fn the_wrong_password_and_none_at_all() {
    let server = Server::with(&["--requirepass", "the-right-one"]);
    let url = server.url();
    every_command_fails(&url, &[], &["asks for a password", "LOCKSCOPE_PASSWORD"]);
    let with_password = url.replace("redis://", &format!("redis://:{SECRET}@"));
    every_command_fails(&with_password, &[], &["refused the user or password"]);
    let mut command = lockscope();
    fails_in(command.env("LOCKSCOPE_PASSWORD", SECRET), &["ls", "-u", &url, "--user", "nobody"], 3, &["refused"]);
    let open = Server::start();
    let url = open.url().replace("redis://", &format!("redis://:{SECRET}@"));
    fails(&["ls", "-u", &url], 3, &["password"]);
}

#[test]
fn a_user_who_may_do_nothing() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "nobody", "on", &format!(">{SECRET}"), "-@all"]);
    let url = server.url();
    for command in COMMANDS.iter().filter(|command| command[0] != "doctor") {
        let arguments = [command, &["-u", &url, "--user", "nobody"][..]].concat();
        fails_in(lockscope().env("LOCKSCOPE_PASSWORD", SECRET), &arguments, 3, &["does not permit"]);
    }
}

#[test]
fn tls_where_there_is_none_and_none_where_there_is() {
    let plain = Server::start();
    fails(&["ls", "-u", &plain.url().replace("redis://", "rediss://")], 3, &["TLS", "redis://"]);
    let Some(server) = Server::with_tls(&[]) else { return };
    let port = server.port();
    fails(&["ls", "-u", &format!("redis://127.0.0.1:{port}")], 3, &["rediss://"]);
    fails(&["ls", "-u", &server.url()], 3, &["certificate", "--tls-ca", "--insecure"]);
    let other = common::Certificates::generate();
    let home = process::temporary_directory();
    other.write_to(home.path());
    let ca = home.path().join("ca.pem");
    fails(&["ls", "-u", &server.url(), "--tls-ca", ca.to_str().unwrap()], 3, &["certificate", "--tls-ca"]);
    fails(&["ls", "-u", &server.url(), "--tls-ca", "/no/such/file.pem"], 2, &["/no/such/file.pem"]);
    let Some(strict) = Server::with_tls(&["--tls-auth-clients", "yes"]) else { return };
    let ca = strict.directory().join("ca.pem");
    fails(&["ls", "-u", &strict.url(), "--tls-ca", ca.to_str().unwrap()], 3, &["client certificate", "--tls-cert"]);
}

#[test]
fn a_server_that_is_loading() {
    let Some(mut server) = Server::loading_slowly() else { return };
    server.cli(&["EVAL", "for n = 1, 20000 do redis.call('SET', 'other:' .. n, 'x') end", "0"]);
    server.cli(&["SAVE"]);
    server.restart_loading();
    let info: String = server.ask(&["INFO", "persistence"]);
    assert_eq!(common::server::field(&info, "loading"), Some("1"), "the server loads for 20 seconds");
    for command in [&["ls"][..], &["ls", "--observe", "1s"], &["watch", "--for", "5s"], &["show", "lock:a"]] {
        fails(&[command, &["-u", &server.url()]].concat(), 3, &["loading", "try again"]);
    }
}

#[test]
fn something_else_on_the_port() {
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://:{SECRET}@127.0.0.1:{}", web.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for client in web.incoming() {
            let _ =
                client.and_then(|mut client| client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n<html>no</html>\r\n"));
        }
    });
    fails(&["ls", "-u", &url], 3, &["check host and port"]);
}

#[test]
fn a_server_that_hangs_up() {
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://127.0.0.1:{}", rude.local_addr().unwrap().port());
    std::thread::spawn(move || rude.incoming().for_each(drop));
    fails(&["ls", "-u", &url], 3, &["closed the connection"]);
}

#[test]
fn wrong_words_on_the_command_line() {
    let url = |rest: &str| format!("redis://user:{SECRET}@{rest}");
    for (arguments, parts) in [
        (&["ls", "-u", "http://127.0.0.1"][..], &["scheme", "redis://"][..]),
        (&["ls", "-u", &url("h:99999")], &["port"]),
        (&["ls", "-u", &url("h/abc")], &["database number"]),
        (&["ls", "-u", &url(":x")], &["***"]),
        (&["ls", "-u", ""], &["redis://"]),
        (&["ls", &url("h")], &["unexpected argument"]),
        (&["ls", "-p", ""], &["pattern", "empty"]),
        (&["ls", "-p", "lock:[a"], &["pattern", "never closed"]),
        (&["ls", "--dialect", "redison=lock:*"], &["redisson"]),
        (&["ls", "--dialect", "plain"], &["NAME=GLOB"]),
        (&["ls", "--dialect", "plain=[x"], &["never closed"]),
        (&["lss"], &["lss", "'ls'"]),
        (&["ls", "--jsom"], &["--jsom", "--json"]),
        (&["ls", "--sort", "hodler"], &["holder"]),
        (&["ls", "--group", "paterns"], &["pattern"]),
        (&["ls", "--group", "node", "--sort", "ttl"], &["groups have no ttl", "held"]),
        (&["ls", "--observe", "soon"], &["500ms, 30s, 5m or 2h"]),
        (&["ls", "--pace", "200%"], &["1% to 100%"]),
        (&["ls", "--password-file", "/no/such/file"], &["/no/such/file"]),
        (&["ls", "--config", "/no/such/config.toml"], &["/no/such/config.toml", "config template"]),
        (&["ls", "-t", "orders"], &["orders", "config"]),
        (&["man", "lss"], &["lss"]),
        (&["chek"], &["'check'"]),
        (&["record"], &["--store"]),
        (&["record", "--store", "NEW", "--info"], &["there is no store"]),
        (&["record", "--store", "NEW", "--info", "--copy-to", "NEW"], &["cannot be used with"]),
        (&["record", "--store", "NEW", "--for", "soon"], &["500ms, 30s, 5m or 2h"]),
        (&["record", "--store", "NEW", "--rules", "/no/such/rules.toml"], &["/no/such/rules.toml", "rules template"]),
        (&["record", "--store", "NEW", "--alertmanager", &url("h:no")], &["http://127.0.0.1:9090"]),
        (&["serve", "--listen", "here"], &["127.0.0.1:9190"]),
        (&["serve", "--no-pager", "--alertmanager", "http://h"], &["cannot be used with"]),
        (&["check", "--store", "NEW"], &["there is no store"]),
        (&["tune"], &["--store"]),
        (&["tune", "--store", "NEW"], &["there is no store"]),
        (&["tune", "--store", "NEW", "--prometheus", "http://h"], &["cannot be used with"]),
        (&["tune", "--store", "NEW", "--timeout", "5s"], &["cannot be used with"]),
        (&["tune", "--store", "NEW", "--header", "A: b"], &["cannot be used with"]),
        (&["tune", "--store", "NEW", "--bearer-file", "NEW"], &["cannot be used with"]),
        (&["tune", "--prometheus", &format!("http://x:{SECRET}@")], &["http://127.0.0.1:9090"]),
        (&["tune", "--prometheus", "http://h", "--header", "nonsense"], &["header"]),
        (&["tune", "--prometheus", "http://h", "--bearer-file", "/no/such/file"], &["/no/such/file"]),
        (&["bundle", "lock:a"], &["--out"]),
        (&["bundle", "--episode", "3", "--out", "NEW"], &["--store"]),
        (&["bundle", "--episode", "3", "--store", "NEW", "--out", "NEW"], &["there is no store"]),
        (&["bundle", "lock:a", "--out", "NEW", "--rules", "rules.toml"], &["--episode"]),
        (&["rules", "exprot"], &["'export'"]),
        (&["rules", "export", "--format", "promethues"], &["prometheus"]),
        (&["rules", "import"], &["FILE"]),
        (&["rules", "import", "/no/such/rules.yml"], &["/no/such/rules.yml", "rules file of Prometheus"]),
        (&["rules", "import", "/dev/null"], &["/dev/null"]),
        (&["rules", "fire", "LockOrphan"], &["--test"]),
        (&["rules", "fire", "LockOrphn", "--test"], &["LockOrphan"]),
        (&["rules", "fire", "LockOrphan", "--test"], &["--alertmanager URL"]),
        (&["--store", "NEW"], &["the console needs a terminal"]),
        (&["--store", "NEW", "ls"], &["for the console"]),
    ] {
        fails(arguments, 2, parts);
    }
    // The same from the environment.
    let mut command = lockscope();
    fails_in(command.env("LOCKSCOPE_URL", url("h:no")), &["ls"], 2, &["port"]);
}

#[test]
fn a_wrong_filter_is_marked_where_it_is_wrong() {
    let server = Server::start();
    for (filter, column, part) in [
        ("sttae:held", 1, "\"state\""),
        ("ttl<", 5, "ttl"),
        ("ttl<5parsecs", 5, "duration"),
        ("(key:a", 1, ""),
        ("key:a and", 10, ""),
        ("state:hold", 7, "held"),
    ] {
        for command in ["ls", "watch"] {
            let said = fails(&[command, "-u", &server.url(), "--filter", filter], 2, &["filter", part]);
            assert!(said.contains(&format!("column {column}")), "{filter}: {said}");
        }
    }
}

#[test]
fn a_wrong_config_names_the_line_and_the_nearest_key() {
    let home = process::temporary_directory();
    let file = home.path().join("config.toml");
    for (text, parts) in [
        ("pattrens = ['lock:*']\n", &["pattrens", "patterns"][..]),
        ("[target.orders]\nulr = 'redis://h'\n", &["ulr", "url"]),
        ("[target.orders]\nurl = 'redis://:s3cr3t-w0rd@h:no'\n", &["port"]),
        ("patterns = [\n", &["config.toml"]),
        ("patterns = ['[a']\n", &["never closed"]),
        ("[target.orders]\nurl = 5\n", &["url"]),
    ] {
        std::fs::write(&file, text).unwrap();
        let arguments = ["ls", "--config", file.to_str().unwrap(), "-t", "orders"];
        let output = lockscope().args(arguments).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{text}: {err}");
        for part in parts {
            assert!(err.contains(part), "{text} should say {part:?}: {err}");
        }
        assert!(!err.contains(SECRET) && !err.contains("panicked"), "{text}: {err}");
    }
}

#[test]
fn a_server_lost_meanwhile_is_told_at_the_end() {
    let mut server = Server::notifying(&[]);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let url = server.url();
    let followers = |server: &Server| {
        let clients: String = server.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        clients.lines().count()
    };
    std::thread::scope(|scope| {
        let observing = scope.spawn(|| lockscope().args(["ls", "--observe", "4s", "-u", &url]).output().unwrap());
        let watching = scope.spawn(|| lockscope().args(["watch", "--for", "4s", "-u", &url]).output().unwrap());
        wait_until("both follow", std::time::Duration::from_secs(20), || followers(&server) == 2);
        server.kill();
        for run in [observing, watching] {
            let output = run.join().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{err}");
            assert!(err.lines().last().unwrap_or("").contains("lost the server"), "{err}");
        }
    });
}
