//! The lab's state in the console: the test locks that it took, and what the keys do to them. Pure; the I/O is in
//! [`lab`](crate::lab).

use super::{App, Effect, LabOrder, Overlay, Screen};
use crate::app::prompt::Prompt;
use crate::base::time::Time;
use crate::lab::{MOST_CONTENDERS, Phase, Report, TestId, USUAL, Wanted};
use crate::model::{Change, Transition};
use crate::settings::keys::Command;

/// At most this many test locks at once.
pub const MOST: usize = 16;
/// At most this many rows, including finished test locks.
const ROWS: usize = 2 * MOST;

/// A test lock in its row.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub report: Report,
    /// When our lease ends, or until when the key may still exist.
    pub ends: Option<Time>,
    /// How many contenders were requested; the report may be older than the key press.
    contenders: usize,
}

impl Row {
    /// Nothing is left to give back or stop.
    fn is_over(&self) -> bool {
        self.report.phase.is_over() && self.contenders == 0
    }
}

#[derive(Debug, Default)]
pub struct Workbench {
    /// The newest last.
    rows: Vec<Row>,
    /// What a paused screen keeps showing.
    frozen: Option<Vec<Row>>,
    selected: Option<TestId>,
    numbered: u64,
    /// The last line typed.
    line: Option<String>,
}

impl Workbench {
    /// The rows to show.
    pub fn rows(&self) -> &[Row] {
        self.frozen.as_deref().unwrap_or(&self.rows)
    }

    /// The selected row; if it is gone, the newest.
    pub fn cursor(&self) -> Option<usize> {
        let rows = self.rows();
        rows.iter().position(|row| Some(row.report.id) == self.selected).or(rows.len().checked_sub(1))
    }

    pub(super) fn step(&mut self, by: isize) {
        let Some(at) = self.cursor() else { return };
        let at = at.saturating_add_signed(by).min(self.rows().len() - 1);
        self.selected = Some(self.rows()[at].report.id);
    }

    pub(super) fn freeze(&mut self, paused: bool) {
        self.frozen = paused.then(|| self.rows.clone());
    }

    fn is_holding(&self) -> bool {
        self.rows.iter().any(|row| row.report.phase == Phase::Held)
    }

    fn contenders(&self) -> usize {
        self.rows.iter().map(|row| row.contenders).sum()
    }

    /// The selected row, as it is now.
    fn current(&mut self) -> Option<&mut Row> {
        let id = self.cursor().map(|at| self.rows()[at].report.id)?;
        self.rows.iter_mut().find(|row| row.report.id == id)
    }
}

impl App {
    /// Whether the keys move in the test locks.
    pub fn in_lab(&self) -> bool {
        self.page.screen == Screen::Lab && self.page.opened.is_none()
    }

    /// `a`: asks which lock to take.
    pub(super) fn ask_which(&mut self, now: Time) {
        if self.may_write(now) {
            self.overlay = Overlay::Acquire(Prompt::new(self.lab.line.as_deref().unwrap_or(USUAL)));
        }
    }

    pub(super) fn acquire(&mut self, line: &str, wanted: Wanted, now: Time) -> Vec<Effect> {
        if !self.may_write(now) {
            return Vec::new();
        }
        self.lab.line = Some(line.trim().to_string());
        let live = self.lab.rows.iter().filter(|row| !row.is_over()).count();
        if live >= MOST {
            let back = self.key_of(Command::GiveBack);
            self.say(format!("there are {MOST} test locks, the most; {back} in the lab gives one back"), now);
            return Vec::new();
        }
        self.lab.numbered += 1;
        let id = TestId(self.lab.numbered);
        let mut effects = Vec::new();
        if self.lab.rows.len() >= ROWS
            && let Some(oldest) = self.lab.rows.iter().position(Row::is_over)
        {
            let gone = self.lab.rows.remove(oldest).report.id;
            effects.push(Effect::Lab(gone, LabOrder::Forget));
        }
        self.lab.rows.push(Row { report: Report::new(id, &wanted), ends: None, contenders: 0 });
        self.lab.selected = Some(id);
        self.say(format!("taking {}", wanted.key), now);
        effects.push(Effect::Lab(id, LabOrder::Take(wanted)));
        effects
    }

    /// Gives the selected lock back. If it is already over, stops its contenders, or else removes its row.
    pub(super) fn give_back(&mut self, now: Time) -> Vec<Effect> {
        let Some(row) = self.lab.current() else { return self.no_test(now) };
        let id = row.report.id;
        if !row.report.phase.is_over() {
            return vec![Effect::Lab(id, LabOrder::GiveBack)];
        }
        if row.contenders > 0 {
            row.contenders = 0;
            return vec![Effect::Lab(id, LabOrder::Contend(0))];
        }
        self.lab.rows.retain(|row| row.report.id != id);
        vec![Effect::Lab(id, LabOrder::Forget)]
    }

    pub(super) fn renew_test(&mut self, now: Time) -> Vec<Effect> {
        self.order_held(now, |_| Ok(LabOrder::Renew))
    }

    pub(super) fn turn_watchdog(&mut self, now: Time) -> Vec<Effect> {
        // Changed here before the report arrives, so that a second press toggles it back.
        self.order_held(now, |row| {
            row.report.watchdog = !row.report.watchdog;
            Ok(LabOrder::Watchdog(row.report.watchdog))
        })
    }

    pub(super) fn contend(&mut self, now: Time) -> Vec<Effect> {
        let all = self.lab.contenders();
        self.order_held(now, |row| {
            if all >= MOST_CONTENDERS {
                return Err(format!("a test lock has at most {MOST_CONTENDERS} contenders"));
            }
            row.contenders += 1;
            Ok(LabOrder::Contend(row.contenders))
        })
    }

    pub(super) fn relent(&mut self, now: Time) -> Vec<Effect> {
        let Some(row) = self.lab.current() else { return self.no_test(now) };
        if row.contenders == 0 {
            self.say("nobody contends for it".into(), now);
            return Vec::new();
        }
        row.contenders -= 1;
        vec![Effect::Lab(row.report.id, LabOrder::Contend(row.contenders))]
    }

    /// Gives an order that needs a held lock and writing turned on.
    fn order_held(&mut self, now: Time, order: impl FnOnce(&mut Row) -> Result<LabOrder, String>) -> Vec<Effect> {
        if self.lab.current().is_none() {
            return self.no_test(now);
        }
        if !self.may_write(now) {
            return Vec::new();
        }
        let ordered = match self.lab.current() {
            Some(row) if row.report.phase == Phase::Held => order(row).map(|order| Effect::Lab(row.report.id, order)),
            Some(row) => Err(format!("{} is not held by this test", row.report.key)),
            None => return Vec::new(),
        };
        match ordered {
            Ok(effect) => vec![effect],
            Err(why) => {
                self.say(why, now);
                Vec::new()
            }
        }
    }

    fn no_test(&mut self, now: Time) -> Vec<Effect> {
        let key = self.key_of(Command::Acquire);
        self.say(format!("there is no test lock; {key} takes one"), now);
        Vec::new()
    }

    /// While lockscope is read-only nothing is taken, so contenders stop. Held test locks are kept.
    pub(super) fn dismiss_contenders(&mut self) -> Vec<Effect> {
        if self.writes() {
            return Vec::new();
        }
        let contended = self.lab.rows.iter_mut().filter(|row| row.contenders > 0);
        let dismissed = contended.map(|row| {
            row.contenders = 0;
            Effect::Lab(row.report.id, LabOrder::Contend(0))
        });
        dismissed.collect()
    }

    /// What happens to test locks when writing is turned off, as the end of a sentence.
    pub(super) fn kept_tests(&self) -> &'static str {
        match (self.lab.is_holding(), self.lab.contenders() > 0) {
            (true, true) => "; test locks are kept, contenders stop",
            (true, false) => "; test locks are kept, no other is taken",
            (false, true) => "; contenders stop",
            (false, false) => "",
        }
    }

    /// Checks each test lock that seems to have ended or changed hands, with or without a watchdog.
    pub(super) fn check_tests(&self, changes: &[Transition]) -> Vec<Effect> {
        let held = || self.lab.rows.iter().filter(|row| row.report.phase == Phase::Held);
        let hit = |row: &Row, change: &Transition| {
            let ended = matches!(change.change, Change::Ended(_) | Change::Taken);
            ended && change.key == row.report.key && change.previous == row.report.token
        };
        let hit = held().filter(|row| changes.iter().any(|change| hit(row, change)));
        hit.map(|row| Effect::Lab(row.report.id, LabOrder::Check)).collect()
    }

    pub(super) fn take_reports(&mut self, reports: Vec<Report>, now: Time) {
        for report in reports {
            let Some(row) = self.lab.rows.iter_mut().find(|row| row.report.id == report.id) else { continue };
            let news = (row.report.phase != report.phase).then(|| news_line(&report, self.display.private));
            row.ends = report.left.map(|left| now + left);
            row.report = report;
            if let Some(news) = news.flatten() {
                self.say(news, now);
            }
        }
    }
}

/// What is new, in a line.
fn news_line(report: &Report, private: bool) -> Option<String> {
    let key = &report.key;
    // The reason may name the holder.
    let shown = |why: &String| if private { "(hidden)".to_string() } else { why.clone() };
    Some(match &report.phase {
        Phase::Taking => return None,
        Phase::Held => format!("took {key}, as a test"),
        Phase::Refused(why) => format!("not taken: {}", shown(why)),
        Phase::Lost(why) => format!("lost {key}: {}", shown(why)),
        Phase::Released => format!("gave {key} back"),
        Phase::Unknown(why) => format!("it is not known whether {key} is held: {why}"),
    })
}

#[cfg(test)]
mod tests;
