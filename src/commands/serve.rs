//! `lockscope serve`: the daemon with a port that Prometheus scrapes.

use super::record::{self, Outlets};
use super::session::Session;
use crate::base::fault::Fault;
use crate::daemon::{Address, Protection};
use crate::settings::cli::{Global, Serve};

pub async fn run(global: &Global, options: &Serve) -> Result<u8, Fault> {
    // What is wrong with the command line is told before anything connects.
    let address = Address::read(&options.listen, options.public || options.auth_file.is_some())?;
    let certificate = options.listen_cert.as_deref().zip(options.listen_key.as_deref());
    let protection = Protection::read(options.auth_file.as_deref(), certificate)?;
    let rules = record::rules(global, &options.watching)?;
    let receivers = record::receivers(global, &options.watching)?;
    let listener = address.bind()?;
    let session = Session::open(global).await?;
    if address.is_public() && protection.is_readable() {
        session.say("the password travels in the clear: --listen-cert and --listen-key encrypt it");
    }
    let outlets = Outlets { store: options.store.clone(), port: Some((listener, protection)), receivers };
    record::follow(&session, &options.watching, rules, outlets).await
}
