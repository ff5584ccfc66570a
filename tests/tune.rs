//! `lockscope tune` on a recorded hour: what is counted, what is told first, labels, and what is refused.

mod common;

use common::history::{TARGET, record};
use common::{Desk, Ran, process};
use serde_json::Value;

struct Scene {
    desk: Desk,
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let directory = process::temporary_directory();
        record(&directory.path().join("history"));
        // Nothing listens there: no server is asked.
        Scene { desk: Desk::with_url("redis://127.0.0.1:1"), directory }
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_string()
    }

    fn tune(&self, arguments: &[&str]) -> Ran {
        self.desk.run_bare(&[&["tune", "--store", &self.file("history")], arguments].concat())
    }

    fn rule(&self, arguments: &[&str]) -> Value {
        let ran = self.tune(&[&["--json", "--rule", "LockManyWaiters"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.json()["not_simulated"], serde_json::json!(["silences", "grouping", "inhibition"]));
        ran.json()["rules"][0].clone()
    }
}

#[test]
fn the_hour_fires_three_times_and_a_candidate_only_twice() {
    let scene = Scene::new();
    let rule = scene.rule(&["--set", "above=5"]);
    let (now, then) = (&rule["current"], &rule["candidate"]);
    assert_eq!((&now["above"], &now["for_ms"], &then["above"]), (&4.0.into(), &120_000.into(), &5.0.into()));
    assert_eq!((&now["firings"], &then["firings"]), (&3.into(), &2.into()), "{rule}");
    assert_eq!((&now["patterns"], &now["flaps"], &now["near_misses"]), (&1.into(), &0.into(), &1.into()), "{rule}");
    assert_eq!((&now["delay_ms"], &now["longest_delay_ms"]), (&120_000.into(), &120_000.into()));
    // Of 300, 240 and 360 seconds the first two minutes are pending.
    assert_eq!(now["firing_ms"], 540_000, "{now}");
    let episodes = rule["episodes"].as_array().unwrap();
    let what: Vec<_> = episodes.iter().map(|episode| episode["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["fires", "no longer fires", "nearly long enough", "fires"], "{episodes:#?}");
    assert_eq!(episodes[0]["peak"], 9.0);
    assert_eq!(episodes[0]["from"], "2025-11-13T06:10:00.000Z");
    assert_eq!(episodes[0]["fired"], "2025-11-13T06:12:00.000Z");
    assert_eq!(episodes[0]["to"], "2025-11-13T06:15:00.000Z");
    assert_eq!(episodes[0]["labels"]["pattern"], "order:*");
}

#[test]
fn coverage_and_gaps_come_first_and_too_little_of_it_suggests_nothing() {
    let scene = Scene::new();
    let rule = scene.rule(&[]);
    let coverage = &rule["coverage"];
    assert_eq!(coverage["gaps"][0]["why"], "lockscope did not run");
    let share = coverage["share"].as_f64().unwrap();
    assert!((0.96..0.97).contains(&share), "{coverage}");
    assert_eq!(coverage["evaluated_every_ms"], 5_000);
    // Nothing is labelled, so that the highest value for two minutes is taken for calm: 8, plus a tenth, rounded up.
    assert_eq!((&rule["suggestion"]["level"], &rule["suggestion"]["worst_value"]), (&9.0.into(), &8.0.into()));
    assert_eq!((&rule["suggestion"]["firings"], &rule["suggestion"]["firings_per_week"]), (&0.into(), &Value::Null));
    let text = scene.tune(&["--rule", "LockManyWaiters"]).out;
    let second = text.lines().nth(1).unwrap();
    assert!(second.contains("% covered, 1 gap; 59m58s from 2025-11-13 06:00:00Z to "), "{text}");
    assert!(text.contains("an hour") || text.contains("too short to say how many a week"), "{text}");
    let little = scene.rule(&["--from", "2025-11-13T00:00:00Z"]);
    assert_eq!(little["suggestion"], Value::Null);
    let why = little["no_suggestion"].as_str().unwrap();
    assert!(why.contains("only 13 % of the time is covered"), "{why}");
}

#[test]
fn labels_are_kept_and_three_of_them_give_precision_and_recall() {
    let scene = Scene::new();
    let two = scene.rule(&["--label", "2=real", "--label", "5=noise"]);
    assert_eq!((&two["labels"]["real"], &two["labels"]["noise"]), (&1.into(), &1.into()));
    assert_eq!(
        (&two["current"]["precision"], &two["current"]["recall"]),
        (&Value::Null, &Value::Null),
        "two are too few"
    );
    let three = scene.rule(&["--label", "10=real", "--set", "above=5"]);
    assert_eq!(three["current"]["precision"].as_f64(), Some(2.0 / 3.0), "{three}");
    assert_eq!((&three["current"]["recall"], &three["candidate"]["recall"]), (&1.0.into(), &1.0.into()));
    assert_eq!(three["candidate"]["precision"], 1.0);
    // Outside the real ones the highest that lasted is 5. With a margin the first real one would be lost.
    let suggestion = &three["suggestion"];
    assert_eq!((&suggestion["worst_value"], &suggestion["level"]), (&5.0.into(), &5.0.into()));
    assert_eq!(suggestion["margin"], false);
    assert_eq!((&three["suggestion"]["firings"], &three["suggestion"]["real_fired"]), (&2.into(), &2.into()));
    let taken_back = scene.rule(&["--label", "10=none"]);
    assert_eq!(taken_back["labels"]["real"], 1);
    let none = scene.tune(&["--rule", "LockManyWaiters", "--label", "9=real"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("there is no episode 9; the list ends with 2, 5, a, 10"), "{}", none.err);
}

#[test]
fn an_episode_has_one_number_wherever_it_is_told() {
    let scene = Scene::new();
    let rule = scene.rule(&["--set", "above=5"]);
    let named = |field: &str| -> Vec<Value> {
        rule["episodes"].as_array().unwrap().iter().map(|episode| episode[field].clone()).collect()
    };
    assert_eq!(named("name"), ["2", "5", "a", "10"], "{rule}");
    assert_eq!(named("number"), [2.into(), 5.into(), Value::Null, 10.into()], "the near miss fired for nobody");
    let info = scene.desk.run_bare(&["record", "--store", &scene.file("history"), "--info"]).out;
    let listed: Vec<&str> = info.lines().filter_map(|line| line.strip_prefix("episode")?.split(':').next()).collect();
    let listed: Vec<&str> = listed.into_iter().map(str::trim).collect();
    assert_eq!(listed, ["2", "5", "10"], "{info}");
    let out = scene.file("page");
    let store = scene.file("history");
    let ran = scene.desk.run_bare(&["bundle", "--episode", "5", "--store", &store, "--out", &out]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page: Value = serde_json::from_str(&std::fs::read_to_string(format!("{out}/incident.json")).unwrap()).unwrap();
    assert_eq!(
        (&page["episode"]["number"], &page["episode"]["active"]),
        (&5.into(), &rule["episodes"][1]["from"]),
        "{page}"
    );
}

#[test]
fn labels_that_no_threshold_tells_apart_get_no_suggestion() {
    let scene = Scene::new();
    // Its peak is 5; outside it the value was 8 for as long.
    let rule = scene.rule(&["--label", "5=real"]);
    assert_eq!(rule["suggestion"], Value::Null, "{rule}");
    let why = rule["no_suggestion"].as_str().unwrap();
    assert!(why.contains("no threshold tells the real episodes from the rest"), "{why}");
}

#[test]
fn a_spike_between_two_scrapes_is_missed_and_told() {
    let scene = Scene::new();
    let rule = scene.rule(&["--set", "above=10", "--set", "for=0s"]);
    let candidate = &rule["candidate"];
    assert_eq!(candidate["firings"], 1, "{candidate}");
    let missed = |at: usize| candidate["scraped"][at]["missed"].as_array().unwrap().len();
    assert_eq!(candidate["scraped"][1]["every_ms"], 60_000);
    assert_eq!((missed(0), missed(1)), (0, 0), "it began on the minute: {candidate}");
    let later = scene.rule(&["--set", "above=10", "--set", "for=5s"]);
    assert_eq!(later["candidate"]["firings"], 1);
    assert_eq!(later["candidate"]["scraped"][0]["missed"][0], "2025-11-13T06:50:00.000Z", "{later}");
}

#[test]
fn without_a_rule_all_are_listed_and_what_was_not_measured_is_no_calm() {
    let scene = Scene::new();
    let ran = scene.tune(&[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let row = |name: &str| ran.out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{}", ran.out));
    let words: Vec<&str> = row("LockManyWaiters").split_whitespace().collect();
    assert_eq!(words, ["LockManyWaiters", "page", ">", "4", "for", "2m", "3", "9m00s", "1", "0", "1", "9"]);
    assert!(row("LockSplit").contains('?'), "{}", ran.out);
    assert!(!row("LockscopeBlind").contains('?'), "{}", ran.out);
    assert!(ran.out.ends_with("not simulated: silences, grouping, inhibition\n"));
}

#[test]
fn what_makes_no_sense_is_one_sentence() {
    let scene = Scene::new();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let ran = scene.tune(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{}", ran.err);
        for part in parts {
            assert!(ran.err.contains(part), "{arguments:?}: {}", ran.err);
        }
    };
    let rule = ["--rule", "LockManyWaiters"];
    refused(
        &["--rule", "LockManyWaiter"],
        &["there is no rule \"LockManyWaiter\"", "did you mean \"LockManyWaiters\"?"],
    );
    refused(&["--rule", "Nonsense"], &["without --rule all of them are listed"]);
    refused(&["--set", "above=5"], &["--rule"]);
    refused(&[&rule[..], &["--set", "below=5"]].concat(), &["the rule has 'above' and not 'below'"]);
    refused(&[&rule[..], &["--set", "abov=5"]].concat(), &["did you mean \"above\"?"]);
    refused(&[&rule[..], &["--set", "above=lots"]].concat(), &["a number"]);
    refused(&[&rule[..], &["--set", "for=-3s"]].concat(), &["500ms, 30s"]);
    refused(&[&rule[..], &["--set", "recover=9"]].concat(), &["lower than above = 4"]);
    refused(&[&rule[..], &["--from", "yesterday"]].concat(), &["how long ago"]);
    refused(&["--from", "2h"], &["has nothing of that time", "2025-11-13T06:00:00"]);
    refused(&["-u", "redis://elsewhere:6379"], &["is the store of orders", "elsewhere"]);
    refused(&[&rule[..], &["--label", "1=maybe"]].concat(), &["3=real, 3=noise or 3=none"]);
    assert!(scene.file("history").ends_with("history") && TARGET == "orders");
    let missing = scene.desk.run_bare(&["tune", "--store", &scene.file("none")]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("there is no store"), "{}", missing.err);
}
