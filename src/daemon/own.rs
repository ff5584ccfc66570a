//! The series that the daemon adds to the engine's: which lockscope this is, and what it costs.

use std::sync::Arc;

use super::process;
use crate::metrics::{MetricId, Moment};

const BUILD: MetricId = MetricId::of("lockscope_build_info");

/// Labels that stay the same.
pub struct Own {
    version: Arc<str>,
    revision: Arc<str>,
}

impl Default for Own {
    fn default() -> Own {
        Own::new()
    }
}

impl Own {
    pub fn new() -> Own {
        // "0.1.0 (dcb2780 2026-11-18)", or the bare number where the commit is not known.
        let (version, rest) = env!("LOCKSCOPE_VERSION").split_once(" (").unwrap_or((env!("CARGO_PKG_VERSION"), ""));
        let revision = rest.split([' ', ')']).next().filter(|revision| !revision.is_empty());
        Own { version: version.into(), revision: revision.unwrap_or("unknown").into() }
    }

    pub fn add(&self, moment: &mut Moment) {
        self.add_build(moment);
        process::add(moment);
    }

    /// That a lockscope runs, and which: without it a rule says that none does.
    pub fn add_build(&self, moment: &mut Moment) {
        moment.push(BUILD, &[&self.version, &self.revision], 1.0);
    }
}
