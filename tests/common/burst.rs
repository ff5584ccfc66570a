//! What the tests of MONITOR bursts share.

use lockscope::base::glob::Glob;
use lockscope::dialects::Recogniser;
use lockscope::topology::{Endpoint, Node, Topology};
use redis::IntoConnectionInfo;

use super::server::Server;

/// Locks are the keys under `lock:*`.
pub fn recogniser() -> Recogniser {
    Recogniser::new(vec![Glob::new("lock:*").expect("a pattern")], Vec::new(), Vec::new())
}

pub async fn node(url: &str) -> Node {
    let info = url.into_connection_info().expect("a URL");
    open(Endpoint { shown: url.into(), info, tls: None }).await
}

pub async fn open(endpoint: Endpoint) -> Node {
    Topology::open(&endpoint).await.expect("the test's server").nodes()[0].clone()
}

/// Clients of the server that are in MONITOR mode.
pub fn monitors(server: &Server) -> usize {
    let list: String = server.ask(&["CLIENT", "LIST"]);
    list.lines().filter(|line| line.contains(" flags=O")).count()
}
