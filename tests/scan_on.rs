//! `--scan-on replica` on real servers: the names of keys are scanned on replicas, and every lock is read on its master.

mod common;

use common::desk::Desk;
use common::server::field;
use common::{Cluster, Sentinels, Server, wait_until};

const LOCKS: usize = 30;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// How often SCAN was called there since its figures were reset.
fn scans(server: &Server) -> usize {
    let stats: String = server.ask(&["INFO", "commandstats"]);
    let calls = |figures: &str| figures.split(',').find_map(|figure| figure.strip_prefix("calls=")?.parse().ok());
    field(&stats, "cmdstat_scan").and_then(calls).unwrap_or(0)
}

fn listed(desk: &Desk, arguments: &[&str]) -> (Vec<String>, String) {
    let ran = desk.run(&[&["ls", "--json"], arguments].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let list = ran.json();
    assert_eq!(list["complete"], true, "{list}");
    let mut keys: Vec<String> =
        list["locks"].as_array().unwrap().iter().map(|lock| lock["key"].as_str().unwrap().to_string()).collect();
    keys.sort();
    (keys, ran.err)
}

/// A key that only the replica has.
fn haunt(replica: &Server) {
    replica.cli(&["CONFIG", "SET", "replica-read-only", "no"]);
    replica.cli(&["SET", "lock:ghost", "nobody", "PX", "600000"]);
}

#[test]
fn names_are_scanned_on_a_replica_of_a_service_and_locks_read_on_its_master() {
    let service = Sentinels::start();
    for number in 0..LOCKS {
        service.client().ask(redis::cmd("SET").arg(format!("lock:{number}")).arg("worker-1").arg("PX").arg(600_000));
    }
    let [master, replicas @ ..] = &service.servers[..] else { panic!() };
    for replica in replicas {
        wait_until("all locks to be there", PATIENCE, || replica.ask::<usize, _>(&["DBSIZE"]) == LOCKS);
        haunt(replica);
    }
    let desk = Desk::with_url(&service.url());
    let (usual, _) = listed(&desk, &[]);
    service.servers.iter().for_each(|server| drop(server.cli(&["CONFIG", "RESETSTAT"])));
    let (keys, said) = listed(&desk, &["--scan-on", "replica"]);
    assert_eq!((keys.len(), keys), (LOCKS, usual), "the ghost is no lock");
    // One call finds out whether it may be called.
    assert!(scans(master) <= 1, "{} calls on the master", scans(master));
    assert!(replicas.iter().map(scans).sum::<usize>() >= 1);
    let named = replicas
        .iter()
        .any(|replica| said.contains(&format!("scanned on its replica 127.0.0.1:{}, at most ", replica.port())));
    assert!(named, "{said}");
    // Without their link they miss what is taken now.
    replicas.iter().for_each(|replica| drop(replica.cli(&["REPLICAOF", "127.0.0.1", "1"])));
    let (keys, said) = listed(&desk, &["--scan-on", "replica"]);
    assert_eq!(keys.len(), LOCKS);
    assert!(said.contains("none of its replicas can be used"), "{said}");
}

#[test]
fn names_are_scanned_on_a_replica_of_each_master_of_a_cluster() {
    let Some(cluster) = Cluster::start(3) else { return };
    let mut client = cluster.client();
    for number in 0..LOCKS {
        let key = format!("lock:{number}");
        client.ask(&key, redis::cmd("SET").arg(&key).arg("worker-1").arg("PX").arg(600_000));
    }
    for index in 0..3 {
        let (master, replica) = (cluster.master(index), cluster.replica_of(index));
        let size = |server: &Server| server.ask::<usize, _>(&["DBSIZE"]);
        wait_until("all locks to be there", PATIENCE, || size(replica) == size(master));
    }
    cluster.nodes.iter().for_each(|server| drop(server.cli(&["CONFIG", "RESETSTAT"])));
    let (keys, said) = listed(&Desk::with_url(&cluster.url()), &["--scan-on", "replica"]);
    assert_eq!(keys.len(), LOCKS);
    for index in 0..3 {
        let (master, replica) = (cluster.master(index), cluster.replica_of(index));
        assert!(scans(master) <= 1 && scans(replica) >= 1, "{} and {}", scans(master), scans(replica));
        assert!(said.contains(&format!("scanned on its replica 127.0.0.1:{}", replica.port())), "{said}");
    }
}

#[test]
fn a_server_on_its_own_has_no_replica_to_scan() {
    let server = Server::start();
    let ran = Desk::at(&server).run(&["ls", "--scan-on", "replica"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--scan-on replica needs a cluster or a Sentinel service"), "{ran:?}");
}
