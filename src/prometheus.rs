//! The user's own Prometheus: its rules, and their history, by its HTTP API.
//!
//! It fills what the tuner replays, and what it recorded itself, for comparison. It only reads. Every answer that is not one of
//! a Prometheus is told in a sentence with the fix.

mod answer;
mod asked;
mod history;
mod rules;

use std::time::Duration;

use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::http::{Body, Client};
pub use history::load;
pub use rules::{OwnRule, Tunable};

/// A Prometheus that answers.
#[derive(Clone, Debug)]
pub struct Prometheus {
    client: Client,
}

/// Times that are asked for, one every step.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: Time,
    to: Time,
    step: Duration,
}

impl Prometheus {
    pub fn new(client: Client) -> Prometheus {
        Prometheus { client }
    }

    /// The address without secrets.
    pub fn shown(&self) -> &str {
        self.client.shown()
    }

    async fn ask(&self, path: &str, pairs: &[(&str, &str)]) -> Result<Vec<u8>, Fault> {
        let body = match pairs {
            [] => Body::None,
            _ => Body::Form(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()),
        };
        let shown = self.shown();
        let answer = self.client.send(path, body).await.map_err(|trouble| {
            let told = format!("{shown} {}", trouble.sentence());
            match trouble {
                crate::http::Trouble::NotTls | crate::http::Trouble::NotHttp => Fault::usage(told),
                crate::http::Trouble::Large => {
                    Fault::usage(format!("{told}: choose a shorter time with --from and --to"))
                }
                _ => Fault::server(told),
            }
        })?;
        answer::checked(answer, shown)
    }

    /// The values of an expression at these times, as text.
    async fn range(&self, query: &str, range: Range) -> Result<Vec<u8>, Fault> {
        let (from, to) = (seconds(range.from), seconds(range.to));
        let step = range.step.as_secs_f64().to_string();
        // VictoriaMetrics moves the times to a grid of its own unless told not to.
        let pairs = [("query", query), ("start", &from), ("end", &to), ("step", &step), ("nocache", "1")];
        self.ask("/api/v1/query_range", &pairs).await
    }
}

fn seconds(at: Time) -> String {
    format!("{}.{:03}", at.0.div_euclid(1_000), at.0.rem_euclid(1_000))
}
