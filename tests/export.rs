//! `lockscope rules export`: the real promtool takes what it writes, and its tests hold and can fail.

mod common;
#[path = "crew/dice.rs"]
#[allow(dead_code)] // the crew throws them in more ways
mod dice;
#[path = "promtool/story.rs"]
#[allow(dead_code)] // a story for the comparison step by step
mod story;

use std::path::Path;
use std::time::Duration;

use common::promtool::{promtool, run};
use common::{Desk, Ran, process};
use lockscope::alerts::Rules;
use lockscope::base::time::Time;
use lockscope::metrics::{METRICS, Moment, Sample, dashboard};
use lockscope::store::{Keep, Recorder, Target, Ticks};
use story::{LENGTH, Story};

/// When the story begins: on the grid of evaluations.
const BEGIN: i64 = 1_763_000_010_000;

/// Records the story as a daemon would have seen it: a moment each second.
fn record(story: &Story, file: &Path) {
    let target = Target { name: "t".into(), server: String::new() };
    let mut recorder = Recorder::open(file, &target, Keep::default()).expect("a store");
    let mut scrape = None;
    for second in 0..LENGTH {
        if story.scrapes.get(scrape.map_or(0, |at| at + 1)).is_some_and(|next| next.at <= second) {
            scrape = Some(scrape.map_or(0, |at| at + 1));
        }
        let at = BEGIN + second * 1_000 + 300;
        let samples = story.series.iter().filter_map(|told| {
            let value = told.values[scrape?]?;
            // Values that are times count from the beginning of the story.
            let base = if told.series.metric.is_time() { BEGIN as f64 / 1_000.0 } else { 0.0 };
            Some(Sample { series: told.series.clone(), value: base + value })
        });
        let passed = Duration::from_millis(at as u64);
        let moment = Moment { at: Time(at), samples: samples.collect() };
        recorder.moment_at(moment, Ticks { wall: Time(at), awake: passed, asleep: passed });
        if second % 100 == 0 {
            recorder.settle();
        }
    }
    recorder.close().expect("a whole store");
}

struct Exported {
    folder: tempfile::TempDir,
    ran: Ran,
}

impl Exported {
    fn of(story: &Story) -> Exported {
        let folder = process::temporary_directory();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
        record(story, &folder.path().join("history"));
        std::fs::write(folder.path().join("rules.toml"), &story.rules).unwrap();
        let ran = Desk::with_url("redis://127.0.0.1:1").run_bare(&[
            "rules",
            "export",
            "--tests",
            "--store",
            &path("history"),
            "--rules",
            &path("rules.toml"),
            "--out",
            &path("out"),
        ]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        Exported { folder, ran }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("out").join(name)).unwrap()
    }

    /// What promtool says of the tests.
    fn tested(&self, program: &Path) -> (bool, String) {
        let output = run(program, &self.folder.path().join("out"), &["test", "rules", "lockscope.rules.test.yml"]);
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), told)
    }
}

#[test]
fn the_tests_of_a_recorded_incident_hold_in_promtool_and_fail_with_another_rule() {
    let Some(program) = promtool() else { return };
    let exported = Exported::of(&Story::of_troubles());
    let (holds, told) = exported.tested(&program);
    let test = exported.read("lockscope.rules.test.yml");
    assert!(holds, "{told}\n{test}");
    let rules = exported.read("lockscope.rules.yml");
    for rule in Rules::default_rules().iter() {
        assert!(
            test.contains(&format!("- name: '{} at ", rule.name)),
            "{} is not tested: {}",
            rule.name,
            exported.ran.err
        );
        // Without its rule the test of it fails: it asserts that something fires.
        let file = exported.folder.path().join("out/lockscope.rules.yml");
        std::fs::write(&file, rules.replacen(&format!("'{}'", rule.name), "'Renamed'", 1)).unwrap();
        assert!(!exported.tested(&program).0, "nothing asserts that {} fires", rule.name);
    }
}

#[test]
fn tests_of_random_rules_hold_in_promtool() {
    let Some(program) = promtool() else { return };
    let seed = std::env::var("LOCKSCOPE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11_u64);
    for seed in seed..seed + 3 {
        let exported = Exported::of(&Story::random(seed, 20));
        let test = exported.read("lockscope.rules.test.yml");
        let (holds, told) = exported.tested(&program);
        assert!(holds, "seed {seed}: {told}\n{}\n{test}", exported.read("lockscope.rules.yml"));
        assert!(test.matches("- name: ").count() >= 5, "seed {seed}: {test}");
    }
}

#[test]
fn what_was_exported_is_imported_again() {
    let folder = process::temporary_directory();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let desk = Desk::with_url("redis://127.0.0.1:1");
    for seed in 0..40 {
        let rules = if seed == 0 { String::new() } else { Story::random(seed, 20).rules };
        std::fs::write(path("rules.toml"), rules).unwrap();
        let yaml = desk.run_bare(&["rules", "export", "--rules", &path("rules.toml")]).out;
        std::fs::write(path("rules.yml"), &yaml).unwrap();
        let back = desk.run_bare(&["rules", "import", &path("rules.yml")]);
        assert_eq!((back.code, back.err.as_str()), (0, ""), "{yaml}");
        std::fs::write(path("back.toml"), &back.out).unwrap();
        let again = desk.run_bare(&["rules", "export", "--rules", &path("back.toml")]);
        assert_eq!(again.out, yaml, "seed {seed}: {}\n{}", again.err, back.out);
    }
}

#[test]
fn what_is_not_imported_is_named_and_the_rest_is_written() {
    let folder = process::temporary_directory();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let desk = Desk::with_url("redis://127.0.0.1:1");
    let good = "groups:\n- rules:\n  - alert: Good\n    expr: lockscope_up < 1\n    labels: {severity: page}\n";
    std::fs::write(path("mixed.yml"), format!("{good}  - alert: Bad\n    expr: up == 0\n")).unwrap();
    let ran = desk.run_bare(&["rules", "import", &path("mixed.yml")]);
    assert!(ran.code == 1 && ran.err.contains("line 6: Bad is not imported: '=='"), "{} {}", ran.code, ran.err);
    assert!(Rules::parse(&ran.out).unwrap().named("Good").is_some(), "{}", ran.out);
    std::fs::write(path("bad.yml"), "groups:\n- rules:\n  - alert: Bad\n    expr: up == 0\n").unwrap();
    std::fs::write(path("html.yml"), "<html>").unwrap();
    std::fs::write(path("binary.yml"), b"\xff\xfe").unwrap();
    for (file, code, part) in [
        ("bad.yml", 1, "nothing to import of 1 rule"),
        ("html.yml", 2, "no groups"),
        ("binary.yml", 2, "can't read"),
        ("missing.yml", 2, "can't read"),
    ] {
        let ran = desk.run_bare(&["rules", "import", &path(file)]);
        assert!(ran.code == code && ran.out.is_empty() && ran.err.contains(part), "{file}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn prometheus_takes_every_expression_of_the_dashboard_and_every_name_is_in_the_table() {
    let Some(program) = promtool() else { return };
    let mut file = "groups:\n  - name: dashboard\n    rules:\n".to_string();
    let mut count = 0;
    for expr in dashboard::expressions() {
        let expr = expr.replace("$__rate_interval", "5m");
        file += &format!("      - record: panel:{count}\n        expr: '{}'\n", expr.replace('\'', "''"));
        count += 1;
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("lockscope_") || word.starts_with("process_")) {
            let base = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(METRICS.iter().any(|metric| metric.name == base), "{name} in {expr}");
        }
    }
    let folder = process::temporary_directory();
    std::fs::write(folder.path().join("panels.yml"), file.replace("panel:", "panel")).unwrap();
    let output = run(&program, folder.path(), &["check", "rules", "panels.yml"]);
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && told.contains(&format!("{count} rules found")), "{told}");
}

#[test]
fn without_a_folder_the_rules_are_on_stdout_and_no_server_is_asked() {
    let ran = Desk::with_url("redis://127.0.0.1:1").run(&["rules", "export", "--format", "prometheus"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out, lockscope::alerts::exported(&Rules::default_rules(), "lockscope"));
}

#[test]
fn the_dashboard_is_written_beside_the_rules() {
    let folder = process::temporary_directory();
    let out = folder.path().join("new/folder");
    let ran = Desk::with_url("redis://127.0.0.1:1").run(&["rules", "export", "--out", out.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = std::fs::read_to_string(out.join("lockscope.dashboard.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = json["panels"].as_array().unwrap();
    let told: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|query| query["expr"].as_str().unwrap())
        .collect();
    assert_eq!(told, dashboard::expressions().collect::<Vec<_>>());
    // No panel covers another.
    for (index, one) in panels.iter().enumerate() {
        let place = |panel: &serde_json::Value| ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        let [x, y, w, h] = place(one);
        assert!(x + w <= 24);
        for other in &panels[..index] {
            let [ox, oy, ow, oh] = place(other);
            assert!(x + w <= ox || ox + ow <= x || y + h <= oy || oy + oh <= y, "{one} {other}");
        }
    }
    assert!(!out.join("lockscope.rules.test.yml").exists());
}

/// Fails where a field of the one is missing or another in the other.
fn has_all(one: &serde_json::Value, other: &serde_json::Value, place: &str) {
    match (one, other) {
        (serde_json::Value::Object(fields), serde_json::Value::Object(_)) => {
            fields.iter().for_each(|(name, value)| has_all(value, &other[name], &format!("{place}.{name}")));
        }
        (serde_json::Value::Array(items), serde_json::Value::Array(others)) => {
            assert_eq!(items.len(), others.len(), "{place}");
            let pairs = items.iter().zip(others).enumerate();
            pairs.for_each(|(at, (one, other))| has_all(one, other, &format!("{place}[{at}]")));
        }
        _ => assert_eq!(one, other, "{place}"),
    }
}

#[test]
fn grafanas_own_library_knows_every_field_of_the_dashboard() {
    let Some(mut loads) = common::library::alone("grafana_dashboard") else { return };
    let folder = process::temporary_directory();
    let out = folder.path().to_str().unwrap();
    let ran = Desk::with_url("redis://127.0.0.1:1").run(&["rules", "export", "--out", out]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = folder.path().join("lockscope.dashboard.json");
    let output = loads.arg(&file).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let known: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(written["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    has_all(&written, &known, "dashboard");
}

#[test]
fn what_can_not_be_exported_is_told_with_the_fix() {
    let folder = process::temporary_directory();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("file"), "x").unwrap();
    // One quiet minute.
    let quiet = Story { rules: String::new(), scrapes: Vec::new(), series: Vec::new() };
    record(&quiet, &folder.path().join("quiet"));
    std::fs::write(
        path("rules.toml"),
        "default_rules = false\n[[rules]]\nname = 'N'\nmetric = 'lockscope_waiters'\nabove = 1",
    )
    .unwrap();
    let (quiet, file, out, rules) = (&path("quiet"), &path("file"), &path("out"), &path("rules.toml"));
    let desk = Desk::with_url("redis://127.0.0.1:1");
    for (arguments, code, part) in [
        (&["--tests"][..], 2, "add --store FILE"),
        (&["--tests", "--store", quiet], 2, "add --out DIR"),
        (&["--store", quiet], 2, "add --tests"),
        (&["--tests", "--store", quiet, "--out", out, "--interval", "1s"], 2, "2s or longer"),
        (&["--tests", "--store", quiet, "--out", out, "--rules", rules], 1, "record longer"),
        (&["--tests", "--store", &path("missing"), "--out", out], 2, "missing"),
        (&["--tests", "--store", file, "--out", out], 3, "is damaged"),
        (&["--out", file], 2, "can't make"),
        (&["--format", "grafana"], 2, "prometheus"),
        (&["--rules", "/nowhere"], 2, "rules template"),
    ] {
        let ran = desk.run(&[&["rules", "export"], arguments].concat());
        assert!(ran.code == code && ran.err.contains(part), "{arguments:?}: {} {}", ran.code, ran.err);
        assert!(!Path::new(out).exists(), "{arguments:?} left something behind");
    }
}
