//! An upper bound of the clients blocked on lists, from INFO and CLIENT LIST. Pure.
//!
//! The server says that a client is blocked and in which command, but not on which key. So the number is an upper bound for
//! each list.

use crate::server::client_list::{self, ClientLine, LISTED};
use crate::server::{Fact, InfoText};

use super::Count;
use crate::base::time::Time;
use crate::model::Connection;

/// Commands in which waiters of known libraries, and others, block on lists.
const ON_LISTS: [&str; 5] = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop"];

/// The client counts of INFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientCounts {
    connected: u64,
    /// In any command.
    blocked: u64,
}

impl ClientCounts {
    pub fn parse(info: &str) -> Option<ClientCounts> {
        let info = InfoText::parse(info);
        Some(ClientCounts { connected: info.number("connected_clients")?, blocked: info.number("blocked_clients")? })
    }

    pub fn any_blocked(self) -> bool {
        self.blocked > 0
    }

    /// Whether it is worth asking for the list of clients.
    pub fn worth_listing(self) -> bool {
        self.blocked > 0 && self.connected <= LISTED
    }
}

/// The clients of one database that are blocked in a list pop.
#[derive(Clone, PartialEq, Debug)]
pub struct Blocked {
    pub count: Count,
    /// Those that have been blocked the longest.
    pub clients: Vec<Connection>,
}

impl Blocked {
    const NAMED: usize = 16;

    /// From INFO and CLIENT LIST, asked at `at`. `listed` is `None` where CLIENT LIST was not asked.
    pub fn read(clients: &Fact<ClientCounts>, listed: Option<Fact<String>>, db: i64, at: Time) -> Blocked {
        let named = match &listed {
            Some(Fact::Known(list)) => {
                let mut named: Vec<Connection> =
                    on_lists(list, db).filter_map(|client| client.connection(at)).collect();
                named.sort_by_key(|client| client.used);
                named.truncate(Self::NAMED);
                named
            }
            _ => Vec::new(),
        };
        Blocked { count: bound(clients, listed, db), clients: named }
    }
}

/// The upper bound.
fn bound(clients: &Fact<ClientCounts>, listed: Option<Fact<String>>, db: i64) -> Count {
    let by_list = listed.map(|listed| listed.map(|list| on_lists(&list, db).count() as u64));
    let at_most = match (by_list, clients) {
        (Some(Fact::Known(count)), _) => count,
        (_, Fact::Known(clients)) => clients.blocked,
        (Some(Fact::Unknown(why)), Fact::Unknown(_)) => return Count::Unknown(why),
        (None, Fact::Unknown(why)) => return Count::Unknown(why.clone()),
    };
    if at_most == 0 { Count::Exactly(0) } else { Count::AtMost(at_most) }
}

fn on_lists(list: &str, db: i64) -> impl Iterator<Item = ClientLine<'_>> {
    let pops = |client: &ClientLine<'_>| client.command().is_some_and(|command| ON_LISTS.contains(&command));
    let waits = move |client: &ClientLine<'_>| client.is_blocked() && client.db() == Some(db) && pops(client);
    client_list::lines(list).filter(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
id=3 addr=127.0.0.1:1 laddr=127.0.0.1:6379 fd=8 name= age=9 idle=9 flags=b db=0 sub=0 psub=0 cmd=blpop user=default
id=4 addr=127.0.0.1:2 laddr=127.0.0.1:6379 fd=9 name= age=9 idle=9 flags=b db=1 sub=0 psub=0 cmd=blpop user=default
id=5 addr=127.0.0.1:3 laddr=127.0.0.1:6379 fd=10 name= age=9 idle=9 flags=b db=0 sub=0 psub=0 cmd=xread user=default
id=6 addr=127.0.0.1:4 laddr=127.0.0.1:6379 fd=11 name= age=9 idle=9 flags=N db=0 sub=0 psub=0 cmd=blpop user=default
id=7 addr=127.0.0.1:5 laddr=127.0.0.1:6379 fd=12 name= age=9 idle=9 flags=b db=0 sub=0 psub=0 cmd=blmove user=default
";

    fn clients(connected: u64, blocked: u64) -> Fact<ClientCounts> {
        Fact::Known(ClientCounts { connected, blocked })
    }

    fn refused(what: &str) -> String {
        format!("this user may not run {what}")
    }

    #[test]
    fn only_clients_blocked_on_lists_of_this_database_can_wait_for_the_lock() {
        assert_eq!(bound(&clients(5, 4), Some(Fact::Known(LIST.into())), 0), Count::AtMost(2));
        assert_eq!(bound(&clients(5, 4), Some(Fact::Known(LIST.into())), 7), Count::Exactly(0));
    }

    #[test]
    fn the_first_few_that_may_wait_are_named() {
        let found = Blocked::read(&clients(5, 4), Some(Fact::Known(LIST.into())), 0, Time(60_000));
        let addresses: Vec<&str> = found.clients.iter().map(|client| client.address.as_str()).collect();
        assert_eq!((found.count, addresses), (Count::AtMost(2), vec!["127.0.0.1:1", "127.0.0.1:5"]));
        let crowd: String =
            (1..=40).map(|id| LIST.lines().next().unwrap().replace(":1 ", &format!(":{id} ")) + "\n").collect();
        let found = Blocked::read(&clients(50, 40), Some(Fact::Known(crowd)), 0, Time(60_000));
        assert_eq!((found.count, found.clients.len()), (Count::AtMost(40), Blocked::NAMED));
    }

    #[test]
    fn where_nobody_is_blocked_nobody_waits() {
        let none = ClientCounts::parse("# ClientCounts\r\nconnected_clients:12\r\nblocked_clients:0\r\n").unwrap();
        assert!(!none.worth_listing());
        assert_eq!(bound(&Fact::Known(none), None, 0), Count::Exactly(0));
    }

    #[test]
    fn a_server_with_very_many_clients_is_not_asked_for_their_list() {
        let crowd = ClientCounts::parse("connected_clients:30000\nblocked_clients:40\n").unwrap();
        assert!(!crowd.worth_listing());
        assert_eq!(bound(&Fact::Known(crowd), None, 0), Count::AtMost(40));
    }

    #[test]
    fn what_may_not_be_asked_is_unknown() {
        let (info, list) = (refused("INFO"), refused("CLIENT LIST"));
        let counted = bound(&Fact::Unknown(info.clone()), Some(Fact::Unknown(list.clone())), 0);
        assert_eq!(counted, Count::Unknown(list.clone()));
        assert_eq!(bound(&Fact::Unknown(info), None, 0), Count::Unknown(refused("INFO")));
        assert_eq!(bound(&clients(5, 4), Some(Fact::Unknown(list)), 0), Count::AtMost(4));
    }
}
