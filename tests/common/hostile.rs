//! A server that misbehaves: a proxy before a real one, which answers chosen commands in its own way.
//!
//! Every command of every connection goes through [`Hostile`], and `choose` decides what to do with it. The real server
//! answers the rest, so that a session can go far before it goes wrong.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What to do with a command instead of answering it.
#[derive(Clone, Debug)]
pub enum Mischief {
    /// Reply with these bytes; the server never gets the command.
    Instead(Vec<u8>),
    /// Run it on the server, and reply with these bytes.
    Replaced(Vec<u8>),
    /// Never reply, nor to anything that follows on the connection.
    Silence,
    /// Run it on the server; send a part of the reply, then reset the connection.
    HalfThenReset,
    /// Close the connection.
    Close,
    /// Run it on the server, and reply twice.
    Twice,
    /// Run it on the server and do not reply, but reply to everything that follows.
    Skipped,
    /// Reply byte by byte.
    Slowly,
    /// Send the first bytes, then repeat the second for as long as anybody reads.
    Endless(&'static [u8], &'static [u8]),
}

/// The most bytes of an endless reply: far more than any client should keep.
const ENDLESS: u64 = 3 << 30;

type Choose = dyn Fn(u64, &str) -> Option<Mischief> + Send + Sync;

/// The proxy. It takes connections until it is dropped.
pub struct Hostile {
    port: u16,
    ended: Arc<AtomicBool>,
    /// Commands received, and how many of them got another reply.
    pub commands: Arc<AtomicU64>,
    pub mischiefs: Arc<AtomicU64>,
}

impl Hostile {
    /// A proxy before the server at `port`. `choose` gets the number of the command, from 0, and the command in upper
    /// case with its first argument.
    pub fn before(port: u16, choose: impl Fn(u64, &str) -> Option<Mischief> + Send + Sync + 'static) -> Hostile {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
        let ours = listener.local_addr().expect("the address of a bound listener").port();
        let (ended, commands, mischiefs) = (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let hostile = Hostile { port: ours, ended, commands, mischiefs };
        let shared = Arc::new(Shared {
            choose: Box::new(choose),
            ended: hostile.ended.clone(),
            commands: hostile.commands.clone(),
            mischiefs: hostile.mischiefs.clone(),
        });
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                if let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port))) {
                    let shared = shared.clone();
                    std::thread::spawn(move || Conversation::new(client, server, shared).run());
                }
            }
        });
        hostile
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wake the thread that waits for connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

struct Shared {
    choose: Box<Choose>,
    ended: Arc<AtomicBool>,
    commands: Arc<AtomicU64>,
    mischiefs: Arc<AtomicU64>,
}

struct Conversation {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
    answers: Arc<Answers>,
}

/// The replies that the server still has to send.
#[derive(Default)]
struct Answers {
    state: Mutex<Owed>,
    changed: Condvar,
}

#[derive(Default)]
struct Owed {
    answers: u64,
    /// Keep the next reply instead of passing it on.
    keep: bool,
    kept: Option<Vec<u8>>,
    closed: bool,
}

impl Conversation {
    fn new(client: TcpStream, server: TcpStream, shared: Arc<Shared>) -> Conversation {
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        }
        Conversation { client, server, shared, answers: Arc::default() }
    }

    fn run(mut self) {
        let (from, to) = (self.server.try_clone(), self.client.try_clone());
        let (Ok(from), Ok(to)) = (from, to) else { return };
        let (answers, shared) = (self.answers.clone(), self.shared.clone());
        let passing = std::thread::spawn(move || pass_answers(from, to, &answers, &shared));
        let _ = self.serve();
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
        let _ = passing.join();
    }

    /// `None` when the connection is over.
    fn serve(&mut self) -> Option<()> {
        let mut frames = Frames::new(self.client.try_clone().ok()?, self.shared.ended.clone());
        while let Some(command) = frames.next() {
            let number = self.shared.commands.fetch_add(1, Ordering::Relaxed);
            match (self.shared.choose)(number, &words(&command)) {
                None => self.forward(&command, false)?,
                Some(mischief) => {
                    self.shared.mischiefs.fetch_add(1, Ordering::Relaxed);
                    self.wait_for(|owed| owed.answers == 0)?;
                    self.misbehave(mischief, &command)?;
                }
            }
        }
        None
    }

    fn forward(&mut self, command: &[u8], keep: bool) -> Option<()> {
        {
            let mut owed = self.answers.state.lock().unwrap();
            owed.answers += 1;
            owed.keep = keep;
        }
        self.server.write_all(command).ok()
    }

    fn misbehave(&mut self, mischief: Mischief, command: &[u8]) -> Option<()> {
        match mischief {
            Mischief::Instead(bytes) => self.client.write_all(&bytes).ok(),
            Mischief::Replaced(bytes) => {
                self.ask(command)?;
                self.client.write_all(&bytes).ok()
            }
            Mischief::Silence => {
                while !self.shared.ended.load(Ordering::Relaxed) && !is_closed(&self.client) {
                    std::thread::sleep(Duration::from_millis(50));
                }
                None
            }
            Mischief::HalfThenReset => {
                let answer = self.ask(command)?;
                self.client.write_all(&answer[..answer.len() / 2]).ok()?;
                reset(&self.client);
                None
            }
            Mischief::Close => None,
            Mischief::Twice => {
                let answer = self.ask(command)?;
                self.client.write_all(&answer.repeat(2)).ok()
            }
            Mischief::Skipped => self.ask(command).map(drop),
            Mischief::Slowly => {
                let answer = self.ask(command)?;
                // Large replies would take too long.
                let (slow, rest) = answer.split_at(answer.len().min(200));
                slow.iter().try_for_each(|byte| {
                    std::thread::sleep(Duration::from_micros(200));
                    self.client.write_all(&[*byte]).ok()
                })?;
                self.client.write_all(rest).ok()
            }
            Mischief::Endless(first, again) => {
                self.client.write_all(first).ok()?;
                let chunk = again.repeat(65_536 / again.len());
                let mut sent = 0;
                while sent < ENDLESS && !self.shared.ended.load(Ordering::Relaxed) {
                    self.client.write_all(&chunk).ok()?;
                    sent += chunk.len() as u64;
                }
                None
            }
        }
    }

    /// The server's own answer.
    fn ask(&mut self, command: &[u8]) -> Option<Vec<u8>> {
        self.forward(command, true)?;
        self.wait_for(|owed| owed.kept.is_some())?;
        self.answers.state.lock().unwrap().kept.take()
    }

    fn wait_for(&self, condition: impl Fn(&Owed) -> bool) -> Option<()> {
        let mut owed = self.answers.state.lock().unwrap();
        while !condition(&owed) {
            if owed.closed || self.shared.ended.load(Ordering::Relaxed) {
                return None;
            }
            owed = self.answers.changed.wait_timeout(owed, Duration::from_millis(100)).unwrap().0;
        }
        Some(())
    }
}

fn pass_answers(server: TcpStream, mut client: TcpStream, answers: &Answers, shared: &Shared) {
    let mut frames = Frames::new(server, shared.ended.clone());
    while let Some(frame) = frames.next() {
        let is_push = frame.first() == Some(&b'>');
        let mut owed = answers.state.lock().unwrap();
        if !is_push && owed.keep {
            (owed.keep, owed.kept) = (false, Some(frame));
        } else if client.write_all(&frame).is_err() {
            break;
        }
        // Messages of a RESP2 subscription are not replies.
        if !is_push {
            owed.answers = owed.answers.saturating_sub(1);
        }
        drop(owed);
        answers.changed.notify_all();
    }
    answers.state.lock().unwrap().closed = true;
    answers.changed.notify_all();
    let _ = client.shutdown(Shutdown::Both);
}

/// The complete frames of a stream, in order.
struct Frames {
    stream: TcpStream,
    ended: Arc<AtomicBool>,
    bytes: Vec<u8>,
}

impl Frames {
    fn new(stream: TcpStream, ended: Arc<AtomicBool>) -> Frames {
        Frames { stream, ended, bytes: Vec::new() }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut chunk = [0; 65_536];
        loop {
            if let Some(end) = frame_end(&self.bytes, 0) {
                return Some(self.bytes.drain(..end).collect());
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => self.bytes.extend_from_slice(&chunk[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.ended.load(Ordering::Relaxed) {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }
}

/// The end of the frame that starts at `at`; `None` if it is incomplete.
fn frame_end(bytes: &[u8], at: usize) -> Option<usize> {
    let line = bytes.get(at..)?;
    let length = line.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, number) =
        (line[0], std::str::from_utf8(&line[1..length]).ok().and_then(|text| text.parse::<i64>().ok()));
    let after = at + length + 2;
    match (kind, number) {
        (b'$' | b'=' | b'!', Some(size)) if size >= 0 => {
            let end = after + size as usize + 2;
            (end <= bytes.len()).then_some(end)
        }
        (b'*' | b'~' | b'>' | b'%', Some(count)) if count >= 0 => {
            let count = if kind == b'%' { count * 2 } else { count };
            (0..count).try_fold(after, |at, _| frame_end(bytes, at))
        }
        _ => Some(after),
    }
}

/// The first two words of a command, in upper case.
fn words(command: &[u8]) -> String {
    let text = String::from_utf8_lossy(command);
    let words: Vec<&str> = text.split("\r\n").skip(2).step_by(2).take(2).collect();
    words.join(" ").to_uppercase()
}

fn is_closed(stream: &TcpStream) -> bool {
    matches!(stream.peek(&mut [0]), Ok(0))
}

/// Makes the other side see a reset instead of a normal end.
fn reset(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = std::mem::size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the pointer is to a live value of the size given.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size);
    }
}
