//! The report of a canary: a table for people, a document for programs.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::text::{harmless, short_duration};
use crate::lock::Key;
use crate::watchdog_probe::canary::{End, Report};
use crate::watchdog_probe::latencies::Latencies;
use crate::watchdog_probe::tally::{Event, Kind, Operation};

const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)];

/// ```text
///          count  failed     p50     p90     p99     max
/// acquire     10       0  0.21ms  0.30ms  0.31ms  0.31ms
/// renew       30       1  0.18ms  0.25ms   3.20s   3.20s
/// release     10       0  0.16ms  0.22ms  0.22ms  0.22ms
/// ```
pub fn table(out: &mut impl Write, key: &Key, ttl: Duration, report: &Report) -> io::Result<()> {
    let tally = &report.tally;
    let stopped = if matches!(report.end, End::Stopped) { ", then stopped" } else { "" };
    writeln!(out, "{key}  lease {}, probed for {}{stopped}", humantime::format_duration(ttl), short(report.ran))?;
    writeln!(out)?;
    writeln!(out, "{:8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}", "", "count", "failed", "p50", "p90", "p99", "max")?;
    for (name, operation) in [("acquire", &tally.acquire), ("renew", &tally.renew), ("release", &tally.release)] {
        write!(out, "{name:8}{:>8}{:>8}", operation.latencies.count(), operation.failed)?;
        for (_, percent) in PERCENTILES {
            write!(out, "{:>8}", shown(operation.latencies.percentile(percent)))?;
        }
        writeln!(out, "{:>8}", shown(operation.latencies.most()))?;
    }
    writeln!(out)?;
    let (late, renewals) = (tally.late, tally.renew.latencies.count());
    match late.total() {
        0 => writeln!(out, "late     none of {renewals} renewals by more than {}", short(ttl / 10))?,
        total => writeln!(
            out,
            "late     {total} of {renewals} renewals by more than {}: {} by the server, {} because lockscope itself was \
             kept from running (up to {})",
            short(ttl / 10),
            late.server,
            late.ours,
            shown(tally.waking.most())
        )?,
    }
    writeln!(out, "lost     {}", times(tally.lost))?;
    let away = tally.away;
    match away.count {
        0 => writeln!(out, "server   always answered within {}", short(ttl / 10))?,
        count => {
            write!(
                out,
                "server   did not answer {}: {} in all, {} at the longest",
                times(count),
                short(away.total),
                short(away.longest)
            )?;
            for (count, one, many) in [
                (report.failed_connections, "failed connection", "failed connections"),
                (tally.restarts, "restart", "restarts"),
            ] {
                match count {
                    0 => {}
                    1 => write!(out, "; 1 {one}")?,
                    count => write!(out, "; {count} {many}")?,
                }
            }
            writeln!(out)?;
        }
    }
    if !tally.events.is_empty() {
        writeln!(out)?;
    }
    for event in &tally.events {
        writeln!(out, "{}  {}", event.at.rfc3339(), sentence(event))?;
    }
    if tally.more_events > 0 {
        writeln!(out, "and {} more", tally.more_events)?;
    }
    Ok(())
}

pub fn json(report: &Report, why: Option<String>) -> Value {
    let tally = &report.tally;
    let ended = match report.end {
        End::TimeIsUp => "time-up",
        End::Stopped => "stopped",
        End::Failed(_) => "failed",
    };
    let mut acquire = operation(&tally.acquire);
    acquire["refused"] = tally.refused.into();
    let mut renew = operation(&tally.renew);
    renew["late"] = json!({ "total": tally.late.total(), "server": tally.late.server, "ours": tally.late.ours });
    renew["waking"] = latencies(&tally.waking);
    let events: Vec<Value> = tally.events.iter().map(event).collect();
    json!({
        "outcome": "done",
        "why": why,
        "at": report.began.rfc3339(),
        "ran_ms": report.ran.as_millis() as u64,
        "ended": ended,
        "acquire": acquire,
        "renew": renew,
        "release": operation(&tally.release),
        "lost": tally.lost,
        "away": {
            "count": tally.away.count,
            "total_ms": tally.away.total.as_millis() as u64,
            "longest_ms": tally.away.longest.as_millis() as u64,
        },
        "failed_connections": report.failed_connections,
        "restarts": tally.restarts,
        "events": events,
        "more_events": tally.more_events,
    })
}

fn operation(operation: &Operation) -> Value {
    let mut value = latencies(&operation.latencies);
    value["failed"] = operation.failed.into();
    value
}

fn latencies(latencies: &Latencies) -> Value {
    let ms = |took: Option<Duration>| took.map(|took| took.as_micros() as f64 / 1_000.0);
    let mut value = json!({ "count": latencies.count(), "max_ms": ms(latencies.most()) });
    for (name, percent) in PERCENTILES {
        value[format!("{name}_ms")] = ms(latencies.percentile(percent)).into();
    }
    value
}

fn event(event: &Event) -> Value {
    json!({
        "at": event.at.rfc3339(),
        "event": event.kind.name(),
        "ms": event.lasted.map(|lasted| lasted.as_millis() as u64),
        "why": event.why,
        "text": sentence(event),
    })
}

fn sentence(event: &Event) -> String {
    let (lasted, why) = (event.lasted.map(short).unwrap_or_default(), harmless(&event.why));
    match event.kind {
        Kind::Away => format!("the server did not answer for {lasted} ({why})"),
        Kind::Lost => format!("the lock was lost: {why}"),
        Kind::Refused => format!("the lock could not be taken for {lasted}: {why}"),
        Kind::Restarted => "the server was restarted".into(),
    }
}

fn times(count: u64) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        count => format!("{count} times"),
    }
}

fn short(duration: Duration) -> String {
    short_duration(duration.as_millis() as u64)
}

/// A latency in six columns.
fn shown(took: Option<Duration>) -> String {
    let Some(took) = took else { return "-".into() };
    match took.as_micros() {
        micros @ 0..10_000 => format!("{:.2}ms", micros as f64 / 1_000.0),
        10_000..1_000_000 => format!("{}ms", took.as_millis()),
        1_000_000..60_000_000 => format!("{:.2}s", took.as_secs_f64()),
        _ => short(took),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fit_their_column() {
        let shown = |micros| shown(Some(Duration::from_micros(micros)));
        assert_eq!([shown(7), shown(9_999), shown(12_345)], ["0.01ms", "10.00ms", "12ms"]);
        assert_eq!([shown(999_999), shown(3_204_000), shown(61_000_000)], ["999ms", "3.20s", "1m01s"]);
        assert_eq!(super::shown(None), "-");
    }
}
