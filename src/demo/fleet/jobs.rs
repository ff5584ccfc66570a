//! Job systems: sidekiq-unique-jobs, BullMQ's workers, and ShedLock's scheduler.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::worker::{Cut, Role, Worker};
use super::{Range, millis, secs};

/// KEYS: digest, its hash of holders, digests, changelog. ARGV: job, time in seconds, digest.
static UNIQUE_LOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local free = redis.call('hlen', KEYS[2]) == 0
         local entry = cjson.encode({ digest = ARGV[3], job_id = ARGV[1], script = 'lock.lua', time = ARGV[2],
                                      message = free and 'Locked' or 'Limited' })
         redis.call('zadd', KEYS[4], ARGV[2], entry)
         redis.call('zremrangebyrank', KEYS[4], 0, -1001)
         redis.call('publish', KEYS[4], entry)
         if not free then return 0 end
         redis.call('set', KEYS[1], ARGV[1])
         redis.call('zadd', KEYS[3], ARGV[2], ARGV[3])
         redis.call('hset', KEYS[2], ARGV[1], ARGV[2])
         return 1",
    )
});

static UNIQUE_UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('hdel', KEYS[2], ARGV[1]) == 0 then return 0 end
         redis.call('unlink', KEYS[1])
         redis.call('zrem', KEYS[3], ARGV[3])
         return 1",
    )
});

const DIGESTS: &str = "uniquejobs:digests";
const CHANGELOG: &str = "uniquejobs:changelog";

/// Runs unique jobs; a job like one that is running is refused.
pub struct UniqueJobs {
    pub digests: Vec<String>,
    pub work: Range,
    pub pause: Range,
}

impl Role for UniqueJobs {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        let (digest, job) = (me.dice.pick(&self.digests).clone(), me.dice.hex(12));
        let locked = format!("{digest}:LOCKED");
        let keys = [digest.as_str(), &locked, DIGESTS, CHANGELOG];
        let at = format!("{:.3}", me.now().0 as f64 / 1000.0);
        let got = me.call(UNIQUE_LOCK.key(&keys[..]).arg(&job).arg(&at).arg(&digest)).await?;
        if me.tried(&locked, got) {
            me.rest_some(self.work).await?;
            let mine = me.call(UNIQUE_UNLOCK.key(&keys[..3]).arg(&job).arg(&at).arg(&digest)).await?;
            me.let_go(&locked, mine);
        }
        me.rest_some(self.pause).await
    }
}

/// BullMQ renews by setting the lock again.
static SET_AGAIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
         redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
         return 1",
    )
});

static FINISH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
         redis.call('lrem', KEYS[2], 0, ARGV[2])
         redis.call('del', KEYS[3])
         return redis.call('del', KEYS[1])",
    )
});

/// A worker of a BullMQ queue: one job after the other, each locked with the worker's id.
pub struct BullWorker {
    pub queue: String,
    /// The worker's id.
    pub id: String,
    pub jobs: u64,
    pub work: Range,
}

impl Role for BullWorker {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        const LEASE: Duration = Duration::from_secs(30);
        let token = format!("{}:{}", self.id, self.jobs);
        self.jobs += 1;
        let name = |part: &str| format!("bull:{}:{part}", self.queue);
        let job: u64 = me.ask(redis::cmd("INCR").arg(name("id"))).await?;
        let (hash, key) = (name(&job.to_string()), name(&format!("{job}:lock")));
        let mut start = redis::cmd("HSET");
        let _: i64 = me.ask(start.arg(&hash).arg("name").arg("send").arg("data").arg("{}")).await?;
        let _: i64 = me.ask(redis::cmd("LPUSH").arg(name("active")).arg(job)).await?;
        let () = me.ask(redis::cmd("SET").arg(&key).arg(&token).arg("PX").arg(me.ms(LEASE))).await?;
        me.tried(&key, true);
        let mut left = me.dice.duration(self.work);
        while left > LEASE / 2 {
            me.rest(LEASE / 2).await?;
            left -= LEASE / 2;
            let mine = me.call(SET_AGAIN.key(&key).arg(&token).arg(me.ms(LEASE))).await?;
            if !me.prolonged(&key, mine) {
                return me.rest(secs(1)).await;
            }
        }
        me.rest(left).await?;
        let keys = [&key, &name("active"), &hash];
        let mine = me.call(FINISH.key(&keys[..]).arg(&token).arg(job)).await?;
        me.let_go(&key, mine);
        me.rest_some((millis(200), secs(1))).await
    }
}

/// A scheduler with `lockAtLeastFor`: the job ends soon, the key stays on purpose, and other nodes skip the run.
pub struct Scheduler {
    pub job: String,
    pub at_least: Duration,
}

impl Role for Scheduler {
    async fn round(&mut self, me: &mut Worker) -> Result<(), Cut> {
        const AT_MOST: Duration = Duration::from_secs(600);
        let key = format!("job-lock:default:{}", self.job);
        let token = format!("ADDED:{}@{}:{}", me.now().rfc3339(), me.name, me.dice.uuid4());
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&token).arg("NX").arg("PX").arg(me.ms(AT_MOST));
        let got: Option<String> = me.ask(&set).await?;
        if !me.tried(&key, got.is_some()) {
            return me.rest(self.at_least / 4).await;
        }
        let work = me.dice.duration((secs(1), secs(3)));
        me.rest(work).await?;
        let stay = self.at_least.saturating_sub(work);
        let mut keep = redis::cmd("SET");
        let kept: Option<String> = me.ask(keep.arg(&key).arg(&token).arg("XX").arg("PX").arg(me.ms(stay))).await?;
        if me.prolonged(&key, kept.is_some()) {
            me.rest(stay).await?;
            me.count(&key, |tally| tally.expired += 1);
        }
        me.rest(secs(1)).await
    }
}
