//! Where `serve` listens: the address, and whether others than this machine may reach it.
//!
//! Names of locks tell a stranger a lot, so a public address needs a login or the user's word. Nothing is accepted here.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use crate::base::fault::Fault;

/// An address that may be listened on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address(Vec<SocketAddr>);

impl Address {
    /// Reads `HOST:PORT`. An address that other machines can reach is refused unless `exposed` says that this is meant.
    pub fn read(text: &str, exposed: bool) -> Result<Address, Fault> {
        let is_port = |port: &str| port.parse::<u16>().is_ok();
        if !text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port)) {
            return Err(Fault::usage(format!("--listen {text:?} is not HOST:PORT; write it like 127.0.0.1:9190")));
        }
        let found = text.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
        if found.is_empty() {
            return Err(Fault::usage(format!(
                "--listen {text:?}: no address of this machine has that name; write it like 127.0.0.1:9190"
            )));
        }
        let address = Address(found);
        if address.is_public() && !exposed {
            return Err(Fault::usage(format!(
                "{text} can be reached from other machines, and /metrics tells names of locks; protect it with --auth-file FILE, \
                 or add --public if everybody there may read them"
            )));
        }
        Ok(address)
    }

    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        self.0.iter().any(|address| !address.ip().to_canonical().is_loopback())
    }

    pub fn bind(&self) -> Result<TcpListener, Fault> {
        let bound = TcpListener::bind(&*self.0);
        let listener = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        listener.map_err(|why| {
            let address = self.0.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" or ");
            Fault::server(match why.kind() {
                ErrorKind::AddrInUse => {
                    format!("{address} is in use by another program; choose another address with --listen")
                }
                ErrorKind::PermissionDenied => {
                    format!("listening on {address} is not permitted; choose a port above 1023 with --listen")
                }
                ErrorKind::AddrNotAvailable => {
                    format!("{address} is no address of this machine; choose another with --listen")
                }
                _ => format!("can't listen on {address}: {why}"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_needs_a_word() {
        for text in ["0.0.0.0:9190", "[::]:9190", "192.0.2.1:9190", "[::ffff:192.0.2.1]:9190"] {
            let fault = Address::read(text, false).unwrap_err();
            assert_eq!(fault.exit_code(), 2, "{text}");
            assert!(fault.to_string().contains("--public"), "{fault}");
            assert!(Address::read(text, true).unwrap().is_public());
        }
        for text in ["127.0.0.1:9190", "127.1.2.3:0", "[::1]:9190", "[::ffff:127.0.0.1]:1", "localhost:9190"] {
            assert!(!Address::read(text, false).unwrap().is_public(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_how_to_write_one() {
        for text in
            ["", "9190", ":9190", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", "nowhere.invalid:1"]
        {
            let fault = Address::read(text, true).unwrap_err();
            assert_eq!(fault.exit_code(), 2, "{text}");
            assert!(fault.to_string().contains("127.0.0.1:9190"), "{fault}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let text = taken.local_addr().unwrap().to_string();
        let fault = Address::read(&text, false).unwrap().bind().unwrap_err();
        assert_eq!(fault.exit_code(), 3);
        assert!(fault.to_string().contains("in use") && fault.to_string().contains(&text), "{fault}");
    }
}
