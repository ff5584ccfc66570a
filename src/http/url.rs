//! The address of a server that is asked by HTTP: `https://user@host:port/prefix`.

use crate::base::fault::{Fault, shown};
use crate::base::secret::Secret;
use crate::base::text::visible;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    tls: bool,
    host: String,
    port: u16,
    /// Without a slash at its end.
    prefix: String,
    login: Option<(String, Secret)>,
    shown: String,
}

impl Base {
    /// Reads the address; `option` is where it was given.
    pub fn read(text: &str, option: &str) -> Result<Base, Fault> {
        let wrong = |why: &str| {
            Err(Fault::usage(format!("{option} {:?} {why}; write it like http://127.0.0.1:9090/prefix", shown(text))))
        };
        let Ok(url) = url::Url::parse(text) else { return wrong("is not an address") };
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return wrong("begins with neither http:// nor https://"),
        };
        if url.query().is_some() || url.fragment().is_some() {
            return wrong("has a '?' or '#', which belongs to a single page");
        }
        let Some(host) = url.host_str() else { return wrong("names no host") };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let decoded = |text: &str| {
            let pair = format!("x={}", text.replace('+', "%2B"));
            url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, text)| text.into_owned()).unwrap_or_default()
        };
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decoded(user), Secret::new(decoded(password.unwrap_or_default())))),
        };
        let port = url.port_or_known_default().unwrap_or(80);
        let prefix = url.path().trim_end_matches('/').to_string();
        let mut base = Base { tls, host, port, prefix, login, shown: String::new() };
        let scheme = if tls { "https" } else { "http" };
        base.shown = visible(format!("{scheme}://{}{}", base.authority(), base.prefix).as_bytes());
        Ok(base)
    }

    pub fn is_tls(&self) -> bool {
        self.tls
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn login(&self) -> Option<&(String, Secret)> {
        self.login.as_ref()
    }

    /// Host and port, as a request names them.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// The address without a login.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}
