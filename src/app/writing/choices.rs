//! What a dialog offers for the locks that it is about: whom to free, and how long to extend.

use std::collections::BTreeSet;
use std::time::Duration;

use super::MOST;
use crate::actions::{Freeing, Plan, Refusal, plan};
use crate::app::dialog::Choice;
use crate::app::{Batch, LockId, Since};
use crate::base::text::{self, short_duration};
use crate::base::time::Time;
use crate::lock::Token;
use crate::model::{Life, LockView, Safe, State};
use crate::sources::inspect::Inspection;

/// The TTLs to choose from.
const TTLS: [Duration; 4] =
    [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_800), Duration::from_secs(7_200)];
/// The first TTL offered for a lock without one.
const FIRST_TTL: Duration = Duration::from_secs(300);
/// What is doubtful about putting back many.
const UNWATCHED: &str = "It was not watched all the while since it was freed: others may have held it in between.";
/// At most this many holders are offered one by one.
const HOLDERS: usize = 8;

/// Where it is proven that the holder is gone, freeing comes first. Where that is in doubt, more time comes first.
pub(super) fn free_choices(lock: &LockView, found: &Inspection, now: Time) -> Result<Vec<Choice>, Refusal> {
    let mut choices = frees(lock, found, now)?;
    if plan::returned(lock, now).is_some() {
        return Ok(choices);
    }
    let more = more_time(lock, now);
    let at = if Safe::of(lock).advice.answer() == "yes" { choices.len() } else { 0 };
    choices.splice(at..at, more);
    Ok(choices)
}

/// A time for a lock that never ends, and more time for one whose holder may be gone.
fn more_time(lock: &LockView, now: Time) -> Vec<Choice> {
    gentler_ttl(lock).and_then(|ttl| extend_choices(lock, Some(ttl), now).ok()).unwrap_or_default()
}

/// The TTL that such a lock is offered.
fn gentler_ttl(lock: &LockView) -> Option<Duration> {
    let suspected = lock.liveness.as_ref().is_some_and(|liveness| liveness.is == Life::Suspected);
    match lock.ttl.remaining() {
        None => Some(FIRST_TTL),
        Some(left) if suspected || lock.verdict.state == State::Stalled => TTLS.into_iter().find(|ttl| *ttl > left),
        Some(_) => None,
    }
}

fn frees(lock: &LockView, found: &Inspection, now: Time) -> Result<Vec<Choice>, Refusal> {
    let mut choices = Vec::new();
    let dead = found.waiters.deaf();
    let free = |holder: Option<&Token>| {
        let asked = Freeing { holder: holder.map(Token::as_bytes), dead_waiters: &dead, force: false };
        let plan = plan::free(lock, asked, now)?;
        match plan.only_by_force {
            Some(why) => Err(Refusal::OnlyByForce(why)),
            None => Ok(plan),
        }
    };
    if let Some(permit) = plan::returned(lock, now) {
        return Ok(vec![Choice::of("give one permit back", permit)]);
    }
    match lock.holders.as_slice() {
        [] => choices.push(Choice::of("free it", free(None)?)),
        [one] => choices.push(Choice::of("free it", free(Some(&one.token))?)),
        many => {
            for holder in many.iter().take(HOLDERS) {
                let label = format!("free the hold of {}", text::short_token(&holder.token.to_string()));
                choices.push(Choice::of(label, free(Some(&holder.token))?));
            }
            choices.push(Choice::of(format!("free all {} holds", many.len()), free(None)?));
        }
    }
    Ok(choices)
}

pub(super) fn extend_choices(lock: &LockView, typed: Option<Duration>, now: Time) -> Result<Vec<Choice>, Refusal> {
    let ttls = typed.map_or(TTLS.to_vec(), |ttl| vec![ttl]);
    let mut refused = None;
    let mut choices = Vec::new();
    for ttl in ttls {
        let label = format!("give it {}", short_duration(ttl.as_millis() as u64));
        match plan::extend(lock, None, ttl, now) {
            Ok(plan) => choices.push(Choice::of(label, plan)),
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if choices.is_empty() => Err(why),
        _ => Ok(choices),
    }
}

/// Frees the marked locks. Those that the filter hides are freed only by a choice that says so.
pub(super) fn free_marked(seen: &[LockView], hidden: &[LockView], now: Time) -> Result<Vec<Choice>, Refusal> {
    let all: Vec<LockView> = seen.iter().chain(hidden).cloned().collect();
    let mut choices = free_many(&all, now)?;
    if hidden.is_empty() {
        return Ok(choices);
    }
    let are = |count: usize| if count == 1 { "1 is".to_string() } else { format!("{count} are") };
    for choice in &mut choices {
        let touched: BTreeSet<LockId> = choice.plans.iter().map(LockId::of_plan).collect();
        let hidden = hidden.iter().filter(|lock| touched.contains(&LockId::of(lock)));
        choice.hidden = hidden.map(|lock| lock.key.clone()).collect();
        choice.label.push_str(&format!(", of which {} hidden by the filter", are(choice.hidden.len())));
    }
    if let Ok(mut visible) = free_many(seen, now) {
        for choice in &mut visible {
            choice.label.push_str(&format!(" that you see; {} hidden by the filter", are(hidden.len())));
        }
        // What touches no hidden lock is among the visible choices.
        choices.retain(|choice| !choice.hidden.is_empty());
        choices.splice(0..0, visible);
    }
    Ok(choices)
}

/// Gives all of them the same time.
pub(super) fn extend_many(locks: &[LockView], typed: Option<Duration>, now: Time) -> Result<Vec<Choice>, Refusal> {
    let locks: Vec<&LockView> = locks.iter().take(MOST).collect();
    let ttls = typed.map_or(TTLS.to_vec(), |ttl| vec![ttl]);
    let choices: Vec<Choice> = ttls.into_iter().filter_map(|ttl| extend_all(&locks, locks.len(), ttl, now)).collect();
    if choices.is_empty() {
        return Err(Refusal::NotSo("none of these locks can be given that time".into()));
    }
    Ok(choices)
}

/// Gives more time to those of the marked locks whose holder may live, as is offered for each of them alone.
fn more_time_for_many(locks: &[LockView], now: Time) -> Option<Choice> {
    let in_doubt = |lock: &&LockView| Safe::of(lock).advice.answer() != "yes" && plan::returned(lock, now).is_none();
    let doubted: Vec<(&LockView, Duration)> =
        locks.iter().filter(in_doubt).filter_map(|lock| Some((lock, gentler_ttl(lock)?))).collect();
    let ttl = doubted.iter().map(|(_, ttl)| *ttl).max()?;
    let doubted: Vec<&LockView> = doubted.into_iter().map(|(lock, _)| lock).collect();
    extend_all(&doubted, locks.len(), ttl, now)
}

/// Gives these locks, of so many, a TTL; `None` where none of them can have it.
fn extend_all(locks: &[&LockView], of: usize, ttl: Duration, now: Time) -> Option<Choice> {
    let (mut plans, mut left_out) = (Vec::new(), Vec::new());
    for lock in locks {
        match plan::extend(lock, None, ttl, now) {
            Ok(plan) => plans.push(plan),
            Err(why) => left_out.push(why.to_string()),
        }
    }
    let count = if plans.len() == of { of.to_string() } else { format!("{} of {of}", plans.len()) };
    let locks = if of == 1 { "lock" } else { "locks" };
    let label = format!("give {count} {locks} {}", short_duration(ttl.as_millis() as u64));
    (!plans.is_empty()).then_some(Choice { label, plans, left_out, hidden: Vec::new() })
}

/// Frees all at once. Locks that can't be freed are left out and named. Where the holders of some may live, more time for
/// those comes first.
fn free_many(all: &[LockView], now: Time) -> Result<Vec<Choice>, Refusal> {
    let (mut plans, mut left_out) = (Vec::new(), Vec::new());
    for lock in all.iter().take(MOST) {
        match plan::free(lock, Freeing::default(), now) {
            Ok(Plan { only_by_force: Some(why), key, .. }) => left_out.push(format!("{key}: {why}")),
            Ok(plan) => plans.push(plan),
            Err(why) => left_out.push(why.to_string()),
        }
    }
    if plans.is_empty() {
        return Err(Refusal::NotSo(left_out.into_iter().next().unwrap_or_default()));
    }
    let locks = if plans.len() == 1 { "lock" } else { "locks" };
    let label = format!("free {} {locks}{}", plans.len(), against(&plans));
    let free = Choice { label, plans, left_out, hidden: Vec::new() };
    let shown = &all[..all.len().min(MOST)];
    Ok(more_time_for_many(shown, now).into_iter().chain([free]).collect())
}

/// For how many the answer to "free it?" is not yes, by their answers: ` (not yet: 2)`.
fn against(plans: &[Plan]) -> String {
    let mut answers: Vec<(&str, usize)> = Vec::new();
    for answer in plans.iter().filter_map(|plan| plan.safe.as_ref()).map(|safe| safe.advice.answer()) {
        match answers.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, count)) => *count += 1,
            None => answers.push((answer, 1)),
        }
    }
    answers.retain(|(answer, _)| *answer != "yes");
    let told: Vec<String> = answers.iter().map(|(answer, count)| format!("{answer}: {count}")).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

/// Who waits for several locks, in one clause: `at least 1 waits; waiters not known (2 locks)`.
pub(super) fn waiting(locks: &[LockView]) -> String {
    let mut clauses: Vec<(String, usize)> = Vec::new();
    for clause in locks.iter().map(|lock| Safe::of(lock).waiting) {
        match clauses.iter_mut().find(|(known, _)| *known == clause) {
            Some((_, count)) => *count += 1,
            None => clauses.push((clause, 1)),
        }
    }
    let told = clauses.into_iter().map(|(clause, count)| match count {
        1 => clause,
        count => format!("{clause} ({count} locks)"),
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Puts back what was freed together, as far as it can be.
pub(super) fn back_choice(batch: &Batch, since: &[Since], now: Time) -> Result<Choice, Refusal> {
    let (mut plans, mut left_out) = (Vec::new(), batch.left_out.clone());
    let many = batch.kept.len() > 1;
    // In the order in which they were freed.
    for (kept, since) in batch.kept.iter().zip(since).rev() {
        let doubt = match since {
            Since::Held(why) => {
                left_out.push(format!("not put back: {why}"));
                continue;
            }
            Since::Unwatched(_) if many => Some(UNWATCHED.into()),
            Since::Unwatched(why) => Some(why.clone()),
            Since::Nobody => None,
        };
        match kept.plan(now) {
            Ok(mut plan) => {
                plan.hazards.extend(doubt);
                plans.push(plan);
            }
            Err(why) => left_out.push(why.to_string()),
        }
    }
    let label = match plans.as_slice() {
        [] => {
            let more = left_out.len().saturating_sub(1);
            let more = if more > 0 { format!("; {more} more can't be put back either") } else { String::new() };
            return Err(Refusal::NotSo(format!("{}{more}", left_out.first().cloned().unwrap_or_default())));
        }
        [one] => match one.permits_words() {
            Some(permits) => format!("take {permits} back"),
            None => "put it back".into(),
        },
        many => format!("put {} locks back", many.len()),
    };
    Ok(Choice { label, plans, left_out, hidden: Vec::new() })
}
