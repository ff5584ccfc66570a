//! Asks one node how it stands, every second; and while it says that it is a master, what it has.
//!
//! What was read there counts only if it says after the reads that it still is a master: a replica has what its new master
//! sent it.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::reading::Reading;
use crate::base::clock::Clock;
use crate::base::text;
use crate::dialects::Recogniser;
use crate::lock::{Key, NodeId, SLOTS};
use crate::model::OfDeposed;
use crate::server::{self, InfoText, Role, ServerFacts};
use crate::topology::{Link, Node, ServerConnection, in_time, myself};

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How often a master is that nobody keeps.
const CLOSELY: Duration = Duration::from_millis(250);
/// How often it is asked for all its facts.
const FACTS: Duration = Duration::from_secs(30);
/// A node that takes longer is treated as lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a node says.
pub(in crate::engine) enum Said {
    Stands(Option<Role>),
    Facts(Box<ServerFacts>),
    /// It does not answer.
    Silent(String),
    /// It is a master of these slots, by its own word. `first`: what it had before was not read, or not to the end.
    Reigns {
        epoch: Option<u64>,
        slots: Vec<(u16, u16)>,
        first: bool,
    },
    /// It was one, and is no more.
    Bows,
    /// What it has, if it is deposed.
    Has(Vec<OfDeposed>),
}

/// What the task needs.
pub(in crate::engine) struct Post {
    pub node: Node,
    pub clustered: bool,
    pub recogniser: Arc<Recogniser>,
    pub clock: Clock,
    /// Keys to look at while it is deposed.
    pub wanted: watch::Receiver<Vec<Key>>,
    pub out: mpsc::Sender<(NodeId, Said)>,
}

pub(super) async fn run(mut post: Post) {
    let mut link = Link::new(&post.node);
    // Sentinels cut all connections of a server that they demote, so the answer that tells it may come on the next one.
    let (mut reading, mut claimed, mut facts_at) = (None, false, Instant::now());
    loop {
        link.pause().await;
        let words = match round(&mut post, &mut link, (&mut reading, &mut claimed), &mut facts_at).await {
            Ok(words) => {
                link.works();
                words
            }
            Err(error) => {
                link.fails();
                reading = None;
                vec![Said::Silent(text::said(&error))]
            }
        };
        for word in words {
            if post.out.send((post.node.id, word)).await.is_err() {
                return;
            }
        }
        match &reading {
            // What is first seen there is compared with, so the sooner the better: only the keys are waited for.
            Some(reading) if !reading.has_begun() => {
                let _ = tokio::time::timeout(CLOSELY, post.wanted.changed()).await;
            }
            Some(_) => tokio::time::sleep(CLOSELY).await,
            None => tokio::time::sleep(EVERY).await,
        }
    }
}

async fn round(
    post: &mut Post,
    link: &mut Link,
    (reading, claimed): (&mut Option<Reading>, &mut bool),
    facts_at: &mut Instant,
) -> RedisResult<Vec<Said>> {
    let conn = in_time(PATIENCE, link.open()).await?;
    let page = match reading {
        Some(reading) => reading.read(conn, post).await?,
        None => Vec::new(),
    };
    let (role, reign) = in_time(PATIENCE, stands(conn, post.clustered)).await?;
    let mut words = vec![Said::Stands(role)];
    match reign {
        Some((epoch, slots)) => {
            words.push(Said::Reigns { epoch, slots, first: reading.is_none() });
            words.push(Said::Has(page));
            reading.get_or_insert_default();
            *claimed = true;
        }
        None => {
            *reading = None;
            words.extend(std::mem::take(claimed).then_some(Said::Bows));
        }
    }
    if *facts_at <= Instant::now() {
        words.push(Said::Facts(Box::new(in_time(PATIENCE, server::ask(conn, post.node.db)).await?)));
        *facts_at = Instant::now() + FACTS;
    }
    Ok(words)
}

/// The slots that a node claims, with the epoch by which it does.
type Claimed = (Option<u64>, Vec<(u16, u16)>);

/// Its role, and what it claims as a master; `None`: nothing.
async fn stands(conn: &mut ServerConnection, clustered: bool) -> RedisResult<(Option<Role>, Option<Claimed>)> {
    let info = redis::cmd("INFO").arg("replication").query_async::<String>(conn).await;
    let role = match info {
        Ok(info) => Role::from_info(&InfoText::parse(&info)),
        // It does not let us ask: then nothing is known of it.
        Err(error) if error.code().is_some() => None,
        Err(error) => return Err(error),
    };
    let claimed = match role {
        Some(Role::Master { .. }) if clustered => {
            let own = myself(conn).await?.filter(|own| !own.slots.is_empty());
            own.map(|own| (Some(own.epoch), own.slots))
        }
        Some(Role::Master { .. }) => Some((None, vec![(0, SLOTS - 1)])),
        _ => None,
    };
    Ok((role, claimed))
}
