//! What a store has, as `record --info` prints it.

use std::io::{self, Write};
use std::time::Duration;

use crate::base::text::{counted, short_duration, visible};
use crate::base::time::Time;
use crate::store::{End, Firing, Reach, Summary};

/// At most this many firings are listed, the last ones.
const EPISODES: usize = 20;

/// One fact a line.
pub fn write(out: &mut impl Write, summary: &Summary, firings: &[Firing]) -> io::Result<()> {
    let time = |at: Option<Time>| at.map_or("nothing yet".to_string(), Time::rfc3339);
    let mut line = |name: &str, text: String| writeln!(out, "{name:<10} {text}");
    line("target", visible(summary.target.as_bytes()))?;
    line("size", size(summary.size))?;
    line("oldest", time(summary.oldest))?;
    line("newest", time(summary.newest))?;
    line("recorder", summary.recorder.map_or("none is at work".into(), |pid| format!("process {pid}")))?;
    line("covered", format!("{} in {}", long(summary.covered), counted(summary.runs, "run")))?;
    line("gaps", counted(summary.gaps, "gap"))?;
    for Reach { step, from, to } in &summary.steps {
        line("step", format!("{} from {} to {}", long(*step), from.rfc3339(), to.rfc3339()))?;
    }
    line("series", format!("{} of {}", summary.series, counted(summary.patterns, "pattern")))?;
    line("notable", format!("{}, {} left out", counted(summary.notables, "event"), summary.omitted))?;
    line("alerts", counted(summary.alerts, "change"))?;
    line("actions", counted(summary.actions, "action"))?;
    line("labels", counted(summary.labels, "label"))?;
    for firing in firings.iter().skip(firings.len().saturating_sub(EPISODES)) {
        line("episode", episode(firing))?;
    }
    Ok(())
}

/// A firing, with the number that `bundle --episode` takes.
fn episode(firing: &Firing) -> String {
    let labels = firing.labels.iter().filter(|(name, _)| *name != "target");
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    let labels = if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) };
    let end = match firing.end {
        End::Over(at) => format!("to {}", at.rfc3339()),
        End::NotSeen(at) => format!("at least to {}, where the recording broke off", at.rfc3339()),
        End::Still(at) => format!("still at {}", at.rfc3339()),
    };
    let Firing { number, rule, severity, from, .. } = firing;
    visible(format!("{number}: {} {rule}{labels} from {} {end}", severity.name(), from.rfc3339()).as_bytes())
}

fn long(duration: Duration) -> String {
    short_duration(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
