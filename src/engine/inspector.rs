//! Asks for the details of one lock on request: its waiters and companions. Only the newest request counts.

use redis::RedisResult;
use tokio::sync::watch;

use super::task::{Incoming, Task};
use crate::base::fault::Fault;
use crate::sources::inspect::{Inspection, Subject, inspect};
use crate::topology::Link;

pub(super) async fn run(task: Task, mut orders: watch::Receiver<Option<Subject>>) {
    let mut link = Link::new(&task.node);
    while orders.changed().await.is_ok() {
        let Some(subject) = orders.borrow_and_update().clone() else { continue };
        let inspection = match look(&task, &mut link, &subject).await {
            Ok(inspection) => {
                link.works();
                inspection
            }
            Err(error) => {
                link.fails();
                let why = Fault::from_redis(&error, &task.node.name).to_string();
                Inspection::failed(&subject, task.clock.now(), why)
            }
        };
        if !task.tell(Incoming::Inspected(subject.key, Box::new(inspection))).await {
            return;
        }
    }
}

async fn look(task: &Task, link: &mut Link, subject: &Subject) -> RedisResult<Inspection> {
    link.pause().await;
    let _turn = task.budget.turn().await;
    inspect(link.open().await?, subject, task.clock.now()).await
}
