//! Tries to take a lock until it succeeds, the time is up or the caller stops it.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use redis::RedisError;

use super::wire::{Failure, Reply, Wire, timed_out};
use super::{Backoff, Form, Held, Lease, Other, Request, random};
use crate::base::time::Ttl;
use crate::server;
use crate::topology::Topology;

/// How long an attempt may take; a shorter lease limits it further.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result.
#[derive(Debug)]
pub enum Taken {
    Held(Box<Held>),
    /// Somebody else holds it.
    Refused(Other),
    /// The server can't be reached, or does not permit it: nothing was taken.
    Failed(RedisError),
    /// The server may have given it to us, and we can't find out. If so, it ends with its lease.
    Unknown(RedisError),
    /// Stopped before there was anything to give back.
    Stopped,
}

/// Takes the lock; with `until`, waits for it until then. `stop` ends it before or between attempts, never during one,
/// so that nothing is taken without our knowledge.
pub async fn take(
    topology: &Topology,
    request: Request,
    until: Option<Instant>,
    stop: impl Future<Output = ()>,
) -> Taken {
    take_on(&mut Wire::new(topology, request.key()), request, until, stop).await
}

/// The same on a connection that may be open already; the held lock keeps it.
pub async fn take_on(
    wire: &mut Wire,
    request: Request,
    until: Option<Instant>,
    stop: impl Future<Output = ()>,
) -> Taken {
    let mut stop = pin!(stop);
    let mut backoff = Backoff::default();
    let patience = request.ttl.min(PATIENCE);
    let mut reached = false;
    // An attempt without a reply: find out whether it took effect before the next one.
    let mut unsure: Option<RedisError> = None;
    loop {
        let form = request.form;
        let script = if unsure.is_some() { form.renew() } else { form.acquire() };
        // Connecting can be stopped; a command that was sent can't.
        let opened = tokio::select! {
            biased;
            () = &mut stop => return unsure.map_or(Taken::Stopped, Taken::Unknown),
            opened = wire.open(PATIENCE) => opened,
        };
        let called = match opened {
            Ok(()) => wire.call(script, &request, patience).await,
            Err(failure) => Err(failure),
        };
        reached |= called.is_ok() || wire.is_open();
        let (left, end) = match called {
            Ok((Reply::Done(number), sent)) => {
                let counts = form == Form::Reentrant && unsure.is_none();
                let entries = if counts { number } else { 1 };
                match Lease::begin(request.ttl, sent, Instant::now()) {
                    Some(lease) => return Taken::Held(Box::new(Held::new(wire.hand_over(), request, lease, entries))),
                    // The reply came so late that the lease may be over.
                    None => (Ttl::In(Duration::ZERO), Taken::Unknown(timed_out())),
                }
            }
            // An abandoned attempt took effect late.
            Ok((Reply::Other(other), _)) if request.unique && other.holder.as_ref() == Some(&request.token) => {
                unsure = Some(timed_out());
                continue;
            }
            Ok((Reply::Other(other), _)) => {
                unsure = None;
                (other.left, Taken::Refused(other))
            }
            Ok((Reply::Gone, _)) => {
                // The uncertain attempt did not succeed.
                (Ttl::In(Duration::ZERO), Taken::Failed(unsure.take().unwrap_or_else(timed_out)))
            }
            Err(Failure::Unknown(error)) if request.unique => {
                if unsure.replace(error).is_none() {
                    continue;
                }
                (Ttl::Never, Taken::Unknown(unsure.take().unwrap_or_else(timed_out)))
            }
            Err(Failure::Unknown(error)) => return Taken::Unknown(error),
            Err(Failure::Clean(error)) if unsure.is_some() => (Ttl::Never, Taken::Unknown(error)),
            Err(Failure::Clean(error)) if reached && passes(&error) => (Ttl::Never, Taken::Failed(error)),
            Err(Failure::Clean(error)) => return Taken::Failed(error),
        };
        let now = Instant::now();
        let Some(remaining) = until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
        else {
            return end;
        };
        if let Taken::Unknown(error) = end {
            unsure = Some(error);
        }
        let chance = random::<1>().map_or(0, |[byte]| byte);
        let pause = backoff.next(left, chance).min(remaining);
        tokio::select! {
            biased;
            () = &mut stop => return unsure.map_or(Taken::Stopped, Taken::Unknown),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whether to retry: after network errors, and errors of a server that starts or changes its role.
fn passes(error: &RedisError) -> bool {
    match error.code() {
        None => true,
        // A replica that is being promoted will accept writes soon, and a slot that moves arrives.
        Some(code) => server::is_passing(code) || ["READONLY", "MOVED", "ASK", "TRYAGAIN"].contains(&code),
    }
}
