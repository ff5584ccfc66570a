//! Tells systemd how the daemon is (`Type=notify`, `WatchdogSec=`): one datagram to the socket that it names.
//!
//! Without `NOTIFY_SOCKET` nothing is said. A message that can't be sent is ignored: whether systemd listens must not
//! decide whether locks are watched.

use std::ffi::OsString;
use std::os::unix::net::UnixDatagram;

/// Where systemd listens, if it does.
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// systemd expects to hear from us regularly.
    watched: bool,
}

impl Notify {
    /// From the environment that systemd gives its services.
    pub fn from_environment() -> Notify {
        let watched = std::env::var_os("WATCHDOG_USEC").is_some_and(|time| !time.is_empty());
        Notify { socket: std::env::var_os("NOTIFY_SOCKET").and_then(connect), watched }
    }

    /// Everything works.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// Still alive; said once a second, which is often enough for any watchdog in seconds.
    pub fn alive(&self) {
        if self.watched {
            self.say("WATCHDOG=1");
        }
    }

    /// We end because we were asked to.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, message: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(message.as_bytes());
        }
    }
}

fn connect(address: OsString) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    // A name that begins with '@' is in the abstract namespace, which only Linux has.
    #[cfg(target_os = "linux")]
    if let Some(name) = address.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).ok()?;
        return socket.connect_addr(&address).ok().map(|()| socket);
    }
    socket.connect(address).ok().map(|()| socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_hears_what_it_waits_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let notify = Notify { socket: connect(path.into_os_string()), watched: true };
        notify.ready();
        notify.alive();
        notify.stopping();
        let mut heard = [0; 64];
        for expected in ["READY=1", "WATCHDOG=1", "STOPPING=1"] {
            let length = systemd.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], expected.as_bytes());
        }
    }

    #[test]
    fn a_socket_that_is_not_there_stops_nothing() {
        Notify { socket: connect("/nowhere/notify".into()), watched: true }.ready();
        Notify { socket: None, watched: true }.alive();
    }
}
