//! One of several holders is gone: the others keep the lock, and with it the share of the one who can't give it back.

use super::{Case, Lint};
use crate::model::verdict::cause::{Gone, until, who};
use crate::model::{Finding, State};

pub const LINT: Lint = Lint {
    name: "dead-holder",
    words: ("has a dead holder beside living ones", "have dead holders beside living ones"),
    said_by: &[State::Orphan],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let gone = || case.gone.iter().filter_map(|(index, gone)| Some((case.holders.get(*index)?, gone)));
    let (count, of) = (gone().count(), case.holders.len());
    let (first, how) = gone().next().filter(|_| count < of)?;
    let (how, confidence) = match how {
        Gone::Closed { connection, at, .. } => {
            (format!("whose connection {} closed {}", connection.address, case.ago(*at)), 0.8)
        }
        Gone::Silent(rhythm) => (until(rhythm, case.now), 0.6),
        Gone::Signs(signs) => (signs.sentence(), 0.6),
    };
    let are = if count == 1 { "is gone" } else { "are gone, one of them" };
    let who = who(Some(&first.token), None);
    Some(LINT.finding(format!("{count} of its {of} holders {are}: {who}, {how}"), confidence))
}
