//! Keeps what is known of a server fresh: memory, replicas, clock.

use std::time::Duration;

use super::driver::Task;
use crate::server;
use crate::sources::notify::Standing;

const EVERY: Duration = Duration::from_secs(10);

/// Asks now and then until nobody listens. A lost connection is none of its business: the event stream tells of it.
pub(super) async fn refresh(task: Task) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Ok(mut conn) = task.node.connect().await else { continue };
        while let Ok(facts) = server::ask(&mut conn, task.node.db).await {
            if !task.tell(Standing::Facts(Box::new(facts))).await {
                return;
            }
            tokio::time::sleep(EVERY).await;
        }
        if task.out.is_closed() {
            return;
        }
    }
}
