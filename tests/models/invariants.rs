//! What must hold after each write of lockscope, and what nobody could tell apart.

use std::time::Duration;

use lockscope::model::LockView;

use super::snapshot::{SLACK_MS, same_moment};
use super::{Held, Hold, Ledger, Library, Mode, Proof, Snapshot, Subject};

/// A release that was done, and can be undone.
pub struct Freed {
    pub id: String,
    pub holds: Vec<Hold>,
    /// Who has held it since, so that the one who was freed could not have.
    pub taken: Option<String>,
}

impl Freed {
    pub fn note(&mut self, library: &dyn Library, hold: &Hold) {
        if self.taken.is_none() && self.holds.iter().any(|freed| library.excludes(freed, hold)) {
            self.taken = Some(hold.name());
        }
    }
}

/// Why a hold that was not the one shown could not be told from it by anybody.
fn cannot_be_told(subject: &Subject, shown: &Hold, now: &Hold) -> Option<&'static str> {
    let same = shown.key == now.key && shown.token == now.token && shown.mode == now.mode;
    match subject.proof {
        _ if !same => None,
        // Some libraries bring their lock back when they renew it and find it gone.
        Proof::EachHold => Some("its holder has brought it back"),
        Proof::EachProcess if shown.process != now.process => None,
        // Neither the value nor the lease differs.
        Proof::EachProcess | Proof::Nothing if close(shown.until, now.until) => {
            Some("the same token with the same end")
        }
        _ => None,
    }
}

/// Ends so near to each other that the time between a look and its answer could make the difference.
fn close(one: Option<i64>, other: Option<i64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= 100,
        (None, None) => true,
        _ => false,
    }
}

/// What is shown is what is held.
pub fn seen(subject: &Subject, view: Option<&LockView>, held: &[Held], now: i64) -> Result<(), String> {
    if subject.is_a_marker {
        return Ok(());
    }
    let certain = held.iter().filter(|held| held.until.is_none_or(|until| until > now + 50));
    for held in certain {
        let is = |token: &[u8]| token == held.token || token.len() >= 512 && held.token.starts_with(token);
        let listed = view.is_some_and(|view| view.holders.iter().any(|holder| is(holder.token.as_bytes())));
        if !listed {
            return Err(format!("it is held, but not shown: {held:?} in {:?}", view.map(|view| &view.holders)));
        }
    }
    Ok(())
}

/// One write that was done.
pub struct Scene<'a> {
    pub subject: &'a Subject,
    pub library: &'a dyn Library,
    pub before: &'a Snapshot,
    pub after: &'a Snapshot,
}

impl Scene<'_> {
    /// The holds of the ledger that are the ones shown, or can't be told from them.
    fn meant(&self, ledger: &Ledger, shown: &[Hold]) -> Vec<u64> {
        let is_meant = |hold: &&Hold| {
            let is = |shown: &Hold| shown.id == hold.id && shown.mode == hold.mode && shown.token == hold.token;
            shown.iter().any(|shown| is(shown) || cannot_be_told(self.subject, shown, hold).is_some())
        };
        ledger.holds.iter().filter(is_meant).map(|hold| hold.id).collect()
    }

    /// How it was when it was freed; `None` where it was over before.
    pub fn as_freed(&self, hold: &Hold) -> Option<Hold> {
        let held = self.library.held(self.before);
        let held = held.iter().find(|held| hold.is(held))?;
        Some(Hold { until: held.until, ..hold.clone() })
    }

    /// All holds but those in `besides` are as they were before. Those in `around` may last longer: they share the time
    /// of one that was extended.
    fn others_are_untouched(&self, ledger: &Ledger, besides: &[u64], around: &[u64], what: &str) -> Result<(), String> {
        let (before, after) = (self.library.held(self.before), self.library.held(self.after));
        for hold in ledger.holds.iter().filter(|hold| !besides.contains(&hold.id)) {
            let was = before.iter().find(|held| hold.is(held));
            let Some(is) = after.iter().find(|held| hold.is(held)) else {
                if hold.is_over(self.after.now) {
                    continue;
                }
                return Err(format!("{what} ended {}, which was not shown", hold.name()));
            };
            if is.mode != hold.mode {
                return Err(format!("{what} made {} a {:?}", hold.name(), is.mode));
            }
            let changed = was.is_some_and(|was| match around.contains(&hold.id) {
                true => later(was.until, is.until),
                false => !same_moment(was.until, is.until),
            });
            if changed {
                return Err(format!("{what} changed the end of {}, which was not shown", hold.name()));
            }
        }
        let known = |held: &Held| ledger.holds.iter().any(|hold| hold.is(held));
        match after.iter().find(|held| !known(held)) {
            Some(held) => Err(format!("{what} left a hold that is nobody's: {held:?}")),
            None => Ok(()),
        }
    }

    pub fn freed(&self, ledger: &mut Ledger, shown: &[Hold]) -> Result<(), String> {
        if self.library.is_counted() {
            return self.library.is_reachable(self.after);
        }
        let meant = self.meant(ledger, shown);
        self.others_are_untouched(ledger, &meant, &[], "the release")?;
        let after = self.library.held(self.after);
        let left = ledger.holds.iter().find(|hold| meant.contains(&hold.id) && after.iter().any(|held| hold.is(held)));
        if let Some(hold) = left {
            return Err(format!("it is told as freed, but {} is still there", hold.name()));
        }
        let ended_by_itself = |hold: &Hold| hold.is_over(self.after.now) || self.library.keeps_the_dead();
        if meant.is_empty() && !shown.is_empty() && !shown.iter().any(ended_by_itself) {
            return Err(format!("it is told as freed, but {} was gone before", shown[0].name()));
        }
        ledger.holds.retain(|hold| !meant.contains(&hold.id));
        self.library.is_reachable(self.after)
    }

    pub fn extended(&self, ledger: &mut Ledger, shown: &[Hold], around: &[u64], by: Duration) -> Result<(), String> {
        if self.library.is_counted() {
            return Err("a counter of permits was given an end".into());
        }
        let meant = self.meant(ledger, shown);
        self.others_are_untouched(ledger, &meant, around, "the extension")?;
        if let Some(gone) = shown.first().filter(|_| meant.is_empty()) {
            return Err(format!("what was extended is not {}", gone.name()));
        }
        let (before, after) = (self.library.held(self.before), self.library.held(self.after));
        for hold in ledger.holds.iter_mut().filter(|hold| meant.contains(&hold.id)) {
            let Some(held) = after.iter().find(|held| hold.is(held)) else {
                return Err(format!("extending {} ended it", hold.name()));
            };
            let earliest = self.before.now + by.as_millis() as i64 - SLACK_MS;
            if held.until.is_none_or(|until| until < earliest) {
                return Err(format!("{} was not extended: it ends at {:?}", hold.name(), held.until));
            }
            let was = before.iter().find(|held| hold.is(held)).and_then(|held| held.until);
            if was.is_some() && later(was, held.until) {
                return Err(format!("extending {} made it shorter", hold.name()));
            }
            hold.until = held.until;
        }
        self.library.is_reachable(self.after)
    }

    pub fn undone(&self, ledger: &mut Ledger, freed: Freed, consents: bool) -> Result<(), String> {
        if self.library.is_counted() {
            return self.library.is_reachable(self.after);
        }
        if let Some(by) = freed.taken.filter(|_| !consents || self.library.leaves_a_trace()) {
            return Err(format!("put back, although {by} came in between"));
        }
        let after = self.library.held(self.after);
        let over = |hold: &Hold| hold.until.is_some_and(|until| until <= self.before.now);
        let all_over = freed.holds.iter().all(over);
        for hold in freed.holds {
            let back = after.iter().find(|held| hold.is(held));
            match back {
                _ if all_over => return Err(format!("{} was put back, although its time was over", hold.name())),
                // Among others that still hold it, what is over has no effect.
                None if hold.is_over(self.after.now) => continue,
                None => return Err(format!("it is told as put back, but {} is not there", hold.name())),
                Some(held) if held.mode != hold.mode => {
                    return Err(format!("{} was put back as {:?}", hold.name(), held.mode));
                }
                Some(held) if later(held.until, hold.until) && hold.mode.is_alone() => {
                    return Err(format!("{} was put back for longer than it had", hold.name()));
                }
                Some(_) => {}
            }
            if let Some(other) = ledger.holds.iter().find(|other| self.library.excludes(other, &hold)) {
                return Err(format!("{} was put back beside {}", hold.name(), other.name()));
            }
            ledger.holds.retain(|known| known.id != hold.id);
            ledger.holds.push(hold);
        }
        self.others_are_untouched(ledger, &[], &[], "undo")?;
        ledger.follow(&after);
        if ledger.holds.len() > self.library.limit() {
            return Err(format!("{} hold it after undo, and {} may", ledger.holds.len(), self.library.limit()));
        }
        self.library.is_reachable(self.after)
    }
}

fn later(now: Option<i64>, before: Option<i64>) -> bool {
    match (now, before) {
        (Some(now), Some(before)) => now > before + SLACK_MS,
        (None, Some(_)) => true,
        _ => false,
    }
}
