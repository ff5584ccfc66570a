//! Locks that so many may have at once, kept in several keys: sidekiq-unique-jobs, Ruby's redis-semaphore, and the bare
//! counter of Redisson's semaphore.

use super::tokens;
use super::{Held, Hold, Library, Mode, Snapshot, Wake, Wire, Wish};

/// sidekiq-unique-jobs: jobs in a hash; up to version 8 a string and lists stand beside it.
pub struct Sidekiq {
    pub digest: &'static str,
    pub limit: usize,
    /// Version 9: nothing but the hash.
    pub alone: bool,
}

/// KEYS: the digest, hash, primed, info, digests, queued. ARGV: job, value, limit, seconds, whether the hash is alone.
const SIDEKIQ_TAKE: &str = "
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[5], ARGV[4], KEYS[1])
if ARGV[5] == '0' then
  redis.call('SET', KEYS[1], ARGV[1])
  redis.call('LPUSH', KEYS[3], ARGV[1])
  redis.call('SET', KEYS[4], '{\"worker\":\"ImportJob\"}')
end
return 1";

const SIDEKIQ_FREE: &str = "
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('LREM', KEYS[3], 0, ARGV[1])
if redis.call('HLEN', KEYS[2]) > 0 then return 1 end
redis.call('ZREM', KEYS[5], KEYS[1])
if ARGV[5] == '0' then
  redis.call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[6])
  redis.call('LPUSH', KEYS[6], 1)
  redis.call('PEXPIRE', KEYS[6], 5000)
end
return 1";

impl Sidekiq {
    fn key(&self, suffix: &str) -> Vec<u8> {
        format!("{}{suffix}", self.digest).into_bytes()
    }

    fn script(&self, wire: &mut Wire, text: &str, job: &[u8]) -> bool {
        let names = ["", ":LOCKED", ":PRIMED", ":INFO"].map(|suffix| self.key(suffix));
        let mut keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let queued = self.key(":QUEUED");
        keys.extend([&b"uniquejobs:digests"[..], &queued]);
        let (seconds, micros): (u64, u64) = wire.run(&[b"TIME"]);
        let at = format!("{seconds}.{micros:06}");
        let limit = self.limit.to_string();
        let value = match self.alone {
            true => format!(r#"{{"worker":"BillJob","limit":{limit},"time":{at}}}"#),
            false => at.clone(),
        };
        let alone: &[u8] = if self.alone { b"1" } else { b"0" };
        wire.script(text, &keys, &[job, value.as_bytes(), limit.as_bytes(), at.as_bytes(), alone]) == 1
    }
}

impl Library for Sidekiq {
    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key(":LOCKED")]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Permit]
    }

    fn token(&self, _process: u64, serial: u64, _salt: u8) -> Vec<u8> {
        tokens::hex(serial, 12).into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        self.script(wire, SIDEKIQ_TAKE, &wish.token)
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        self.script(wire, SIDEKIQ_FREE, &hold.token)
    }

    fn expire(&mut self, _wire: &mut Wire, _hold: &Hold) {}

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.key(":LOCKED");
        let jobs = snapshot.hash(&key).into_keys();
        jobs.map(|token| Held { key: key.clone(), token, mode: Mode::Permit, until: None }).collect()
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        let listed = snapshot.zset(b"uniquejobs:digests").contains_key(self.digest.as_bytes());
        let held = !snapshot.hash(&self.key(":LOCKED")).is_empty();
        match (listed, held) {
            (true, false) => Err("the digest is still listed, a ghost".into()),
            (false, true) => Err("it is held, and its digest is not listed".into()),
            _ => Ok(()),
        }
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, after: &Snapshot) -> Wake {
        match self.alone || after.keys.contains_key(&self.key(":LOCKED")) {
            true => Wake::Never,
            false => Wake::Item(self.key(":QUEUED")),
        }
    }

    fn owns(&self, key: &[u8]) -> bool {
        key.starts_with(self.digest.as_bytes()) || key == b"uniquejobs:digests"
    }
}

/// Ruby's redis-semaphore: tokens that are left in a list, those that are out in a hash with the time of each.
pub struct RubySemaphore {
    pub name: &'static str,
    pub places: usize,
    /// The place that was taken last.
    pub last: i64,
    /// Places that a client has taken out of the list and not yet put into the hash: two commands.
    pub between: Vec<Vec<u8>>,
}

impl RubySemaphore {
    fn key(&self, part: &str) -> Vec<u8> {
        format!("SEMAPHORE:{}:{part}", self.name).into_bytes()
    }
}

const RUBY_TAKE: &str = "
local place = redis.call('LPOP', KEYS[1])
if not place then return -1 end
redis.call('HSET', KEYS[2], place, ARGV[1])
return tonumber(place)";

const RUBY_FREE: &str = "
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('LPUSH', KEYS[1], ARGV[1])
return 1";

impl Library for RubySemaphore {
    fn set_up(&mut self, wire: &mut Wire) {
        wire.run::<String>(&[b"SET", &self.key("EXISTS"), b"1"]);
        wire.run::<String>(&[b"SET", &self.key("VERSION"), b"1"]);
        for place in 0..self.places {
            wire.run::<i64>(&[b"RPUSH", &self.key("AVAILABLE"), place.to_string().as_bytes()]);
        }
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key("GRABBED")]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Permit]
    }

    /// The place, which is known only when it is taken: the time tells holds apart.
    fn token(&self, _process: u64, serial: u64, _salt: u8) -> Vec<u8> {
        serial.to_string().into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        if wish.salt % 6 == 5 {
            self.between.extend(wire.run::<Option<Vec<u8>>>(&[b"LPOP", &self.key("AVAILABLE")]));
            return false;
        }
        let serial = String::from_utf8_lossy(&wish.token).into_owned();
        let (seconds, _): (u64, u64) = wire.run(&[b"TIME"]);
        let at = format!("{seconds}.{:06}", serial.parse::<u64>().unwrap_or(0));
        self.last = wire.script(RUBY_TAKE, &[&self.key("AVAILABLE"), &self.key("GRABBED")], &[at.as_bytes()]);
        self.last >= 0
    }

    fn is_of(&self, held: &Held, _wish: &Wish) -> bool {
        held.token == self.last.to_string().as_bytes()
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        wire.script(RUBY_FREE, &[&self.key("AVAILABLE"), &self.key("GRABBED")], &[&hold.token]) == 1
    }

    fn expire(&mut self, _wire: &mut Wire, _hold: &Hold) {}

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.key("GRABBED");
        let places = snapshot.hash(&key).into_keys();
        places.map(|token| Held { key: key.clone(), token, mode: Mode::Permit, until: None }).collect()
    }

    fn excludes(&self, one: &Hold, other: &Hold) -> bool {
        one.token == other.token
    }

    fn limit(&self) -> usize {
        self.places
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        let mut places = snapshot.list(&self.key("AVAILABLE"));
        places.extend(snapshot.hash(&self.key("GRABBED")).into_keys());
        places.extend(self.between.iter().cloned());
        places.sort();
        let all: Vec<Vec<u8>> = (0..self.places).map(|place| place.to_string().into_bytes()).collect();
        match places == all {
            true => Ok(()),
            false => Err(format!("the places are {places:?}")),
        }
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key("AVAILABLE") || key == self.key("GRABBED")
    }

    /// It gives its place back whatever has become of it, twice then: the hazard that lockscope names before a release.
    fn has_late_clients(&self) -> bool {
        false
    }
}

/// Redisson's RSemaphore: the permits that are left, and nothing of who has the others.
pub struct Counter {
    pub key: &'static str,
    pub permits: i64,
}

impl Counter {
    fn channel(&self) -> Vec<u8> {
        format!("redisson_sc:{{{}}}", self.key).into_bytes()
    }
}

const COUNTER_TAKE: &str = "
if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
redis.call('DECRBY', KEYS[1], 1)
return 1";

const COUNTER_FREE: &str = "
redis.call('PUBLISH', ARGV[1], redis.call('INCRBY', KEYS[1], 1))
return 1";

impl Library for Counter {
    fn set_up(&mut self, wire: &mut Wire) {
        wire.run::<String>(&[b"SET", self.key.as_bytes(), self.permits.to_string().as_bytes()]);
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Permit]
    }

    fn token(&self, _process: u64, serial: u64, _salt: u8) -> Vec<u8> {
        serial.to_string().into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, _wish: &Wish) -> bool {
        wire.script(COUNTER_TAKE, &[self.key.as_bytes()], &[]) == 1
    }

    fn release(&mut self, wire: &mut Wire, _hold: &Hold) -> bool {
        wire.script(COUNTER_FREE, &[self.key.as_bytes()], &[&self.channel()]) == 1
    }

    fn expire(&mut self, _wire: &mut Wire, _hold: &Hold) {}

    fn held(&self, _snapshot: &Snapshot) -> Vec<Held> {
        Vec::new()
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        let left = snapshot.string(self.key.as_bytes()).map(|left| String::from_utf8_lossy(left).into_owned());
        match left.as_deref().map(str::parse::<i64>) {
            Some(Ok(left)) if left >= 0 => Ok(()),
            _ => Err(format!("the permits that were left are {left:?}: those that were free are lost")),
        }
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, _after: &Snapshot) -> Wake {
        Wake::Message { channel: self.channel(), body: None }
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key.as_bytes()
    }

    fn has_late_clients(&self) -> bool {
        false
    }

    fn is_counted(&self) -> bool {
        true
    }
}
