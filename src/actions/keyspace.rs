//! The identity of a server's data, independent of its address: an address can lead to another server tomorrow, and one
//! server has several addresses.
//!
//! The replication id names the history of the data; a replica that is promoted carries it on as its second id. The run
//! id names the process. A restart may lose or roll back data, with or without persistence, and so ends a keyspace.

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};
use serde::{Deserialize, Serialize};

use crate::base::text;
use crate::base::time::Time;
use crate::server::InfoText;
use crate::topology::Topology;

/// What servers report if there is no second id.
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// The identity of the data behind a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Keyspace {
    run_id: String,
    replid: String,
    /// The history that this one continues, since a promotion.
    replid2: Option<String>,
    /// When the process began, in milliseconds of the server's Unix time, cut to a second.
    started: i64,
    /// When this was asked, by the same clock.
    asked: i64,
}

impl Keyspace {
    /// Asks the server; `Err` says why it does not report it.
    pub async fn read(conn: &mut impl ConnectionLike) -> RedisResult<Result<Keyspace, String>> {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME").cmd("INFO").arg("server").cmd("INFO").arg("replication").ignore_errors();
        let answers: Vec<Value> = pipe.query_async(conn).await?;
        let refused = answers.iter().find_map(|answer| match answer {
            Value::ServerError(error) => Some(text::said(error)),
            _ => None,
        });
        if let Some(why) = refused {
            return Ok(Err(format!("the server does not identify itself: {why}")));
        }
        let mut answers = answers.into_iter();
        let time = answers.next().and_then(|answer| redis::from_redis_value::<(i64, i64)>(answer).ok());
        let sections = answers.filter_map(|answer| redis::from_redis_value::<String>(answer).ok()).collect::<Vec<_>>();
        let found =
            time.and_then(|(seconds, micros)| Keyspace::of(&sections.join("\n"), Time::of_server(seconds, micros)?.0));
        Ok(found.ok_or_else(|| "the server does not report its replication id".to_string()))
    }

    /// The data of each node of the target that reports it.
    pub async fn read_all(topology: &Topology) -> RedisResult<Vec<Keyspace>> {
        let mut found = Vec::new();
        for node in topology.nodes() {
            found.extend(Keyspace::read(&mut node.connect().await?).await?.ok());
        }
        Ok(found)
    }

    fn of(info: &str, asked: i64) -> Option<Keyspace> {
        let info = InfoText::parse(info);
        let uptime: i64 = info.number("uptime_in_seconds")?;
        Some(Keyspace {
            run_id: info.text("run_id").unwrap_or_default().visible(),
            replid: info.text("master_replid")?.visible(),
            replid2: info.text("master_replid2").filter(|id| *id != NO_ID).map(|id| id.visible()),
            started: (asked / 1000).saturating_sub(uptime).saturating_mul(1000),
            asked,
        })
    }

    /// Checks that this is the same data as `then`, or returns why that is not certain.
    pub fn continues(&self, then: &Keyspace) -> Result<(), String> {
        let one_process = !self.run_id.is_empty() && self.run_id == then.run_id;
        let one_history = self.replid == then.replid || self.replid2.as_ref() == Some(&then.replid);
        // A master without replicas takes a new id after an hour, without a second id: its data is still the same.
        let renamed = one_process && self.replid2.is_none();
        if !one_history && !renamed {
            return Err("its replication id changed: it is another server, or was restarted".into());
        }
        // The start is known to a second. A promoted replica that already ran then has the same data.
        if !one_process && self.started + 1000 > then.asked {
            return Err("the server was restarted since, so its data may have changed".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace(run_id: &str, replid: &str, replid2: Option<&str>, started: i64, asked: i64) -> Keyspace {
        Keyspace { run_id: run_id.into(), replid: replid.into(), replid2: replid2.map(String::from), started, asked }
    }

    #[test]
    fn a_promoted_replica_continues_and_a_restart_does_not() {
        let then = keyspace("a", "x", None, 0, 50_000);
        assert_eq!(keyspace("a", "x", None, 0, 60_000).continues(&then), Ok(()));
        assert_eq!(keyspace("a", "y", None, 0, 60_000).continues(&then), Ok(()), "no replicas for an hour");
        assert!(keyspace("a", "z", Some("y"), 0, 60_000).continues(&then).is_err(), "it was a replica of another one");
        assert_eq!(keyspace("b", "y", Some("x"), 10_000, 60_000).continues(&then), Ok(()), "a failover");
        let again = keyspace("b", "y", Some("x"), 50_000, 60_000).continues(&then).unwrap_err();
        assert!(again.contains("restarted since"), "{again}");
        assert!(keyspace("b", "y", None, 10_000, 60_000).continues(&then).is_err());
    }

    #[test]
    fn a_server_that_tells_no_replication_id_has_no_identity() {
        assert_eq!(Keyspace::of("run_id:a\nuptime_in_seconds:5", 9_500), None);
        let text = format!("run_id:a\r\nuptime_in_seconds:5\r\nmaster_replid:x\r\nmaster_replid2:{NO_ID}\r\n");
        assert_eq!(Keyspace::of(&text, 9_500), Some(keyspace("a", "x", None, 4_000, 9_500)));
    }
}
