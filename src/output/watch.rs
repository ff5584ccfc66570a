//! The lines of `watch` for people.

use std::io::{self, Write};

use super::TextStyle;
use crate::base::text;
use crate::lock::Token;
use crate::model::{Change, Ending, Transition};

/// Writes one change as one line.
pub fn write(out: &mut impl Write, change: &Transition, style: &TextStyle) -> io::Result<()> {
    let token = |token: &Token| style.token(&token.to_string());
    let mut line = change.key.to_string();
    if let Some(holder) = &change.holder {
        line.push_str(&format!("  by {}", token(holder)));
    }
    match (&change.previous, change.change) {
        (Some(previous), Change::Ended(_)) => line.push_str(&format!("  held by {}", token(previous))),
        (Some(previous), Change::Taken) => line.push_str(&format!("  from {}", token(previous))),
        _ => {}
    }
    if let Some(why) = why(change.change) {
        line.push_str(&format!("  ({why})"));
    }
    let mark = if style.ascii { '~' } else { '…' };
    let start = format!("{}  ", change.at.rfc3339());
    let word = format!("{:<8}", change.change.name());
    let line = style.plain(line);
    let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(start.len() + word.len() + 2));
    writeln!(out, "{start}{}  {}", style.painted(paint(change.change), &word), text::fit_marked(&line, room, mark))
}

/// How a lock was lost or came back, if the event's word does not say it.
pub(super) fn why(change: Change) -> Option<&'static str> {
    match change {
        Change::Ended(Ending::Released | Ending::Expired | Ending::Forced) => None,
        Change::Ended(ending) => Some(ending.name()),
        Change::CameBack => Some("came back: its server has other data now"),
        Change::Found | Change::Acquired | Change::Renewed | Change::PutBack | Change::Taken | Change::Moved => None,
    }
}

fn paint(change: Change) -> &'static str {
    match change {
        Change::Acquired | Change::PutBack => "32",
        Change::Taken | Change::CameBack | Change::Ended(Ending::Forced) => "1;31",
        Change::Ended(Ending::Released) => "",
        Change::Ended(_) => "33",
        Change::Found | Change::Renewed | Change::Moved => "2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Time;
    use crate::lock::{Key, KeyspaceId, NodeId};
    use crate::model::Source;

    #[test]
    fn a_change_is_one_line_whatever_the_key() {
        let mut change = Transition {
            at: Time(0),
            space: KeyspaceId::FIRST,
            node: NodeId(0),
            key: Key::from("lock:a\n"),
            change: Change::Taken,
            holder: Some(Token::from(&b"new"[..])),
            previous: Some(Token::from(&b"old"[..])),
            proven: false,
            source: Source::Scan,
        };
        let line = |change: &Transition, style: TextStyle| {
            let mut out = Vec::new();
            write(&mut out, change, &style).unwrap();
            String::from_utf8(out).unwrap()
        };
        let full = TextStyle::default();
        assert_eq!(line(&change, full), "1970-01-01T00:00:00.000Z  taken     lock:a\\n  by new  from old\n");
        assert_eq!(line(&change, TextStyle { width: Some(48), ..full }).chars().count(), 49);
        (change.change, change.holder) = (Change::Ended(Ending::Flushed), None);
        assert_eq!(line(&change, full), "1970-01-01T00:00:00.000Z  lost      lock:a\\n  held by old  (flushed)\n");
        assert!(line(&change, TextStyle { color: true, ..full }).contains("\x1b[33mlost    \x1b[0m"));
    }
}
