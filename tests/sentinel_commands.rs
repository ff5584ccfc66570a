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
