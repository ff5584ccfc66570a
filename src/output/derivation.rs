//! The derivation of a verdict, in JSON.

use serde::Serialize;

use crate::base::text::harmless;
use crate::model::why::{self, Why};

/// The questions of a verdict, in their order.
#[derive(Serialize)]
pub(super) struct Questions {
    questions: Vec<Question>,
}

#[derive(Serialize)]
struct Question {
    about: &'static str,
    question: &'static str,
    answer: &'static str,
    certainty: Option<&'static str>,
    decides: bool,
    evidence: Vec<Evidence>,
    missing: Vec<Missing>,
}

#[derive(Serialize)]
struct Evidence {
    says: &'static str,
    sentence: String,
    source: &'static str,
    at: Option<String>,
}

#[derive(Serialize)]
struct Missing {
    sentence: String,
    settle: String,
}

impl Questions {
    pub(super) fn of(why: &Why) -> Questions {
        Questions { questions: why.questions.iter().map(Question::of).collect() }
    }
}

impl Question {
    fn of(question: &why::Question) -> Question {
        Question {
            about: question.about.name(),
            question: question.about.question(),
            answer: question.answer.word(),
            certainty: question.certainty.map(|certainty| certainty.word()),
            decides: question.decides,
            evidence: question.evidence.iter().map(Evidence::of).collect(),
            missing: question.missing.iter().map(Missing::of).collect(),
        }
    }
}

impl Evidence {
    fn of(evidence: &why::Evidence) -> Evidence {
        Evidence {
            says: evidence.says.word(),
            sentence: harmless(&evidence.fact.sentence()),
            source: evidence.by.word(),
            at: evidence.at.map(|at| at.rfc3339()),
        }
    }
}

impl Missing {
    fn of(missing: &why::Missing) -> Missing {
        Missing { sentence: missing.sentence(), settle: missing.settle(&why::Monitor::Command(String::new())) }
    }
}
