//! What happened, by events and looks written out by hand.

use super::*;
use KeyEvent::*;

const AT: Time = Time(10_000);

fn ask<'a>(held: bool, events: &'a [(KeyEvent, Time)], look: KeyState) -> Situation<'a> {
    let expires = held.then_some(Time(20_000));
    Situation {
        held,
        known: true,
        swept: true,
        expires,
        extended: false,
        prolonged: None,
        begun: None,
        events,
        look,
        beside: false,
        eventful: true,
        missed: false,
        surprised: false,
        flushed: false,
        at: AT,
    }
}

fn resolve(q: &Situation<'_>) -> Option<Vec<Occurrence>> {
    super::resolve(q).map(|resolved| resolved.steps)
}

fn at(ms: i64, event: KeyEvent) -> (KeyEvent, Time) {
    (event, Time(ms))
}

#[test]
fn a_won_set_nx_px_is_one_acquire() {
    let events = [at(1, New), at(1, Set), at(1, Expire)];
    assert_eq!(
        resolve(&ask(false, &events, KeyState::Other)),
        Some(vec![Occurrence::Begin { at: Time(1), exact: true }])
    );
    let old_server = [at(1, Set), at(1, Expire)];
    assert_eq!(
        resolve(&ask(false, &old_server, KeyState::Other)),
        Some(vec![Occurrence::Begin { at: Time(1), exact: true }])
    );
}

#[test]
fn a_renewal_that_sets_again_is_no_acquire() {
    let events = [at(5, Set), at(5, Expire)];
    assert_eq!(resolve(&ask(true, &events, KeyState::Same)), Some(vec![Occurrence::Renew { at: Time(5) }]));
}

#[test]
fn one_more_reader_or_entry_is_no_renewal() {
    let events = [at(5, Written), at(5, Expire), at(500, Expire)];
    assert_eq!(resolve(&ask(true, &events, KeyState::Same)), Some(vec![Occurrence::Renew { at: Time(500) }]));
}

#[test]
fn another_holder_without_an_end_took_it_over() {
    let events = [at(5, Set), at(5, Expire)];
    assert_eq!(resolve(&ask(true, &events, KeyState::Other)), Some(vec![Occurrence::Take { at: Time(5) }]));
}

#[test]
fn released_and_taken_between_two_looks() {
    let events = [at(5, Del), at(6, New), at(6, Set), at(6, Expire)];
    let steps = resolve(&ask(true, &events, KeyState::Other)).unwrap();
    assert_eq!(
        steps,
        [Occurrence::End { at: Time(5), ending: Ending::Released }, Occurrence::Begin { at: Time(6), exact: true }]
    );
}

#[test]
fn taken_and_released_before_we_could_look() {
    let events = [at(5, New), at(5, Set), at(5, Expire), at(7, Del)];
    let steps = resolve(&ask(false, &events, KeyState::Absent)).unwrap();
    assert_eq!(
        steps,
        [Occurrence::Begin { at: Time(5), exact: true }, Occurrence::End { at: Time(7), ending: Ending::Released }]
    );
}

#[test]
fn what_came_and_went_without_a_write_was_no_lock() {
    let events = [at(5, New), at(7, Del)];
    let strange = Situation { known: false, ..ask(false, &events, KeyState::Absent) };
    assert_eq!(resolve(&strange), Some(vec![]));
    let written = [at(5, New), at(5, Set), at(7, Del)];
    assert_eq!(resolve(&Situation { events: &written, ..strange }).map(|steps| steps.len()), Some(2));
}

#[test]
fn a_lock_first_seen_between_two_holds_was_not_there_before_them() {
    let events = [at(5, New), at(5, Set), at(7, Del)];
    let early = Situation { known: false, swept: false, ..ask(false, &events, KeyState::Other) };
    assert_eq!(resolve(&early), None, "the events of the next hold are on their way");
    let alone = Situation { events: &[], ..early };
    assert_eq!(resolve(&alone), Some(vec![Occurrence::Find]));
}

#[test]
fn expired_and_evicted_are_told_from_released() {
    for (event, ending) in [(Expired, Ending::Expired), (Evicted, Ending::Evicted), (RenamedFrom, Ending::Renamed)] {
        let events = [at(5, event)];
        assert_eq!(resolve(&ask(true, &events, KeyState::Absent)), Some(vec![Occurrence::End { at: Time(5), ending }]));
    }
}

#[test]
fn a_look_ahead_of_its_event_waits_for_it() {
    assert_eq!(resolve(&ask(true, &[], KeyState::Absent)), None);
    assert_eq!(resolve(&ask(true, &[], KeyState::Other)), None);
    assert_eq!(resolve(&ask(false, &[], KeyState::Other)), None);
    let again = Situation { surprised: true, ..ask(true, &[], KeyState::Absent) };
    assert_eq!(resolve(&again), Some(vec![Occurrence::End { at: AT, ending: Ending::Unseen }]));
}

#[test]
fn a_late_word_of_a_known_acquire_changes_nothing() {
    let events = [at(5, New), at(5, Set), at(5, Expire)];
    assert_eq!(resolve(&ask(true, &events, KeyState::Same)), Some(vec![]));
}

#[test]
fn a_flush_is_told_from_a_release() {
    let q = Situation { flushed: true, ..ask(true, &[], KeyState::Absent) };
    assert_eq!(resolve(&q), Some(vec![Occurrence::End { at: AT, ending: Ending::Flushed }]));
}

#[test]
fn what_went_by_unseen_is_not_called_a_release() {
    let blind = Situation { eventful: false, missed: true, ..ask(true, &[], KeyState::Absent) };
    assert_eq!(resolve(&blind), Some(vec![Occurrence::End { at: AT, ending: Ending::Unseen }]));
    let blind = Situation { look: KeyState::Other, ..blind };
    assert_eq!(
        resolve(&blind),
        Some(vec![Occurrence::End { at: AT, ending: Ending::Unseen }, Occurrence::Begin { at: AT, exact: false }])
    );
}

#[test]
fn the_first_ttl_soon_after_a_setnx_is_no_renewal() {
    let events = [at(9_500, Expire)];
    let q = Situation { begun: Some(Time(9_000)), ..ask(true, &events, KeyState::Same) };
    assert_eq!(resolve(&q), Some(vec![]));
    let q = Situation { begun: Some(Time(1_000)), ..q };
    assert_eq!(resolve(&q), Some(vec![Occurrence::Renew { at: Time(9_500) }]));
}

#[test]
fn polling_sees_a_renewal_by_its_deadline() {
    let q = Situation { eventful: false, extended: true, ..ask(true, &[], KeyState::Same) };
    assert_eq!(resolve(&q), Some(vec![Occurrence::Renew { at: AT }]));
}
