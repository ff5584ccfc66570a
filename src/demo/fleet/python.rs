//! Workers in Python: redis-py's `Lock`, which polls, and python-redis-lock, whose waiters block on a list.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::strings::{self, Lease};
use super::worker::{Cut, Role, Worker};
use super::{Range, secs};

/// redis-py's token: created when `acquire()` is called, kept while it polls.
pub fn token(me: &mut Worker) -> String {
    let (now, card) = (me.now(), me.card);
    me.dice.uuid1_hex(now, &card)
}

/// Takes one of its locks, works, frees it, pauses, and repeats. Nothing renews it: work longer than the lease loses
/// it.
pub struct Poller {
    pub keys: Vec<String>,
    pub lease: Duration,
    /// The pause between two attempts.
    pub sleep: Duration,
    pub work: Range,
    pub pause: Range,
}

impl Role for Poller {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let key = me.dice.pick(&self.keys).clone();
        let token = token(me);
        while !strings::take(me, &key, &token, Lease::Millis(self.lease)).await? {
            me.rest(self.sleep).await?;
        }
        me.rest_some(self.work).await?;
        strings::release(me, &key, &token).await?;
        me.rest_some(self.pause).await
    }
}

/// Takes one lock, then wants another while it holds the first. Two of these in opposite order wait for each other,
/// until the less patient one gives up.
pub struct Crossing {
    pub first: String,
    pub second: String,
    pub lease: Duration,
    pub patience: Duration,
    pub delay: Duration,
}

impl Crossing {
    const SLEEP: Duration = Duration::from_millis(250);

    /// Whether it got the lock within that many attempts.
    async fn obtain(me: &mut Worker, key: &str, token: &str, lease: Duration, tries: u32) -> Result<bool, Cut> {
        for _ in 0..tries {
            if strings::take(me, key, token, Lease::Millis(lease)).await? {
                return Ok(true);
            }
            me.rest(Self::SLEEP).await?;
        }
        Ok(false)
    }
}

impl Role for Crossing {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        me.rest(self.delay).await?;
        let (mine, other) = (token(me), token(me));
        let tries = (self.patience.as_millis() / Self::SLEEP.as_millis()) as u32;
        if Self::obtain(me, &self.first, &mine, self.lease, tries).await? {
            me.rest(secs(1)).await?;
            if Self::obtain(me, &self.second, &other, self.lease, tries).await? {
                me.rest(secs(1)).await?;
                strings::release(me, &self.second, &other).await?;
            }
            strings::release(me, &self.first, &mine).await?;
        }
        me.rest(secs(2)).await
    }
}

/// One process that holds a lock on each bucket of a counter and extends them all; one of them it took without a timeout.
pub struct Buckets {
    pub prefix: &'static str,
    /// The tokens of its locks, by bucket.
    pub tokens: Vec<String>,
    /// The bucket that never expires.
    pub endless: usize,
    pub lease: Duration,
}

impl Buckets {
    pub const ALL: usize = 64;
}

impl Role for Buckets {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        while self.tokens.len() < Self::ALL {
            self.tokens.push(token(me));
        }
        for (bucket, token) in self.tokens.iter().enumerate() {
            let key = format!("{}{bucket}", self.prefix);
            let there: bool = me.ask(redis::cmd("EXISTS").arg(&key)).await?;
            match (there, bucket == self.endless) {
                (true, true) => {}
                (true, false) => drop(strings::renew(me, &key, token, self.lease).await?),
                (false, true) => drop(strings::take(me, &key, token, Lease::Never).await?),
                (false, false) => drop(strings::take(me, &key, token, Lease::Millis(self.lease)).await?),
            }
        }
        me.rest(self.lease / 3).await
    }
}

static EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] or redis.call('ttl', KEYS[1]) < 0 then return 0 end
         return redis.call('expire', KEYS[1], ARGV[2])",
    )
});

static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
         redis.call('del', KEYS[2])
         redis.call('lpush', KEYS[2], 1)
         redis.call('pexpire', KEYS[2], ARGV[2])
         return redis.call('del', KEYS[1])",
    )
});

/// How long the item that wakes the next waiter stays in the list.
const SIGNAL: Duration = Duration::from_secs(1);

/// Several of these on one name take turns: one holds the lock and renews it after two thirds of its lease, the others
/// block until its release wakes one of them.
pub struct AutoRenewal {
    pub name: String,
    pub work: Range,
}

impl Role for AutoRenewal {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let (key, signal) = (format!("lock:{}", self.name), format!("lock-signal:{}", self.name));
        let token = me.dice.base64(18);
        let expire = me.tempo().whole_seconds(secs(30));
        while !strings::take(me, &key, &token, Lease::Seconds(expire)).await? {
            let wait = me.tempo().real(expire).as_secs_f64();
            let _: Option<(String, String)> = me.wait_for(redis::cmd("BLPOP").arg(&signal).arg(wait)).await?;
        }
        let every = expire.mul_f64(2.0 / 3.0);
        let mut left = me.dice.duration(self.work);
        while left > every {
            me.rest(every).await?;
            left -= every;
            let seconds = me.tempo().real(expire).as_secs_f64().round() as u64;
            let mine = me.call(EXTEND.key(&key).arg(&token).arg(seconds)).await?;
            if !me.prolonged(&key, mine) {
                return me.rest(expire).await;
            }
        }
        me.rest(left).await?;
        let mine = me.call(UNLOCK.key(&key).key(&signal).arg(&token).arg(me.ms(SIGNAL))).await?;
        me.let_go(&key, mine);
        me.rest(secs(1)).await
    }
}
