//! What was found, as a table with the next command for people, and as a JSON document.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::weigh::Proposal;
use crate::base::shell::quoted;
use crate::base::text::{self, fit_marked, short_duration, wrap};
use crate::dialects::Claim;
use crate::dialects::LeftOut;
use crate::lock::Key;
use crate::output::{TextStyle, json};

/// A keyspace that looks like locks.
#[derive(Clone, PartialEq, Debug)]
pub struct Keyspace {
    pub pattern: String,
    pub proposal: Proposal,
    /// Keys in the sample, and the estimated number in total.
    pub sampled: u64,
    pub keys_estimated: u64,
    pub ttl_share: f64,
    pub median_ttl: Option<Duration>,
    /// Patterns of other keyspaces, not locks, that this pattern also matches.
    pub also_matches: Vec<String>,
    pub examples: Vec<Key>,
}

/// Everything that was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    pub sampled: u64,
    /// Keys in the database, if known.
    pub of: Option<u64>,
    /// Every name was seen: nothing is estimated.
    pub complete: bool,
    /// What has a lock-like name and is no lock, of those that were sampled.
    pub left_out: LeftOut,
    pub keyspaces: Vec<Keyspace>,
}

const HEADER: [&str; 6] = ["PATTERN", "LIBRARY", "KEYS", "TTL", "COVERED", "WHY"];
const GAP: usize = 2;
/// A wider pattern is cut on a terminal; the command below has it whole.
const PATTERN_SHOWN: usize = 40;
/// With less room than this, the reasons go on separate lines.
const WHY_LEAST: usize = 30;

/// Writes the table and what to do next. `server` are the options that name the server in the command.
pub fn text(out: &mut impl Write, found: &Found, server: &[String], style: &TextStyle) -> io::Result<()> {
    let mut rows: Vec<[String; 6]> = vec![HEADER.map(String::from)];
    rows.extend(found.keyspaces.iter().map(|keyspace| cells(keyspace, found.complete, style)));
    let mut widths = [0; 5];
    for (index, width) in widths.iter_mut().enumerate() {
        *width = rows.iter().map(|row| row[index].width()).max().unwrap_or(0);
    }
    let mark = if style.ascii { '~' } else { '…' };
    if style.width.is_some() {
        widths[0] = widths[0].min(PATTERN_SHOWN);
    }
    let before_why = widths.iter().sum::<usize>() + GAP * widths.len();
    let room = style.width.map(|width| width.saturating_sub(before_why));
    let beside = room.is_none_or(|room| room >= WHY_LEAST);
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (index, width) in widths.into_iter().enumerate() {
            let cell = fit_marked(&row[index], width, mark);
            let padding = " ".repeat(width - cell.width());
            let cell = if index == 2 { format!("{padding}{cell}") } else { format!("{cell}{padding}") };
            line.push_str(&cell);
            line.push_str(&" ".repeat(GAP));
        }
        let (why, indent) = if beside {
            (wrap(&row[5], room), before_why)
        } else if number == 0 {
            (Vec::new(), 0)
        } else {
            writeln!(out, "{}", line.trim_end())?;
            line = "    ".into();
            (wrap(&row[5], style.width.map(|width| width.saturating_sub(4))), 4)
        };
        line.push_str(why.first().map_or("", String::as_str));
        writeln!(out, "{}", line.trim_end())?;
        for more in why.iter().skip(1) {
            writeln!(out, "{:indent$}{more}", "")?;
        }
    }
    next(out, found, server, style)
}

fn cells(keyspace: &Keyspace, complete: bool, style: &TextStyle) -> [String; 6] {
    let proposal = &keyspace.proposal;
    let guess = if proposal.dialect_confidence < Claim::SURE { "?" } else { "" };
    let about = if complete { "" } else { "~" };
    let mut why = proposal.why.clone();
    if let [first, others @ ..] = keyspace.also_matches.as_slice() {
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        why.push_str(&format!("; beware: the pattern also matches {first}{more}, which are not locks"));
    }
    [
        typed(&keyspace.pattern, style),
        format!("{}{guess}", proposal.dialect),
        format!("{about}{}", keyspace.keys_estimated),
        ttl(keyspace),
        if proposal.covered { "default".into() } else { "no".into() },
        if style.ascii { text::ascii(&why) } else { why },
    ]
}

fn ttl(keyspace: &Keyspace) -> String {
    match keyspace.median_ttl {
        None => "never".into(),
        Some(median) => {
            let median = short_duration(median.as_millis() as u64);
            if keyspace.ttl_share >= 1.0 {
                format!("~{median}")
            } else {
                format!("~{median} ({:.0} %)", keyspace.ttl_share * 100.0)
            }
        }
    }
}

/// The command that lists the locks, and the config lines that make it permanent.
fn next(out: &mut impl Write, found: &Found, server: &[String], style: &TextStyle) -> io::Result<()> {
    if found.keyspaces.is_empty() {
        return Ok(());
    }
    let new: Vec<String> = found
        .keyspaces
        .iter()
        .filter(|keyspace| !keyspace.proposal.covered)
        .map(|keyspace| typed(&keyspace.pattern, style))
        .collect();
    let mut command = String::from("lockscope ls");
    for option in server {
        command.push_str(&format!(" {option}"));
    }
    if new.is_empty() {
        return writeln!(out, "\nAll of them are listed by default:\n  {command}");
    }
    for pattern in &new {
        command.push_str(&format!(" -p {}", quoted(pattern)));
    }
    let texts: Vec<String> = new.iter().map(|pattern| toml::Value::from(pattern.as_str()).to_string()).collect();
    writeln!(out, "\nTo list only what is not covered yet:\n  {command}")?;
    writeln!(out, "\nTo always list it with the others, add this to the config file ('lockscope info' says where):")?;
    writeln!(out, "  patterns = [{}]", texts.join(", "))
}

/// The pattern, with each non-ASCII byte as `?` if only ASCII may be printed.
fn typed(pattern: &str, style: &TextStyle) -> String {
    if !style.ascii || pattern.is_ascii() {
        return pattern.into();
    }
    pattern.bytes().map(|byte| if byte.is_ascii() { char::from(byte) } else { '?' }).collect()
}

/// Writes the JSON document.
pub fn document(out: &mut impl Write, found: &Found) -> io::Result<()> {
    let keyspaces = found.keyspaces.iter().map(Object::of).collect();
    let document =
        Document { schema: json::SCHEMA, sampled: found.sampled, of: found.of, complete: found.complete, keyspaces };
    crate::base::json::write_value(out, &document)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    sampled: u64,
    of: Option<u64>,
    complete: bool,
    keyspaces: Vec<Object<'a>>,
}

#[derive(Serialize)]
struct Object<'a> {
    pattern: &'a str,
    dialect: &'static str,
    dialect_confidence: f32,
    confidence: f32,
    keys_estimated: u64,
    sampled: u64,
    ttl_share: f64,
    ttl_median_ms: Option<u64>,
    why: &'a str,
    covered_by_default: bool,
    also_matches: &'a [String],
    examples: Vec<String>,
}

impl<'a> Object<'a> {
    fn of(keyspace: &'a Keyspace) -> Object<'a> {
        // UTF-8 text stays, other bytes are escaped, as everywhere in these documents.
        let example = |key: &Key| match std::str::from_utf8(key.as_bytes()) {
            Ok(text) => text.to_string(),
            Err(_) => key.to_string(),
        };
        Object {
            pattern: &keyspace.pattern,
            dialect: keyspace.proposal.dialect,
            dialect_confidence: keyspace.proposal.dialect_confidence,
            confidence: keyspace.proposal.confidence,
            keys_estimated: keyspace.keys_estimated,
            sampled: keyspace.sampled,
            ttl_share: keyspace.ttl_share,
            ttl_median_ms: keyspace.median_ttl.map(|median| median.as_millis() as u64),
            why: &keyspace.proposal.why,
            covered_by_default: keyspace.proposal.covered,
            also_matches: &keyspace.also_matches,
            examples: keyspace.examples.iter().map(example).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace(pattern: &str, covered: bool) -> Keyspace {
        Keyspace {
            pattern: pattern.into(),
            proposal: Proposal {
                dialect: "plain",
                dialect_confidence: 0.3,
                confidence: 0.9,
                covered,
                why: "20 of 20 values are random tokens, 20 different; 20 of 20 expire, half of them within 30.0s"
                    .into(),
            },
            sampled: 40,
            keys_estimated: 1000,
            ttl_share: 1.0,
            median_ttl: Some(Duration::from_secs(30)),
            also_matches: Vec::new(),
            examples: vec![Key::from("a:1"), Key::from(&b"a:\xff"[..])],
        }
    }

    fn found(keyspaces: Vec<Keyspace>) -> Found {
        Found { sampled: 200, of: Some(5000), complete: false, left_out: LeftOut::default(), keyspaces }
    }

    fn shown(found: &Found, style: TextStyle) -> String {
        let mut out = Vec::new();
        text(&mut out, found, &["-u 'redis://h'".into()], &style).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_a_line_for_each_and_the_next_command() {
        let text = shown(&found(vec![keyspace("it's:\\*:*", false), keyspace("lock:*", true)]), TextStyle::default());
        let expected = r#"PATTERN    LIBRARY   KEYS  TTL     COVERED  WHY
it's:\*:*  plain?   ~1000  ~30.0s  no       20 of 20 values are random tokens, 20 different; 20 of 20 expire, half of them within 30.0s
lock:*     plain?   ~1000  ~30.0s  default  20 of 20 values are random tokens, 20 different; 20 of 20 expire, half of them within 30.0s

To list only what is not covered yet:
  lockscope ls -u 'redis://h' -p 'it'\''s:\*:*'

To always list it with the others, add this to the config file ('lockscope info' says where):
  patterns = ["it's:\\*:*"]
"#;
        let config = text.lines().last().unwrap().trim();
        let table: toml::Table = config.parse().unwrap();
        assert_eq!(table["patterns"][0].as_str(), Some("it's:\\*:*"));
        let until = |text: &str| text.split("  patterns =").next().unwrap().to_string();
        assert_eq!(until(&text), until(expected), "\n{text}");
    }

    #[test]
    fn a_terminal_gets_what_fits() {
        let many = found(vec![keyspace(&"long:".repeat(20), false), keyspace("锁:*", true)]);
        for width in [40, 80, 120, 200] {
            let text = shown(&many, TextStyle { width: Some(width), ..TextStyle::default() });
            for line in text.lines().take_while(|line| !line.is_empty()).filter(|_| width >= 80) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
        let ascii = shown(&found(vec![keyspace("锁:*", false)]), TextStyle { ascii: true, ..TextStyle::default() });
        assert!(ascii.is_ascii() && ascii.contains("-p '???:*'"), "{ascii}");
    }

    #[test]
    fn what_is_covered_needs_no_pattern() {
        let text = shown(&found(vec![keyspace("lock:*", true)]), TextStyle::default());
        assert!(text.ends_with("by default:\n  lockscope ls -u 'redis://h'\n"), "{text}");
        assert_eq!(shown(&found(Vec::new()), TextStyle::default()).lines().count(), 1);
    }

    #[test]
    fn a_pattern_that_matches_more_says_so() {
        let mut wide = keyspace("a:*", false);
        wide.also_matches = vec!["a:cache:*".into(), "a:b".into()];
        let text = shown(&found(vec![wide]), TextStyle::default());
        assert!(text.contains("beware: the pattern also matches a:cache:* and 1 more"), "{text}");
    }

    #[test]
    fn the_document_has_the_fields_of_the_contract() {
        let mut out = Vec::new();
        document(&mut out, &found(vec![keyspace("a:*", false)])).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (&value["schema"], &value["sampled"], &value["of"]),
            (&"lockscope/1".into(), &200.into(), &5000.into())
        );
        let keyspace = &value["keyspaces"][0];
        assert_eq!(keyspace["pattern"], "a:*");
        assert_eq!(keyspace["keys_estimated"], 1000);
        assert_eq!(keyspace["covered_by_default"], false);
        assert_eq!(keyspace["examples"], serde_json::json!(["a:1", "a:\\xff"]));
    }
}
