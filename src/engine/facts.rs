//! Keeps what is known of a server fresh: memory, replicas, clock.

use std::time::Duration;

use tokio::sync::mpsc;

use super::Incoming;
use crate::server;
use crate::topology::Node;

const EVERY: Duration = Duration::from_secs(10);

/// Asks now and then until nobody listens. A lost connection is none of its business: the event stream tells of it.
pub(super) async fn refresh(node: Node, out: mpsc::Sender<Incoming>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Ok(mut conn) = node.connect().await else { continue };
        while let Ok(facts) = server::ask(&mut conn, node.db).await {
            if out.send(Incoming::Facts(node.id, Box::new(facts))).await.is_err() {
                return;
            }
            tokio::time::sleep(EVERY).await;
        }
        if out.is_closed() {
            return;
        }
    }
}
