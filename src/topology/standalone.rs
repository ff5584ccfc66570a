//! One server on its own.

use redis::{Client, RedisResult};

use super::{Endpoint, Node};
use crate::lock::{KeyspaceId, NodeId};

pub fn node(endpoint: &Endpoint, id: NodeId) -> RedisResult<Node> {
    let name = endpoint.info.addr().to_string();
    let db = endpoint.info.redis_settings().db();
    let client = match &endpoint.tls {
        Some(certificates) => Client::build_with_tls(endpoint.info.clone(), certificates.clone())?,
        None => Client::open(endpoint.info.clone())?,
    };
    Ok(Node { id, space: KeyspaceId(id.0), name, db, client, tls: endpoint.tls.clone() })
}
