//! The servers screen and the doctor on real servers: what happened to a cluster, what is different at one node, and what
//! a server that is locked down costs.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use common::desk::Desk;
use common::{Cluster, Sentinels, Server, Watching, binary, wait_until};
use lockscope::lock::slot_of;
use terminal::{PATIENCE, Terminal};

const LOCKS: usize = 30;
/// Slots of each of three masters.
const SHARE: usize = 16_384 / 3 + 1;

fn key(number: usize) -> String {
    format!("lock:{number}")
}

fn filled() -> Option<Cluster> {
    let cluster = Cluster::start(3)?;
    let mut client = cluster.client();
    for number in 0..LOCKS {
        client.ask(&key(number), redis::cmd("SET").arg(key(number)).arg("worker-1").arg("PX").arg(600_000));
    }
    Some(cluster)
}

/// How many of the locks are in the slots from `first` to `last`.
fn between(first: u16, last: u16) -> usize {
    (0..LOCKS).filter(|number| (first..=last).contains(&slot_of(key(*number).as_bytes()))).count()
}

fn console(url: &str) -> Terminal {
    let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", url], &[]);
    terminal.wait_for("the locks", |screen| screen.contains("locks") && !screen.contains("first scan"));
    terminal
}

fn name(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[test]
fn a_cluster_is_a_table_of_nodes_and_what_happened_to_it_is_told() {
    let Some(cluster) = filled() else { return };
    let mut terminal = console(&cluster.url());
    terminal.press("5");
    let screen = terminal.wait_for("the nodes", |screen| screen.matches(" live ").count() >= 3);
    let header = screen.lines().next().unwrap();
    assert!(header.contains("3 nodes live") && header.contains("READ-ONLY"), "{screen}");
    for index in 0..3 {
        let row = screen.lines().find(|line| line.starts_with(&format!(" {}", name(cluster.master(index))))).unwrap();
        assert!(row.contains("master") && (row.contains(" 5462 ") || row.contains(" 5460 ")), "{screen}");
    }
    // A slot moves between two masters.
    let slot = slot_of(key(0).as_bytes());
    let from = cluster.master(usize::from(slot) / SHARE);
    let to = cluster.master((usize::from(slot) / SHARE + 1) % 3);
    let watching = Watching::start(cluster.master(1), &["--notable"]);
    watching.says(&format!("watching {} by", name(cluster.master(2))));
    cluster.move_slot(slot, from, to);
    let locks = between(slot, slot);
    let told = format!("1 slot with {locks} lock{}", if locks == 1 { "" } else { "s" });
    terminal.wait_for("the move", |screen| screen.contains("SLOTS MOVED") && screen.contains(&told));
    wait_until("watch tells it too", PATIENCE, || {
        watching.lines().iter().any(|line| line["notable"] == "slots-moved" && line["locks"] == locks)
    });
    cluster.fail_over(0);
    let screen = terminal.wait_for("the failover", |screen| screen.contains("FAILOVER") && screen.contains("kept"));
    assert!(!screen.contains("kept, "), "none was lost: {screen}");
    let (new, old) = (name(cluster.replica_of(0)), name(cluster.master(0)));
    assert!(screen.contains(&format!("{new} took over")) && screen.contains(&old), "{screen}");
    let at = |word: &str| screen.find(word);
    assert!(at("FAILOVER") < at("SLOTS MOVED"), "the newest first: {screen}");
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn a_filter_by_node_lists_what_is_there() {
    let Some(cluster) = filled() else { return };
    let desk = Desk::with_url(&cluster.url());
    let node = name(cluster.master(1));
    let list = desk.run(&["ls", "--json", "--filter", &format!("node:{node}")]).json();
    let locks = list["locks"].as_array().unwrap();
    let own: Vec<String> = cluster.master(1).ask(&["KEYS", "lock:*"]);
    assert_eq!(locks.len(), own.len(), "{list}");
    assert!(locks.iter().all(|lock| lock["node"] == node.as_str()), "{list}");
}

#[test]
fn the_doctor_tells_once_what_nodes_share_and_names_the_one_that_differs() {
    let Some(cluster) = filled() else { return };
    let replica = cluster.replica_of(1);
    replica.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    cluster.master(2).cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    cluster.master(2).cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let told = Desk::with_url(&cluster.url()).run(&["doctor"]);
    let (shared, own) = told.out.split_once("\n\n").unwrap();
    assert!(shared.starts_with("all 6 nodes, with the figures of") && shared.contains("version"), "{}", told.out);
    assert_eq!(own.matches("notify-keyspace-events is off").count(), 1, "{}", told.out);
    assert_eq!(own.matches("(allkeys-lru)").count(), 1, "{}", told.out);
    let section = |of: &str| own.split("\n\n").find(|part| part.starts_with(of)).unwrap_or_default().to_string();
    assert!(section(&name(replica)).contains("notify-keyspace-events is off"), "{}", told.out);
    assert!(section(&name(cluster.master(2))).contains("allkeys-lru"), "{}", told.out);
    assert!(!own.contains("is supported") && !own.contains("has been serving"), "{}", told.out);
}

/// Each missing command costs its own feature, and the rest goes on.
#[test]
fn a_server_that_is_locked_down_costs_just_what_is_missing() {
    let hidden = ["MONITOR", "CONFIG", "EVAL", "EVALSHA"].map(|name| ["--rename-command", name, "hidden-"]);
    let named: Vec<String> = hidden.iter().map(|[_, name, hidden]| format!("{hidden}{name}")).collect();
    let mut arguments = vec!["--notify-keyspace-events", common::program::events()];
    for ([option, name, _], hidden) in hidden.iter().zip(&named) {
        arguments.extend([*option, *name, hidden.as_str()]);
    }
    let server = Server::with(&arguments);
    server.cli(&["SET", "lock:a", "worker-1", "PX", "600000"]);
    let desk = Desk::at(&server);
    let list = desk.run(&["ls", "--json"]);
    assert_eq!((list.code, list.json()["complete"].as_bool()), (0, Some(true)), "{list:?}");
    let report = desk.run(&["doctor"]);
    assert_eq!(report.code, 0, "{report:?}");
    assert!(report.out.contains("notify-keyspace-events is not known"), "{}", report.out);
    if server.version() >= (7, 0, 0) {
        assert!(report.out.contains("this server has no MONITOR"), "{}", report.out);
        assert!(report.out.contains("EVAL, which this server does not have"), "{}", report.out);
    }
    let mut terminal = console(&server.url());
    terminal.press("5");
    let screen = terminal.wait_for("the server", |screen| screen.contains("watched by"));
    assert!(screen.contains("unknown") || screen.contains("not known"), "{screen}");
    if server.version() >= (7, 0, 0) {
        // The whole page is in sight.
        terminal.resize(140, 40);
        terminal.wait_for("what is missing", |screen| screen.contains("this server has no MONITOR"));
    }
    terminal.press("1");
    terminal.wait_for("the lock", |screen| screen.contains("lock:a"));
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn a_server_that_speaks_resp2_only_and_lists_no_clients_is_polled() {
    let server =
        Server::with(&["--rename-command", "HELLO", "hidden-hello", "--rename-command", "CLIENT", "hidden-client"]);
    server.cli(&["SET", "lock:a", "worker-1", "PX", "600000"]);
    let mut terminal = console(&server.url());
    let screen = terminal.wait_for("the lock", |screen| screen.contains("lock:a") && screen.contains("polling"));
    assert!(screen.contains("1 lock"), "{screen}");
    server.cli(&["SET", "lock:b", "worker-1", "PX", "600000"]);
    terminal.press("r");
    terminal.wait_for("the next lock", |screen| screen.contains("lock:b"));
    terminal.press("5");
    terminal.wait_for("what it costs", |screen| {
        screen.contains("polling") && screen.contains("whether holders are still connected is not known")
    });
    terminal.press("q");
    terminal.wait_for_end();
}

/// A cluster and a service whose servers do not have these commands, by their URLs.
fn locked_down(commands: &[&str]) -> Vec<(String, Whole)> {
    let names: Vec<String> = commands.iter().map(|name| format!("hidden-{name}")).collect();
    let arguments: Vec<&str> =
        commands.iter().zip(&names).flat_map(|(command, name)| ["--rename-command", *command, name.as_str()]).collect();
    let mut all = Vec::new();
    if let Some(cluster) = Cluster::masters_with(3, &arguments) {
        let mut client = cluster.client();
        for number in 0..LOCKS {
            client.ask(&key(number), redis::cmd("SET").arg(key(number)).arg("worker-1").arg("PX").arg(600_000));
        }
        all.push((cluster.url(), Whole::Cluster(cluster)));
    }
    let service = Sentinels::with(&arguments, "");
    for number in 0..LOCKS {
        service.servers[0].cli(&["SET", &key(number), "worker-1", "PX", "600000"]);
    }
    all.push((service.url(), Whole::Service(service)));
    all
}

/// Kept as long as it is used.
enum Whole {
    Cluster(Cluster),
    Service(Sentinels),
}

impl Whole {
    fn take(&self, key: &str) {
        let mut set = redis::cmd("SET");
        set.arg(key).arg("worker-2").arg("PX").arg(600_000);
        match self {
            Whole::Cluster(cluster) => drop(cluster.client().ask(key, &set)),
            Whole::Service(service) => drop(service.client().ask(&set)),
        }
    }
}

#[test]
fn on_a_cluster_and_a_service_each_missing_power_costs_its_own_feature_only() {
    for (url, whole) in locked_down(&["MONITOR", "CONFIG", "EVAL", "EVALSHA"]) {
        let desk = Desk::with_url(&url);
        let list = desk.run(&["ls", "--json"]);
        let list = (list.code, list.json());
        assert_eq!((list.0, list.1["locks"].as_array().unwrap().len()), (0, LOCKS), "{list:?}");
        assert_eq!(list.1["complete"], true, "{list:?}");
        let report = desk.run(&["doctor"]);
        assert_eq!(report.code, 0, "{report:?}");
        assert!(report.out.contains("notify-keyspace-events is not known"), "{url}: {}", report.out);
        let refused = desk.run(&["release", &key(0), "--holder", "worker-1", "--yes"]);
        assert!(refused.code == 3 && refused.out.contains("scripts (EVAL) can't be run here"), "{url}: {refused:?}");
        let mut terminal = console(&url);
        // By tracking, under the prefixes where locks were found.
        whole.take("lock:more");
        terminal.wait_for("the next lock", |screen| screen.contains("31 locks"));
        terminal.press("5");
        // A key and a new size at one moment: the key may come with the next one.
        terminal.wait_for("the screen", |screen| screen.contains("NODE"));
        terminal.resize(140, 50);
        if common::program::version() >= (7, 0) {
            assert!(report.out.contains("this server has no MONITOR"), "{url}: {}", report.out);
            assert!(report.out.contains("EVAL, which this server does not have"), "{url}: {}", report.out);
            assert!(report.out.contains("No rule can allow what the server does not have"), "{url}: {}", report.out);
            terminal.wait_for("what is missing", |screen| {
                screen.contains("this server has no MONITOR")
                    && screen.contains("EVAL, which this server does not have")
            });
        }
        terminal.press("q");
        terminal.wait_for_end();
    }
}

#[test]
fn a_cluster_and_a_service_that_speak_resp2_only_and_list_no_clients_are_polled() {
    for (url, whole) in locked_down(&["HELLO", "CLIENT"]) {
        let mut terminal = console(&url);
        terminal.wait_for("the locks", |screen| screen.contains("30 locks"));
        whole.take("lock:more");
        terminal.press("r");
        terminal.wait_for("the next lock", |screen| screen.contains("31 locks"));
        terminal.press("5");
        // A key and a new size at one moment: the key may come with the next one.
        terminal.wait_for("the screen", |screen| screen.contains("NODE"));
        terminal.resize(140, 50);
        terminal
            .wait_for("what it costs", |screen| screen.contains("whether holders are still connected is not known"));
        terminal.press("q");
        terminal.wait_for_end();
    }
}

/// The replicas and sentinels of a service stand beside its master, and what is wrong at one is said before it takes over.
#[test]
fn a_service_is_listed_with_its_replicas_and_sentinels() {
    let service = Sentinels::start();
    let deaf = &service.servers[2];
    deaf.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    let mut terminal = console(&service.url());
    terminal.press("5");
    let listed = |screen: &str| {
        let row = |server: &Server, what: &str| {
            screen.lines().any(|line| line.contains(&name(server)) && line.contains(what))
        };
        row(&service.servers[0], "master")
            && service.servers[1..].iter().all(|replica| row(replica, "replica"))
            && service.sentinels.iter().all(|sentinel| row(sentinel, "answers"))
    };
    let screen = terminal.wait_for("all of them", listed);
    assert!(screen.contains("3 of 3 sentinels answer, quorum 2"), "{screen}");
    terminal.press("G");
    let screen = terminal.wait_for("the deaf one", |screen| screen.contains("notify-keyspace-events is off here"));
    assert_eq!(screen.matches("once it is the master").count(), 1, "only of that one: {screen}");
    terminal.press("q");
    terminal.wait_for_end();
    let told = Desk::with_url(&service.url()).run(&["doctor"]);
    assert!(told.out.contains("3 of 3 sentinels answer, quorum 2: a master that fails is replaced."), "{}", told.out);
    let section = |of: &Server| told.out.split("\n\n").find(|part| part.starts_with(&name(of))).unwrap_or_default();
    assert!(section(deaf).contains("notify-keyspace-events is off"), "{}", told.out);
    assert!(!section(&service.servers[1]).contains("notify-keyspace-events is off"), "{}", told.out);
    assert!(!told.out.contains("Connect to the master"), "it is read: {}", told.out);
    let told = Desk::with_url(&service.url()).run(&["doctor", "--json"]).json();
    assert_eq!(told["service"]["sentinels"].as_array().map(Vec::len), Some(3), "{told}");
    assert_eq!((&told["service"]["quorum"], told["nodes"].as_array().map(Vec::len)), (&2.into(), Some(3)), "{told}");
}

#[test]
fn too_few_sentinels_are_told_with_what_that_costs() {
    let mut service = Sentinels::start();
    let url = service.url();
    let mut terminal = console(&url);
    service.sentinels[1].kill();
    service.sentinels[2].kill();
    terminal.wait_for("the header says it", |screen| {
        screen.lines().next().is_some_and(|header| header.contains("1 of 3 sentinels: NO FAILOVER"))
    });
    terminal.press("5");
    let screen = terminal.wait_for("the servers screen too", |screen| screen.matches("NO ANSWER").count() == 2);
    let told = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("no failover is possible, and lockscope writes nothing until most"), "{screen}");
    terminal.press("q");
    terminal.wait_for_end();
    let told = Desk::with_url(&url).run(&["doctor"]);
    assert_eq!(told.code, 1, "{}", told.err);
    for said in [name(&service.sentinels[1]), name(&service.sentinels[2]), "no failover is possible".to_string()] {
        assert!(told.out.contains(&said), "{said}: {}", told.out);
    }
}

/// One of its masters is dead, and so is its replica, as all the others say by now. Returns the name of the master.
fn down(cluster: &mut Cluster) -> String {
    let dead = name(cluster.master(1));
    cluster.nodes[4].kill();
    cluster.nodes[1].kill();
    wait_until("the cluster to be down", PATIENCE, || {
        cluster.master(0).ask::<String, _>(&["CLUSTER", "INFO"]).contains("cluster_state:fail")
            && cluster.master(0).ask::<String, _>(&["CLUSTER", "NODES"]).contains("master,fail ")
    });
    dead
}

#[test]
fn a_cluster_that_is_down_is_said_to_be_down_with_the_reason_and_the_time() {
    let Some(mut cluster) = filled() else { return };
    let url = cluster.url();
    let mut terminal = console(&url);
    let watching = Watching::start(cluster.master(0), &[]);
    watching.says(&format!("watching {} by", name(cluster.master(2))));
    let dead = down(&mut cluster);
    let why = format!("slots are not served: {dead} failed");
    let screen = terminal.wait_for("the cluster is down", |screen| screen.contains("CLUSTER DOWN since "));
    assert!(screen.lines().next().unwrap().contains("CLUSTER DOWN since "), "{screen}");
    let screen = terminal.wait_for("the reason", |screen| {
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        words.contains("as of ") && words.contains("the cluster is down: ") && words.contains("not served")
    });
    assert!(screen.contains("stale"), "{screen}");
    watching.says("the cluster is down and answers for no key since ");
    // Who comes now sees no locks, and why.
    let late = Terminal::start(binary().to_str().unwrap(), &["-u", &url], &[]);
    late.wait_for("the reason", |screen| {
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        words.contains("No lock can be read: the cluster is down") && words.contains(&why)
    });
    let desk = Desk::with_url(&url);
    // A key of a node that is alive, and one of the dead one.
    let of = |master: usize| (0..).map(key).find(|key| usize::from(slot_of(key.as_bytes())) / SHARE == master).unwrap();
    let (alive, gone) = (of(0), of(1));
    for command in [
        &["ls"][..],
        &["show", &alive],
        &["show", &gone],
        &["acquire", &alive, "--ttl", "5s"],
        &["acquire", &gone, "--ttl", "5s"],
    ] {
        let ran = desk.run(command);
        assert_eq!(ran.code, 3, "{command:?}: {} {}", ran.out, ran.err);
        assert!(ran.err.contains(&why), "{command:?}: {}", ran.err);
    }
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn a_question_about_a_frozen_master_is_announced_and_can_be_left() {
    let Some(cluster) = Cluster::masters(3) else { return };
    let mut client = cluster.client();
    client.ask("lock:a", redis::cmd("SET").arg("lock:a").arg("worker-1").arg("PX").arg(600_000));
    let owner = &cluster.nodes[usize::from(slot_of(b"lock:a")) / SHARE];
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &cluster.url(), "--write"], &[]);
    terminal.wait_for("the lock", |screen| screen.contains("lock:a") && !screen.contains("first scan"));
    owner.pause();
    terminal.press("x");
    let asking = format!("asking {} about lock:a", name(owner));
    terminal.wait_for("it says whom it asks", |screen| screen.contains(&asking) && screen.contains("esc cancels"));
    terminal.press("\u{1b}");
    terminal.wait_for("nothing is asked", |screen| screen.contains("not asked any more") && !screen.contains(&asking));
    terminal.press("5");
    terminal.wait_for("it is silent", |screen| screen.contains("NODE") && screen.contains("WITHOUT ANSWER"));
    owner.resume();
    // The answer is there as soon as the node is watched again.
    let screen = terminal.wait_for("the node answers", |screen| screen.contains("3 nodes live"));
    assert!(screen.contains("NODE") && !screen.contains("free it"), "{screen}");
    // A command that waits in vain names the node, and not the URL.
    owner.pause();
    let ran = Desk::with_url(&format!(
        "redis+cluster://{}",
        name(cluster.nodes.iter().find(|node| node.port() != owner.port()).unwrap())
    ))
    .run(&["acquire", "lock:a", "--ttl", "5s"]);
    owner.resume();
    assert_eq!(ran.code, 3, "{} {}", ran.out, ran.err);
    assert!(ran.err.contains(&format!("{} did not answer in time", name(owner))), "{}", ran.err);
}
