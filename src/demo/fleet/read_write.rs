//! Redisson's read-write lock: a hash with its mode, many readers or one writer, and a lease for each reader beside it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::worker::{Cut, Role, Worker};
use super::{Range, redisson, secs};

const LEASE: Duration = Duration::from_secs(30);
/// How long a waiter listens before it tries again by itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// KEYS: lock, this reader's lease. ARGV: lease, id.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local mode = redis.call('hget', KEYS[1], 'mode')
         if mode == 'write' then return redis.call('pttl', KEYS[1]) end
         if not mode then redis.call('hset', KEYS[1], 'mode', 'read') end
         local entry = redis.call('hincrby', KEYS[1], ARGV[2], 1)
         redis.call('set', KEYS[2] .. ':' .. entry, 1, 'PX', ARGV[1])
         redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[1])))
         return nil",
    )
});

static RENEW_READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local entries = tonumber(redis.call('hget', KEYS[1], ARGV[2]) or 0)
         for entry = 1, entries do redis.call('pexpire', KEYS[2] .. ':' .. entry, ARGV[1]) end
         if entries == 0 then return 0 end
         return redis.call('pexpire', KEYS[1], ARGV[1])",
    )
});

/// KEYS: lock, this reader's lease, channel. ARGV: id.
static END_READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
         local entries = redis.call('hincrby', KEYS[1], ARGV[1], -1)
         redis.call('del', KEYS[2] .. ':' .. (entries + 1))
         if entries <= 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
         if redis.call('hlen', KEYS[1]) <= 1 then
             redis.call('del', KEYS[1])
             redis.call('publish', KEYS[3], '0')
         end
         return 1",
    )
});

static WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('exists', KEYS[1]) == 1 then return redis.call('pttl', KEYS[1]) end
         redis.call('hset', KEYS[1], 'mode', 'write')
         redis.call('hset', KEYS[1], ARGV[2], 1)
         redis.call('pexpire', KEYS[1], ARGV[1])
         return nil",
    )
});

static END_WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
         redis.call('del', KEYS[1])
         redis.call('publish', KEYS[2], '1')
         return 1",
    )
});

fn channel(key: &str) -> String {
    format!("redisson_rwlock:{{{key}}}")
}

/// Reads, again and again.
pub struct Reader {
    pub key: String,
    pub work: Range,
    pub pause: Range,
}

impl Role for Reader {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let (key, channel, id) = (&self.key, channel(&self.key), redisson::thread(me));
        let lease = format!("{{{key}}}:{id}:rwlock_timeout");
        let mut listening = false;
        loop {
            let left: Option<i64> = me.call(READ.key(key).key(&lease).arg(me.ms(LEASE)).arg(&id)).await?;
            if me.tried(key, left.is_none()) {
                break;
            }
            wait(me, &channel, &mut listening).await?;
        }
        stop_waiting(me, &channel, listening).await?;
        let mut work = me.dice.duration(self.work);
        while work > LEASE / 3 {
            me.rest(LEASE / 3).await?;
            work -= LEASE / 3;
            let mine = me.call(RENEW_READ.key(key).key(&lease).arg(me.ms(LEASE)).arg(&id)).await?;
            if !me.prolonged(key, mine) {
                return me.rest(secs(5)).await;
            }
        }
        me.rest(work).await?;
        let mine = me.call(END_READ.key(key).key(&lease).key(&channel).arg(&id)).await?;
        me.let_go(key, mine);
        me.rest_some(self.pause).await
    }
}

/// Writes, again and again: waits until nobody reads.
pub struct Writer {
    pub key: String,
    pub work: Range,
    pub pause: Range,
}

impl Role for Writer {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let (key, channel, id) = (&self.key, channel(&self.key), format!("{}:write", redisson::thread(me)));
        let mut listening = false;
        loop {
            let left: Option<i64> = me.call(WRITE.key(key).arg(me.ms(LEASE)).arg(&id)).await?;
            if me.tried(key, left.is_none()) {
                break;
            }
            wait(me, &channel, &mut listening).await?;
        }
        stop_waiting(me, &channel, listening).await?;
        let work = me.dice.duration(self.work);
        if redisson::hold(me, key, &id, LEASE, work).await? {
            let mine = me.call(END_WRITE.key(key).key(&channel).arg(&id)).await?;
            me.let_go(key, mine);
        }
        me.rest_some(self.pause).await
    }
}

async fn wait(me: &mut Worker, channel: &str, listening: &mut bool) -> Result<(), Cut> {
    if !std::mem::replace(listening, true) {
        // Try once more: it may have been freed before we listened.
        return me.subscribe(channel).await;
    }
    me.listen(PATIENCE).await
}

async fn stop_waiting(me: &mut Worker, channel: &str, listening: bool) -> Result<(), Cut> {
    if listening { me.unsubscribe(channel).await } else { Ok(()) }
}
