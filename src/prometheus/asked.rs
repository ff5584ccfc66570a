//! What somebody asks of a Prometheus, by the options of `tune`: how it is reached, which rule is meant, which time.

use std::sync::Arc;
use std::time::Duration;

use super::{OwnRule, Prometheus, load};
use crate::alerts::Condition;
use crate::base::fault::Fault;
use crate::base::nearest;
use crate::base::text::counted;
use crate::base::time::Time;
use crate::http::{Access, Base, Client, Files};
use crate::settings::cli::{Global, Tune};
use crate::tune::{Change, Trial};

/// How far back it looks if nobody says.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

impl Prometheus {
    /// The one at that address, with the login and the certificates of the options.
    pub fn of(global: &Global, options: &Tune, url: &str) -> Result<Prometheus, Fault> {
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
        Ok(Prometheus::new(Client::new(base, Arc::new(Access::read(&files)?), options.timeout)))
    }

    /// All alerting rules; none at all is a mistake.
    pub async fn some_rules(&self) -> Result<Vec<OwnRule>, Fault> {
        let rules = self.rules().await?;
        match rules.is_empty() {
            true => Err(Fault::usage(format!(
                "{} has no alerting rules; 'lockscope rules export' writes some",
                self.shown()
            ))),
            false => Ok(rules),
        }
    }

    /// A rule over its history, as it is against what the options change. `progress` gets how much of how much is done.
    pub async fn trial(
        &self,
        rule: &OwnRule,
        options: &Tune,
        now: Time,
        progress: impl FnMut(u32, u32),
    ) -> Result<Trial, Fault> {
        let candidate = candidate(rule, options)?;
        let to = options.to.map_or(now, |when| when.at(now)).min(now);
        let from = options.from.map_or(to - WEEK, |when| when.at(now));
        if from >= to {
            return Err(Fault::usage("--from has to be before --to, and before now"));
        }
        let mut trial = Trial::new(load(self, rule, (from, to), progress).await?);
        trial.set(candidate);
        if trial.is_changed() {
            trial.suggest();
        }
        Ok(trial)
    }

    /// The one rule of that name.
    pub fn named<'a>(&self, rules: &'a [OwnRule], name: &str) -> Result<&'a OwnRule, Fault> {
        let shown = self.shown();
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
}

/// The rule with the changes of `--set`.
fn candidate(rule: &OwnRule, options: &Tune) -> Result<Condition, Fault> {
    let name = &rule.name;
    let condition = match &rule.tunable {
        Ok(tunable) => tunable.condition,
        Err(why) => {
            let query = rule.query.split_whitespace().collect::<Vec<_>>().join(" ");
            return Err(Fault::usage(format!("{name:?} can't be tuned: {why}; its expression is {query}")));
        }
    };
    let changes = options.set.iter().map(|text| Change::parse(text)).collect::<Result<Vec<_>, String>>();
    let candidate = changes.and_then(|changes| Change::all_of(&changes, condition));
    candidate.map_err(|why| Fault::usage(format!("--set: {why}")))
}
