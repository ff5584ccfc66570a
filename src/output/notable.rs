//! The lines of `watch --notable`: for people, and as JSON. The words are the timeline's own, so that the console says
//! the same.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use super::json::SCHEMA;
use super::{Place, TextStyle};
use crate::base::json::{typed, write_value};
use crate::base::text;
use crate::lock::Token;
use crate::model::{Notable, ServerNews, State, What};

/// Room for the longest change of state.
const HEADLINE: usize = 20;

/// Writes one entry as one line.
pub fn write(out: &mut impl Write, entry: &Notable, place: &Place, style: &TextStyle) -> io::Result<()> {
    let (arrow, mark) = if style.ascii { ("->", '~') } else { ("→", '…') };
    let name = entry.key.as_ref().map_or_else(|| place.node(entry.node), |key| key.to_string().into());
    let start = format!("{}  ", entry.at.rfc3339());
    let headline = format!("{:<HEADLINE$}", entry.what.headline(arrow));
    let sentence = entry.what.sentence(|token| style.token(&token.to_string()));
    let line = style.plain(format!("{name}  {sentence}")).into_owned();
    let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(start.len() + HEADLINE + 2));
    let line = text::fit_marked(&line, room, mark);
    writeln!(out, "{start}{}  {}", style.painted(paint(&entry.what), &headline), line.trim_end())
}

fn paint(what: &What) -> &'static str {
    match what {
        What::State { to: State::Split | State::Lost | State::Orphan, .. } => "1;31",
        What::State { to, .. } if *to < State::Held => "33",
        What::State { .. } => "32",
        What::Lost { cause, .. } if !cause.is_proven() => "33",
        What::Taken { .. } | What::Lost { .. } | What::Restarted => "1;31",
        What::Wrote { .. } => "36",
        What::Failover { .. } | What::Server(_) | What::Away { .. } | What::Back { .. } => "33",
        What::Missed { .. } | What::Sampling { .. } => "33",
    }
}

/// Writes one entry as one JSON object on a line.
pub fn write_json(out: &mut impl Write, entry: &Notable, place: &Place) -> io::Result<()> {
    write_value(out, &Entry::of(entry, place))?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
pub(super) struct Entry<'a> {
    schema: &'static str,
    at: String,
    notable: &'static str,
    key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    node: Cow<'a, str>,
    db: u32,
    from: Option<&'static str>,
    to: Option<&'static str>,
    ended: Option<&'static str>,
    holder: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_base64: Option<String>,
    previous: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_base64: Option<String>,
    cause: Option<&'static str>,
    locks: Option<u64>,
    keys: Option<Vec<Cow<'a, str>>>,
    away_ms: Option<u64>,
    events: Option<u64>,
    sentence: String,
}

impl<'a> Entry<'a> {
    pub(super) fn of(entry: &'a Notable, place: &'a Place) -> Entry<'a> {
        let name = |bytes: Option<&'a [u8]>| bytes.map(typed).unzip();
        let token = |token: Option<&'a Token>| name(token.map(Token::as_bytes));
        let (key, key_base64) = name(entry.key.as_ref().map(|key| key.as_bytes()));
        let what = &entry.what;
        let (holder, previous) = match what {
            // The holder is the one before it ended.
            What::State { ending: Some(_), holder, .. } => (None, holder.as_ref()),
            What::State { holder, .. } => (holder.as_ref(), None),
            What::Taken { holder, previous } => (holder.as_ref(), previous.as_ref()),
            What::Lost { previous, .. } => (None, previous.as_ref()),
            _ => (None, None),
        };
        let ((holder, holder_base64), (previous, previous_base64)) = (token(holder), token(previous));
        let [from, to] = what.states().map(|state| state.map(State::name));
        let (cause, locks, keys) = match what {
            What::Lost { cause, locks, some, .. } => {
                let keys = some.iter().map(|key| typed(key.as_bytes()).0).collect();
                (Some(cause.name()), Some(*locks), Some(keys))
            }
            What::Server(ServerNews::SlotsMoved { locks, .. }) => (None, Some(*locks), None),
            _ => (None, None, None),
        };
        Entry {
            schema: SCHEMA,
            at: entry.at.rfc3339(),
            notable: what.name(),
            key,
            key_base64: key_base64.flatten(),
            node: place.node(entry.node),
            db: place.db,
            from,
            to,
            ended: if let What::State { ending, .. } = what { ending.map(|ending| ending.name()) } else { None },
            holder,
            holder_base64: holder_base64.flatten(),
            previous,
            previous_base64: previous_base64.flatten(),
            cause,
            locks,
            keys,
            away_ms: if let What::Back { away_ms, .. } = what { Some(*away_ms) } else { None },
            events: if let What::Missed { events } = what { *events } else { None },
            sentence: what.sentence(|token| token.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::time::Time;
    use crate::lock::{Key, KeyspaceId, NodeId};
    use crate::model::{Ending, LostBy};

    fn place() -> Place {
        Place { nodes: [(NodeId(0), "127.0.0.1:6379".into())].into(), db: 0 }
    }

    fn entry(key: Option<&str>, what: What) -> Notable {
        Notable { at: Time(0), space: KeyspaceId::FIRST, node: NodeId(0), key: key.map(Key::from), what }
    }

    fn line(entry: &Notable, style: TextStyle) -> String {
        let mut out = Vec::new();
        write(&mut out, entry, &place(), &style).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_entry_is_one_line_whatever_the_key() {
        let holder = Some(Token::from(&b"t\x1b"[..]));
        let (from, to, ending) = (State::Orphan, State::Free, Some(Ending::Expired));
        let ended = entry(Some("lock:a\n"), What::State { from, to, holder, ending, why: None });
        let full = TextStyle::default();
        assert_eq!(
            line(&ended, full),
            "1970-01-01T00:00:00.000Z  ORPHAN → FREE         lock:a\\n  expired; held by t\\u{1b}\n"
        );
        let ascii = TextStyle { ascii: true, width: Some(60), ..full };
        assert_eq!(line(&ended, ascii), "1970-01-01T00:00:00.000Z  ORPHAN -> FREE        lock:a\\n  e~\n");
        let (cause, some) = (LostBy::Restart, vec![Key::from("a"), Key::from("b")]);
        let lost = entry(None, What::Lost { cause, locks: 5_004, some, previous: None });
        assert_eq!(
            line(&lost, full),
            "1970-01-01T00:00:00.000Z  LOST                  127.0.0.1:6379  5,004 locks did not survive the restart: a, b, …\n"
        );
    }

    #[test]
    fn an_entry_is_an_object_with_names() {
        let mut out = Vec::new();
        let (holder, previous) = (Some(Token::from(&b"\xfe"[..])), Some(Token::from(&b"old"[..])));
        write_json(&mut out, &entry(Some("lock:a"), What::Taken { holder, previous }), &place()).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            value,
            json!({"schema": "lockscope/1", "at": "1970-01-01T00:00:00.000Z", "notable": "taken", "key": "lock:a",
                "node": "127.0.0.1:6379", "db": 0, "from": null, "to": null, "ended": null, "holder": "\\xfe",
                "holder_base64": "/g==", "previous": "old", "cause": null, "locks": null, "keys": null,
                "away_ms": null, "events": null, "sentence": "\\xfe took it from old without a release"})
        );
    }
}
