//! A client that tries to take a lock that others hold, again and again, on its own connection.

use std::time::{Duration, Instant};

use redis::RedisError;

use super::Request;
use super::wire::{Failure, Reply, Wire};
use crate::topology::Topology;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// If dropped, what it holds stays on the server until its lease ends.
pub struct Contender {
    wire: Wire,
    request: Request,
    /// Until when the server may hold the lock for it.
    owes: Option<Instant>,
}

/// The result of an attempt.
#[derive(Debug)]
pub enum Attempt {
    Obtained,
    /// Somebody else has it.
    Refused,
    /// No reply, or none that says so: [`Contender::settle`] gives back what may have been taken.
    Failed,
}

impl Contender {
    pub fn new(topology: &Topology, request: Request) -> Contender {
        Contender { wire: Wire::new(topology, request.key()), request, owes: None }
    }

    /// Tries once. Do not drop it before it is done: nobody would know what it took.
    pub async fn attempt(&mut self) -> Attempt {
        let called = self.wire.call(self.request.form.acquire(), &self.request, PATIENCE).await;
        let lease = Instant::now() + self.request.ttl;
        match called {
            Ok((Reply::Done(_), _)) => {
                self.owes = Some(lease);
                Attempt::Obtained
            }
            Ok((Reply::Other(other), _)) => {
                // An earlier attempt without a reply took effect late.
                if other.holder.as_ref() == Some(&self.request.token) {
                    self.owes = Some(lease);
                }
                Attempt::Refused
            }
            Ok((Reply::Gone, _)) => Attempt::Failed,
            Err(Failure::Clean(_)) => Attempt::Failed,
            Err(Failure::Unknown(_)) => {
                self.owes = Some(lease);
                Attempt::Failed
            }
        }
    }

    /// Gives back what it holds or may hold. An error: it may stay there until its lease ends.
    pub async fn settle(&mut self) -> Result<(), RedisError> {
        while self.owes.is_some_and(|until| Instant::now() < until) {
            match self.wire.call(self.request.form.release(), &self.request, PATIENCE).await {
                // It entered more than once: an earlier attempt took effect late.
                Ok((Reply::Done(1..), _)) => {}
                Ok(_) => break,
                Err(failure) => return Err(failure.error()),
            }
        }
        self.owes = None;
        Ok(())
    }
}
