//! Counters of permits: they are never deleted like a lock; permits are given back by number. Pure.
//!
//! A small number is a counter if its library is known, if a client listens for its permits, or if it was seen to go up
//! and down. Otherwise it is in doubt: a person is asked, and a script needs an option.

use super::check::Check;
use super::gate::Refusal;
use crate::base::text;
use crate::dialects::{Claim, Release, Step, counter, word};
use crate::lock::RawValue;
use crate::model::LockView;

const SEMAPHORE: &str = "redisson-semaphore";

/// Refuses to delete a counter, or to let it expire.
pub(super) fn refuse(lock: &LockView) -> Result<(), Refusal> {
    match counts(lock) {
        Some(why) => Err(Refusal::NotSo(format!(
            "{} counts the permits of a semaphore ({why}): deleting its key would take all of them; 'lockscope \
             release {} --permits N' gives N permits back",
            lock.key,
            word(lock.key.as_bytes())
        ))),
        None => Ok(()),
    }
}

/// How it is known that the number counts permits. `None` if only the user says so: a release of such a semaphore
/// gives one permit back.
pub(super) fn counts(lock: &LockView) -> Option<String> {
    counter::number(&lock.value)?;
    let listeners = lock.proof.counted_on;
    if lock.dialect == SEMAPHORE {
        let why = if counter::is_spent(&lock.value) {
            "a lock never has such a value"
        } else {
            "it was seen going up or down"
        };
        return (lock.dialect_confidence < Claim::SURE).then(|| why.into());
    }
    let who = if listeners == 1 { "1 process listens".into() } else { format!("{listeners} processes listen") };
    let channel = text::visible(&counter::channel(lock.key.as_bytes()));
    (listeners > 0).then(|| format!("{who} on {channel}"))
}

/// The question about a number that may or may not count permits.
pub(super) fn doubt(lock: &LockView) -> Option<String> {
    counter::number(&lock.value)?;
    (lock.dialect_confidence < Claim::SURE && lock.dialect != SEMAPHORE).then(|| {
        "Its value is a small number: it may count the permits of a semaphore. Then freeing it takes all of \
         them; 'lockscope release --permits N' gives some back instead."
            .to_string()
    })
}

/// `1 permit`, `3 permits`.
pub(super) fn words(permits: u64) -> String {
    if permits == 1 { "1 permit".into() } else { format!("{permits} permits") }
}

/// Checks that still nobody listens for permits of a number in doubt.
pub(super) fn unheard(lock: &LockView) -> Option<Check> {
    doubt(lock).map(|_| Check::NobodyListens(counter::channel(lock.key.as_bytes())))
}

/// The question before permits are added to a number that is not known to count them.
pub(super) fn token_doubt(lock: &LockView) -> Option<String> {
    (lock.dialect != SEMAPHORE && counts(lock).is_none()).then(|| {
        "Nothing on the server shows that this number counts permits: if it is the token of a lock, its holder loses it."
            .to_string()
    })
}

/// What giving permits back takes.
pub(super) fn give_back(lock: &LockView, permits: u64) -> Result<Release, Refusal> {
    let is_number = |value: &[u8]| std::str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok());
    if !lock.value.as_string().is_some_and(is_number) {
        return Err(Refusal::NotSo(format!(
            "{} is not a counter: its value is not a number, so it can't take permits back",
            lock.key
        )));
    }
    let (counter, channel) = (lock.key.as_bytes().to_vec(), counter::channel(lock.key.as_bytes()));
    Ok(Release::default()
        .and(Step::ReturnPermits { counter, channel, permits })
        .warn("The semaphore does not store who has its permits: if you return one that is in use, one client too many gets in."))
}

/// Checks that the counter has the value that was seen.
pub(super) fn count(lock: &LockView) -> Option<Check> {
    match &lock.value {
        RawValue::Str { head, .. } if lock.value.is_whole() => {
            Some(Check::Count { key: lock.key.as_bytes().to_vec(), count: head.to_vec() })
        }
        _ => None,
    }
}
