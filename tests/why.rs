//! `show --why` on a real server: the derivation of a verdict, for a lock that is renewed, whose holder was killed, whose
//! renewals stall, without an end, gone, and seen for the first time. And whether it is called safe to free.

mod common;

use std::process::Child;
use std::time::{Duration, Instant};

use common::{Desk, Ran, Server, wait_until};
use serde_json::Value;

const KEY: &str = "lock:order:1";
const REDISSON: &str = "7c1e3d52-1f0a-4c9b-8d6e-2b9f4a1c0e77:57";

/// Starts `show --why` with this time to watch, and waits until it hears of changes and has read the lock.
fn watching(server: &Server, desk: &Desk, observe: &str, more: &[&str]) -> Child {
    let child = desk.start(&[&["show", KEY, "--why", "--observe", observe], more].concat());
    let listens = || {
        let (patterns, channels): (i64, Vec<String>) =
            (server.ask(&["PUBSUB", "NUMPAT"]), server.ask(&["PUBSUB", "CHANNELS"]));
        patterns > 0 || !channels.is_empty()
    };
    wait_until("it listens", Duration::from_secs(20), listens);
    let has_read = || server.ask::<String, _>(&["INFO", "commandstats"]).contains("cmdstat_pttl:");
    wait_until("it has read the lock", Duration::from_secs(20), has_read);
    child
}

fn ended(child: Child) -> Ran {
    Ran::of(child.wait_with_output().expect("it ends"))
}

/// Renews the lock so many times, at this distance.
fn renew(server: &Server, times: u32, every: Duration) {
    let begun = Instant::now();
    for beat in 1..=times {
        let due = begun + every * beat;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        server.cli(&["PEXPIRE", KEY, "60000"]);
    }
}

fn take(server: &Server) {
    server.cli(&["HSET", KEY, REDISSON, "1"]);
    server.cli(&["PEXPIRE", KEY, "60000"]);
}

/// The lines below a question, the question first.
fn below<'a>(out: &'a str, question: &str) -> Vec<&'a str> {
    let mut lines = out.lines().skip_while(|line| !line.contains(question));
    let first = lines.next().unwrap_or_else(|| panic!("{question} is not asked:\n{out}"));
    let is_below = |line: &&str| !line.starts_with("├─") && !line.starts_with("└─") && !line.starts_with("  free it?");
    [first].into_iter().chain(lines.take_while(is_below)).collect()
}

/// That the answer to the question is this, and that each of these words is below it.
#[track_caller]
fn answers(ran: &Ran, question: &str, answer: &str, words: &[&str]) {
    let lines = below(&ran.out, question);
    assert!(lines[0].contains(&format!("{question} {answer}")), "{}", ran.out);
    let text = lines.join("\n");
    for word in words {
        assert!(text.contains(word), "{word} is not below {question}\n{}", ran.out);
    }
}

#[test]
fn a_lock_that_is_renewed_is_derived_from_its_renewals() {
    let server = Server::notifying(&[]);
    let desk = Desk::at(&server);
    take(&server);
    let shown = watching(&server, &desk, "4s", &[]);
    renew(&server, 12, Duration::from_millis(500));
    let ran = ended(shown);
    assert!(ran.out.starts_with(&format!("{KEY}  HELD (certain)\n")), "{}", ran.out);
    answers(&ran, "Is it held?", "Yes (certain). The verdict follows from this.", &["(a hash) and names 1 holder"]);
    answers(
        &ran,
        "Does its holder live?",
        "Yes (likely)",
        &["for      renewed", "[notification, ", "unknown  which client"],
    );
    answers(&ran, "Does it end by itself?", "Yes (certain)", &["each renewal extends it"]);
    let line = ran.out.lines().last().unwrap_or_default();
    assert!(line.starts_with("  free it? no; ask the owner: it is renewing. HELD (certain), renewed "), "{}", ran.out);
}

#[test]
fn a_killed_holder_is_derived_from_its_silence_and_freeing_is_advised() {
    let server = Server::notifying(&[]);
    let desk = Desk::at(&server);
    take(&server);
    let shown = watching(&server, &desk, "7s", &[]);
    renew(&server, 6, Duration::from_millis(400));
    let ran = ended(shown);
    assert!(ran.out.starts_with(&format!("{KEY}  ORPHAN (likely)\n")), "{}", ran.out);
    let words =
        ["The verdict follows from this.", "against  ", "renewals are missing: silent for", "sample with MONITOR"];
    answers(&ran, "Does its holder live?", "No (likely)", &words);
    let line = ran.out.lines().last().unwrap_or_default();
    assert!(line.starts_with("  free it? yes; free it. ORPHAN (likely), silent for "), "{}", ran.out);
    assert!(line.contains("IllegalMonitorStateException"), "{}", ran.out);
}

#[test]
fn a_stalled_lock_is_derived_as_not_known() {
    let server = Server::notifying(&[]);
    let desk = Desk::at(&server);
    take(&server);
    // The last renewal is followed by a silence of one period and a bit, whenever the watching began.
    let shown = watching(&server, &desk, "14s", &["--json"]);
    let begun = Instant::now();
    renew(&server, 3, Duration::from_millis(3_000));
    let quiet = Duration::from_secs(14).saturating_sub(begun.elapsed());
    assert!(quiet > Duration::from_millis(4_600), "the machine is too slow for this test: {quiet:?}");
    let document = ended(shown).json();
    assert_eq!((&document["state"], &document["renewals"]["missed"]), (&"stalled".into(), &1.into()), "{document}");
    let lives = question(&document, "holder-lives");
    assert_eq!(
        (&lives["answer"], &lives["certainty"], &lives["decides"]),
        (&"not known".into(), &Value::Null, &true.into())
    );
    let missing = lives["evidence"].as_array().unwrap().iter().find(|one| one["says"] == "against").expect("a fact");
    assert!(missing["sentence"].as_str().unwrap().starts_with("1 renewal is missing: silent for"), "{missing}");
    assert_eq!(missing["source"], "notification");
    assert_eq!(document["safe_to_free"]["advice"], "settle", "{document}");
}

fn question<'a>(document: &'a Value, about: &str) -> &'a Value {
    let questions = document["why"]["questions"].as_array().expect("questions");
    questions.iter().find(|question| question["about"] == about).expect("the question")
}

#[test]
fn a_lock_without_an_end_is_derived_from_its_missing_ttl() {
    let server = Server::start();
    server.cli(&["HSET", KEY, REDISSON, "1"]);
    let desk = Desk::at(&server);
    let ran = desk.run(&["show", KEY, "--why"]);
    assert!(ran.out.starts_with(&format!("{KEY}  NO-TTL (certain)\n")), "{}", ran.out);
    let words = ["The verdict follows from this.", "against  it has no TTL [read, "];
    answers(&ran, "Does it end by itself?", "No (certain)", &words);
    assert!(ran.out.contains("free it? not yet; give it a TTL first"), "{}", ran.out);
    let dry = desk.run(&["release", KEY, "--holder", REDISSON, "--dry-run", "--json"]).json();
    assert_eq!(
        (&dry["safe_to_free"]["answer"], &dry["safe_to_free"]["advice"]),
        (&"not yet".into(), &"give-ttl".into())
    );
    let text = desk.run(&["release", KEY, "--holder", REDISSON, "--dry-run"]).out;
    assert!(text.contains("  free it?  not yet; give it a TTL first"), "{text}");
}

#[test]
fn a_lock_that_goes_while_it_is_watched_is_derived_from_how_it_ended() {
    let server = Server::notifying(&[]);
    let desk = Desk::at(&server);
    take(&server);
    let shown = watching(&server, &desk, "3s", &[]);
    server.cli(&["DEL", KEY]);
    let ran = ended(shown);
    assert!(ran.out.starts_with(&format!("{KEY}  FREE (certain)\n")), "{}", ran.out);
    answers(&ran, "Is it held?", "No (certain)", &["against  its last hold ended: released after", "[notification, "]);
    assert!(!ran.out.contains("Does its holder live?"), "nobody holds it:\n{}", ran.out);
    assert!(ran.out.contains("  free it? no; nobody holds it."), "{}", ran.out);
}

#[test]
fn at_the_first_look_the_tree_says_what_would_settle_it() {
    let server = Server::start();
    take(&server);
    let desk = Desk::at(&server);
    let ran = desk.run(&["show", KEY, "--why"]);
    let words = [
        "unknown  how often it is renewed: it was not watched long enough; to settle it: watch it for ",
        "unknown  which client holds it; to settle it: sample with MONITOR",
    ];
    answers(&ran, "Does its holder live?", "Not known", &words);
    assert!(ran.out.contains("  free it? not known; watch it for "), "{}", ran.out);
    let plain = desk.run(&["show", KEY, "--json"]).json();
    assert_eq!(plain.get("why"), None, "only where it is asked for");
    let again = desk.run(&["show", KEY, "--why", "--json"]).json();
    assert_eq!(question(&again, "held")["answer"], "yes");
}
