//! Redisson's fair lock: a list of waiters in order, a sorted set of their deadlines, and a channel for each of them.
//!
//! Only the head of the queue may take the lock when it is free. A waiter that dies there blocks the others until its
//! deadline has passed; then the next client that tries removes it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::worker::{Cut, Role, Worker};
use super::{Range, redisson, secs};

const LEASE: Duration = Duration::from_secs(30);
/// How long a waiter may take to react, by the library's default.
const WAIT: Duration = Duration::from_secs(300);
/// How long a waiter listens before it tries again by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// KEYS: lock, queue, deadlines. ARGV: now.
const DROP_DEAD_HEADS: &str = "
    local head = redis.call('lindex', KEYS[2], 0)
    while head do
        local deadline = redis.call('zscore', KEYS[3], head)
        if deadline and tonumber(deadline) > tonumber(ARGV[1]) then break end
        redis.call('zrem', KEYS[3], head)
        redis.call('lpop', KEYS[2])
        head = redis.call('lindex', KEYS[2], 0)
    end
";

/// ARGV: now, id, lease, wait. Returns nil if the lock is ours, else how long those ahead may take.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    let take_or_queue = "
        local now, id, wait = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4])
        if redis.call('exists', KEYS[1]) == 0 and (not head or head == id) then
            redis.call('lpop', KEYS[2])
            redis.call('zrem', KEYS[3], id)
            for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
                redis.call('zincrby', KEYS[3], -wait, other)
            end
            redis.call('hset', KEYS[1], id, 1)
            redis.call('pexpire', KEYS[1], ARGV[3])
            return nil
        end
        local mine = redis.call('zscore', KEYS[3], id)
        if mine then return math.max(0, tonumber(mine) - wait - now) end
        local last = redis.call('lindex', KEYS[2], -1)
        local ahead
        if last then ahead = tonumber(redis.call('zscore', KEYS[3], last)) - now
        else ahead = math.max(0, redis.call('pttl', KEYS[1])) end
        redis.call('zadd', KEYS[3], now + ahead + wait, id)
        redis.call('rpush', KEYS[2], id)
        return ahead";
    Script::new(&format!("{DROP_DEAD_HEADS}{take_or_queue}"))
});

/// ARGV: now, id, the prefix of the waiters' channels.
static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    let free = "
        if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
        redis.call('del', KEYS[1])
        if head then redis.call('publish', ARGV[3] .. head, '0') end
        return 1";
    Script::new(&format!("{DROP_DEAD_HEADS}{free}"))
});

fn keys(key: &str) -> [String; 3] {
    [key.to_string(), format!("redisson_lock_queue:{{{key}}}"), format!("redisson_lock_timeout:{{{key}}}")]
}

async fn acquire(me: &mut Worker, key: &str, id: &str, wait: Duration) -> Result<bool, Cut> {
    let (now, lease, wait) = (me.now().0, me.ms(LEASE), me.ms(wait));
    let ahead: Option<i64> = me.call(ACQUIRE.key(&keys(key)[..]).arg(now).arg(id).arg(lease).arg(wait)).await?;
    Ok(me.tried(key, ahead.is_none()))
}

/// Queues, works, frees, and queues again.
pub struct InTurn {
    pub key: String,
    pub work: Range,
    /// The delay before the first round, so that the queue starts in a known order.
    pub delay: Duration,
    /// The length of the first hold, if it differs.
    pub first: Option<Duration>,
}

impl Role for InTurn {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        me.rest(std::mem::take(&mut self.delay)).await?;
        let id = redisson::thread(me);
        let (own, channels) = (channel(&self.key, &id), channel(&self.key, ""));
        me.subscribe(&own).await?;
        while !acquire(me, &self.key, &id, WAIT).await? {
            me.listen(PATIENCE).await?;
        }
        me.unsubscribe(&own).await?;
        let work = self.first.take().unwrap_or_else(|| me.dice.duration(self.work));
        if redisson::hold(me, &self.key, &id, LEASE, work).await? {
            let now = me.now().0;
            let mine = me.call(UNLOCK.key(&keys(&self.key)[..]).arg(now).arg(&id).arg(&channels)).await?;
            me.let_go(&self.key, mine);
        }
        me.rest(secs(1)).await
    }
}

fn channel(key: &str, id: &str) -> String {
    format!("{}:{id}", redisson::channel(key))
}

/// Queues and dies at once. After its deadline another one does the same.
pub struct DyingWaiter {
    pub key: String,
    pub delay: Duration,
    pub wait: Duration,
}

impl Role for DyingWaiter {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        me.rest(std::mem::take(&mut self.delay)).await?;
        let id = redisson::thread(me);
        if acquire(me, &self.key, &id, self.wait).await? {
            // Nobody was there to wait for: give the lock back.
            let (now, channels) = (me.now().0, channel(&self.key, ""));
            let mine = me.call(UNLOCK.key(&keys(&self.key)[..]).arg(now).arg(&id).arg(&channels)).await?;
            me.let_go(&self.key, mine);
            return me.rest(secs(2)).await;
        }
        me.hang_up();
        me.rest(LEASE + self.wait + secs(3)).await
    }
}
