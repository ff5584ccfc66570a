//! The commands on a Sentinel service, on real servers: every way in leads to the present master, and what is wrong with
//! the address is one sentence.

mod common;

use common::desk::Desk;
use common::sentinels::SERVICE;
use common::{Sentinels, Server, Watching};

const LOCKS: usize = 10;

fn fill(server: &Server) {
    for number in 0..LOCKS {
        server.cli(&["SET", &format!("lock:{number}"), "worker-1", "PX", "600000"]);
    }
}

fn filled() -> Sentinels {
    let service = Sentinels::start();
    fill(&service.servers[0]);
    service
}

/// A master with its locks, and one sentinel that calls it by these names.
fn watched(names: &[&str]) -> (Server, Server) {
    let master = Server::start();
    fill(&master);
    let line = |name: &&str| format!("sentinel monitor {name} 127.0.0.1 {} 1\n", master.port());
    let sentinel = Server::sentinel_with(&names.iter().map(line).collect::<String>());
    (master, sentinel)
}

#[test]
fn every_way_in_leads_to_the_present_master() {
    let service = filled();
    let desk = Desk::with_url(&service.url());
    let plain = service.sentinels[2].url();
    for (url, says) in [(service.url(), 0), (plain.clone(), 1)] {
        let ran = desk.run_bare(&["ls", "--json", "-u", &url]);
        let list = ran.json();
        assert_eq!((list["locks"].as_array().unwrap().len(), &list["complete"]), (LOCKS, &true.into()), "{ran:?}");
        let name = format!("127.0.0.1:{}", service.servers[0].port());
        assert_eq!(list["locks"][0]["node"], name.as_str(), "{ran:?}");
        assert_eq!(
            ran.err.matches(&format!("is a sentinel: the locks of its service {SERVICE}")).count(),
            says,
            "{ran:?}"
        );
        assert_eq!(desk.run_bare(&["show", "lock:1", "-u", &url]).code, 0);
    }
    let new = service.fail_over();
    let list = desk.run(&["ls", "--json"]).json();
    let name = format!("127.0.0.1:{}", service.servers[new].port());
    assert_eq!((list["locks"].as_array().unwrap().len(), &list["locks"][0]["node"]), (LOCKS, &name.as_str().into()));
    // The sentinel itself holds nothing.
    let alone = desk.run_bare(&["ls", "-u", &plain, "--single-node"]);
    assert!(alone.code == 3 && alone.err.contains("this is a sentinel, which holds no locks"), "{alone:?}");
}

#[test]
fn a_watch_goes_on_through_a_failover() {
    let service = filled();
    let mut watching = Watching::start(&service.sentinels[0], &[]);
    watching.tells("lock:3", "found");
    let new = service.fail_over();
    let moved = watching.tells("lock:3", "moved");
    let name = format!("127.0.0.1:{}", service.servers[new].port());
    assert_eq!((&moved["holder"], &moved["node"]), (&"worker-1".into(), &name.as_str().into()));
    // A release before its events are heard can't be told from a loss.
    watching.says(&format!("watching {name} by notifications"));
    service.servers[new].cli(&["DEL", "lock:3"]);
    watching.tells("lock:3", "released");
    let odd: Vec<_> = watching
        .lines()
        .into_iter()
        .filter(|line| line["key"] != "lock:3" && line["event"] != "found" && line["event"] != "moved")
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn a_database_of_the_service_is_chosen_by_its_number() {
    let (master, sentinel) = watched(&["shop"]);
    let mut connection = master.connection();
    redis::pipe().cmd("SELECT").arg(3).cmd("SET").arg("lock:in-three").arg("w").exec(&mut connection).unwrap();
    let desk = Desk::at(&sentinel);
    let place = format!("127.0.0.1:{}", sentinel.port());
    for url in [format!("redis+sentinel://{place}/shop/3"), format!("redis://{place}/3")] {
        let list = desk.run_bare(&["ls", "--json", "-u", &url]).json();
        assert_eq!((list["locks"].as_array().unwrap().len(), &list["locks"][0]["key"]), (1, &"lock:in-three".into()));
    }
}

#[test]
fn what_is_wrong_with_the_address_is_one_sentence() {
    let (master, sentinel) = watched(&["orders", "billing"]);
    let (other, contrary) = watched(&["orders"]);
    let desk = Desk::at(&sentinel);
    let at = |server: &Server, service: &str| format!("redis+sentinel://127.0.0.1:{}/{service}", server.port());
    let both = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/orders", sentinel.port(), contrary.port());
    let name = format!("127.0.0.1:{}", master.port());
    let nowhere = format!("{name}=127.0.0.1:1");
    let theirs = format!("127.0.0.1:{}", other.port());
    for (arguments, code, parts) in [
        (vec!["-u", &at(&sentinel, "order")], 2, vec!["no service \"order\"", "billing", "orders"]),
        (vec!["-u", &sentinel.url()], 2, vec!["several services", "billing", "orders", "redis+sentinel://127.0.0.1"]),
        (
            vec!["-u", "redis+sentinel://127.0.0.1:1,127.0.0.1:2/orders"],
            3,
            vec!["no sentinel", "127.0.0.1:1", "127.0.0.1:2"],
        ),
        (vec!["-u", &both], 3, vec!["disagree", &name, &theirs]),
        (
            vec!["-u", &at(&sentinel, "orders"), "--map-host", &nowhere],
            3,
            vec![&name, "can't be reached", "--map-host"],
        ),
        (vec!["-u", &at(&master, "orders")], 2, vec!["is no sentinel", "redis:// instead of redis+sentinel://"]),
        (vec!["-u", &at(&sentinel, "orders"), "--single-node"], 2, vec!["redis:// instead of redis+sentinel://"]),
        (vec!["-u", "redis+sentinel://127.0.0.1:1"], 2, vec!["names no service"]),
    ] {
        let ran = desk.run_bare(&[&["ls"], &arguments[..]].concat());
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (code, "", 1), "{arguments:?}: {ran:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{arguments:?}: {part:?} is missing in {ran:?}");
        }
    }
    // One of the sentinels is enough, and the master is reached where the user says.
    let some = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/orders", sentinel.port());
    assert_eq!(desk.run_bare(&["ls", "-u", &some]).code, 0);
    let mapped = desk.run_bare(&["ls", "--json", "-u", &some, "--map-host", "127.0.0.1=localhost"]);
    assert_eq!(mapped.json()["locks"].as_array().unwrap().len(), LOCKS, "{mapped:?}");
}

#[test]
fn sentinels_have_a_login_of_their_own() {
    let master = Server::with(&["--requirepass", "of-the-server"]);
    let config = format!(
        "sentinel monitor main 127.0.0.1 {} 1\nsentinel auth-pass main of-the-server\n\
         requirepass of-the-sentinel\n",
        master.port()
    );
    let sentinel = Server::sentinel_with(&config);
    fill(&master);
    let desk = Desk::at(&sentinel);
    let url = format!("redis+sentinel://:of-the-server@127.0.0.1:{}/main", sentinel.port());
    let both = [("LOCKSCOPE_SENTINEL_PASSWORD", "of-the-sentinel")];
    let list = desk.run_in(&both, &["ls", "--json", "-u", &url]);
    assert_eq!(list.json()["locks"].as_array().unwrap().len(), LOCKS, "{list:?}");
    assert!(!format!("{list:?}").contains("of-the-s"), "{list:?}");
    let bare = desk.run_bare(&["ls", "-u", &url]);
    assert!(bare.code == 3 && bare.err.contains("--sentinel-password-file"), "{bare:?}");
    let wrong = desk.run_in(&[("LOCKSCOPE_SENTINEL_PASSWORD", "wrong")], &["ls", "-u", &url]);
    assert!(wrong.code == 3 && wrong.err.contains("LOCKSCOPE_SENTINEL_PASSWORD"), "{wrong:?}");
    let file = desk.state().parent().unwrap().parent().unwrap().join("sentinels");
    std::fs::write(&file, "of-the-sentinel\n").unwrap();
    let server = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    let by_file = ["ls", "--json", "-u", &server, "--sentinel-password-file", file.to_str().unwrap()];
    let list = desk.run_in(&[("LOCKSCOPE_PASSWORD", "of-the-server")], &by_file);
    assert_eq!(list.json()["locks"].as_array().unwrap().len(), LOCKS, "{list:?}");
    let locked = desk.run_bare(&by_file);
    assert!(locked.code == 3 && locked.err.contains("LOCKSCOPE_PASSWORD"), "{locked:?}");
    let user = desk.run_bare(&["ls", "-u", &server, "--sentinel-user", "me"]);
    assert!(user.code == 2 && user.err.contains("LOCKSCOPE_SENTINEL_PASSWORD"), "{user:?}");
}

#[test]
fn an_observer_at_the_sentinels_needs_what_the_book_says_and_no_more() {
    let (_master, sentinel) = watched(&["shop"]);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/topologies.md")).unwrap();
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER")).expect("the line for sentinels");
    sentinel.cli(&line.replace("PASSWORD", "watches").split(' ').collect::<Vec<_>>());
    sentinel.cli(&["ACL", "SETUSER", "default", "off"]);
    let desk = Desk::at(&sentinel);
    let url = format!("redis+sentinel://127.0.0.1:{}/shop", sentinel.port());
    let login = [("LOCKSCOPE_SENTINEL_PASSWORD", "watches")];
    let arguments = ["ls", "--json", "--observe", "1s", "-u", &url, "--sentinel-user", "lockscope-observer"];
    let list = desk.run_in(&login, &arguments);
    assert_eq!(list.json()["locks"].as_array().unwrap().len(), LOCKS, "{list:?}");
    // It may not change anything.
    let client = format!("redis://lockscope-observer:watches@127.0.0.1:{}", sentinel.port());
    let mut observer = redis::Client::open(client).unwrap().get_connection().unwrap();
    let denied = redis::cmd("SENTINEL").arg("FAILOVER").arg("shop").exec(&mut observer).unwrap_err();
    assert_eq!(denied.code(), Some("NOPERM"), "{denied}");
}

/// Who holds the lock at a server.
fn holder(server: &Server) -> Option<String> {
    server.ask(&["GET", "lock:1"])
}

#[test]
fn a_release_goes_to_the_present_master_and_never_to_one_that_was_replaced() {
    let service = filled();
    let desk = Desk::with_url(&service.url());
    service.servers[0].pause();
    let new = service.wait_for_another_than(0);
    service.servers[0].resume();
    // The old one still takes writes.
    let old = &service.servers[0];
    assert_eq!(common::server::field(&old.ask::<String, _>(&["INFO", "replication"]), "role"), Some("master"));
    assert_eq!(old.ask::<String, _>(&["SET", "lock:1", "deceived", "PX", "600000"]), "OK");
    let wrong = desk.run(&["release", "lock:1", "--holder", "deceived", "--yes"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    let freed = desk.run(&["release", "lock:1", "--holder", "worker-1", "--yes"]);
    assert_eq!(freed.code, 0, "{freed:?}");
    assert_eq!((holder(&service.servers[new]), holder(old).as_deref()), (None, Some("deceived")));
    // What was freed is put back where it was taken from, and a test lock is taken there.
    let undone = desk.run(&["undo", "--unwatched", "--yes"]);
    assert_eq!((undone.code, holder(&service.servers[new]).as_deref()), (0, Some("worker-1")), "{undone:?}");
    let extended = desk.run(&["extend", "lock:1", "--holder", "worker-1", "--ttl", "20m", "--yes"]);
    assert!(extended.code == 0 && service.servers[new].ask::<i64, _>(&["PTTL", "lock:1"]) > 1_100_000, "{extended:?}");
    let acquired = desk.run(&["acquire", "lock:ours", "--ttl", "5s", "--", "true"]);
    assert_eq!(acquired.code, 0, "{acquired:?}");
}

#[test]
fn nothing_is_written_where_most_of_the_sentinels_are_silent() {
    let mut service = filled();
    service.sentinels[0].kill();
    service.sentinels[2].kill();
    let desk = Desk::at(&service.sentinels[1]);
    assert_eq!(desk.run(&["ls", "--json"]).json()["locks"].as_array().unwrap().len(), LOCKS, "one is enough to read");
    let refused = desk.run(&["release", "lock:1", "--holder", "worker-1", "--yes"]);
    assert!(refused.code != 0 && refused.err.contains("1 of the 3 sentinels of main answered"), "{refused:?}");
    assert_eq!(holder(&service.servers[0]).as_deref(), Some("worker-1"));
}
