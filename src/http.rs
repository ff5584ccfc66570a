//! A client for HTTP/1.1: one request on a connection of its own, with a time limit and a size limit.
//!
//! It knows nothing of what it asks. The pager and the tuner use it. A secret is put into a request and nowhere else: no error
//! and no log has one.

mod access;
mod trouble;
mod url;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use access::{Access, Files};
pub use trouble::Trouble;
pub use url::Base;

/// The largest answer that is read, packed or not.
const LARGEST: usize = 256 << 20;

/// One place that is asked.
#[derive(Clone, Debug)]
pub struct Client {
    base: Base,
    access: Arc<Access>,
    timeout: Duration,
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Body {
    None,
    /// `name=value` pairs.
    Form(Vec<(String, String)>),
    Json(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(base: Base, access: Arc<Access>, timeout: Duration) -> Client {
        Client { base, access, timeout }
    }

    /// The address without secrets.
    pub fn shown(&self) -> &str {
        self.base.shown()
    }

    /// Sends a request below the base: a POST if there is something to send, else a GET.
    pub async fn send(&self, path: &str, body: Body) -> Result<Answer, Trouble> {
        let asked = tokio::time::timeout(self.timeout, self.ask(path, body)).await;
        asked.unwrap_or(Err(Trouble::Timeout(self.timeout)))
    }

    async fn ask(&self, path: &str, body: Body) -> Result<Answer, Trouble> {
        let request = self.request(path, body)?;
        let stream = TcpStream::connect((self.base.host(), self.base.port())).await.map_err(Trouble::of_connect)?;
        let _ = stream.set_nodelay(true);
        if !self.base.is_tls() {
            return talk(stream, request).await;
        }
        let name = ServerName::try_from(self.base.host().to_string()).map_err(|_| Trouble::Name)?;
        let stream = TlsConnector::from(self.access.tls()?).connect(name, stream).await.map_err(Trouble::of_tls)?;
        talk(stream, request).await
    }

    fn request(&self, path: &str, body: Body) -> Result<Request<Full<Bytes>>, Trouble> {
        let (method, kind, bytes) = match body {
            Body::None => (Method::GET, None, Bytes::new()),
            Body::Form(pairs) => {
                let mut form = ::url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(pairs);
                (Method::POST, Some("application/x-www-form-urlencoded"), form.finish().into())
            }
            Body::Json(text) => (Method::POST, Some("application/json"), text.into()),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base.prefix()))
            .header(HOST, self.base.authority())
            .header(USER_AGENT, concat!("lockscope/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT_ENCODING, "gzip");
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        if let Some(mut value) = self.access.authorization(&self.base)? {
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        for (name, value) in self.access.headers() {
            request = request.header(name, value);
        }
        request.body(Full::new(bytes)).map_err(|_| Trouble::Request)
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Trouble> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|why| Trouble::of_http(&why))?;
    let answered = async {
        let answer = sender.send_request(request).await.map_err(|why| Trouble::of_http(&why))?;
        let status = answer.status().as_u16();
        let packed = answer.headers().get(CONTENT_ENCODING).is_some_and(is_gzip);
        let body = Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|_| Trouble::Large)?.to_bytes();
        let body = if packed { unpacked(&body)? } else { body.to_vec() };
        Ok(Answer { status, body })
    };
    // The connection does the work of both; it ends with the answer.
    tokio::pin!(connection, answered);
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut answered => return answer,
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

fn is_gzip(encoding: &HeaderValue) -> bool {
    encoding.as_bytes().eq_ignore_ascii_case(b"gzip")
}

fn unpacked(body: &[u8]) -> Result<Vec<u8>, Trouble> {
    let mut out = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(body).take(LARGEST as u64 + 1);
    reader.read_to_end(&mut out).map_err(|_| Trouble::Broken("its gzip is damaged".into()))?;
    if out.len() > LARGEST { Err(Trouble::Large) } else { Ok(out) }
}

#[cfg(test)]
mod tests;
