//! The doctor's report as text for people and as a JSON document.

use std::io::{self, Write};

use serde::Serialize;

use crate::base::json::write_pretty;
use crate::base::server_text::ServerText;
use crate::base::text::{visible, wrap};
use crate::output::TextStyle;
use crate::server::health::{Check, Report, Status, alike, in_common};
use crate::server::{Mode, Role};
use crate::topology::Council;

/// The sign of a check's result, or a word in ASCII mode.
fn sign(status: Status, ascii: bool) -> &'static str {
    match (status, ascii) {
        (Status::Ok, false) => "✓",
        (Status::Warn, false) => "!",
        (Status::Bad, false) => "✗",
        (Status::Unknown, _) => "?",
        (Status::Ok, true) => "ok",
        (Status::Warn, true) => "warn",
        (Status::Bad, true) => "BAD",
    }
}

/// Writes the report for people. Findings are wrapped; commands never are, because people paste them.
pub fn text(report: &Report, style: &TextStyle, out: &mut impl Write) -> io::Result<()> {
    write_checks(&report.checks, style, out)?;
    writeln!(out, "\n{}", summary(&report.checks))?;
    write_rights(report, style, out)
}

/// Of several nodes: first the sentinels that watch them, then what all have in common, then what is different at each.
pub fn text_of_nodes(
    reports: &[(String, Report)],
    watched: Option<(&Council, &Check)>,
    style: &TextStyle,
    out: &mut impl Write,
) -> io::Result<()> {
    if let Some((council, check)) = watched {
        writeln!(out, "the service {}:", visible(council.service.as_bytes()))?;
        write_checks(std::slice::from_ref(check), style, out)?;
        writeln!(out)?;
    }
    let Some((name, first)) = reports.first() else { return Ok(()) };
    let shared = in_common(&reports.iter().map(|(_, report)| report.checks.clone()).collect::<Vec<_>>());
    writeln!(out, "all {} nodes, with the figures of {name}:", reports.len())?;
    write_checks(&shared, style, out)?;
    for (name, report) in reports {
        let own = |check: &&Check| !shared.iter().any(|shared| alike(shared, check));
        let own: Vec<Check> = report.checks.iter().filter(own).cloned().collect();
        writeln!(out, "\n{name}:")?;
        write_checks(&own, style, out)?;
        writeln!(out, "{}", summary(&report.checks))?;
    }
    let rights = |report: &Report| (report.observer_acl.clone(), report.operator_acl.clone());
    if reports.iter().all(|(_, report)| rights(report) == rights(first)) {
        return write_rights(first, style, out);
    }
    reports.iter().try_for_each(|(name, report)| {
        writeln!(out, "\nOn {name}:")?;
        write_rights(report, style, out)
    })
}

fn write_checks(checks: &[Check], style: &TextStyle, out: &mut impl Write) -> io::Result<()> {
    let sign_width = if style.ascii { 4 } else { 1 };
    let name_width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let indent = " ".repeat(sign_width + name_width + 4);
    for check in checks {
        let sign = sign(check.status, style.ascii);
        let lines = wrap(&check.finding, style.width.map(|width| width.saturating_sub(indent.len())));
        let mut lines = lines.iter();
        let first = lines.next().map_or("", String::as_str);
        writeln!(out, "{sign:<sign_width$}  {:<name_width$}  {first}", check.name)?;
        for line in lines {
            writeln!(out, "{indent}{line}")?;
        }
        if let Some(fix) = &check.fix {
            writeln!(out, "{indent}fix: {fix}")?;
        }
    }
    Ok(())
}

fn write_rights(report: &Report, style: &TextStyle, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nThe minimum for a user who only looks; paste it into redis-cli with your own password:")?;
    writeln!(out, "{}", report.observer_acl)?;
    writeln!(out, "\nFor a user who also frees, extends and takes locks:")?;
    writeln!(out, "{}", report.operator_acl)?;
    let sampling = "To sample attempts as well. MONITOR shows every command of the server with all its values, \
                    not only those on locks: grant it with care.";
    writeln!(out, "\n{}", wrap(sampling, style.width).join("\n"))?;
    writeln!(out, "{}", report.sampling_acl)
}

/// Writes the report as one JSON document.
/// Of one server.
pub fn json(report: &Report, out: &mut impl Write) -> io::Result<()> {
    write_pretty(out, &document(None, report))
}

/// Of several nodes of one target.
pub fn json_of_nodes(
    reports: &[(String, Report)],
    watched: Option<(&Council, &Check)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let nodes = reports.iter().map(|(name, report)| document(Some(name), report)).collect();
    let service = watched.map(|(council, check)| {
        let sentinel =
            |(name, answers): &(String, bool)| SentinelLine { name: visible(name.as_bytes()), answers: *answers };
        let sentinels = council.sentinels.iter().map(sentinel).collect();
        ServiceLine { name: visible(council.service.as_bytes()), sentinels, quorum: council.quorum, check }
    });
    write_pretty(out, &Nodes { schema: "lockscope/1", service, nodes })
}

fn document<'a>(node: Option<&'a str>, report: &'a Report) -> Document<'a> {
    let facts = &report.facts;
    let product = facts.product.known();
    Document {
        schema: "lockscope/1",
        node,
        server: ServerLine {
            flavor: product.map(|product| product.flavor.name()),
            version: product.map(|product| product.version.to_string()),
            mode: facts.mode.known().copied().map(Mode::name),
            role: facts.role.known().map(Role::name),
            user: facts.user.known(),
            keys: facts.keys.known().copied(),
        },
        checks: &report.checks,
        acl: AclLines {
            observer: &report.observer_acl,
            operator: &report.operator_acl,
            sampling: &report.sampling_acl,
        },
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    server: ServerLine<'a>,
    checks: &'a [Check],
    acl: AclLines<'a>,
}

#[derive(Serialize)]
struct Nodes<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<ServiceLine<'a>>,
    nodes: Vec<Document<'a>>,
}

/// A Sentinel service, and who watches it.
#[derive(Serialize)]
struct ServiceLine<'a> {
    name: String,
    sentinels: Vec<SentinelLine>,
    quorum: Option<usize>,
    check: &'a Check,
}

#[derive(Serialize)]
struct SentinelLine {
    name: String,
    answers: bool,
}

/// The server in a few words; null if it did not report them.
#[derive(Serialize)]
struct ServerLine<'a> {
    flavor: Option<&'static str>,
    version: Option<String>,
    mode: Option<&'static str>,
    role: Option<&'static str>,
    user: Option<&'a ServerText>,
    keys: Option<u64>,
}

#[derive(Serialize)]
struct AclLines<'a> {
    observer: &'a str,
    operator: &'a str,
    sampling: &'a str,
}

/// How many checks have each result, in words.
fn summary(checks: &[Check]) -> String {
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let parts: Vec<String> = [(Status::Bad, "bad"), (Status::Warn, "to look at"), (Status::Unknown, "not known")]
        .into_iter()
        .map(|(status, word)| (count(status), word))
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    match parts.is_empty() {
        true => format!("All {} checks are fine.", checks.len()),
        false => format!("Of {} checks: {}; the rest is fine.", checks.len(), parts.join(", ")),
    }
}
