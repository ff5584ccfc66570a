//! Reads the keys that the table asks for, one batch at a time.

use tokio::sync::mpsc;

use super::driver::{Incoming, Task};
use crate::model::Ticket;
use crate::sources::look::{Wanted, look};
use crate::topology::Link;

pub(super) async fn run(task: Task, mut tickets: mpsc::Receiver<Vec<Ticket>>) {
    let mut link = Link::new(&task.node);
    while let Some(batch) = tickets.recv().await {
        let wanted: Vec<Wanted> = batch
            .iter()
            .map(|ticket| {
                let key = ticket.key.as_bytes();
                Wanted { key, hint: task.recogniser.field_hint(key) }
            })
            .collect();
        link.pause().await;
        let turn = task.budget.turn().await;
        let asked = task.clock.now();
        let seen = match link.open().await {
            Ok(conn) => look(conn, &wanted).await,
            Err(error) => Err(error),
        };
        drop(turn);
        let answered = task.clock.now();
        let looks = match seen {
            Ok(seen) => {
                if link.works() {
                    task.tell(Incoming::Reconnected).await;
                }
                batch.into_iter().zip(seen).collect()
            }
            // The event stream reports the lost server; the next batch waits for the link.
            Err(_) => {
                link.fails();
                batch.into_iter().map(|ticket| (ticket, None)).collect()
            }
        };
        if !task.tell(Incoming::Looked { asked, answered, looks }).await {
            return;
        }
    }
}
