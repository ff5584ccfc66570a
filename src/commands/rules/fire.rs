//! `lockscope rules fire NAME --test`: a test alert on its whole way to the on-call.

use std::io::Write;

use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::nearest;
use crate::base::talk;
use crate::base::text::visible;
use crate::daemon::Receivers;
use crate::settings::Settings;
use crate::settings::cli::{Fire, Global};

pub async fn run(global: &Global, options: &Fire) -> Result<u8, Fault> {
    if !options.test {
        return Err(Fault::usage(
            "only tests can be fired by hand: add --test; real alerts come from 'serve' and 'record'",
        ));
    }
    let settings = Settings::load(global)?;
    let rules = settings.rules_of(options.rules.as_deref())?;
    let rule = rules.named(&options.name).ok_or_else(|| {
        let hint = nearest::hint(&options.name, rules.iter().map(|rule| rule.name.as_str()));
        Fault::usage(format!("there is no rule {:?}{hint}", options.name))
    })?;
    let receivers = Receivers::read(&settings.pager_with(&options.alertmanagers)?)?.ok_or_else(|| {
        Fault::usage(
            "nobody is told of alerts; add --alertmanager URL, or [pager] to the config ('lockscope config template')",
        )
    })?;
    let told = receivers.test(rule, Clock::start().now()).await;
    super::super::print(|out| {
        for (receiver, _) in told.iter().filter(|(_, sent)| sent.is_ok()) {
            writeln!(out, "{receiver} took the test alert {}", visible(rule.name.as_bytes()))?;
        }
        Ok(())
    })?;
    let mut failed = false;
    for (receiver, sent) in &told {
        if let Err(why) = sent {
            talk::say(&format!("{receiver} {why}"));
            failed = true;
        }
    }
    Ok(if failed { 3 } else { 0 })
}
