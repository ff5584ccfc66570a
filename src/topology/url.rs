//! The address of a server as users write it: `redis://`, `rediss://`, `redis+unix://`, `unix://`, that of a cluster:
//! `redis+cluster://`, `rediss+cluster://`, and that of a service by its sentinels: `redis+sentinel://HOST,HOST/SERVICE`.
//!
//! Parsing keeps the password apart, and no way to print the result shows it.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::base::fault::{Fault, shown};
use crate::base::secret::Secret;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// One server, as its URL describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerUrl {
    pub address: Address,
    /// More nodes of the same cluster, or sentinels of the same service.
    pub more: Vec<Address>,
    /// It must be a node of a cluster.
    pub cluster: bool,
    /// The addresses are those of sentinels, which watch this service.
    pub service: Option<String>,
    pub tls: bool,
    /// `#insecure`: TLS without checking the certificate.
    pub insecure: bool,
    pub db: u32,
    pub username: Option<String>,
    pub password: Option<Secret>,
}

const FORMS: &str = "redis://host:6379/0, rediss://host:6379 (TLS), redis+cluster://host:6379, \
                     redis+sentinel://host:26379/SERVICE or unix:///path/to.sock";

/// Where sentinels usually listen.
const SENTINEL_PORT: u16 = 26379;

const PORT: &str = "has a port that is no number from 1 to 65535";

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
            "redis+cluster" | "valkey+cluster" => cluster(text, rest, false),
            "rediss+cluster" | "valkeys+cluster" => cluster(text, rest, true),
            "redis+sentinel" | "valkey+sentinel" => sentinel(text, rest, false),
            "rediss+sentinel" | "valkeys+sentinel" => sentinel(text, rest, true),
            other => Err(Fault::usage(format!("there is no URL scheme {other:?}; write {FORMS}"))),
        }
    }

    /// All addresses that it names.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.more)
    }

    /// The same server without its password, in the form a user would type.
    pub fn shown(&self) -> String {
        self.to_string()
    }
}

/// Several nodes may be named, each with its port: whichever answers names the others.
fn cluster(text: &str, rest: &str, tls: bool) -> Result<ServerUrl, Fault> {
    let first = several(text, rest, tls, str::to_string)?;
    if first.db != 0 {
        return Err(bad(text, "names a database, and a cluster has only database 0; leave it out"));
    }
    Ok(ServerUrl { cluster: true, ..first })
}

/// The sentinels come first, then the name of their service, then the database.
fn sentinel(text: &str, rest: &str, tls: bool) -> Result<ServerUrl, Fault> {
    let (authority, tail) = authority_of(rest);
    no_login_in(text, tail)?;
    let (path, query) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let service = decoded(text, "service", parts.next().unwrap_or_default())?;
    if service.is_empty() || service.contains(char::is_control) {
        return Err(bad(text, "names no service; write redis+sentinel://host:26379/SERVICE"));
    }
    let db = parts.next().filter(|db| !db.is_empty()).map(|db| format!("/{db}")).unwrap_or_default();
    let with_port = |host: &str| match host {
        "" => format!("127.0.0.1:{SENTINEL_PORT}"),
        host if host.ends_with(']') || !host.contains(':') => format!("{host}:{SENTINEL_PORT}"),
        host => host.to_string(),
    };
    let first = several(text, &format!("{authority}{db}{query}"), tls, with_port)?;
    Ok(ServerUrl { service: Some(service), ..first })
}

/// Several hosts with one login, one path and one query.
fn several(text: &str, rest: &str, tls: bool, host: impl Fn(&str) -> String) -> Result<ServerUrl, Fault> {
    let (authority, tail) = authority_of(rest);
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let at = if login.is_empty() { "" } else { "@" };
    let scheme = if tls { "rediss" } else { "redis" };
    let one = |named: &str| {
        let rest = format!("{login}{at}{}{tail}", host(named));
        tcp(&format!("{scheme}://{rest}"), &rest, tls)
    };
    let mut nodes = hosts.split(',').map(one).collect::<Result<Vec<_>, _>>()?.into_iter();
    let first = nodes.next().ok_or_else(|| bad(text, "names no node"))?;
    Ok(ServerUrl { more: nodes.map(|node| node.address).collect(), ..first })
}

/// Login and hosts, and what follows them.
fn authority_of(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// A '/', '#' or '?' in a password ends the authority too early; the part before it would be taken for a host.
fn no_login_in(text: &str, tail: &str) -> Result<(), Fault> {
    if !tail.contains('@') {
        return Ok(());
    }
    Err(bad(
        text,
        "has an '@' after the host; write special characters of a password as %23 (#), %2F (/), %3F (?) or %40 (@), or put \
         the password into LOCKSCOPE_PASSWORD",
    ))
}

fn tcp(text: &str, rest: &str, tls: bool) -> Result<ServerUrl, Fault> {
    let (authority, tail) = authority_of(rest);
    no_login_in(text, tail)?;
    let url = Url::parse(text).map_err(|why| match why {
        url::ParseError::InvalidPort => bad(text, PORT),
        _ => bad(text, &format!("can't be read ({why}); write {FORMS}")),
    })?;
    let host = match url.host() {
        Some(url::Host::Domain(name)) => decoded(text, "host", name)?,
        Some(url::Host::Ipv4(ip)) => ip.to_string(),
        Some(url::Host::Ipv6(ip)) => ip.to_string(),
        None => String::new(),
    };
    let host = if host.is_empty() { "127.0.0.1".to_string() } else { host };
    if host == "0.0.0.0" || host == "::" {
        return Err(bad(text, "names a wildcard address; give the address to connect to, for example 127.0.0.1"));
    }
    let port = url.port().unwrap_or(6379);
    if port == 0 {
        return Err(bad(text, PORT));
    }
    let username = match url.username() {
        "" => None,
        name => Some(decoded(text, "user", name)?),
    };
    let password = match url.password() {
        Some(word) if !word.is_empty() => Some(decoded(text, "password", word)?),
        // `user:@` is a user with an empty password; the parser does not distinguish it from `user@`.
        _ => authority.contains(":@").then(String::new).filter(|_| username.is_some()),
    };
    let mut server = ServerUrl {
        address: Address::Tcp { host, port },
        more: Vec::new(),
        cluster: false,
        service: None,
        tls,
        insecure: false,
        db: 0,
        username,
        password: password.map(Secret::new),
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
    let path = decoded(text, "path", url.path())?;
    if path.len() < 2 || url.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(bad(text, "has no absolute path; write unix:///path/to.sock, with three slashes"));
    }
    let mut server = ServerUrl {
        address: Address::Unix(PathBuf::from(path)),
        more: Vec::new(),
        cluster: false,
        service: None,
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
    for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(bad(text, "has a parameter without a value; write it as ?db=1"));
        };
        let name = decoded(text, "parameter", name)?;
        // As in a form, a space may be written as a plus.
        let value = || decoded(text, "parameter", &value.replace('+', " "));
        match name.as_str() {
            "db" => server.db = database(text, &value()?)?,
            "user" | "username" => server.username = Some(value()?),
            "pass" | "password" => server.password = Some(Secret::new(value()?)),
            name if IGNORED.contains(&name) => {}
            // Show only the name: the value may be a password.
            name => return Err(bad(text, &format!("has a parameter {name:?}; known are db, user and password"))),
        }
    }
    Ok(())
}

fn database(text: &str, number: &str) -> Result<u32, Fault> {
    number.parse().map_err(|_| bad(text, "has something else where the database number belongs, as in /0"))
}

/// Decodes percent escapes. An invalid one is an error: the part is neither dropped nor taken literally.
fn decoded(text: &str, what: &str, part: &str) -> Result<String, Fault> {
    let bytes = percent_decode(part).ok_or_else(|| {
        bad(text, &format!("has a '%' in its {what} that begins no escape such as %40; write a '%' itself as %25"))
    })?;
    String::from_utf8(bytes).map_err(|_| {
        bad(text, &format!("has escapes in its {what} that make no UTF-8 text; write a '%' itself as %25"))
    })
}

/// A name as a part of a path: everything but the usual characters is written as an escape.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
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
            (b'%', _) => return None,
            _ => out.push(*first),
        }
    }
    Some(out)
}

fn bad(text: &str, why: &str) -> Fault {
    Fault::usage(format!("the URL {} {why}", shown(text)))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            address @ Address::Tcp { .. } => {
                let scheme = if self.tls { "rediss" } else { "redis" };
                let kind = match &self.service {
                    Some(_) => "+sentinel",
                    None if self.cluster => "+cluster",
                    None => "",
                };
                write!(f, "{scheme}{kind}://{address}")?;
                self.more.iter().try_for_each(|address| write!(f, ",{address}"))?;
                if let Some(service) = &self.service {
                    write!(f, "/{}", escaped(service))?;
                }
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
            ("redis+cluster://anna:s3cret@a,b:7001,[::1]:7/0", "redis+cluster://a:6379,b:7001,[::1]:7"),
            ("rediss+cluster://a", "rediss+cluster://a:6379"),
            ("redis+sentinel://:s3cret@a,b:7001,[::1]/orders", "redis+sentinel://a:26379,b:7001,[::1]:26379/orders"),
            ("rediss+sentinel://a/the%20shop/3", "rediss+sentinel://a:26379/the%20shop/3"),
            ("redis+sentinel:///main/?db=2", "redis+sentinel://127.0.0.1:26379/main/2"),
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
        assert_eq!(url("redis://open:@h").password.unwrap().reveal(), "");
        assert_eq!((url("redis://open@h").password, url("redis://:@h").password), (None, None));
    }

    #[test]
    fn a_wrong_url_names_the_fix_and_not_the_password() {
        for (text, part) in [
            ("localhost:6379", "write redis://"),
            ("http://sekret@localhost", "scheme \"http\""),
            ("redis://:sekret@host:99999", "port"),
            ("redis://:sekret@host:0", "1 to 65535"),
            ("redis://sekret%zz@host", "%25"),
            ("redis://user:sekret%@host", "%25"),
            ("redis://host?password=sekret%f", "%25"),
            ("redis://host?sekret", "without a value"),
            ("redis://host?pwd=sekret", "\"pwd\""),
            ("redis://default:sekret", "port"),
            ("redis://:sekret@host/one", "database number"),
            ("redis://:sek/ret@host", "LOCKSCOPE_PASSWORD"),
            ("redis://user:12#sekret@host", "%23"),
            ("redis://:sekret@host?dd=1", "known are db"),
            ("redis://:sekret@0.0.0.0", "wildcard"),
            ("redis://:sekret@host#x", "insecure"),
            ("unix://run/redis.sock", "three slashes"),
            ("redis+cluster://:sekret@h,i:2/1", "only database 0"),
            ("redis+cluster://:sekret@h:1,i:x", "port"),
            ("redis+sentinel://:sekret@a:1,b:2", "names no service"),
            ("redis+sentinel://:sekret@a:1,b:2//1", "names no service"),
            ("redis+sentinel://:sekret@a:1,b:2/main/one", "database number"),
            ("redis+sentinel://:sekret@a:1,b:x/main", "port"),
            ("redis+sentinel://:sek/ret@a:1/main", "LOCKSCOPE_PASSWORD"),
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
