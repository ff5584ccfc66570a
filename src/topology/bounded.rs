//! Limits what a server may send at once: the client crate buffers a reply until it is complete.
//!
//! [`Bounded`] sits between a connection and its stream and follows the RESP framing without storing any of it. It ends
//! the connection when a reply is larger or deeper than any that lockscope asks for, malformed, or unrequested.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest size of one reply: its bytes, plus [`VALUE`] for each value in it. The largest that we ask for is the
/// list of clients, with less than 1 KiB for each.
const ANSWER: u64 = 64 << 20;
const VALUE: u64 = 32;
/// The largest size of the replies to all commands sent together.
const ANSWERS: u64 = 4 * ANSWER;
/// The longest line: an error or a simple string. Long strings have another form.
const LINE: u64 = 1 << 20;
/// The most digits of a size.
const SIZE: u8 = 20;
/// The deepest nesting of replies.
const DEPTH: usize = 16;

/// What no well-behaved server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Excess {
    #[error("sent an answer of more than 64 MiB")]
    Large,
    #[error("sent more than 256 MiB in answer to one question")]
    Many,
    #[error("sent a line of more than 1 MiB")]
    Long,
    #[error("sent an answer that is nested more than 16 times")]
    Deep,
    #[error("sent an answer with a size that is none")]
    Sizeless,
    #[error("answered a question that was not asked")]
    Unasked,
}

/// A stream with the limit on what is read from it.
pub(super) struct Bounded<S> {
    stream: S,
    frames: Frames,
    /// The commands sent, where each has one reply; `None` where messages arrive unrequested, or we lost count.
    questions: Option<Frames>,
    is_messages: bool,
    excess: Arc<OnceLock<Excess>>,
}

impl<S> Bounded<S> {
    /// A stream of commands and replies. `excess` is set when a limit ends the connection: the caller may otherwise
    /// learn only that it is closed.
    pub fn of_answers(stream: S, excess: Arc<OnceLock<Excess>>) -> Bounded<S> {
        Bounded { stream, frames: Frames::default(), questions: Some(Frames::default()), is_messages: false, excess }
    }

    /// A stream of messages.
    pub fn of_messages(stream: S) -> Bounded<S> {
        Bounded { stream, frames: Frames::default(), questions: None, is_messages: true, excess: Arc::default() }
    }

    fn received(&mut self, bytes: &[u8]) -> Result<(), Excess> {
        if self.is_messages {
            // No command asks for them, so only each one is limited, not their sum.
            self.frames.since_asked = 0;
        }
        self.frames.take(bytes)?;
        match &self.questions {
            // One reply too many: each later one would be taken for the reply to another command.
            Some(questions) if self.frames.whole > questions.whole => Err(Excess::Unasked),
            _ => Ok(()),
        }
    }

    fn wrote(&mut self, bytes: &[u8]) {
        self.frames.since_asked = 0;
        if let Some(questions) = &mut self.questions {
            questions.since_asked = 0;
            // What we send has no limit. If we can't follow it, replies are not counted.
            if questions.take(bytes).is_err() {
                self.questions = None;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.received(&buf.filled()[before..]).map_err(|excess| {
            let _ = self.excess.set(excess);
            io::Error::new(io::ErrorKind::InvalidData, excess)
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.wrote(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The position in a stream of replies.
#[derive(Debug, Default)]
struct Frames {
    at: At,
    /// The size of the current reply so far, and of all replies since the last command.
    weight: u64,
    since_asked: u64,
    /// The current reply is a push: nobody asked for it.
    is_push: bool,
    /// The missing values of each open reply, the outermost first.
    missing: [u64; DEPTH],
    depth: usize,
    /// Complete replies.
    whole: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// Before the first byte of a value.
    #[default]
    Start,
    /// In the size of a string or a list, with the digits read so far.
    Size { kind: u8, size: u64, negative: bool, length: u8 },
    /// In a line, with its length so far.
    Line(u64),
    /// In a string, with the number of missing bytes, including its line end.
    Text(u64),
}

impl Frames {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Excess> {
        while let Some(first) = bytes.first() {
            if let (At::Start, Some(length)) = (self.at, whole_string(bytes)) {
                self.begin(*first);
                self.weight += length as u64 - 1;
                if self.weight > ANSWER {
                    return Err(Excess::Large);
                }
                self.one_done()?;
                bytes = &bytes[length..];
                continue;
            }
            let taken = match self.at {
                At::Start | At::Size { .. } => 1,
                At::Line(_) => memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1),
                At::Text(left) => left.min(bytes.len() as u64) as usize,
            };
            self.weight += taken as u64;
            if self.weight > ANSWER {
                return Err(Excess::Large);
            }
            match self.at {
                At::Start => self.begin(*first),
                At::Size { length: SIZE, .. } if *first != b'\n' => return Err(Excess::Sizeless),
                At::Size { kind, size, negative, length } => match first {
                    b'0'..=b'9' => {
                        let size = size.saturating_mul(10).saturating_add(u64::from(first - b'0'));
                        self.at = At::Size { kind, size, negative, length: length + 1 };
                    }
                    b'\n' => self.sized(kind, size, negative)?,
                    // The client crate itself refuses anything but a line end and a minus.
                    _ => self.at = At::Size { kind, size, negative: negative || *first == b'-', length: length + 1 },
                },
                At::Line(length) => {
                    if length + taken as u64 > LINE {
                        return Err(Excess::Long);
                    }
                    self.at = At::Line(length + taken as u64);
                    if bytes[taken - 1] == b'\n' {
                        self.one_done()?;
                    }
                }
                At::Text(left) => {
                    self.at = At::Text(left - taken as u64);
                    if taken as u64 == left {
                        self.one_done()?;
                    }
                }
            }
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn begin(&mut self, kind: u8) {
        if self.depth == 0 {
            (self.weight, self.is_push) = (1, kind == b'>');
        }
        self.weight += VALUE;
        self.at = match kind {
            b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' | b'|' => {
                At::Size { kind, size: 0, negative: false, length: 0 }
            }
            _ => At::Line(0),
        };
    }

    /// The size of a string or a list was read.
    fn sized(&mut self, kind: u8, size: u64, negative: bool) -> Result<(), Excess> {
        if negative {
            // A null string or list. The other types have no null form.
            return if matches!(kind, b'$' | b'*' | b'~' | b'>') { self.one_done() } else { Err(Excess::Sizeless) };
        }
        let values = match kind {
            b'$' | b'=' | b'!' => {
                if size > ANSWER {
                    return Err(Excess::Large);
                }
                self.at = At::Text(size + 2);
                return Ok(());
            }
            b'%' => size.saturating_mul(2),
            b'|' => size.saturating_mul(2).saturating_add(1),
            _ => size,
        };
        if values.saturating_mul(VALUE) > ANSWER {
            return Err(Excess::Large);
        }
        if values == 0 {
            return self.one_done();
        }
        if self.depth == DEPTH {
            return Err(Excess::Deep);
        }
        self.missing[self.depth] = values;
        self.depth += 1;
        self.at = At::Start;
        Ok(())
    }

    /// A value is complete; the replies around it may be too.
    fn one_done(&mut self) -> Result<(), Excess> {
        self.at = At::Start;
        while self.depth > 0 {
            let missing = &mut self.missing[self.depth - 1];
            *missing -= 1;
            if *missing > 0 {
                return Ok(());
            }
            self.depth -= 1;
        }
        if !self.is_push {
            self.since_asked += self.weight;
            self.whole += 1;
        }
        if self.since_asked > ANSWERS { Err(Excess::Many) } else { Ok(()) }
    }
}

/// The length of the string that starts here, if all of it has come. Most of the input is such strings, so we skip each
/// in one step.
#[inline]
fn whole_string(bytes: &[u8]) -> Option<usize> {
    let (b'$', rest) = bytes.split_first()? else { return None };
    let mut size = 0;
    for (at, byte) in rest.iter().take(8).enumerate() {
        match byte {
            b'0'..=b'9' => size = size * 10 + usize::from(byte - b'0'),
            b'\r' if at > 0 => {
                // The type, the digits, the content and two line ends.
                let length = 1 + at + 2 + size + 2;
                return (rest.get(at + 1) == Some(&b'\n') && length <= bytes.len()).then_some(length);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fed(parts: &[&[u8]]) -> Result<Frames, Excess> {
        let mut frames = Frames::default();
        parts.iter().try_for_each(|part| frames.take(part))?;
        Ok(frames)
    }

    #[test]
    fn whole_answers_leave_it_at_the_start_however_they_are_cut() {
        let stream: &[u8] = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n+modules\r\n*1\r\n%1\r\n$1\r\na\r\n_\r\n-ERR no\r\n\
            >3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n$4\r\n\r\n:1\r\n*-1\r\n$-1\r\n*0\r\n|1\r\n+a\r\n+b\r\n:1\r\n=6\r\ntxt:hi\r\n";
        for piece in 1..=stream.len() {
            let frames = fed(&stream.chunks(piece).collect::<Vec<_>>()).unwrap();
            assert!(matches!(frames.at, At::Start) && frames.depth == 0, "in pieces of {piece}: {frames:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused_as_soon_as_that_is_known() {
        for (first, again, why) in [
            (&b"$67108865\r\n"[..], &b""[..], Excess::Large),
            (b"$1844674407370955161\r\n", b"", Excess::Large),
            (b"$", b"1", Excess::Sizeless),
            (b"*", b"0", Excess::Sizeless),
            (b"*1000000000\r\n", b"", Excess::Large),
            (b"%1000000000\r\n", b"", Excess::Large),
            (b"*2000000\r\n", b"*1\r\n:1\r\n", Excess::Large),
            (b"*2000000\r\n", b"$6\r\nlock:a\r\n", Excess::Large),
            (b"*2\r\n$67108000\r\n", b"xxxxxxxxxxxxxxxx", Excess::Large),
            (b"", b"*1\r\n", Excess::Deep),
            (b"+", b"xxxxxxxxxxxxxxxx", Excess::Long),
            (b"=-3\r\n", b"", Excess::Sizeless),
            (b"%-1\r\n", b"", Excess::Sizeless),
        ] {
            let mut frames = Frames::default();
            let text = String::from_utf8_lossy(first);
            let mut found = frames.take(first);
            let again = again.repeat(4096);
            for _ in 0..4096 {
                found = found.and_then(|()| frames.take(&again));
            }
            assert_eq!(found, Err(why), "{text:?}");
        }
    }

    #[test]
    fn many_answers_are_too_many_only_until_something_is_asked() {
        let answer = [&b"$1048576\r\n"[..], &[b'x'; 1 << 20], b"\r\n"].concat();
        let mut frames = Frames::default();
        let fit = (0..1_000).take_while(|_| frames.take(&answer).is_ok()).count();
        assert!((200..256).contains(&fit), "{fit}");
        let mut frames = Frames::default();
        for _ in 0..1_000 {
            frames.take(&answer).unwrap();
            frames.since_asked = 0;
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_asked_for_ends_the_connection() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let excess = Arc::default();
        let mut ours = Bounded::of_answers(ours, Arc::clone(&excess));
        let mut buffer = [0; 100];
        ours.write_all(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI").await.unwrap();
        theirs.write_all(b">1\r\n+push\r\n+PONG\r\n").await.unwrap();
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 18);
        ours.write_all(b"NG\r\n").await.unwrap();
        theirs.write_all(b"+PONG\r\n").await.unwrap();
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 7);
        theirs.write_all(b"+PONG\r\n").await.unwrap();
        assert_eq!(ours.read(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(excess.get(), Some(&Excess::Unasked));
    }

    #[test]
    fn a_stream_of_messages_never_ends_because_many_came() {
        let message =
            [&b"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$65536\r\n"[..], &[b'x'; 1 << 16], b"\r\n"].concat();
        let mut stream = Bounded::of_messages(());
        for _ in 0..5_000 {
            stream.received(&message).unwrap();
        }
        let mut stream = Bounded::of_answers((), Arc::default());
        stream.wrote(b"*1\r\n$4\r\nPING\r\n".repeat(5_000).as_slice());
        let ended = (0..5_000).find_map(|_| stream.received(&message).err());
        assert_eq!(ended, Some(Excess::Many), "as many answers to one question are too many");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
            let _ = fed(&bytes.chunks(piece).collect::<Vec<_>>());
        }

        #[test]
        fn nor_do_bytes_that_look_like_answers(text in "[-+$*>%|:_\r\n0-9a]{0,200}", piece in 1usize..50) {
            let _ = fed(&text.as_bytes().chunks(piece).collect::<Vec<_>>());
        }
    }
}
