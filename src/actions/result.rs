//! The first words of a result: what was done to which lock, what was not, and what is not known. Pure.
//!
//! The console and the commands say the same. What else happened follows it: [`Performed::aftermath`].

use super::perform::Performed;
use super::plan::{Action, Plan};
use crate::base::text::short_duration;

impl Performed {
    /// `freed lock:a`. `named`: with the name of the holder that lost its share.
    pub fn done(&self, plan: &Plan, named: bool) -> String {
        let key = &plan.key;
        match (&plan.action, plan.permits_words()) {
            (Action::Undo(_), Some(permits)) => format!("took {permits} back from {key}"),
            (Action::Undo(_), None) => format!("put {key} back"),
            (_, Some(permits)) => format!("gave {permits} back to {key}"),
            (Action::Free, None) => self.freed_share(plan, named).unwrap_or_else(|| format!("freed {key}")),
            (Action::Extend(ttl), None) => format!("extended {key} to {}", short_duration(ttl.as_millis() as u64)),
        }
    }
}

impl Plan {
    /// `lock:a was not freed: it has another holder now`. The key is named once.
    pub fn not_done(&self, why: &str) -> String {
        let (key, past) = (self.key.to_string(), self.past());
        if why.contains(&key) { format!("not {past}: {why}") } else { format!("{key} was not {past}: {why}") }
    }

    /// The same where the server did not say whether it was done.
    pub fn perhaps_done(&self, why: &str) -> String {
        format!("it is not known whether {} was {}: {why}", self.key, self.past())
    }

    fn past(&self) -> &'static str {
        match (&self.action, self.permits()) {
            (Action::Undo(_), Some(_)) | (Action::Free, Some(_)) => "changed",
            (Action::Free, None) => "freed",
            (Action::Extend(_), _) => "extended",
            (Action::Undo(_), None) => "put back",
        }
    }
}
