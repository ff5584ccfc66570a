//! The `process_*` metrics: what this process costs. Each is left out where the system does not say.

use std::fs;
use std::path::Path;

use crate::metrics::{MetricId, Moment};

const CPU: MetricId = MetricId::of("process_cpu_seconds_total");
const MEMORY: MetricId = MetricId::of("process_resident_memory_bytes");
const START: MetricId = MetricId::of("process_start_time_seconds");
const OPEN: MetricId = MetricId::of("process_open_fds");
const MOST: MetricId = MetricId::of("process_max_fds");

/// Adds what is known. Everything but the limit comes from `/proc`.
pub fn add(moment: &mut Moment) {
    let proc = Path::new("/proc");
    let page = rustix::param::page_size() as f64;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let stat = fs::read_to_string(proc.join("self/stat")).ok();
    let stat = stat.as_deref().and_then(Stat::read);
    let booted = fs::read_to_string(proc.join("stat")).ok().and_then(|text| boot_time(&text));
    let open = fs::read_dir(proc.join("self/fd")).ok().map(|files| files.count() as f64);
    // It is unlimited where it is none.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.map(|most| most as f64);
    let values = [
        (CPU, stat.as_ref().map(|stat| stat.cpu / ticks)),
        (MEMORY, stat.as_ref().map(|stat| stat.pages * page)),
        (START, stat.as_ref().zip(booted).map(|(stat, booted)| booted + stat.started / ticks)),
        (OPEN, open),
        (MOST, most),
    ];
    for (metric, value) in values {
        if let Some(value) = value {
            moment.push(metric, &[], value);
        }
    }
}

/// Fields of `/proc/self/stat`: ticks, ticks since the system started, and pages.
#[derive(PartialEq, Debug)]
struct Stat {
    cpu: f64,
    started: f64,
    pages: f64,
}

impl Stat {
    fn read(text: &str) -> Option<Stat> {
        // The name of the program is in parentheses, and may contain some itself.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The manual counts from 1, and the third field is the first here.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Stat { cpu: field(14)? + field(15)?, started: field(22)?, pages: field(24)? })
    }
}

fn boot_time(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|seconds| seconds.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Time;

    #[test]
    fn a_program_with_a_strange_name_is_measured_too() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 1234 99 4321 18446744073709551615 1\n";
        assert_eq!(Stat::read(text), Some(Stat { cpu: 200.0, started: 1234.0, pages: 4321.0 }));
        assert_eq!([Stat::read(""), Stat::read("7 (a) S 1")], [None, None]);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\nprocesses 9\n"), Some(1_700_000_000.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_began_a_while_ago_and_takes_some_memory() {
        let mut moment = Moment::new(Time(0));
        add(&mut moment);
        let value = |metric| moment.samples.iter().find(|sample| sample.series.metric == metric).unwrap().value;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((0.0..3600.0).contains(&(now - value(START))), "{} {now}", value(START));
        assert!(value(MEMORY) > 100_000.0 && value(CPU) >= 0.0 && value(OPEN) >= 3.0);
    }
}
