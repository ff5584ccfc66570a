//! Writing to a whole cluster, on real servers: every command goes to the node that owns the lock, follows its slot, and
//! does nothing where it can't do all of it.

mod common;

use std::time::Duration;

use common::acting::Acting;
use common::desk::{Desk, Ran};
use common::{Cluster, Server, wait_until};
use lockscope::lock::{Key, KeyspaceId, slot_of};
use redis::{Value, cmd};

const PATIENCE: Duration = Duration::from_secs(60);
/// A holder of Redisson, and one of python-redis-lock.
const THREAD: &str = "7c1e3d52-1f0a-4c9b-8d6e-2b9f4a1c0e77:57";
const RANDOM: &str = "q83kL+0pZt/1xYbW7mNcR2vH";

/// The number of the master that owns a key at the start.
fn at(key: &str) -> usize {
    usize::from(slot_of(key.as_bytes()) / 5_462)
}

/// A name for each master: `lock:17` and so on.
fn names(form: impl Fn(usize) -> String) -> [String; 3] {
    [0, 1, 2].map(|master| (0..).map(&form).find(|name| at(name) == master).expect("one is there"))
}

struct Stage {
    cluster: Cluster,
    desk: Desk,
}

impl Stage {
    fn set() -> Option<Stage> {
        let cluster = Cluster::start(3)?;
        let desk = Desk::with_url(&cluster.url());
        Some(Stage { cluster, desk })
    }

    #[track_caller]
    fn ask(&self, key: &str, words: &[&str]) -> Value {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        self.cluster.client().ask(key, &command)
    }

    fn take(&self, key: &str, holder: &str) {
        self.ask(key, &["SET", key, holder, "PX", "600000"]);
    }

    fn take_redisson(&self, key: &str) {
        self.ask(key, &["HSET", key, THREAD, "1"]);
        self.ask(key, &["PEXPIRE", key, "600000"]);
    }

    fn is_there(&self, key: &str) -> bool {
        self.ask(key, &["EXISTS", key]) == Value::Int(1)
    }

    fn value(&self, key: &str) -> Option<String> {
        match self.ask(key, &["GET", key]) {
            Value::BulkString(value) => Some(String::from_utf8(value).expect("text")),
            _ => None,
        }
    }

    fn release(&self, key: &str, holder: &str) -> Ran {
        self.desk.run(&["release", key, "--holder", holder, "--if-renewed", "--yes", "--json"])
    }

    fn undo(&self, id: &str) -> Ran {
        self.desk.run(&["undo", id, "--unwatched", "--yes", "--json"])
    }
}

#[track_caller]
fn done(ran: &Ran) -> String {
    assert_eq!((ran.code, &ran.json()["outcome"]), (0, &"done".into()), "{ran:?}");
    ran.json()["id"].as_str().expect("an id").to_string()
}

#[test]
fn every_command_writes_to_the_owner() {
    let Some(stage) = Stage::set() else { return };
    let desk = &stage.desk;
    for key in names(|number| format!("lock:{number}")) {
        stage.take(&key, "worker-1");
        let extended = desk.run(&["extend", &key, "--holder", "worker-1", "--ttl", "20m", "--yes", "--json"]);
        done(&extended);
        assert!(matches!(stage.ask(&key, &["PTTL", &key]), Value::Int(600_001..)), "{key}");
        let dry = desk.run(&["release", &key, "--holder", "worker-1", "--dry-run", "--json"]);
        assert_eq!((dry.code, &dry.json()["undo"]["possible"]), (0, &true.into()), "{dry:?}");
        let other = desk.run(&["release", &key, "--holder", "worker-2", "--yes"]);
        assert_eq!((other.code, stage.value(&key).as_deref()), (1, Some("worker-1")), "{other:?}");
        let freed = done(&stage.release(&key, "worker-1"));
        assert!(!stage.is_there(&key), "{key}");
        let listed = desk.audit();
        let node = listed.last().unwrap()["node"].as_str().unwrap();
        assert!(node.ends_with(&format!(":{}", stage.cluster.master(at(&key)).port())), "{key}: {node}");
        done(&stage.undo(&freed));
        assert_eq!(stage.value(&key).as_deref(), Some("worker-1"));
        // The last action is found without its number, whichever node it was on.
        done(&stage.release(&key, "worker-1"));
        done(&desk.run(&["undo", "--unwatched", "--yes", "--json"]));
        assert!(stage.is_there(&key), "{key}");
        let told = desk.run(&["acquire", &key.replace("lock:", "lock:new-"), "--ttl", "5s", "--", "true"]);
        assert_eq!(told.code, 0, "{told:?}");
        let probed = desk.run(&["probe", "--for", "300ms", "--ttl", "150ms", "--key", &key.replace("lock", "probe")]);
        assert_eq!(probed.code, 0, "{probed:?}");
    }
    assert_eq!(stage.cluster.truth().len(), 3, "nothing is left behind: {:?}", stage.cluster.truth());
}

#[test]
fn many_locks_of_several_nodes_are_freed_together_by_a_filter_and_by_a_plan() {
    let Some(stage) = Stage::set() else { return };
    let keys: Vec<String> = (0..12).map(|number| format!("lock:{number}")).collect();
    keys.iter().for_each(|key| stage.take(key, RANDOM_OF[at(key)]));
    let dry = stage.desk.run(&["release", "--filter", "key:lock:*", "--json"]);
    let plan = dry.lines()[0]["plan"].as_str().unwrap_or_else(|| panic!("{dry:?}")).to_string();
    assert_eq!((dry.lines().len(), stage.cluster.truth().len()), (12, 12), "{dry:?}");
    // Slots may move between a dry run and its plan.
    let slot = slot_of(keys[0].as_bytes());
    let (from, to) = (stage.cluster.master(at(&keys[0])), stage.cluster.master((at(&keys[0]) + 1) % 3));
    stage.cluster.move_slot(slot, from, to);
    // Made for this cluster, and for no other.
    let Some(other) = Cluster::start(1) else { return };
    let wrong = stage.desk.run_bare(&["release", "--plan", &plan, "--yes", "-u", &other.url()]);
    assert!(wrong.code == 1 && wrong.err.contains("another cluster"), "{wrong:?}");
    let freed = stage.desk.run(&["release", "--plan", &plan, "--yes", "--json"]);
    assert_eq!(freed.lines().iter().filter(|line| line["outcome"] == "done").count(), 12, "{freed:?}");
    assert!(stage.cluster.truth().is_empty());
    keys.iter().for_each(|key| stage.take(key, RANDOM_OF[at(key)]));
    let freed = stage.desk.run(&["release", "--filter", "key:lock:*", "--yes", "--json"]);
    assert_eq!((freed.code, freed.lines().len()), (0, 12), "{freed:?}");
    assert!(stage.cluster.truth().is_empty());
}

const RANDOM_OF: [&str; 3] = ["5b1c8b1e0c7f4f60", "9d41a2ce3375ab10", "c04411d07fe2aa93"];

#[test]
fn redisson_s_keys_and_channel_share_the_slot_and_those_notified_are_a_minimum() {
    let Some(stage) = Stage::set() else { return };
    for key in names(|number| format!("orders-lock:{number}")) {
        stage.take_redisson(&key);
        let channel = format!("redisson_lock__channel:{{{key}}}");
        let owner = stage.cluster.master(at(&key));
        let elsewhere = stage.cluster.master((at(&key) + 1) % 3);
        let mut near = subscribed(owner, &channel);
        let mut far = subscribed(elsewhere, &channel);
        let freed = stage.release(&key, THREAD);
        let id = done(&freed);
        assert_eq!((&freed.json()["woke"], &freed.json()["woke_at_least"]), (&1.into(), &true.into()), "{freed:?}");
        for heard in [&mut near, &mut far] {
            assert_eq!(heard.get_message().expect("a message").get_channel_name(), channel);
        }
        assert!(!stage.is_there(&key));
        done(&stage.undo(&id));
        let told = stage.desk.run(&["release", &key, "--holder", THREAD, "--if-renewed", "--yes"]);
        assert!(told.code == 0 && told.out.contains("notified at least 1 waiter"), "{told:?}");
    }
    let server = Server::start();
    server.cli(&["SET", "lock:a", "worker-1", "PX", "600000"]);
    let alone = Desk::at(&server).run(&["release", "lock:a", "--holder", "worker-1", "--yes", "--json"]);
    assert_eq!(alone.json()["woke_at_least"], false, "a server on its own counts all: {alone:?}");
}

fn subscribed(node: &Server, channel: &str) -> Subscriber {
    let mut subscriber = Subscriber(node.connection());
    subscriber.0.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    subscriber.listen(channel);
    subscriber
}

struct Subscriber(redis::Connection);

impl Subscriber {
    fn listen(&mut self, channel: &str) {
        cmd("SUBSCRIBE").arg(channel).exec(&mut self.0).expect("a subscription");
    }

    fn get_message(&mut self) -> redis::RedisResult<redis::Msg> {
        loop {
            let answer = self.0.recv_response()?;
            if let Some(message) = redis::Msg::from_owned_value(answer) {
                return Ok(message);
            }
        }
    }
}

#[test]
fn a_wake_up_in_another_slot_comes_second_and_what_is_no_wake_up_is_refused() {
    let Some(stage) = Stage::set() else { return };
    // In two slots of two nodes.
    let apart = (0..).map(|number| format!("orders-{number}"));
    let name = apart.into_iter().find(|name| at(&format!("lock:{name}")) != at(&format!("lock-signal:{name}")));
    let name = name.expect("one is there");
    let (key, list) = (format!("lock:{name}"), format!("lock-signal:{name}"));
    stage.take(&key, RANDOM);
    let dry = stage.desk.run(&["release", &key, "--holder", RANDOM, "--dry-run", "--json"]);
    let hazards = dry.json()["hazards"].to_string();
    assert!(hazards.contains("by a second script"), "{dry:?}");
    let runbook = stage.desk.run(&["release", &key, "--holder", RANDOM, "--dry-run", "--eval"]);
    assert_eq!(runbook.out.matches("redis-cli -c").count(), 2, "{runbook:?}");
    let mut waiter = stage.cluster.master(at(&list)).connection();
    let popped = std::thread::spawn({
        let list = list.clone();
        move || cmd("BLPOP").arg(list).arg(20).query::<Option<(String, String)>>(&mut waiter)
    });
    let blocked = || stage.cluster.master(at(&list)).ask::<String, _>(&["INFO", "clients"]);
    wait_until("the waiter to be blocked", PATIENCE, || blocked().contains("blocked_clients:1"));
    let id = done(&stage.release(&key, RANDOM));
    assert_eq!(popped.join().unwrap().unwrap(), Some((list.clone(), "1".into())));
    done(&stage.undo(&id));
    assert_eq!(stage.value(&key).as_deref(), Some(RANDOM));

    // With a hash tag all is one step.
    let tagged = "lock:{orders}";
    stage.take(tagged, RANDOM);
    let dry = stage.desk.run(&["release", tagged, "--holder", RANDOM, "--dry-run", "--json"]);
    assert!(!dry.json()["hazards"].to_string().contains("second script"), "{dry:?}");
    done(&stage.release(tagged, RANDOM));
    assert_eq!(stage.ask(tagged, &["LLEN", "lock-signal:{orders}"]), Value::Int(1));

    // Its pool is another key, which must change in the same step.
    let grabbed = "SEMAPHORE:pool:GRABBED";
    stage.ask(grabbed, &["HSET", grabbed, "0", "1750000000.5"]);
    let before = stage.ask(grabbed, &["HGETALL", grabbed]);
    let refused = stage.desk.run(&["release", grabbed, "--holder", "0", "--force", "--yes"]);
    assert!(refused.code == 1 && refused.err.contains("different slots"), "{refused:?}");
    assert!(refused.err.contains("hash tag"), "{refused:?}");
    assert_eq!(stage.ask(grabbed, &["HGETALL", grabbed]), before);
}

#[test]
fn a_lock_in_a_slot_half_way_is_written_where_it_is() {
    let Some(stage) = Stage::set() else { return };
    let cluster = &stage.cluster;
    let (from, to) = (cluster.master(0), cluster.master(1));
    let tag = (0..).map(|number| format!("{{half-{number}}}")).find(|tag| at(tag) == 0).expect("one is there");
    let slot = slot_of(tag.as_bytes());
    let of = |kind: &str, side: &str| format!("lock:{kind}:{side}:{tag}");
    for side in ["there", "here"] {
        stage.take(&of("plain", side), "worker-1");
        stage.take_redisson(&of("redisson", side));
    }
    // A queue whose only waiter came too late: the release empties it, and then can't ask for it any more.
    let fair = of("fair", "here");
    stage.take_redisson(&fair);
    stage.ask(&fair, &["RPUSH", &format!("redisson_lock_queue:{fair}"), "late"]);
    stage.ask(&fair, &["ZADD", &format!("redisson_lock_timeout:{fair}"), "1", "late"]);
    cluster.open_slot(slot, from, to);
    for kind in ["plain", "redisson"] {
        let key = of(kind, "there");
        from.cli(&["MIGRATE", "127.0.0.1", &to.port().to_string(), &key, "0", "5000"]);
    }
    let arrived =
        |key: &String| to.ask::<Vec<String>, _>(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"]).contains(key);
    for side in ["there", "here"] {
        let key = of("plain", side);
        assert_eq!(arrived(&key), side == "there");
        done(&stage.desk.run(&["extend", &key, "--holder", "worker-1", "--ttl", "20m", "--yes", "--json"]));
        let id = done(&stage.release(&key, "worker-1"));
        assert!(!stage.is_there(&key), "{key}");
        done(&stage.undo(&id));
        assert!(arrived(&key), "what is not there is made at the target, as every client does");
        done(&stage.release(&key, "worker-1"));
        let taken = stage.desk.run(&["acquire", &key, "--ttl", "20s", "--token", "tester"]);
        assert_eq!((taken.code, stage.value(&key).as_deref()), (0, Some("tester")), "{taken:?}");
        // Its queue is not there, so the server does not run a script on all of its keys.
        let key = of("redisson", side);
        let halved = stage.release(&key, THREAD);
        let why = halved.json()["why"].as_str().unwrap_or_default().to_string();
        assert!(halved.code == 3 && why.starts_with("its slot is on its way to another node"), "{halved:?}");
        assert!(halved.json()["outcome"] == "refused" && stage.is_there(&key), "{halved:?}");
    }
    let freed = stage.release(&fair, THREAD);
    done(&freed);
    assert_eq!((&freed.json()["overdue"], stage.is_there(&fair)), (&1.into(), false), "{freed:?}");
    while !cluster.migrate(slot, from, to, 10).is_empty() {}
    cluster.close_slot(slot, from, to);
    for side in ["there", "here"] {
        done(&stage.release(&of("redisson", side), THREAD));
    }
}

#[test]
fn an_owner_that_changed_is_followed_and_nothing_is_sent_twice() {
    let Some(stage) = Stage::set() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let [key, ..] = names(|number| format!("lock:{number}"));
    stage.take(&key, "worker-1");
    runtime.block_on(async {
        let acting = Acting::on_cluster(&stage.cluster).await;
        let name = Key::from(key.as_str());
        // Both learn the owner before the slot moves.
        let mut owner = acting.topology.owner(KeyspaceId::FIRST, &name).await.unwrap();
        let mut half = acting.topology.owner(KeyspaceId::FIRST, &name).await.unwrap();
        let (from, to, then) = (stage.cluster.master(0), stage.cluster.master(1), stage.cluster.master(2));
        stage.cluster.move_slot(slot_of(key.as_bytes()), from, to);
        let count = || cmd("EVAL").arg("return redis.call('INCR', KEYS[1])").arg(1).arg(format!("{{{key}}}")).take();
        assert_eq!(count().query_async::<i64>(&mut owner).await, Ok(1), "MOVED: once more, at the owner");
        assert!(owner.node().name.ends_with(&format!(":{}", to.port())), "{}", owner.node().name);
        let mut unknown = cmd("EVALSHA");
        let error = unknown.arg("0".repeat(40)).arg(1).arg(&key).query_async::<Value>(&mut half).await.unwrap_err();
        assert_eq!(error.code(), Some("NOSCRIPT"), "{error}");
        stage.cluster.open_slot(slot_of(key.as_bytes()), to, then);
        stage.cluster.migrate(slot_of(key.as_bytes()), to, then, 10);
        assert_eq!(count().query_async::<i64>(&mut half).await, Ok(2), "ASK: at the node named");
        assert!(half.node().name.ends_with(&format!(":{}", to.port())), "which does not own it yet");
        let answers: (String, i64, i64) = redis::pipe()
            .cmd("GET")
            .arg(&key)
            .cmd("PTTL")
            .arg(&key)
            .cmd("DBSIZE")
            .query_async(&mut half)
            .await
            .unwrap();
        assert_eq!((answers.0.as_str(), answers.1 > 0), ("worker-1", true), "reads too");
        stage.cluster.close_slot(slot_of(key.as_bytes()), to, then);
        assert_eq!(count().query_async::<i64>(&mut owner).await, Ok(3));
        assert!(owner.node().name.ends_with(&format!(":{}", then.port())), "{}", owner.node().name);
    });
}

#[test]
fn an_undo_finds_its_lock_after_its_slot_has_moved() {
    let Some(mut stage) = Stage::set() else { return };
    let [moved, failed, _] = names(|number| format!("lock:{number}"));
    let joined = (0..).map(|number| format!("lock:new-{number}")).find(|key| at(key) == 2).expect("one is there");
    let mut ids = Vec::new();
    for key in [&moved, &failed, &joined] {
        stage.take(key, "worker-1");
        ids.push(done(&stage.release(key, "worker-1")));
    }
    stage.cluster.move_slot(slot_of(moved.as_bytes()), stage.cluster.master(0), stage.cluster.master(2));
    stage.cluster.fail_over(1);
    stage.cluster.add();
    let new = stage.cluster.nodes.last().expect("the new one");
    stage.cluster.move_slot(slot_of(joined.as_bytes()), stage.cluster.master(2), new);
    for (key, id) in [&moved, &failed, &joined].into_iter().zip(&ids) {
        done(&stage.undo(id));
        assert_eq!(stage.value(key).as_deref(), Some("worker-1"));
        assert!(matches!(stage.ask(key, &["PTTL", key]), Value::Int(500_000..=600_000)), "{key}");
    }
    // Taken by somebody else at its new place.
    let id = done(&stage.release(&moved, "worker-1"));
    stage.cluster.move_slot(slot_of(moved.as_bytes()), stage.cluster.master(2), stage.cluster.master(0));
    stage.take(&moved, "worker-2");
    let refused = stage.undo(&id);
    assert_eq!((refused.code, &refused.json()["outcome"]), (1, &"refused".into()), "{refused:?}");
    assert_eq!(stage.value(&moved).as_deref(), Some("worker-2"));
    // In no other cluster.
    let Some(other) = Cluster::start(1) else { return };
    let id = done(&stage.release(&failed, "worker-1"));
    let wrong = stage.desk.run_bare(&["undo", &id, "--unwatched", "--yes", "-u", &other.url()]);
    assert!(wrong.code == 2 && wrong.err.contains("was freed on"), "{wrong:?}");
    let none = stage.desk.run_bare(&["undo", "--unwatched", "--yes", "-u", &other.url()]);
    assert!(none.code == 1 && none.err.contains("nothing was freed on"), "{none:?}");
    assert!(other.truth().is_empty() && !stage.is_there(&failed));
}

#[test]
fn what_the_cluster_does_not_serve_is_refused_and_nothing_is_changed() {
    let Some(mut stage) = Stage::set() else { return };
    let [here, lost, _] = names(|number| format!("lock:{number}"));
    stage.take(&here, "worker-1");
    let id = done(&stage.release(&here, "worker-1"));
    done(&stage.undo(&id));
    stage.cluster.nodes[4].kill();
    stage.cluster.nodes[1].kill();
    let state = || stage.cluster.master(0).ask::<String, _>(&["CLUSTER", "INFO"]);
    wait_until("the cluster to be down", PATIENCE, || state().contains("cluster_state:fail"));
    let down = stage.release(&here, "worker-1");
    assert!(down.code == 3 && down.err.contains("is down"), "{down:?}");
    // The command that it names tells which node.
    let doctor = stage.desk.run(&["doctor"]);
    let lost_node = format!("127.0.0.1:{} failed", stage.cluster.nodes[1].port());
    assert!(doctor.code == 3 && doctor.err.contains(&lost_node) && doctor.err.contains(" slots"), "{doctor:?}");
    for key in [&here, &lost] {
        let taken = stage.desk.run(&["acquire", key, "--ttl", "5s"]);
        assert!(taken.code == 3 && taken.err.lines().count() == 1, "{taken:?}");
    }
    for node in [0, 2] {
        stage.cluster.master(node).cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    wait_until("the rest to be served", PATIENCE, || state().contains("cluster_state:ok"));
    done(&stage.release(&here, "worker-1"));
    // Undo works with a dead node in the cluster, and finds the last action by the others.
    done(&stage.desk.run(&["undo", "--unwatched", "--yes", "--json"]));
    assert_eq!(stage.value(&here).as_deref(), Some("worker-1"));
}

#[test]
fn a_test_lock_is_kept_and_given_back_while_its_slot_moves() {
    let Some(stage) = Stage::set() else { return };
    let [key, ..] = names(|number| format!("lock:{number}"));
    let slot = slot_of(key.as_bytes());
    let holding =
        stage.desk.start(&["acquire", &key, "--ttl", "3s", "--hold", "4s", "--watchdog", "--token", "tester"]);
    wait_until("the lock to be taken", PATIENCE, || stage.value(&key).as_deref() == Some("tester"));
    for hop in 0..6 {
        stage.cluster.move_slot(slot, stage.cluster.master(hop % 3), stage.cluster.master((hop + 1) % 3));
        stage.cluster.agree(&key);
    }
    assert_eq!(stage.value(&key).as_deref(), Some("tester"));
    let ran = Ran::of(holding.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.err.contains("lost"), "{ran:?}");
    assert!(!stage.is_there(&key));
}

#[test]
fn an_operator_needs_what_the_doctor_says_and_no_more() {
    if !common::program::has((7, 0), "ACL DRYRUN, by which the doctor tells who may write") {
        return;
    }
    let Some(stage) = Stage::set() else { return };
    let doctor = stage.desk.run(&["doctor", "--json", "-p", "lock:*"]).json();
    let line = doctor["nodes"][0]["acl"]["operator"].as_str().expect("a line").replace("PASSWORD", "writes");
    for node in &stage.cluster.nodes {
        node.cli(&line.split(' ').collect::<Vec<_>>());
    }
    let user = line.split(' ').nth(2).expect("a user");
    let url = stage.cluster.url();
    let login = ["-u", &url, "--user", user, "-p", "lock:*"];
    let run =
        |command: &[&str]| stage.desk.run_in(&[("LOCKSCOPE_PASSWORD", "writes")], &[&login[..], command].concat());
    let told = run(&["doctor"]);
    assert_eq!(told.out.matches("may free, extend and take locks").count(), 3, "of each master: {told:?}");
    let tag = (0..).map(|number| format!("{{{number}}}")).find(|tag| at(tag) == 0).expect("one is there");
    let (key, slot) = (format!("lock:{tag}"), slot_of(tag.as_bytes()));
    stage.take(&key, "worker-1");
    stage.cluster.open_slot(slot, stage.cluster.master(0), stage.cluster.master(1));
    stage.cluster.migrate(slot, stage.cluster.master(0), stage.cluster.master(1), 10);
    done(&run(&["release", &key, "--holder", "worker-1", "--yes", "--json"]));
    done(&run(&["undo", "--unwatched", "--yes", "--json"]));
    let taken = run(&["acquire", "lock:b", "--ttl", "5s", "--", "true"]);
    assert_eq!(taken.code, 0, "{taken:?}");
    for node in &stage.cluster.nodes {
        assert_eq!(node.refused(), Vec::<String>::new());
    }
}
