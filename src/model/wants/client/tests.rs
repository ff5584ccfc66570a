//! Which connection is which, for any order of lists and any reuse of addresses.

use proptest::prelude::*;

use super::*;
use crate::lock::Holder;

const NODE: NodeId = NodeId(0);

fn address() -> Address {
    Address::parse("10.0.3.7:51322").unwrap()
}

fn listed(id: u64, since: i64, at: i64) -> Connection {
    Connection { id: Some(id), since: Some(Time(since)), ..Connection::new(address(), Time(at)) }
}

fn closed(clients: &Clients, client: ClientRef) -> Option<Time> {
    clients.get(client).unwrap().connection.closed
}

#[test]
fn a_connection_that_is_missing_is_closed_and_stays_so() {
    let mut clients = Clients::default();
    let client = clients.spoke(NODE, &address(), Time(10_000)).unwrap();
    clients.listed(NODE, &Asked::All, vec![listed(7, 0, 12_000)], Time(12_000));
    assert_eq!(clients.get(client).unwrap().connection.id, Some(7));
    clients.listed(NODE, &Asked::Ids(vec![7]), vec![], Time(14_000));
    assert_eq!(closed(&clients, client), Some(Time(14_000)));
    assert_eq!(clients.open(NODE).count(), 0);
    clients.listed(NODE, &Asked::All, vec![listed(7, 0, 13_000)], Time(13_000));
    assert_eq!(closed(&clients, client), Some(Time(14_000)), "an older list that comes late changes nothing");
}

#[test]
fn an_address_that_is_used_again_makes_nobody_alive() {
    let mut clients = Clients::default();
    let first = clients.spoke(NODE, &address(), Time(10_000)).unwrap();
    clients.listed(NODE, &Asked::All, vec![listed(7, 0, 12_000)], Time(12_000));
    clients.listed(NODE, &Asked::All, vec![listed(9, 13_000, 14_000)], Time(14_000));
    assert_eq!(closed(&clients, first), Some(Time(14_000)), "another number is another connection");
    let second = clients.spoke(NODE, &address(), Time(15_000)).unwrap();
    assert_ne!(first, second);
    assert_eq!(closed(&clients, second), None);
    // Late samples: at 11 s it was the first, at 13.5 s it may have been either.
    assert_eq!(clients.spoke(NODE, &address(), Time(11_000)), Some(first));
    assert_eq!(clients.spoke(NODE, &address(), Time(13_500)), None);
}

#[test]
fn after_a_time_without_lists_an_address_is_nobodys() {
    let mut clients = Clients::default();
    let first = clients.spoke(NODE, &address(), Time(10_000)).unwrap();
    clients.listed(NODE, &Asked::All, vec![listed(7, 0, 12_000)], Time(12_000));
    assert_eq!(clients.spoke(NODE, &address(), Time(60_000)), None, "it may be another by now");
    clients.listed(NODE, &Asked::Ids(vec![7]), vec![listed(7, 0, 61_000)], Time(61_000));
    assert_eq!(clients.spoke(NODE, &address(), Time(62_000)), Some(first));
}

#[test]
fn before_its_number_is_known_its_age_tells() {
    let mut clients = Clients::default();
    let first = clients.spoke(NODE, &address(), Time(10_000)).unwrap();
    // Opened long after the one that spoke: a different connection.
    clients.listed(NODE, &Asked::All, vec![listed(9, 20_000, 25_000)], Time(25_000));
    assert_eq!(closed(&clients, first), Some(Time(25_000)));
}

#[test]
fn two_that_were_taken_for_one_are_neither_alive_nor_closed() {
    let mut clients = Clients::default();
    let first = clients.spoke(NODE, &address(), Time(10_000)).unwrap();
    assert_eq!(clients.spoke(NODE, &address(), Time(50_000)), Some(first));
    clients.listed(NODE, &Asked::All, vec![listed(9, 40_000, 51_000)], Time(51_000));
    assert!(clients.get(first).is_none());
    let second = clients.spoke(NODE, &address(), Time(52_000)).unwrap();
    clients.listed(NODE, &Asked::All, vec![listed(9, 40_000, 53_000)], Time(53_000));
    assert_eq!(clients.get(second).unwrap().connection.id, Some(9));
    assert_eq!(clients.spoke(NODE, &address(), Time(10_000)), None, "that was another, of which nothing is known");
}

#[test]
fn who_spoke_after_the_question_is_not_called_closed() {
    let mut clients = Clients::default();
    let client = clients.spoke(NODE, &address(), Time(10_000)).unwrap();
    clients.listed(NODE, &Asked::All, vec![], Time(9_000));
    assert_eq!(closed(&clients, client), None);
    clients.listed(NodeId(1), &Asked::All, vec![], Time(11_000));
    assert_eq!(closed(&clients, client), None, "another node");
    clients.listed(NODE, &Asked::Ids(vec![1, 2, 3]), vec![], Time(11_000));
    assert_eq!(closed(&clients, client), None, "nobody asked for it");
}

#[test]
fn connections_that_hold_nothing_are_forgotten() {
    let mut clients = Clients::default();
    let (used, unused) = (address(), Address::parse("10.0.3.8:1").unwrap());
    let holds = clients.instance_of(NODE, &Holder::new(b"holds"));
    let held = clients.instance_of(NODE, &Holder::new(b"held"));
    clients.heard(NODE, holds, &used, Time(10_000));
    clients.heard(NODE, held, &unused, Time(10_000));
    clients.keep(NODE, &HashSet::from([holds]), Time(10_000));
    assert_eq!(clients.known.len(), 2, "its lock may not have been met yet");
    clients.keep(NODE, &HashSet::from([holds]), Time(10_001));
    assert_eq!((clients.known.len(), clients.by_address.len()), (1, 1));
    assert!(clients.knows(holds) && !clients.knows(held));
}

#[test]
fn there_is_a_limit() {
    let mut clients = Clients::default();
    for number in 0..5_000_u32 {
        let address = Address::parse(&format!("10.0.{}.{}:4000", number / 250, number % 250)).unwrap();
        clients.spoke(NODE, &address, Time(i64::from(number)));
    }
    assert_eq!((clients.known.len(), clients.by_address.len()), (Clients::MOST, Clients::MOST));
}

#[test]
fn a_sentence_tells_who_it_is_and_whether_it_is_there() {
    let mut connection = Connection::new(address(), Time(10_000));
    assert_eq!(connection.describe(Time(12_000)), "10.0.3.7:51322, seen 2.0s ago");
    connection.name = Some("orders-1".into());
    connection.closed = Some(Time(11_000));
    assert_eq!(connection.describe(Time(42_000)), "10.0.3.7:51322 (orders-1), closed 31.0s ago");
}

/// Something that happens at one address: a connection after the other, each open for a while.
#[derive(Clone, Debug)]
enum Step {
    /// The connection of that time, if there is one, names a lock.
    Speaks(i64),
    /// The whole list is asked for.
    ListsAll(i64),
    /// The known ones are asked for.
    ListsKnown(i64),
}

/// When each connection is opened and closed. An address is not reused at once.
fn lives() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let life = (11_000..25_000_i64, 1_000..30_000_i64);
    prop::collection::vec(life, 1..4).prop_map(|lives| {
        let mut at = 0;
        lives
            .into_iter()
            .map(|(pause, open)| {
                let from = at + pause;
                at = from + open;
                (from, at)
            })
            .collect()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..120_000_i64).prop_map(Step::Speaks),
        (0..120_000_i64).prop_map(Step::ListsAll),
        (0..120_000_i64).prop_map(Step::ListsKnown),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    /// In any order of reports, no open connection is called closed, and no address is taken for another connection's.
    #[test]
    fn no_order_of_lists_and_samples_corrupts_it(lives in lives(), steps in steps()) {
        let mut clients = Clients::default();
        let open_at = |at: i64| lives.iter().position(|(from, to)| (*from..=*to).contains(&at));
        let on_list = |at: i64| -> Vec<Connection> {
            // Ages are reported in whole seconds.
            open_at(at).map(|life| listed(life as u64, at - (at - lives[life].0) / 1_000 * 1_000, at)).into_iter().collect()
        };
        let mut spoken: Vec<(ClientRef, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Speaks(at) => {
                    if let Some(life) = open_at(at) {
                        spoken.extend(clients.spoke(NODE, &address(), Time(at)).map(|client| (client, life)));
                    }
                }
                Step::ListsAll(at) => clients.listed(NODE, &Asked::All, on_list(at), Time(at)),
                Step::ListsKnown(at) => {
                    let ids: Vec<u64> = clients.open(NODE).filter_map(|known| known.id).collect();
                    let present = on_list(at).into_iter().filter(|one| one.id.is_some_and(|id| ids.contains(&id)));
                    clients.listed(NODE, &Asked::Ids(ids.clone()), present.collect(), Time(at));
                }
            }
            for (client, life) in &spoken {
                let Some(known) = clients.get(*client) else { continue };
                if let Some(id) = known.connection.id {
                    prop_assert_eq!(id, *life as u64, "one connection for another");
                }
                if let Some(closed) = known.connection.closed {
                    prop_assert!(closed.0 > lives[*life].1, "closed at {:?} while open until {}", closed, lives[*life].1);
                }
            }
        }
    }
}
