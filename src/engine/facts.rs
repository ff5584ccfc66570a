//! Refreshes the facts of a server: memory, replicas, clock. Where another server may take its place, also how far its
//! replication stream has come.

use std::time::Duration;

use tokio::time::Instant;

use super::replication::Position;
use super::task::{Incoming, Task};
use crate::server;
use crate::sources::notify::Standing;
use crate::topology::Link;

const EVERY: Duration = Duration::from_secs(10);
/// How often the position is asked for.
const POSITION: Duration = Duration::from_secs(1);

/// Asks regularly until nobody listens. It ignores a lost connection, which the event stream reports.
pub(super) async fn refresh(task: Task) {
    let mut link = Link::new(&task.node);
    let follows = task.node.is_in_cluster();
    let mut facts_at = Instant::now() + EVERY;
    while !task.out.is_closed() {
        let asked = if follows { position(&task, &mut link).await } else { Ok(None) };
        let told = match asked {
            Ok(Some(position)) => task.tell(Incoming::Position(position)).await,
            Ok(None) => true,
            Err(_) => {
                link.fails();
                true
            }
        };
        if !told || facts_at <= Instant::now() && !facts(&task, &mut link).await {
            return;
        }
        if facts_at <= Instant::now() {
            facts_at = Instant::now() + EVERY;
        }
        let next = if follows { Instant::now() + POSITION } else { facts_at };
        tokio::time::sleep_until(next).await;
    }
}

async fn position(task: &Task, link: &mut Link) -> redis::RedisResult<Option<Position>> {
    link.pause().await;
    let position = Position::ask(link.open().await?, || task.clock.now()).await;
    match position {
        // It may be refused; then losses are not proven.
        Err(error) if error.code().is_some() => Ok(None),
        asked => {
            link.works();
            asked
        }
    }
}

/// Returns whether anybody listens.
async fn facts(task: &Task, link: &mut Link) -> bool {
    let facts = match link.open().await {
        Ok(conn) => server::ask(conn, task.node.db).await,
        Err(error) => Err(error),
    };
    match facts {
        Ok(facts) => {
            link.works();
            task.tell(Standing::Facts(Box::new(facts))).await
        }
        Err(_) => {
            link.fails();
            true
        }
    }
}
