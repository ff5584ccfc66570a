//! Hand-written locks: some left for ever, some overwritten, some beside a marker, and the many short ones of every
//! day.

use std::time::Duration;

use super::strings::{self, Lease};
use super::worker::{Cut, Role, Worker};
use super::{Range, python, secs};

/// Takes a lock without a TTL and goes away. Later it finds the lock taken; if somebody freed it, it leaves it again.
pub struct Leaver {
    pub key: &'static str,
    pub with: Leaving,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Leaving {
    /// redis-py without a `timeout`.
    RedisPy,
    /// `SETNX key 1`, but it dies before the `EXPIRE`.
    SetNx,
}

impl Role for Leaver {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        match self.with {
            Leaving::RedisPy => {
                let token = python::token(me);
                strings::take(me, self.key, &token, Lease::Never).await?;
            }
            Leaving::SetNx => {
                let got: bool = me.ask(redis::cmd("SETNX").arg(self.key).arg(1)).await?;
                me.tried(self.key, got);
            }
        }
        me.hang_up();
        me.rest_some((secs(20), secs(30))).await
    }
}

/// Does not check whether the lock is free, and overwrites its holder.
pub struct Seizer {
    pub key: String,
    pub work: Range,
    pub delay: Duration,
}

impl Role for Seizer {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        me.rest(std::mem::take(&mut self.delay)).await?;
        let token = format!("{}:{}", me.name, me.dice.number(1000, 9999));
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&token).arg("PX").arg(me.ms(secs(20))).arg("GET");
        let before: Option<String> = me.ask(&set).await?;
        me.tried(&self.key, true);
        if before.is_some() {
            me.count(&self.key, |tally| tally.seized += 1);
        }
        me.rest_some(self.work).await
    }
}

/// Does each payment once: a lock while it runs, then a marker that it is done. Sometimes a request comes twice, and
/// the marker stops it.
pub struct Payments {
    pub next: u64,
    pub work: Range,
    pub pause: Range,
}

impl Role for Payments {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        const KEPT: Duration = Duration::from_secs(90);
        let again = me.dice.number(0, 3) == 0;
        let id = self.next - u64::from(again);
        self.next = id + 1;
        let (key, marker, token) = (format!("lock:payment-{id}"), format!("completed:payment-{id}"), me.dice.uuid4());
        if !strings::take(me, &key, &token, Lease::Millis(secs(15))).await? {
            return me.rest_some(self.pause).await;
        }
        me.rest_some(self.work).await?;
        let mut done = redis::cmd("SET");
        let _: Option<String> = me.ask(done.arg(&marker).arg(&token).arg("NX").arg("PX").arg(me.ms(KEPT))).await?;
        me.rest(secs(1)).await?;
        strings::release(me, &key, &token).await?;
        me.rest_some(self.pause).await
    }
}

/// The format of a library's token.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Token {
    /// node-redlock.
    Hex16,
    /// redsync.
    Base64,
    /// Written by hand.
    Name,
}

/// Short locks on many keys, taken and freed correctly.
pub struct Everyday {
    pub prefix: &'static str,
    pub keys: u64,
    pub token: Token,
    pub lease: Duration,
    pub work: Range,
    pub pause: Range,
}

impl Role for Everyday {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let key = format!("{}{}", self.prefix, me.dice.number(0, self.keys));
        let token = match self.token {
            Token::Hex16 => me.dice.hex(16),
            Token::Base64 => me.dice.base64(16),
            Token::Name => format!("{} request {}", me.name, me.dice.number(1, 100_000)),
        };
        if strings::take(me, &key, &token, Lease::Millis(self.lease)).await? {
            me.rest_some(self.work).await?;
            strings::release(me, &key, &token).await?;
        }
        me.rest_some(self.pause).await
    }
}
