//! One server on its own.

use redis::{Client, ConnectionInfo, RedisResult, TlsCertificates};

use super::{Endpoint, Node};
use crate::lock::{KeyspaceId, NodeId};

pub fn node(endpoint: &Endpoint, id: NodeId) -> RedisResult<Node> {
    let name = endpoint.info.addr().to_string();
    let db = endpoint.info.redis_settings().db();
    let client = client(endpoint.info.clone(), endpoint.tls.as_ref())?;
    Ok(Node { id, space: KeyspaceId(id.0), name, db, client, tls: endpoint.tls.clone(), kin: None })
}

pub fn client(info: ConnectionInfo, tls: Option<&TlsCertificates>) -> RedisResult<Client> {
    match tls {
        Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        None => Client::open(info),
    }
}
