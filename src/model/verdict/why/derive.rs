//! Derives the tree from a view: which fact belongs to which question, and what it says.

use super::{About, Answer, By, Evidence, Fact, Missing, Question, Says, Why};
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::dialects::{self, Claim, Renewal};
use crate::lock::{Kind, Mode};
use crate::model::{
    self, Certainty, Ending, Finding, HeldIs, LockView, MatchedBy, Presence, Pulse, Sign, Source, State,
};

/// At most this many holders are gone through one by one.
const HOLDERS: usize = 8;

impl Why {
    pub fn of(lock: &LockView) -> Why {
        let state = lock.verdict.state;
        let certainty = Certainty::of(lock.verdict.confidence);
        let mut questions = vec![held(lock)];
        if !state.is_free() && lock.kind == Kind::Lock {
            if lock.mode == Mode::Exclusive || lock.mode == Mode::Write || state == State::Split {
                questions.push(second(lock));
            }
            questions.extend([lives(lock), ends(lock), wanted(lock)]);
            questions.extend(long(lock));
        }
        questions.push(library(lock));
        let decides = decides(state);
        for question in &mut questions {
            question.decides = question.about == decides;
            // What an answer rests on is never surer than the verdict that rests on it.
            if question.decides && question.answer != Answer::NotKnown {
                question.certainty = Some(certainty);
            }
            let asked = question.about;
            lock.findings.iter().filter(|finding| about(finding) == asked).for_each(|finding| question.take(finding));
        }
        Why { state, certainty, questions, at: lock.at }
    }
}

/// The question whose answer is the state.
fn decides(state: State) -> About {
    match state {
        State::Split => About::Second,
        State::Orphan | State::Stalled => About::Lives,
        State::NoTtl | State::Expiring => About::Ends,
        State::Contended => About::Wanted,
        State::Long => About::Long,
        State::Lost | State::Held | State::Test | State::Done | State::Free => About::Held,
    }
}

/// The question that a finding belongs to.
fn about(finding: &Finding) -> About {
    match finding.name {
        "taken-over" | "outlived" | "freed-by-other" => About::Second,
        "orphan-suspected" | "dead-holder" | "renewed-by-nobody-known" | "never-stops" => About::Lives,
        "renewed-late" | "no-watchdog" | "non-atomic-acquire" | "lease-too-short" | "lease-too-long" => About::Ends,
        "starving" | "dead-heads" => About::Wanted,
        "leaked-permits" => About::Long,
        _ => About::Held,
    }
}

impl Question {
    fn new(about: About, answer: Answer, certainty: Option<Certainty>) -> Question {
        Question { about, answer, certainty, decides: false, evidence: Vec::new(), missing: Vec::new() }
    }

    fn add(&mut self, says: Says, fact: Fact, by: By, at: Option<Time>) {
        self.evidence.push(Evidence { fact, says, by, at });
    }

    fn take(&mut self, finding: &Finding) {
        let says = match finding.name {
            "orphan-suspected" | "dead-holder" => Says::Against,
            "taken-over" | "outlived" | "starving" | "dead-heads" | "leaked-permits" => Says::For,
            _ => Says::Neither,
        };
        let certainty = Certainty::of(finding.confidence).word();
        let sentence = format!("{}: {} ({certainty})", finding.name, finding.sentence);
        self.add(says, Fact::Said(sentence), By::Judgement, None);
        let known = |settle: &String| self.missing.iter().any(|missing| *missing == Missing::Said(settle.clone()));
        let settle = finding.settle.as_ref().filter(|settle| !known(settle));
        self.missing.extend(settle.cloned().map(Missing::Said));
    }
}

/// The source that reports changes.
fn events(lock: &LockView) -> By {
    match lock.source {
        Source::Notification | Source::Action => By::Notification,
        Source::Tracking => By::Tracking,
        Source::Scan => By::Polling,
    }
}

fn ms_ago(lock: &LockView, ms: u64) -> Option<Time> {
    Some(Time(lock.at.0 - i64::try_from(ms).unwrap_or(0)))
}

fn held(lock: &LockView) -> Question {
    let free = lock.verdict.state.is_free();
    let nobody = free || lock.kind == Kind::Marker;
    let answer = if nobody { Answer::No } else { Answer::Yes };
    let mut question = Question::new(About::Held, answer, Some(Certainty::Certain));
    let last = lock.past.last().filter(|_| free);
    if let Some(hold) = last {
        let by = if hold.ending == Ending::Unseen { By::Read } else { events(lock) };
        let held_ms = hold.until.since(hold.since).as_millis() as u64;
        question.add(Says::Against, Fact::Ended { how: hold.ending, held_ms }, by, Some(hold.until));
    } else if free {
        question.add(Says::Against, Fact::Vacant, By::Read, Some(lock.confirmed));
    } else {
        let fact = Fact::KeyThere { type_name: lock.type_name.clone(), holders: lock.holders.len() };
        let says = if nobody { Says::Neither } else { Says::For };
        question.add(says, fact, By::Read, Some(lock.confirmed));
    }
    if let (false, Some(ms), Some(is)) = (nobody, lock.held_ms, lock.held_is) {
        // Only an acquire that was seen came by an event.
        let (by, at) = match is {
            HeldIs::Exact => (events(lock), ms_ago(lock, ms)),
            HeldIs::AtLeast | HeldIs::Estimated => (By::Read, Some(lock.confirmed)),
        };
        question.add(Says::For, Fact::Age { ms, is }, by, at);
    }
    if nobody || lock.verdict.state == State::Test {
        // Of what was lost, more is known than how its last hold ended.
        let said = lock.verdict.evidence.first().filter(|_| last.is_none() || lock.lost.is_some()).cloned();
        said.into_iter().for_each(|said| question.add(Says::Neither, Fact::Said(said), By::Judgement, None));
    }
    question
}

fn second(lock: &LockView) -> Question {
    let split = lock.verdict.state == State::Split;
    let mut question = Question::new(About::Second, if split { Answer::Yes } else { Answer::NothingSeen }, None);
    if let Some(sentence) = lock.verdict.evidence.first().filter(|_| split) {
        question.add(Says::For, Fact::Said(sentence.clone()), By::Judgement, None);
    }
    if events(lock) == By::Polling {
        question.missing.push(Missing::Events);
    }
    question
}

fn lives(lock: &LockView) -> Question {
    let (answer, certainty) = match Pulse::of(lock) {
        Pulse::Renews { .. } | Pulse::Connected | Pulse::JustTaken => (Answer::Yes, Some(Certainty::Likely)),
        Pulse::Gone => (Answer::No, Some(Certainty::of(lock.verdict.confidence))),
        Pulse::Suspected | Pulse::Unknown => (Answer::NotKnown, None),
    };
    let mut question = Question::new(About::Lives, answer, certainty);
    let by = events(lock);
    match &lock.renewals {
        Some(renewals) => {
            let (count, every_ms) = (renewals.count, renewals.period_ms);
            let missed = renewals.missed.unwrap_or(0);
            if let Some(last_ms) = renewals.last_ms {
                let says = if missed == 0 { Says::For } else { Says::Neither };
                question.add(says, Fact::Renewed { count, every_ms, last_ms }, by, ms_ago(lock, last_ms));
                if missed > 0 {
                    question.add(Says::Against, Fact::Missed { count: missed, last_ms }, by, Some(lock.at));
                }
            } else {
                let says = if renewals.expected_ms.is_some() { Says::Against } else { Says::Neither };
                question.add(says, Fact::NeverRenewed, by, Some(lock.at));
            }
        }
        None => {
            let watch_ms = lock.liveness.as_ref().and_then(|liveness| liveness.watch_ms);
            question.missing.push(Missing::Renewals { watch_ms });
        }
    }
    for presence in lock.presence.iter().take(HOLDERS) {
        client(lock, presence, &mut question);
    }
    for sign in lock.liveness.iter().flat_map(|liveness| &liveness.signs) {
        sign_of(*sign, lock, &mut question);
    }
    let known = |presence: &Presence| !matches!(presence, Presence::Unknown);
    if !lock.presence.iter().any(known) {
        question.missing.push(Missing::Client);
    }
    if by == By::Polling && lock.renewals.is_some() {
        question.missing.push(Missing::Events);
    }
    if let Some(renewal) = renewal(lock) {
        question.add(Says::Neither, Fact::Renewer(renewal), By::Library, None);
    }
    if answer == Answer::No && question.evidence.iter().all(|evidence| evidence.says != Says::Against) {
        let said = lock.verdict.evidence.first().cloned();
        said.into_iter().for_each(|said| question.add(Says::Against, Fact::Said(said), By::Judgement, None));
    }
    question
}

/// What a first look shows, if nothing above has said it.
fn sign_of(sign: Sign, lock: &LockView, question: &mut Question) {
    let known = |fact: fn(&Fact) -> bool| question.evidence.iter().any(|one| fact(&one.fact));
    let (known, by) = match sign {
        Sign::Silent { .. } => (known(|fact| matches!(fact, Fact::Missed { .. })), By::Read),
        Sign::Absent => (known(|fact| *fact == Fact::Absent), By::ClientList),
        Sign::PastEnd { .. } => (false, By::Read),
        Sign::Renewed { .. } => (known(|fact| matches!(fact, Fact::Renewed { .. })), events(lock)),
        // Its age belongs to the first question.
        Sign::Taken { .. } => (lock.held_ms.is_some() && question.answer != Answer::Yes, events(lock)),
        Sign::Connected { .. } => (known(|fact| matches!(fact, Fact::Connected { .. })), By::ClientList),
    };
    if !known {
        let says = if sign.says() == model::Says::Gone { Says::Against } else { Says::For };
        question.add(says, Fact::Sign(sign), by, Some(lock.confirmed));
    }
}

/// What the client of one holder says.
fn client(lock: &LockView, presence: &Presence, question: &mut Question) {
    match presence {
        Presence::Unknown => {}
        Presence::Absent => question.add(Says::Against, Fact::Absent, By::ClientList, None),
        Presence::Connected { by, connection, .. } => {
            let says = if presence.is_connected() == Some(true) { Says::For } else { Says::Neither };
            let by = if *by == MatchedBy::Token { By::Monitor } else { By::ClientList };
            question.add(says, Fact::Connected { address: connection.address.clone() }, by, Some(connection.seen));
        }
        Presence::Closed { connection, like_it } => {
            let ago_ms = connection.closed.map(|at| lock.at.since(at).as_millis() as u64);
            let fact = Fact::Closed { address: connection.address.clone(), ago_ms };
            question.add(Says::Against, fact, By::ClientList, connection.closed);
            if *like_it == Some(true) {
                question.add(Says::For, Fact::LikeIt, By::ClientList, None);
            }
        }
    }
}

fn ends(lock: &LockView) -> Question {
    let left_ms = lock.ttl.remaining().map(|left| left.as_millis() as u64);
    let answer = if left_ms.is_some() { Answer::Yes } else { Answer::No };
    let mut question = Question::new(About::Ends, answer, Some(Certainty::Certain));
    match left_ms {
        Some(left_ms) => {
            let fact = Fact::Expires { left_ms, lease: lock.lease_words() };
            question.add(Says::For, fact, By::Read, Some(lock.confirmed));
        }
        None => question.add(Says::Against, Fact::NoTtl, By::Read, Some(lock.confirmed)),
    }
    if let (Some(last_ms), Some(_)) = (lock.renewals.as_ref().and_then(|renewals| renewals.last_ms), left_ms) {
        let said = format!("each renewal extends it; the last was {} ago", short_duration(last_ms));
        question.add(Says::Against, Fact::Said(said), events(lock), ms_ago(lock, last_ms));
    }
    question
}

fn wanted(lock: &LockView) -> Question {
    let tries = lock.tries.and_then(|tries| tries.known_failures_per_s().map(|per_s| (tries, per_s)));
    let at_most = lock.waits.is_some_and(|waits| waits.is_at_most());
    let refused = tries.is_some_and(|(_, per_s)| per_s > 0.0);
    let answer = match lock.waits {
        _ if lock.demand.waiting > 0 || refused => Answer::Yes,
        // That somebody reads it, or runs a script on it, shows no waiter.
        _ if lock.demand.polled || at_most => Answer::NotKnown,
        Some(waits) if waits.count == 0 && !waits.at_least => Answer::No,
        None if lock.gives_up() => Answer::No,
        _ if tries.is_some() => Answer::NothingSeen,
        _ => Answer::NotKnown,
    };
    let certainty = (answer == Answer::Yes || answer == Answer::No).then_some(Certainty::Certain);
    let mut question = Question::new(About::Wanted, answer, certainty);
    match lock.waits {
        Some(waits) => {
            let says = match waits.count {
                0 => Says::Against,
                _ if at_most => Says::Neither,
                _ => Says::For,
            };
            question.add(says, Fact::Waits(waits), By::Counted, Some(waits.counted));
        }
        None if lock.gives_up() => question.add(Says::Against, Fact::GivesUp, By::Library, None),
        None => question.missing.push(Missing::Waiters),
    }
    match tries {
        Some((tries, per_s)) => {
            let says = if per_s > 0.0 { Says::For } else { Says::Against };
            let fact = Fact::Failures { per_s, attempts_per_s: tries.attempts_per_s() };
            question.add(says, fact, By::Monitor, Some(tries.at));
        }
        None => question.missing.push(Missing::Attempts),
    }
    // A client that got it, or gave up, does not wait.
    if let count @ 1.. = lock.contenders.iter().filter(|contender| contender.is_waiting(lock.at)).count() {
        question.add(Says::For, Fact::Contenders(count), By::Monitor, None);
    }
    if let Some(at) = lock.wanted {
        question.add(Says::Neither, Fact::Polled, By::IdleTime, Some(at));
    }
    question
}

/// Where it is known what is usual.
fn long(lock: &LockView) -> Option<Question> {
    let long = lock.verdict.state == State::Long;
    let usual = lock.usual.as_ref();
    if !long && usual.is_none() {
        return None;
    }
    let answer = if long { Answer::Yes } else { Answer::No };
    let mut question = Question::new(About::Long, answer, (!long).then_some(Certainty::Likely));
    let says = if long { Says::For } else { Says::Against };
    if let Some(sentence) = lock.verdict.evidence.first().filter(|_| long) {
        question.add(says, Fact::Said(sentence.clone()), By::History, None);
    } else if let Some(usual) = usual {
        question.add(Says::Neither, Fact::Usual(usual.describe()), By::History, None);
    }
    Some(question)
}

fn library(lock: &LockView) -> Question {
    let sure = lock.dialect_confidence >= Claim::SURE;
    let answer = if sure { Answer::Yes } else { Answer::NotKnown };
    let certainty = sure.then_some(Certainty::of(lock.dialect_confidence));
    let mut question = Question::new(About::Library, answer, certainty);
    let fact = Fact::Recognised { dialect: lock.dialect, by_user: lock.dialect_confidence >= 1.0 };
    question.add(Says::For, fact, By::Read, Some(lock.confirmed));
    if let Some((dialect, _)) = lock.second_choice {
        question.add(Says::Against, Fact::OrElse { dialect }, By::Read, Some(lock.confirmed));
    }
    if !sure {
        question.missing.push(Missing::Library);
    }
    question
}

fn renewal(lock: &LockView) -> Option<Renewal> {
    dialects::by_name(lock.dialect).map(|id| dialects::dialect(id).renewal())
}
