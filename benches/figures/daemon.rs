//! What `serve --store` costs beyond `watch`: the processor time of both processes beside the same busy fleet, in turns.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::{Connection, pipe};

use crate::common::process::scratch;
use crate::common::{Server, lockscope_process};
use crate::limit::{Limit, Measured, ratio};
use crate::report::{Figure, Report};

const PATTERNS: usize = 50;
const LOCKS: usize = 200;
/// In each second.
const HOLDS: usize = 485;
const RENEWALS: usize = 890;
/// Until everything was walked and judged.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(20);

pub fn measure(report: &mut Report, rounds: usize) {
    let server = Server::notifying(&[]);
    let mut conn = server.connection();
    (0..PATTERNS * LOCKS).collect::<Vec<_>>().chunks(1_000).for_each(|some| take(&mut conn, some));
    let _fleet = Fleet::start(conn);
    let (url, folder) = (server.url(), tempfile::tempdir().expect("a folder"));
    let store = folder.path().join("history");
    // It follows all of them and prints none: printing each change costs more than everything that is measured here.
    let watch = ["watch", "-u", &url, "-p", "lock*", "--filter", "lib:redisson"];
    let serve =
        ["serve", "-u", &url, "-p", "lock*", "--listen", "127.0.0.1:0", "--store", store.to_str().expect("UTF-8")];
    let mut shares = Vec::new();
    let beyond = (0..rounds).map(|round| {
        let (first, second) = if round % 2 == 0 { (&watch[..], &serve[..]) } else { (&serve[..], &watch[..]) };
        let (first, second) = (share(first), share(second));
        let (watch, serve) = if round % 2 == 0 { (first, second) } else { (second, first) };
        shares.push(format!("{watch:.1} and {serve:.1}"));
        serve - watch
    });
    let beyond = Measured::of(beyond.collect());
    report.note(format!("% of a core of `watch` and of `serve --store`, round by round: {}", shares.join(", ")));
    report.add(Figure {
        name: "% of a core that `serve --store` takes beyond `watch`, 10,000 locks in 50 patterns".into(),
        measured: beyond,
        limit: Limit::AtMost(1.0),
        show: ratio,
        command: format!(
            "processor time of both processes, {}s each in turns, beside {HOLDS} holds and {RENEWALS} renewals a second",
            MEASURED.as_secs()
        ),
    });
}

/// The share of a core that a process takes, in percent.
fn share(arguments: &[&str]) -> f64 {
    let mut command = lockscope_process(&scratch("home"));
    command.args(arguments).stdout(Stdio::null());
    let mut child = Running(command.spawn().expect("lockscope starts"));
    std::thread::sleep(WARM_UP);
    let (began, before) = (Instant::now(), child.time());
    std::thread::sleep(MEASURED);
    let share = (child.time() - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    assert!(child.0.try_wait().is_ok_and(|ended| ended.is_none()), "{arguments:?} ended by itself");
    share
}

struct Running(Child);

impl Running {
    /// The processor time of all its threads, also of those that ended.
    fn time(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        // What follows the name in brackets, which may have spaces.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: u64 = rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        // SAFETY: asks for a constant.
        let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
        Duration::from_secs_f64(ticks as f64 / a_second)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Locks that are renewed, and freed and taken again, until this is dropped.
struct Fleet(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Fleet {
    fn start(mut conn: Connection) -> Fleet {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let work = move || {
            let began = Instant::now();
            for tenth in 0_usize.. {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let some = |count: usize, of: usize| {
                    (0..count / 10).map(move |at| (tenth * count / 10 + at) * 7 % (PATTERNS * LOCKS / 2) + of)
                };
                let mut renewals = pipe();
                for lock in some(RENEWALS, 0) {
                    renewals.cmd("PEXPIRE").arg(name(lock)).arg(600_000).ignore();
                }
                let ended: Vec<usize> = some(HOLDS, PATTERNS * LOCKS / 2).collect();
                for lock in &ended {
                    renewals.cmd("DEL").arg(name(*lock)).ignore();
                }
                renewals.query::<()>(&mut conn).expect("the server answers");
                take(&mut conn, &ended);
                let next = began + Duration::from_millis(100) * (tenth as u32 + 1);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        };
        Fleet(over, Some(std::thread::spawn(work)))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

fn take(conn: &mut Connection, locks: &[usize]) {
    let mut taken = pipe();
    for lock in locks {
        taken.cmd("SET").arg(name(*lock)).arg("holder").arg("NX").arg("PX").arg(600_000).ignore();
    }
    taken.query::<()>(conn).expect("the server answers");
}

/// Half of the patterns are renewed, the others change hands.
fn name(lock: usize) -> String {
    let group = lock / LOCKS;
    let letters: String = [group / 26, group % 26].map(|at| char::from(b'a' + at as u8)).iter().collect();
    format!("lock:{letters}:{}", lock % LOCKS)
}
