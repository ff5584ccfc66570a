//! The libraries whose lock is one string with the holder's token: one model, many parameters.

use super::{Held, Hold, Library, Mode, Snapshot, Wake, Wire, Wish};

/// How the key is written.
#[derive(Clone, Copy, PartialEq)]
pub enum Take {
    /// `SET NX PX`, or `SET NX` without a lease.
    Set,
    /// Looks first and then sets, in a script.
    LookAndSet,
    /// Two commands.
    SetThenExpire,
    /// Looks first; the own token is a renewal.
    OrRenew,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Renew {
    Never,
    /// `PEXPIRE` if the value is the own.
    Expire,
    /// `SET PX` if the value is the own.
    SetAgain,
    /// `SET XX PX`, whoever holds it.
    SetBlindly,
    /// As [`Renew::SetAgain`], and a key that is gone comes back.
    OrCreate,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Free {
    IfMine,
    /// `DEL`, whoever holds it.
    Blindly,
    /// If it is the own: an item for one waiter.
    Signal(&'static str),
    /// If it is the own: a message whose body is the key.
    Publish(&'static str),
    /// It stays until it runs out.
    Never,
}

pub struct Strings {
    pub key: &'static [u8],
    pub take: Take,
    pub renew: Renew,
    pub free: Free,
    pub token: fn(u64, u64, u8) -> Vec<u8>,
    /// Commands for what stands beside the lock.
    pub beside: &'static [&'static [&'static str]],
}

const TAKE: &str = "
local value = redis.call('GET', KEYS[1])
if value and not (ARGV[3] == 'or renew' and value == ARGV[1]) then return 0 end
if ARGV[2] == '' then redis.call('SET', KEYS[1], ARGV[1]) else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1";

const RENEW: &str = "
local value = redis.call('GET', KEYS[1])
local how = ARGV[3]
if how == 'create' and not value then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end
if not value or (how ~= 'blindly' and value ~= ARGV[1]) then return 0 end
if how == 'expire' then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1";

const FREE: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == 'signal' then
  redis.call('DEL', ARGV[3]) redis.call('LPUSH', ARGV[3], 1) redis.call('PEXPIRE', ARGV[3], 1000)
elseif ARGV[2] == 'publish' then
  redis.call('PUBLISH', ARGV[3], KEYS[1])
end
return redis.call('DEL', KEYS[1])";

impl Strings {
    fn expire_after(&self, wire: &mut Wire, lease: Option<u64>) {
        if let Some(lease) = lease {
            wire.run::<i64>(&[b"PEXPIRE", self.key, lease.to_string().as_bytes()]);
        }
    }
}

impl Library for Strings {
    fn set_up(&mut self, wire: &mut Wire) {
        for command in self.beside {
            let line: Vec<&[u8]> = command.iter().map(|part| part.as_bytes()).collect();
            wire.run::<redis::Value>(&line);
        }
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.to_vec()]
    }

    fn token(&self, process: u64, serial: u64, salt: u8) -> Vec<u8> {
        (self.token)(process, serial, salt)
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let lease = wish.lease.map(|lease| lease.to_string()).unwrap_or_default();
        match self.take {
            Take::Set if wish.lease.is_none() => wire.run::<i64>(&[b"SETNX", self.key, &wish.token]) == 1,
            Take::Set => {
                let answer: Option<String> = wire.run(&[b"SET", self.key, &wish.token, b"NX", b"PX", lease.as_bytes()]);
                answer.is_some()
            }
            Take::SetThenExpire => {
                let taken = wire.run::<i64>(&[b"SETNX", self.key, &wish.token]) == 1;
                if taken {
                    self.expire_after(wire, wish.lease);
                }
                taken
            }
            Take::LookAndSet => wire.script(TAKE, &[self.key], &[&wish.token, lease.as_bytes(), b""]) == 1,
            Take::OrRenew => wire.script(TAKE, &[self.key], &[&wish.token, lease.as_bytes(), b"or renew"]) == 1,
        }
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let Some(lease) = lease else { return false };
        let how: &[u8] = match self.renew {
            Renew::Never => return false,
            Renew::Expire => b"expire",
            Renew::SetAgain => b"set",
            Renew::SetBlindly => b"blindly",
            Renew::OrCreate => b"create",
        };
        wire.script(RENEW, &[self.key], &[&hold.token, lease.to_string().as_bytes(), how]) == 1
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let (how, place): (&[u8], &[u8]) = match self.free {
            Free::Never => return false,
            Free::Blindly => return wire.run::<i64>(&[b"DEL", self.key]) == 1,
            Free::IfMine => (b"", b""),
            Free::Signal(list) => (b"signal", list.as_bytes()),
            Free::Publish(channel) => (b"publish", channel.as_bytes()),
        };
        wire.script(FREE, &[self.key], &[&hold.token, how, place]) == 1
    }

    fn expire(&mut self, wire: &mut Wire, _hold: &Hold) {
        wire.run::<i64>(&[b"PEXPIREAT", self.key, b"1"]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let holder = snapshot.string(self.key).map(|token| Held {
            key: self.key.to_vec(),
            token: token.to_vec(),
            mode: Mode::Exclusive,
            until: snapshot.until(self.key),
        });
        holder.into_iter().collect()
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, _after: &Snapshot) -> Wake {
        match self.free {
            Free::Signal(list) => Wake::Item(list.as_bytes().to_vec()),
            Free::Publish(channel) => {
                Wake::Message { channel: channel.as_bytes().to_vec(), body: Some(self.key.to_vec()) }
            }
            _ => Wake::Never,
        }
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key || matches!(self.free, Free::Signal(list) if list.as_bytes() == key)
    }
}
