//! Who blocks whom: if a client holds one lock and waits for another, all waiters of the first also wait for the
//! second. Pure, over the locks in demand.
//!
//! Parties are identified by their tokens, if the library uses one for all locks of a thread, and else by the addresses
//! of their connections. Threads may share a connection, so an address is only a suspicion.

use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{Holder, Token};
use crate::model::{Address, Contender, LockView};

/// One lock, and what its holder waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The index of the lock that a holder of this one waits for.
    pub behind: Option<usize>,
    /// Known by a token; else only by the address of a connection.
    pub sure: bool,
}

/// How the given locks block each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blocking {
    links: Vec<Link>,
    /// Locks in a ring: the holder of each waits for the next, the last for the first.
    pub deadlocks: Vec<Vec<usize>>,
}

/// A client that waits.
struct Waiter<'a> {
    token: Option<&'a Token>,
    address: Option<&'a Address>,
    tried: Time,
}

/// A client that holds a lock.
struct Party<'a> {
    token: &'a Token,
    /// The token identifies a thread: on every lock it is the same one.
    thread: bool,
    address: Option<&'a Address>,
    since: Time,
}

impl Party<'_> {
    /// Whether it is this waiter, and whether that is sure.
    fn is(&self, waiter: &Waiter<'_>) -> Option<bool> {
        // A client that took this lock after its last attempt at the other no longer waits for the other.
        if waiter.tried < self.since {
            return None;
        }
        match waiter.token {
            Some(token) if self.thread => (token == self.token).then_some(true),
            _ => (self.address.is_some() && self.address == waiter.address).then_some(false),
        }
    }
}

impl Blocking {
    /// Computes it for these locks at `now`.
    pub fn of(locks: &[LockView], now: Time) -> Blocking {
        let waiting: Vec<Vec<Waiter<'_>>> = locks.iter().map(|lock| waiting(lock, now)).collect();
        let links: Vec<Link> = locks.iter().enumerate().map(|(index, lock)| link(index, lock, &waiting)).collect();
        let deadlocks = rings(&links);
        Blocking { links, deadlocks }
    }

    pub fn link(&self, index: usize) -> Option<&Link> {
        self.links.get(index)
    }

    /// From a lock to the last one that blocks it, whose holder waits for nothing. Ends where a ring closes.
    pub fn chain(&self, index: usize) -> Vec<usize> {
        let mut chain = vec![index];
        while let Some(next) = chain.last().and_then(|last| self.links.get(*last)?.behind)
            && !chain.contains(&next)
        {
            chain.push(next);
        }
        chain
    }

    /// The locks stuck behind this one, directly or through others, nearest first, each with its distance.
    pub fn stuck_behind(&self, root: usize) -> Vec<(usize, usize)> {
        let mut found = vec![(root, 0)];
        let mut at = 0;
        while let Some(&(index, distance)) = found.get(at) {
            let behind = self.links.iter().enumerate().filter(|(_, link)| link.behind == Some(index));
            for (next, _) in behind {
                if found.iter().all(|(known, _)| *known != next) {
                    found.push((next, distance + 1));
                }
            }
            at += 1;
        }
        found.split_off(1)
    }

    pub fn is_in_deadlock(&self, index: usize) -> bool {
        self.deadlocks.iter().any(|ring| ring.contains(&index))
    }

    /// Whether tokens prove each link of a ring.
    pub fn is_sure(&self, ring: &[usize]) -> bool {
        ring.iter().all(|index| self.links.get(*index).is_some_and(|link| link.sure))
    }
}

fn waiting(lock: &LockView, now: Time) -> Vec<Waiter<'_>> {
    let waits = lock.contenders.iter().filter(|contender| contender.is_waiting(now));
    let mut found = Vec::new();
    for Contender { token, address, last, .. } in waits {
        found.push(Waiter { token: token.as_ref(), address: address.as_ref(), tried: *last });
    }
    found
}

fn holding(lock: &LockView) -> Vec<Party<'_>> {
    let alone = lock.holders.len() == 1;
    let address = lock.connection.as_ref().filter(|_| alone).map(|connection| &connection.address);
    let since = lock.at - Duration::from_millis(lock.held_ms.unwrap_or(0));
    let mut found = Vec::new();
    for Holder { token, thread, .. } in &lock.holders {
        found.push(Party { token, thread: thread.is_some(), address, since });
    }
    found
}

fn link(index: usize, lock: &LockView, waiting: &[Vec<Waiter<'_>>]) -> Link {
    let mut found = Link { behind: None, sure: false };
    for holder in holding(lock) {
        for (other, waiters) in waiting.iter().enumerate().filter(|(other, _)| *other != index) {
            match waiters.iter().find_map(|waiter| holder.is(waiter)) {
                Some(true) => return Link { behind: Some(other), sure: true },
                Some(false) if found.behind.is_none() => found.behind = Some(other),
                _ => {}
            }
        }
    }
    found
}

/// Each ring once, from its lowest index on.
fn rings(links: &[Link]) -> Vec<Vec<usize>> {
    let mut rings = Vec::new();
    for start in 0..links.len() {
        let mut ring = vec![start];
        while let Some(next) = ring.last().and_then(|last| links[*last].behind) {
            if next == start {
                rings.push(ring);
                break;
            }
            // A ring counts only from its lowest lock, and a path into a ring is not a ring.
            if next < start || ring.contains(&next) {
                break;
            }
            ring.push(next);
        }
    }
    rings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Connection, Tokens};
    use crate::testkit::sample;

    const NOW: Time = Time(100_000);

    fn address(port: u16) -> Address {
        Address::parse(&format!("10.0.0.1:{port}")).unwrap()
    }

    /// A lock held by one client, with others waiting for it. Clients are their ports.
    fn lock(holder: u16, waiters: &[u16]) -> LockView {
        let mut lock = sample::redisson();
        lock.holders = vec![Holder::new(format!("token of {holder} for this lock").as_bytes())];
        lock.connection = Some(Connection::new(address(holder), NOW));
        (lock.at, lock.held_ms) = (NOW, Some(50_000));
        lock.contenders = waiters.iter().map(|port| contender(Some(address(*port)), None)).collect();
        lock
    }

    fn contender(address: Option<Address>, token: Option<Token>) -> Contender {
        let (attempts, failures) = (3, 3);
        Contender {
            token,
            address,
            first: Time(0),
            last: NOW,
            attempts,
            failures,
            won: None,
            passed_over: 0,
            tokens: Tokens::default(),
        }
    }

    #[test]
    fn whoever_waits_for_a_waiter_waits_for_the_root() {
        // 1 holds the first; 2 holds the second and waits for the first; 3 and 4 wait for the second.
        let locks = [lock(1, &[2]), lock(2, &[3, 4]), lock(9, &[])];
        let blocking = Blocking::of(&locks, NOW);
        assert_eq!(blocking.chain(1), [1, 0]);
        assert_eq!(blocking.stuck_behind(0), [(1, 1)]);
        assert_eq!(blocking.chain(2), [2]);
        assert!(blocking.deadlocks.is_empty());
    }

    #[test]
    fn a_ring_is_a_deadlock_told_once() {
        let locks = [lock(1, &[3]), lock(2, &[1]), lock(3, &[2]), lock(4, &[])];
        let blocking = Blocking::of(&locks, NOW);
        assert_eq!(blocking.deadlocks, [vec![0, 1, 2]]);
        assert!(!blocking.is_sure(&blocking.deadlocks[0]), "threads may share a connection");
        assert!(blocking.is_in_deadlock(2) && !blocking.is_in_deadlock(3));
        assert_eq!(blocking.chain(0), [0, 1, 2]);
    }

    #[test]
    fn a_path_into_a_ring_is_not_part_of_it() {
        // The holder of the first waits for the second; the second and the third are a ring.
        let locks = [lock(1, &[]), lock(2, &[1, 3]), lock(3, &[2])];
        let blocking = Blocking::of(&locks, NOW);
        assert_eq!(blocking.deadlocks, [vec![1, 2]]);
        assert_eq!(blocking.chain(0), [0, 1, 2]);
    }

    #[test]
    fn the_token_of_a_thread_is_sure() {
        let (mut a, mut b) = (lock(1, &[]), lock(2, &[]));
        for lock in [&mut a, &mut b] {
            lock.connection = None;
            lock.holders[0].thread = Some("57".into());
        }
        b.contenders = vec![contender(None, Some(a.holders[0].token.clone()))];
        a.contenders = vec![contender(None, Some(b.holders[0].token.clone()))];
        let blocking = Blocking::of(&[a, b], NOW);
        assert_eq!(blocking.deadlocks, [vec![0, 1]]);
        assert!(blocking.is_sure(&[0, 1]));
    }

    #[test]
    fn who_went_on_with_another_lock_does_not_wait() {
        // Each was refused one of them a while ago, and then took the other.
        let mut locks = [lock(1, &[2]), lock(2, &[1])];
        assert_eq!(Blocking::of(&locks, NOW).deadlocks.len(), 1);
        for lock in &mut locks {
            lock.held_ms = Some(1_000);
            lock.contenders[0].last = NOW - Duration::from_secs(5);
        }
        let blocking = Blocking::of(&locks, NOW);
        assert!(blocking.deadlocks.is_empty() && blocking.chain(0) == [0]);
    }

    #[test]
    fn the_token_of_a_process_names_no_thread() {
        // Spring has one value for all locks of a process: another of its threads waits, on its own connection.
        let (mut a, b) = (lock(1, &[]), lock(2, &[]));
        a.holders = b.holders.clone();
        let mut waited_for = lock(3, &[]);
        waited_for.contenders = vec![contender(Some(address(9)), Some(a.holders[0].token.clone()))];
        assert_eq!(Blocking::of(&[a, waited_for], NOW).chain(0), [0]);
    }

    #[test]
    fn who_gave_up_or_got_it_blocks_nobody() {
        let mut locks = [lock(1, &[2]), lock(2, &[1])];
        locks[0].contenders[0].won = Some(NOW);
        assert!(Blocking::of(&locks, NOW).deadlocks.is_empty());
        let late = Time(NOW.0 + 60_000);
        assert!(Blocking::of(&[lock(1, &[2]), lock(2, &[1])], late).deadlocks.is_empty());
    }

    #[test]
    fn nobody_waits_for_their_own_lock() {
        let blocking = Blocking::of(&[lock(1, &[1])], NOW);
        assert_eq!(blocking.link(0), Some(&Link { behind: None, sure: false }));
    }
}
