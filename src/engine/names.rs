//! Where the names of a walk come from, if not from the node itself: from one of its replicas, to spare it the SCAN.
//!
//! Only names: every key is read where it is owned, so that what a replica says never counts. A replica without its link is
//! not taken, since it misses what was taken since.

use std::time::Duration;

use redis::RedisResult;

use crate::base::text::visible;
use crate::lock::NodeId;
use crate::server::{InfoText, Role};
use crate::topology::{MemberRole, Node, ServerConnection, Shared, in_time};

/// A replica that takes longer than this is passed over.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the names of the last walk came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NamesFrom {
    /// `behind`: at most so many bytes of its master's replication stream; `None`: that is not known.
    Replica { name: String, behind: Option<u64> },
    /// No replica could be used.
    Master,
}

impl NamesFrom {
    /// In a sentence.
    pub fn sentence(&self, of: &str) -> String {
        let of = visible(of.as_bytes());
        match self {
            NamesFrom::Replica { name, behind } => {
                let behind = behind.map(|bytes| format!(", at most {bytes} bytes behind")).unwrap_or_default();
                format!("the names of {of}'s keys were scanned on its replica {}{behind}", visible(name.as_bytes()))
            }
            NamesFrom::Master => {
                format!("the names of {of}'s keys were scanned on itself: none of its replicas can be used")
            }
        }
    }
}

/// The first replica of the node that has its link, with how far it is behind.
pub(super) async fn replica_of(node: &Node, shared: &Shared) -> Option<(Node, Option<u64>)> {
    let map = shared.map();
    let of_node = |role: MemberRole| role == MemberRole::Replica(Some(node.id));
    for member in map.members.iter().filter(|member| of_node(member.role) && !member.failed) {
        if let Ok(Some(had)) = offset(&member.node, node.id).await {
            // Asked later, so it is rather too much than too little.
            let has = offset(node, node.id).await.ok().flatten();
            return Some((member.node.clone(), has.map(|has| has.saturating_sub(had))));
        }
    }
    None
}

/// How far the data of a node has come; `None`: it is a replica without its link, or of another one.
async fn offset(node: &Node, master: NodeId) -> RedisResult<Option<u64>> {
    let mut conn: ServerConnection = in_time(PATIENCE, node.connect()).await?;
    let text: String = in_time(PATIENCE, redis::cmd("INFO").arg("replication").query_async(&mut conn)).await?;
    let info = InfoText::parse(&text);
    let is_usable = match Role::from_info(&info) {
        Some(Role::Replica(upstream)) => node.id != master && upstream.link_up && !upstream.syncing,
        Some(Role::Master { .. }) => node.id == master,
        _ => false,
    };
    Ok(info.number("slave_repl_offset").or(info.number("master_repl_offset")).filter(|_| is_usable))
}
