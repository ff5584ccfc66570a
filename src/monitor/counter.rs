//! Counts the waiters of the locks that the monitor names, in short calls within the budget.

use std::sync::Arc;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use super::Incoming;
use crate::clock::Clock;
use crate::contention::{self, BATCH, Question};
use crate::model::Observation;
use crate::pace::Budget;
use crate::topology::Node;

pub(super) struct Counter {
    pub node: Node,
    pub budget: Arc<Budget>,
    pub clock: Clock,
    /// Other nodes may have subscribers too.
    pub scattered: bool,
}

impl Counter {
    pub async fn run(self, mut orders: mpsc::Receiver<Vec<Question>>, out: mpsc::Sender<Incoming>) {
        let mut conn: Option<MultiplexedConnection> = None;
        while let Some(questions) = orders.recv().await {
            for batch in questions.chunks(BATCH) {
                let counted = match self.count(&mut conn, batch).await {
                    Ok(counted) => counted,
                    // The follower tells of the lost server; the next round tries again.
                    Err(_) => {
                        conn = None;
                        break;
                    }
                };
                if !counted.is_empty() && out.send(Incoming::Observed(counted)).await.is_err() {
                    return;
                }
            }
            if out.send(Incoming::Counted(self.node.id)).await.is_err() {
                return;
            }
        }
    }

    async fn count(
        &self,
        conn: &mut Option<MultiplexedConnection>,
        batch: &[Question],
    ) -> RedisResult<Vec<Observation>> {
        let _turn = self.budget.turn().await;
        let conn = match conn {
            Some(conn) => conn,
            None => conn.insert(self.node.connect().await?),
        };
        let counted = contention::count(conn, batch, self.scattered, self.clock.now()).await?;
        let node = self.node.id;
        Ok(counted.into_iter().map(|(key, waits)| Observation::Counted { node, key, waits }).collect())
    }
}
