//! Reads one line of MONITOR: `1794845705.479645 [0 127.0.0.1:46688] "SET" "lock:a" "t1" "NX"`.
//!
//! Only arguments with escapes are copied, and arguments are parsed only when somebody asks for them: most lines are about
//! no lock, and cost only the parsing of their command. Pure.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::frames::Text;

/// One command that the server has run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line<'a> {
    /// By the server's clock, since the epoch.
    pub micros: u64,
    pub db: u32,
    pub by: By<'a>,
    /// As the client wrote it, in whichever case.
    pub command: &'a [u8],
    /// The arguments after the command, quoted.
    rest: &'a [u8],
    /// The line is complete.
    pub whole: bool,
}

/// Who ran a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By<'a> {
    /// A client, by its address; all clients of a socket file share one.
    Client(&'a [u8]),
    /// A script, whose own line came before.
    Script,
}

impl<'a> Line<'a> {
    /// `None` where it is not a line of MONITOR, or its command is cut.
    pub fn parse(text: Text<'a>) -> Option<Line<'a>> {
        let line = text.bytes;
        let space = memchr(b' ', line)?;
        let micros = micros(&line[..space])?;
        let rest = line[space + 1..].strip_prefix(b"[")?;
        let space = memchr(b' ', rest)?;
        let db = decimal(&rest[..space])?.try_into().ok()?;
        let rest = &rest[space + 1..];
        let end = end_of_address(rest)?;
        let by = match &rest[..end] {
            b"lua" => By::Script,
            address => By::Client(address),
        };
        let rest = &rest[end + 3..];
        let quote = memchr(b'"', rest)?;
        let (command, rest) = (&rest[..quote], &rest[quote + 1..]);
        Some(Line { micros, db, by, command, rest, whole: text.whole })
    }

    pub fn args(&self) -> Args<'a> {
        Args { rest: self.rest }
    }
}

/// The arguments after the command, unquoted, up to the first that is cut.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Args<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let text = self.rest.strip_prefix(b" \"")?;
        let end = memchr2(b'"', b'\\', text)?;
        if text[end] == b'"' {
            self.rest = &text[end + 1..];
            return Some(Cow::Borrowed(&text[..end]));
        }
        let mut bytes = text[..end].to_vec();
        let mut rest = &text[end..];
        loop {
            let (first, tail) = rest.split_first()?;
            rest = tail;
            match first {
                b'"' => break,
                b'\\' => {
                    let (escape, tail) = rest.split_first()?;
                    rest = tail;
                    bytes.push(match escape {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'a' => 0x07,
                        b'b' => 0x08,
                        b'x' => {
                            let (digits, tail) = rest.split_at_checked(2)?;
                            rest = tail;
                            digit(digits[0])? << 4 | digit(digits[1])?
                        }
                        other => *other,
                    });
                }
                byte => bytes.push(*byte),
            }
        }
        self.rest = rest;
        Some(Cow::Owned(bytes))
    }
}

fn digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// The path of a socket file may contain a bracket, but not this.
fn end_of_address(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + memchr(b']', &text[from..])?;
        if text[end + 1..].starts_with(b" \"") {
            return Some(end);
        }
        from = end + 1;
    }
}

/// `1794845705.479645`
fn micros(text: &[u8]) -> Option<u64> {
    let dot = memchr(b'.', text)?;
    let (seconds, fraction) = (decimal(&text[..dot])?, &text[dot + 1..]);
    (fraction.len() == 6).then_some(())?;
    seconds.checked_mul(1_000_000)?.checked_add(decimal(fraction)?)
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> Text<'_> {
        Text { bytes, whole: true }
    }

    fn args(line: &str) -> Vec<Vec<u8>> {
        Line::parse(whole(line.as_bytes())).unwrap().args().map(Cow::into_owned).collect()
    }

    #[test]
    fn every_part_is_read() {
        let text = r#"1794845705.479645 [3 127.0.0.1:46688] "SET" "lock:a" "t1" "NX""#;
        let line = Line::parse(whole(text.as_bytes())).unwrap();
        assert_eq!((line.micros, line.db), (1_794_845_705_479_645, 3));
        assert_eq!((line.by, line.command), (By::Client(b"127.0.0.1:46688"), &b"SET"[..]));
        assert_eq!(args(text), [&b"lock:a"[..], b"t1", b"NX"]);
        let inner = Line::parse(whole(br#"1.000001 [0 lua] "get" "lock:a""#)).unwrap();
        assert_eq!((inner.by, inner.micros), (By::Script, 1_000_001));
        let socket = Line::parse(whole(br#"1.000001 [0 unix:/run/a] b.sock] "PING""#)).unwrap();
        assert_eq!((socket.by, socket.command), (By::Client(b"unix:/run/a] b.sock"), &b"PING"[..]));
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            args(r#"1.000001 [0 a:1] "SET" "lock:\"q\\ \x00\xff\n" "\a\b\t\r" "" "x""#),
            [&b"lock:\"q\\ \x00\xff\n"[..], b"\x07\x08\t\r", b"", b"x"]
        );
    }

    #[test]
    fn an_argument_that_is_cut_is_none() {
        assert_eq!(args(r#"1.000001 [0 a:1] "SET" "lock:a" "half"#), [b"lock:a"]);
        assert_eq!(args(r#"1.000001 [0 a:1] "SET" "lock:a" "\x0"#), [b"lock:a"]);
        assert_eq!(args(r#"1.000001 [0 a:1] "SET" "lock:a" "\"#), [b"lock:a"]);
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in
            ["", "OK", "PONG", "1.5 [0 a] \"GET\"", "x.000001 [0 a] \"GET\"", "1.000001 [0 a] GET", "1.000001 [0"]
        {
            assert_eq!(Line::parse(whole(text.as_bytes())), None, "{text}");
        }
    }

    /// As the server quotes an argument.
    fn quoted(bytes: &[u8]) -> String {
        let mut out = String::from("\"");
        for byte in bytes {
            match byte {
                b'\\' | b'"' => out.extend(['\\', *byte as char]),
                b'\n' => out.push_str("\\n"),
                b'\r' => out.push_str("\\r"),
                b'\t' => out.push_str("\\t"),
                0x07 => out.push_str("\\a"),
                0x08 => out.push_str("\\b"),
                0x20..=0x7e => out.push(*byte as char),
                _ => out.push_str(&format!("\\x{byte:02x}")),
            }
        }
        out + "\""
    }

    proptest! {
        #[test]
        fn any_arguments_come_through(
            given in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            seconds in 0u64..10_000_000_000,
        ) {
            let quoted: String = given.iter().map(|arg| format!(" {}", quoted(arg))).collect();
            let text = format!("{seconds}.000042 [0 [::1]:9] \"EVAL\"{quoted}");
            let line = Line::parse(whole(text.as_bytes())).unwrap();
            prop_assert_eq!(line.micros, seconds * 1_000_000 + 42);
            prop_assert_eq!(line.args().map(Cow::into_owned).collect::<Vec<_>>(), given);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(line) = Line::parse(whole(&bytes)) {
                line.args().count();
            }
        }

        #[test]
        fn nor_do_bytes_that_look_like_a_line(text in "1\\.000001 \\[0 (lua|a:1)\\] \"[\\\\\"x0-9a ]{0,80}") {
            if let Some(line) = Line::parse(whole(text.as_bytes())) {
                line.args().count();
            }
        }
    }
}
