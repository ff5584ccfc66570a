//! `lockscope acquire KEY`: takes a test lock and leaves it, holds it for a while, or runs a command under it.
//!
//! [`test_lock`](crate::test_lock) holds the lock; this file has the rest: the gate, the audit file, signals, the
//! command, and the report at the end. On every way out the lock is given back, unless the user wants it left.

mod child;
mod record;
pub mod watcher;

use std::ffi::OsStr;
use std::future::pending;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use super::on_record;
use super::session::Session;
use crate::base::fault::Fault;
use crate::base::signals::Signals;
use crate::base::text;
use crate::base::time::Ttl;
use crate::lock::Key;
use crate::settings::cli::{Acquire, LockKind, OnLost};
use crate::test_lock::{Form, Held, Loss, Released, Request, Taken, Turn, take};
use child::Child;
use record::Record;

/// The longest lease: a longer one is surely a typing mistake.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

pub async fn run(session: &Session, options: &Acquire) -> Result<u8, Fault> {
    let form = match options.form {
        LockKind::Plain => Form::Plain,
        LockKind::Reentrant => Form::Reentrant,
        LockKind::Redlock => {
            return Err(Fault::usage(
                "--as redlock is not there yet: it needs several masters; use --as plain or --as reentrant on one",
            ));
        }
    };
    if options.ttl < Duration::from_millis(1) || options.ttl > LONGEST {
        return Err(Fault::usage("--ttl is between 1ms and 366 days"));
    }
    let bytes = |what: &str, text: &str| {
        text::unescape(text).map_err(|bad| Fault::usage(format!("the {what} {text:?}: {bad}")))
    };
    let key = Key::from(bytes("key", &options.key)?);
    let token = options.token.as_deref().map(|token| bytes("token", token)).transpose()?;
    if token.as_ref().is_some_and(Vec::is_empty) {
        return Err(Fault::usage("--token is empty: nobody could see who holds the lock"));
    }
    let admission = match session.settings.gate().admit(&key) {
        Ok(admission) => admission,
        Err(refusal) => return Err(on_record::turned_away("acquire", &key, &refusal, options.json)?),
    };
    let request = Request::new(&admission, form, options.ttl).map_err(|why| Fault::finding(why.to_string()))?;
    let request = match token {
        Some(token) => request.with_token(&token),
        None => request,
    };
    let mut record = match Record::open(session, options, &request) {
        Ok(record) => record,
        Err(refusal) => return Err(on_record::turned_away("acquire", &key, &refusal, options.json)?),
    };
    let mut signals = Signals::listen()?;
    let mut caught = None;
    let until = options.wait.map(|wait| Instant::now() + wait);
    let stop = async { caught = Some(signals.next().await) };
    let taken = take(&session.topology, request, until, stop).await;
    match taken {
        Taken::Held(held) => keep(session, options, *held, record, signals).await,
        Taken::Refused(other) => {
            let why = format!("{key} is {other}");
            let left = match other.left {
                Ttl::In(left) => Some(left.as_millis() as u64),
                Ttl::Never => None,
            };
            record.refused(&why, other.holder.as_ref(), left)?;
            Err(Fault::finding(format!("{why}; it was not taken{}", waited(options))))
        }
        Taken::Failed(error) => {
            let fault = session.fault(&error);
            record.refused(&fault.to_string(), None, None)?;
            Err(fault)
        }
        Taken::Unknown(error) => {
            let lasts = humantime::format_duration(options.ttl);
            let fault =
                Fault::server(format!("{}; if {key} was taken, it ends by itself in {lasts}", session.fault(&error)));
            record.unknown(&fault.to_string())?;
            Err(fault)
        }
        Taken::Stopped => {
            record.refused("stopped by a signal", None, None)?;
            Ok(child::code_of(caught.unwrap_or(Signal::TERM).as_raw()))
        }
    }
}

fn waited(options: &Acquire) -> String {
    match options.wait {
        Some(wait) => format!(", in {} of waiting", humantime::format_duration(wait)),
        None => String::new(),
    }
}

/// How the time under the lock ended.
struct Ended {
    code: u8,
    lost: Option<Loss>,
    /// The error to report, if there is one.
    fault: Option<Fault>,
}

async fn keep(
    session: &Session,
    options: &Acquire,
    mut held: Held,
    mut record: Record,
    mut signals: Signals,
) -> Result<u8, Fault> {
    let leaves = options.command.is_empty() && options.hold.is_none() && !options.watchdog;
    let recorded = record.taken(&held).and_then(|()| if leaves { record.left(&held) } else { record.announce(&held) });
    if let Err(fault) = recorded {
        // A lock that can't be recorded or reported is not kept.
        held.release().await;
        return Err(fault);
    }
    if leaves {
        return Ok(0);
    }
    let began = Instant::now();
    let ended = if options.command.is_empty() {
        hold(session, options, &mut held, &mut signals).await
    } else {
        run_under(session, options, &mut held, &mut signals).await
    };
    // After an unconfirmed lease ran out, the lock may still exist.
    let released = match &ended.lost {
        None | Some(Loss::Unconfirmed { .. }) => Some(held.release().await),
        Some(_) => None,
    };
    finish(session, options, &held, record, ended, released, began.elapsed())
}

/// Holds the lock for the requested time, or until a signal; renews it if requested.
async fn hold(session: &Session, options: &Acquire, held: &mut Held, signals: &mut Signals) -> Ended {
    let key = held.request().key().clone();
    let end = async {
        match options.hold {
            Some(hold) => sleep(hold).await,
            None => pending().await,
        }
    };
    let lost = tokio::select! {
        biased;
        _ = signals.next() => None,
        () = end => None,
        loss = watch(session, held, options.watchdog) => Some(loss),
    };
    let fault = lost.as_ref().map(|loss| Fault::finding(format!("lost {key}: {loss}")));
    Ended { code: u8::from(lost.is_some()), lost, fault }
}

/// Runs the command while the lock is renewed.
async fn run_under(session: &Session, options: &Acquire, held: &mut Held, signals: &mut Signals) -> Ended {
    let request = held.request();
    let key = request.key().clone();
    let shown = shown(&options.command[0]);
    let environment = [("LOCKSCOPE_KEY", key.as_bytes()), ("LOCKSCOPE_TOKEN", request.token().as_bytes())];
    let mut child = match Child::start(&options.command, &environment, options.on_lost, options.grace) {
        Ok(child) => child,
        Err(why) => {
            let code = if why.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
            let fault = Fault::finding(format!("can't run {shown}: {why}"));
            return Ended { code, lost: None, fault: Some(fault) };
        }
    };
    let mut lost: Option<Loss> = None;
    loop {
        let watching = async {
            match lost {
                None => watch(session, held, true).await,
                Some(_) => pending().await,
            }
        };
        tokio::select! {
            biased;
            code = child.wait() => return Ended { code, lost, fault: None },
            signal = signals.next() => child.forward(signal),
            loss = watching => {
                if options.on_lost == OnLost::Warn {
                    let warning = Fault::finding(format!("lost {key} while {shown} runs on: {loss}"));
                    let _ = warning.print(&mut std::io::stderr());
                    lost = Some(loss);
                    continue;
                }
                child.stop(options.grace).await;
                let fault = Fault::finding(format!("lost {key} while {shown} ran, which was stopped: {loss}"));
                return Ended { code: 1, lost: Some(loss), fault: Some(fault) };
            }
        }
    }
}

/// The watchdog; returns when the lock is lost.
async fn watch(session: &Session, held: &mut Held, renews: bool) -> Loss {
    if !renews {
        return held.run_out().await;
    }
    let mut troubled = false;
    loop {
        match held.renew().await {
            Turn::Renewed => troubled = false,
            Turn::Trouble(error) if !troubled => {
                troubled = true;
                let left = held.lease().ends().saturating_duration_since(Instant::now());
                let left = text::short_duration(left.as_millis() as u64);
                let key = held.request().key();
                session.say(&format!("could not renew {key}, trying again for {left}: {}", session.fault(&error)));
            }
            Turn::Trouble(_) => {}
            Turn::Lost(loss) => return loss,
        }
    }
}

/// Records and reports how it ended.
fn finish(
    session: &Session,
    options: &Acquire,
    held: &Held,
    mut record: Record,
    ended: Ended,
    released: Option<Released>,
    kept: Duration,
) -> Result<u8, Fault> {
    let key = held.request().key();
    let Ended { mut code, lost, mut fault } = ended;
    let lost = lost.or(match &released {
        Some(Released::Lost(loss)) => Some(loss.clone()),
        _ => None,
    });
    let way = match &released {
        _ if lost.is_some() => "lost",
        Some(Released::Unknown(_)) => "unknown",
        _ => "released",
    };
    if let (Some(loss), None) = (&lost, &fault) {
        // With `--on-lost warn` the command's own exit code stands.
        if options.on_lost == OnLost::Kill || options.command.is_empty() {
            code = 1;
            fault = Some(Fault::finding(format!("lost {key} before it was given back: {loss}")));
        }
    }
    if let (Some(Released::Unknown(error)), None) = (&released, &lost) {
        let lasts = humantime::format_duration(held.request().ttl());
        session.say(&format!(
            "lockscope: could not give {key} back, it ends by itself in at most {lasts}: {}",
            session.fault(error)
        ));
    }
    let exit = (!options.command.is_empty()).then_some(code);
    let why = lost.as_ref().map(Loss::to_string);
    let details = json!({ "ended": way, "lost": why, "kept_ms": kept.as_millis() as u64,
        "renewals": held.renewals(), "exit_code": exit });
    for fault in [fault, record.ended(held, &details).err()].into_iter().flatten() {
        let _ = fault.print(&mut std::io::stderr());
        code = code.max(fault.exit_code());
    }
    Ok(code)
}

fn shown(word: &OsStr) -> String {
    text::visible(word.as_encoded_bytes())
}
