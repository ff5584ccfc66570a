//! `lockscope tune --prometheus URL`: the rules of a Prometheus, replayed over its own history.

use super::Progress;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::output::TextStyle;
use crate::output::tune::{self, own};
use crate::prometheus::Prometheus;
use crate::settings::Settings;
use crate::settings::cli::{Global, Tune};

pub async fn run(global: &Global, options: &Tune, url: &str) -> Result<u8, Fault> {
    let prometheus = Prometheus::of(global, options, url)?;
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
    let rules = prometheus.some_rules().await?;
    let Some(name) = &options.rule else {
        return super::super::print(|out| match options.json {
            true => own::write_json(out, prometheus.shown(), &rules),
            false => own::write(out, &rules, &style),
        });
    };
    let rule = prometheus.named(&rules, name)?;
    let mut progress = Progress::new(settings.talk);
    let told = |done, of| progress.show(name, done as usize, of as usize);
    let trial = prometheus.trial(rule, options, Clock::start().now(), told).await?;
    progress.clear();
    super::super::print(|out| match options.json {
        true => tune::json::write(out, prometheus.shown(), std::slice::from_ref(&trial), true),
        false => tune::write(out, &trial, &style),
    })
}
