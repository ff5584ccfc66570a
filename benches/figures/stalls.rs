//! Calls over their time limit, and how many of them were only interrupted.
//!
//! The server's clock runs on while something else uses its processor, so on a shared machine short calls sometimes
//! look long. How often that happens is measured on the same server, with calls in the same rhythm that usually take as
//! long as ours but always do the same work. Those over the limit were interrupted.

use std::time::Duration;

use redis::{Connection, cmd};

use crate::keyspace::{Cost, Keyspace};
use crate::limit::{Limit, Measured, whole};
use crate::report::Figure;

/// How many calls are made to measure how long one usually takes.
const TRIAL: u64 = 300;
const SPACE: Duration = Duration::from_millis(1);

/// Calls of one kind, and how many of them were slow.
#[derive(Clone, Copy)]
pub struct Calls {
    pub scan: Cost,
    pub slow: u64,
}

impl Calls {
    /// The SCAN calls made while `work` runs; those over the limit, in microseconds, are slow.
    pub fn during(keyspace: &Keyspace, limit_us: u64, work: impl FnOnce()) -> Calls {
        keyspace.remember_slower_than(limit_us);
        let before = keyspace.scan_cost();
        work();
        Calls { scan: keyspace.scan_cost().since(before), slow: keyspace.slow_scans() }
    }

    pub fn and(self, other: Calls) -> Calls {
        let scan = Cost { calls: self.scan.calls + other.scan.calls, us: self.scan.us + other.scan.us };
        Calls { scan, slow: self.slow + other.slow }
    }
}

/// How calls follow each other: that decides what can delay them.
#[derive(Clone, Copy, PartialEq)]
pub enum Rhythm {
    /// Without a pause: the longer they take in total, the more of them are delayed.
    Unbroken,
    /// With pauses, so that each has to wake the server first: the more there are, the more are delayed.
    Spaced,
}

/// The slow calls of `ours` that stalls of the machine do not explain; measures those stalls first.
pub fn unexplained(keyspace: &Keyspace, pace: &str, limit_us: u64, ours: Calls, rhythm: Rhythm) -> Figure {
    let usual_us = ours.scan.us / ours.scan.calls.max(1);
    let count = count_for(keyspace, usual_us);
    let same = Calls::during(keyspace, limit_us, || match rhythm {
        Rhythm::Unbroken => make_calls(keyspace, count, Duration::ZERO, |made| made.us < ours.scan.us),
        Rhythm::Spaced => make_calls(keyspace, count, SPACE, |made| made.calls < ours.scan.calls),
    });
    let scale = match rhythm {
        Rhythm::Unbroken => ours.scan.us as f64 / same.scan.us.max(1) as f64,
        Rhythm::Spaced => ours.scan.calls as f64 / same.scan.calls.max(1) as f64,
    };
    let explained = same.slow as f64 * scale;
    // Both counts are random: allows two standard deviations of their difference.
    let leeway = 2.0 * (explained + explained * scale).sqrt();
    Figure {
        name: format!("SCAN calls with {pace} over {limit_us} µs that stalls of the machine do not explain"),
        measured: Measured::once((ours.slow as f64 - explained - leeway).max(0.0).floor()),
        limit: Limit::AtMost(0.0),
        show: whole,
        command: format!(
            "`SLOWLOG GET`: {} of {} calls of usually {usual_us} µs; of calls of usually {} µs that do the same work \
             each time, in the same rhythm, {} (± {})",
            whole(ours.slow as f64),
            whole(ours.scan.calls as f64),
            same.scan.us / same.scan.calls.max(1),
            whole(explained),
            whole(leeway)
        ),
    }
}

/// The COUNT with which a call at the start of the keyspace usually takes `usual_us`.
fn count_for(keyspace: &Keyspace, usual_us: u64) -> usize {
    let mut count = 100.0;
    for _ in 0..4 {
        let before = keyspace.scan_cost();
        make_calls(keyspace, count as usize, Duration::ZERO, |made| made.calls < TRIAL);
        let cost = keyspace.scan_cost().since(before);
        count = (count * usual_us as f64 * cost.calls as f64 / cost.us.max(1) as f64).max(1.0);
    }
    count as usize
}

/// Repeats the same call until `go_on` says no. It is asked every 100 calls, with their total cost.
fn make_calls(keyspace: &Keyspace, count: usize, space: Duration, go_on: impl Fn(Cost) -> bool) {
    let mut conn: Connection = keyspace.server.connection();
    let before = keyspace.scan_cost();
    while go_on(keyspace.scan_cost().since(before)) {
        for _ in 0..100 {
            std::thread::sleep(space);
            let _: (u64, Vec<String>) =
                cmd("SCAN").arg(0).arg("COUNT").arg(count).query(&mut conn).expect("the server answers");
        }
    }
}
