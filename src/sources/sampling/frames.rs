//! Cuts the byte stream of a RESP3 connection that is subscribed and in MONITOR mode into frames.
//!
//! Client crates can't mix pushes with MONITOR lines, and keep all they read. This reader keeps at most [`KEPT`] bytes of
//! a line or of a part of a push. Pure: bytes in, frames out.

use memchr::memchr;

/// Bytes kept of a line, and of each part of a push; the rest is skipped.
pub const KEPT: usize = 8 * 1024;
/// The deepest nesting of replies; no reply that we ask for goes deeper.
const DEPTH: usize = 8;
/// Parts of a push that we keep: kind, pattern, channel, payload.
const PARTS: usize = 4;

/// One thing that the server sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Frame<'a> {
    /// A simple string: an answer, or a line of MONITOR.
    Line(Text<'a>),
    Error(Text<'a>),
    /// A message of a pattern subscription.
    Message {
        channel: Text<'a>,
        payload: Text<'a>,
    },
    /// Any other answer or push, as a whole.
    Other,
}

/// Bytes, and whether they are complete.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Text<'a> {
    pub bytes: &'a [u8],
    pub whole: bool,
}

/// The server sent something that is not RESP3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the server sent something that is no RESP3")]
pub struct Broken;

/// Takes bytes as they come.
#[derive(Debug, Default)]
pub struct FrameReader {
    state: State,
    /// The beginning of an incomplete frame.
    carry: Vec<u8>,
    /// Part of it was skipped.
    cut: bool,
    /// The missing items of each open reply, the outermost first.
    nested: Vec<u64>,
    /// The outermost reply is a push.
    push: bool,
    parts: [Vec<u8>; PARTS],
    part_cut: [bool; PARTS],
    filled: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Line,
    /// The missing bytes of a string, including its line end.
    Bulk(u64),
}

impl FrameReader {
    /// Calls `each` with every frame that these bytes complete.
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Frame<'_>)) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.state {
                State::Line => {
                    let Some(end) = memchr(b'\n', bytes) else {
                        self.keep(bytes);
                        return Ok(());
                    };
                    let (line, rest) = bytes.split_at(end);
                    bytes = &rest[1..];
                    if self.carry.is_empty() && !self.cut {
                        self.line(line, true, each)?;
                    } else {
                        self.keep(line);
                        let (carry, whole) = (std::mem::take(&mut self.carry), !std::mem::take(&mut self.cut));
                        let read = self.line(&carry, whole, each);
                        self.reuse(carry);
                        read?;
                    }
                }
                State::Bulk(left) => {
                    let taken = left.min(bytes.len() as u64) as usize;
                    // The last two bytes are the line end.
                    let content = left.saturating_sub(2).min(taken as u64) as usize;
                    self.keep(&bytes[..content]);
                    bytes = &bytes[taken..];
                    self.state = State::Bulk(left - taken as u64);
                    if left == taken as u64 {
                        self.state = State::Line;
                        let (carry, cut) = (std::mem::take(&mut self.carry), std::mem::take(&mut self.cut));
                        self.part(&carry, cut);
                        self.reuse(carry);
                        self.one_done(each);
                    }
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.carry.len()).min(bytes.len());
        self.carry.extend_from_slice(&bytes[..room]);
        self.cut |= room < bytes.len();
    }

    fn reuse(&mut self, mut carry: Vec<u8>) {
        carry.clear();
        self.carry = carry;
    }

    fn part(&mut self, bytes: &[u8], cut: bool) {
        if self.push && self.filled < PARTS {
            self.parts[self.filled].clear();
            self.parts[self.filled].extend_from_slice(bytes);
            self.part_cut[self.filled] = cut;
            self.filled += 1;
        }
    }

    fn line(&mut self, line: &[u8], whole: bool, each: &mut impl FnMut(Frame<'_>)) -> Result<(), Broken> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((kind, rest)) = line.split_first() else { return Err(Broken) };
        // A string that came in one piece may be longer than the limit.
        let text = Text { bytes: &rest[..rest.len().min(KEPT)], whole: whole && rest.len() <= KEPT };
        match kind {
            b'+' if self.nested.is_empty() => each(Frame::Line(text)),
            b'-' if self.nested.is_empty() => each(Frame::Error(text)),
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => self.one_done(each),
            b'$' | b'=' | b'!' => match number(rest)? {
                -1 => self.one_done(each),
                length => self.state = State::Bulk(u64::try_from(length).map_err(|_| Broken)?.saturating_add(2)),
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let count = match number(rest)? {
                    -1 => 0,
                    count => u64::try_from(count).map_err(|_| Broken)?,
                };
                let count = if matches!(kind, b'%' | b'|') { count.saturating_mul(2) } else { count };
                if self.nested.is_empty() {
                    (self.push, self.filled) = (*kind == b'>', 0);
                }
                if count == 0 {
                    self.one_done(each);
                } else if self.nested.len() == DEPTH {
                    return Err(Broken);
                } else {
                    self.nested.push(count);
                }
            }
            _ => return Err(Broken),
        }
        Ok(())
    }

    /// A value is complete; the replies around it may be too.
    fn one_done(&mut self, each: &mut impl FnMut(Frame<'_>)) {
        while let Some(left) = self.nested.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.nested.pop();
        }
        let part = |index: usize| Text { bytes: &self.parts[index], whole: !self.part_cut[index] };
        if self.push && self.filled == PARTS && self.parts[0] == b"pmessage" {
            each(Frame::Message { channel: part(2), payload: part(3) });
        } else {
            each(Frame::Other);
        }
        self.push = false;
    }
}

fn number(text: &[u8]) -> Result<i64, Broken> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The frames, with texts cut to twenty bytes.
    fn read(reader: &mut FrameReader, bytes: &[u8], pieces: &[usize]) -> Result<Vec<String>, Broken> {
        let mut frames = Vec::new();
        let mut each = |frame: Frame<'_>| {
            let show = |text: Text<'_>| {
                let shown = String::from_utf8_lossy(&text.bytes[..text.bytes.len().min(20)]).into_owned();
                if text.whole { shown } else { format!("{shown}… {}", text.bytes.len()) }
            };
            frames.push(match frame {
                Frame::Line(text) => format!("+{}", show(text)),
                Frame::Error(text) => format!("-{}", show(text)),
                Frame::Message { channel, payload } => format!("{} {}", show(channel), show(payload)),
                Frame::Other => "other".into(),
            });
        };
        let mut rest = bytes;
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).max(1).min(rest.len()));
            reader.feed(now, &mut each)?;
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        Ok(frames)
    }

    const STREAM: &[u8] = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n+modules\r\n*1\r\n%1\r\n$1\r\na\r\n_\r\n-ERR no\r\n\
        >3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n+OK\r\n>4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$8\r\nk\r\n:la\r\n\r\n$3\r\nset\r\n\
        +1.5 [0 lua] \"get\"\r\n$-1\r\n*0\r\n";

    #[test]
    fn replies_pushes_and_lines_come_apart_however_they_are_cut() {
        let expected =
            ["other", "-ERR no", "other", "+OK", "k\r\n:la\r\n set", "+1.5 [0 lua] \"get\"", "other", "other"];
        for piece in 1..STREAM.len() {
            assert_eq!(read(&mut FrameReader::default(), STREAM, &[piece]).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_line_of_a_hundred_megabytes_is_read_over() {
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        let mut each = |frame: Frame<'_>| {
            if let Frame::Line(text) = frame {
                frames.push((text.bytes.len(), text.whole));
            }
        };
        reader.feed(b"+", &mut each).unwrap();
        for _ in 0..1600 {
            reader.feed(&[b'x'; 65_536], &mut each).unwrap();
        }
        assert!(reader.carry.capacity() <= 4 * KEPT, "{}", reader.carry.capacity());
        reader.feed(b"\r\n+after\r\n", &mut each).unwrap();
        reader.feed(b">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$104857600\r\n", &mut each).unwrap();
        for _ in 0..1600 {
            reader.feed(&[b'x'; 65_536], &mut each).unwrap();
        }
        assert!(reader.carry.capacity() <= 4 * KEPT);
        reader.feed(b"\r\n$3\r\nset\r\n+again\r\n", &mut each).unwrap();
        assert_eq!(frames, [(KEPT - 1, false), (5, true), (5, true)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
            let mut reader = FrameReader::default();
            let _ = read(&mut reader, &bytes, &[piece]);
            prop_assert!(reader.nested.len() <= DEPTH && reader.carry.len() <= KEPT);
        }

        #[test]
        fn nor_do_bytes_that_look_like_it(text in "[-+$*>%:_\r\n0-9a]{0,120}", piece in 1usize..50) {
            let _ = read(&mut FrameReader::default(), text.as_bytes(), &[piece]);
        }
    }
}
