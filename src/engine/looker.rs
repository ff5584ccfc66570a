//! Looks at the keys that the table asks for, one batch at a time.

use std::time::Duration;

use tokio::sync::mpsc;

use super::driver::{Incoming, Task};
use crate::model::Ticket;
use crate::sources::look::{Wanted, look};
use crate::topology::ServerConnection;

/// How long to wait after a failed look; the event stream notices the lost server and tells.
const RETRY: Duration = Duration::from_millis(200);

pub(super) async fn run(task: Task, mut tickets: mpsc::Receiver<Vec<Ticket>>) {
    let mut conn: Option<ServerConnection> = None;
    let mut lost = false;
    while let Some(batch) = tickets.recv().await {
        let wanted: Vec<Wanted> = batch
            .iter()
            .map(|ticket| {
                let key = ticket.key.as_bytes();
                Wanted { key, hint: task.recogniser.field_hint(key) }
            })
            .collect();
        let turn = task.budget.turn().await;
        let asked = task.clock.now();
        let seen = match &mut conn {
            Some(conn) => look(conn, &wanted).await,
            None => match task.node.connect().await {
                Ok(new) => {
                    if std::mem::take(&mut lost) {
                        task.tell(Incoming::Reconnected).await;
                    }
                    look(conn.insert(new), &wanted).await
                }
                Err(error) => Err(error),
            },
        };
        drop(turn);
        let answered = task.clock.now();
        let looks = match seen {
            Ok(seen) => batch.into_iter().zip(seen).collect(),
            Err(_) => {
                (conn, lost) = (None, true);
                tokio::time::sleep(RETRY).await;
                batch.into_iter().map(|ticket| (ticket, None)).collect()
            }
        };
        if !task.tell(Incoming::Looked { asked, answered, looks }).await {
            return;
        }
    }
}
