//! Turns errors of Redis, TLS and the network into a sentence with its fix.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use super::{Excess, Node};
use crate::base::fault::Fault;
use crate::base::text;

/// An error of the connection to one of several nodes, with its name: it is not the URL that is to blame.
#[derive(Debug)]
struct AtNode {
    name: String,
    error: RedisError,
}

impl std::fmt::Display for AtNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.error)
    }
}

impl Error for AtNode {}

impl Node {
    /// Names the node in an error of its connection, where it is one of several.
    pub(super) fn blame(&self, error: RedisError) -> RedisError {
        match io_error(&error).filter(|_| self.is_in_cluster()).map(io::Error::kind) {
            Some(kind) => io::Error::new(kind, AtNode { name: self.name.clone(), error }).into(),
            None => error,
        }
    }
}

impl Fault {
    /// Translates an error of the client crate. `url` is the server in its printable form; see
    /// [`ServerUrl::shown`](crate::topology::url::ServerUrl::shown) and [`shown`](crate::base::fault::shown).
    pub fn from_redis(err: &RedisError, url: &str) -> Fault {
        if let Some(AtNode { name, error }) = io_error(err).and_then(|io| io.get_ref()?.downcast_ref()) {
            return Fault::from_redis(error, name);
        }
        if err.detail().is_some_and(|said| said.contains("SELECT is not allowed in cluster mode")) {
            return Fault::usage(format!(
                "{url} is a node of a cluster, which has only database 0; leave the database out"
            ));
        }
        if let Some(sentence) = err.code().and_then(|code| by_code(code, err.detail().unwrap_or(""), url)) {
            return Fault::server(sentence);
        }
        match err.kind() {
            ErrorKind::AuthenticationFailed => Fault::server(wrong_password(url)),
            ErrorKind::InvalidClientConfig => {
                Fault::usage(format!("can't connect to {url} as asked: {}", cleaned(&err.to_string())))
            }
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
                Fault::server(format!("what answers at {url} does not speak the Redis protocol; check host and port"))
            }
            ErrorKind::RESP3NotSupported => {
                Fault::server(format!("{url} is too old: it does not speak RESP3; lockscope needs Redis 6.2 or later"))
            }
            _ => Fault::server(by_io(err, url)),
        }
    }
}

/// Whether it may be that nobody is there, rather than somebody who refuses us or does not speak as expected.
pub fn is_silence(err: &RedisError) -> bool {
    use io::ErrorKind::*;
    let certificate = || err.to_string().contains("certificate");
    match io_error(err).map(io::Error::kind) {
        Some(InvalidData | ConnectionReset | ConnectionAborted | UnexpectedEof | BrokenPipe | NotConnected) => false,
        Some(_) => !certificate(),
        None => err.code().is_none() && err.kind() == ErrorKind::Io && !certificate(),
    }
}

fn by_code(code: &str, detail: &str, url: &str) -> Option<String> {
    let sentence = match code {
        "NOAUTH" => format!(
            "{url} asks for a password; give it in LOCKSCOPE_PASSWORD or with --password-file (and --user for an ACL user)"
        ),
        "WRONGPASS" => wrong_password(url),
        "NOPERM" => not_permitted(detail, url),
        "LOADING" => format!("{url} is still loading its data into memory; try again when it is done"),
        "READONLY" => format!("{url} is a read-only replica; connect to its master to write"),
        "MISCONF" => format!(
            "{url} refuses writes because it can't save its data to disk; see its log, and 'lockscope doctor' for its persistence"
        ),
        "DENIED" => format!(
            "{url} runs in protected mode and answers only on its own machine; connect from there, or set a password or \
             'bind' on the server"
        ),
        "MASTERDOWN" => {
            format!("{url} is a replica that has lost its master and does not serve old data; connect to the master")
        }
        "MOVED" | "ASK" => {
            // `MOVED 3999 127.0.0.1:6381`
            let place = detail.rsplit(' ').next().unwrap_or("");
            format!("this key belongs to another node of the cluster of {url}; look at it there: {}", cleaned(place))
        }
        "CLUSTERDOWN" => format!(
            "the cluster of {url} is down: some of its slots have no master that answers; 'lockscope doctor' names the node"
        ),
        "BUSY" => format!("{url} is busy with a script that does not end; SCRIPT KILL on the server stops it"),
        "OOM" => format!("{url} is out of memory and refuses writes; see 'maxmemory' on the server"),
        "ERR" if detail.contains("DB index is out of range") => {
            format!(
                "there is no such database at {url}; check the number after the last '/', and 'databases' on the server"
            )
        }
        "ERR" if detail.contains("max number of clients") => {
            format!("{url} has no free connection; raise 'maxclients' on the server or close idle clients")
        }
        "ERR" if detail.contains("unknown command") => format!(
            "{url} does not know a command that lockscope needs ({}); it is too old, or the command was renamed",
            cleaned(detail)
        ),
        "ERR" if detail.contains("without any password configured") || detail.contains("no password is set") => {
            format!("{url} has no password, but one was given; leave it out")
        }
        code => format!("{url} answered {} {}", cleaned(code), cleaned(detail)).trim_end().to_string(),
    };
    Some(sentence)
}

fn wrong_password(url: &str) -> String {
    format!(
        "{url} refused the user or password; check --user and the password in LOCKSCOPE_PASSWORD, --password-file or the URL"
    )
}

/// NOPERM is about a command, a key or a channel, and each has its own rule in the ACL.
fn not_permitted(detail: &str, url: &str) -> String {
    let command = detail.split_once("to run the '").and_then(|(_, rest)| rest.split('\'').next());
    let fix = match command {
        Some(command) => {
            let command = cleaned(command);
            let rule = command.to_lowercase();
            format!("the command {}; allow it with: ACL SETUSER <user> +{rule}", command.to_uppercase())
        }
        None if detail.contains("channel") => "a channel; allow it with: ACL SETUSER <user> '&__key*'".to_string(),
        None if detail.contains("key") => "a key; allow it with: ACL SETUSER <user> '%R~<pattern>'".to_string(),
        None => format!("something lockscope needs ({})", cleaned(detail)),
    };
    format!("{url} does not permit this user {fix} ('lockscope doctor' prints the whole list)")
}

fn by_io(err: &RedisError, url: &str) -> String {
    let tls = url.starts_with("rediss");
    let (with_tls, without) = schemes(url);
    let unix = url.starts_with("unix") || url.starts_with("redis+unix");
    let said = cleaned(&err.to_string());
    if let Some(excess) = io_error(err).and_then(|io| io.get_ref()?.downcast_ref::<Excess>()) {
        return format!("{url} {excess}, as no Redis server does; check host and port, and what stands in between");
    }
    if said.contains("certificate") {
        return bad_certificate(&said, url);
    }
    if tls && (said.contains("InvalidContentType") || said.contains("corrupt message")) {
        return format!(
            "{url} does not speak TLS on this port; use {without}:// instead of {with_tls}://, or the server's TLS port"
        );
    }
    if said.contains("alert: HandshakeFailure") || said.contains("alert: ProtocolVersion") {
        return format!("{url} shares no TLS version or cipher with lockscope, which speaks TLS 1.2 and 1.3");
    }
    if said.contains("alert: CertificateRequired") || said.contains("alert: BadCertificate") {
        return format!("{url} asks for a client certificate; give one that it trusts with --tls-cert and --tls-key");
    }
    if said.contains("lookup address") || said.contains("resolve") {
        return format!("the host of {url} is not known; check its name and your DNS");
    }
    use io::ErrorKind::*;
    match io_error(err).map(io::Error::kind) {
        Some(NotFound) if unix => {
            format!("there is no socket at {url}; check the path, and 'unixsocket' on the server")
        }
        Some(PermissionDenied) if unix => {
            format!("may not open {url}; check the socket's permissions ('unixsocketperm' on the server)")
        }
        Some(ConnectionRefused) if unix => format!("nobody listens on {url}; is the server running?"),
        Some(ConnectionRefused) => {
            format!("nothing listens at {url}; is the server running? Give another address with --url")
        }
        Some(TimedOut) if tls => {
            format!(
                "{url} did not answer in time; if the port is not a TLS port, use {without}:// instead of {with_tls}://"
            )
        }
        Some(TimedOut | WouldBlock) => {
            format!("{url} did not answer in time; is it overloaded, or a firewall in between?")
        }
        Some(HostUnreachable | NetworkUnreachable) => format!("{url} can't be reached from here; check the network"),
        Some(ConnectionReset | ConnectionAborted | UnexpectedEof | BrokenPipe | NotConnected) if !tls && !unix => {
            format!("{url} closed the connection; if the port is a TLS port, use {with_tls}:// instead of {without}://")
        }
        Some(ConnectionReset | ConnectionAborted | UnexpectedEof | BrokenPipe | NotConnected) => {
            format!("{url} closed the connection; is the server shutting down?")
        }
        _ => format!("lost or could not reach {url}: {said}"),
    }
}

/// The scheme of such a URL with TLS and without: those of clusters and Sentinel services have more after it.
fn schemes(url: &str) -> (String, String) {
    let form = match url.split_once("://").and_then(|(scheme, _)| scheme.split_once('+')) {
        Some((_, form)) => format!("+{form}"),
        None => String::new(),
    };
    (format!("rediss{form}"), format!("redis{form}"))
}

fn bad_certificate(said: &str, url: &str) -> String {
    let why = match () {
        () if said.contains("UnknownIssuer") || said.contains("SelfSigned") => "was issued by nobody we trust",
        () if said.contains("NotValidForName") || said.contains("not valid for name") => "is for another host name",
        () if said.contains("Expired") || said.contains("expired") => "has expired",
        () if said.contains("NotValidYet") || said.contains("not valid yet") => "is not valid yet",
        () if said.contains("CaUsedAsEndEntity") => "is a CA certificate, which can't serve as a server's own",
        () => {
            return format!(
                "the certificate of {url} is not accepted ({said}); name its CA with --tls-ca, or skip the check with --insecure"
            );
        }
    };
    format!("the certificate of {url} {why}; name its CA with --tls-ca, or skip the check with --insecure")
}

/// The I/O error inside: the crate wraps it in an `Arc` that `source` hands out as it is.
fn io_error(err: &RedisError) -> Option<&io::Error> {
    let source = err.source()?;
    if let Some(io) = source.downcast_ref::<io::Error>() {
        return Some(io);
    }
    let shared = source.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    shared.downcast_ref::<io::Error>()
}

fn cleaned(said: &str) -> String {
    text::said(&said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("{line}\r\n").as_bytes());
        match value {
            Ok(value) => value.extract_error().unwrap_err(),
            Err(err) => err,
        }
    }

    fn failed(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    fn said(text: &str) -> RedisError {
        io::Error::new(io::ErrorKind::InvalidData, text).into()
    }

    #[test]
    fn what_the_server_answers_becomes_a_sentence_with_a_fix() {
        for (line, part) in [
            ("-NOAUTH Authentication required.", "LOCKSCOPE_PASSWORD"),
            ("-WRONGPASS invalid username-password pair or user is disabled.", "refused the user or password"),
            (
                "-NOPERM this user has no permissions to run the 'scan' command",
                "SCAN; allow it with: ACL SETUSER <user> +scan",
            ),
            ("-NOPERM User w has no permissions to run the 'config|get' command", "+config|get"),
            ("-NOPERM this user has no permissions to access one of the keys used as arguments", "%R~<pattern>"),
            ("-NOPERM this user has no permissions to access one of the channels used as arguments", "&__key*"),
            ("-LOADING Redis is loading the dataset in memory", "loading"),
            ("-READONLY You can't write against a read only replica.", "master"),
            ("-MISCONF Redis is configured to save RDB snapshots", "disk"),
            ("-DENIED Redis is running in protected mode because", "protected mode"),
            ("-ERR DB index is out of range", "no such database"),
            ("-ERR max number of clients reached", "maxclients"),
            ("-ERR unknown command 'SCAN', with args", "does not know a command"),
            ("-ERR AUTH <password> called without any password configured for the default user.", "leave it out"),
            ("-ODD \u{1b}[2J something", "answered ODD \\u{1b}[2J something"),
            ("<!DOCTYPE html>", "does not speak the Redis protocol"),
        ] {
            let fault = Fault::from_redis(&answered(line), "redis://h:1");
            assert!(fault.to_string().contains(part), "{line}: {fault}");
            assert!(fault.to_string().contains("redis://h:1"), "{line}: {fault}");
            assert_eq!(fault.exit_code(), 3, "{line}");
        }
    }

    #[test]
    fn what_the_network_does_becomes_a_sentence_with_a_fix() {
        use io::ErrorKind::*;
        for (err, url, part) in [
            (failed(ConnectionRefused), "redis://h:1", "is the server running"),
            (failed(ConnectionRefused), "unix:///s", "nobody listens"),
            (failed(NotFound), "unix:///s", "no socket"),
            (failed(PermissionDenied), "unix:///s", "permissions"),
            (failed(TimedOut), "redis://h:1", "in time"),
            (failed(TimedOut), "rediss://h:1", "use redis:// instead of rediss://"),
            (failed(ConnectionReset), "redis://h:1", "use rediss:// instead of redis://"),
            (failed(UnexpectedEof), "rediss://h:1", "closed the connection"),
            (failed(ConnectionReset), "redis+cluster://h:1", "use rediss+cluster:// instead of redis+cluster://"),
            (failed(NetworkUnreachable), "redis://h:1", "check the network"),
            (said("failed to lookup address information: Name or service not known"), "redis://h", "DNS"),
            (said("received corrupt message of type InvalidContentType"), "rediss://h:1", "does not speak TLS"),
            (
                said("invalid peer certificate: UnknownIssuer"),
                "rediss://h:1",
                "--tls-ca, or skip the check with --insecure",
            ),
            (said("invalid peer certificate: NotValidForName"), "rediss://h:1", "another host name"),
            (said("invalid peer certificate: Expired"), "rediss://h:1", "expired"),
            (said("received fatal alert: CertificateRequired"), "rediss://h:1", "--tls-cert"),
        ] {
            let fault = Fault::from_redis(&err, url);
            assert!(fault.to_string().contains(part), "{err}: {fault}");
            assert_eq!(fault.exit_code(), 3);
        }
    }

    #[test]
    fn an_answer_beyond_all_limits_is_told_as_such() {
        let err = io::Error::new(io::ErrorKind::InvalidData, Excess::Large).into();
        let fault = Fault::from_redis(&err, "redis://h:1");
        assert!(fault.to_string().starts_with("redis://h:1 sent an answer of more than 64 MiB, "), "{fault}");
        assert_eq!(fault.exit_code(), 3);
    }

    #[test]
    fn a_refused_password_is_told_in_both_protocols() {
        let err = RedisError::from((ErrorKind::AuthenticationFailed, "Password authentication failed"));
        assert!(Fault::from_redis(&err, "redis://h").to_string().contains("refused the user or password"));
    }
}
