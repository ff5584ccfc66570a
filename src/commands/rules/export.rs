//! `lockscope rules export`: the rules as Prometheus evaluates them, a test of them, and a dashboard.

use std::io::Write;
use std::path::Path;

use super::cut;
use crate::alerts::{Rules, exported, test_file};
use crate::base::fault::Fault;
use crate::base::talk;
use crate::metrics::dashboard::dashboard;
use crate::settings::cli::{Export, Global};
use crate::settings::{Settings, Talk};
use crate::store::History;

/// The names of what is written.
const RULES: &str = "lockscope.rules.yml";
const TEST: &str = "lockscope.rules.test.yml";
const DASHBOARD: &str = "lockscope.dashboard.json";
/// The group of the rules in Prometheus.
const GROUP: &str = "lockscope";

pub fn run(global: &Global, options: &Export) -> Result<u8, Fault> {
    let store = match (options.tests, &options.store, &options.out) {
        (true, None, _) => {
            return Err(Fault::usage("--tests cuts its tests out of a recorded history; add --store FILE"));
        }
        (true, _, None) => return Err(Fault::usage("--tests writes a second file; add --out DIR for both")),
        (false, Some(_), _) => {
            return Err(Fault::usage("--store is read for tests only; add --tests, or leave it out"));
        }
        (_, store, _) => store.as_deref(),
    };
    let settings = Settings::load(global)?;
    let rules = settings.rules_of(options.rules.as_deref())?;
    let say = |sentence: &str| {
        if settings.talk > Talk::Quiet {
            talk::say(sentence);
        }
    };
    let Some(folder) = &options.out else {
        return super::super::print(|out| out.write_all(exported(&rules, GROUP).as_bytes()));
    };
    // Everything that can go wrong comes before the first file.
    let test = store.map(|store| tests(store, &rules, options, &say)).transpose()?;
    std::fs::create_dir_all(folder).map_err(|why| Fault::usage(format!("can't make {}: {why}", folder.display())))?;
    write(folder, RULES, &exported(&rules, GROUP), &say)?;
    let json = serde_json::to_string_pretty(&dashboard()).expect("a document of our own");
    write(folder, DASHBOARD, &format!("{json}\n"), &say)?;
    if let Some(test) = test {
        write(folder, TEST, &test, &say)?;
    }
    Ok(0)
}

fn tests(store: &Path, rules: &Rules, options: &Export, say: &dyn Fn(&str)) -> Result<String, Fault> {
    let interval = options.interval;
    if interval.subsec_nanos() != 0 || interval.as_secs() < 2 {
        return Err(Fault::usage("--interval is a whole number of seconds, 2s or longer"));
    }
    rules.check_windows(interval)?;
    let history = History::open(store)?;
    let (episodes, silent) = cut::episodes(&history, rules, interval)?;
    for (rule, why) in silent {
        say(&format!("{rule}: no test, {why}"));
    }
    if episodes.is_empty() {
        return Err(Fault::finding(format!(
            "none of the rules fires in {}: there is nothing to cut a test from; leave out --tests, or record longer",
            store.display()
        )));
    }
    Ok(test_file(RULES, interval, &episodes))
}

fn write(folder: &Path, name: &str, text: &str, say: &dyn Fn(&str)) -> Result<(), Fault> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|why| Fault::usage(format!("can't write {}: {why}", path.display())))?;
    say(&format!("wrote {}", path.display()));
    Ok(())
}
