//! Everything that happens to clusters and Sentinel services, under the load of real clients: after each fault the table is
//! what the owners of the keys say, nothing is there twice or missing, and no lock that was kept is told as lost.
//!
//! `LOCKSCOPE_UPHEAVALS=200` makes that many faults in a random order instead of each once; `LOCKSCOPE_SEED` plays a run
//! again (`make soak`).

mod common;
#[path = "topologies/faults.rs"]
mod faults;
#[path = "topologies/load.rs"]
mod load;
#[path = "topologies/place.rs"]
mod place;
#[path = "topologies/watch.rs"]
mod watch;

use std::time::Instant;

use common::{Cluster, Sentinels, left_to_the_matrix};
use faults::{Fault, MASTERS, SERVICE, SLOTS, Scene};
use load::Load;
use place::Place;
use watch::{Watch, differences, listed};

/// A place under load.
struct Ground<P> {
    place: P,
    load: Load,
}

/// Each fault once, or as many as the environment says, in a random order.
fn chosen<P: 'static>(faults: &[Fault<P>]) -> Vec<&Fault<P>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(count) = number("LOCKSCOPE_UPHEAVALS") else { return faults.iter().collect() };
    let seed = number("LOCKSCOPE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LOCKSCOPE_SEED={seed}");
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &faults[(state >> 33) as usize % faults.len()]
    };
    (0..count).map(next).collect()
}

/// Lets all of it happen, and compares after each step.
async fn endure<P: Place>(place: P, faults: &'static [Fault<P>], scene: impl Fn(&P, usize) -> Scene) {
    let way = place.way();
    let load = tokio::task::spawn_blocking(move || {
        let mut place = place;
        let load = Load::start(&way, &place.servers()[0]);
        Ground { place, load }
    });
    let mut ground = load.await.expect("the clients start");
    let mut watch = Watch::start(&ground.place.way()).await;
    for (round, fault) in chosen(faults).into_iter().enumerate() {
        if let Some((can, lack)) = fault.needs
            && !can(&ground.place.servers()[0])
        {
            left_to_the_matrix(&format!("{}: the server has {lack}", fault.name));
            continue;
        }
        let mut at = scene(&ground.place, round);
        for (number, step) in fault.steps.iter().enumerate() {
            let (began, step) = (Instant::now(), *step);
            let truth;
            (ground, at, truth) = watch
                .during(move || {
                    ground.load.go();
                    step(&mut ground.place, &mut at);
                    ground.place.settle(&at.passed_over);
                    ground.load.goes_on();
                    ground.load.rest();
                    let truth = ground.place.truth(&at.passed_over);
                    (ground, at, truth)
                })
                .await;
            let name = format!("{}, step {}", fault.name, number + 1);
            let took = watch.is_true(&name, &truth, fault.loses).await;
            let (list, then);
            (ground, at, list, then) = watch
                .during(move || {
                    let url = ground.place.url();
                    let list = listed(&url);
                    // What was left behind by a client that lost its server may have ended since.
                    let (list, then) =
                        if list == truth { (list, truth) } else { (listed(&url), ground.place.truth(&at.passed_over)) };
                    (ground, at, list, then)
                })
                .await;
            assert!(list == then, "after {name} ls lists something else: {}", differences(&list, &then));
            println!("{name}: {:?}, {} locks, true {took:?} after the load had ended", began.elapsed(), then.len());
        }
    }
}

#[tokio::test]
async fn slots_that_move_in_every_way_take_their_locks_along() {
    let Some(cluster) = Cluster::start(3) else { return };
    endure(cluster, SLOTS, faults::choose).await;
}

#[tokio::test]
async fn masters_of_a_cluster_that_fail_in_every_way_leave_a_true_table() {
    let Some(cluster) = Cluster::start(3) else { return };
    endure(cluster, MASTERS, faults::choose).await;
}

#[tokio::test]
async fn masters_of_a_service_that_fail_in_every_way_leave_a_true_table() {
    endure(Sentinels::with_replicas(5, &[], "sentinel failover-timeout main 1000\n"), SERVICE, |service, _| {
        faults::present_master(service)
    })
    .await;
}
