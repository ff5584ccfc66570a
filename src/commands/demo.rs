//! `lockscope demo`: the console, or a summary, on private servers with a simulated fleet.

use std::io::{self, BufWriter, Write};

use super::console;
use super::session::Session;
use crate::base::fault::{Fault, quiet_pipe};
use crate::demo::{self, Demo, DemoError, Options, Shape, Tempo};
use crate::settings::cli::{self, Global};

pub async fn run(global: &Global, options: &cli::Demo) -> Result<u8, Fault> {
    let stage = Options {
        server: options.server.clone(),
        shape: match options.topology {
            cli::DemoTopology::Standalone => Shape::Standalone,
            cli::DemoTopology::Cluster => Shape::Cluster,
            cli::DemoTopology::Sentinel => Shape::Sentinel,
        },
        seed: options.seed,
        for_: options.duration,
        headless: options.headless,
        tempo: Tempo::REAL,
    };
    if options.headless {
        let mut out = BufWriter::new(io::stdout().lock());
        let summary = demo::headless(&stage, &mut out).await?;
        quiet_pipe(out.flush())?;
        return Ok(summary.exit_code());
    }
    console::needs_a_terminal()?;
    let demo = Demo::open(&stage).await?;
    let session = Session::private(global, &demo.stage.url()).await?;
    let shown = console::Options { start: None, how_long: options.duration, sampled: Some(demo::DUTY) };
    let ended = console::run(session, shown).await;
    demo.fleet.stop().await;
    ended
}

impl From<DemoError> for Fault {
    fn from(why: DemoError) -> Fault {
        Fault::server(why.to_string())
    }
}
