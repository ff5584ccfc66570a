//! Why there is no answer, each in a sentence that names the fix.

use std::io;
use std::time::Duration;

use crate::base::text::{said, short_duration};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Nobody listens there, or it can't be reached.
    Connect(String),
    Timeout(Duration),
    /// The server's certificate, or ours, is not accepted.
    Tls(String),
    /// It speaks, but not TLS.
    NotTls,
    /// It speaks, but not HTTP.
    NotHttp,
    Broken(String),
    Large,
    /// No certificate can have that name.
    Name,
    /// The file of a secret can't be read.
    Secret(String),
    Request,
}

impl Trouble {
    pub(super) fn of_connect(why: io::Error) -> Trouble {
        Trouble::Connect(match why.kind() {
            io::ErrorKind::ConnectionRefused => "nobody listens there".into(),
            _ => said(&why),
        })
    }

    pub(super) fn of_tls(why: io::Error) -> Trouble {
        let inner = why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidMessage(_)) => Trouble::NotTls,
            Some(inner) => Trouble::Tls(said(inner)),
            None => Trouble::Broken(said(&why)),
        }
    }

    pub(super) fn of_http(why: &hyper::Error) -> Trouble {
        use std::error::Error;
        // A server may refuse our certificate only after the handshake.
        let tls = why.source().and_then(|source| source.downcast_ref::<io::Error>()).and_then(|inner| inner.get_ref());
        match tls.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => Trouble::Tls(said(inner)),
            None if why.is_parse() => Trouble::NotHttp,
            None => Trouble::Broken(said(why)),
        }
    }

    /// What happened, and what to do about it.
    pub fn sentence(&self) -> String {
        match self {
            Trouble::Connect(why) => format!("can't be reached: {why}; check the address, and whether it runs"),
            Trouble::Timeout(after) => {
                format!(
                    "did not answer within {}; raise the timeout if it is slow",
                    short_duration(after.as_millis() as u64)
                )
            }
            Trouble::Tls(why) => {
                format!("no TLS connection: {why}; check the CA, the host name and the client certificate")
            }
            Trouble::NotTls => "does not speak TLS on that port; write http:// instead of https://".into(),
            Trouble::NotHttp => "does not speak HTTP on that port; check the address".into(),
            Trouble::Broken(why) => format!("broke off: {why}"),
            Trouble::Large => "answers with more than 256 MiB; ask for less".into(),
            Trouble::Name => {
                "has a name that no certificate can have; write the host as it is in its certificate".into()
            }
            Trouble::Secret(why) => why.clone(),
            Trouble::Request => "can't be asked: the address has characters that no request carries".into(),
        }
    }
}
