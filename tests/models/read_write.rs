//! Locks with readers and a writer: Redisson's in one hash, Medallion's in a set and a string.

use super::tokens;
use super::{Held, Hold, Library, Mode, Snapshot, Wake, Wire, Wish};

/// Redisson: `mode`, a field for each reader, one for the writer, and a lease for each entry of a reader.
pub struct RedissonReadWrite {
    pub key: &'static str,
}

const TAKE_READ: &str = "
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then return 0 end
if not mode then redis.call('HSET', KEYS[1], 'mode', 'read') end
local entry = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('SET', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. entry, 1, 'PX', ARGV[2])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1";

const TAKE_WRITE: &str = "
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1] .. ':write', 1)
  redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[2])
  return 1
end
return 0";

const FREE_READ: &str = "
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if left == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('DEL', ARGV[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. (left + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local count = tonumber(redis.call('HGET', KEYS[1], field))
    for entry = 1, count or 0 do
      longest = math.max(longest, redis.call('PTTL', ARGV[2] .. ':' .. field .. ':rwlock_timeout:' .. entry))
    end
  end
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) return 1 end
  if mode == 'write' then return 1 end
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[3], '0')
return 1";

const FREE_WRITE: &str = "
local field = ARGV[1] .. ':write'
if redis.call('HGET', KEYS[1], 'mode') ~= 'write' or redis.call('HEXISTS', KEYS[1], field) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], field, -1) > 0 then redis.call('PEXPIRE', KEYS[1], 30000) return 1 end
redis.call('HDEL', KEYS[1], field)
if redis.call('HLEN', KEYS[1]) > 1 then redis.call('HSET', KEYS[1], 'mode', 'read') return 1 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[3], '1')
return 1";

const RENEW: &str = "
local count = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
local writes = redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 1
if not count and not writes then return 0 end
for entry = 1, count or 0 do
  redis.call('PEXPIRE', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. entry, ARGV[2])
end
return redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))";

impl RedissonReadWrite {
    fn braced(&self) -> String {
        format!("{{{}}}", self.key)
    }

    fn channel(&self) -> String {
        format!("redisson_rwlock:{{{}}}", self.key)
    }

    /// The thread, without what marks it as a writer.
    fn thread(token: &[u8]) -> &[u8] {
        token.strip_suffix(b":write").unwrap_or(token)
    }
}

impl Library for RedissonReadWrite {
    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Read, Mode::Write, Mode::Read]
    }

    fn token(&self, process: u64, _serial: u64, _salt: u8) -> Vec<u8> {
        tokens::thread(process).into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let script = if wish.mode == Mode::Read { TAKE_READ } else { TAKE_WRITE };
        let lease = wish.lease.unwrap_or(30_000).to_string();
        wire.script(script, &[self.key.as_bytes()], &[&wish.token, lease.as_bytes(), self.braced().as_bytes()]) == 1
    }

    fn is_of(&self, held: &Held, wish: &Wish) -> bool {
        Self::thread(&held.token) == wish.token
    }

    fn is_still(&self, hold: &Hold, held: &Held) -> bool {
        Self::thread(&hold.token) == Self::thread(&held.token)
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(30_000).to_string();
        let arguments = [Self::thread(&hold.token), lease.as_bytes(), self.braced().as_bytes()].map(<[u8]>::to_vec);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        wire.script(RENEW, &[self.key.as_bytes()], &arguments) == 1
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let script = if hold.mode == Mode::Write { FREE_WRITE } else { FREE_READ };
        let (braced, channel) = (self.braced(), self.channel());
        let arguments = [Self::thread(&hold.token), braced.as_bytes(), channel.as_bytes()];
        wire.script(script, &[self.key.as_bytes()], &arguments) == 1
    }

    /// A writer takes the lock as a reader and then stops writing.
    fn promote(&mut self, wire: &mut Wire, hold: &Hold) -> Option<(Mode, Vec<u8>)> {
        if hold.mode != Mode::Write {
            return None;
        }
        let thread = Self::thread(&hold.token).to_vec();
        let (key, braced, channel) = (self.key.as_bytes(), self.braced(), self.channel());
        wire.script(TAKE_READ, &[key], &[&thread, b"30000", braced.as_bytes()]);
        wire.script(FREE_WRITE, &[key], &[&thread, braced.as_bytes(), channel.as_bytes()]);
        let writes = [&thread[..], b":write"].concat();
        match wire.run::<bool>(&[b"HEXISTS", key, &writes]) {
            true => None,
            false => Some((Mode::Read, thread)),
        }
    }

    fn expire(&mut self, wire: &mut Wire, _hold: &Hold) {
        wire.run::<i64>(&[b"PEXPIREAT", self.key.as_bytes(), b"1"]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.key.as_bytes();
        let fields = snapshot.hash(key);
        let writes = |thread: &[u8]| fields.contains_key(&[thread, b":write"].concat());
        // A reader has a lease of its own, as long as that is there.
        let until = |field: &[u8]| {
            let prefix = [self.braced().as_bytes(), b":", field, b":rwlock_timeout:"].concat();
            let leases = snapshot.keys.iter().filter(|(key, _)| key.starts_with(&prefix));
            leases.filter_map(|(_, lease)| lease.until).max().or(snapshot.until(key))
        };
        let holder = |field: &Vec<u8>| {
            let mode = if field.ends_with(b":write") { Mode::Write } else { Mode::Read };
            Held { key: key.to_vec(), token: field.clone(), mode, until: until(field) }
        };
        // A thread that writes and reads is one holder.
        fields.keys().filter(|field| **field != b"mode" && !writes(field)).map(holder).collect()
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        let fields = snapshot.hash(self.key.as_bytes());
        let mode = fields.get(&b"mode"[..]).map(Vec::as_slice);
        let writer = fields.keys().any(|field| field.ends_with(b":write"));
        match mode {
            Some(b"write") if !writer => Err("its mode is 'write' and nobody writes".into()),
            Some(b"read") if writer => Err("its mode is 'read' and somebody writes".into()),
            Some(_) if fields.len() == 1 => Err("nothing but the mode is left of it".into()),
            None if !fields.is_empty() => Err("it is held in no mode".into()),
            _ => Ok(()),
        }
    }

    fn excludes(&self, one: &Hold, other: &Hold) -> bool {
        let alone = one.mode.is_alone() || other.mode.is_alone();
        alone && Self::thread(&one.token) != Self::thread(&other.token)
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, after: &Snapshot) -> Wake {
        match after.keys.contains_key(self.key.as_bytes()) {
            true => Wake::Never,
            false => Wake::Message { channel: self.channel().into_bytes(), body: None },
        }
    }

    fn waits_on(&self, _token: &[u8]) -> Option<Vec<u8>> {
        Some(self.channel().into_bytes())
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key.as_bytes() || key.starts_with(format!("{}:", self.braced()).as_bytes())
    }
}

/// Medallion: a set of readers, and a string for the writer, who may be waiting for them to leave.
pub struct MedallionReadWrite {
    pub name: &'static str,
}

const MEDALLION_READ: &str = "
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1";

const MEDALLION_WRITE: &str = "
local writer = redis.call('GET', KEYS[2])
if writer and writer ~= ARGV[1] .. '_WRITERWAITING' then return 0 end
local waits = redis.call('SCARD', KEYS[1]) > 0
redis.call('SET', KEYS[2], ARGV[1] .. (waits and '_WRITERWAITING' or ''), 'PX', ARGV[2])
return waits and 0 or 1";

const MEDALLION_RENEW: &str = "
if ARGV[3] == 'read' then
  if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
  return redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
end
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[2], ARGV[2])";

const MEDALLION_FREE: &str = "
if ARGV[2] == 'read' then return redis.call('SREM', KEYS[1], ARGV[1]) end
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[2])";

impl MedallionReadWrite {
    fn readers(&self) -> Vec<u8> {
        format!("{}.readers", self.name).into_bytes()
    }

    fn writer(&self) -> Vec<u8> {
        format!("{}.writer", self.name).into_bytes()
    }

    fn script(&self, wire: &mut Wire, text: &str, arguments: &[&[u8]]) -> bool {
        wire.script(text, &[&self.readers(), &self.writer()], arguments) == 1
    }
}

fn word(mode: Mode) -> &'static [u8] {
    if mode == Mode::Read { b"read" } else { b"write" }
}

impl Library for MedallionReadWrite {
    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.readers(), self.writer()]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Read, Mode::Write, Mode::Read]
    }

    fn token(&self, process: u64, serial: u64, _salt: u8) -> Vec<u8> {
        tokens::medallion(process, serial).into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let script = if wish.mode == Mode::Read { MEDALLION_READ } else { MEDALLION_WRITE };
        self.script(wire, script, &[&wish.token, wish.lease.unwrap_or(30_000).to_string().as_bytes()])
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(30_000).to_string();
        self.script(wire, MEDALLION_RENEW, &[&hold.token, lease.as_bytes(), word(hold.mode)])
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        self.script(wire, MEDALLION_FREE, &[&hold.token, word(hold.mode)])
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        wire.run::<i64>(&[b"PEXPIREAT", &hold.key, b"1"]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let (readers, writer) = (self.readers(), self.writer());
        let until = snapshot.until(&readers);
        let reads = snapshot.set(&readers).into_iter();
        let mut held: Vec<Held> =
            reads.map(|token| Held { key: readers.clone(), token, mode: Mode::Read, until }).collect();
        let writes = snapshot.string(&writer).filter(|id| !id.ends_with(b"_WRITERWAITING"));
        held.extend(writes.map(|id| Held {
            key: writer.clone(),
            token: id.to_vec(),
            mode: Mode::Write,
            until: snapshot.until(&writer),
        }));
        held
    }

    fn owns(&self, key: &[u8]) -> bool {
        self.keys().iter().any(|own| own == key)
    }
}
