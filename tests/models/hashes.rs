//! Locks in hashes: one by hand that can be entered again, Redisson's groups of items, and Huey's beside results.

use super::tokens;
use super::{Held, Hold, Library, Mode, Snapshot, Wake, Wire, Wish};

/// A holder and how often it entered.
pub struct Reentrant {
    pub key: &'static str,
}

const TAKE: &str = "
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

const RENEW: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

const FREE: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0 then redis.call('DEL', KEYS[1]) end
return 1";

impl Library for Reentrant {
    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn token(&self, process: u64, _serial: u64, _salt: u8) -> Vec<u8> {
        format!("worker-{process}").into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let lease = wish.lease.unwrap_or(30_000).to_string();
        wire.script(TAKE, &[self.key.as_bytes()], &[&wish.token, lease.as_bytes()]) == 1
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(30_000).to_string();
        wire.script(RENEW, &[self.key.as_bytes()], &[&hold.token, lease.as_bytes()]) == 1
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        wire.script(FREE, &[self.key.as_bytes()], &[&hold.token]) == 1
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

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key.as_bytes()
    }
}

/// Redisson's `getMultiLock(group, values)`: items of one hash, each held on its own.
pub struct Group {
    pub key: &'static str,
}

/// ARGV: item, holder, lease.
const GROUP_TAKE: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local other = redis.call('HGET', KEYS[1], ARGV[1])
if other and other ~= ARGV[2] then
  local ends = redis.call('HGET', KEYS[1], ARGV[1] .. ':' .. other .. ':expire_time')
  if ends and tonumber(ends) > now then return 0 end
  redis.call('HDEL', KEYS[1], ARGV[1] .. ':' .. other .. ':expire_time', ARGV[1] .. ':' .. other .. ':lock_count')
end
local id = ARGV[1] .. ':' .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], id .. ':expire_time', now + ARGV[3])
redis.call('HINCRBY', KEYS[1], id .. ':lock_count', 1)
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[3])))
return 1";

const GROUP_FREE: &str = "
local id = ARGV[1] .. ':' .. ARGV[2]
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if redis.call('HINCRBY', KEYS[1], id .. ':lock_count', -1) > 0 then return 1 end
redis.call('HDEL', KEYS[1], ARGV[1], id .. ':expire_time', id .. ':lock_count')
redis.call('PUBLISH', ARGV[3], '0')
return 1";

const GROUP_EXPIRE: &str = "
return redis.call('HSET', KEYS[1], ARGV[1] .. ':' .. ARGV[2] .. ':expire_time', 1000)";

impl Group {
    fn channel(&self) -> String {
        format!("redisson_lock__channel:{{{}}}", self.key)
    }

    fn item(number: u8) -> String {
        tokens::hex(1000 + (number % 2) as u64, 8)
    }

    /// Item and thread of `<item>:<uuid>:<thread>:lock_count`.
    fn parts(token: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let text = String::from_utf8_lossy(token);
        let (item, rest) = text.split_once(':').unwrap_or_default();
        (item.into(), rest.trim_end_matches(":lock_count").into())
    }
}

impl Library for Group {
    fn keeps_the_dead(&self) -> bool {
        true
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn token(&self, process: u64, _serial: u64, salt: u8) -> Vec<u8> {
        format!("{}:{}:lock_count", Self::item(salt), tokens::thread(process)).into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let (item, thread) = Self::parts(&wish.token);
        let lease = wish.lease.unwrap_or(30_000).to_string();
        wire.script(GROUP_TAKE, &[self.key.as_bytes()], &[&item, &thread, lease.as_bytes()]) == 1
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let (item, thread) = Self::parts(&hold.token);
        wire.script(GROUP_FREE, &[self.key.as_bytes()], &[&item, &thread, self.channel().as_bytes()]) == 1
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        let (item, thread) = Self::parts(&hold.token);
        wire.script(GROUP_EXPIRE, &[self.key.as_bytes()], &[&item, &thread]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.key.as_bytes();
        let fields = snapshot.hash(key);
        let held = |token: &Vec<u8>| {
            let (item, thread) = Self::parts(token);
            let ends = fields.get(&[&item[..], b":", &thread, b":expire_time"].concat())?;
            let until: i64 = String::from_utf8_lossy(ends).parse().ok()?;
            let is_its = fields.get(&item) == Some(&thread) && until > snapshot.now;
            is_its.then(|| Held { key: key.to_vec(), token: token.clone(), mode: Mode::Exclusive, until: Some(until) })
        };
        fields.keys().filter(|field| field.ends_with(b":lock_count")).filter_map(held).collect()
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        let fields = snapshot.hash(self.key.as_bytes());
        let broken = fields.iter().find(|(item, thread)| {
            let id = [item.as_slice(), b":", thread].concat();
            !item.contains(&b':') && !fields.contains_key(&[&id[..], b":lock_count"].concat())
        });
        broken.map_or(Ok(()), |(item, _)| Err(format!("{} is held and not counted", item.escape_ascii())))
    }

    fn excludes(&self, one: &Hold, other: &Hold) -> bool {
        Self::parts(&one.token).0 == Self::parts(&other.token).0
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, _after: &Snapshot) -> Wake {
        Wake::Message { channel: self.channel().into_bytes(), body: None }
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key.as_bytes()
    }
}

/// Huey: a field of the hash of results for each lock that is held; it says nothing of who holds it.
pub struct Huey;

const HUEY: &[u8] = b"huey.results.shop";
const HUEY_ONE: &[u8] = b"\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x011\x94.";
const RESULT: &[u8] = b"8c2f0e5e-0000-4000-8000-000000000001";

impl Library for Huey {
    fn set_up(&mut self, wire: &mut Wire) {
        wire.run::<i64>(&[b"HSETNX", HUEY, RESULT, HUEY_ONE]);
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![HUEY.to_vec()]
    }

    fn token(&self, _process: u64, _serial: u64, salt: u8) -> Vec<u8> {
        [&b"shop.lock.nightly"[..], b"shop.lock.hourly"][salt as usize % 2].to_vec()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        wire.run::<i64>(&[b"HSETNX", HUEY, &wish.token, HUEY_ONE]) == 1
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        wire.run::<i64>(&[b"HDEL", HUEY, &hold.token]) == 1
    }

    fn expire(&mut self, _wire: &mut Wire, _hold: &Hold) {}

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let locks = snapshot.hash(HUEY).into_keys().filter(|field| field.starts_with(b"shop.lock."));
        locks.map(|token| Held { key: HUEY.to_vec(), token, mode: Mode::Exclusive, until: None }).collect()
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        match snapshot.hash(HUEY).contains_key(RESULT) {
            true => Ok(()),
            false => Err("the result beside the lock is gone".into()),
        }
    }

    fn excludes(&self, one: &Hold, other: &Hold) -> bool {
        one.token == other.token
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == HUEY
    }
}
