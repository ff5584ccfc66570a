//! It goes on being renewed although its holder, who kept a connection, has none any more.

use super::{Case, Lint};
use crate::model::wants::client::Kept;
use crate::model::wants::instance::{Doubt, Standing};
use crate::model::{Beats, Finding};

pub const LINT: Lint = Lint {
    name: "renewed-by-nobody-known",
    words: ("is renewed by nobody known", "are renewed by nobody known"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let Standing::Closed(closed) = case.standing else { return None };
    // A pool closes connections and opens others: then it is the holder who renews.
    let pooled = closed.peers || closed.spoke_since || closed.doubt == Some(Doubt::Unlisted);
    if pooled || closed.kept != Kept::Used || !case.has_one_worker() {
        return None;
    }
    let renewed = case.lock.beats().and_then(Beats::last).filter(|last| *last > closed.at)?;
    let (renewed, ago, address) = (case.ago(renewed), case.ago(closed.at), &closed.connection.address);
    let sentence =
        format!("renewed {renewed}, though its holder's connection {address} closed {ago} and no other was opened");
    Some(Finding { settle: Some("sample with MONITOR: it shows who renews it".into()), ..LINT.finding(sentence, 0.6) })
}
