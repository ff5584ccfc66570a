//! Counts the waiters of the locks that the monitor names, in short calls within the budget.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Incoming, Monitor};
use crate::clock::Clock;
use crate::contention::{self, BATCH, Question};
use crate::model::{NodeId, Observation};
use crate::pace::Budget;
use crate::topology::Node;

/// Between two rounds of counting waiters, and how many places of the table one round goes through.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
const COUNTED_SLOTS: usize = 10_000;

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

impl Monitor {
    /// Has the waiters of the next locks counted, as many as are worth one round.
    pub(super) fn count_waiters(&mut self, node: NodeId) {
        let now = self.clock.now();
        let tasks = &mut self.tasks[node.0 as usize];
        if tasks.counting || tasks.count_at > Instant::now() {
            return;
        }
        let slots = self.table.slots();
        let first = if tasks.counted_to < slots { tasks.counted_to } else { 0 };
        let last = slots.min(first + COUNTED_SLOTS);
        let here = self.table.places_in(first..last).filter(|(_, lock)| lock.node == node);
        let questions: Vec<Question> = here.filter_map(|(_, lock)| Question::of(lock, &self.table, now)).collect();
        tasks.counted_to = if last < slots { last } else { 0 };
        if questions.is_empty() {
            // The next part at the next tick; once around, the usual pause.
            tasks.count_at = Instant::now() + if last < slots { Duration::ZERO } else { PAUSE };
        } else {
            tasks.counting = tasks.counts.try_send(questions).is_ok();
        }
    }
}
