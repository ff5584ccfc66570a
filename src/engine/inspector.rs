//! Looks closer at one lock when asked to: its waiters and companions. Of several orders only the newest counts.

use std::sync::Arc;

use redis::RedisResult;
use tokio::sync::{mpsc, watch};

use super::Incoming;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::sources::inspect::{Inspection, Subject, inspect};
use crate::sources::pace::Budget;
use crate::topology::{Node, ServerConnection};

pub(super) struct Inspector {
    pub node: Node,
    pub budget: Arc<Budget>,
    pub clock: Clock,
}

impl Inspector {
    pub async fn run(self, mut orders: watch::Receiver<Option<Subject>>, out: mpsc::Sender<Incoming>) {
        let mut conn: Option<ServerConnection> = None;
        while orders.changed().await.is_ok() {
            let Some(subject) = orders.borrow_and_update().clone() else { continue };
            let inspection = match self.look(&mut conn, &subject).await {
                Ok(inspection) => inspection,
                Err(error) => {
                    conn = None;
                    let why = Fault::from_redis(&error, &self.node.name).to_string();
                    Inspection::failed(&subject, self.clock.now(), why)
                }
            };
            let told = Incoming::Inspected(self.node.id, subject.key, Box::new(inspection));
            if out.send(told).await.is_err() {
                return;
            }
        }
    }

    async fn look(&self, conn: &mut Option<ServerConnection>, subject: &Subject) -> RedisResult<Inspection> {
        let _turn = self.budget.turn().await;
        let conn = match conn {
            Some(conn) => conn,
            None => conn.insert(self.node.connect().await?),
        };
        inspect(conn, subject, self.clock.now()).await
    }
}
