//! The connections of one worker: to one server, to the present master of a service, or to each node of a cluster that
//! it needs.
//!
//! In a cluster it goes by the slot of a command's first key, to where it was last sent, and follows MOVED and ASK. Of a
//! service, it asks a sentinel for the master, again when that has become a replica. It does not share this with
//! lockscope's own reading, which it is there to check.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    Arg, AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, Pipeline, ProtocolVersion, PushInfo,
    PushKind, RedisError, RedisFuture, RedisResult, Value, cmd,
};
use tokio::sync::Notify;

use crate::demo::sentinel::master_by;
use crate::lock::{SLOTS, slot_of};

/// Longer than any command of ours blocks.
const ANSWER: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(5);
/// How long a worker goes where it is sent before it gives up, with the time that a command may block.
const PATIENCE: Duration = Duration::from_secs(70);
/// The pause before it asks a cluster again that can't answer now.
const PAUSE: Duration = Duration::from_millis(20);

/// Where the servers are.
#[derive(Clone)]
pub enum Place {
    One(Box<ConnectionInfo>),
    /// The loopback ports of the nodes of a cluster; the masters, which share the slots evenly, come first.
    Cluster(Arc<[u16]>),
    /// The loopback ports of the sentinels of a service.
    Sentinel(Arc<[u16]>),
}

impl Place {
    pub fn one(url: &str) -> RedisResult<Place> {
        Ok(Place::One(Box::new(url.into_connection_info()?)))
    }

    /// Keys of one command must share a slot.
    pub fn is_cluster(&self) -> bool {
        matches!(self, Place::Cluster(_))
    }

    /// The node to ask first for a slot; zero where there are no slots.
    fn guess(&self, slot: u16) -> u16 {
        match self {
            Place::One(_) | Place::Sentinel(_) => 0,
            Place::Cluster(ports) => {
                let masters = ports.len().div_ceil(2);
                ports[usize::from(slot) * masters / usize::from(SLOTS)]
            }
        }
    }

    fn info(&self, port: u16) -> RedisResult<ConnectionInfo> {
        match self {
            Place::One(info) => Ok((**info).clone()),
            Place::Cluster(_) | Place::Sentinel(_) => ("127.0.0.1", port).into_connection_info(),
        }
    }
}

/// All connections have the worker's name.
pub struct Line {
    name: String,
    place: Place,
    /// By port.
    nodes: HashMap<u16, MultiplexedConnection>,
    /// Where slots are that are not where they were at the start.
    moved: HashMap<u16, u16>,
    /// The present master of a service.
    master: Option<u16>,
    /// The node that answered last.
    last: u16,
    /// Where a channel is listened to.
    channels: HashMap<String, u16>,
    /// Rings when a message arrives on a subscribed channel.
    bell: Arc<Notify>,
}

impl Line {
    pub fn new(name: &str, place: Place) -> Line {
        let (nodes, moved, channels) = Default::default();
        let last = place.guess(0);
        Line { name: name.into(), place, nodes, moved, master: None, last, channels, bell: Arc::default() }
    }

    pub fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }

    pub fn hang_up(&mut self) {
        self.nodes.clear();
        self.master = None;
        self.channels.clear();
        self.bell = Arc::default();
    }

    pub async fn subscribe(&mut self, channel: &str) -> RedisResult<()> {
        let at = self.port_of(slot_of(channel.as_bytes())).await?;
        self.node(at).await?.subscribe(channel).await?;
        self.channels.insert(channel.into(), at);
        Ok(())
    }

    pub async fn unsubscribe(&mut self, channel: &str) -> RedisResult<()> {
        match self.channels.remove(channel) {
            Some(at) => self.node(at).await?.unsubscribe(channel).await,
            None => Ok(()),
        }
    }

    /// The answer of the node that has the command's key.
    async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        let slot = key_of(command).map(slot_of);
        let began = Instant::now();
        loop {
            let answer = self.send(slot, command).await;
            let Err(error) = answer else { return answer };
            let again = match (error.code(), redirect(&error), slot) {
                (Some("MOVED"), Some(port), Some(slot)) => {
                    self.moved.insert(slot, port);
                    None
                }
                (Some("ASK"), Some(port), _) => match self.ask_there(port, command).await {
                    Err(error) if error.code() == Some("TRYAGAIN") => Some(PAUSE),
                    answer => return answer,
                },
                (Some("TRYAGAIN" | "CLUSTERDOWN"), ..) => Some(PAUSE),
                (Some("READONLY"), ..) if self.master.is_some() => {
                    self.nodes.clear();
                    self.master = None;
                    Some(PAUSE)
                }
                // The sentinels cut the clients of a server that they change. As with real clients, what was under way is
                // sent again.
                (None, ..) if self.master.is_some() && error.is_connection_dropped() => {
                    self.nodes.clear();
                    self.master = None;
                    Some(PAUSE)
                }
                // It waited at a master that is one no more, which also closes the connection.
                (Some("UNBLOCKED"), ..) => {
                    self.nodes.remove(&self.last);
                    self.master = None;
                    Some(PAUSE)
                }
                _ => return Err(error),
            };
            if began.elapsed() > PATIENCE {
                return Err(error);
            }
            if let Some(pause) = again {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Sends it to where the slot was last, or to the node that answered last.
    async fn send(&mut self, slot: Option<u16>, command: &Cmd) -> RedisResult<Value> {
        self.last = match slot {
            Some(slot) => self.port_of(slot).await?,
            None => self.last,
        };
        command.query_async(self.node(self.last).await?).await
    }

    /// Asks the node that a slot is on its way to.
    async fn ask_there(&mut self, port: u16, command: &Cmd) -> RedisResult<Value> {
        self.last = port;
        let mut both = redis::pipe();
        both.add_command(cmd("ASKING")).ignore().add_command(command.clone());
        let (answer,): (Value,) = both.query_async(self.node(port).await?).await?;
        Ok(answer)
    }

    async fn port_of(&mut self, slot: u16) -> RedisResult<u16> {
        match (&self.place, self.master) {
            (Place::Sentinel(_), Some(master)) => Ok(master),
            (Place::Sentinel(sentinels), None) => self.follow(sentinels.clone()).await,
            _ => Ok(self.moved.get(&slot).copied().unwrap_or_else(|| self.place.guess(slot))),
        }
    }

    /// Goes to the master that a sentinel names, and listens there from now on.
    async fn follow(&mut self, sentinels: Arc<[u16]>) -> RedisResult<u16> {
        let mut named = master_by(sentinels[0]).await;
        for sentinel in &sentinels[1..] {
            if named.is_err() {
                named = master_by(*sentinel).await;
            }
        }
        let master = named?;
        self.master = Some(master);
        let channels: Vec<String> = self.channels.keys().cloned().collect();
        for channel in channels {
            self.node(master).await?.subscribe(&channel).await?;
            self.channels.insert(channel, master);
        }
        Ok(master)
    }

    async fn node(&mut self, port: u16) -> RedisResult<&mut MultiplexedConnection> {
        if !self.nodes.contains_key(&port) {
            let line = self.dial(port).await?;
            self.nodes.insert(port, line);
        }
        Ok(self.nodes.get_mut(&port).expect("dialled just now"))
    }

    async fn dial(&self, port: u16) -> RedisResult<MultiplexedConnection> {
        // RESP3, so that one connection can both send commands and listen.
        let info = self.place.info(port)?;
        let settings = info.redis_settings().clone();
        let settings = settings.set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
        let client = Client::open(info.set_redis_settings(settings))?;
        let bell = self.bell.clone();
        let ring = move |push: PushInfo| {
            if push.kind == PushKind::Message {
                bell.notify_one();
            }
            Ok::<(), Infallible>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER))
            .set_push_sender(ring);
        let mut line = client.get_multiplexed_async_connection_with_config(&config).await?;
        cmd("CLIENT").arg("SETNAME").arg(&self.name).exec_async(&mut line).await?;
        Ok(line)
    }
}

/// For scripts: a script that is not known is loaded at the node that answered last.
impl ConnectionLike for Line {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.ask(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move { self.node(self.last).await?.req_packed_commands(pipeline, offset, count).await })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// The first key of a command; `None` if it has none.
fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => b"0",
    });
    match words.next()? {
        b"EVALSHA" | b"EVAL" => words.nth(2),
        b"SCRIPT" => None,
        _ => words.next(),
    }
}

/// The port that an answer sends us to.
fn redirect(error: &RedisError) -> Option<u16> {
    error.redirect_node()?.0.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_says_where_a_command_goes() {
        assert_eq!(key_of(cmd("SET").arg("a").arg("b")), Some(&b"a"[..]));
        assert_eq!(key_of(cmd("BLPOP").arg("list").arg(1)), Some(&b"list"[..]));
        assert_eq!(key_of(cmd("EVALSHA").arg("hash").arg(1).arg("key").arg("word")), Some(&b"key"[..]));
        assert_eq!(key_of(cmd("SCRIPT").arg("LOAD").arg("return 1")), None);
    }

    #[test]
    fn a_slot_is_first_asked_for_where_it_was_at_the_start() {
        let place = Place::Cluster([1, 2, 3, 11, 12, 13].into());
        assert_eq!([0, 5460, 5462, 10_922, 10_924, 16_383].map(|slot| place.guess(slot)), [1, 1, 2, 2, 3, 3]);
    }
}
