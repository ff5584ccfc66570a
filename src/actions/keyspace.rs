//! The identity of a server's data, independent of its address: an address can lead to another server tomorrow, and one
//! server has several addresses.
//!
//! The replication id names the history of the data; a replica that is promoted carries it on as its second id. The run
//! id names the process. A restart may lose or roll back data, with or without persistence, and so ends a keyspace.
//!
//! A cluster has no name of its own, and the node that owns a lock may be another one tomorrow. It is recognised by its
//! nodes, whose ids are unique: it is the same cluster while more than half of them are still in it.

use std::collections::BTreeSet;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};
use serde::{Deserialize, Serialize};

use crate::base::clock::Clock;
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
    /// How far that clock was ahead of ours.
    #[serde(default)]
    ahead: i64,
    /// The cluster that it is a part of.
    #[serde(default)]
    cluster: Option<Members>,
}

/// The nodes of a cluster, by their ids.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Members {
    /// The node that was asked.
    asked: String,
    ids: BTreeSet<String>,
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
        let ours = Clock::start().now();
        let sections = sections.join("\n");
        let found = time.and_then(|(seconds, micros)| Keyspace::of(&sections, Time::of_server(seconds, micros)?.0));
        let Some(mut found) = found else {
            return Ok(Err("the server does not report its replication id".to_string()));
        };
        found.ahead = found.asked - ours.0;
        if InfoText::parse(&sections).text("redis_mode").is_some_and(|mode| mode == "cluster") {
            match redis::cmd("CLUSTER").arg("NODES").query_async::<Value>(conn).await {
                Ok(Value::ServerError(error)) => return Ok(Err(unnamed(&error))),
                Ok(answer) => found.cluster = redis::from_redis_value::<String>(answer).ok().and_then(Members::parse),
                Err(error) if error.code().is_some() => return Ok(Err(unnamed(&error))),
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(found))
    }

    /// The data of each node of the target that reports it. Of a cluster, those that answer are enough.
    pub async fn read_all(topology: &Topology) -> RedisResult<Vec<Keyspace>> {
        let (mut found, mut failed) = (Vec::new(), None);
        for node in topology.nodes() {
            match async { Keyspace::read(&mut node.connect().await?).await }.await {
                Ok(here) => found.extend(here.ok()),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if topology.cluster().is_none() || found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// It is a part of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// How far the clock of the node that has it now is ahead of ours, if that is another node than `then`.
    pub(super) fn other_clock(&self, then: &Keyspace) -> Option<i64> {
        let asked = |keyspace: &Keyspace| keyspace.cluster.as_ref().map(|members| members.asked.clone());
        (self.is_cluster() && asked(self) != asked(then)).then_some(self.ahead)
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
            ahead: 0,
            cluster: None,
        })
    }

    /// Checks that this is the same data as `then`, or returns why that is not certain.
    pub fn continues(&self, then: &Keyspace) -> Result<(), String> {
        let one_process = !self.run_id.is_empty() && self.run_id == then.run_id;
        if let (Some(here), Some(members)) = (&self.cluster, &then.cluster) {
            here.continues(members)?;
            // What a node that joined since has, it got from the others.
            let is_new = !members.ids.contains(&here.asked);
            return if one_process || is_new { Ok(()) } else { self.ran_then(then) };
        }
        let one_history = self.replid == then.replid || self.replid2.as_ref() == Some(&then.replid);
        // A master without replicas takes a new id after an hour, without a second id: its data is still the same.
        let renamed = one_process && self.replid2.is_none();
        if !one_history && !renamed {
            return Err("its replication id changed: it is another server, or was restarted".into());
        }
        // A promoted replica that already ran then has the same data.
        if one_process { Ok(()) } else { self.ran_then(then) }
    }

    /// The process ran already; its start is known to a second.
    fn ran_then(&self, then: &Keyspace) -> Result<(), String> {
        if self.started + 1000 > then.asked {
            return Err("the server was restarted since, so its data may have changed".into());
        }
        Ok(())
    }
}

impl Members {
    /// From the answer to CLUSTER NODES. A node that is just being met has no id of its own yet.
    fn parse(text: String) -> Option<Members> {
        let mut members = Members { asked: String::new(), ids: BTreeSet::new() };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(id), Some(_), Some(flags)) = (words.next(), words.next(), words.next()) else { continue };
            let has = |flag: &str| flags.split(',').any(|other| other == flag);
            if has("myself") {
                members.asked = text::visible(id.as_bytes());
            }
            if !has("handshake") {
                members.ids.insert(text::visible(id.as_bytes()));
            }
        }
        (!members.asked.is_empty()).then_some(members)
    }

    fn continues(&self, then: &Members) -> Result<(), String> {
        let stayed = then.ids.intersection(&self.ids).count();
        match stayed * 2 > then.ids.len() {
            true => Ok(()),
            false => Err("it is another cluster: most of the nodes of that time are not in it".into()),
        }
    }
}

fn unnamed(error: &impl std::fmt::Display) -> String {
    format!("the cluster does not name its nodes: {}", text::said(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace(run_id: &str, replid: &str, replid2: Option<&str>, started: i64, asked: i64) -> Keyspace {
        let (run_id, replid, replid2) = (run_id.into(), replid.into(), replid2.map(String::from));
        Keyspace { run_id, replid, replid2, started, asked, ahead: 0, cluster: None }
    }

    fn node(run_id: &str, asked: &str, ids: &[&str], started: i64, at: i64) -> Keyspace {
        let ids = ids.iter().map(|id| id.to_string()).collect();
        Keyspace { cluster: Some(Members { asked: asked.into(), ids }), ..keyspace(run_id, run_id, None, started, at) }
    }

    #[test]
    fn a_cluster_goes_on_at_another_node_and_is_not_another_one() {
        let then = node("r1", "a", &["a", "b", "c"], 0, 50_000);
        let at = |run_id, asked, ids: &[&str], started| node(run_id, asked, ids, started, 60_000).continues(&then);
        assert_eq!(at("r1", "a", &["a", "b", "c"], 0), Ok(()));
        assert_eq!(at("r2", "b", &["a", "b", "c"], 0), Ok(()), "its slot moved, or its replica took over");
        assert_eq!(at("r4", "d", &["a", "b", "c", "d"], 55_000), Ok(()), "it moved to a node that joined since");
        assert_eq!(at("r2", "b", &["b", "c", "d"], 0), Ok(()), "a node was removed");
        assert!(at("r5", "a", &["a", "b", "c"], 55_000).unwrap_err().contains("restarted since"));
        assert!(at("r1", "a", &["a", "x", "y"], 0).unwrap_err().contains("another cluster"));
        assert!(at("r9", "x", &["x", "y", "z"], 0).unwrap_err().contains("another cluster"));
        assert_eq!((then.other_clock(&then), node("r2", "b", &[], 0, 0).other_clock(&then)), (None, Some(0)));
    }

    #[test]
    fn members_are_known_by_their_ids() {
        let text = "aa 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-5\nbb :0@0 master,noaddr - 0 0 2 connected\n\
                    cc 127.0.0.1:3@4 handshake - 0 0 0 connected\nrubbish\n";
        let members = Members::parse(text.into()).unwrap();
        assert_eq!((members.asked.as_str(), members.ids.len()), ("aa", 2));
        assert_eq!(Members::parse("ERR".into()), None);
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
