//! The port: a thread of its own that answers requests, so that no client can hold up the engine.
//!
//! One request a connection, few connections, a short time for each: a client that dawdles is dropped. At the limit the
//! oldest connection makes room, because an honest scrape takes milliseconds.

mod answer;
mod certificate;
mod login;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::TcpListener;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::base::fault::Fault;
pub use answer::Latest;
use answer::Site;
use login::Login;

/// Connections at one time.
const MOST: usize = 128;
/// How long a client may take to send its request.
const REQUEST: Duration = Duration::from_secs(5);
/// How long a connection may take in all.
const LONGEST: Duration = Duration::from_secs(20);
/// How long the answers that are on their way may take when we end.
const GRACE: Duration = Duration::from_secs(2);
/// The longest request line with its headers.
const LONGEST_REQUEST: usize = 16 * 1024;
/// Before the next connection is accepted, when the system had no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// What protects the port.
#[derive(Default)]
pub struct Protection {
    login: Option<Login>,
    tls: Option<TlsAcceptor>,
}

impl Protection {
    /// Reads the files that the user named.
    pub fn read(login: Option<&Path>, certificate: Option<(&Path, &Path)>) -> Result<Protection, Fault> {
        Ok(Protection {
            login: login.map(Login::read).transpose()?,
            tls: certificate.map(|(certificate, key)| certificate::acceptor(certificate, key)).transpose()?,
        })
    }

    /// Whether a password travels in the clear.
    pub fn is_readable(&self) -> bool {
        self.login.is_some() && self.tls.is_none()
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// The thread that answers requests.
pub struct Port {
    /// Dropped to end it.
    stop: Option<oneshot::Sender<Infallible>>,
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Port {
    /// Starts to answer with the latest moment.
    pub fn open(
        listener: TcpListener,
        protection: Protection,
        latest: watch::Receiver<Latest>,
    ) -> std::io::Result<Port> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let site = Arc::new(Site::new(latest, protection.login));
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("port".into()).spawn(move || {
            let _end: oneshot::Sender<()> = end;
            runtime.block_on(serve(listener, protection.tls, site, stopped));
        })?;
        Ok(Port { stop: Some(stop), ended, thread })
    }

    /// Waits until the thread ends by itself, which it does only by a panic.
    pub async fn broken(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Accepts no more connections, and waits for the answers that are on their way. Passes a panic on.
    pub async fn close(mut self) {
        self.stop = None;
        let _ = (&mut self.ended).await;
        if let Err(panic) = self.thread.join() {
            resume_unwind(panic);
        }
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    tls: Option<TlsAcceptor>,
    site: Arc<Site>,
    mut stopped: oneshot::Receiver<Infallible>,
) {
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            Some(ended) = connections.join_next() => pass_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    oldest_first.retain(|connection| !connection.is_finished());
                    if oldest_first.len() >= MOST
                        && let Some(oldest) = oldest_first.pop_front()
                    {
                        oldest.abort();
                    }
                    let conversation = converse(stream, tls.clone(), site.clone());
                    oldest_first.push_back(connections.spawn(async move {
                        // Whatever ends it is the client's fault, and the client sees it.
                        let _ = timeout(LONGEST, conversation).await;
                    }));
                    // Those that have sent their requests get their answers before others come.
                    tokio::task::yield_now().await;
                }
                // Such as too many open files: those that are open will end.
                Err(_) => sleep(PAUSE).await,
            },
        }
    }
    drop(listener);
    let _ = timeout(GRACE, async {
        while let Some(ended) = connections.join_next().await {
            pass_panic(ended);
        }
    })
    .await;
}

fn pass_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(why) = ended
        && let Ok(panic) = why.try_into_panic()
    {
        resume_unwind(panic);
    }
}

async fn converse(stream: TcpStream, tls: Option<TlsAcceptor>, site: Arc<Site>) {
    match tls {
        None => hear(stream, site).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(REQUEST, acceptor.accept(stream)).await {
                hear(stream, site).await;
            }
        }
    }
}

/// Answers one request.
async fn hear(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, site: Arc<Site>) {
    let service = service_fn(|request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(&request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST).max_buf_size(LONGEST_REQUEST).keep_alive(false);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
