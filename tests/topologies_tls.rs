//! Clusters and Sentinel services with TLS, and such with a login that works on some of their nodes only: what can be read is
//! read, and what can't is one sentence with the fix.

mod common;

use common::desk::{Desk, Ran};
use common::process::temporary_directory;
use common::sentinels::SERVICE;
use common::{Certificates, Cluster, Sentinels, Server};
use lockscope::lock::slot_of;

const LOCKS: usize = 30;

fn key(number: usize) -> String {
    format!("lock:{number}")
}

/// Each lock at its owner, of three masters.
fn fill(nodes: &[Server]) {
    for number in 0..LOCKS {
        let owner = &nodes[usize::from(slot_of(key(number).as_bytes()) / 5_462)];
        owner.cli(&["SET", &key(number), "worker-1", "PX", "600000"]);
    }
}

#[track_caller]
fn lists_all(ran: &Ran) {
    let list = ran.json();
    assert_eq!((list["locks"].as_array().unwrap().len(), &list["complete"]), (LOCKS, &true.into()), "{ran:?}");
}

/// Refused in one sentence with these parts, and nothing on stdout.
#[track_caller]
fn refused(ran: &Ran, code: i32, parts: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (code, "", 1), "{ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{part:?} is missing in {ran:?}");
    }
}

/// What certificates do to every way in: `whole` is the URL of all, `plain` that of one server.
fn by_certificates(whole: &str, plain: &str, ca: &str) {
    let strangers = temporary_directory();
    Certificates::generate().write_to(strangers.path());
    let strange = strangers.path().join("ca.pem");
    let desk = Desk::with_url(whole);
    let list = |url: &str, more: &[&str]| desk.run_bare(&[&["ls", "--json", "-u", url], more].concat());
    for url in [whole, plain] {
        lists_all(&list(url, &["--tls-ca", ca]));
        lists_all(&list(url, &["--insecure"]));
        refused(&list(url, &["--tls-ca", strange.to_str().unwrap()]), 3, &["certificate", "--tls-ca"]);
        refused(&list(url, &[]), 3, &["certificate", "--tls-ca"]);
        refused(&list(&url.replace("rediss", "redis"), &["--tls-ca", ca]), 2, &["rediss"]);
        refused(&list(&url.replace("rediss", "redis"), &[]), 3, &["rediss"]);
    }
    // What is written goes the same way.
    let freed = desk.run(&["release", &key(1), "--holder", "worker-1", "--yes", "--tls-ca", ca]);
    assert_eq!(freed.code, 0, "{freed:?}");
    let undone = desk.run(&["undo", "--unwatched", "--yes", "--tls-ca", ca]);
    assert_eq!(undone.code, 0, "{undone:?}");
    lists_all(&list(whole, &["--tls-ca", ca]));
}

#[test]
fn a_cluster_with_tls_is_read_and_written_by_certificates_that_are_checked() {
    let Some(cluster) = Cluster::with_tls(3, &[]) else { return };
    fill(&cluster.nodes);
    let ca = cluster.nodes[0].directory().join("ca.pem");
    by_certificates(&cluster.url(), &cluster.nodes[2].url(), ca.to_str().unwrap());
}

#[test]
fn a_service_with_tls_is_read_and_written_through_a_failover() {
    let Some(service) = Sentinels::with_tls(&[], "") else { return };
    for number in 0..LOCKS {
        service.servers[0].cli(&["SET", &key(number), "worker-1", "PX", "600000"]);
    }
    let ca = service.servers[0].directory().join("ca.pem");
    by_certificates(&service.url(), &service.sentinels[2].url(), ca.to_str().unwrap());
    let new = service.fail_over();
    let list = Desk::with_url(&service.url()).run(&["ls", "--json", "--tls-ca", ca.to_str().unwrap()]);
    lists_all(&list);
    let port = list.json()["locks"][0]["node"].as_str().unwrap().rsplit(':').next().unwrap().to_string();
    assert_eq!(port, service.servers[new].port().to_string(), "{list:?}");
}

#[test]
fn a_login_that_works_on_some_nodes_of_a_cluster_reads_those() {
    let Some(cluster) = Cluster::masters(3) else { return };
    fill(&cluster.nodes);
    for (node, password) in cluster.nodes.iter().zip(["right", "right", "another"]) {
        node.cli(&["CONFIG", "SET", "requirepass", password]);
    }
    let desk = Desk::with_url(&cluster.url());
    let login = |password| [("LOCKSCOPE_PASSWORD", password)];
    let odd = format!("127.0.0.1:{}", cluster.nodes[2].port());
    let list = desk.run_in(&login("right"), &["ls", "--json", "-u", &cluster.url()]);
    let readable = (0..LOCKS).filter(|number| slot_of(key(*number).as_bytes()) / 5_462 < 2).count();
    assert_eq!((list.code, list.json()["locks"].as_array().unwrap().len()), (0, readable), "{list:?}");
    assert_eq!(list.json()["complete"], false, "{list:?}");
    assert!(list.json()["incomplete"].as_str().unwrap().contains(&odd), "{list:?}");
    assert!(list.err.contains(&odd) && list.err.contains("password"), "{list:?}");
    // The others are written to.
    let here = (0..LOCKS).map(key).find(|key| slot_of(key.as_bytes()) / 5_462 == 0).expect("one is there");
    let there = (0..LOCKS).map(key).find(|key| slot_of(key.as_bytes()) / 5_462 == 2).expect("one is there");
    let url = cluster.url();
    let release =
        |key: &str| desk.run_in(&login("right"), &["release", key, "--holder", "worker-1", "--yes", "-u", &url]);
    let freed = release(&here);
    assert_eq!(freed.code, 0, "{freed:?}");
    refused(&release(&there), 3, &[&odd, "password"]);
    let doctor = desk.run_in(&login("right"), &["doctor", "-u", &url]);
    assert!(doctor.code == 3 && format!("{}{}", doctor.out, doctor.err).contains(&odd), "{doctor:?}");
    // By a password that none takes, or none at all.
    refused(&desk.run_in(&login("wrong"), &["ls", "-u", &url]), 3, &["refused the user or password"]);
    refused(&desk.run(&["ls"]), 3, &["LOCKSCOPE_PASSWORD"]);
}

#[test]
fn sentinels_and_servers_that_refuse_the_login_are_named() {
    let service = Sentinels::with(
        &["--requirepass", "right", "--masterauth", "right"],
        &format!("sentinel auth-pass {SERVICE} right\n"),
    );
    service.servers[0].cli(&["SET", &key(0), "worker-1", "PX", "600000"]);
    let url = service.url();
    let desk = Desk::with_url(&url);
    let list = |password| desk.run_in(&[("LOCKSCOPE_PASSWORD", password)], &["ls", "--json", "-u", &url]);
    // One of the sentinels wants a login of its own: the others are enough to read.
    service.sentinels[0].cli(&["ACL", "SETUSER", "default", "resetpass", ">its-own"]);
    let read = list("right");
    assert_eq!((read.code, read.json()["locks"].as_array().unwrap().len()), (0, 1), "{read:?}");
    let master = format!("127.0.0.1:{}", service.servers[0].port());
    refused(&list("wrong"), 3, &[&master, "refused the user or password"]);
    refused(&desk.run(&["ls"]), 3, &[&master, "LOCKSCOPE_PASSWORD"]);
}

#[test]
fn a_cluster_that_names_addresses_that_can_t_be_reached_says_which_and_how_to_map_them() {
    // As behind NAT: it tells everybody an address that leads nowhere from here.
    let node = Server::with(&["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.9"]);
    let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    node.cli(&[&["CLUSTER", "ADDSLOTS"], &slots.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    common::wait_until("the slots to be served", std::time::Duration::from_secs(20), || {
        node.ask::<String, _>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    });
    node.cli(&["SET", &key(0), "worker-1", "PX", "600000"]);
    let named = format!("127.0.0.9:{}", node.port());
    for url in [node.url(), node.url().replace("redis:", "redis+cluster:")] {
        let desk = Desk::with_url(&url);
        refused(&desk.run(&["ls", "-q"]), 3, &[&named, "--map-host"]);
        let mapped = desk.run(&["ls", "--json", "--map-host", "127.0.0.9=127.0.0.1"]);
        assert_eq!((mapped.code, mapped.json()["locks"].as_array().unwrap().len()), (0, 1), "{mapped:?}");
    }
}
