//! Redisson's lock in its wire format: a hash of holder and count, a lease that a watchdog renews after each third of
//! it, waiters that listen on a channel. The roles are a healthy worker, one that crashes, and one whose watchdog
//! stops.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::worker::{Cut, Role, Worker};
use super::{Range, secs};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('exists', KEYS[1]) == 1
         if held and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return redis.call('pttl', KEYS[1]) end
         redis.call('hincrby', KEYS[1], ARGV[2], 1)
         redis.call('pexpire', KEYS[1], ARGV[1])
         return nil",
    )
});

static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
         return redis.call('pexpire', KEYS[1], ARGV[1])",
    )
});

static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
         if redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then
             redis.call('del', KEYS[1])
             redis.call('publish', KEYS[2], '0')
         end
         redis.call('set', KEYS[3], '1', 'PX', ARGV[2])
         return 1",
    )
});

/// How long the result of an unlock is kept, in case its reply gets lost.
const LATCH: Duration = Duration::from_secs(18);

/// A thread of a new instance of the application: `<uuid>:<thread>`.
pub fn thread(me: &mut Worker) -> String {
    format!("{}:{}", me.dice.uuid4(), me.dice.number(30, 99))
}

/// The channel on which the waiters of a lock listen.
pub fn channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}

/// `None` if it is ours now, else the rest of the other's lease.
pub async fn acquire(me: &mut Worker, key: &str, id: &str, lease: Duration) -> Result<Option<Duration>, Cut> {
    let left: Option<i64> = me.call(ACQUIRE.key(key).arg(me.ms(lease)).arg(id)).await?;
    me.tried(key, left.is_none());
    Ok(left.map(|ms| Duration::from_millis(ms.max(0) as u64)))
}

/// Tries, waits for the release, and tries again until it is ours.
async fn lock(me: &mut Worker, key: &str, id: &str, lease: Duration) -> Result<(), Cut> {
    if acquire(me, key, id, lease).await?.is_none() {
        return Ok(());
    }
    let channel = channel(key);
    me.subscribe(&channel).await?;
    while acquire(me, key, id, lease).await?.is_some() {
        me.listen(lease).await?;
    }
    me.unsubscribe(&channel).await
}

pub async fn renew(me: &mut Worker, key: &str, id: &str, lease: Duration) -> Result<bool, Cut> {
    let mine = me.call(RENEW.key(key).arg(me.ms(lease)).arg(id)).await?;
    Ok(me.prolonged(key, mine))
}

async fn unlock(me: &mut Worker, key: &str, id: &str) -> Result<bool, Cut> {
    let latch = format!("redisson_unlock_latch:{{{key}}}:{}", me.dice.hex(16));
    let mine = me.call(UNLOCK.key(key).key(channel(key)).key(&latch).arg(id).arg(me.ms(LATCH))).await?;
    let _: i64 = me.ask(redis::cmd("DEL").arg(&latch)).await?;
    Ok(me.let_go(key, mine))
}

/// Works for this long under the watchdog. Returns whether the lock is still ours.
pub async fn hold(me: &mut Worker, key: &str, id: &str, lease: Duration, work: Duration) -> Result<bool, Cut> {
    let mut left = work;
    while left > lease / 3 {
        me.rest(lease / 3).await?;
        left -= lease / 3;
        if !renew(me, key, id, lease).await? {
            return Ok(false);
        }
    }
    me.rest(left).await?;
    Ok(true)
}

/// Works under a watchdog, correctly. Several on one key wait for each other.
pub struct Healthy {
    pub key: String,
    pub work: Range,
    pub pause: Range,
}

impl Role for Healthy {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let (id, lease) = (thread(me), secs(30));
        lock(me, &self.key, &id, lease).await?;
        let work = me.dice.duration(self.work);
        if hold(me, &self.key, &id, lease, work).await? {
            unlock(me, &self.key, &id).await?;
        }
        me.rest_some(self.pause).await
    }
}

/// Renews a few times, then stops.
pub struct Failing {
    pub key: String,
    pub lease: Duration,
    /// Renewals before it fails.
    pub beats: u32,
    pub how: Failure,
    /// The delay before the first round.
    pub delay: Duration,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Failure {
    /// The process and its connection die.
    Crash,
    /// The watchdog stops, while the process and its connection live on.
    Stall,
}

impl Role for Failing {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        me.rest(std::mem::take(&mut self.delay)).await?;
        let id = thread(me);
        lock(me, &self.key, &id, self.lease).await?;
        for _ in 0..self.beats {
            me.rest(self.lease / 3).await?;
            if !renew(me, &self.key, &id, self.lease).await? {
                return me.rest(self.lease).await;
            }
        }
        if self.how == Failure::Crash {
            me.rest(self.lease / 20).await?;
            me.hang_up();
        }
        // The lock expires before the next round.
        me.rest(self.lease).await?;
        me.count(&self.key, |tally| tally.expired += 1);
        me.rest(secs(1)).await
    }
}
