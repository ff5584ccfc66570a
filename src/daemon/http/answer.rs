//! What a request is answered: `/metrics` and `/healthz`, GET and HEAD only.
//!
//! The text of a moment is written once, when the first request asks for it, and shared by all that follow. A moment that
//! is too old is not given out: a value that is held looks fresh for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::watch;

use super::login::Login;
use crate::metrics::{Moment, exposition};

/// A moment that was made longer ago is not given out.
const FRESH: Duration = Duration::from_secs(10);
/// How long a request waits for a fresh moment, unless its scraper names a limit.
const PATIENCE: Duration = Duration::from_secs(5);
/// What we leave of a scraper's limit for the way back.
const WAY_BACK: Duration = Duration::from_millis(500);
const SCRAPE_LIMIT: &str = "x-prometheus-scrape-timeout-seconds";

/// The newest moment, and when it was made.
#[derive(Clone)]
pub struct Latest {
    pub moment: Arc<Moment>,
    pub made: Instant,
}

/// What all connections share.
pub struct Site {
    latest: watch::Receiver<Latest>,
    login: Option<Login>,
    /// The text of the moment that was made then.
    written: Mutex<Option<(Instant, Bytes)>>,
}

impl Site {
    pub fn new(latest: watch::Receiver<Latest>, login: Option<Login>) -> Site {
        Site { latest, login, written: Mutex::default() }
    }

    pub async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let admitted = |login: &Login| login.admits(request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes));
        // A client that asks whether we are alive learns nothing else.
        if path != "/healthz" && !self.login.as_ref().is_none_or(admitted) {
            let mut refused = plain(StatusCode::UNAUTHORIZED, "a user and a password are needed\n");
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"lockscope\""));
            return refused;
        }
        if !matches!(path, "/metrics" | "/healthz") {
            return plain(StatusCode::NOT_FOUND, "there is only /metrics and /healthz\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let Some(latest) = self.fresh(patience(request.headers())).await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "nothing was measured for 10 seconds\n");
        };
        match path {
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            _ => response(StatusCode::OK, exposition::CONTENT_TYPE, self.text(&latest)),
        }
    }

    /// The newest moment, once it is fresh; `None` if that takes too long.
    async fn fresh(&self, patience: Duration) -> Option<Latest> {
        let mut latest = self.latest.clone();
        let fresh = tokio::time::timeout(patience, latest.wait_for(|latest| latest.made.elapsed() < FRESH)).await;
        Some(fresh.ok()?.ok()?.clone())
    }

    fn text(&self, latest: &Latest) -> Bytes {
        // A panic while writing would be the same again: the lock guards a cache only.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match &*written {
            Some((made, text)) if *made == latest.made => text.clone(),
            _ => {
                let text = Bytes::from(exposition::text(&latest.moment));
                *written = Some((latest.made, text.clone()));
                text
            }
        }
    }
}

/// How long the request may wait: a little less than its scraper does.
fn patience(headers: &HeaderMap) -> Duration {
    let limit = headers.get(SCRAPE_LIMIT).and_then(|limit| limit.to_str().ok()?.parse::<f64>().ok());
    let limit = limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.map_or(PATIENCE, |limit| limit.saturating_sub(WAY_BACK).min(PATIENCE))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().method(method).uri(path);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
    }

    fn latest() -> (watch::Sender<Latest>, watch::Receiver<Latest>) {
        watch::channel(Latest { moment: Arc::default(), made: Instant::now() })
    }

    #[tokio::test]
    async fn only_two_paths_and_two_methods_are_there() {
        let (_sender, receiver) = latest();
        let site = Site::new(receiver, None);
        for (method, path, status) in [
            ("GET", "/metrics", 200),
            ("HEAD", "/metrics?name=up", 200),
            ("GET", "/healthz", 200),
            ("POST", "/metrics", 405),
            ("DELETE", "/healthz", 405),
            ("GET", "/", 404),
            ("GET", "/metrics/", 404),
            ("POST", "/api/v1/query", 404),
        ] {
            assert_eq!(site.answer(&request(method, path, &[])).await.status(), status, "{method} {path}");
        }
        let refused = site.answer(&request("PUT", "/metrics", &[])).await;
        assert_eq!(refused.headers()[ALLOW], "GET, HEAD");
    }

    #[tokio::test]
    async fn a_moment_that_is_held_is_not_given_out_as_fresh() {
        let old = Instant::now().checked_sub(FRESH * 2).expect("the machine runs for longer");
        let (sender, receiver) = watch::channel(Latest { moment: Arc::default(), made: old });
        let site = Site::new(receiver, None);
        let hasty = request("GET", "/metrics", &[(SCRAPE_LIMIT, "0.6")]);
        assert_eq!(site.answer(&hasty).await.status(), 503);
        assert_eq!(site.answer(&request("GET", "/healthz", &[(SCRAPE_LIMIT, "0.6")])).await.status(), 503);
        sender.send_replace(Latest { moment: Arc::default(), made: Instant::now() });
        assert_eq!(site.answer(&hasty).await.status(), 200);
    }

    #[tokio::test]
    async fn a_moment_is_written_once_however_many_ask() {
        let (sender, receiver) = latest();
        let site = Site::new(receiver, None);
        let first = sender.borrow().clone();
        let text = site.text(&first);
        site.written.lock().unwrap().as_mut().unwrap().1 = Bytes::from_static(b"kept");
        assert_eq!((site.text(&first), text), (Bytes::from_static(b"kept"), Bytes::new()));
        let next = Latest { made: first.made + Duration::from_secs(1), ..first };
        assert_eq!(site.text(&next), Bytes::new());
    }

    #[test]
    fn a_scraper_gets_its_answer_within_its_own_limit() {
        let with = |limit: &str| patience(request("GET", "/metrics", &[(SCRAPE_LIMIT, limit)]).headers());
        assert_eq!(with("2.5"), Duration::from_secs(2));
        for limit in ["10", "", "-1", "NaN", "1e400", "soon"] {
            assert_eq!(with(limit), PATIENCE, "{limit}");
        }
        assert_eq!(with("0.1"), Duration::ZERO);
    }
}
