//! Finds out whether an unconfirmed release happened (its answer was lost, or lockscope ended in the middle of it), and
//! whether the place of what was freed is still free: no hint promises an undo that would be refused.

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use super::read::measure;
use super::{Kept, State, What};
use crate::actions::check::Check;
use crate::base::time::Time;
use crate::lock::Key;

/// What the server shows about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    Yes,
    /// What it would have taken away is still there.
    No,
    /// It is gone, which may have other reasons.
    CanNotTell,
}

impl Kept {
    /// Why its place is not free now, as a clause: then it can't be put back by any option.
    pub async fn taken(&self, conn: &mut impl ConnectionLike, now: Time) -> RedisResult<Option<String>> {
        let Ok(plan) = self.clone().insisted(None).plan(now) else { return Ok(None) };
        for check in &plan.checks {
            let Check::Absent(key) = check else { continue };
            let kind: String = redis::cmd("TYPE").arg(key).query_async(conn).await?;
            if kind != "none" {
                return Ok(Some(format!("somebody has taken {} since", Key::from(&key[..]))));
            }
        }
        Ok(None)
    }

    /// Asks the server if the record does not say it.
    pub async fn happened(&self, conn: &mut impl ConnectionLike) -> RedisResult<Happened> {
        if self.state == State::Confirmed {
            return Ok(Happened::Yes);
        }
        for keep in self.things.iter().filter(|keep| !keep.when_emptied) {
            let there = match &keep.what {
                What::Whole { key, dump } => {
                    // A larger value is surely different, and nothing large is dumped.
                    if measure(conn, &[&key.0], &[]).await?.is_err() {
                        continue;
                    }
                    let now: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key.0).query_async(conn).await?;
                    now.as_ref() == Some(&dump.0)
                }
                What::Field { key, field, .. } => ask(conn, "HEXISTS", &key.0, &field.0).await?,
                What::Scored { key, member, .. } => {
                    let command = redis::cmd("ZSCORE").arg(&key.0).arg(&member.0).query_async::<Value>(conn).await;
                    !matches!(command?, Value::Nil)
                }
                What::Member { key, member } => ask(conn, "SISMEMBER", &key.0, &member.0).await?,
                What::Base { .. } | What::Permits { .. } | What::Pushed { .. } => false,
            };
            // The script does all of it or nothing.
            if there {
                return Ok(Happened::No);
            }
        }
        Ok(Happened::CanNotTell)
    }
}

async fn ask(conn: &mut impl ConnectionLike, command: &str, key: &[u8], part: &[u8]) -> RedisResult<bool> {
    redis::cmd(command).arg(key).arg(part).query_async(conn).await
}
