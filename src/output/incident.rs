//! The incident of one lock or of one firing alert: what it is, why it is in trouble, who holds it, who waits, what was done.
//!
//! The words are written once, here: the console copies them as text, and the page for the post-mortem shows the same. A
//! [`Bundle`] is that page and its JSON.

mod bundle;
mod files;
mod html;
mod page;
mod picture;
mod recorded;
mod redact;

pub use bundle::Bundle;
pub use files::{folder_name, write as write_files};
pub use recorded::Recorded;

use std::borrow::Cow;

use super::{FREE_IT, columns};
use crate::base::shell::quoted;
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::lock::Token;
use crate::model::{LockView, Notable, Presence, Safe, State, What};
use crate::sources::waiters::Waiters;

/// What is told of a lock.
pub struct Account<'a> {
    pub lock: &'a LockView,
    /// What mattered to it, oldest first.
    pub story: &'a [Notable],
    /// The target's name, or its address without a password.
    pub target: &'a str,
    pub environment: Option<&'a str>,
    /// The name of its node.
    pub node: Cow<'a, str>,
    /// Who waits, if it was looked at closely.
    pub waiters: Option<Waiters>,
    /// The options that lead a command to the same server.
    pub again: &'a str,
    pub at: Time,
}

impl Account<'_> {
    /// The lock, where it is, and its state.
    pub fn headline(&self) -> String {
        let environment = self.environment.map(|environment| format!(" ({environment})")).unwrap_or_default();
        let told = self.node.is_empty() || self.target.contains(&*self.node);
        let at = if told { String::new() } else { format!(" at {}", self.node) };
        format!("{} on {}{at}{environment}: {}", self.lock.key, self.target, self.lock.state_words())
    }

    /// One fact a line, with at most so many entries of its story. `token`: how tokens are written.
    pub fn lines(&self, most: usize, token: &dyn Fn(&str) -> String) -> Vec<String> {
        let mut lines = self.facts(token);
        for entry in self.story.iter().skip(self.story.len().saturating_sub(most)) {
            let named = |named: &Token| token(&named.to_string());
            let (headline, sentence) = (entry.what.headline("→"), entry.what.sentence(named));
            lines.push(format!("{} {headline}: {sentence}", entry.at.rfc3339()));
        }
        if !self.story.iter().any(|entry| matches!(entry.what, What::Wrote { .. })) {
            lines.push("done from here: nothing".into());
        }
        lines.push(self.look());
        lines
    }

    /// The command that shows it: one look knows neither ages nor renewals.
    pub fn look(&self) -> String {
        format!("look: lockscope show {} --observe 15s{}", quoted(&self.lock.key.to_string()), self.again)
    }

    /// The same without its story: what it is, why, who holds it, who waits, and whether it is safe to free.
    pub fn facts(&self, token: &dyn Fn(&str) -> String) -> Vec<String> {
        let lock = self.lock;
        let mut lines = vec![self.headline(), format!("as of {}, {}", self.at.rfc3339(), columns::library(lock))];
        let evidence = lock.verdict.evidence.join("; ");
        lines.extend((!evidence.is_empty()).then(|| format!("why: {evidence}")));
        lines.extend(lock.findings.iter().map(|finding| format!("finding {}: {}", finding.name, finding.sentence)));
        lines.extend(self.holders(token));
        let mut safe = Safe::of(lock);
        safe.waiting = self.waiters.as_ref().map_or(safe.waiting, Waiters::in_short);
        let waiters = self.waiters.as_ref().map_or_else(|| safe.waiting.clone(), Waiters::describe);
        lines.push(format!("waiters: {}", waiters.strip_prefix("waiters ").unwrap_or(&waiters)));
        lines.push(format!("{FREE_IT} {}", safe.short()));
        lines
    }

    fn holders(&self, token: &dyn Fn(&str) -> String) -> Vec<String> {
        let lock = self.lock;
        if lock.verdict.state == State::Free {
            return Vec::new();
        }
        let ends = match (lock.ttl.remaining(), lock.lease_words()) {
            (None, _) => "never expires".into(),
            (Some(left), None) => format!("{} left", short_duration(left.as_millis() as u64)),
            (Some(left), Some(lease)) => format!("{} left of {lease}", short_duration(left.as_millis() as u64)),
        };
        let held = lock.held_ms.map_or("an unknown time".into(), |_| columns::held(lock));
        let mut lines = Vec::new();
        for (index, holder) in lock.holders.iter().enumerate() {
            lines.push(format!("held by {} for {held}; {ends}", token(&holder.token.to_string())));
            let presence = lock.presence.get(index).filter(|presence| !matches!(presence, Presence::Unknown));
            lines.extend(presence.map(|presence| format!("client: {}", presence.describe(lock.at))));
        }
        if lines.is_empty() {
            lines.push(format!("held by nobody that is known, for {held}; {ends}"));
        }
        lines
    }
}
