//! One burst: a short look at every command of a server, by MONITOR, to see who tries to take which lock.
//!
//! MONITOR costs a busy server much, so a burst is bounded in time and in lines, and runs only by consent. Whatever ends
//! it, the server has no monitor afterwards: the connection is closed, and when we are stopped in the middle, the server
//! cuts it off, since a subscriber that does not read is not let grow. Of other commands than those on locks nothing is
//! kept.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::time::Duration;

use redis::{RedisResult, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::frames::{Frame, Wire};
use super::gather::{Gather, Gathered};
use super::habits::Scripts;
use super::line::Line;
use super::outcomes::Judge;
use crate::base::clock::Clock;
use crate::base::text;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::Key;
use crate::server::EventFlags;
use crate::server::channels::{channels, wider_channels};
use crate::topology::{Node, Stream};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the lines that are on their way when the time is up may take.
const LAST_LINES: Duration = Duration::from_secs(2);
const CHUNK: usize = 128 * 1024;

/// What ends a burst by itself.
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
    /// For so long every command was seen.
    pub looked: Duration,
    /// Commands seen, on locks or not.
    pub lines: u64,
    pub cut: Option<Cut>,
    /// Which writes took effect is told by the server's notifications; where it is not, attempts are not judged.
    pub told: bool,
    pub locks: HashMap<Key, Gathered>,
    /// Acts on more locks than are kept.
    pub left_out: u64,
}

/// Why a burst ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// It saw as many commands as it may.
    Lines,
    /// The server closed the connection: we did not read fast enough, or it went away.
    Closed,
    /// The last lines did not come.
    Late,
}

impl Cut {
    /// As a clause.
    pub fn why(self) -> &'static str {
        match self {
            Cut::Lines => "the server is too busy to be looked at for longer",
            Cut::Closed => "the server closed the connection",
            Cut::Late => "the server did not answer in time",
        }
    }
}

/// Why there is no burst.
#[derive(Debug, thiserror::Error)]
pub enum NoBurst {
    /// Trying again is of no use. With the sentence for the person.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Lost(#[from] io::Error),
}

/// Looks at every command of the node until the bounds are met.
pub async fn run(
    node: &Node,
    recogniser: &Recogniser,
    scripts: &mut Scripts,
    bounds: Bounds,
    clock: Clock,
) -> Result<Burst, NoBurst> {
    run_until(node, recogniser, scripts, bounds, clock, std::future::pending()).await
}

/// The same, or until `stop` is over: everything that happened before that is in it.
pub async fn run_until(
    node: &Node,
    recogniser: &Recogniser,
    scripts: &mut Scripts,
    bounds: Bounds,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<Burst, NoBurst> {
    let told = is_told(node).await.unwrap_or(false);
    let mut link = Link { stream: node.stream().await?, wire: Wire::default(), chunk: vec![0; CHUNK] };
    link.log_in(node).await?;
    link.subscribe(node, recogniser).await?;
    let early = link.monitor().await?;
    let (began, start) = (clock.now(), Instant::now());
    let mut watch = Watch {
        judge: Judge::new(recogniser, scripts, node.db, told, began),
        gather: Gather::default(),
        left: bounds.lines,
        over: false,
        first: None,
        last: 0,
        lines: 0,
    };
    let broken = |error: super::frames::Broken| io::Error::other(error);
    link.wire.feed(&early, &mut |frame| watch.take(frame, began)).map_err(broken)?;
    let time_is_up = tokio::time::sleep(bounds.time);
    let (mut time_is_up, mut stop) = (pin!(time_is_up), pin!(stop));
    // When the question was asked after which nothing more counts.
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
            // Its answer comes after all that happened before.
            None => {
                asked = Some(Instant::now());
                if link.stream.write_all(&command(&[b"PING"])).await.is_err() {
                    break Some(Cut::Closed);
                }
            }
            Some(Ok(0) | Err(_)) => break Some(Cut::Closed),
            Some(Ok(read)) => {
                let at = clock.now();
                link.wire.feed(&link.chunk[..read], &mut |frame| watch.take(frame, at)).map_err(broken)?;
                // More may be there at once, and somebody else may wait for our thread.
                tokio::task::yield_now().await;
            }
        }
    };
    drop(link);
    let looked = match (cut, asked) {
        (None, Some(asked)) => asked - start,
        // What was on its way is lost: only what the lines themselves cover was seen.
        _ => Duration::from_micros(watch.last.saturating_sub(watch.first.unwrap_or(watch.last))),
    };
    let Watch { judge, mut gather, lines, .. } = watch;
    judge.end(cut.is_none(), &mut |act| gather.take(act));
    let Gather { locks, left_out } = gather;
    Ok(Burst { began, ended: clock.now(), looked, lines, cut, told, locks, left_out })
}

/// Whether the server is set to tell of what changes a lock.
async fn is_told(node: &Node) -> RedisResult<bool> {
    let mut conn = node.connect().await?;
    let answer: HashMap<String, String> =
        cmd("CONFIG").arg("GET").arg("notify-keyspace-events").query_async(&mut conn).await?;
    let flags = answer.get("notify-keyspace-events").map(|text| EventFlags::parse(text));
    Ok(flags.is_some_and(|flags| flags.covers_locks(None).is_enough()))
}

/// What is seen, on its way to the judge.
struct Watch<'a> {
    judge: Judge<'a>,
    gather: Gather,
    lines: u64,
    /// So many more may be looked at.
    left: u64,
    /// Everything up to the end was seen.
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
    wire: Wire,
    chunk: Vec<u8>,
}

/// An answer, as far as it matters.
enum Answer {
    Fine,
    /// The code, and the rest of the error.
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
            Answer::Fine => {}
            Answer::Refused(code, why) if is_for_now(&code, &why) => return Err(not_now(&code, &why)),
            Answer::Refused(code, _) if code == "WRONGPASS" || code == "NOAUTH" => {
                return Err(NoBurst::Refused("the server refused the user or password".into()));
            }
            Answer::Refused(..) => {
                return Err(NoBurst::Refused(
                    "MONITOR is read over RESP3, which this server or user does not have".into(),
                ));
            }
        }
        // Who may not is no worse for it.
        self.ask(&[b"CLIENT", b"SETNAME", b"lockscope"], 1).await?;
        Ok(())
    }

    /// As narrow as the patterns and the ACL allow. Without any subscription the server would let a monitor that does
    /// not read grow without end.
    async fn subscribe(&mut self, node: &Node, recogniser: &Recogniser) -> Result<(), NoBurst> {
        let wider = wider_channels(node.db).map(|channel| vec![channel]);
        for attempt in std::iter::once(channels(node.db, recogniser.patterns())).chain(wider) {
            let mut words: Vec<&[u8]> = vec![b"PSUBSCRIBE"];
            words.extend(attempt.iter().map(|channel| channel.as_bytes()));
            match self.ask(&words, attempt.len()).await? {
                Answer::Fine => return Ok(()),
                Answer::Refused(code, why) if is_for_now(&code, &why) => return Err(not_now(&code, &why)),
                Answer::Refused(..) => {}
            }
        }
        Err(NoBurst::Refused("sampling needs PSUBSCRIBE on the keyspace channels, which this user may not".into()))
    }

    /// From here on every command is told; what has come of them already comes back.
    async fn monitor(&mut self) -> Result<Vec<u8>, NoBurst> {
        self.stream.write_all(&command(&[b"MONITOR"])).await?;
        let until = Instant::now() + ANSWER;
        loop {
            let read = timeout_at(until, self.stream.read(&mut self.chunk)).await.map_err(|_| timed_out())??;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            // Byte by byte: what follows the answer is not for this reader.
            for (index, byte) in self.chunk[..read].iter().enumerate() {
                let mut answer = None;
                let each = &mut |frame: Frame<'_>| match frame {
                    Frame::Line(_) => answer = Some(Answer::Fine),
                    Frame::Error(text) => answer = Some(refused(text.bytes)),
                    _ => {}
                };
                self.wire.feed(std::slice::from_ref(byte), each).map_err(io::Error::other)?;
                match answer {
                    Some(Answer::Fine) => return Ok(self.chunk[index + 1..read].to_vec()),
                    Some(Answer::Refused(code, _)) if code == "NOPERM" => {
                        return Err(NoBurst::Refused(
                            "this user may not run MONITOR; ACL SETUSER … +monitor permits it".into(),
                        ));
                    }
                    Some(Answer::Refused(code, why)) if is_for_now(&code, &why) => return Err(not_now(&code, &why)),
                    Some(Answer::Refused(code, why)) => {
                        return Err(NoBurst::Refused(format!("MONITOR was answered with {code} {why}")));
                    }
                    None => {}
                }
            }
        }
    }

    /// Sends a command, and waits for its answers.
    async fn ask(&mut self, words: &[&[u8]], answers: usize) -> Result<Answer, NoBurst> {
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
                // Events of a subscription that stands already.
                Frame::Message { .. } => {}
                Frame::Line(_) | Frame::Other => left = left.saturating_sub(1),
            };
            self.wire.feed(&self.chunk[..read], each).map_err(io::Error::other)?;
        }
        Ok(refusal.unwrap_or(Answer::Fine))
    }
}

fn refused(error: &[u8]) -> Answer {
    let error = text::visible(&error[..error.len().min(200)]);
    let (code, rest) = error.split_once(' ').unwrap_or((error.as_str(), ""));
    Answer::Refused(code.into(), rest.into())
}

/// The next burst may be let in.
fn is_for_now(code: &str, why: &str) -> bool {
    matches!(code, "BUSY" | "LOADING" | "MASTERDOWN") || why.starts_with("max number of clients")
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
