//! The bus by which the nodes of a test's cluster talk to each other, led through this process, so that a node can be cut
//! off from the others while clients still reach all of them: a real partition, without rights that not every machine gives.
//!
//! Each node announces a port here instead of its own. Who calls is known by its address, since each node calls from another
//! one of 127/8.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::server::free_port;

/// How a node takes part in the bus.
pub struct Stop {
    /// The port that it announces, here.
    pub announced: u16,
    /// Where it listens itself.
    pub own: u16,
    /// From where it calls others.
    pub address: Ipv4Addr,
}

#[derive(Clone, Default)]
pub struct Bus(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    stops: u8,
    /// Nodes that are cut off.
    cut: HashSet<u8>,
    /// Connections from one node to another.
    calls: Vec<(u8, u8, TcpStream)>,
}

impl Bus {
    /// A stop for one more node.
    pub fn stop(&self) -> Stop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let (announced, own) = (listener.local_addr().expect("it is bound").port(), free_port());
        let number = {
            let mut state = self.0.lock().expect("nobody panicked");
            state.stops += 1;
            state.stops
        };
        let bus = self.clone();
        thread::spawn(move || {
            for call in listener.incoming().flatten() {
                bus.connect(call, number, own);
            }
        });
        Stop { announced, own, address: Ipv4Addr::new(127, 0, 77, number) }
    }

    /// Nobody hears from the node at this stop any more, nor it from them. Stops count from one.
    pub fn cut(&self, number: u8) {
        let mut state = self.0.lock().expect("nobody panicked");
        state.cut.insert(number);
        let State { cut, calls, .. } = &mut *state;
        calls.retain(|(from, to, stream)| {
            let stays = cut.contains(from) == cut.contains(to);
            if !stays {
                let _ = stream.shutdown(Shutdown::Both);
            }
            stays
        });
    }

    pub fn heal(&self) {
        self.0.lock().expect("nobody panicked").cut.clear();
    }

    fn connect(&self, call: TcpStream, to: u8, own: u16) {
        let from = match call.peer_addr().map(|address| address.ip()) {
            Ok(IpAddr::V4(address)) if address.octets()[2] == 77 => address.octets()[3],
            _ => return,
        };
        let mut state = self.0.lock().expect("nobody panicked");
        if state.cut.contains(&from) != state.cut.contains(&to) {
            return;
        }
        let Ok(onward) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, own))) else { return };
        let copies = [&call, &onward].map(TcpStream::try_clone);
        let [Ok(back), Ok(forth)] = copies else { return };
        state.calls.extend([(from, to, back), (from, to, forth)]);
        drop(state);
        for (mut source, mut target) in [(call.try_clone(), onward.try_clone()), (Ok(onward), Ok(call))]
            .into_iter()
            .filter_map(|(source, target)| Some((source.ok()?, target.ok()?)))
        {
            thread::spawn(move || {
                let mut bytes = [0; 16_384];
                while let Ok(count @ 1..) = source.read(&mut bytes) {
                    if target.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = (source.shutdown(Shutdown::Both), target.shutdown(Shutdown::Both));
            });
        }
    }
}
