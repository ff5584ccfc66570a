//! Our evaluation of alert rules is that of Prometheus: random rules and series, compared with promtool after every step.
//!
//! `LOCKSCOPE_RULES=500` compares more of them, and `LOCKSCOPE_PROMTOOL=PATH` takes another version.

mod common;
#[path = "promtool/compared.rs"]
mod compared;
#[path = "crew/dice.rs"]
#[allow(dead_code)] // the crew throws them in more ways
mod dice;
#[path = "promtool/story.rs"]
mod story;

use std::collections::BTreeSet;

use common::promtool::{promtool, run, version};
use compared::{live, promtool_agrees, replayed};
use lockscope::alerts::{DEFAULT_RULES, Rules, exported};
use story::Story;

/// Rules in one file of promtool.
const TOGETHER: usize = 20;

#[test]
fn random_rules_fire_when_promtool_says() {
    let Some(program) = promtool() else { return };
    let version = version(&program);
    let wanted = std::env::var("LOCKSCOPE_RULES").ok().and_then(|count| count.parse().ok()).unwrap_or(60_usize);
    let seed = std::env::var("LOCKSCOPE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    let (mut steps, mut alerts, mut wrong) = (0, 0, Vec::new());
    for batch in 0..wanted.div_ceil(TOGETHER) as u64 {
        let story = Story::random(seed.wrapping_mul(1_000).wrapping_add(batch), TOGETHER);
        let (course, changes) = live(&story, version);
        assert!(replayed(&story, version) == changes, "batch {batch}: replay and live watching differ");
        steps += course.len() * TOGETHER;
        alerts += course.iter().map(|seen| seen.len()).sum::<usize>();
        if let Err(why) = promtool_agrees(&program, &story, &course) {
            wrong.push(format!("batch {batch} of seed {seed}:\n{}\n{why}", story.rules));
        }
    }
    eprintln!(
        "{wanted} rules, {steps} steps with {alerts} alerts compared, {} batches differ ({version:?})",
        wrong.len()
    );
    assert!(alerts * 20 > steps, "only {alerts} alerts in {steps} steps: the comparison says little");
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[cfg(debug_assertions)]
#[test]
fn a_wrong_evaluator_is_noticed() {
    use lockscope::alerts::mutation::{Mutation, mutate};
    let Some(program) = promtool() else { return };
    let version = version(&program);
    for wrong in Mutation::ALL {
        let differs = |seed: u64| {
            let story = Story::random(7_000 + seed, TOGETHER);
            mutate(Some(wrong));
            let (course, _) = live(&story, version);
            mutate(None);
            promtool_agrees(&program, &story, &course).is_err()
        };
        assert!((0..3).any(differs), "{wrong:?} was not noticed in {} rules", 3 * TOGETHER);
    }
}

#[test]
fn each_default_rule_fires_when_promtool_says() {
    let Some(program) = promtool() else { return };
    let version = version(&program);
    let story = Story::of_troubles();
    let (course, changes) = live(&story, version);
    assert!(replayed(&story, version) == changes, "replay and live watching differ");
    promtool_agrees(&program, &story, &course).unwrap_or_else(|why| panic!("{why}"));
    let fired: BTreeSet<&str> =
        course.iter().flatten().filter(|alert| alert.state == "firing").map(|alert| alert.rule.as_str()).collect();
    let rules = Rules::default_rules();
    let silent: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).filter(|name| !fired.contains(name)).collect();
    assert!(silent.is_empty(), "these never fired: {silent:?}");
}

#[test]
fn prometheus_takes_the_default_rules_and_any_name() {
    let Some(program) = promtool() else { return };
    let nasty = r#"
        [[rules]]
        name = """it's "quoted" \\ and {{ .braced }} 锁"""
        metric = "lockscope_locks"
        selector = 'key:"a""b\c$(x)|*[é]" state:split'
        above = 1e-7
        recover = -3
        note = "several\nlines with ' and \" and {{ $labels.pattern }} }}"
        [[rules]]
        name = "off: true # no comment"
        metric = "lockscope_waiters"
        by = []
        below = 1
        recover = 2
        for = "1m30s"
        no_data = "alert"
    "#;
    for (name, text, count) in [("default.yml", DEFAULT_RULES, 15), ("nasty.yml", nasty, 18)] {
        let rules = Rules::parse(text).unwrap_or_else(|fault| panic!("{fault}"));
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(name), exported(&rules, "it's")).expect("a file");
        let output = run(&program, folder.path(), &["check", "rules", name]);
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(
            output.status.success() && told.contains(&format!("{count} rules found")),
            "{told}\n{}",
            exported(&rules, "")
        );
    }
}
