//! `lockscope tune --prometheus URL`: the rules of a Prometheus, replayed over its own history.

use std::sync::Arc;
use std::time::Duration;

use super::Progress;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::nearest;
use crate::base::text::counted;
use crate::http::{Access, Base, Client, Files};
use crate::output::TextStyle;
use crate::output::tune::{self, own};
use crate::prometheus::{OwnRule, Prometheus, load};
use crate::settings::Settings;
use crate::settings::cli::{Global, Tune};
use crate::tune::{Change, Trial};

/// How far back it looks if nobody says.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

pub async fn run(global: &Global, options: &Tune, url: &str) -> Result<u8, Fault> {
    let files = Files {
        user: global.user.clone(),
        password_file: global.password_file.clone(),
        bearer_file: options.bearer_file.clone(),
        headers: options.headers.clone(),
        ca: global.tls_ca.clone(),
        cert: global.tls_cert.clone(),
        key: global.tls_key.clone(),
        insecure: global.insecure,
    };
    let base = Base::read(url, "--prometheus")?;
    let client = Client::new(base, Arc::new(Access::read(&files)?), options.timeout);
    // The options of the connection are those of the Prometheus: no Redis is asked.
    let settings = Settings::load(&Global {
        config: global.config.clone(),
        no_color: global.no_color,
        ascii: global.ascii,
        quiet: global.quiet,
        verbose: global.verbose,
        ..Global::default()
    })?;
    let style = TextStyle::of_stdout(settings.color, settings.ascii);
    let prometheus = Prometheus::new(client);
    let rules = prometheus.rules().await?;
    if rules.is_empty() {
        return Err(Fault::usage(format!(
            "{} has no alerting rules; 'lockscope rules export' writes some",
            prometheus.shown()
        )));
    }
    let Some(name) = &options.rule else {
        return super::super::print(|out| match options.json {
            true => own::write_json(out, prometheus.shown(), &rules),
            false => own::write(out, &rules, &style),
        });
    };
    let rule = named(&rules, name, prometheus.shown())?;
    let condition = match &rule.tunable {
        Ok(tunable) => tunable.condition,
        Err(why) => {
            return Err(Fault::usage(format!(
                "{name:?} can't be tuned: {why}; its expression is {}",
                one_line(&rule.query)
            )));
        }
    };
    let changes = options.set.iter().map(|text| Change::parse(text)).collect::<Result<Vec<_>, String>>();
    let candidate = changes.and_then(|changes| Change::all_of(&changes, condition));
    let candidate = candidate.map_err(|why| Fault::usage(format!("--set: {why}")))?;
    let now = Clock::start().now();
    let to = options.to.map_or(now, |when| when.at(now)).min(now);
    let from = options.from.map_or(to - WEEK, |when| when.at(now));
    if from >= to {
        return Err(Fault::usage("--from has to be before --to, and before now"));
    }
    let mut progress = Progress::new(settings.talk);
    let subject =
        load(&prometheus, rule, (from, to), |done, of| progress.show(name, done as usize, of as usize)).await?;
    progress.clear();
    let mut trial = Trial::new(subject);
    trial.set(candidate);
    if trial.is_changed() {
        trial.suggest();
    }
    super::super::print(|out| match options.json {
        true => tune::json::write(out, prometheus.shown(), std::slice::from_ref(&trial), true),
        false => tune::write(out, &trial, &style),
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn named<'a>(rules: &'a [OwnRule], name: &str, shown: &str) -> Result<&'a OwnRule, Fault> {
    let found: Vec<&OwnRule> = rules.iter().filter(|rule| rule.name == name).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let hint = nearest::hint(name, rules.iter().map(|rule| rule.name.as_str()));
            let hint = if hint.is_empty() { "; without --rule all of them are listed".into() } else { hint };
            Err(Fault::usage(format!("{shown} has no rule {name:?}{hint}")))
        }
        several => Err(Fault::usage(format!(
            "{shown} has {} named {name:?}, whose alerts can't be told apart; rename one of them",
            counted(several.len() as u64, "rule")
        ))),
    }
}
