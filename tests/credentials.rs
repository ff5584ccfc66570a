//! A given user or password is used, or the command ends before anything is sent; and no message contains a password.

mod common;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::ffi::OsStringExt;

use common::{Server, lockscope, process};

const SECRET: &str = "hunter2-s3cret";

/// A listener that records whether anybody connected.
struct Doorbell(TcpListener);

impl Doorbell {
    fn new() -> Doorbell {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a listener that does not wait");
        Doorbell(listener)
    }

    fn place(&self) -> String {
        format!("127.0.0.1:{}", self.0.local_addr().expect("an address").port())
    }

    fn was_rung(&self) -> bool {
        match self.0.accept() {
            Ok(_) => true,
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }
}

/// Expects a usage error with these parts, before the command connects to anything.
#[track_caller]
fn refused(bell: &Doorbell, environment: &[(&str, OsString)], arguments: &[&str], parts: &[&str]) {
    for command in
        [&["ls"][..], &["doctor"], &["release", "lock:a", "--holder", "t", "--yes"], &["probe", "--for", "1s"]]
    {
        let arguments = [command, arguments].concat();
        let output = lockscope().envs(environment.iter().cloned()).args(&arguments).output().expect("lockscope runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!bell.was_rung(), "{arguments:?} connected: {err}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {err}");
        for part in parts {
            assert!(err.contains(part), "{arguments:?} should say {part:?}: {err}");
        }
        assert!(!err.contains(SECRET) && !err.contains("hunter2"), "{arguments:?}: {err}");
    }
}

#[test]
fn a_user_without_a_password_is_not_taken_for_another_one() {
    let bell = Doorbell::new();
    let place = bell.place();
    let ways = ["no password for the user", "LOCKSCOPE_PASSWORD", "--password-file"];
    refused(&bell, &[], &["-u", &format!("redis://viewer@{place}")], &ways);
    refused(&bell, &[], &["-u", &format!("redis://{place}"), "--user", "viewer"], &ways);
    refused(&bell, &[], &["-u", &format!("redis://{place}?user=viewer")], &ways);
    refused(&bell, &[("REDIS_URL", format!("redis://viewer@{place}").into())], &[], &ways);
    refused(&bell, &[("LOCKSCOPE_PASSWORD", "".into())], &["-u", &format!("redis://viewer@{place}")], &ways);
    refused(&bell, &[], &["-u", &format!("redis://{place}"), "--user", ""], &["--user"]);
    // What looks like a user may be a password.
    refused(&bell, &[], &["-u", &format!("redis://{SECRET}@{place}")], &ways);
    // The URL's password belongs to the URL's user, and to nobody else.
    let admin = format!("redis://admin:{SECRET}@{place}");
    refused(&bell, &[], &["-u", &admin, "--user", "viewer"], &ways);
    let home = process::temporary_directory();
    let config = home.path().join("config.toml");
    for text in ["url = 'redis://PLACE'\nuser = 'viewer'\n", "url = 'redis://viewer@PLACE'\n"] {
        std::fs::write(&config, format!("[target.orders]\n{}", text.replace("PLACE", &place))).unwrap();
        refused(&bell, &[], &["--config", config.to_str().unwrap(), "-t", "orders"], &ways);
    }
}

#[test]
fn what_can_not_be_read_of_a_url_is_not_left_out() {
    let bell = Doorbell::new();
    let place = bell.place();
    for login in
        ["viewer:hunter2%zz", "viewer:hunter2%", "viewer:hunter2%4", ":hunter2%zz", "%zz:hunter2", "v:%ffhunter2"]
    {
        refused(&bell, &[], &["-u", &format!("redis://{login}@{place}")], &["%25"]);
    }
    for query in ["user=v&password=hunter2%zz", "user=%zz&password=hunter2", "password=hunter2%ff"] {
        refused(&bell, &[], &["-u", &format!("redis://{place}?{query}")], &["%25"]);
    }
    let broken = || OsString::from_vec(b"redis://viewer:hunter2\xff@127.0.0.1".to_vec());
    for variable in ["REDIS_URL", "LOCKSCOPE_URL"] {
        refused(&bell, &[(variable, broken())], &[], &[variable, "UTF-8"]);
    }
    let url = format!("redis://{place}");
    refused(&bell, &[("LOCKSCOPE_PASSWORD", broken())], &["-u", &url], &["LOCKSCOPE_PASSWORD", "UTF-8"]);
    // Port 0 is refused, not replaced by the default.
    refused(&bell, &[], &["-u", "redis://127.0.0.1:0"], &["port", "1 to 65535"]);
    refused(&bell, &[("REDIS_URL", "redis://viewer:hunter2@127.0.0.1:0/1".into())], &[], &["port"]);
}

#[test]
fn no_message_tells_a_password() {
    let bell = Doorbell::new();
    let place = bell.place();
    let urls = [
        format!("redis://default:{SECRET}"),
        format!("redis://default:{SECRET}/0"),
        format!("redis://:{SECRET}"),
        format!("rediss://default:{SECRET}?db=1"),
        format!("default:{SECRET}"),
        format!("default:{SECRET}@{place}"),
        format!("redis:default:{SECRET}"),
        format!("redis:/default:{SECRET}@h"),
        format!("redis://{place}/{SECRET}"),
        format!("redis://{place}#{SECRET}"),
        format!("redis://{place}?{SECRET}"),
        format!("redis://{place}?db={SECRET}"),
        format!("unix:///s?pwd={SECRET}"),
        format!("unix:///s?auth=x@{SECRET}"),
        format!("unix://u:{SECRET}@/s"),
        format!("redis+cluster://default:{SECRET}"),
        format!("htp://default:{SECRET}"),
    ];
    let named = ["pwd", "auth", "PASSWORD", "Pass", "secret", "p%61ss2"];
    let parameters = named.map(|name| format!("redis://{place}?{name}={SECRET}"));
    let home = process::temporary_directory();
    let config = home.path().join("config.toml");
    for url in urls.iter().chain(&parameters) {
        refused(&bell, &[], &["-u", url], &[]);
        refused(&bell, &[("REDIS_URL", url.into())], &[], &["REDIS_URL"]);
        for key in [format!("url = '{url}'"), format!("urls = ['{url}']")] {
            std::fs::write(&config, format!("[target.orders]\n{key}\n")).unwrap();
            refused(&bell, &[], &["--config", config.to_str().unwrap(), "-t", "orders"], &["line 2"]);
        }
        // In the wrong place, so that the command line itself is refused.
        refused(&bell, &[], &["--jsom", url], &[]);
        refused(&bell, &[], &[&format!("--ulr={url}")], &[]);
    }
    for name in ["pwd", "auth", "PASSWORD"] {
        refused(&bell, &[], &["-u", &format!("redis://{place}?{name}={SECRET}")], &[&format!("{name:?}")]);
    }
    refused(&bell, &[], &["--password", SECRET], &[]);
    refused(&bell, &[], &[&format!("--password={SECRET}")], &[]);
}

#[test]
fn whoever_is_named_is_who_acts() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "viewer", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]);
    server.cli(&["ACL", "SETUSER", "open", "on", "nopass", "~*", "&*", "+@all"]);
    let place = format!("127.0.0.1:{}", server.port());
    let doctor = |arguments: &[&str], password: Option<&str>| {
        let mut command = lockscope();
        command.envs(password.map(|password| ("LOCKSCOPE_PASSWORD", password)));
        let output = command.arg("doctor").arg("--json").args(arguments).output().expect("lockscope runs");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| {
            panic!("{arguments:?}: {why}: {}", String::from_utf8_lossy(&output.stderr));
        });
        document["server"]["user"].as_str().expect("a user").to_string()
    };
    for (arguments, password, user) in [
        (&["-u", &format!("redis://viewer:{SECRET}@{place}")][..], None, "viewer"),
        (&["-u", &format!("redis://viewer@{place}")], Some(SECRET), "viewer"),
        (&["-u", &format!("redis://{place}?user=viewer&password={SECRET}")], None, "viewer"),
        (&["-u", &format!("redis://{place}"), "--user", "viewer"], Some(SECRET), "viewer"),
        (&["-u", &format!("redis://admin:x@{place}"), "--user", "viewer"], Some(SECRET), "viewer"),
        (&["-u", &format!("redis://open:@{place}")], None, "open"),
        (&["-u", &format!("redis://default@{place}")], None, "default"),
        (&["-u", &format!("redis://{place}")], None, "default"),
    ] {
        assert_eq!(doctor(arguments, password), user, "{arguments:?}");
    }
}
