//! Calls that took longer than they may, and how many of them were only interrupted.
//!
//! The server's clock goes on while something else has its processor, so on a shared machine short calls look long now
//! and then. How often that happens is measured on the same server: calls that do next to nothing are made for as long,
//! and those of them that are late count the stalls that turn a usual call into one over the limit.

use std::time::Duration;

use redis::{Connection, cmd};

use crate::keyspace::{Keyspace, ScanCost};
use crate::report::{Figure, Limit, Spread, whole};

/// A call over this many keys takes some ten microseconds.
const TINY: usize = 10;
const PIPELINE: usize = 100;
const SPACE: Duration = Duration::from_millis(1);

/// Calls of one kind, and how many of them were slow.
#[derive(Clone, Copy)]
pub struct Calls {
    pub scan: ScanCost,
    pub slow: u64,
}

impl Calls {
    /// What is made of the server while `work` goes on, by a limit in microseconds.
    pub fn during(keyspace: &Keyspace, limit_us: u64, work: impl FnOnce()) -> Calls {
        keyspace.remember_slower_than(limit_us);
        let before = keyspace.scan_cost();
        work();
        Calls { scan: keyspace.scan_cost().since(before), slow: keyspace.slow_scans() }
    }

    pub fn and(self, other: Calls) -> Calls {
        let scan = ScanCost { calls: self.scan.calls + other.scan.calls, us: self.scan.us + other.scan.us };
        Calls { scan, slow: self.slow + other.slow }
    }
}

/// How calls follow each other: that decides what can hold them up.
#[derive(Clone, Copy, PartialEq)]
pub enum Rhythm {
    /// Without a pause: the longer they take together, the more of them are held up.
    Unbroken,
    /// One now and then, each of which has to wake the server first: the more there are, the more are held up.
    Spaced,
}

/// The slow ones of `ours` that stalls of the machine do not explain; for a while measures those stalls.
pub fn unexplained(keyspace: &Keyspace, pace: &str, limit_us: u64, ours: Calls, rhythm: Rhythm) -> Figure {
    let usual_us = ours.scan.us / ours.scan.calls.max(1);
    let stall_us = limit_us.saturating_sub(usual_us);
    let tiny = Calls::during(keyspace, stall_us, || match rhythm {
        Rhythm::Unbroken => make_tiny_calls(keyspace, ours.scan.us),
        Rhythm::Spaced => make_spaced_calls(keyspace, ours.scan.calls),
    });
    let scale = match rhythm {
        Rhythm::Unbroken => ours.scan.us as f64 / tiny.scan.us.max(1) as f64,
        Rhythm::Spaced => ours.scan.calls as f64 / tiny.scan.calls.max(1) as f64,
    };
    let explained = tiny.slow as f64 * scale;
    // Both counts are random ones: two standard deviations of their difference.
    let leeway = 2.0 * (explained + explained * scale).sqrt();
    Figure {
        name: format!("SCAN calls with {pace} over {limit_us} µs that stalls of the machine do not explain"),
        measured: Spread::once((ours.slow as f64 - explained - leeway).max(0.0).floor()),
        limit: Limit::AtMost(0.0),
        show: whole,
        command: format!(
            "`SLOWLOG GET`: {} of {} calls of usually {usual_us} µs; calls over {TINY} keys in the same rhythm were \
             held up for over {stall_us} µs {} times (± {})",
            whole(ours.slow as f64),
            whole(ours.scan.calls as f64),
            whole(explained),
            whole(leeway)
        ),
    }
}

fn make_spaced_calls(keyspace: &Keyspace, calls: u64) {
    let mut conn: Connection = keyspace.server.connection();
    let mut cursor = 0_u64;
    for _ in 0..calls {
        std::thread::sleep(SPACE);
        let (next, _): (u64, Vec<String>) =
            cmd("SCAN").arg(cursor).arg("COUNT").arg(TINY).query(&mut conn).expect("the server answers");
        cursor = next;
    }
}

/// Until they have cost the server as much time as ours did.
fn make_tiny_calls(keyspace: &Keyspace, us: u64) {
    let mut conn: Connection = keyspace.server.connection();
    let (before, mut cursor) = (keyspace.scan_cost(), 0_u64);
    while keyspace.scan_cost().since(before).us < us {
        for _ in 0..50 {
            let mut pipe = redis::pipe();
            for _ in 0..PIPELINE {
                pipe.add_command(cmd("SCAN").arg(cursor).arg("COUNT").arg(TINY).to_owned());
            }
            let answers: Vec<(u64, Vec<String>)> = pipe.query(&mut conn).expect("the server answers");
            cursor = answers.last().map_or(0, |(next, _)| *next);
        }
    }
}
