//! Locks in sorted sets, where each holder has a time of its own: Symfony, the semaphores of Medallion and of npm's
//! redis-semaphore, and Redisson's permits.

use super::tokens;
use super::{Held, Hold, Library, Mode, Snapshot, Wake, Wire, Wish};

const NOW: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
";

fn script(wire: &mut Wire, text: &str, keys: &[&[u8]], arguments: &[&[u8]]) -> bool {
    wire.script(&[NOW, text].concat(), keys, arguments) == 1
}

/// Symfony: a member for each reader; `__write__` beside one of them makes it a writer.
pub struct Symfony {
    pub key: &'static str,
}

const MARK: &[u8] = b"__write__";

/// ARGV: token, lease, mode. A reader that is alone may become a writer, and a writer a reader.
const SYMFONY_TAKE: &str = "
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
local writer = redis.call('ZSCORE', KEYS[1], '__write__')
if ARGV[3] == 'write' then
  local others = redis.call('ZCARD', KEYS[1]) - (mine and 1 or 0) - (mine and writer and 1 or 0)
  if others > 0 then return 0 end
  redis.call('ZADD', KEYS[1], now + ARGV[2], '__write__')
elseif writer then
  if not mine then return 0 end
  redis.call('ZREM', KEYS[1], '__write__')
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIREAT', KEYS[1], redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
return 1";

const SYMFONY_RENEW: &str = "
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], '__write__')
redis.call('PEXPIREAT', KEYS[1], redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
return 1";

const SYMFONY_FREE: &str = "
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('ZREM', KEYS[1], '__write__')
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if last then redis.call('PEXPIREAT', KEYS[1], last) end
return 1";

const SYMFONY_EXPIRE: &str = "
redis.call('ZADD', KEYS[1], 'XX', now - 1, ARGV[1])
if ARGV[2] == 'write' then redis.call('ZADD', KEYS[1], 'XX', now - 1, '__write__') end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if last then redis.call('PEXPIREAT', KEYS[1], last) end
return 1";

impl Symfony {
    fn take(&self, wire: &mut Wire, token: &[u8], lease: Option<u64>, mode: Mode) -> bool {
        let lease = lease.unwrap_or(300_000).to_string();
        let mode: &[u8] = if mode == Mode::Read { b"read" } else { b"write" };
        script(wire, SYMFONY_TAKE, &[self.key.as_bytes()], &[token, lease.as_bytes(), mode])
    }
}

impl Library for Symfony {
    fn keeps_the_dead(&self) -> bool {
        true
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Read, Mode::Write]
    }

    fn token(&self, _process: u64, serial: u64, _salt: u8) -> Vec<u8> {
        tokens::base64(serial, 32).into_bytes()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        self.take(wire, &wish.token, wish.lease, wish.mode)
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(300_000).to_string();
        script(wire, SYMFONY_RENEW, &[self.key.as_bytes()], &[&hold.token, lease.as_bytes()])
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        script(wire, SYMFONY_FREE, &[self.key.as_bytes()], &[&hold.token])
    }

    fn promote(&mut self, wire: &mut Wire, hold: &Hold) -> Option<(Mode, Vec<u8>)> {
        let mode = if hold.mode == Mode::Read { Mode::Write } else { Mode::Read };
        self.take(wire, &hold.token, None, mode).then(|| (mode, hold.token.clone()))
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        let mode: &[u8] = if hold.mode == Mode::Read { b"read" } else { b"write" };
        script(wire, SYMFONY_EXPIRE, &[self.key.as_bytes()], &[&hold.token, mode]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let members = snapshot.zset(self.key.as_bytes());
        let live: Vec<(Vec<u8>, i64)> = members
            .into_iter()
            .map(|(member, score)| (member, score as i64))
            .filter(|(_, until)| *until > snapshot.now)
            .collect();
        let writes = live.iter().any(|(member, _)| member == MARK);
        let mode = if writes { Mode::Write } else { Mode::Read };
        // The mark alone shuts everybody out, and is nobody's.
        let alone = live.len() == 1;
        let holds = live.into_iter().filter(|(member, _)| member != MARK || alone);
        let key = self.key.as_bytes();
        holds.map(|(token, until)| Held { key: key.to_vec(), token, mode, until: Some(until) }).collect()
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key.as_bytes()
    }
}

/// How a semaphore scores its members.
#[derive(Clone, Copy, PartialEq)]
pub enum Score {
    /// When it ends; the key lives three times as long.
    End,
    /// When it was taken or renewed; all last equally long.
    Taken(i64),
}

/// Medallion's semaphore and npm's: so many members at most, stale ones are dropped by whoever asks next.
pub struct Slots {
    pub key: &'static str,
    pub limit: usize,
    pub score: Score,
    pub token: fn(u64, u64, u8) -> Vec<u8>,
}

/// ARGV: token, score counted from now, before which a score is stale, the limit, the key's TTL.
const SLOT_TAKE: &str = "
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now + ARGV[3])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[5])))
return 1";

const SLOT_RENEW: &str = "
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now + ARGV[3])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[5])))
return 1";

impl Slots {
    /// How long a score lasts after its moment.
    fn lasts(&self) -> i64 {
        match self.score {
            Score::End => 0,
            Score::Taken(lease) => lease,
        }
    }

    fn put(&self, wire: &mut Wire, text: &str, token: &[u8], lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(30_000) as i64;
        let ttl = match self.score {
            Score::End => lease * 3,
            Score::Taken(lasts) => lasts,
        };
        // Where all last equally long, a shorter lease is one that began earlier.
        let score = (lease - self.lasts()).to_string();
        let (stale, limit) = ((-self.lasts()).to_string(), self.limit.to_string());
        let arguments = [token, score.as_bytes(), stale.as_bytes(), limit.as_bytes(), ttl.to_string().as_bytes()]
            .map(<[u8]>::to_vec);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        script(wire, text, &[self.key.as_bytes()], &arguments)
    }
}

impl Library for Slots {
    fn keeps_the_dead(&self) -> bool {
        true
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.key.as_bytes().to_vec()]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Permit]
    }

    fn token(&self, process: u64, serial: u64, salt: u8) -> Vec<u8> {
        (self.token)(process, serial, salt)
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        self.put(wire, SLOT_TAKE, &wish.token, wish.lease)
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        self.put(wire, SLOT_RENEW, &hold.token, lease)
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        wire.run::<i64>(&[b"ZREM", self.key.as_bytes(), &hold.token]) == 1
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        let past = (-self.lasts() - 1).to_string();
        let text = "return redis.call('ZADD', KEYS[1], 'XX', 'CH', now + ARGV[2], ARGV[1])";
        script(wire, text, &[self.key.as_bytes()], &[&hold.token, past.as_bytes()]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.key.as_bytes();
        let ends = snapshot.zset(key).into_iter().map(|(token, score)| (token, score as i64 + self.lasts()));
        let live = ends.filter(|(_, until)| *until > snapshot.now);
        let until = |end: i64| Some(snapshot.until(key).map_or(end, |key| key.min(end)));
        live.map(|(token, end)| Held { key: key.to_vec(), token, mode: Mode::Permit, until: until(end) }).collect()
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.key.as_bytes()
    }
}

/// Redisson's RPermitExpirableSemaphore: permits that are out with their ends, beside a counter of those left.
pub struct Permits {
    pub name: &'static str,
    pub permits: usize,
    pub counter: Counter,
}

/// What became of the counter. Once the library has begun one anew, its sums mean nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Counter {
    #[default]
    Kept,
    Dropped,
    BegunAnew,
}

/// KEYS: counter, permits.
const PERMIT_TAKE: &str = "
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
if #over > 0 then
  redis.call('ZREM', KEYS[2], unpack(over))
  redis.call('INCRBY', KEYS[1], #over)
end
if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
redis.call('DECRBY', KEYS[1], 1)
redis.call('ZADD', KEYS[2], ARGV[2] == '' and '922337203685477' or now + ARGV[2], ARGV[1])
return 1";

const PERMIT_RENEW: &str = "
local score = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
return 1";

const PERMIT_FREE: &str = "
local score = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('PUBLISH', ARGV[2], redis.call('INCRBY', KEYS[1], 1))
return 1";

impl Permits {
    fn timeouts(&self) -> Vec<u8> {
        format!("{{{}}}:timeout", self.name).into_bytes()
    }

    fn channel(&self) -> Vec<u8> {
        format!("redisson_sc:{{{}}}", self.name).into_bytes()
    }

    fn script(&self, wire: &mut Wire, text: &str, arguments: &[&[u8]]) -> bool {
        script(wire, text, &[self.name.as_bytes(), &self.timeouts()], arguments)
    }

    /// What the library did, with a counter that was dropped, begins it anew: a permit given back, or a lapsed one that the
    /// next taker cleans up.
    fn count_on(&mut self, done: bool) -> bool {
        if done && self.counter == Counter::Dropped {
            self.counter = Counter::BegunAnew;
        }
        done
    }
}

impl Library for Permits {
    fn keeps_the_dead(&self) -> bool {
        true
    }

    fn set_up(&mut self, wire: &mut Wire) {
        self.counter = Counter::Kept;
        wire.run::<String>(&[b"SET", self.name.as_bytes(), self.permits.to_string().as_bytes()]);
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        vec![self.timeouts()]
    }

    fn modes(&self) -> &'static [Mode] {
        &[Mode::Permit]
    }

    fn token(&self, _process: u64, serial: u64, _salt: u8) -> Vec<u8> {
        // As text it would be no permit.
        [&[0xff][..], &tokens::random(serial, 15)].concat()
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let lease = wish.lease.map(|lease| lease.to_string()).unwrap_or_default();
        let taken = self.script(wire, PERMIT_TAKE, &[&wish.token, lease.as_bytes()]);
        self.count_on(taken)
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        let lease = lease.unwrap_or(30_000).to_string();
        self.script(wire, PERMIT_RENEW, &[&hold.token, lease.as_bytes()])
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let freed = self.script(wire, PERMIT_FREE, &[&hold.token, &self.channel()]);
        self.count_on(freed)
    }

    /// The server needs memory and drops the counter, which nobody was promised to keep.
    fn promote(&mut self, wire: &mut Wire, _hold: &Hold) -> Option<(Mode, Vec<u8>)> {
        wire.run::<i64>(&[b"DEL", self.name.as_bytes()]);
        self.counter = Counter::Dropped;
        None
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        let text = "return redis.call('ZADD', KEYS[2], 'XX', 'CH', now - 1, ARGV[1])";
        self.script(wire, text, &[&hold.token]);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        let key = self.timeouts();
        let live = snapshot.zset(&key).into_iter().filter(|(_, score)| *score as i64 > snapshot.now);
        let until = |score: f64| (score < 922_337_203_685_477.0).then_some(score as i64);
        live.map(|(token, score)| Held { key: key.clone(), token, mode: Mode::Permit, until: until(score) }).collect()
    }

    fn limit(&self) -> usize {
        self.permits
    }

    fn is_reachable(&self, snapshot: &Snapshot) -> Result<(), String> {
        if self.counter == Counter::BegunAnew {
            return Ok(());
        }
        let left =
            snapshot.string(self.name.as_bytes()).and_then(|left| String::from_utf8_lossy(left).parse::<i64>().ok());
        let out = snapshot.zset(&self.timeouts()).len() as i64;
        match left {
            Some(left) if left >= 0 && left + out == self.permits as i64 => Ok(()),
            left => Err(format!("{left:?} permits are left and {out} are out, of {}", self.permits)),
        }
    }

    fn wake(&self, _freed: &[Hold], _before: &Snapshot, _after: &Snapshot) -> Wake {
        Wake::Message { channel: self.channel(), body: None }
    }

    fn owns(&self, key: &[u8]) -> bool {
        key == self.name.as_bytes() || key == self.timeouts()
    }
}
