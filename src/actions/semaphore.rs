//! Counters of permits: they are not locks to delete, and permits go back by their number. Pure.
//!
//! A small number is a counter where its library is known, where somebody listens for its permits, or where it was seen
//! going up and down. Where nothing tells, it is in doubt: a person is asked, and a script has to say so.

use super::check::Check;
use super::gate::Refusal;
use crate::base::text;
use crate::dialects::{Claim, Release, Step, counter, word};
use crate::lock::RawValue;
use crate::model::LockView;

const SEMAPHORE: &str = "redisson-semaphore";

/// Never deletes a counter, nor lets it run out.
pub(super) fn refuse(lock: &LockView) -> Result<(), Refusal> {
    match counts(lock) {
        Some(why) => Err(Refusal::NotSo(format!(
            "{} counts the permits of a semaphore ({why}): if its key went, they would be gone for good; 'lockscope \
             release {} --permits N' gives N permits back",
            lock.key,
            word(lock.key.as_bytes())
        ))),
        None => Ok(()),
    }
}

/// How it is known that the number counts permits. What the user says of it is no discovery: a release of such a
/// semaphore gives one permit back.
pub(super) fn counts(lock: &LockView) -> Option<String> {
    counter::number(&lock.value)?;
    let listeners = lock.proof.counted_on;
    if lock.dialect == SEMAPHORE {
        let why = if counter::is_spent(&lock.value) {
            "no lock is held by such a number"
        } else {
            "it was seen going up or down"
        };
        return (lock.dialect_confidence < Claim::SURE).then(|| why.into());
    }
    let who = if listeners == 1 { "1 process listens".into() } else { format!("{listeners} processes listen") };
    let channel = text::visible(&counter::channel(lock.key.as_bytes()));
    (listeners > 0).then(|| format!("{who} on {channel}"))
}

/// What is to be asked about a number of which nothing tells whether it counts.
pub(super) fn doubt(lock: &LockView) -> Option<String> {
    counter::number(&lock.value)?;
    (lock.dialect_confidence < Claim::SURE && lock.dialect != SEMAPHORE).then(|| {
        "Its value is a small number, which may count the permits of a semaphore: then they would be gone for good, and \
         --permits is what gives some back."
            .to_string()
    })
}

/// That a number in doubt is still one that nobody is heard to count on.
pub(super) fn unheard(lock: &LockView) -> Option<Check> {
    doubt(lock).map(|_| Check::NobodyListens(counter::channel(lock.key.as_bytes())))
}

/// What is to be asked before permits go to a number of which nothing tells that it counts them.
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
            "{} is no counter: its value is not a number, so that permits can't be given back to it",
            lock.key
        )));
    }
    let (counter, channel) = (lock.key.as_bytes().to_vec(), counter::channel(lock.key.as_bytes()));
    Ok(Release::default()
        .and(Step::ReturnPermits { counter, channel, permits })
        .warn("The semaphore does not store who has its permits: returning one that is in use lets one too many in."))
}

/// That the counter is what was seen.
pub(super) fn count(lock: &LockView) -> Option<Check> {
    match &lock.value {
        RawValue::Str { head, .. } if lock.value.is_whole() => {
            Some(Check::Count { key: lock.key.as_bytes().to_vec(), count: head.to_vec() })
        }
        _ => None,
    }
}
