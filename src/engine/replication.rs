//! How far a master's data had come, asked every second, so that after a failover it is known which writes are lost.
//!
//! A master counts the bytes of its replication stream. A replica that is promoted remembers how many of its old master's
//! bytes it had. Whatever was written after a time at which the old master had as many, the new one never got.

use std::collections::VecDeque;

use redis::{RedisResult, Value};

use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::server::InfoText;
use crate::topology::ServerConnection;

/// Different offsets that are kept: two minutes of writes.
const KEPT: usize = 120;

/// What a server said of its replication stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub is_master: bool,
    stream: ServerText,
    offset: u64,
    /// The stream of its former master, and the first byte of it that it did not get.
    former: Option<(ServerText, u64)>,
    /// When the answer came.
    at: Time,
}

impl Position {
    /// Also asks whether the server answers for keys, by a key that need not be there and may be another node's: a cluster
    /// that is down answers for none. `None`: this user may not ask.
    pub async fn ask(
        conn: &mut ServerConnection,
        key: Option<&[u8]>,
        now: impl Fn() -> Time,
    ) -> RedisResult<(Option<Position>, Option<bool>)> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").arg("replication").ignore_errors();
        if let Some(key) = key {
            pipe.cmd("TYPE").arg(key);
        }
        let answers: Vec<Value> = pipe.query_async(conn).await?;
        let Some(info) = answers.first() else { return Ok((None, None)) };
        let serves = match answers.get(1) {
            Some(Value::ServerError(error)) if error.code() == "CLUSTERDOWN" => Some(false),
            Some(Value::ServerError(error)) if error.code() == "NOPERM" => None,
            answered => answered.map(|_| true),
        };
        let info = redis::from_redis_value::<String>(info.clone()).ok();
        Ok((info.and_then(|info| Position::read(&info, now())), serves))
    }

    fn read(info: &str, at: Time) -> Option<Position> {
        let info = InfoText::parse(info);
        let former = info.text("master_replid2").zip(info.number::<i64>("second_repl_offset"));
        // -1 where it never had another.
        let former = former.and_then(|(stream, offset)| Some((stream, u64::try_from(offset).ok()?)));
        Some(Position {
            is_master: info.text("role").is_some_and(|role| role.as_bytes() == b"master"),
            stream: info.text("master_replid")?,
            offset: info.number("master_repl_offset")?,
            former,
            at,
        })
    }
}

/// When a master's stream had come how far.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    stream: ServerText,
    /// The first time of each offset, ascending.
    steps: VecDeque<(u64, Time)>,
    /// When it was last asked.
    pub asked: Option<Time>,
}

impl Trail {
    pub fn add(&mut self, position: &Position) {
        if self.stream != position.stream {
            *self = Trail { stream: position.stream.clone(), ..Trail::default() };
        }
        self.asked = Some(position.at);
        if self.steps.back().is_none_or(|(offset, _)| *offset < position.offset) {
            self.steps.push_back((position.offset, position.at));
            if self.steps.len() > KEPT {
                self.steps.pop_front();
            }
        }
    }

    /// The time after which nothing that was written to this master reached the one that took over; `None`: that can't be
    /// said.
    pub fn cut(&self, heir: &Position) -> Option<Time> {
        let (stream, missing) = heir.former.as_ref()?;
        let had = missing.checked_sub(1)?;
        (*stream == self.stream).then(|| self.steps.iter().find(|(offset, _)| *offset >= had).map(|(_, at)| *at))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "aaaa";

    fn position(stream: &str, offset: u64, former: Option<(&str, u64)>, at: i64) -> Position {
        let former = former.map(|(stream, offset)| (ServerText::from(stream), offset));
        Position { is_master: true, stream: stream.into(), offset, former, at: Time(at) }
    }

    fn trail() -> Trail {
        let mut trail = Trail::default();
        for (offset, at) in [(500, 1_000), (593, 2_000), (593, 3_000), (657, 4_000)] {
            trail.add(&position(OLD, offset, None, at));
        }
        trail
    }

    #[test]
    fn what_was_written_after_the_last_byte_that_came_over_is_lost() {
        let heir = |missing| position("bbbb", 700, Some((OLD, missing)), 9_000);
        assert_eq!(trail().cut(&heir(594)), Some(Time(2_000)), "it had 593 bytes, and so had the old one at that time");
        assert_eq!(trail().cut(&heir(600)), Some(Time(4_000)));
        assert_eq!(trail().cut(&heir(658)), Some(Time(4_000)), "nothing before the last question is lost");
        assert_eq!(trail().cut(&heir(659)), None, "it had more than was ever seen");
        assert_eq!(trail().cut(&position("bbbb", 700, Some(("cccc", 594)), 9_000)), None, "another stream");
        assert_eq!(trail().cut(&position("bbbb", 700, None, 9_000)), None);
    }

    #[test]
    fn another_stream_begins_anew_and_the_trail_is_bounded() {
        let mut trail = trail();
        trail.add(&position("cccc", 1, None, 5_000));
        assert_eq!(trail.steps, [(1, Time(5_000))]);
        for number in 0..1_000 {
            trail.add(&position("cccc", number, None, number as i64));
        }
        assert_eq!(trail.steps.len(), KEPT);
    }

    #[test]
    fn it_is_read_from_info() {
        let master = "role:master\r\nmaster_replid:aa\r\nmaster_replid2:bb\r\nmaster_repl_offset:657\r\nsecond_repl_offset:594\r\n";
        let read = Position::read(master, Time(1)).unwrap();
        assert_eq!((read.is_master, read.offset, read.former), (true, 657, Some(("bb".into(), 594))));
        let never = Position::read(
            "role:slave\r\nmaster_replid:aa\r\nmaster_replid2:00\r\nmaster_repl_offset:1\r\nsecond_repl_offset:-1\r\n",
            Time(1),
        );
        assert!(never.is_some_and(|position| !position.is_master && position.former.is_none()));
        assert_eq!(Position::read("role:master\r\n", Time(1)), None);
    }
}
