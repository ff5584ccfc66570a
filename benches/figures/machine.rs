//! The load of the machine: how long processes ran, and how long they waited for a processor.

use std::time::Duration;

/// How long a process ran, and how long it was ready but waited for a processor.
#[derive(Clone, Copy, Default)]
pub struct Scheduled {
    pub ran: Duration,
    pub waited: Duration,
}

impl Scheduled {
    /// For the main thread of a process, or for any thread by its id; zero if the system does not report it.
    pub fn of(pid: u32) -> Scheduled {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| Duration::from_nanos(number.parse().unwrap_or(0)));
        Scheduled { ran: numbers.next().unwrap_or_default(), waited: numbers.next().unwrap_or_default() }
    }

    pub fn since(self, before: Scheduled) -> Scheduled {
        Scheduled { ran: self.ran - before.ran, waited: self.waited - before.waited }
    }

    /// The share of its time that it waited, if it is large enough to mention.
    pub fn disturbed(self) -> Option<f64> {
        let share = self.waited.as_secs_f64() / (self.ran + self.waited).as_secs_f64().max(1e-9);
        (share > 0.03).then_some(share)
    }
}

/// A sentence for a process that had to wait.
pub fn disturbance(what: &str, scheduled: Scheduled) -> Option<String> {
    let share = scheduled.disturbed()? * 100.0;
    Some(format!(
        "the machine is busy with other things: {what} had to wait for a processor {share:.0} % of the time it could \
         have run; the figures are worse for it"
    ))
}

/// The processor time of the calling thread.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the one struct it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How often the calling thread gave up its processor by itself: it slept or waited for a lock.
pub fn thread_sleeps() -> u64 {
    // SAFETY: zeros are a valid value, and the call writes to the one struct it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    usage.ru_nvcsw as u64
}

/// The system's id of the calling thread; zero if unknown.
pub fn thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0)
}

/// The resident memory of this process, in bytes.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // SAFETY: asks for a constant.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// One line on where and when.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?").to_string();
    format!("measured on {cores} cores at a load of {load}; `make bench` measures again")
}
