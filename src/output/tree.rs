//! The derivation of a verdict as a tree for people, like the plan of a query. The console draws the same lines.
//!
//! ```text
//! ├─ Does its holder live? No (certain). The verdict follows from this.
//! │  ├─ against  its client's connection 10.0.3.7:51322 closed 31.0s ago  [CLIENT LIST, 14:27:49.000]
//! │  └─ unknown  how many attempts fail; to settle it: sample with MONITOR (M): it shows …
//! ```

use crate::base::text::{self, harmless};
use crate::base::time::Time;
use crate::model::Why;
use crate::model::why::{Evidence, Missing, Monitor, Question};

/// The width of the word in front of each piece of evidence.
const WORD: usize = 8;

/// The characters that draw the tree.
struct Signs {
    fork: &'static str,
    last: &'static str,
    on: &'static str,
}

const LINES: Signs = Signs { fork: "├─ ", last: "└─ ", on: "│  " };
const ASCII: Signs = Signs { fork: "|- ", last: "`- ", on: "|  " };
const NOTHING: &str = "   ";

/// The tree in lines of at most this width, where one is given. `hide` takes out what may not be shown. No server's text
/// in it can drive a terminal. `monitor`: how MONITOR is had here.
pub fn lines(
    why: &Why,
    width: Option<usize>,
    ascii: bool,
    monitor: &Monitor,
    hide: impl Fn(String) -> String,
) -> Vec<String> {
    let signs = if ascii { ASCII } else { LINES };
    let mut out = Vec::new();
    let count = why.questions.len();
    for (index, question) in why.questions.iter().enumerate() {
        let is_last = index + 1 == count;
        let (sign, below) = if is_last { (signs.last, NOTHING) } else { (signs.fork, signs.on) };
        let has_leaves = !question.evidence.is_empty() || !question.missing.is_empty();
        let hang = format!("{below}{}", if has_leaves { signs.on } else { NOTHING });
        put(&mut out, sign, &hang, &head(question), width, ascii);
        let leaves =
            question.evidence.iter().map(evidence).chain(question.missing.iter().map(|one| missing(one, monitor)));
        let leaves: Vec<(&str, String)> = leaves.map(|(word, text)| (word, hide(text))).collect();
        for (index, (word, leaf)) in leaves.iter().enumerate() {
            let is_last = index + 1 == leaves.len();
            let sign = format!("{below}{}{word:<WORD$} ", if is_last { signs.last } else { signs.fork });
            let beside = if is_last { NOTHING } else { signs.on };
            let hang = format!("{below}{beside}{}", " ".repeat(WORD + 1));
            put(&mut out, &sign, &hang, leaf, width, ascii);
        }
    }
    out
}

/// One text behind its sign, wrapped below it.
fn put(out: &mut Vec<String>, sign: &str, hang: &str, text: &str, width: Option<usize>, ascii: bool) {
    let text = harmless(text);
    let text = if ascii { text::ascii(&text) } else { text };
    let room = width.map(|width| width.saturating_sub(hang.chars().count()));
    for (index, line) in text::wrap(&text, room).into_iter().enumerate() {
        out.push(format!("{}{line}", if index == 0 { sign } else { hang }));
    }
}

fn head(question: &Question) -> String {
    let certainty = question.certainty.map(|certainty| format!(" ({})", certainty.word())).unwrap_or_default();
    let decides = if question.decides { " The verdict follows from this." } else { "" };
    let mut answer = question.answer.word().to_string();
    answer[..1].make_ascii_uppercase();
    format!("{} {answer}{certainty}.{decides}", question.about.question())
}

fn evidence(evidence: &Evidence) -> (&'static str, String) {
    let at = evidence.at.map(|at| format!(", {}", clock(at))).unwrap_or_default();
    (evidence.says.word(), format!("{} [{}{at}]", evidence.fact.sentence(), evidence.by.word()))
}

fn missing(missing: &Missing, monitor: &Monitor) -> (&'static str, String) {
    ("unknown", format!("{}; to settle it: {}", missing.sentence(), missing.settle(monitor)))
}

/// The time of day.
fn clock(at: Time) -> String {
    at.rfc3339().get(11..23).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LockView, State, Verdict};
    use crate::testkit::sample;

    #[test]
    fn a_tree_reads_like_the_plan_of_a_query() {
        let text =
            lines(&Why::of(&sample::redisson()), Some(80), false, &Monitor::Key("M".into()), |text| text).join("\n");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_tree_in_ascii_has_nothing_else_and_no_server_drives_the_terminal() {
        let verdict = Verdict { state: State::Split, evidence: vec!["by \u{1b}[2J".into()], confidence: 0.9 };
        let lock = LockView { verdict, type_name: "ha\u{1b}sh".into(), ..sample::forever() };
        let text = lines(&Why::of(&lock), Some(60), true, &Monitor::Runs, |text| text).join("\n");
        assert!(text.is_ascii() && !text.contains('\u{1b}') && text.contains("|- "), "{text}");
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
    }
}
