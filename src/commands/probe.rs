//! `lockscope probe`: runs a canary lock on the server, and reports what happened to it.
//!
//! [`canary`](crate::watchdog_probe::canary) runs the lock; this file has the rest: the gate, the audit file (one entry
//! before and one after, not one per cycle), signals, and the report.

mod render;

use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;

use super::on_record::{self, OnRecord};
use super::session::Session;
use crate::actions::audit;
use crate::base::fault::Fault;
use crate::base::signals::Signals;
use crate::base::text;
use crate::lock::Key;
use crate::settings::cli::Probe;
use crate::test_lock::{Form, Request};
use crate::watchdog_probe::canary::{self, End, Report};

/// With a shorter lease the network alone makes renewals late; with a longer one there are hardly any.
const LEASES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// A longer time is surely a typing mistake.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

pub async fn run(session: &Session, options: &Probe) -> Result<u8, Fault> {
    if options.ttl < LEASES.0 || options.ttl > LEASES.1 {
        return Err(Fault::usage("--ttl is between 100ms and 1h"));
    }
    if options.duration < LEASES.0 || options.duration > LONGEST {
        return Err(Fault::usage("--for is between 100ms and 366 days"));
    }
    let key = match options.key.as_deref() {
        Some("") => return Err(Fault::usage("--key is empty; a lock needs a name")),
        Some(key) => text::unescape(key).map_err(|bad| Fault::usage(format!("the key {key:?}: {bad}")))?,
        None => format!("lockscope:probe:{}:{}", audit::host(), std::process::id()).into_bytes(),
    };
    let key = Key::from(key);
    let turned_away = |refusal| on_record::turned_away("probe", &key, &refusal, options.json);
    let admission = match session.settings.gate().admit(&key) {
        Ok(admission) => admission,
        Err(refusal) => return Err(turned_away(refusal)?),
    };
    let request = Request::new(&admission, Form::Plain, options.ttl).map_err(|why| Fault::finding(why.to_string()))?;
    let intent = json!({ "for_ms": options.duration.as_millis() as u64 });
    let mut record = match OnRecord::open(session, "probe", &request, &intent) {
        Ok(record) => record,
        Err(refusal) => return Err(turned_away(refusal)?),
    };
    let mut signals = Signals::listen()?;
    session.say(&format!(
        "probing {} with {key} for {}; Ctrl-C ends it",
        session.shown,
        humantime::format_duration(options.duration)
    ));
    let stop = signals.next().map(|_| ());
    let report = canary::run(&session.topology, &request, options.duration, stop).await;
    if let End::Failed(error) = &report.end {
        let fault = session.fault(error);
        let refused = json!({ "outcome": "refused", "why": fault.to_string() });
        let mut noted = refused.clone();
        noted["phase"] = "end".into();
        record.note(&noted)?;
        if options.json {
            record.print(&refused)?;
        }
        return Err(fault);
    }
    let finding = finding(session, &key, &report);
    let mut result = render::json(&report, finding.as_ref().map(|fault| fault.to_string()));
    if options.json {
        record.print(&result)?;
    } else {
        super::print(|out| render::table(out, &key, options.ttl, &report))?;
    }
    // One line in the audit file, without the list of events.
    result["events"].take();
    result["phase"] = "end".into();
    record.note(&result)?;
    match finding {
        Some(fault) => Err(fault),
        None => Ok(0),
    }
}

/// What is wrong, if anything, with its exit code.
fn finding(session: &Session, key: &Key, report: &Report) -> Option<Fault> {
    let tally = &report.tally;
    let times = |count: u64| if count == 1 { "once".to_string() } else { format!("{count} times") };
    if tally.lost > 0 {
        return Some(Fault::finding(format!("{key} was lost {}", times(tally.lost))));
    }
    if !report.answers {
        return Some(Fault::server(format!("{} did not answer at the end", session.shown)));
    }
    let never = tally.acquire.latencies.count() == 0;
    (never && tally.refused > 0).then(|| Fault::finding(format!("{key} was never free; use another --key")))
}
