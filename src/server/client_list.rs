//! Parses the reply to CLIENT LIST, one client a line. Pure.
//!
//! All readers of the list use this parser. A field that the server does not know, or that the client did not set, is
//! `None`. Texts are as the clients set them.

use std::time::Duration;

use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::model::{Address, Connection};

/// With more clients than this, listing them costs more than the answer is worth.
pub const LISTED: u64 = 2_000;

/// One client.
#[derive(Clone, Copy, Debug)]
pub struct ClientLine<'a>(&'a str);

/// The lines of an answer.
pub fn lines(list: &str) -> impl Iterator<Item = ClientLine<'_>> {
    list.lines().filter(|line| !line.is_empty()).map(ClientLine)
}

impl<'a> ClientLine<'a> {
    /// A field by its name; `None` where it is empty.
    fn field(self, name: &str) -> Option<&'a str> {
        let value = self.0.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.filter(|value| !value.is_empty())
    }

    pub fn is_blocked(self) -> bool {
        self.field("flags").is_some_and(|flags| flags.contains('b'))
    }

    /// The command that it ran last, in lower case.
    pub fn command(self) -> Option<&'a str> {
        self.field("cmd")
    }

    pub fn db(self) -> Option<i64> {
        self.field("db")?.parse().ok()
    }

    /// The connection, listed at `at`. `None` where its address is not unique to one client.
    pub fn connection(self, at: Time) -> Option<Connection> {
        let number = |name: &str| self.field(name).and_then(|number| number.parse::<u64>().ok());
        let library = match (self.field("lib-name"), self.field("lib-ver")) {
            (Some(name), Some(version)) => Some(format!("{name} {version}").into()),
            (name, _) => name.map(ServerText::from),
        };
        Some(Connection {
            id: Some(number("id")?),
            name: self.field("name").map(ServerText::from),
            library,
            user: self.field("user").map(ServerText::from),
            since: number("age").map(|age| at - Duration::from_secs(age)),
            used: number("idle").map(|idle| at - Duration::from_secs(idle)),
            ..Connection::new(Address::parse(self.field("addr")?)?, at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "id=7 addr=10.0.3.7:51322 laddr=10.0.0.1:6379 fd=8 name=orders-1 age=180 idle=1 flags=N db=2 sub=0 \
        psub=0 argv-mem=10 cmd=client|list user=app redir=-1 resp=3 lib-name=jedis lib-ver=5.1";

    fn read(line: &str) -> Option<Connection> {
        lines(line).next()?.connection(Time(1_000_000))
    }

    #[test]
    fn a_line_tells_who_it_is() {
        let connection = read(LINE).unwrap();
        assert_eq!((connection.id, connection.address.as_str()), (Some(7), "10.0.3.7:51322"));
        assert_eq!(connection.name, Some("orders-1".into()));
        assert_eq!(
            (connection.library.clone(), connection.user.clone()),
            (Some("jedis 5.1".into()), Some("app".into()))
        );
        assert_eq!((connection.since, connection.closed), (Some(Time(820_000)), None));
        assert_eq!((connection.used, connection.idle_ms(Time(1_002_000))), (Some(Time(999_000)), Some(3_000)));
        assert_eq!(lines(LINE).next().and_then(ClientLine::db), Some(2));
        assert_eq!(
            connection.describe(Time(1_000_000)),
            "10.0.3.7:51322 (orders-1, jedis 5.1, user app), open for 3m00s, idle for 1.0s"
        );
    }

    #[test]
    fn what_a_client_did_not_give_is_not_there() {
        let connection = read("id=3 addr=[::1]:4000 name= age=0 flags=N db=0 cmd=ping lib-name= lib-ver=").unwrap();
        assert_eq!((connection.name, connection.library, connection.user), (None, None, None));
        assert_eq!(connection.address.host(), "[::1]");
    }

    #[test]
    fn who_has_no_address_of_its_own_is_nobody() {
        for line in
            ["id=3 addr=/tmp/redis.sock:0 name=", "id=3 addr=127.0.0.1:0", "addr=127.0.0.1:9", "id=x addr=", "rubbish"]
        {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(lines("\n\n").count(), 0);
    }

    #[test]
    fn a_name_can_not_drive_a_terminal() {
        let described = read("id=3 addr=127.0.0.1:9 name=a\u{1b}[2J age=1").unwrap().describe(Time(1_000_000));
        assert_eq!(described, "127.0.0.1:9 (a\\u{1b}[2J), open for 1.0s");
    }
}
