//! Refreshes the facts of a server: memory, replicas, clock.

use std::time::Duration;

use super::task::Task;
use crate::server;
use crate::sources::notify::Standing;
use crate::topology::Link;

const EVERY: Duration = Duration::from_secs(10);

/// Asks regularly until nobody listens. It ignores a lost connection, which the event stream reports.
pub(super) async fn refresh(task: Task) {
    let mut link = Link::new(&task.node);
    while !task.out.is_closed() {
        tokio::time::sleep(EVERY).await;
        let facts = match link.open().await {
            Ok(conn) => server::ask(conn, task.node.db).await,
            Err(error) => Err(error),
        };
        match facts {
            Ok(facts) => {
                link.works();
                if !task.tell(Standing::Facts(Box::new(facts))).await {
                    return;
                }
            }
            Err(_) => link.fails(),
        }
    }
}
