//! Follows the connections of lock holders, by CLIENT LIST.
//!
//! We ask for the whole list only while a connection's id is unknown, and only if the list is short. After that we ask
//! for those ids alone; a client missing from the reply is gone. Nothing is asked while no holder's connection is
//! known.

use std::time::Duration;

use redis::{RedisResult, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::driver::Driver;
use super::task::{Incoming, Task};
use crate::model::{Asked, Connection, Observation, Table};
use crate::server::client_list::{self, LISTED};
use crate::server::refusal;
use crate::topology::Link;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_secs(2);
/// The added pause between two requests for the whole list, for each client in it.
const PAUSE_EACH: Duration = Duration::from_millis(5);
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
    /// When the whole list may be asked for again.
    all_at: Instant,
}

impl Listing {
    pub fn new(orders: mpsc::Sender<Asked>) -> Listing {
        Listing { orders, under_way: false, next_at: Instant::now(), all_at: Instant::now() }
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
    let mut pipe = redis::pipe();
    pipe.cmd("CLIENT").arg("LIST");
    if let Asked::Ids(ids) = &asked {
        pipe.arg("ID").arg(ids);
    }
    let at = task.clock.now();
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    let answer = answers.into_iter().next().unwrap_or(Ok(Value::Nil));
    let text = answer.and_then(|answer| redis::from_redis_value::<String>(answer).map_err(Into::into));
    Ok(match text {
        Ok(text) => {
            let present: Vec<Connection> = client_list::lines(&text).filter_map(|line| line.connection(at)).collect();
            Ok(Observation::Connections { node: task.node.id, at, asked, present })
        }
        Err(error) => Err(refusal(&error, "CLIENT LIST")),
    })
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
        if open.is_empty() {
            return;
        }
        let connected = self.status.facts.clients.known().map(|clients| clients.connected);
        let few = connected.filter(|connected| *connected <= LISTED);
        let unlisted = open.iter().any(|connection| connection.id.is_none());
        let asked = match few {
            Some(connected) if unlisted && listing.all_at <= now => {
                listing.all_at = now + PAUSE + PAUSE_EACH * connected as u32;
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
