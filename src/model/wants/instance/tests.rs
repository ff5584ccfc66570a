//! A living holder is never called gone, however it uses its connections; one that kept a connection and died is.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::lock::{Key, KeyspaceId};
use crate::model::Asked;

const NODE: NodeId = NodeId(0);
/// The server is asked for its clients this often.
const LIST_MS: i64 = 2_000;

/// How a client uses connections.
#[derive(Clone, Copy, Debug)]
enum Pool {
    /// One for each command, closed right after it.
    None,
    /// So many, taken in turn, each closed when it was idle for so long.
    InTurn { size: usize, idle_ms: i64 },
    /// One for all commands.
    One,
}

/// A connection as it is: its number, since when it is open, when it was used last, until when it is open.
#[derive(Clone, Debug)]
struct Open {
    id: u64,
    since: i64,
    used: i64,
    until: i64,
}

/// A client that sends a command at each of these times, and the server that it is connected to.
struct Stage {
    pool: Pool,
    all: Vec<Open>,
    turn: usize,
    clients: Clients,
    instance: InstanceId,
    lock: Lock,
}

impl Stage {
    fn new(pool: Pool, ends: bool) -> Stage {
        let clients = Clients::default();
        let instance = clients.instance_of(NODE, &Holder::new(b"token"));
        let mut lock = Lock::new((KeyspaceId::FIRST, NODE), Key::from("lock:a"), Time(0), 0);
        lock.expires = ends.then_some(Time(i64::MAX)).into();
        Stage { pool, all: Vec::new(), turn: 0, clients, instance, lock }
    }

    fn address(id: u64) -> Address {
        Address::parse(&format!("10.0.3.7:{}", 20_000 + id)).unwrap()
    }

    /// The client sends a command, which a burst shows or not.
    fn command(&mut self, at: i64, shown: bool) {
        let index = self.connection(at);
        let open = &mut self.all[index];
        open.used = at;
        open.until = match self.pool {
            Pool::None => at + 1,
            Pool::InTurn { idle_ms, .. } => at + idle_ms,
            Pool::One => i64::MAX,
        };
        let id = open.id;
        if shown {
            self.clients.heard(NODE, self.instance, &Stage::address(id), Time(at));
        }
    }

    fn connection(&mut self, at: i64) -> usize {
        let open: Vec<usize> = (0..self.all.len()).filter(|index| self.all[*index].until > at).collect();
        let size = match self.pool {
            Pool::None => 0,
            Pool::InTurn { size, .. } => size,
            Pool::One => 1,
        };
        if open.len() < size || open.is_empty() {
            let id = self.all.len() as u64 + 1;
            self.all.push(Open { id, since: at, used: at, until: at });
            return self.all.len() - 1;
        }
        self.turn += 1;
        open[self.turn % open.len()]
    }

    /// The whole list, with times in whole seconds.
    fn list(&mut self, at: i64) {
        let told = |then: i64| Some(Time(at - (at - then) / 1_000 * 1_000));
        let open = self.all.iter().filter(|open| open.since <= at && open.until > at);
        let present = open.map(|open| Connection {
            id: Some(open.id),
            since: told(open.since),
            used: told(open.used),
            ..Connection::new(Stage::address(open.id), Time(at))
        });
        let present: Vec<Connection> = present.collect();
        self.clients.listed(NODE, &Asked::All, present, Time(at));
    }

    fn is_gone(&self) -> bool {
        matches!(self.clients.standing(self.instance), Standing::Closed(closed) if closed.is_proof(&self.lock))
    }
}

fn pools() -> impl Strategy<Value = Pool> {
    prop_oneof![
        Just(Pool::None),
        Just(Pool::One),
        (1_usize..6, 10_000..60_000_i64).prop_map(|(size, idle_ms)| Pool::InTurn { size, idle_ms }),
    ]
}

/// Pauses between commands, and whether a burst shows each.
fn commands() -> impl Strategy<Value = Vec<(i64, bool)>> {
    let pause = prop_oneof![3 => 50..1_500_i64, 2 => 1_500..9_000_i64, 1 => 9_000..40_000_i64];
    prop::collection::vec((pause, any::<bool>()), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whoever_lives_is_not_gone(pool in pools(), commands in commands(), offset in 0..LIST_MS, ends: bool) {
        let mut stage = Stage::new(pool, ends);
        let (mut at, mut list) = (0, offset);
        for (pause, shown) in commands {
            at += pause;
            while list < at {
                stage.list(list);
                prop_assert!(!stage.is_gone(), "at {list} ms: {:?}", stage.clients.standing(stage.instance));
                list += LIST_MS;
            }
            stage.command(at, shown);
        }
    }
}

#[test]
fn whoever_kept_a_connection_and_died_is_gone() {
    let mut stage = Stage::new(Pool::One, true);
    for second in 1..10 {
        stage.command(second * 1_000, true);
        stage.list(second * 1_000 + 500);
        assert!(!stage.is_gone());
    }
    stage.all[0].until = 10_000;
    stage.list(10_500);
    assert!(stage.is_gone());
    // What it does not know, it does not say: another of its locks has no such instance.
    let other = stage.clients.instance_of(NODE, &Holder::new(b"another"));
    assert!(matches!(stage.clients.standing(other), Standing::Unknown));
}

#[test]
fn too_many_instances_leave_the_newest() {
    let mut clients = Clients::default();
    let address = Stage::address(1);
    let id = |clients: &Clients, number: usize| clients.instance_of(NODE, &Holder::new(number.to_string().as_bytes()));
    for number in 0..2 * Instances::MOST {
        let instance = id(&clients, number);
        clients.heard(NODE, instance, &address, Time(number as i64));
    }
    assert!(clients.instances.known.len() <= Instances::MOST);
    assert!(clients.knows(id(&clients, 2 * Instances::MOST - 1)) && !clients.knows(id(&clients, 0)));
}

#[test]
fn many_connections_of_one_instance_are_bounded() {
    let mut clients = Clients::default();
    let instance = clients.instance_of(NODE, &Holder::new(b"token"));
    for number in 0..1_000 {
        clients.heard(NODE, instance, &Stage::address(number), Time(number as i64) + Duration::from_secs(1));
    }
    assert_eq!(clients.open_of(instance), Instances::CONNECTIONS);
}
