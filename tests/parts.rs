//! A server that is a part of something larger: what it can't show is said, and what it can't take is not sent.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::time::Duration;

use common::desk::Desk;
use common::{Cluster, Server, binary, wait_until};
use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(60);

/// A master with one lock, and a replica that has it.
fn replicated() -> (Server, Server) {
    let master = Server::with(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    master.cli(&["SET", "lock:a", "worker-1", "PX", "600000"]);
    wait_until("the lock to be replicated", PATIENCE, || replica.ask(&["EXISTS", "lock:a"]));
    (master, replica)
}

#[test]
fn a_third_of_a_cluster_is_not_shown_as_all_of_it() {
    let Some(cluster) = Cluster::start(3) else { return };
    let (nodes, node) = (&cluster.nodes[..3], cluster.master(0));
    let names: Vec<String> = (0..30).map(|number| format!("lock:{number}")).collect();
    let taken = |name: &&String| node.try_ask::<String, _>(&["SET", name, "worker-1", "PX", "600000"]).is_ok();
    let (here, elsewhere): (Vec<&String>, Vec<&String>) = names.iter().partition(taken);
    assert!(!here.is_empty() && !elsewhere.is_empty(), "{here:?} {elsewhere:?}");
    let alone = Desk::at(node);
    let desk = |command: &[&str]| alone.run(&[command, &["--single-node"]].concat());
    let list = desk(&["ls", "--json"]);
    assert_eq!(list.json()["locks"].as_array().unwrap().len(), here.len());
    assert_eq!(list.json()["complete"], false);
    assert!(list.json()["incomplete"].as_str().unwrap().contains("one node of a cluster"), "{list:?}");
    for command in [&["ls"][..], &["contention"], &["discover"], &["show", here[0]]] {
        let ran = desk(command);
        assert_eq!((ran.code, ran.err.matches("one node of a cluster").count()), (0, 1), "{command:?}: {ran:?}");
    }
    let moved = desk(&["show", elsewhere[0]]);
    let places: Vec<String> = nodes[1..].iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    assert_eq!(moved.code, 3, "{moved:?}");
    assert!(places.iter().any(|place| moved.err.contains(place)), "{moved:?} should name one of {places:?}");
    // What it has, it can free.
    assert_eq!(desk(&["release", here[0], "--holder", "worker-1", "--yes"]).code, 0);
}

/// It has keys and lets nobody read them: that is no matter of rights.
#[test]
fn a_replica_in_a_cluster_that_is_read_alone_names_its_master() {
    let Some(cluster) = Cluster::start(3) else { return };
    for number in 0..30 {
        cluster
            .client()
            .ask(&format!("lock:{number}"), redis::cmd("SET").arg(format!("lock:{number}")).arg("worker-1"));
    }
    let replica = cluster.replica_of(0);
    wait_until("it has locks", PATIENCE, || replica.ask::<usize, _>(&["DBSIZE"]) > 0);
    let ran = Desk::at(replica).run(&["ls", "--single-node"]);
    let place = format!("look at its master 127.0.0.1:{}", cluster.master(0).port());
    assert!(ran.err.contains(&place), "{ran:?}");
    assert!(!ran.err.contains("by this user"), "{ran:?}");
}

#[test]
fn nothing_is_written_through_a_replica_and_the_master_is_named() {
    let (master, replica) = replicated();
    let (desk, place) = (Desk::at(&replica), format!("127.0.0.1:{}", master.port()));
    let list = desk.run(&["ls", "--json"]);
    assert_eq!((list.json()["locks"].as_array().unwrap().len(), &list.json()["complete"]), (1, &false.into()));
    assert!(list.json()["incomplete"].as_str().unwrap().contains(&format!("a replica of {place}")), "{list:?}");
    for command in [
        &["release", "lock:a", "--holder", "worker-1", "--yes"][..],
        &["extend", "lock:a", "--holder", "worker-1", "--ttl", "60s", "--yes"],
        &["acquire", "lock:b", "--ttl", "5s", "--", "true"],
        &["probe", "--for", "1s"],
        &["undo", "--yes"],
    ] {
        let ran = desk.run(command);
        assert_eq!(ran.code, 1, "{command:?}: {ran:?}");
        assert!(ran.err.contains(&format!("to its master {place}")), "{command:?}: {ran:?}");
    }
    // Not even one that would take it.
    replica.cli(&["CONFIG", "SET", "replica-read-only", "no"]);
    assert_eq!(desk.run(&["release", "lock:a", "--holder", "worker-1", "--yes"]).code, 1);
    assert!(replica.ask::<bool, _>(&["EXISTS", "lock:a"]) && desk.audit().is_empty());
}

#[test]
fn the_console_says_on_every_screen_that_it_shows_a_replica() {
    let (_master, replica) = replicated();
    let url = replica.url();
    let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &url], &[]);
    let screen = terminal.wait_for("the lock", |screen| screen.contains("lock:a"));
    assert!(screen.lines().next().unwrap().contains("replica"), "{screen}");
    assert!(screen.contains("partial") && screen.contains("READ-ONLY"), "{screen}");
}

#[test]
fn a_sentinel_is_not_taken_for_a_server_that_is_too_old() {
    let master = Server::start();
    let sentinel = Server::sentinel(&master);
    let desk = Desk::at(&sentinel);
    let place = format!("127.0.0.1:{}", master.port());
    for command in [&["ls"][..], &["ls", "--json"], &["show", "lock:a"], &["contention"], &["discover"], &["watch"]] {
        let ran = desk.run(&[command, &["--single-node"]].concat());
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (3, "", 1), "{command:?}: {ran:?}");
        assert!(ran.err.contains("sentinel") && ran.err.contains(&place), "{command:?}: {ran:?}");
    }
    let ran = desk.run(&["--single-node", "acquire", "lock:b", "--ttl", "5s", "--", "true"]);
    assert!(ran.code == 1 && ran.err.contains(&place), "{ran:?}");
}
