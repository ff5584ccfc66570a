//! Web frameworks: Laravel's atomic locks, Symfony's sorted sets, Spring's lock registry.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::strings::{self, Lease};
use super::worker::{Cut, Role, Worker};
use super::{Range, millis, secs};

/// Laravel: an owner of sixteen letters and digits, waiters that poll each 250 ms.
pub struct Laravel {
    pub key: String,
    /// `None`: `lock(name, 0)`, which never expires.
    pub lease: Option<Duration>,
    pub work: Range,
    pub pause: Range,
}

impl Role for Laravel {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let owner = me.dice.alphanumeric(16);
        let lease = self.lease.map_or(Lease::Never, |lease| Lease::Seconds(me.tempo().whole_seconds(lease)));
        while !strings::take(me, &self.key, &owner, lease).await? {
            me.rest(millis(250)).await?;
        }
        me.rest_some(self.work).await?;
        strings::release(me, &self.key, &owner).await?;
        me.rest_some(self.pause).await
    }
}

/// KEYS: lock. ARGV: now, until, token.
static SYMFONY_SAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[1])
         if not redis.call('zscore', KEYS[1], ARGV[3]) and redis.call('zcard', KEYS[1]) > 0 then return 0 end
         redis.call('zadd', KEYS[1], ARGV[2], ARGV[3])
         redis.call('zadd', KEYS[1], ARGV[2], '__write__')
         redis.call('pexpireat', KEYS[1], ARGV[2])
         return 1",
    )
});

static SYMFONY_DELETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('zrem', KEYS[1], ARGV[1]) == 0 then return 0 end
         redis.call('zrem', KEYS[1], '__write__')
         return 1",
    )
});

/// Symfony: an exclusive lock of 300 seconds; a second worker polls for it each 100 ms.
pub struct Symfony {
    pub key: String,
    pub work: Range,
    pub pause: Range,
}

impl Role for Symfony {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let token = me.dice.base64(32);
        loop {
            let now = me.now().0;
            let until = now + me.ms(secs(300)) as i64;
            let got = me.call(SYMFONY_SAVE.key(&self.key).arg(now).arg(until).arg(&token)).await?;
            if me.tried(&self.key, got) {
                break;
            }
            me.rest_some((millis(90), millis(110))).await?;
        }
        me.rest_some(self.work).await?;
        let mine = me.call(SYMFONY_DELETE.key(&self.key).arg(&token)).await?;
        me.let_go(&self.key, mine);
        me.rest_some(self.pause).await
    }
}

static SPRING_OBTAIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local holder = redis.call('get', KEYS[1])
         if holder == ARGV[1] then
             redis.call('pexpire', KEYS[1], ARGV[2])
             return 1
         end
         if holder then return 0 end
         redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
         return 1",
    )
});

/// A thread of Spring Integration: all locks of its registry have the same value. This one has a task that renews them.
pub struct SpringThread {
    pub paths: Vec<String>,
    /// The registry's id.
    pub id: String,
    pub work: Range,
    pub pause: Range,
}

impl Role for SpringThread {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        const LEASE: Duration = Duration::from_secs(60);
        let key = format!("spring-locks:{}", me.dice.pick(&self.paths));
        loop {
            let got = me.call(SPRING_OBTAIN.key(&key).arg(&self.id).arg(me.ms(LEASE))).await?;
            if me.tried(&key, got) {
                break;
            }
            me.rest(millis(100)).await?;
        }
        let work = me.dice.duration(self.work);
        if strings::hold(me, &key, &self.id, LEASE, LEASE / 3, work).await? {
            strings::release(me, &key, &self.id).await?;
        }
        me.rest_some(self.pause).await
    }
}
