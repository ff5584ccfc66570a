//! A node's mode and role, and how far its replicas are behind. Read from INFO; pure.

use super::info::InfoText;
use crate::base::server_text::ServerText;

/// How a server takes part in a topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Standalone,
    Cluster,
    Sentinel,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Standalone => "standalone",
            Mode::Cluster => "cluster",
            Mode::Sentinel => "sentinel",
        }
    }

    pub fn from_info(info: &InfoText<'_>) -> Option<Mode> {
        match info.word("redis_mode").or_else(|| info.word("server_mode"))? {
            "standalone" => Some(Mode::Standalone),
            "cluster" => Some(Mode::Cluster),
            "sentinel" => Some(Mode::Sentinel),
            _ => None,
        }
    }
}

/// A master with its replicas, or a replica with its master.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    Master { replicas: Vec<Replica> },
    Replica(Upstream),
    Sentinel,
}

/// A replica as its master sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replica {
    pub address: ServerText,
    pub online: bool,
    /// Seconds since its last acknowledgement.
    pub lag_s: Option<u64>,
    /// Bytes of the replication stream it has not acknowledged.
    pub behind: Option<u64>,
}

/// The master as its replica sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    pub master: ServerText,
    pub link_up: bool,
    /// Seconds since the master last sent something.
    pub silent_s: Option<u64>,
    pub syncing: bool,
}

impl Role {
    /// More replicas than this are counted, not listed.
    const LISTED: usize = 64;

    pub fn name(&self) -> &'static str {
        match self {
            Role::Master { .. } => "master",
            Role::Replica(_) => "replica",
            Role::Sentinel => "sentinel",
        }
    }

    pub fn from_info(info: &InfoText<'_>) -> Option<Role> {
        match info.word("role") {
            Some("master") => Some(Role::Master { replicas: replicas(info) }),
            Some("slave" | "replica") => Some(Role::Replica(upstream(info))),
            _ if Mode::from_info(info) == Some(Mode::Sentinel) => Some(Role::Sentinel),
            _ => None,
        }
    }
}

fn replicas(info: &InfoText<'_>) -> Vec<Replica> {
    let count = info.number::<usize>("connected_slaves").unwrap_or(0).min(Role::LISTED);
    let written = info.number::<u64>("master_repl_offset");
    (0..count)
        .map(|index| {
            let part = |part: &str| info.part(&format!("slave{index}"), part);
            let behind = written.zip(part("offset").and_then(|offset| offset.parse::<u64>().ok()));
            Replica {
                address: address(part("ip"), part("port")),
                online: part("state") == Some("online"),
                lag_s: part("lag").and_then(|lag| lag.parse().ok()),
                behind: behind.map(|(written, offset)| written.saturating_sub(offset)),
            }
        })
        .collect()
}

/// Another server's address, as this server gives it.
fn address(host: Option<&str>, port: Option<&str>) -> ServerText {
    format!("{}:{}", host.unwrap_or("?"), port.unwrap_or("?")).into()
}

fn upstream(info: &InfoText<'_>) -> Upstream {
    Upstream {
        master: address(info.word("master_host"), info.word("master_port")),
        link_up: info.word("master_link_status") == Some("up"),
        silent_s: info.number("master_last_io_seconds_ago"),
        syncing: info.flag("master_sync_in_progress").unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_lags_is_seen_from_its_master() {
        let info = InfoText::parse(
            "role:master\r\nconnected_slaves:2\r\nslave0:ip=10.0.0.2,port=6380,state=online,offset=90,lag=0\r\n\
             slave1:ip=10.0.0.3,port=6380,state=wait_bgsave,offset=0,lag=7\r\nmaster_repl_offset:100\r\n",
        );
        let Some(Role::Master { replicas }) = Role::from_info(&info) else { panic!() };
        assert_eq!(replicas[0].behind, Some(10));
        assert_eq!((replicas[1].online, replicas[1].lag_s), (false, Some(7)));
    }

    #[test]
    fn a_replica_names_its_master() {
        let info = InfoText::parse("role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\nmaster_link_status:down\n");
        let Some(Role::Replica(upstream)) = Role::from_info(&info) else { panic!() };
        assert_eq!(
            (upstream.master.visible().as_str(), upstream.link_up, upstream.silent_s),
            ("10.0.0.1:6379", false, None)
        );
    }

    #[test]
    fn absurd_counts_stay_bounded() {
        let info = InfoText::parse("role:master\nconnected_slaves:18446744073709551615\n");
        let Some(Role::Master { replicas }) = Role::from_info(&info) else { panic!() };
        assert!(replicas.len() <= Role::LISTED);
    }
}
