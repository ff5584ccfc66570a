//! What freeing does to the waiters of a fair queue, in words for the preview and for the result: pure.
//!
//! Waiters that nobody listens for leave the queue, since those behind them would wait until their deadline. The script
//! asks once more whether anybody listens. No undo puts them back: they would hold up the others again.

use serde_json::{Map, Value};

use crate::base::json::{put, put_all};
use crate::dialects::{Release, Step};
use crate::lock::Token;

/// Name at most this many waiters in the warning; the commands beside it name all of them.
const NAMED: usize = 5;

/// What became of the waiters in a fair queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cleared {
    /// Taken out, since nobody listened for them.
    pub dropped: Vec<Token>,
    /// Seen without a listener before, and listening when it ran: left where they were.
    pub stayed: Vec<Token>,
    /// How many were taken out since their deadline had passed.
    pub overdue: u64,
    /// The first in the queue, if it was notified that it is its turn and nobody heard.
    pub deaf_head: Option<Token>,
}

impl Cleared {
    /// In clauses, each after a semicolon. `named`: by their ids, else by their number.
    pub fn describe(&self, named: bool) -> String {
        let mut text = String::new();
        if !self.dropped.is_empty() {
            text.push_str(&format!("; dropped {} from its queue", who(&self.dropped, named)));
        }
        if self.overdue > 0 {
            text.push_str(&format!("; dropped {} whose deadline had passed", count(self.overdue as usize)));
        }
        if !self.stayed.is_empty() {
            text.push_str(&format!("; kept {} in its queue, listening again", who(&self.stayed, named)));
        }
        if let Some(head) = &self.deaf_head {
            let who = who(std::slice::from_ref(head), named);
            text.push_str(&format!(
                "; nobody listens for {who}, the first in its queue: those behind it wait until its deadline"
            ));
        }
        text
    }

    /// How far an undo goes, as the end of a clause.
    pub fn undone(&self) -> &'static str {
        if self.dropped.is_empty() && self.overdue == 0 { "" } else { ", without the dropped waiters" }
    }

    /// For the audit file and the result.
    pub fn put_into(&self, record: &mut Map<String, Value>) {
        put_all(record, "dropped", self.dropped.iter().map(Token::as_bytes));
        put_all(record, "stayed", self.stayed.iter().map(Token::as_bytes));
        record.insert("overdue".into(), self.overdue.into());
        match &self.deaf_head {
            Some(head) => put(record, "deaf_head", head.as_bytes()),
            None => drop(record.insert("deaf_head".into(), Value::Null)),
        }
    }
}

/// The waiters that a release takes out of the queue.
pub(super) fn dropped_by(release: &Release) -> Vec<Token> {
    let waiter = |step: &Step| match step {
        Step::DropWaiter { waiter, .. } => Some(Token::from(&waiter[..])),
        _ => None,
    };
    release.steps.iter().filter_map(waiter).collect()
}

/// What to know before these are dropped.
pub(super) fn warning(dropped: &[Token]) -> Option<String> {
    (!dropped.is_empty()).then(|| {
        let (named, others) = dropped.split_at(dropped.len().min(NAMED));
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        let (who, them) = (who(named, true) + &more, if dropped.len() == 1 { "it" } else { "each of them" });
        format!("Nobody listens for {who}. This drops {them} from the queue, unless somebody listens again.")
    })
}

/// What an undo does not put back, as a clause.
pub(super) fn not_put_back(dropped: &[Token], overdue: u64, named: bool) -> Option<String> {
    let overdue = (overdue > 0).then(|| format!("{} whose deadline had passed", count(overdue as usize)));
    let dropped = (!dropped.is_empty()).then(|| who(dropped, named));
    let both: Vec<String> = dropped.into_iter().chain(overdue).collect();
    (!both.is_empty()).then(|| format!("not put back into its queue: {}", both.join(", and ")))
}

fn who(waiters: &[Token], named: bool) -> String {
    if !named {
        return count(waiters.len());
    }
    let names: Vec<String> = waiters.iter().map(|waiter| waiter.to_string()).collect();
    names.join(", ")
}

fn count(waiters: usize) -> String {
    if waiters == 1 { "1 waiter".into() } else { format!("{waiters} waiters") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiters(count: usize) -> Vec<Token> {
        (1..=count).map(|number| Token::from(format!("w{number}").as_bytes())).collect()
    }

    #[test]
    fn what_happened_in_the_queue_is_told_with_and_without_names() {
        let cleared = Cleared { dropped: waiters(2), stayed: waiters(1), overdue: 1, deaf_head: None };
        assert_eq!(
            cleared.describe(true),
            "; dropped w1, w2 from its queue; dropped 1 waiter whose deadline had passed; kept w1 in its queue, listening again"
        );
        assert!(cleared.describe(false).starts_with("; dropped 2 waiters from its queue;"));
        assert_eq!(Cleared::default().describe(true), "");
    }

    #[test]
    fn a_long_queue_does_not_fill_the_screen() {
        let sentence = warning(&waiters(50)).unwrap();
        assert!(sentence.contains("w1, w2, w3, w4, w5 and 45 more. "), "{sentence}");
        assert_eq!(warning(&[]), None);
        assert_eq!(not_put_back(&[], 0, true), None);
        assert!(not_put_back(&waiters(50), 0, true).unwrap().ends_with("w49, w50"), "nothing else names them");
        let sentence = not_put_back(&waiters(1), 2, true).unwrap();
        assert_eq!(sentence, "not put back into its queue: w1, and 2 waiters whose deadline had passed");
    }
}
