//! Values of options that have a syntax of their own.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

/// What kind of place a target is; production asks more before it lets anything happen.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Environment {
    #[value(alias = "production")]
    Prod,
    #[value(alias = "stage")]
    Staging,
    #[value(alias = "development")]
    Dev,
}

impl Environment {
    pub fn name(self) -> &'static str {
        match self {
            Environment::Prod => "prod",
            Environment::Staging => "staging",
            Environment::Dev => "dev",
        }
    }
}

/// `--as`: how a lock that we take is kept.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    Plain,
    Reentrant,
    Redlock,
}

/// `--on-lost`: what becomes of a command whose lock is lost.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLost {
    Kill,
    Warn,
}

/// `--pace`: the share of the server's time that scanning may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaceArg {
    Fast,
    Polite,
    /// 1 to 100.
    Percent(u8),
}

impl FromStr for PaceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<PaceArg, String> {
        match text {
            "fast" => return Ok(PaceArg::Fast),
            "polite" => return Ok(PaceArg::Polite),
            _ => {}
        }
        let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<u8>().ok());
        match percent {
            Some(percent @ 1..=100) => Ok(PaceArg::Percent(percent)),
            _ => Err("a pace is fast, polite, or a share from 1% to 100%".into()),
        }
    }
}

impl fmt::Display for PaceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaceArg::Fast => f.write_str("fast"),
            PaceArg::Polite => f.write_str("polite"),
            PaceArg::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What is longer is a slip, and no clock can be relied on to count that far.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A duration such as `500ms`, `30s`, `5m` or `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration > LONGEST => Err("a duration is 100 years at most".into()),
        Ok(duration) => Ok(duration),
        Err(_) => Err("a duration is written 500ms, 30s, 5m or 2h".into()),
    }
}
