//! The one error a user sees: a sentence that names the fix, and the exit code that goes with it.
//!
//! Commands return it, and `main` prints it on stderr. `topology/fault.rs` translates errors of Redis and the network. A
//! fault never contains a password.

use std::fmt;
use std::io::{self, Write};

use crate::base::text;

/// What the exit code of the process says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Something was found, or refused on purpose.
    Finding = 1,
    /// The command line, a filter, a pattern or the config is wrong.
    Usage = 2,
    /// Could not connect, not permitted, or lost the server.
    Server = 3,
}

/// A sentence for the person, and the exit code for the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub exit: Exit,
    /// Harmless to a terminal, whatever it quotes.
    sentence: String,
    /// Lines to print beneath, such as the place of the error in a filter.
    detail: Option<String>,
}

impl Fault {
    pub fn usage(sentence: impl Into<String>) -> Fault {
        Fault::new(Exit::Usage, sentence)
    }

    pub fn server(sentence: impl Into<String>) -> Fault {
        Fault::new(Exit::Server, sentence)
    }

    pub fn finding(sentence: impl Into<String>) -> Fault {
        Fault::new(Exit::Finding, sentence)
    }

    fn new(exit: Exit, sentence: impl Into<String>) -> Fault {
        Fault { exit, sentence: text::harmless(&sentence.into()), detail: None }
    }

    /// With lines to print beneath the sentence.
    pub fn with_detail(self, detail: impl Into<String>) -> Fault {
        let lines: Vec<String> = detail.into().split('\n').map(text::harmless).collect();
        Fault { detail: Some(lines.join("\n")), ..self }
    }

    /// The same, with its place in front: a variable, or a line of a file.
    pub fn at(self, place: &str) -> Fault {
        Fault { sentence: text::harmless(&format!("{place}: {}", self.sentence)), ..self }
    }

    pub fn exit_code(&self) -> u8 {
        self.exit as u8
    }

    /// Prints `lockscope: sentence`, and the detail beneath it.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "lockscope: {}", self.sentence)?;
        match &self.detail {
            Some(detail) => writeln!(out, "{detail}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Fault {}

impl From<io::Error> for Fault {
    /// Writing our own output failed. A reader that went away is handled before this, see [`quiet_pipe`].
    fn from(why: io::Error) -> Fault {
        Fault::server(format!("could not write the output: {why}"))
    }
}

/// A reader that has seen enough (`lockscope ls | head`) is no error.
pub fn quiet_pipe(result: io::Result<()>) -> Result<(), Fault> {
    match result {
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// A URL without user and password, safe to print even if it is not valid. A password in the wrong place is hidden too: as
/// the port, in the path, in an unknown parameter.
pub fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let colon = if scheme.is_empty() { "" } else { "://" };
    let is_path = matches!(scheme.rsplit('=').next(), Some("unix" | "redis+unix" | "valkey+unix"));
    // The last '@' counts, wherever it is: a password may contain anything when it was not escaped.
    let (login, rest) = match rest.rsplit_once('@') {
        // The '@' is in a parameter, so the secret continues after it.
        Some((before, _)) if before.split_once('?').is_some_and(|(_, query)| query.contains('=')) => ("***", ""),
        Some((_, after)) => ("***@", after),
        None => ("", rest),
    };
    let (rest, fragment) = match rest.split_once('#') {
        Some((rest, "insecure")) => (rest, "#insecure"),
        Some((rest, _)) => (rest, "#***"),
        None => (rest, ""),
    };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let place = if is_path { place.to_string() } else { shown_place(place) };
    let query = query.map(|query| query.split('&').map(shown_parameter).collect::<Vec<_>>().join("&"));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    text::visible(format!("{scheme}{colon}{login}{place}{query}{fragment}").as_bytes())
}

/// Hosts with their ports, and the database.
fn shown_place(place: &str) -> String {
    let (authority, path) = place.split_once('/').map_or((place, None), |(authority, path)| (authority, Some(path)));
    let hosts: Vec<String> = authority.split(',').map(shown_host).collect();
    let is_number = |part: &str| part.len() <= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    match path {
        None => hosts.join(","),
        Some(path) if is_number(path) => format!("{}/{path}", hosts.join(",")),
        Some(_) => format!("{}/***", hosts.join(",")),
    }
}

fn shown_host(host: &str) -> String {
    // An address in brackets has colons of its own.
    let begin = host.rfind(']').map_or(0, |end| end + 1);
    match host[begin..].split_once(':') {
        Some((_, port)) if port.parse::<u16>().is_err() => format!("{}:***", &host[..host.len() - port.len() - 1]),
        _ => host.to_string(),
    }
}

fn shown_parameter(pair: &str) -> String {
    match pair.split_once('=') {
        Some(("db", number)) if number.parse::<u32>().is_ok() => pair.to_string(),
        Some(("user" | "username", _)) => pair.to_string(),
        Some((name, _)) => format!("{name}=***"),
        None => "***".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_password() {
        assert_eq!(shown("redis://ops:pw@cache:1/0"), "redis://***@cache:1/0");
        assert_eq!(shown("redis://:p@ss/w#?@cache"), "redis://***@cache");
        assert_eq!(shown("unix:///s?user=a&pass=b&db=1"), "unix:///s?user=a&pass=***&db=1");
        assert_eq!(shown("unix:///s?password=a@b"), "unix://***");
        assert_eq!(shown("unix:///s?auth=a@b"), "unix://***");
        assert_eq!(shown("redis://default:pw/0"), "redis://default:***/0");
        assert_eq!(shown("redis://[::1]:7000/0"), "redis://[::1]:7000/0");
        assert_eq!(shown("redis://[::1]:pw"), "redis://[::1]:***");
        assert_eq!(shown("redis://h/pw?pwd=pw&pw#pw"), "redis://h/***?pwd=***&***#***");
        assert_eq!(shown("default:pw"), "default:***");
        assert_eq!(shown("redis:/default:pw"), "redis:***/***");
        assert_eq!(shown("redis://:a?pass=b@c"), "redis://***");
        assert_eq!(shown("pw@cache"), "***@cache");
        assert_eq!(shown("redis://cache\u{1b}[2J"), "redis://cache\\u{1b}[2J");
    }

    #[test]
    fn a_fault_is_one_line_and_a_detail_beneath() {
        let mut out = Vec::new();
        Fault::usage("the filter is wrong").with_detail("  a b\n  ^").print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "lockscope: the filter is wrong\n  a b\n  ^\n");
        assert_eq!(
            [Fault::finding("").exit_code(), Fault::usage("").exit_code(), Fault::server("").exit_code()],
            [1, 2, 3]
        );
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        assert!(quiet_pipe(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(quiet_pipe(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
