//! The queue of a fair lock when it is freed: who hears nothing is dropped, but only if that is still so when the script
//! runs; the same is said beforehand by every preview, and undo says what it does not put back.

mod common;

use common::acting::Acting;
use common::program::has;
use common::{Desk, Listener, Ran, Server};
use lockscope::actions::{Cleared, Freeing, Outcome, Plan, plan};
use lockscope::lock::Token;
use serde_json::{Value, json};

const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";
const B: &str = "bbbbbbbb-1111-4222-8333-444455556666:1";
const C: &str = "cccccccc-1111-4222-8333-444455556666:1";
const FAR: &str = "99999999999999";
const QUEUE: &str = "redisson_lock_queue:{lock:fair}";
const DEADLINES: &str = "redisson_lock_timeout:{lock:fair}";

fn channel(waiter: &str) -> String {
    format!("redisson_lock__channel:{{lock:fair}}:{waiter}")
}

fn listen(server: &Server, waiter: &str) -> Listener {
    Listener::on(server, "SUBSCRIBE", &channel(waiter))
}

/// A fair lock of A's; these wait for it, with their deadlines far ahead.
fn fair(server: &Server, waiters: &[&str]) {
    server.cli(&["FLUSHALL"]);
    server.cli(&["HSET", "lock:fair", A, "1"]);
    server.cli(&["PEXPIRE", "lock:fair", "600000"]);
    for waiter in waiters {
        server.cli(&["RPUSH", QUEUE, waiter]);
        server.cli(&["ZADD", DEADLINES, FAR, waiter]);
    }
}

fn queue(server: &Server) -> [Vec<String>; 2] {
    [server.ask(&["LRANGE", QUEUE, "0", "-1"]), server.ask(&["ZRANGE", DEADLINES, "0", "-1"])]
}

fn both(waiters: &[&str]) -> [Vec<String>; 2] {
    let waiters: Vec<String> = waiters.iter().map(|waiter| waiter.to_string()).collect();
    [waiters.clone(), waiters]
}

fn tokens(waiters: &[&str]) -> Vec<Token> {
    waiters.iter().map(|waiter| Token::from(waiter.as_bytes())).collect()
}

/// The plan to free it, of somebody who saw that these hear nothing.
async fn plan_of(acting: &Acting, deaf: &[&str]) -> Plan {
    let lock = acting.see(b"lock:fair", None).await.expect("a lock");
    let dead: Vec<Vec<u8>> = deaf.iter().map(|waiter| waiter.as_bytes().to_vec()).collect();
    let asked = Freeing { holder: Some(A.as_bytes()), dead_waiters: &dead, force: false };
    plan::free(&lock, asked, acting.clock.now()).expect("a plan")
}

#[tokio::test]
async fn a_waiter_that_hears_nothing_leaves_the_fair_queue() {
    let server = Server::start();
    fair(&server, &[B, C]);
    let mut second = listen(&server, C);
    let mut acting = Acting::on(&server).await;
    let plan = plan_of(&acting, &[B]).await;
    let performed = acting.perform(&plan).await;
    assert_eq!(performed.outcome, Outcome::Done { woken: 1, silent: None });
    assert_eq!(performed.queue, Cleared { dropped: tokens(&[B]), ..Cleared::default() });
    assert_eq!(second.heard(&server), ["0"]);
    assert_eq!(queue(&server), both(&[C]));
}

#[tokio::test]
async fn a_waiter_that_listens_again_keeps_its_place_and_is_the_one_woken() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    let sharded = if has((7, 0), "sharded channels") { &["SUBSCRIBE", "SSUBSCRIBE"][..] } else { &["SUBSCRIBE"] };
    for how in sharded {
        fair(&server, &[B, C]);
        let mut second = listen(&server, C);
        let plan = plan_of(&acting, &[B]).await;
        let mut first = Listener::on(&server, how, &channel(B));
        let performed = acting.perform(&plan).await;
        assert_eq!(performed.outcome, Outcome::Done { woken: 1, silent: None }, "{how}");
        assert_eq!(performed.queue, Cleared { stayed: tokens(&[B]), ..Cleared::default() }, "{how}");
        assert_eq!((first.heard(&server), second.heard(&server)), (vec!["0".to_string()], vec![]), "{how}");
        assert_eq!(queue(&server), both(&[B, C]), "{how}");
    }
}

#[tokio::test]
async fn of_several_deaf_waiters_only_those_still_deaf_are_dropped() {
    let server = Server::start();
    fair(&server, &["late", B, "gone", C]);
    server.cli(&["ZADD", DEADLINES, "1", "late"]);
    let mut acting = Acting::on(&server).await;
    let plan = plan_of(&acting, &[B, "gone", C, "left by itself"]).await;
    let mut last = listen(&server, C);
    let performed = acting.perform(&plan).await;
    assert_eq!(
        performed.queue,
        Cleared { dropped: tokens(&[B, "gone"]), stayed: tokens(&[C]), overdue: 1, deaf_head: None }
    );
    assert_eq!(last.heard(&server), ["0"]);
    assert_eq!(queue(&server), both(&[C]));
}

/// Whoever frees many at once does not look at each queue.
#[test]
fn a_release_that_nobody_heard_at_the_head_of_the_queue_says_so() {
    let server = Server::start();
    fair(&server, &[B, C]);
    let mut second = listen(&server, C);
    let desk = Desk::at(&server);
    let ran = desk.run(&["release", "-p", "lock:*", "--filter", "lock:fair", "--yes"]);
    let told = format!("nobody listens for {B}, the first in its queue: those behind it wait until its deadline");
    assert!(ran.code == 0 && ran.out.contains(&told), "{ran:?}");
    assert_eq!(second.heard(&server), [""; 0]);
    assert_eq!(queue(&server), both(&[B, C]), "nobody is dropped who was not shown");
}

/// Without that right nobody can say that it is deaf: a new preview drops nobody.
#[tokio::test]
async fn who_may_not_count_listeners_any_more_drops_nobody() {
    if !has((7, 0), "asking for rights inside a script") {
        return;
    }
    let server = Server::start();
    fair(&server, &[B, C]);
    let mut acting = Acting::on(&server).await;
    let plan = plan_of(&acting, &[B]).await;
    server.cli(&["ACL", "SETUSER", "default", "-pubsub"]);
    let before = server.everything();
    let performed = acting.perform(&plan).await;
    let Outcome::Refused(why) = &performed.outcome else { panic!("{performed:?}") };
    assert!(why.to_string().contains(&format!("PUBSUB NUMSUB on {}", channel(B))), "{why}");
    assert_eq!(server.everything(), before);
}

#[test]
fn the_command_finds_the_deaf_waiters_by_itself() {
    let server = Server::start();
    fair(&server, &[B, C]);
    let mut second = listen(&server, C);
    let ran = Desk::at(&server).run(&["release", "lock:fair", "--holder", A, "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains(&format!("notified 1 waiter; dropped {B} from its queue;")), "{ran:?}");
    assert_eq!(second.heard(&server), ["0"]);
    assert_eq!(queue(&server), both(&[C]));
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {ran:?}"))
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

#[test]
fn every_preview_names_who_is_dropped_and_on_which_condition() {
    let server = Server::start();
    fair(&server, &[B, C]);
    let _second = listen(&server, C);
    let desk = Desk::at(&server);
    let release = ["release", "lock:fair", "--holder", A, "--dry-run"];
    let shown = json(&desk.run(&[&release[..], &["--json"]].concat()));
    let commands = texts(&shown["commands"]);
    let drop = format!("if nobody listens on {}: LREM {QUEUE} 0 {B}; ZREM {DEADLINES} {B}", channel(B));
    assert!(commands.contains(&drop.as_str()), "{commands:#?}");
    let beware = format!("Nobody listens for {B}. This drops it from the queue, unless somebody listens again.");
    assert!(texts(&shown["hazards"]).iter().any(|hazard| **hazard == beware), "{shown:#}");
    assert_eq!(shown["dropped"], json!([B]));

    // The page says the same, word for word and in the same order.
    let page = json(&desk.run(&["show", "lock:fair", "--json"]));
    let notes = texts(&page["notes"]["release"]);
    let runs: Vec<&str> = notes.iter().filter_map(|note| note.strip_prefix("  ")).collect();
    let warns: Vec<&str> = notes.iter().filter_map(|note| note.strip_prefix("Beware: ")).collect();
    assert_eq!((runs, warns), (commands, texts(&shown["hazards"])));

    let text = desk.run(&release).out;
    assert!(text.contains(&drop) && text.contains(&beware), "{text}");
    assert!(text.contains("the dropped waiters are not put back"), "{text}");
    let script = desk.run(&[&release[..], &["--eval"]].concat()).out;
    assert!(script.contains("drop_waiter(KEYS[") && script.contains(B) && !script.contains(C), "{script}");
}

/// The script of a runbook may be run much later than it was printed.
#[test]
fn a_plan_leaves_alone_who_listens_by_the_time_it_is_performed() {
    let server = Server::start();
    fair(&server, &[B, C]);
    let desk = Desk::at(&server);
    let shown = json(&desk.run(&["release", "lock:fair", "--holder", A, "--dry-run", "--json"]));
    assert_eq!(shown["dropped"], json!([B, C]));
    let mut first = listen(&server, B);
    let id = shown["plan"].as_str().expect("a plan");
    let done = json(&desk.run(&["release", "--plan", id, "--yes", "--json"]));
    assert_eq!(
        (&done["dropped"], &done["stayed"], &done["overdue"]),
        (&json!([C]), &json!([B]), &json!(0)),
        "{done:#}"
    );
    assert_eq!(first.heard(&server), ["0"]);
    assert_eq!(queue(&server), both(&[B]));
    // What was done is on record as it was, not as it was meant.
    let audit = desk.run(&["audit", "--json"]).out;
    let last: Value = serde_json::from_str(audit.lines().last().expect("a line")).unwrap();
    assert_eq!((&last["dropped"], &last["stayed"]), (&json!([C]), &json!([B])), "{last:#}");
}

#[test]
fn an_undo_says_whom_it_does_not_put_back_into_the_queue() {
    let server = Server::start();
    fair(&server, &["late", B]);
    server.cli(&["ZADD", DEADLINES, "1", "late"]);
    let desk = Desk::at(&server);
    let _late = listen(&server, "late");
    let freed = desk.run(&["release", "lock:fair", "--holder", A, "--yes"]);
    assert!(freed.out.contains(&format!("dropped {B} from its queue; dropped 1 waiter whose deadline")), "{freed:?}");
    assert!(freed.out.contains("puts it back, without the dropped waiters"), "{freed:?}");
    let undone = desk.run(&["undo", "--yes", "--unwatched"]);
    let told = format!("not put back into its queue: {B}, and 1 waiter whose deadline had passed");
    assert!(undone.code == 0 && undone.out.contains(&told), "{undone:?}");
    assert!(server.ask::<bool, _>(&["HEXISTS", "lock:fair", A]));
    assert_eq!(queue(&server), both(&[]));
    // Nothing of the kind where nobody was dropped.
    fair(&server, &[]);
    assert_eq!(desk.run(&["release", "lock:fair", "--holder", A, "--yes"]).code, 0);
    let undone = json(&desk.run(&["undo", "--yes", "--unwatched", "--json"]));
    assert_eq!((&undone["dropped"], &undone["overdue"]), (&json!([]), &json!(0)), "{undone:#}");
}
