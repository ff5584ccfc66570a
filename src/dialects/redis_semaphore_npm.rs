//! redis-semaphore of npm (swarthy): string `mutex:KEY` with a UUIDv4, and sorted set `semaphore:KEY` of such ids.
//!
//! Both live 10 seconds by default and are refreshed at 80 % of that. A member's score is when it was taken
//! or last refreshed; the key's TTL is put to the whole lease each time, so the newest score shows the lease. A holder
//! of several permits has members `<uuid>_0`, `<uuid>_1`, ….

use std::time::Duration;

use super::{Claim, Dialect, IfFreed, Obstacle, Release, Renewal, Sight, Step, Strength, Waiting, shape, sight};
use crate::base::time::Time;
use crate::lock::{Holder, Mode, RawValue};

pub struct RedisSemaphoreNpm;

const LEASE: Duration = Duration::from_secs(10);
const UUID_LEN: usize = 36;
const DAY_MS: i64 = 86_400_000;

type Members = [(Box<[u8]>, f64)];

/// The id of a permit's holder: the member without its number.
fn identity(member: &[u8]) -> Option<&[u8]> {
    let (uuid, number) = member.split_at_checked(UUID_LEN)?;
    let numbered = number.strip_prefix(b"_").is_some_and(shape::is_decimal);
    (shape::is_uuid4(uuid) && (number.is_empty() || numbered)).then_some(uuid)
}

fn is_recent(score: f64, now: Time) -> bool {
    (score as i64).saturating_sub(now.0).saturating_abs() < 30 * DAY_MS
}

/// How long a permit lasts after its score.
fn lease_ms(members: &Members, sight: &Sight<'_>) -> Option<i64> {
    let newest = members.iter().map(|(_, score)| *score as i64).max()?;
    let ends = sight.now + sight.ttl.remaining()?;
    let lease = ends.0.saturating_sub(newest);
    (1..DAY_MS).contains(&lease).then_some(lease)
}

/// The permits that have not expired; expired ones stay in the set until a client asks for a permit.
fn permits(members: &Members, sight: &Sight<'_>) -> Vec<Holder> {
    let lease = lease_ms(members, sight);
    let holder = |(member, score): &(Box<[u8]>, f64)| {
        let until = lease.map(|lease| Time((*score as i64).saturating_add(lease)));
        let numbered = identity(member).filter(|id| id.len() < member.len());
        Holder { until, client: numbered.and_then(sight::name), ..Holder::new(member) }
    };
    members.iter().map(holder).filter(|holder| holder.until.is_none_or(|until| until > sight.now)).collect()
}

fn read_semaphore(sight: &Sight<'_>, members: &Members) -> Option<Claim> {
    let fits = || {
        let fine = |(member, score): &(Box<[u8]>, f64)| identity(member).is_some() && is_recent(*score, sight.now);
        sight.key.starts_with(b"semaphore:") && !members.is_empty() && members.iter().all(fine)
    };
    let strength = sight.told_or(|| fits().then_some(Strength::Sure))?;
    Some(Claim::lock(strength, Mode::Permit, permits(members, sight)))
}

fn remove(sight: &Sight<'_>, member: &[u8]) -> Step {
    Step::RemoveScored { key: sight.key.to_vec(), member: member.to_vec() }
}

/// A permit is put back only before it expires, and only if a place is still free.
fn within_limit(sight: &Sight<'_>, members: &Members, release: Release) -> Release {
    let (key, lease_ms) = (sight.key.to_vec(), lease_ms(members, sight));
    let ended = lease_ms.map(|lease_ms| Obstacle::Ended { key: key.clone(), lease_ms });
    ended.into_iter().chain([Obstacle::Members { key: key.clone(), lease_ms }]).fold(release, Release::unless)
}

impl Dialect for RedisSemaphoreNpm {
    fn name(&self) -> &'static str {
        "redis-semaphore-npm"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["mutex:*", "semaphore:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        if let RawValue::Zset { members, .. } = sight.value {
            return read_semaphore(sight, members);
        }
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            if !sight.key.starts_with(b"mutex:") || !shape::is_uuid4(token) || !sight.has_ttl() {
                return None;
            }
            Some(if sight.ttl_within(LEASE) { Strength::Sure } else { Strength::Likely })
        })?;
        Some(Claim::exclusive(strength, token))
    }

    /// The id is made with the object, and each acquire of that object uses it.
    fn tokens_come_again(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: 0.8 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("onLockLost is called at its next renewal")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(10)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = match sight.value {
            // Only the permits that were seen: one given out later is kept.
            RawValue::Zset { members, .. } => {
                let seen = permits(members, sight).into_iter();
                let all = seen.map(|holder| remove(sight, holder.token.as_bytes()));
                within_limit(sight, members, all.fold(Release::default(), Release::and))
            }
            _ => Release::delete(sight.key),
        };
        release.warn_of_copies()
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        match sight.value {
            RawValue::Zset { members, .. } => {
                within_limit(sight, members, Release::default().and(remove(sight, token))).warn_of_copies()
            }
            _ => self.release(sight),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::{Time, Ttl};
    use crate::dialects::Step;
    use crate::dialects::trial::*;
    use crate::lock::{Mode, RawValue};

    const OTHER: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

    #[test]
    fn a_uuid_under_mutex_is_sure_while_the_lease_is_the_usual_one() {
        assert!(surely(&found("mutex:orders", UUID4, seconds(8)), "redis-semaphore-npm"));
        assert!(perhaps(&found("mutex:orders", UUID4, seconds(40)), "redis-semaphore-npm"));
        assert_eq!(names(&found("mutex:orders", UUID4, Ttl::Never)).0, "plain");
    }

    #[test]
    fn the_newest_score_and_the_ttl_tell_when_each_permit_ends() {
        let at = |before: i64| (NOW.0 - before) as f64;
        // Ten seconds: the newest was refreshed two seconds ago and eight are left.
        let value = RawValue::zset([
            (UUID4.as_bytes(), at(2_000)),
            (OTHER.as_bytes(), at(9_000)),
            (b"7c9e6679-7425-40de-944b-e07fc1f90ae8", at(11_000)),
        ]);
        let best = found_value("semaphore:orders", &value, seconds(8));
        assert!(surely(&best, "redis-semaphore-npm"));
        let claim = best.unwrap().claim;
        assert_eq!(claim.mode, Mode::Permit);
        let until: Vec<_> = claim.holders.iter().map(|holder| holder.until.unwrap()).collect();
        assert_eq!(until, [Time(NOW.0 + 8_000), Time(NOW.0 + 1_000)]);
    }

    #[test]
    fn several_permits_of_one_holder_carry_its_id() {
        let members = [format!("{UUID4}_0"), format!("{UUID4}_1")];
        let value = RawValue::zset(members.iter().map(|member| (member.as_bytes(), (NOW.0 - 500) as f64)));
        let claim = found_value("semaphore:orders", &value, seconds(9)).unwrap().claim;
        assert!(
            claim
                .holders
                .iter()
                .all(|holder| holder.client.as_ref().map(|text| text.visible()).as_deref() == Some(UUID4))
        );
        let steps = release("redis-semaphore-npm", "semaphore:orders", &value).steps;
        assert!(matches!(&steps[1], Step::RemoveScored { member, .. } if member == members[1].as_bytes()));
        let one = release_holder("redis-semaphore-npm", "semaphore:orders", &value, &members[1]).steps;
        assert_eq!(one, steps[1..]);
    }

    #[test]
    fn other_sorted_sets_and_strings_are_not_taken() {
        let ranks = RawValue::zset([(UUID4.as_bytes(), 17.0)]);
        assert_eq!(names(&found_value("semaphore:orders", &ranks, seconds(9))), ("", ""));
        let people = RawValue::zset([(&b"anna"[..], NOW.0 as f64)]);
        assert_eq!(names(&found_value("semaphore:orders", &people, seconds(9))), ("", ""));
        assert_no_garbage("redis-semaphore-npm", "mutex:orders");
    }
}
