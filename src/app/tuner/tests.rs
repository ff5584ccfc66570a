//! The tuner by its keys: opened, moved, labelled, written back; and what it says where it can't.

use super::*;
use crate::alerts::{Compare, Rules};
use crate::app::{Event, Past};
use crate::testkit::stage::Stage as Desk;
use crate::testkit::tuned::{RULE, trial};

fn desk() -> Desk {
    let mut desk = Desk::new();
    desk.app.watch_rules(Rules::default_rules());
    desk.press("4");
    while desk.app.alerting.selected().unwrap().id.rule != RULE {
        desk.press("j");
    }
    desk
}

fn opened() -> Desk {
    let mut desk = desk();
    let past = Past { store: "/tmp/locks.history".into(), ..Past::default() };
    desk.app.update(Event::Past(Box::new(past)), desk.now);
    desk.press("T");
    reply(&mut desk, Reply::Loaded(RULE.into(), Ok(Box::new(trial()))));
    desk
}

fn reply(desk: &mut Desk, reply: Reply) {
    desk.app.update(Event::Tuned(Box::new(reply)), desk.now);
}

fn orders(effects: Vec<Effect>) -> Vec<Order> {
    let tune = |effect| match effect {
        Effect::Tune(order) => Some(order),
        _ => None,
    };
    effects.into_iter().filter_map(tune).collect()
}

fn candidate(desk: &Desk) -> crate::alerts::Condition {
    desk.app.tuner.as_ref().unwrap().trial().unwrap().candidate.condition
}

fn firings(desk: &Desk) -> u64 {
    desk.app.tuner.as_ref().unwrap().trial().unwrap().candidate.outcome.firings
}

#[test]
fn without_a_history_it_says_what_to_do() {
    let mut desk = desk();
    desk.press("T");
    assert!(desk.app.tuner.is_none());
    assert!(desk.screen().contains("--store FILE"), "{}", desk.screen());
}

#[test]
fn it_asks_for_the_history_of_the_selected_rule_and_tells_how_far_it_is() {
    let mut desk = desk();
    let past = Past { store: "/tmp/locks.history".into(), ..Past::default() };
    desk.app.update(Event::Past(Box::new(past)), desk.now);
    let [Order::Load { store, rule }] = &orders(desk.press("T"))[..] else { panic!("nothing is loaded") };
    assert_eq!((store.to_str(), rule.name.as_str()), (Some("/tmp/locks.history"), RULE));
    reply(&mut desk, Reply::Progress(RULE.into(), 1, 4));
    assert!(desk.screen().contains("25 %"), "{}", desk.screen());
    desk.press("r");
    assert!(desk.screen().contains("still being read"), "{}", desk.screen());
    reply(&mut desk, Reply::Loaded("Another".into(), Err("old".into())));
    reply(&mut desk, Reply::Loaded(RULE.into(), Err("locks.history is damaged".into())));
    assert!(desk.screen().contains("locks.history is damaged"), "{}", desk.screen());
    desk.press("esc");
    assert!(desk.app.tuner.is_none() && desk.app.page.screen == Screen::Alerts);
}

#[test]
fn arrows_move_what_is_chosen_and_the_numbers_follow() {
    let mut desk = opened();
    assert_eq!((candidate(&desk).compare, firings(&desk)), (Compare::Above(4.0), 3));
    desk.press("up");
    assert_eq!((candidate(&desk).compare, firings(&desk)), (Compare::Above(5.0), 2));
    desk.press("pageup");
    assert_eq!((candidate(&desk).compare, firings(&desk)), (Compare::Above(15.0), 0));
    desk.press("pagedown");
    desk.press("tab");
    desk.press("down");
    assert_eq!((candidate(&desk).hold_for, firings(&desk)), (90_000, 3), "the near miss fires now");
    desk.press("tab");
    desk.press("down");
    assert_eq!(candidate(&desk).recover, Some(4.0));
    desk.press("up");
    assert_eq!(candidate(&desk).recover, None);
}

#[test]
fn a_threshold_does_not_pass_its_recovery_level() {
    let mut desk = opened();
    for key in ["tab", "tab", "down", "tab", "down", "down"] {
        desk.press(key);
    }
    assert_eq!((candidate(&desk).compare, candidate(&desk).recover), (Compare::Above(4.0), Some(3.0)));
}

#[test]
fn an_episode_is_selected_by_what_it_is_and_labelled() {
    let mut desk = opened();
    desk.press("left");
    desk.press("left");
    let episode = |desk: &Desk| *desk.app.tuner.as_ref().unwrap().episode().unwrap();
    let second = episode(&desk);
    desk.press("up");
    assert_eq!(episode(&desk).episode.from, second.episode.from, "it no longer fires, and stays selected");
    let [Order::Label { label, .. }] = &orders(desk.press("o"))[..] else { panic!("no label") };
    assert_eq!((label.verdict, label.from), (Some(Verdict::Noise), second.episode.from));
    reply(&mut desk, Reply::Labelled(RULE.into(), Ok(vec![label.clone()])));
    assert_eq!(episode(&desk).verdict, Some(Verdict::Noise));
    let [Order::Label { label, .. }] = &orders(desk.press("o"))[..] else { panic!("no label") };
    assert_eq!(label.verdict, None, "again: it is taken away");
}

#[test]
fn the_suggestion_is_one_key_away() {
    let mut desk = opened();
    desk.press("s");
    assert_eq!((candidate(&desk).compare, firings(&desk)), (Compare::Above(9.0), 0));
}

#[test]
fn a_rule_is_written_only_after_its_difference_was_seen() {
    let mut desk = opened();
    desk.press("w");
    assert!(desk.screen().contains("nothing is changed yet"), "{}", desk.screen());
    desk.press("up");
    desk.press("w");
    assert!(desk.screen().contains("--rules FILE"), "{}", desk.screen());
    desk.app.alerting.file = Some(RuleFile { path: "/etc/rules.toml".into() });
    let [Order::Propose { rule, trial, .. }] = &orders(desk.press("w"))[..] else { panic!("nothing is proposed") };
    assert_eq!((rule.as_str(), trial.from.compare, trial.to.compare), (RULE, Compare::Above(4.0), Compare::Above(5.0)));
    let proposal = Proposal { path: "/etc/rules.toml".into(), old: "above = 4\n".into(), new: "above = 5\n".into() };
    reply(&mut desk, Reply::Proposed(Ok(proposal.clone())));
    let screen = desk.screen();
    assert!(
        screen.contains("- above = 4") && screen.contains("+ above = 5") && screen.contains("enter writes this"),
        "{screen}"
    );
    desk.press("up");
    assert_eq!(candidate(&desk).compare, Compare::Above(5.0), "what was shown is what is written");
    assert_eq!(orders(desk.press("esc")), [], "it was left as it is");
    desk.press("w");
    reply(&mut desk, Reply::Proposed(Ok(proposal.clone())));
    assert_eq!(orders(desk.press("enter")), [Order::Write(proposal.clone())]);
    reply(&mut desk, Reply::Written(Ok(proposal)));
    assert!(desk.screen().contains("written to /etc/rules.toml"), "{}", desk.screen());
    assert!(!desk.app.tuner.as_ref().unwrap().trial().unwrap().is_changed(), "the candidate is the rule now");
}
