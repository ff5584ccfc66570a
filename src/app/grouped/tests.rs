//! Grouping the list, opening a group, and the ways back.

use crate::app::Screen;
use crate::model::{GroupBy, State};
use crate::testkit::stage::Stage;

const REDISSON: &str = "3f2a8c00-1111-4222-8333-444455556666";

/// Buckets of which one has no TTL, and some other locks.
fn shop() -> Stage {
    let mut stage = Stage::new();
    for bucket in 0..64 {
        stage.acquire(format!("stock:bucket:{bucket}"), "t", (bucket != 17).then_some(600_000));
    }
    for order in 1..4 {
        stage.acquire_redisson(&format!("lock:order:{order}"), &format!("{REDISSON}:{order}"), 600_000);
    }
    stage.pass(2_000);
    stage.compose();
    stage
}

fn names(stage: &Stage) -> Vec<String> {
    let name = |group: &crate::model::Group| group.name.text(|_| "node".into()).unwrap_or_default();
    stage.app.scene.groups.all.iter().map(name).collect()
}

#[test]
fn sixty_four_buckets_are_one_row_with_the_odd_one_named() {
    let mut stage = shop();
    stage.press("b p");
    assert_eq!(names(&stage), ["stock:bucket:*", "lock:order:*"], "worst first");
    let group = &stage.app.scene.groups.all[0];
    assert_eq!((group.locks, group.count(State::NoTtl)), (64, 1));
    let screen = stage.screen();
    let row = screen.lines().find(|line| line.contains(" 64 ")).unwrap();
    assert!(row.contains("NO-TTL") && row.contains("1 NO-TTL: stock:bucket:17"), "{screen}");
    stage.resize(140, 40);
    let screen = stage.screen();
    assert!(screen.contains("63 held, 1 NO-TTL: stock:bucket:17"), "{screen}");
}

#[test]
fn enter_lists_the_locks_of_a_group_and_esc_goes_back_to_it() {
    let mut stage = shop();
    stage.press("b p j enter");
    assert_eq!(stage.rows(), ["lock:order:1", "lock:order:2", "lock:order:3"]);
    assert!(stage.screen().contains("pattern: lock:order:*"), "{}", stage.screen());
    stage.press("j enter");
    assert_eq!(stage.app.scene.lock.as_ref().map(|lock| lock.key.to_string()), Some("lock:order:2".into()));
    stage.press("esc esc");
    let selected = stage.app.scene.cursor.map(|at| names(&stage)[at].clone());
    assert_eq!((stage.app.groups_by(), selected), (Some(GroupBy::Pattern), Some("lock:order:*".into())));
    stage.press("esc");
    assert_eq!((stage.app.groups_by(), stage.app.scene.listed), (None, 67));
}

#[test]
fn what_else_a_holder_holds_is_one_key_away() {
    let mut stage = shop();
    stage.filter("order:2");
    stage.press("o");
    assert_eq!(stage.rows(), ["lock:order:1", "lock:order:2", "lock:order:3"], "all threads of the process");
    assert_eq!(stage.selected().as_deref(), Some("lock:order:2"), "the lock that was asked about");
    stage.press("esc");
    assert_eq!((stage.rows(), stage.app.list.filter_text.as_str()), (vec!["lock:order:2".into()], "order:2"));
    // The same of an opened lock, and back to it.
    stage.press("enter o");
    assert!(stage.app.page.opened.is_none() && stage.rows().len() == 3);
    stage.press("esc");
    assert_eq!(stage.app.page.opened.as_ref().map(|id| id.key.to_string()), Some("lock:order:2".into()));
}

#[test]
fn groups_are_of_what_the_filter_shows() {
    let mut stage = shop();
    stage.press("b p");
    stage.filter("state:no-ttl");
    assert_eq!(names(&stage), ["stock:bucket:*"]);
    assert_eq!(stage.app.scene.groups.all[0].locks, 1);
    stage.press("enter");
    assert_eq!(stage.rows(), ["stock:bucket:17"]);
    stage.press("esc");
    assert_eq!((stage.app.groups_by(), stage.app.list.filter_text.as_str()), (Some(GroupBy::Pattern), "state:no-ttl"));
    stage.press("esc");
    assert_eq!(names(&stage).len(), 2, "the filter goes before the groups do");
}

#[test]
fn the_selection_is_a_group_and_not_a_row() {
    let mut stage = shop();
    stage.press("b p j");
    stage.acquire("invoice:1", "t", None);
    stage.pass(3_000);
    stage.compose();
    assert_eq!(names(&stage)[2], "lock:order:*");
    assert_eq!(stage.app.scene.cursor, Some(2));
}

#[test]
fn no_lock_can_be_freed_from_a_group_by_mistake() {
    let mut stage = shop();
    stage.press("W b p");
    for key in ["x", "e", "space"] {
        assert!(stage.press(key).is_empty());
        assert!(stage.notice().contains("works on a lock; enter lists those of the group"), "{}", stage.notice());
    }
    assert!(stage.app.list.marked.is_empty());
    stage.press("2 1");
    assert_eq!((stage.app.page.screen, stage.app.groups_by()), (Screen::Locks, Some(GroupBy::Pattern)));
}

#[test]
fn a_paused_screen_can_be_grouped_and_opened_too() {
    let mut stage = shop();
    stage.press("p b o");
    let holders = names(&stage);
    assert!(holders.contains(&REDISSON.to_string()) && holders.contains(&"t".to_string()), "{holders:?}");
    stage.acquire("lock:order:9", &format!("{REDISSON}:9"), 600_000);
    stage.pass(5_000);
    stage.press("b p");
    assert_eq!(names(&stage), ["stock:bucket:*", "lock:order:*"]);
    stage.press("j enter");
    assert_eq!(stage.rows().len(), 3, "as it was when it was paused");
    stage.press("esc b b p");
    assert_eq!(stage.app.scene.listed, 68);
}

#[test]
fn the_choice_names_its_letters_and_the_command_does_the_same() {
    let mut stage = shop();
    stage.press("b");
    assert!(
        stage.screen().contains("group by p pattern  o holder  l library  n node  b nothing"),
        "{}",
        stage.screen()
    );
    stage.press("z");
    assert_eq!(stage.notice(), "nothing has the letter z; the list stays");
    stage.press("3 :");
    stage.write("group library");
    stage.press("enter");
    assert_eq!(names(&stage), ["plain", "redisson"]);
    stage.press(":");
    stage.write("group colour");
    stage.press("enter");
    assert!(stage.screen().contains("there is no group by \"colour\""), "{}", stage.screen());
}

#[test]
fn a_private_screen_names_no_holder() {
    let mut stage = shop();
    stage.resize(140, 40);
    stage.press("P b o");
    let screen = stage.screen();
    assert!(!screen.contains("3f2a8c00") && screen.contains("(hidden)"), "{screen}");
    stage.press("j enter");
    assert!(!stage.screen().contains("3f2a8c00"), "{}", stage.screen());
}
