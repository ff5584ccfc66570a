//! One burst of MONITOR: for a short time we read every command of a server, to see who tries to take which lock.
//!
//! MONITOR is expensive for a busy server, so a burst is limited in time and in lines, and runs only by consent. However it
//! ends, the server has no monitor afterwards: we close the connection, and if our process is stopped in the middle, the
//! server closes it, since it limits the buffer of a subscriber that does not read. Only commands on locks are kept.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::time::Duration;

use redis::{RedisResult, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::frames::{Frame, FrameReader};
use super::gather::{Gather, Gathered};
use super::habits::Scripts;
use super::line::Line;
use super::outcomes::Judge;
use super::{owners, texts};
use crate::base::clock::Clock;
use crate::base::process::connection_name;
use crate::base::text;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::Key;
use crate::server::channels::{channels, wider_channels};
use crate::server::{self, EventFlags};
use crate::topology::{Node, Stream};

/// How long a reply may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long we wait for the lines that are still on their way at the end.
const LAST_LINES: Duration = Duration::from_secs(2);
const CHUNK: usize = 128 * 1024;

/// The limits of a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub lines: u64,
}

impl Bounds {
    pub const USUAL: Bounds = Bounds { time: Duration::from_secs(1), lines: 200_000 };
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::USUAL
    }
}

/// What a burst saw.
#[derive(Debug)]
pub struct Burst {
    pub began: Time,
    pub ended: Time,
    /// The time during which every command was seen.
    pub looked: Duration,
    /// Commands seen, on locks or not.
    pub lines: u64,
    pub cut: Option<Cut>,
    /// Notifications show which writes took effect. `false`: they are off, and attempts have no outcome.
    pub judged: bool,
    pub locks: HashMap<Key, Gathered>,
    /// Acts on more locks than are kept.
    pub left_out: u64,
}

/// Why a burst ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// It reached its limit of commands.
    Lines,
    /// The server closed the connection: we did not read fast enough, or it went away.
    Closed,
    /// The last lines did not come in time.
    Late,
}

impl Cut {
    /// As a clause.
    pub fn why(self) -> &'static str {
        match self {
            Cut::Lines => "the server is too busy for a longer burst",
            Cut::Closed => "the server closed the connection",
            Cut::Late => "the server did not answer in time",
        }
    }
}

/// Why there is no burst.
#[derive(Debug, thiserror::Error)]
pub enum NoBurst {
    /// Trying again is useless. A sentence for the person.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Lost(#[from] io::Error),
}

/// Reads every command of the node until a limit is reached.
pub async fn run(
    node: &Node,
    recogniser: &Recogniser,
    scripts: &mut Scripts,
    bounds: Bounds,
    clock: Clock,
) -> Result<Burst, NoBurst> {
    run_until(node, recogniser, scripts, bounds, clock, std::future::pending()).await
}

/// The same, but ends when `stop` does. It includes everything that happened before that.
pub async fn run_until(
    node: &Node,
    recogniser: &Recogniser,
    scripts: &mut Scripts,
    bounds: Bounds,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<Burst, NoBurst> {
    let judged = sends_events(node).await.unwrap_or(false);
    let mut link = Link { stream: node.stream().await?, reader: FrameReader::default(), chunk: vec![0; CHUNK] };
    link.log_in(node).await?;
    link.subscribe(node, recogniser).await?;
    let early = link.monitor().await?;
    let (began, start) = (clock.now(), Instant::now());
    let mut watch = Watch {
        judge: Judge::new(recogniser, scripts, node.db, judged, began),
        gather: Gather::default(),
        left: bounds.lines,
        over: false,
        first: None,
        last: 0,
        lines: 0,
    };
    let broken = |error: super::frames::Broken| io::Error::other(error);
    link.reader.feed(&early, &mut |frame| watch.take(frame, began)).map_err(broken)?;
    let time_is_up = tokio::time::sleep(bounds.time);
    let (mut time_is_up, mut stop) = (pin!(time_is_up), pin!(stop));
    // When PING was sent: what comes after its reply does not count.
    let mut asked: Option<Instant> = None;
    let cut = loop {
        if watch.over {
            break None;
        }
        if watch.left == 0 {
            break Some(Cut::Lines);
        }
        let last_lines = asked.unwrap_or(start) + LAST_LINES;
        let read = tokio::select! {
            biased;
            () = &mut time_is_up, if asked.is_none() => None,
            () = &mut stop, if asked.is_none() => None,
            () = tokio::time::sleep_until(last_lines), if asked.is_some() => break Some(Cut::Late),
            read = link.stream.read(&mut link.chunk) => Some(read),
        };
        match read {
            // Its reply comes after everything that happened before it.
            None => {
                asked = Some(Instant::now());
                if link.stream.write_all(&command(&[b"PING"])).await.is_err() {
                    break Some(Cut::Closed);
                }
            }
            Some(Ok(0) | Err(_)) => break Some(Cut::Closed),
            Some(Ok(read)) => {
                let at = clock.now();
                link.reader.feed(&link.chunk[..read], &mut |frame| watch.take(frame, at)).map_err(broken)?;
                // Let other tasks of this thread run, even if more bytes are ready.
                tokio::task::yield_now().await;
            }
        }
    };
    drop(link);
    let looked = match (cut, asked) {
        (None, Some(asked)) => asked - start,
        // The last lines are lost, so only the time between the first and the last line counts.
        _ => Duration::from_micros(watch.last.saturating_sub(watch.first.unwrap_or(watch.last))),
    };
    let Watch { mut judge, mut gather, lines, .. } = watch;
    judge.close_last(cut.is_none(), &mut |act| gather.take(act));
    let unclear = judge.not_understood();
    texts::learn(node, judge.scripts(), unclear).await;
    let holders = owners::holders(node, judge.repeated()).await;
    judge.ask_by(&holders);
    judge.end(cut.is_none(), &mut |act| gather.take(act));
    let Gather { locks, left_out } = gather;
    Ok(Burst { began, ended: clock.now(), looked, lines, cut, judged, locks, left_out })
}

/// Whether the server sends an event for every change of a lock.
async fn sends_events(node: &Node) -> RedisResult<bool> {
    let mut conn = node.connect().await?;
    let answer: HashMap<String, String> =
        cmd("CONFIG").arg("GET").arg("notify-keyspace-events").query_async(&mut conn).await?;
    let flags = answer.get("notify-keyspace-events").map(|text| EventFlags::parse(text));
    Ok(flags.is_some_and(|flags| flags.covers_locks(None).is_enough()))
}

/// What was read so far.
struct Watch<'a> {
    judge: Judge<'a>,
    gather: Gather,
    lines: u64,
    /// How many more lines may be read.
    left: u64,
    /// The reply to PING has come.
    over: bool,
    /// The times of the first and the last line, by the server's clock.
    first: Option<u64>,
    last: u64,
}

impl Watch<'_> {
    fn take(&mut self, frame: Frame<'_>, at: Time) {
        if self.over || self.left == 0 {
            return;
        }
        match frame {
            Frame::Message { channel, payload } if channel.whole && payload.whole => {
                self.judge.message(channel.bytes, payload.bytes);
            }
            Frame::Line(text) if text.bytes == b"PONG" => self.over = true,
            Frame::Line(text) => {
                let Some(line) = Line::parse(text) else { return };
                self.first.get_or_insert(line.micros);
                (self.lines, self.left, self.last) = (self.lines + 1, self.left - 1, line.micros);
                let gather = &mut self.gather;
                self.judge.line(&line, at, &mut |act| gather.take(act));
            }
            _ => {}
        }
    }
}

/// The connection of a burst.
struct Link {
    stream: Box<dyn Stream>,
    reader: FrameReader,
    chunk: Vec<u8>,
}

/// A reply to a command of ours.
enum Reply {
    Accepted,
    /// The code and the text of the error, both visible.
    Refused(String, String),
}

impl Link {
    async fn log_in(&mut self, node: &Node) -> Result<(), NoBurst> {
        let login = node.login();
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &login.password {
            let user = login.username.as_deref().unwrap_or("default");
            hello.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
        }
        match self.ask(&hello, 1).await? {
            Reply::Accepted => {}
            Reply::Refused(code, why) if is_for_now(&code, &why) => return Err(not_now(&code, &why)),
            Reply::Refused(code, _) if code == "WRONGPASS" || code == "NOAUTH" => {
                return Err(NoBurst::Refused("the server refused the user or password".into()));
            }
            Reply::Refused(..) => {
                return Err(NoBurst::Refused(
                    "MONITOR is read over RESP3, which this server or user does not have".into(),
                ));
            }
        }
        // Naming is optional; ignore a refusal.
        self.ask(&[b"CLIENT", b"SETNAME", connection_name().as_bytes()], 1).await?;
        Ok(())
    }

    /// Subscribes as narrowly as the patterns and the ACL allow. A burst needs a subscription: without one, the server does
    /// not limit the buffer of a monitor that does not read.
    async fn subscribe(&mut self, node: &Node, recogniser: &Recogniser) -> Result<(), NoBurst> {
        let wider = wider_channels(node.db).map(|channel| vec![channel]);
        for attempt in std::iter::once(channels(node.db, recogniser.patterns())).chain(wider) {
            let mut words: Vec<&[u8]> = vec![b"PSUBSCRIBE"];
            words.extend(attempt.iter().map(|channel| channel.as_bytes()));
            match self.ask(&words, attempt.len()).await? {
                Reply::Accepted => return Ok(()),
                Reply::Refused(code, why) if is_for_now(&code, &why) => return Err(not_now(&code, &why)),
                Reply::Refused(..) => {}
            }
        }
        Err(NoBurst::Refused(
            "sampling needs PSUBSCRIBE on the keyspace channels, which is not permitted to this user".into(),
        ))
    }

    /// Starts MONITOR, and returns what already came after its reply.
    async fn monitor(&mut self) -> Result<Vec<u8>, NoBurst> {
        self.stream.write_all(&command(&[b"MONITOR"])).await?;
        let until = Instant::now() + ANSWER;
        loop {
            let read = timeout_at(until, self.stream.read(&mut self.chunk)).await.map_err(|_| timed_out())??;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            // Byte by byte: what follows the reply belongs to the burst.
            for (index, byte) in self.chunk[..read].iter().enumerate() {
                let mut answer = None;
                let each = &mut |frame: Frame<'_>| match frame {
                    Frame::Line(_) => answer = Some(Reply::Accepted),
                    Frame::Error(text) => answer = Some(refused(text.bytes)),
                    _ => {}
                };
                self.reader.feed(std::slice::from_ref(byte), each).map_err(io::Error::other)?;
                match answer {
                    Some(Reply::Accepted) => return Ok(self.chunk[index + 1..read].to_vec()),
                    Some(Reply::Refused(code, _)) if code == "NOPERM" => {
                        return Err(NoBurst::Refused(
                            "this user may not run MONITOR; ACL SETUSER … +monitor allows it".into(),
                        ));
                    }
                    Some(Reply::Refused(code, why)) if is_for_now(&code, &why) => return Err(not_now(&code, &why)),
                    Some(Reply::Refused(code, why)) => {
                        return Err(NoBurst::Refused(format!("MONITOR was answered with {code} {why}")));
                    }
                    None => {}
                }
            }
        }
    }

    /// Sends a command, and waits for its replies.
    async fn ask(&mut self, words: &[&[u8]], answers: usize) -> Result<Reply, NoBurst> {
        self.stream.write_all(&command(words)).await?;
        let until = Instant::now() + ANSWER;
        let (mut left, mut refusal) = (answers, None);
        while left > 0 && refusal.is_none() {
            let read = timeout_at(until, self.stream.read(&mut self.chunk)).await.map_err(|_| timed_out())??;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let each = &mut |frame: Frame<'_>| match frame {
                Frame::Error(text) => refusal = Some(refused(text.bytes)),
                // Events of a subscription that is already active.
                Frame::Message { .. } => {}
                Frame::Line(_) | Frame::Other => left = left.saturating_sub(1),
            };
            self.reader.feed(&self.chunk[..read], each).map_err(io::Error::other)?;
        }
        Ok(refusal.unwrap_or(Reply::Accepted))
    }
}

fn refused(error: &[u8]) -> Reply {
    let error = text::visible(&error[..error.len().min(200)]);
    let (code, rest) = error.split_once(' ').unwrap_or((error.as_str(), ""));
    Reply::Refused(code.into(), rest.into())
}

/// A temporary refusal: the next burst may succeed.
fn is_for_now(code: &str, why: &str) -> bool {
    server::is_passing(code) || why.starts_with("max number of clients")
}

fn not_now(code: &str, why: &str) -> NoBurst {
    NoBurst::Lost(io::Error::other(format!("the server answered {code} {why}")))
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time")
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
