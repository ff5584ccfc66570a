//! A server that sends hostile text: a proxy before a real one, which refuses one command, or puts escapes into every
//! text of its replies.
//!
//! It understands just enough of the protocol to separate commands and replies. Unrequested messages (events, MONITOR)
//! pass unchanged.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Text that drives or deceives a terminal: colours, a cursor position, the clipboard, the one-character CSI, a bell, a
/// backspace, DEL, and marks that reverse the text.
pub const TEXT: &str = "\x1b[31m\x1b[666;1H\x1b]52;c;ZXZpbA==\x07\u{9b}666m\x08\x7f\u{202e}\u{2066}\u{200f}";
/// The same as bytes that are not UTF-8.
pub const BYTES: &[u8] = b"\x1b[31m\x1b]52;c;ZXZpbA==\x07\x9b666m\xff\x00\x7f";

#[derive(Clone, Default, Debug)]
pub enum Lie {
    #[default]
    None,
    /// This command gets this error.
    Refuse(String, String),
    /// Every text in the replies to this command contains escapes.
    Taint(String),
}

#[derive(Clone)]
pub struct Liar {
    pub port: u16,
    lie: Arc<Mutex<Lie>>,
    /// The commands that were received.
    heard: Arc<Mutex<BTreeSet<String>>>,
}

/// A reply that is due.
enum Owed {
    Real(String),
    Made(Vec<u8>),
}

struct Line {
    owed: VecDeque<Owed>,
    client: TcpStream,
}

impl Liar {
    pub fn before(server: u16) -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let liar = Liar { port, lie: Arc::default(), heard: Arc::default() };
        let other = liar.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (Ok(upstream), other) = (TcpStream::connect(("127.0.0.1", server)), other.clone()) else { return };
                std::thread::spawn(move || other.serve(client, upstream));
            }
        });
        liar
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn tell(&self, lie: Lie) {
        *self.lie.lock().unwrap() = lie;
        self.heard.lock().unwrap().clear();
    }

    /// The commands received since the last lie began.
    pub fn heard(&self) -> BTreeSet<String> {
        self.heard.lock().unwrap().clone()
    }

    fn serve(&self, client: TcpStream, upstream: TcpStream) {
        let Ok(out) = client.try_clone() else { return };
        let line = Arc::new(Mutex::new(Line { owed: VecDeque::new(), client: out }));
        let (answers, lie, to) = (upstream.try_clone().expect("a clone"), self.lie.clone(), line.clone());
        std::thread::spawn(move || {
            let _ = pass_answers(answers, &lie, &to);
            let _ = to.lock().unwrap().client.shutdown(std::net::Shutdown::Both);
        });
        let _ = self.pass_commands(client, &upstream, &line);
        let _ = upstream.shutdown(std::net::Shutdown::Both);
    }

    fn pass_commands(&self, client: TcpStream, mut upstream: &TcpStream, line: &Mutex<Line>) -> io::Result<()> {
        let mut client = BufReader::new(client);
        loop {
            let command = frame(&mut client)?;
            let name = name(&command);
            self.heard.lock().unwrap().insert(name.clone());
            let refused = match &*self.lie.lock().unwrap() {
                Lie::Refuse(which, error) if *which == name => Some(format!("-{error}\r\n").into_bytes()),
                _ => None,
            };
            let mut line = line.lock().unwrap();
            match refused {
                Some(error) if line.owed.is_empty() => line.client.write_all(&error)?,
                Some(error) => line.owed.push_back(Owed::Made(error)),
                None => {
                    line.owed.push_back(Owed::Real(name));
                    drop(line);
                    upstream.write_all(&command)?;
                }
            }
        }
    }
}

fn pass_answers(upstream: TcpStream, lie: &Mutex<Lie>, line: &Mutex<Line>) -> io::Result<()> {
    let mut upstream = BufReader::new(upstream);
    loop {
        let mut answer = frame(&mut upstream)?;
        let mut line = line.lock().unwrap();
        if answer[0] != b'>'
            && let Some(Owed::Real(name)) = line.owed.pop_front()
            && matches!(&*lie.lock().unwrap(), Lie::Taint(which) if *which == name)
        {
            answer = tainted(&mut &answer[..])?;
        }
        line.client.write_all(&answer)?;
        while let Some(Owed::Made(_)) = line.owed.front() {
            if let Some(Owed::Made(error)) = line.owed.pop_front() {
                line.client.write_all(&error)?;
            }
        }
    }
}

/// The command's name, with its subcommand if it has any.
fn name(command: &[u8]) -> String {
    let text = String::from_utf8_lossy(command).to_uppercase();
    let mut words = text.split("\r\n").skip(1).filter(|word| !word.starts_with('$'));
    let first = words.next().unwrap_or_default().to_string();
    match first.as_str() {
        "CLIENT" | "CONFIG" | "ACL" | "PUBSUB" | "SCRIPT" | "MEMORY" | "OBJECT" => {
            format!("{first} {}", words.next().unwrap_or_default())
        }
        _ => first,
    }
}

fn line_of(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.ends_with(b"\r\n") { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn count(line: &[u8]) -> i64 {
    std::str::from_utf8(&line[1..line.len() - 2]).ok().and_then(|text| text.parse().ok()).unwrap_or(-1)
}

/// One complete command or reply.
fn frame(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut out = line_of(from)?;
    let many = count(&out).max(0) as usize;
    match out[0] {
        b'$' | b'=' | b'!' if count(&out) >= 0 => {
            let start = out.len();
            out.resize(start + many + 2, 0);
            from.read_exact(&mut out[start..])?;
        }
        b'*' | b'~' | b'>' => {
            for _ in 0..many {
                out.extend(frame(from)?);
            }
        }
        b'%' => {
            for _ in 0..many * 2 {
                out.extend(frame(from)?);
            }
        }
        _ => {}
    }
    Ok(out)
}

/// The same reply with escapes in each text. Numbers stay as they are, or hardly anything would be parsed.
fn tainted(from: &mut &[u8]) -> io::Result<Vec<u8>> {
    let head = line_of(from)?;
    let many = count(&head).max(0) as usize;
    let mut out = Vec::new();
    match head[0] {
        b'$' | b'=' if count(&head) >= 0 => {
            let mut bytes = vec![0; many + 2];
            from.read_exact(&mut bytes)?;
            let text = ugly(&bytes[..many]);
            out.extend(format!("{}{}\r\n", head[0] as char, text.len()).into_bytes());
            out.extend(text);
            out.extend(b"\r\n");
        }
        b'+' | b'-' => {
            out.extend(&head[..head.len() - 2]);
            out.extend(TEXT.as_bytes());
            out.extend(b"\r\n");
        }
        b'*' | b'~' | b'>' | b'%' => {
            out.extend(&head);
            for _ in 0..if head[0] == b'%' { many * 2 } else { many } {
                out.extend(tainted(from)?);
            }
        }
        _ => out.extend(&head),
    }
    Ok(out)
}

fn ugly(text: &[u8]) -> Vec<u8> {
    let is_number = !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit() || b".-".contains(byte));
    let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
    if is_number {
        return text.into();
    }
    if !text.contains('\n') {
        return format!("{text}{TEXT}").into_bytes();
    }
    // INFO and CLIENT LIST: each field that is not a number.
    let lines = text.split('\n').map(|line| {
        let (line, end) = line.strip_suffix('\r').map_or((line, ""), |line| (line, "\r"));
        let line = match line.split_once(':') {
            Some((name, value)) if !name.contains(' ') && value.parse::<f64>().is_err() && !value.contains('=') => {
                format!("{name}:{value}{TEXT}")
            }
            _ => {
                let line = line.replace(" name=", &format!(" name={TEXT}")).replace(" user=", &format!(" user={TEXT}"));
                line.replace("ip=", &format!("ip={TEXT}")).replace(" lib-name=", &format!(" lib-name={TEXT}"))
            }
        };
        format!("{line}{end}")
    });
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}
