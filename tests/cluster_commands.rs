//! The commands on a whole cluster, on real servers: one list, one identity for a key, and a sentence for what is not
//! done there.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::collections::BTreeSet;

use common::desk::Desk;
use common::program::has;
use common::{Cluster, Server, Watching, binary};
use lockscope::lock::slot_of;
use terminal::Terminal;

const LOCKS: usize = 30;

fn filled() -> Option<Cluster> {
    let cluster = Cluster::start(3)?;
    let mut client = cluster.client();
    for number in 0..LOCKS {
        let key = format!("lock:{number}");
        client.ask(&key, redis::cmd("SET").arg(&key).arg("worker-1").arg("PX").arg(600_000));
    }
    Some(cluster)
}

#[test]
fn all_masters_are_one_list_by_every_way_in() {
    let Some(cluster) = filled() else { return };
    let (master, replica) = (cluster.master(2).url(), cluster.replica_of(0).url());
    let desk = Desk::at(cluster.master(0));
    for (url, says) in [(cluster.url(), 0), (master.clone(), 1), (replica, 1)] {
        let ran = desk.run(&["ls", "--json", "-u", &url]);
        let list = ran.json();
        let names: BTreeSet<&str> =
            list["locks"].as_array().unwrap().iter().map(|l| l["key"].as_str().unwrap()).collect();
        assert_eq!((names.len(), &list["complete"]), (LOCKS, &true.into()), "{url}: {ran:?}");
        assert_eq!(list["locks"].as_array().unwrap().len(), LOCKS, "nothing twice");
        let nodes: BTreeSet<&str> =
            list["locks"].as_array().unwrap().iter().map(|l| l["node"].as_str().unwrap()).collect();
        assert_eq!((nodes.len(), list["server"]["nodes"].as_array().unwrap().len()), (3, 3), "{ran:?}");
        assert_eq!(ran.err.matches("is a node of a cluster: 3 masters are read").count(), says, "{ran:?}");
    }
    for number in 0..LOCKS {
        let shown = desk.run(&["show", &format!("lock:{number}"), "-u", &master]);
        assert_eq!(shown.code, 0, "{shown:?}");
    }
    assert_eq!(desk.run(&["show", "lock:none", "-u", &cluster.url()]).code, desk_without(&desk), "as on one server");
    let grouped = desk.run(&["ls", "--group", "node", "--json", "-u", &master]).json();
    assert_eq!(grouped["groups"].as_array().unwrap().len(), 3, "{grouped}");
    let doctor = desk.run(&["doctor", "--json", "-u", &master]).json();
    let named: Vec<&str> =
        doctor["nodes"].as_array().unwrap().iter().map(|node| node["node"].as_str().unwrap()).collect();
    assert_eq!(named.len(), 6, "the replicas too: {doctor}");
    let told = desk.run(&["doctor", "-u", &master]);
    assert_eq!(told.out.matches("all 6 nodes, with the figures of").count(), 1, "{}", told.out);
    assert_eq!(told.out.matches("ACL SETUSER lockscope-observer reset").count(), 1, "{}", told.out);
    let listed = desk.run(&["ls", "-u", &master]);
    assert!(listed.err.contains(&format!("{LOCKS} locks among {LOCKS} keys of 3 nodes in ")), "{listed:?}");
    for command in [&["contention", "--for", "1s"][..], &["discover"]] {
        let ran = desk.run(&[command, &["-u", &master]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

/// What a key that does not exist is answered with on a server on its own.
fn desk_without(desk: &Desk) -> i32 {
    let server = Server::start();
    desk.run(&["show", "lock:none", "-u", &server.url()]).code
}

#[test]
fn nodes_without_notifications_are_no_dead_nodes() {
    let Some(cluster) = filled() else { return };
    for master in 0..3 {
        cluster.master(master).cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    }
    let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &cluster.url()], &[]);
    let screen = terminal.wait_for("the locks", |screen| screen.contains("nodes") && screen.contains("30 locks"));
    let screen = match screen.contains("3 nodes tracking") {
        true => screen,
        false => terminal.wait_for("all nodes", |screen| screen.contains("3 nodes tracking")),
    };
    assert!(!screen.contains("0 of 3"), "{screen}");
}

#[test]
fn a_move_is_told_as_one_and_the_console_goes_on() {
    let Some(cluster) = filled() else { return };
    let url = cluster.url();
    let here = (0..LOCKS).map(|number| format!("lock:{number}")).find(|key| slot_of(key.as_bytes()) < 5_000);
    let here = here.expect("one of thirty is in a third of the slots");
    let mut watching = Watching::start(cluster.master(1), &[]);
    watching.tells(&here, "found");
    let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &url], &[]);
    let screen =
        terminal.wait_for("the locks", |screen| screen.contains("3 nodes live") && screen.contains("30 locks"));
    assert!(!screen.contains("partial"), "{screen}");
    cluster.fail_over(0);
    let moved = watching.tells(&here, "moved");
    assert_eq!(moved["holder"], "worker-1");
    terminal.wait_for("the new master", |screen| screen.contains("3 nodes live") && !screen.contains("partial"));
    let wrong: Vec<_> =
        watching.lines().into_iter().filter(|line| line["event"] != "found" && line["event"] != "moved").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn what_is_wrong_with_the_address_is_one_sentence() {
    let (alone, Some(cluster)) = (Server::start(), filled()) else { return };
    let desk = Desk::at(&alone);
    let plain = alone.url().replace("redis://", "redis+cluster://");
    let node = cluster.master(0).url();
    let second = format!("{node}/1");
    // Valkey may have several databases in a cluster, and says that there is no such one.
    let databases = cluster.master(0).is_valkey() && cluster.master(0).version() >= (9, 0, 0);
    let (refused, why) = if databases { (3, "no such database") } else { (2, "only database 0") };
    for (arguments, code, part) in [
        (&["-u", &plain][..], 2, "is no cluster"),
        (&["-u", &second], refused, why),
        (&["-u", "redis+cluster://h:1,h:2/3"], 2, "only database 0"),
        (&["-u", &cluster.url(), "--single-node"], 2, "redis:// instead of redis+cluster://"),
        (&["-u", &node, "--map-host", "x"], 2, "A=B"),
        (&["-u", "redis+cluster://127.0.0.1:1,127.0.0.1:2"], 3, "nothing listens"),
    ] {
        let ran = desk.run(&[&["ls"], arguments].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(part), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn nodes_are_reached_where_the_user_says_and_those_that_are_not_are_named() {
    let Some(cluster) = filled() else { return };
    let desk = Desk::at(cluster.master(0));
    let list = desk.run(&["ls", "--json", "--map-host", "127.0.0.1=localhost"]).json();
    assert_eq!((list["locks"].as_array().unwrap().len(), &list["complete"]), (LOCKS, &true.into()));
    // As behind NAT: nobody answers at the address of one of them.
    let name = format!("127.0.0.1:{}", cluster.master(1).port());
    let blind = desk.run(&["ls", "--map-host", &format!("{name}=127.0.0.1:1")]);
    assert!(blind.code == 0 && blind.err.contains(&format!("{name} could not be read")), "{blind:?}");
    assert!(blind.err.contains("--map-host"), "{blind:?}");
    let key = (0..LOCKS).map(|number| format!("lock:{number}")).find(|key| slot_of(key.as_bytes()) / 5_462 == 1);
    let shown = desk.run(&["show", &key.expect("one is there"), "--map-host", &format!("{name}=127.0.0.1:1")]);
    assert!(shown.code == 3 && shown.err.contains(&name), "{shown:?}");
}

#[test]
fn a_master_without_a_replica_that_dies_leaves_the_others_readable() {
    let Some(mut cluster) = filled() else { return };
    for node in &cluster.nodes {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    cluster.nodes[4].kill();
    cluster.nodes[1].kill();
    let dead = format!("127.0.0.1:{}", cluster.nodes[1].port());
    let desk = Desk::at(cluster.master(0));
    let ran = desk.run(&["ls", "--json"]);
    let list = ran.json();
    let listed = list["locks"].as_array().unwrap().len();
    assert!(listed > 10 && listed < LOCKS && list["complete"] == false, "{ran:?}");
    assert!(list["incomplete"].as_str().unwrap().contains(&dead), "{ran:?}");
}

#[test]
fn an_observer_needs_what_the_doctor_says_and_no_more() {
    if !has((7, 0), "names of subcommands in its rules") {
        return;
    }
    let Some(cluster) = filled() else { return };
    let desk = Desk::at(cluster.master(0));
    let doctor = desk.run(&["doctor", "--json", "-p", "lock:*"]).json();
    let line = doctor["nodes"][0]["acl"]["observer"].as_str().unwrap().replace("PASSWORD", "watches");
    for node in &cluster.nodes {
        node.cli(&line.split(' ').collect::<Vec<_>>());
    }
    let url = cluster.master(0).url();
    let login = ["-u", &url, "--user", "lockscope-observer", "-p", "lock:*"];
    let run = |command: &[&str]| desk.run_in(&[("LOCKSCOPE_PASSWORD", "watches")], &[command, &login[..]].concat());
    let list = run(&["ls", "--json", "--observe", "1s"]);
    assert_eq!(list.json()["locks"].as_array().unwrap().len(), LOCKS, "{list:?}");
    assert_eq!(list.json()["complete"], true, "{list:?}");
    for node in &cluster.nodes {
        assert_eq!(node.refused(), Vec::<String>::new());
    }
    // Without the right to ask for the others, it is one node and says so.
    for node in &cluster.nodes {
        node.cli(&["ACL", "SETUSER", "lockscope-observer", "-cluster|nodes"]);
    }
    let alone = run(&["ls", "--json"]);
    assert!(alone.json()["complete"] == false && alone.err.contains("+cluster|nodes"), "{alone:?}");
}
