//! Redisson's lock and its kin: a hash with the holder's id and the count of its entries; a fair one has a queue.

use super::tokens;
use super::{Held, Hold, Library, Mode, Snapshot, Wake, Wire, Wish};

pub enum Kind {
    Lock,
    Fair,
    Fenced,
}

pub struct Redisson {
    pub key: &'static str,
    pub kind: Kind,
}

const TAKE: &str = "
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] == 'fenced' then redis.call('INCR', KEYS[2]) end
return 1";

/// KEYS: the lock, the queue, the deadlines.
const DROP_THE_DEAD: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
while true do
  local head = redis.call('LINDEX', KEYS[2], 0)
  if not head or tonumber(redis.call('ZSCORE', KEYS[3], head)) > now then break end
  redis.call('ZREM', KEYS[3], head)
  redis.call('LPOP', KEYS[2])
end
";

const TAKE_FAIR: &str = "
local head = redis.call('LINDEX', KEYS[2], 0)
if redis.call('EXISTS', KEYS[1]) == 0 and (not head or head == ARGV[1]) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not redis.call('ZSCORE', KEYS[3], ARGV[1]) then
  redis.call('ZADD', KEYS[3], now + 300000, ARGV[1])
  redis.call('RPUSH', KEYS[2], ARGV[1])
end
return 0";

const RENEW: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

const FREE: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then redis.call('PEXPIRE', KEYS[1], 30000) return 1 end
redis.call('DEL', KEYS[1])
local channel = ARGV[2]
if ARGV[3] == 'fair' then
  local head = redis.call('LINDEX', KEYS[2], 0)
  if not head then return 1 end
  channel = channel .. ':' .. head
end
redis.call('PUBLISH', channel, '0')
return 1";

impl Redisson {
    fn queue(&self) -> Vec<u8> {
        format!("redisson_lock_queue:{{{}}}", self.key).into_bytes()
    }

    fn deadlines(&self) -> Vec<u8> {
        format!("redisson_lock_timeout:{{{}}}", self.key).into_bytes()
    }

    fn fence(&self) -> Vec<u8> {
        format!("redisson_lock_token:{{{}}}", self.key).into_bytes()
    }

    /// A name with a brace of its own needs no others.
    fn channel(&self) -> String {
        match self.key.contains('{') {
            true => format!("redisson_lock__channel:{}", self.key),
            false => format!("redisson_lock__channel:{{{}}}", self.key),
        }
    }

    fn is_fair(&self) -> bool {
        matches!(self.kind, Kind::Fair)
    }
}

impl Library for Redisson {
    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn token(&self, process: u64, _serial: u64, _salt: u8) -> Vec<u8> {
        tokens::thread(process).into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let lease = wish.lease.unwrap_or(30_000).to_string();
        let key = self.key.as_bytes();
        if self.is_fair() {
            let script = [DROP_THE_DEAD, TAKE_FAIR].concat();
            let keys = [key, &self.queue(), &self.deadlines()];
            return wire.script(&script, &keys, &[&wish.token, lease.as_bytes()]) == 1;
        }
        let fenced: &[u8] = if matches!(self.kind, Kind::Fenced) { b"fenced" } else { b"" };
        wire.script(TAKE, &[key, &self.fence()], &[&wish.token, lease.as_bytes(), fenced]) == 1
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(30_000).to_string();
        wire.script(RENEW, &[self.key.as_bytes()], &[&hold.token, lease.as_bytes()]) == 1
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let (fair, script): (&[u8], _) = match self.is_fair() {
            true => (b"fair", [DROP_THE_DEAD, FREE].concat()),
            false => (b"", FREE.to_string()),
        };
        let keys = [self.key.as_bytes(), &self.queue(), &self.deadlines()];
        wire.script(&script, &keys, &[&hold.token, self.channel().as_bytes(), fair]) == 1
    }

    fn expire(&mut self, wire: &mut Wire, _hold: &Hold) {
        wire.run::<i64>(&[b"PEXPIREAT", self.key.as_bytes(), b"1"]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.key.as_bytes();
        let until = snapshot.until(key);
        let holders = snapshot.hash(key).into_keys();
        holders.map(|token| Held { key: key.to_vec(), token, mode: Mode::Exclusive, until }).collect()
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, after: &Snapshot) -> Wake {
        let mut channel = self.channel();
        if self.is_fair() {
            let Some(head) = after.list(&self.queue()).into_iter().next() else { return Wake::Never };
            channel = format!("{channel}:{}", String::from_utf8_lossy(&head));
        }
        Wake::Message { channel: channel.into_bytes(), body: Some(b"0".to_vec()) }
    }

    fn waits_on(&self, token: &[u8]) -> Option<Vec<u8>> {
        let channel = self.channel().into_bytes();
        Some(if self.is_fair() { [&channel[..], b":", token].concat() } else { channel })
    }

    /// A fencing counter goes up with each hold.
    fn leaves_a_trace(&self) -> bool {
        matches!(self.kind, Kind::Fenced)
    }

    fn owns(&self, key: &[u8]) -> bool {
        // The fencing counter only ever grows, and only the library's own hand moves it.
        key == self.key.as_bytes() || key == self.queue() || key == self.deadlines()
    }
}
