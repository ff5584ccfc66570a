//! How one node sees its cluster: the answer to CLUSTER NODES. Pure.
//!
//! CLUSTER NODES and not SHARDS, because every version has it and it alone tells the epochs, by which an outdated view
//! is recognised; and never SLOTS, which leaves out replicas for seconds.

use crate::lock::SLOTS;

/// A cluster in the eyes of one node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    pub members: Vec<Seen>,
}

/// One node in the eyes of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub id: String,
    /// Empty: the host that was asked.
    pub ip: String,
    pub hostname: Option<String>,
    pub port: u16,
    pub role: SeenRole,
    /// The others agree that it is down.
    pub failed: bool,
    /// Of the last time it was given slots: the higher one wins.
    pub epoch: u64,
    /// The first and the last slot of each range.
    pub slots: Vec<(u16, u16)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SeenRole {
    Master,
    /// Of the node with this id.
    Replica(String),
}

impl View {
    /// Leaves out lines that it can't read, and nodes that are not known well enough to be reached.
    pub fn parse(text: &str) -> View {
        View { members: text.lines().filter_map(Seen::parse).collect() }
    }

    /// The newest epoch that it knows of.
    pub fn epoch(&self) -> u64 {
        self.members.iter().map(|seen| seen.epoch).max().unwrap_or(0)
    }
}

/// What the node that was asked says of itself: its epoch, and the slots that it claims as a master.
pub struct Myself {
    pub epoch: u64,
    pub slots: Vec<(u16, u16)>,
}

impl Myself {
    pub fn parse(text: &str) -> Option<Myself> {
        let is_own = |line: &&str| {
            line.split_ascii_whitespace().nth(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself"))
        };
        let seen = Seen::parse(text.lines().find(is_own)?)?;
        let slots = if seen.role == SeenRole::Master { seen.slots } else { Vec::new() };
        Some(Myself { epoch: seen.epoch, slots })
    }
}

impl Seen {
    /// `ID IP:PORT@BUS[,HOSTNAME[,…]] FLAGS MASTER PING PONG EPOCH LINK SLOT…`
    fn parse(line: &str) -> Option<Seen> {
        let mut words = line.split_ascii_whitespace();
        let (id, address, flags, master) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (_ping, _pong, epoch, _link) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let has = |flag: &str| flags.split(',').any(|other| other == flag);
        if has("handshake") || has("noaddr") {
            return None;
        }
        let mut parts = address.split(',');
        let place = parts.next()?;
        let (ip, port) = place.split_once('@').map_or(place, |(place, _bus)| place).rsplit_once(':')?;
        let hostname = parts.next().filter(|name| !name.is_empty() && !name.contains('='));
        let role = match has("master") {
            true => SeenRole::Master,
            false => SeenRole::Replica(master.to_string()),
        };
        Some(Seen {
            id: id.to_string(),
            ip: ip.trim_start_matches('[').trim_end_matches(']').to_string(),
            hostname: hostname.map(str::to_string),
            port: port.parse().ok().filter(|port| *port > 0)?,
            role,
            failed: has("fail"),
            epoch: epoch.parse().ok()?,
            slots: words.filter_map(range).collect(),
        })
    }
}

/// `0-5460` or `7`; `None` for a slot on its way, such as `[93-<-…]`.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < SLOTS).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
07c3 127.0.0.1:30004@31004,host-4 slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:30002@31002,host-2,shard-id=ab master - 0 1426238316232 2 connected 5461-10922
e7d1 :30001@31001 myself,master - 0 0 1 connected 0-5460 [5461->-67ed] 16383
2930 ::1:30003@31003 master,fail - 0 1426238318243 7 disconnected
aaaa :0@0 master,noaddr - 0 0 9 disconnected
bbbb 10.0.0.9:7@8 handshake - 0 0 0 connected
rubbish
";

    #[test]
    fn nodes_are_read_with_their_roles_slots_and_epochs() {
        let view = View::parse(NODES);
        let ids: Vec<&str> = view.members.iter().map(|seen| seen.id.as_str()).collect();
        assert_eq!((ids, view.epoch()), (vec!["07c3", "67ed", "e7d1", "2930"], 7));
        let own = Myself::parse(NODES).unwrap();
        assert_eq!((own.epoch, own.slots), (1, vec![(0, 5460), (16383, 16383)]));
        let [replica, second, first, failed] = &view.members[..] else { panic!() };
        assert_eq!((&replica.role, replica.hostname.as_deref()), (&SeenRole::Replica("e7d1".into()), Some("host-4")));
        assert_eq!((second.slots.as_slice(), second.hostname.as_deref()), (&[(5461, 10922)][..], Some("host-2")));
        assert_eq!((first.ip.as_str(), first.slots.as_slice()), ("", &[(0, 5460), (16383, 16383)][..]));
        assert_eq!((failed.ip.as_str(), failed.port, failed.failed), ("::1", 30003, true));
    }

    #[test]
    fn rubbish_is_left_out() {
        let line = "a 1.2.3.4:70000@1 master - 0 0 1 connected 5-3 99999 x-y";
        assert_eq!(View::parse(line), View::default());
        let line = "a 1.2.3.4:7000@1 master - 0 0 1 connected 5-3 99999 x-y 7";
        assert_eq!(View::parse(line).members[0].slots, [(7, 7)]);
    }
}
