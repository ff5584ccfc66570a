//! Locks that are one string with the holder's token: taking, renewing and freeing them, as most libraries do.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::worker::{Cut, Worker};

/// The lease that the server enforces.
#[derive(Clone, Copy, Debug)]
pub enum Lease {
    Never,
    /// `PX`.
    Millis(Duration),
    /// `EX`: a real time in whole seconds.
    Seconds(Duration),
}

static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
         return redis.call('pexpire', KEYS[1], ARGV[2])",
    )
});

static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
         return redis.call('del', KEYS[1])",
    )
});

/// `SET key token NX` with its lease.
pub async fn take(me: &mut Worker, key: &str, token: &str, lease: Lease) -> Result<bool, Cut> {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(token).arg("NX");
    match lease {
        Lease::Never => {}
        Lease::Millis(lease) => {
            set.arg("PX").arg(me.ms(lease));
        }
        Lease::Seconds(lease) => {
            set.arg("EX").arg(me.tempo().real(lease).as_secs_f64().round() as u64);
        }
    }
    let got: Option<String> = me.ask(&set).await?;
    Ok(me.tried(key, got.is_some()))
}

/// Renews its lease, if it is still ours.
pub async fn renew(me: &mut Worker, key: &str, token: &str, lease: Duration) -> Result<bool, Cut> {
    let mine = me.call(RENEW.key(key).arg(token).arg(me.ms(lease))).await?;
    Ok(me.prolonged(key, mine))
}

/// Frees it, if it is still ours.
pub async fn release(me: &mut Worker, key: &str, token: &str) -> Result<bool, Cut> {
    let mine = me.call(RELEASE.key(key).arg(token)).await?;
    Ok(me.let_go(key, mine))
}

/// Works for this long, renewing the lease at these intervals. Returns whether the lock is still ours.
pub async fn hold(
    me: &mut Worker,
    key: &str,
    token: &str,
    lease: Duration,
    every: Duration,
    work: Duration,
) -> Result<bool, Cut> {
    let mut left = work;
    while left > every {
        me.rest(every).await?;
        left -= every;
        if !renew(me, key, token, lease).await? {
            return Ok(false);
        }
    }
    me.rest(left).await?;
    Ok(true)
}
