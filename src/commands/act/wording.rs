//! What the writing commands say to a person: what will be done, the result, and why not.

use std::io::{self, Write};

use crate::actions::{Action, Outcome, Performed, Plan, Refusal};
use crate::base::text::short_duration;
use crate::base::time::Ttl;
use crate::output::{self, TextStyle};

/// Why only a person can confirm it, and which option a script needs.
pub fn in_doubt(plan: &Plan) -> Option<String> {
    let doubt = plan.doubt.as_ref()?;
    let known = if plan.permits().is_some() { "counts permits" } else { "is a lock" };
    Some(format!("{}: {doubt} Add --force if you know that it {known}", plan.key))
}

/// Why it was not done, and what the user can do about it.
pub(super) fn why_not(outcome: &Outcome) -> Option<String> {
    let why = outcome.why()?;
    Some(match outcome {
        Outcome::Refused(Refusal::AnotherLease(_)) => format!("{why}; look again and confirm, or pass --if-renewed"),
        _ => why,
    })
}

/// The result, for a person. `again`: the options that lead to this server.
pub(super) fn outcome_line(plan: &Plan, performed: &Performed, again: &str) -> String {
    let Performed { id, outcome, renewed, .. } = performed;
    if let Outcome::Done { .. } = outcome {
        return format!(
            "{}{}",
            performed.done(plan, true),
            performed.aftermath(plan, true, &format!("'lockscope undo {id}{again}'"))
        );
    }
    let why = why_not(outcome).unwrap_or_default();
    let mut line = if let Outcome::Unknown(_) = outcome { plan.perhaps_done(&why) } else { plan.not_done(&why) };
    line.extend(renewed.iter().flat_map(|renewed| ["; ", renewed]));
    line
}

/// What will be done, for a person: broken at words to the width of the terminal.
pub(super) fn preview(
    plan: &Plan,
    refusal: Option<&Refusal>,
    style: &TextStyle,
    out: &mut impl Write,
) -> io::Result<()> {
    let holders: Vec<String> = plan.holders.iter().map(|token| token.to_string()).collect();
    let ttl = match plan.ttl {
        Ttl::Never => "never expires".to_string(),
        Ttl::In(left) => format!("{} left", short_duration(left.as_millis() as u64)),
    };
    let holders = if holders.is_empty() { "not known".to_string() } else { holders.join(", ") };
    writeln!(out, "{} {} ({}, {ttl})", plan.action.name(), plan.key, plan.library())?;
    let mut lines: Vec<(&str, String)> = Vec::new();
    match plan.permits_words() {
        Some(permits) => lines.push(("permits", permits)),
        None if plan.staying.is_nobody() => lines.push(("held by", holders)),
        None => lines.extend([("loses it", holders), ("keeps it", plan.staying.names())]),
    }
    let asked = plan.safe.as_ref().filter(|_| plan.action == Action::Free);
    lines.extend(asked.map(|safe| (output::FREE_IT, safe.sentence())));
    lines.push(("only if", plan.conditions()));
    lines.extend(plan.commands().into_iter().map(|command| ("runs", command)));
    lines.extend(plan.hazards.iter().map(|hazard| ("beware", hazard.clone())));
    lines.extend(plan.undoing().map(|undo| match undo {
        Ok(may) => ("undo", may),
        Err(why) => ("undo", format!("not possible: {why}")),
    }));
    lines.extend(refusal.map(|why| ("refused", why.to_string())));
    output::page::write_lines(out, lines, 9, style)
}
