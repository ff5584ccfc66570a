//! What is told of locks that clients hold at a master that was replaced: two holders, and what is lost when it is demoted.

use super::*;
use crate::lock::{NodeId, SLOTS};

const NEW: NodeId = NodeId(1);

/// The new master took over at five seconds. The holder followed there; the old master has its copy, and is read.
struct Service(Table);

impl Service {
    fn failed_over() -> Service {
        let mut table = following(Limits::default());
        for node in [NODE, NEW] {
            table.apply(Observation::Joined { node, space: KeyspaceId::FIRST });
        }
        let mut service = Service(table);
        service.own(NODE, 0);
        tell(&mut service.0, Time(1_000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set)]);
        settle(&mut service.0, Time(1_001), |_| seen("tok-a", 29_999));
        service.0.apply(Observation::TookOver { node: NEW, at: Time(5_000) });
        service.own(NEW, 5_000);
        service.0.apply(Observation::Cut { node: NEW, since: None });
        service.0.apply(Observation::Watched { node: NEW, source: Source::Notification });
        service.look(5_010, &seen("tok-a", 25_990));
        service.of_old(OfDeposed::Reigns { succession: Box::new(succession()), at: Time(5_000) });
        service
    }

    /// The same, and the copy was looked at.
    fn read() -> Service {
        let mut service = Service::failed_over();
        service.has("lock:a", 5_100, seen("tok-a", 25_900));
        service.of_old(OfDeposed::Walked);
        service.story();
        service
    }

    fn own(&mut self, node: NodeId, at: i64) {
        let slots = vec![(0, SLOTS - 1, node)];
        self.0.apply(Observation::Owners { space: KeyspaceId::FIRST, slots, at: Time(at) });
    }

    fn look(&mut self, now: i64, seen: &Seen) {
        for ticket in self.0.to_read(NEW, 10, Time(now)) {
            self.0.answer(ticket, Time(now), Time(now), seen.clone());
        }
    }

    /// The holder releases it at the new master, and another one takes it there.
    fn handed_over(&mut self, at: i64) {
        let take = [KeyEvent::Del, KeyEvent::New, KeyEvent::Set];
        let mut batch = EventBatch::new(Time(at));
        take.iter().for_each(|event| batch.push(b"lock:a", *event));
        self.0.apply(Observation::Events { node: NEW, batch });
        self.look(at + 1, &seen("tok-b", 29_999));
    }

    fn of_old(&mut self, told: OfDeposed) {
        self.0.apply(Observation::Deposed { node: NODE, told });
    }

    /// What the old master has under a key.
    fn has(&mut self, key: &str, at: i64, seen: Seen) {
        let (asked, answered) = (Time(at), Time(at + 2));
        self.of_old(OfDeposed::Has { key: Key::from(key), asked, answered, seen });
    }

    fn ends(&mut self, fall: Fall, at: i64) -> Vec<(&'static str, String, bool)> {
        self.story();
        self.of_old(OfDeposed::Ended { fall, at: Time(at) });
        let (told, _) = self.0.take_transitions();
        told.into_iter().map(|told| (told.change.name(), told.previous.unwrap().to_string(), told.proven)).collect()
    }

    fn story(&mut self) -> Vec<&'static str> {
        story(&mut self.0).into_iter().map(|(what, ..)| what).collect()
    }

    fn verdict(&self, now: i64) -> Verdict {
        self.0.judge(self.0.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap(), Time(now))
    }

    fn is_split(&self, now: i64) -> bool {
        self.verdict(now).state == State::Split
    }

    fn timeline(&self) -> Vec<String> {
        self.0.timeline().from(0).map(|(_, entry)| entry.what.sentence(|token| token.to_string())).collect()
    }
}

fn succession() -> Succession {
    let reign = |name: &str, epoch| Reign { name: name.into(), epoch: Some(epoch) };
    Succession { space: KeyspaceId::FIRST, old: reign("10.0.0.5:6379", 3), new: reign("10.0.0.6:6379", 4) }
}

#[test]
fn a_copy_that_nobody_touches_is_no_second_holder() {
    let mut service = Service::read();
    assert!(!service.is_split(5_200), "its holder is the same at both");
    service.handed_over(6_000);
    for at in [6_100, 6_600, 7_100] {
        service.has("lock:a", at, seen("tok-a", 31_000 - at as u64));
        assert!(!service.is_split(at + 10), "the old master does not know that it was released");
    }
    assert_eq!(service.ends(Fall::Demoted, 15_000), [], "nothing was written there");
    assert_eq!(service.timeline(), [] as [&str; 0]);
}

#[test]
fn who_takes_it_at_the_old_master_is_a_second_holder_until_that_is_demoted() {
    let mut service = Service::read();
    service.handed_over(6_000);
    service.has("lock:a", 6_500, seen("tok-c", 29_000));
    let verdict = service.verdict(7_500);
    assert_eq!((verdict.state, verdict.confidence), (State::Split, 0.95));
    assert_eq!(
        verdict.evidence,
        [
            "tok-c holds it on 10.0.0.5:6379 (epoch 3), seen at work there 998ms ago; 10.0.0.6:6379 (epoch 4) has replaced \
             that: both may be at work",
            "the hold on 10.0.0.6:6379 stays: 10.0.0.5:6379 throws away what is written there when it is demoted"
        ]
    );
    assert_eq!(service.ends(Fall::Demoted, 8_000), [("lost", "tok-c".to_string(), true)]);
    assert!(!service.is_split(8_001));
    service.0.patrol(100, Time(10_000));
    let told = service.timeline();
    assert!(told[0].starts_with("clients still write to 10.0.0.5:6379, which 10.0.0.6:6379 has replaced"), "{told:?}");
    let lost = "was written on the deposed master, and thrown away when it was demoted; held by tok-c";
    assert!(told.iter().any(|told| told == lost), "{told:?}");
    let served = service.0.timeline().servers().next().unwrap();
    assert_eq!((served.entry.what.name(), served.lost), ("split-brain", 1));
}

#[test]
fn who_renews_it_there_is_at_work_although_the_new_master_has_handed_it_on() {
    let mut service = Service::read();
    // Its holder knows nothing of the failover, so that its lease ends at the new master.
    let mut batch = EventBatch::new(Time(31_000));
    [KeyEvent::Expired, KeyEvent::New, KeyEvent::Set].iter().for_each(|event| batch.push(b"lock:a", *event));
    service.has("lock:a", 15_000, seen("tok-a", 30_000));
    assert!(!service.is_split(15_100), "it holds it at both");
    service.0.apply(Observation::Events { node: NEW, batch });
    service.look(31_001, &seen("tok-b", 29_999));
    assert!(service.is_split(31_100), "{:?}", service.verdict(31_100));
    assert!(!service.is_split(45_100), "its lease there is over");
    assert_eq!(service.ends(Fall::Demoted, 32_000), [], "it was at the new master too, where its end was told");
}

#[test]
fn who_follows_to_the_new_master_and_is_done_there_is_no_second_holder() {
    let mut service = Service::read();
    service.has("lock:a", 5_600, seen("tok-a", 30_000));
    service.handed_over(6_000);
    assert!(!service.is_split(6_100), "{:?}", service.verdict(6_100));
    service.has("lock:a", 6_600, seen("tok-a", 29_000));
    assert!(!service.is_split(6_700), "it has not renewed there since");
    service.has("lock:a", 9_000, seen("tok-a", 30_000));
    assert!(service.is_split(9_100), "it renews there again: {:?}", service.verdict(9_100));
}

#[test]
fn what_was_not_there_when_all_was_gone_through_was_taken_since() {
    for walked in [true, false] {
        let mut service = Service::failed_over();
        if walked {
            service.of_old(OfDeposed::Walked);
        }
        service.has("lock:only:there", 6_000, seen("tok-c", 30_000));
        let lost = service.ends(Fall::Demoted, 8_000);
        assert_eq!(lost.len(), usize::from(walked), "it may have been there before: {lost:?}");
    }
    let mut service = Service::failed_over();
    service.has("lock:only:there", 6_000, Seen::Absent);
    service.has("lock:only:there", 6_500, seen("tok-c", 30_000));
    assert_eq!(service.ends(Fall::Demoted, 8_000).len(), 1, "it was not there before");
}

#[test]
fn what_is_lost_with_a_server_that_does_not_answer_is_not_proven() {
    for (fall, told) in [(Fall::Gone, vec![false]), (Fall::Demoted, vec![true]), (Fall::Restored, vec![])] {
        let mut service = Service::read();
        service.has("lock:c", 6_000, seen("tok-c", 30_000));
        let proven: Vec<bool> = service.ends(fall, 8_000).into_iter().map(|(.., proven)| proven).collect();
        assert_eq!(proven, told, "{fall:?}");
    }
}

#[test]
fn what_was_released_or_ran_out_there_is_not_lost() {
    let mut service = Service::read();
    service.has("lock:c", 6_000, seen("tok-c", 30_000));
    service.has("lock:d", 6_000, seen("tok-d", 1_000));
    service.has("lock:c", 6_500, Seen::Absent);
    assert_eq!(service.ends(Fall::Demoted, 8_000), []);
}

#[test]
fn a_connection_that_was_lost_forgets_what_was_compared_with() {
    let mut service = Service::read();
    service.handed_over(6_000);
    // It was restarted with older data.
    service.of_old(OfDeposed::Reigns { succession: Box::new(succession()), at: Time(7_000) });
    service.has("lock:a", 7_100, seen("tok-older", 20_000));
    assert!(!service.is_split(7_200));
    service.has("lock:a", 7_600, seen("tok-c", 20_000));
    assert!(service.is_split(7_700));
}

#[test]
fn what_deposed_masters_have_is_bounded() {
    let mut service = Service::failed_over();
    service.of_old(OfDeposed::Walked);
    for number in 0..20_000 {
        service.has(&format!("lock:{number}"), 6_000, seen("tok-c", 30_000));
    }
    assert!(service.ends(Fall::Demoted, 8_000).len() <= 8_192);
    for number in 0..1_000 {
        let told = OfDeposed::Reigns { succession: Box::new(succession()), at: Time(9_000) };
        service.0.apply(Observation::Deposed { node: NodeId(100 + number), told });
    }
    assert!(service.0.deposed_observations().len() <= 8);
}

#[test]
fn another_table_is_told_the_same() {
    let mut service = Service::failed_over();
    service.0.record(1_000);
    let mut other = following(Limits::default());
    for observation in service.0.take_recorded().0 {
        other.apply(observation);
    }
    assert_eq!(other.deposed_observations(), service.0.deposed_observations());
}
