//! Refreshes the facts of a server: memory, replicas, clock. Where another server may take its place, also how far its
//! replication stream has come.

use std::time::Duration;

use tokio::time::Instant;

use super::replication::Position;
use super::task::{Incoming, Task};
use crate::server;
use crate::server::permissions::sample_key;
use crate::sources::notify::Standing;
use crate::topology::Link;

const EVERY: Duration = Duration::from_secs(10);
/// How often the position is asked for.
const POSITION: Duration = Duration::from_secs(1);
/// The same while the server answers for no key.
const REFUSED: Duration = Duration::from_millis(250);

/// Asks regularly until nobody listens. It ignores a lost connection, which the event stream reports.
pub(super) async fn refresh(task: Task) {
    let mut link = Link::new(&task.node);
    let follows = task.node.is_in_cluster();
    let mut facts_at = Instant::now() + EVERY;
    // A user who may read the locks may ask for this one.
    let mut key = task.recogniser.patterns().iter().next().map(sample_key);
    while !task.out.is_closed() {
        let asked = if follows { position(&task, &mut link, key.as_deref()).await } else { Ok((None, None)) };
        let (mut told, mut every) = (true, POSITION);
        match asked {
            Ok((position, serves)) => {
                if let Some(position) = position {
                    told = task.tell(Incoming::Position(position)).await;
                }
                // A cluster is down for a moment in every failover.
                every = if serves == Some(false) { REFUSED } else { POSITION };
                match serves {
                    Some(serves) => told = told && task.tell(Incoming::Serves(serves)).await,
                    None => key = None,
                }
            }
            Err(_) => link.fails(),
        }
        if !told || facts_at <= Instant::now() && !facts(&task, &mut link).await {
            return;
        }
        if facts_at <= Instant::now() {
            facts_at = Instant::now() + EVERY;
        }
        let next = if follows { Instant::now() + every } else { facts_at };
        tokio::time::sleep_until(next).await;
    }
}

/// Its position, if it may be asked for, else losses are not proven; and whether it answers for keys.
async fn position(
    task: &Task,
    link: &mut Link,
    key: Option<&[u8]>,
) -> redis::RedisResult<(Option<Position>, Option<bool>)> {
    link.pause().await;
    let asked = Position::ask(link.open().await?, key, || task.clock.now()).await?;
    link.works();
    Ok(asked)
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
