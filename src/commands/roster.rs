//! The server's list of clients, asked for once: it shows where holders are.

use super::session::Session;
use crate::engine::Engine;
use crate::model::Asked;
use crate::sources::clients;

/// Reads it from every node. Where it is refused or too long, nobody knows where holders are, and that is what is said.
pub async fn read(session: &Session, engine: &mut Engine) {
    for node in session.topology.nodes() {
        let known = engine.node(node.id).and_then(|status| status.facts.clients.known());
        if known.is_none_or(|clients| clients.connected > clients::MOST) {
            continue;
        }
        let Ok(mut conn) = node.connect().await else { continue };
        if let Ok(Ok(listed)) = clients::list(&mut conn, node.id, Asked::All, engine.clock.now()).await {
            engine.observe(listed);
        }
    }
}
