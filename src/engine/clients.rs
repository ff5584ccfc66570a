//! Follows the connections of lock holders, by CLIENT LIST.
//!
//! We ask for the whole list while a connection's id is unknown, after one has closed (its client may have opened
//! another), and every 30 s, since clients are also known by their names; but only if the list is not too long. Else we
//! ask for the known ids alone; a client missing from the reply is gone.

use std::time::Duration;

use redis::RedisResult;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::driver::Driver;
use super::task::{Incoming, Task};
use crate::model::{Asked, Connection, Observation, Table};
use crate::sources::clients::{MOST, list};
use crate::topology::Link;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_secs(2);
/// The added pause between two requests for the whole list, for each client in it.
const PAUSE_EACH: Duration = Duration::from_millis(5);
/// The pause between two requests for the whole list without a cause.
const WHOLE: Duration = Duration::from_secs(30);
/// The pause after a refusal.
const REFUSED: Duration = Duration::from_secs(60);
/// The number of connections in one request, and between two pauses.
const BATCH: usize = 100;
const ASKED: usize = 1_000;

/// The state of the requests to one node.
pub(super) struct Listing {
    orders: mpsc::Sender<Asked>,
    under_way: bool,
    next_at: Instant,
    /// When the whole list may be asked for again, and when it is, though nothing calls for it.
    all_at: Instant,
    whole_at: Instant,
}

impl Listing {
    pub fn new(orders: mpsc::Sender<Asked>) -> Listing {
        let now = Instant::now();
        Listing { orders, under_way: false, next_at: now, all_at: now, whole_at: now }
    }

    /// Asks for the whole list as soon as that is allowed.
    pub fn ask_now(&mut self) {
        self.whole_at = Instant::now();
    }
}

pub(super) async fn run(task: Task, mut orders: mpsc::Receiver<Asked>) {
    let mut link = Link::new(&task.node);
    while let Some(order) = orders.recv().await {
        let mut refused = None;
        for asked in parts(order) {
            match ask(&task, &mut link, asked).await {
                Ok(Ok(listed)) => {
                    link.works();
                    if !task.tell(listed).await {
                        return;
                    }
                }
                Ok(Err(why)) => {
                    refused = Some(why);
                    break;
                }
                // The follower reports the lost server; the next request tries again.
                Err(_) => {
                    link.fails();
                    break;
                }
            }
        }
        if !task.tell(Incoming::Listed(refused)).await {
            return;
        }
    }
}

/// What the server listed, or why it did not. An error means that the connection is lost.
async fn ask(task: &Task, link: &mut Link, asked: Asked) -> RedisResult<Result<Observation, String>> {
    link.pause().await;
    let _turn = task.budget.turn().await;
    let conn = link.open().await?;
    list(conn, task.node.id, asked, task.clock.now()).await
}

fn parts(asked: Asked) -> Vec<Asked> {
    match asked {
        Asked::All => vec![Asked::All],
        Asked::Ids(ids) => ids.chunks(BATCH).map(|ids| Asked::Ids(ids.to_vec())).collect(),
    }
}

impl Driver {
    /// Requests whether the connections of holders still exist.
    pub(super) fn list_clients(&mut self, table: &Table) {
        let listing = &mut self.listing;
        let now = Instant::now();
        if listing.under_way || listing.next_at > now {
            return;
        }
        let open: Vec<&Connection> = table.open_connections(self.status.id).collect();
        let connected = self.status.facts.clients.known().map(|clients| clients.connected);
        let few = connected.filter(|connected| *connected <= MOST);
        let whole = table.wants_whole_list(self.status.id) || (table.held() > 0 && listing.whole_at <= now);
        let asked = match few {
            Some(connected) if whole && listing.all_at <= now => {
                listing.all_at = now + PAUSE + PAUSE_EACH * connected as u32;
                listing.whole_at = listing.all_at + WHOLE;
                Asked::All
            }
            _ => {
                let mut listed: Vec<_> = open.iter().filter_map(|known| Some((known.seen, known.id?))).collect();
                listed.sort_unstable();
                Asked::Ids(listed.into_iter().take(ASKED).map(|(_, id)| id).collect())
            }
        };
        if asked == Asked::Ids(Vec::new()) {
            listing.next_at = now + PAUSE;
        } else {
            listing.under_way = listing.orders.try_send(asked).is_ok();
        }
    }

    /// The request was answered, or refused for a reason.
    pub(super) fn listed(&mut self, refused: Option<String>) {
        let listing = &mut self.listing;
        listing.under_way = false;
        listing.next_at = Instant::now() + if refused.is_some() { REFUSED } else { PAUSE };
        let clause = |why| format!("whether holders are still connected is not known: {why}");
        self.status.clients_note = refused.map(clause);
    }
}
