//! Reads the keys that the table asks for, one batch at a time. In a cluster, a key whose slot is on its way to another
//! node is read there; one that another node owns by now goes back to the table, which asks that node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::mpsc;

use super::Stream;
use super::driver::Driver;
use super::task::{Incoming, Looked, Task};
use crate::base::time::Time;
use crate::model::{Table, Ticket};
use crate::sources::look::{Look, Redirect, Wanted, look_around};
use crate::topology::{Asking, Link};

/// In a failover a cluster answers for no key for so long: reads go on. After that they wait until it does.
const FAILOVER: Duration = Duration::from_secs(2);
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
    let (mut link, mut importers) = (Link::new(&task.node), Importers::default());
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
            Ok(conn) => look_around(conn, &wanted).await,
            Err(error) => Err(error),
        };
        let looks: Vec<Looked> = match seen {
            Ok(seen) => {
                if link.works() {
                    task.tell(Incoming::Reconnected).await;
                }
                importers.follow(&task, &wanted, seen).await
            }
            // The event stream reports the lost server; the next batch waits for the link.
            Err(_) => {
                link.fails();
                task.node.doubts_map();
                wanted.iter().map(|_| Looked::Again).collect()
            }
        };
        drop(turn);
        let answered = task.clock.now();
        let looks = batch.into_iter().zip(looks).collect();
        if !task.tell(Incoming::Looked { asked, answered, looks }).await {
            return;
        }
    }
}

/// Connections to nodes to which slots are on their way, by their addresses.
#[derive(Default)]
struct Importers(HashMap<String, Link>);

/// More nodes than this do not import slots from one at a time.
const IMPORTERS: usize = 16;

impl Importers {
    /// Asks those nodes for the keys that may have arrived there.
    async fn follow(&mut self, task: &Task, wanted: &[Wanted<'_>], looks: Vec<Look>) -> Vec<Looked> {
        if !task.node.is_in_cluster() {
            let here = |look: Look| look.here().map_or(Looked::Again, Looked::Seen);
            return looks.into_iter().map(here).collect();
        }
        let mut moving: HashMap<String, Vec<usize>> = HashMap::new();
        let mut moved = false;
        let mut looked: Vec<Looked> = Vec::with_capacity(looks.len());
        for (index, look) in looks.into_iter().enumerate() {
            looked.push(match look {
                Look::Seen(seen) => Looked::Seen(seen),
                Look::Changed => Looked::Again,
                Look::Elsewhere(Redirect::Moved(_)) => {
                    moved = true;
                    Looked::Elsewhere
                }
                Look::Elsewhere(Redirect::Ask(place)) => {
                    moving.entry(place).or_default().push(index);
                    Looked::Elsewhere
                }
            });
        }
        for (place, indices) in moving {
            let there: Vec<Wanted> = indices.iter().map(|index| wanted[*index]).collect();
            let answers = self.ask(task, &place, &there).await.unwrap_or_default();
            for (index, look) in indices.into_iter().zip(answers) {
                match look {
                    Look::Seen(seen) => looked[index] = Looked::Moving(seen),
                    Look::Changed => looked[index] = Looked::Again,
                    Look::Elsewhere(_) => moved = true,
                }
            }
        }
        if moved {
            task.node.doubts_map();
        }
        looked
    }

    async fn ask(&mut self, task: &Task, place: &str, wanted: &[Wanted<'_>]) -> RedisResult<Vec<Look>> {
        if self.0.len() >= IMPORTERS && !self.0.contains_key(place) {
            self.0.clear();
        }
        let link = match self.0.entry(place.to_string()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Link::new(&task.node.sibling(place)?)),
        };
        let answers = match link.open().await {
            Ok(conn) => look_around(&mut Asking(conn), wanted).await,
            Err(error) => Err(error),
        };
        match answers {
            Ok(answers) => {
                link.works();
                Ok(answers)
            }
            Err(error) => {
                link.fails();
                Err(error)
            }
        }
    }
}

impl Driver {
    /// Whether a read can be requested now. If not, its reply or the event stream wakes us.
    pub(super) fn can_look(&self) -> bool {
        let answers = match self.status.stream {
            Stream::Silent { .. } | Stream::Reconnecting { .. } => false,
            Stream::Refusing { since, .. } => self.clock.now().since(since) < FAILOVER,
            Stream::Off | Stream::Starting | Stream::Live(_) => true,
        };
        !self.looks.under_way && answers
    }

    pub(super) fn ask_for_looks(&mut self, table: &mut Table, now: Time) {
        if self.can_look() {
            let tickets = table.to_read(self.status.id, LOOKS, now);
            self.looks.under_way = !tickets.is_empty() && self.looks.orders.try_send(tickets).is_ok();
        }
    }
}
