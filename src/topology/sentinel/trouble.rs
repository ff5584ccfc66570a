//! Why a Sentinel service can't be read, as a sentence with its fix.

use redis::{ErrorKind, RedisError};

use super::super::is_silence;
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
            Trouble::Unreached { master, error } if is_silence(error) => Fault::server(format!(
                "the sentinels of {shown} name {master} as the master of {service}, and it can't be reached from here ({}); \
                 if it is reached at another address, say so with --map-host {master}=HOST:PORT",
                said(error)
            )),
            Trouble::Unreached { master, error } => Fault::from_redis(error, master),
            Trouble::NotYet { master } => Fault::server(format!(
                "the sentinels of {shown} name {master} as the master of {service}, and it is a replica: a failover is under \
                 way; try again in a moment"
            )),
        }
    }
}

fn silent(errors: &[(String, RedisError)], shown: &str) -> Fault {
    let first = errors.first().map(|(_, error)| error);
    if first.and_then(RedisError::detail).is_some_and(|detail| detail.contains("unknown command")) {
        return Fault::usage(format!(
            "{shown} is no sentinel: the server there does not know SENTINEL; write redis:// instead of redis+sentinel://"
        ));
    }
    let refused = first.is_some_and(|error| error.kind() == ErrorKind::AuthenticationFailed);
    match first.and_then(RedisError::code) {
        Some("NOAUTH") => Fault::server(format!(
            "the sentinels of {shown} ask for a password; give it in LOCKSCOPE_SENTINEL_PASSWORD or with \
             --sentinel-password-file (and --sentinel-user for an ACL user)"
        )),
        code if refused || code == Some("WRONGPASS") => Fault::server(format!(
            "the sentinels of {shown} refused the user or password; check --sentinel-user and the password in \
             LOCKSCOPE_SENTINEL_PASSWORD or --sentinel-password-file"
        )),
        Some(_) => Fault::from_redis(first.expect("it has a code"), &format!("a sentinel of {shown}")),
        None if !errors.is_empty() && errors.iter().all(|(_, error)| !is_silence(error)) => {
            Fault::from_redis(&errors[0].1, shown)
        }
        None => {
            let each: Vec<String> = errors.iter().map(|(name, error)| format!("{name}: {}", said(error))).collect();
            Fault::server(format!("no sentinel of {shown} answers ({}); check their hosts and ports", each.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::{ConnectionRefused, ConnectionReset};

    use super::*;

    fn silent_by(kinds: &[std::io::ErrorKind]) -> String {
        let errors = kinds.iter().map(|kind| ("h:1".to_string(), std::io::Error::from(*kind).into())).collect();
        Trouble::Silent(errors).fault("redis+sentinel://h:1,h:2/orders", "orders").to_string()
    }

    #[test]
    fn sentinels_that_want_tls_are_told_from_those_that_are_not_there() {
        let wants = silent_by(&[ConnectionReset, ConnectionReset]);
        assert!(wants.contains("use rediss+sentinel:// instead of redis+sentinel://"), "{wants}");
        for kinds in [&[ConnectionRefused, ConnectionRefused][..], &[ConnectionReset, ConnectionRefused]] {
            let absent = silent_by(kinds);
            assert!(absent.contains("check their hosts and ports"), "{absent}");
        }
    }

    #[test]
    fn a_master_with_an_unknown_certificate_is_no_master_behind_nat() {
        let said = "invalid peer certificate: UnknownIssuer";
        let error = std::io::Error::new(std::io::ErrorKind::InvalidData, said).into();
        let told = Trouble::Unreached { master: "h:1".into(), error }.fault("rediss+sentinel://h:2/orders", "orders");
        assert!(told.to_string().contains("--tls-ca") && !told.to_string().contains("--map-host"), "{told}");
        let error = std::io::Error::from(ConnectionRefused).into();
        let told = Trouble::Unreached { master: "h:1".into(), error }.fault("rediss+sentinel://h:2/orders", "orders");
        assert!(told.to_string().contains("--map-host h:1=HOST:PORT"), "{told}");
    }
}
