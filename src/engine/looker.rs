//! Looks at the keys that the table asks for, one batch at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Incoming;
use crate::base::clock::Clock;
use crate::dialects::Recogniser;
use crate::model::Ticket;
use crate::sources::look::{Wanted, look};
use crate::sources::pace::Budget;
use crate::topology::{Node, ServerConnection};

/// How long to wait after a failed look; the event stream notices the lost server and tells.
const RETRY: Duration = Duration::from_millis(200);

pub(super) struct Looker {
    pub node: Node,
    pub recogniser: Arc<Recogniser>,
    pub budget: Arc<Budget>,
    pub clock: Clock,
}

impl Looker {
    pub async fn run(self, mut tickets: mpsc::Receiver<Vec<Ticket>>, out: mpsc::Sender<Incoming>) {
        let mut conn: Option<ServerConnection> = None;
        let mut lost = false;
        while let Some(batch) = tickets.recv().await {
            let wanted: Vec<Wanted> = batch
                .iter()
                .map(|ticket| {
                    let key = ticket.key.as_bytes();
                    Wanted { key, hint: self.recogniser.field_hint(key) }
                })
                .collect();
            let turn = self.budget.turn().await;
            let asked = self.clock.now();
            let seen = match &mut conn {
                Some(conn) => look(conn, &wanted).await,
                None => match self.node.connect().await {
                    Ok(new) => {
                        if std::mem::take(&mut lost) {
                            let _ = out.send(Incoming::Reconnected(self.node.id)).await;
                        }
                        look(conn.insert(new), &wanted).await
                    }
                    Err(error) => Err(error),
                },
            };
            drop(turn);
            let answered = self.clock.now();
            let looks = match seen {
                Ok(seen) => batch.into_iter().zip(seen).collect(),
                Err(_) => {
                    (conn, lost) = (None, true);
                    tokio::time::sleep(RETRY).await;
                    batch.into_iter().map(|ticket| (ticket, None)).collect()
                }
            };
            if out.send(Incoming::Looked { node: self.node.id, asked, answered, looks }).await.is_err() {
                return;
            }
        }
    }
}
