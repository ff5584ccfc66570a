//! The test harness itself does what the other tests rely on.

mod common;

use std::time::Duration;

use common::process::is_alive;
use common::{Server, wait_until};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn servers_are_ready_and_apart() {
    let one = Server::start();
    let two = Server::start();
    one.cli(&["SET", "k", "v"]);
    assert_eq!(one.ask::<String, _>(&["GET", "k"]), "v");
    assert_eq!(two.ask::<Option<String>, _>(&["GET", "k"]), None);
    assert!(one.version() >= (6, 0, 0));
    assert!(one.knows("SCAN") && !one.knows("NOSUCHCOMMAND"));
}

#[test]
fn a_server_restarts_at_its_address_and_forgets_its_data() {
    let mut server = Server::with(&["--requirepass", "secret"]);
    let url = server.url();
    server.cli(&["SET", "k", "v"]);
    server.kill();
    assert!(server.try_ask::<String, _>(&["PING"]).is_err());
    server.restart();
    assert_eq!(server.url(), url);
    assert_eq!(server.ask::<Option<String>, _>(&["GET", "k"]), None);
}

#[test]
fn a_paused_server_answers_after_it_is_resumed() {
    let server = Server::start();
    let mut connection = server.connection();
    server.pause();
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err());
    server.resume();
    assert_eq!(server.ask::<String, _>(&["PING"]), "PONG");
}

#[test]
fn a_socket_and_a_tls_server_answer() {
    let server = Server::on_socket(&[]);
    assert_eq!(server.port(), 0);
    assert_eq!(server.ask::<String, _>(&["PING"]), "PONG");
    if let Some(server) = Server::with_tls(&["--tls-auth-clients", "yes"]) {
        assert_eq!(server.ask::<String, _>(&["PING"]), "PONG");
    }
}

#[test]
fn a_server_closed_to_strangers_counts_as_ready() {
    let server = Server::with(&["--user", "default", "off", "--user", "admin", "on", ">pw", "~*", "&*", "+@all"]);
    let client = redis::Client::open(format!("redis://admin:pw@127.0.0.1:{}", server.port())).unwrap();
    let mut connection = client.get_connection().unwrap();
    assert_eq!(redis::cmd("ACL").arg("WHOAMI").query::<String>(&mut connection).unwrap(), "admin");
}

#[test]
fn a_server_outlives_the_thread_that_started_it_but_not_its_value() {
    let server = std::thread::spawn(Server::start).join().unwrap();
    assert_eq!(server.ask::<String, _>(&["PING"]), "PONG");
    let (pid, directory) = (server.pid(), server.directory().to_owned());
    drop(server);
    wait_until("the server is gone", SOON, || !is_alive(pid));
    assert!(!directory.exists());
}

/// The test below starts it in another process, and kills that.
#[test]
#[ignore = "a part of servers_die_with_a_killed_test"]
fn holds_a_server_until_killed() {
    let server = Server::start();
    println!("server {}", server.pid());
    std::thread::sleep(Duration::from_secs(60));
}

#[cfg(target_os = "linux")]
#[test]
fn servers_die_with_a_killed_test() {
    use std::io::{BufRead, BufReader};
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "holds_a_server_until_killed", "--nocapture"]);
    command.stdout(std::process::Stdio::piped());
    let mut test = common::process::spawn(command).unwrap();
    let lines = BufReader::new(test.stdout.take().unwrap()).lines().map_while(Result::ok);
    let pid: u32 = lines
        .filter_map(|line| Some(line.split_once("server ")?.1.to_owned()))
        .find_map(|pid| pid.trim().parse().ok())
        .expect("the test process names its server");
    test.kill().unwrap();
    test.wait().unwrap();
    wait_until("the server is gone", SOON, || !is_alive(pid));
}
