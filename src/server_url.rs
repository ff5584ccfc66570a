//! The address of a server as users write it: `redis://`, `rediss://`, `redis+unix://`, `unix://`.
//!
//! Parsing keeps the password apart, and every way to print the result leaves it out. Schemes of topologies that are
//! recognised but not spoken yet are refused by name.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::fault::{Fault, shown};
use crate::secret::Secret;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// One server, as far as its URL tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerUrl {
    pub address: Address,
    pub tls: bool,
    /// `#insecure`: TLS without checking the certificate.
    pub insecure: bool,
    pub db: u32,
    pub username: Option<String>,
    pub password: Option<Secret>,
}

const FORMS: &str = "redis://host:6379/0, rediss://host:6379 (TLS) or unix:///path/to.sock";

/// Parameters of other clients that do not change which data is seen.
const IGNORED: [&str; 9] = [
    "protocol",
    "timeout",
    "connect_timeout",
    "read_timeout",
    "socket_timeout",
    "socket_connect_timeout",
    "max_connections",
    "client_name",
    "ssl_cert_reqs",
];

impl ServerUrl {
    pub fn parse(text: &str) -> Result<ServerUrl, Fault> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(Fault::usage(format!("{:?} is not a server URL; write {FORMS}", shown(text))));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "redis" | "valkey" => tcp(text, rest, false),
            "rediss" | "valkeys" => tcp(text, rest, true),
            "redis+unix" | "valkey+unix" | "unix" => unix(text),
            "redis+cluster" | "rediss+cluster" => Err(Fault::usage(
                "Redis Cluster URLs are not supported yet; give one of its nodes as redis://host:port to see that node's locks",
            )),
            "redis+sentinel" | "rediss+sentinel" => {
                Err(Fault::usage("Sentinel URLs are not supported yet; give the current master as redis://host:port"))
            }
            other => Err(Fault::usage(format!("there is no URL scheme {other:?}; write {FORMS}"))),
        }
    }

    /// The same server without its password, in the form a user would type.
    pub fn shown(&self) -> String {
        self.to_string()
    }
}

fn tcp(text: &str, rest: &str, tls: bool) -> Result<ServerUrl, Fault> {
    // A '/', '#' or '?' in a password ends the authority too early; what is left of it would pass for a host.
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if rest[authority..].contains('@') {
        return Err(bad(
            text,
            "has an '@' after the host; write special characters of a password as %23 (#), %2F (/), \
             %3F (?) or %40 (@), or put the password into LOCKSCOPE_PASSWORD",
        ));
    }
    let url = Url::parse(text).map_err(|why| match why {
        url::ParseError::InvalidPort => bad(text, "has a port that is no number from 1 to 65535"),
        _ => bad(text, &format!("can't be read ({why}); write {FORMS}")),
    })?;
    let host = match url.host() {
        Some(url::Host::Domain(name)) => decoded(name).unwrap_or_else(|| name.to_string()),
        Some(url::Host::Ipv4(ip)) => ip.to_string(),
        Some(url::Host::Ipv6(ip)) => ip.to_string(),
        None => String::new(),
    };
    let host = if host.is_empty() { "127.0.0.1".to_string() } else { host };
    if host == "0.0.0.0" || host == "::" {
        return Err(bad(text, "names a wildcard address; give the address to connect to, for example 127.0.0.1"));
    }
    let mut server = ServerUrl {
        address: Address::Tcp { host, port: url.port().filter(|port| *port != 0).unwrap_or(6379) },
        tls,
        insecure: false,
        db: 0,
        username: Some(url.username()).filter(|name| !name.is_empty()).and_then(decoded),
        password: url.password().filter(|word| !word.is_empty()).and_then(decoded).map(Secret::new),
    };
    match url.fragment() {
        None => {}
        Some("insecure") if tls => server.insecure = true,
        Some(_) => return Err(bad(text, "has a '#' part; only rediss://…#insecure is known")),
    }
    let path = url.path().trim_matches('/');
    if !path.is_empty() {
        server.db = database(text, path)?;
    }
    parameters(text, &url, &mut server)?;
    Ok(server)
}

fn unix(text: &str) -> Result<ServerUrl, Fault> {
    let url = Url::parse(text).map_err(|why| bad(text, &format!("can't be read ({why})")))?;
    let path = decoded(url.path()).unwrap_or_default();
    if path.len() < 2 || url.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(bad(text, "has no absolute path; write unix:///path/to.sock, with three slashes"));
    }
    let mut server = ServerUrl {
        address: Address::Unix(PathBuf::from(path)),
        tls: false,
        insecure: false,
        db: 0,
        username: None,
        password: None,
    };
    parameters(text, &url, &mut server)?;
    Ok(server)
}

fn parameters(text: &str, url: &Url, server: &mut ServerUrl) -> Result<(), Fault> {
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "db" => server.db = database(text, &value)?,
            "user" | "username" => server.username = Some(value.into_owned()),
            "pass" | "password" => server.password = Some(Secret::new(value)),
            name if IGNORED.contains(&name) => {}
            name => return Err(bad(text, &format!("has a parameter {name:?}; known are db, user and password"))),
        }
    }
    Ok(())
}

fn database(text: &str, number: &str) -> Result<u32, Fault> {
    number.parse().map_err(|_| bad(text, &format!("has {number:?} where the database number belongs, as in /0")))
}

fn decoded(text: &str) -> Option<String> {
    percent_decode(text).and_then(|bytes| String::from_utf8(bytes).ok())
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: &u8| (*byte as char).to_digit(16);
                out.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = tail;
            }
            _ => out.push(*first),
        }
    }
    Some(out)
}

fn bad(text: &str, why: &str) -> Fault {
    Fault::usage(format!("the URL {} {why}", shown(text)))
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } => {
                let scheme = if self.tls { "rediss" } else { "redis" };
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{open}{host}{close}:{port}")?;
                if self.db == 0 { Ok(()) } else { write!(f, "/{}", self.db) }
            }
            Address::Unix(path) => {
                write!(f, "unix://{}", path.display())?;
                if self.db == 0 { Ok(()) } else { write!(f, "?db={}", self.db) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> ServerUrl {
        ServerUrl::parse(text).unwrap()
    }

    #[test]
    fn the_usual_forms_are_read() {
        for (text, expected) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://cache", "redis://cache:6379"),
            ("redis://cache/3", "redis://cache:6379/3"),
            ("redis://cache:7000/0", "redis://cache:7000"),
            ("redis://[::1]:7000", "redis://[::1]:7000"),
            ("redis:///2", "redis://127.0.0.1:6379/2"),
            ("REDISS://cache?db=1", "rediss://cache:6379/1"),
            ("valkeys://cache", "rediss://cache:6379"),
            ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
            ("redis+unix:///run/a%20b.sock", "unix:///run/a b.sock"),
            ("redis://cache?protocol=3", "redis://cache:6379"),
        ] {
            assert_eq!(url(text).shown(), expected, "{text}");
        }
    }

    #[test]
    fn user_and_password_are_kept_apart_and_never_shown() {
        let server = url("rediss://ops:p%40ss%2Fword@cache/1#insecure");
        assert_eq!(server.username.as_deref(), Some("ops"));
        assert_eq!(server.password.as_ref().unwrap().reveal(), "p@ss/word");
        assert!(server.tls && server.insecure);
        assert!(!format!("{server} {server:?}").contains("ss/word"));
        assert_eq!(url("unix:///s?user=a&pass=b").password.unwrap().reveal(), "b");
        assert_eq!(url("redis://:only@h").username, None);
    }

    #[test]
    fn a_wrong_url_names_the_fix_and_not_the_password() {
        for (text, part) in [
            ("localhost:6379", "write redis://"),
            ("http://sekret@localhost", "scheme \"http\""),
            ("redis://:sekret@host:99999", "port"),
            ("redis://:sekret@host/one", "database number"),
            ("redis://:sek/ret@host", "LOCKSCOPE_PASSWORD"),
            ("redis://user:12#sekret@host", "%23"),
            ("redis://:sekret@host?dd=1", "known are db"),
            ("redis://:sekret@0.0.0.0", "wildcard"),
            ("redis://:sekret@host#x", "insecure"),
            ("unix://run/redis.sock", "three slashes"),
            ("redis+cluster://:sekret@h", "not supported yet"),
            ("redis+sentinel://a:1,b:2/main", "not supported yet"),
        ] {
            let fault = ServerUrl::parse(text).unwrap_err();
            let sentence = fault.to_string();
            assert!(sentence.contains(part), "{text}: {sentence}");
            assert!(!sentence.contains("sek"), "{text}: {sentence}");
            assert!(!sentence.contains("12#"), "{text}: {sentence}");
            assert_eq!(fault.exit_code(), 2);
        }
    }
}
