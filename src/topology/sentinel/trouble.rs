//! Why a Sentinel service can't be read, as a sentence with its fix.

use redis::RedisError;

use crate::base::fault::Fault;
use crate::base::text::{said, visible};

/// Why the present master is not known, or can't be asked.
#[derive(Debug)]
pub enum Trouble {
    /// No sentinel answered; why each of them did not.
    Silent(Vec<(String, RedisError)>),
    /// They do not watch a service of that name; those that they watch.
    NoService(Vec<String>),
    /// The masters that they name at the same time.
    Disagree(Vec<String>),
    /// The named master does not answer.
    Unreached { master: String, error: RedisError },
    /// The named master says that it is a replica.
    NotYet { master: String },
}

impl Trouble {
    /// `shown`: the address that the user gave.
    pub fn fault(&self, shown: &str, service: &str) -> Fault {
        let service = visible(service.as_bytes());
        match self {
            Trouble::Silent(errors) => silent(errors, shown),
            Trouble::NoService(others) if others.is_empty() => {
                Fault::usage(format!("the sentinels of {shown} watch no service at all; check host and port"))
            }
            Trouble::NoService(others) => {
                let others: Vec<String> = others.iter().map(|name| visible(name.as_bytes())).collect();
                let others = others.join(", ");
                Fault::usage(format!("the sentinels of {shown} watch no service {service:?}; they watch {others}"))
            }
            Trouble::Disagree(masters) => Fault::server(format!(
                "the sentinels of {shown} disagree on the master of {service}: they name {}; see SENTINEL MASTER {service} on \
                 each of them, or name one server with -u redis://",
                masters.join(" and ")
            )),
            Trouble::Unreached { master, error } => match error.code() {
                Some(_) => Fault::from_redis(error, master),
                None => Fault::server(format!(
                    "the sentinels of {shown} name {master} as the master of {service}, and it can't be reached from here \
                     ({}); if it is reached at another address, say so with --map-host {master}=HOST:PORT",
                    said(error)
                )),
            },
            Trouble::NotYet { master } => Fault::server(format!(
                "the sentinels of {shown} name {master} as the master of {service}, and it is a replica: a failover is under \
                 way; try again in a moment"
            )),
        }
    }
}

fn silent(errors: &[(String, RedisError)], shown: &str) -> Fault {
    let first = errors.first().map(|(_, error)| error);
    if let Some(detail) = first.and_then(RedisError::detail).filter(|detail| detail.contains("unknown command")) {
        let _ = detail;
        return Fault::usage(format!(
            "{shown} is no sentinel: the server there does not know SENTINEL; write redis:// instead of redis+sentinel://"
        ));
    }
    match first.and_then(RedisError::code) {
        Some("NOAUTH") => Fault::server(format!(
            "the sentinels of {shown} ask for a password; give it in LOCKSCOPE_SENTINEL_PASSWORD or with \
             --sentinel-password-file (and --sentinel-user for an ACL user)"
        )),
        Some("WRONGPASS") => Fault::server(format!(
            "the sentinels of {shown} refused the user or password; check --sentinel-user and the password in \
             LOCKSCOPE_SENTINEL_PASSWORD or --sentinel-password-file"
        )),
        Some(_) => Fault::from_redis(first.expect("it has a code"), &format!("a sentinel of {shown}")),
        None => {
            let each: Vec<String> = errors.iter().map(|(name, error)| format!("{name}: {}", said(error))).collect();
            Fault::server(format!("no sentinel of {shown} answers ({}); check their hosts and ports", each.join("; ")))
        }
    }
}
