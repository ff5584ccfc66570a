//! It goes on being renewed although the connection of its holder is closed.

use super::{Case, Lint};
use crate::model::{Beats, Finding};

pub const LINT: Lint = Lint {
    name: "renewed-by-nobody-known",
    words: ("is renewed by nobody known", "are renewed by nobody known"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let connection = case.connection?;
    let closed = connection.closed.filter(|_| case.is_worked_under())?;
    let renewed = case.lock.beats().and_then(Beats::last).filter(|last| *last > closed)?;
    let (renewed, closed) = (case.ago(renewed), case.ago(closed));
    let sentence = format!("renewed {renewed}, though its holder's connection {} closed {closed}", connection.address);
    Some(Finding { settle: Some("a burst of MONITOR would show who renews it".into()), ..LINT.finding(sentence, 0.6) })
}
