//! Reads the keys that the table asks for, one batch at a time.

use tokio::sync::mpsc;

use super::Stream;
use super::driver::Driver;
use super::task::{Incoming, Task};
use crate::base::time::Time;
use crate::model::{Table, Ticket};
use crate::sources::look::{Wanted, look};
use crate::topology::Link;

/// Keys read in one batch.
pub(super) const LOOKS: usize = 256;

/// The reads at one node, as its driver requests them.
pub(super) struct Looks {
    orders: mpsc::Sender<Vec<Ticket>>,
    pub under_way: bool,
}

impl Looks {
    pub fn new(orders: mpsc::Sender<Vec<Ticket>>) -> Looks {
        Looks { orders, under_way: false }
    }
}

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

impl Driver {
    /// Whether a read can be requested now. If not, its reply or the event stream wakes us.
    pub(super) fn can_look(&self) -> bool {
        !self.looks.under_way && !matches!(self.status.stream, Stream::Reconnecting { .. })
    }

    pub(super) fn ask_for_looks(&mut self, table: &mut Table, now: Time) {
        if self.can_look() {
            let tickets = table.to_read(self.status.id, LOOKS, now);
            self.looks.under_way = !tickets.is_empty() && self.looks.orders.try_send(tickets).is_ok();
        }
    }
}
