//! Looks closer at one lock when asked to: its waiters and companions. Of several orders only the newest counts.

use redis::RedisResult;
use tokio::sync::watch;

use super::driver::{Incoming, Task};
use crate::base::fault::Fault;
use crate::sources::inspect::{Inspection, Subject, inspect};
use crate::topology::ServerConnection;

pub(super) async fn run(task: Task, mut orders: watch::Receiver<Option<Subject>>) {
    let mut conn: Option<ServerConnection> = None;
    while orders.changed().await.is_ok() {
        let Some(subject) = orders.borrow_and_update().clone() else { continue };
        let inspection = look(&task, &mut conn, &subject).await.unwrap_or_else(|error| {
            conn = None;
            let why = Fault::from_redis(&error, &task.node.name).to_string();
            Inspection::failed(&subject, task.clock.now(), why)
        });
        if !task.tell(Incoming::Inspected(subject.key, Box::new(inspection))).await {
            return;
        }
    }
}

async fn look(task: &Task, conn: &mut Option<ServerConnection>, subject: &Subject) -> RedisResult<Inspection> {
    let _turn = task.budget.turn().await;
    let conn = match conn {
        Some(conn) => conn,
        None => conn.insert(task.node.connect().await?),
    };
    inspect(conn, subject, task.clock.now()).await
}
