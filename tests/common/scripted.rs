//! A small HTTP server that answers as a test wants, for answers that no real server gives on demand. It keeps what it was asked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request: its first line, its headers in lower case as one text, its body.
#[derive(Clone, Debug)]
pub struct Asked {
    pub line: String,
    pub headers: String,
    pub body: String,
}

pub struct Scripted {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    /// Answers each request with what `answer` gives, byte by byte; `None`: never.
    pub fn start(answer: impl Fn(&Asked) -> Option<Vec<u8>> + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (kept.clone(), answer.clone());
                std::thread::spawn(move || converse(stream, &kept, &*answer));
            }
        });
        Scripted { port, asked }
    }

    /// With that status, kind and body.
    pub fn with(status: u16, kind: &'static str, body: &'static str) -> Scripted {
        Scripted::start(move |_| Some(answer(status, kind, body)))
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// A whole answer.
pub fn answer(status: u16, kind: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    format!("{head}{body}").into_bytes()
}

fn converse(mut stream: TcpStream, kept: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Option<Vec<u8>>) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let mut text = Vec::new();
    let mut buffer = [0; 4_096];
    let asked = loop {
        if let Some(asked) = whole(&text) {
            break asked;
        }
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => text.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    };
    kept.lock().unwrap().push(asked.clone());
    match answer(&asked) {
        Some(bytes) => drop(stream.write_all(&bytes)),
        // Until the other side has had enough.
        None => while matches!(stream.read(&mut buffer), Ok(1..)) {},
    }
}

fn whole(text: &[u8]) -> Option<Asked> {
    let text = String::from_utf8_lossy(text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let (line, headers) = head.split_once("\r\n")?;
    let headers = headers.to_lowercase();
    let length =
        headers.lines().find_map(|header| header.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
    (body.len() >= length.unwrap_or(0)).then(|| Asked { line: line.into(), headers, body: body.into() })
}
