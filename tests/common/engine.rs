//! The library's engine on a test's server, without the binary.

use lockscope::base::glob::Glob;
use lockscope::dialects::Recogniser;
use lockscope::engine::{Engine, Options};
use lockscope::model::Limits;
use lockscope::sources::pace::Pace;
use lockscope::topology::{Endpoint, Topology};
use redis::IntoConnectionInfo;

use super::feed::Feed;
use super::server::Server;

/// Follows the locks under `lock:*`.
pub async fn follow(server: &Server, feed: Feed, pace: Pace) -> Engine {
    followed(server, feed, Options { pace, ..options(Limits::default()) }).await
}

/// Options that follow the locks under `lock:*`, within these limits.
pub fn options(limits: Limits) -> Options {
    let patterns = vec![Glob::new("lock:*").expect("a pattern")];
    let recogniser = Recogniser::new(patterns, Vec::new(), Vec::new());
    Options { limits, ..Options::following(recogniser, Pace::Fast) }
}

pub async fn followed(server: &Server, feed: Feed, options: Options) -> Engine {
    start(&endpoint(server, feed), options).await.0
}

/// The engine at this address, and its nodes.
pub async fn start(endpoint: &Endpoint, options: Options) -> (Engine, Topology) {
    let topology = Topology::open(endpoint).await.expect("the test's server");
    (Engine::start(&topology, options).await.expect("the engine starts"), topology)
}

pub fn endpoint(server: &Server, feed: Feed) -> Endpoint {
    let login = if feed == Feed::Polling { "poller:polls@" } else { "" };
    Endpoint { shown: server.url(), ..endpoint_at(&format!("redis://{login}127.0.0.1:{}", server.port())) }
}

pub fn endpoint_at(url: &str) -> Endpoint {
    Endpoint { shown: url.into(), info: url.into_connection_info().expect("a URL"), tls: None }
}

/// Keys and first holders of the locks that the engine believes to be held.
pub fn held(engine: &Engine) -> Vec<(String, String)> {
    let now = engine.clock.now();
    let table = engine.table();
    let holder = |lock| table.holders(lock, now).first().map_or(String::new(), |holder| holder.token.to_string());
    let mut held: Vec<_> = table.locks().map(|lock| (lock.key.to_string(), holder(lock))).collect();
    held.sort();
    held
}
