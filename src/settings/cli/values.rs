//! Values of options that have a syntax of their own.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::model::{Column, GroupBy};

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

/// `--scan-on`: where the names of keys are scanned.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanOn {
    Master,
    Replica,
}

/// What the demo starts.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DemoTopology {
    #[default]
    Standalone,
    Cluster,
    Sentinel,
}

impl ValueEnum for GroupBy {
    fn value_variants<'a>() -> &'a [GroupBy] {
        &GroupBy::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let value = PossibleValue::new(self.name());
        Some(match self {
            GroupBy::Pattern => value.help("Names that differ only in numbers and ids"),
            GroupBy::Holder => value.help("The process where tokens tell, else the token"),
            GroupBy::Library | GroupBy::Node => value,
        })
    }
}

impl ValueEnum for Column {
    fn value_variants<'a>() -> &'a [Column] {
        &Column::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        // The title in the table is understood too.
        let value = PossibleValue::new(self.name()).alias(self.title());
        Some(match self.order() {
            Some(order) => value.help(order),
            None => value,
        })
    }
}
