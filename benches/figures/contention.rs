//! How fast the bytes of a MONITOR connection become judged attempts: read, parsed and judged, on one thread.
//!
//! The stream is made here, so that no server limits the speed: nine of ten commands are unrelated, the tenth is about
//! a lock: by SET NX or by scripts, won or lost, with its events before it.

use std::fmt::Write;
use std::time::Duration;

use lockscope::base::time::Time;
use lockscope::dialects::Recogniser;
use lockscope::sources::sampling::Scripts;
use lockscope::sources::sampling::act::{Outcome, What};
use lockscope::sources::sampling::frames::{Frame, FrameReader};
use lockscope::sources::sampling::line::Line;
use lockscope::sources::sampling::outcomes::Judge;

use crate::keyspace::uuid;
use crate::limit::{Limit, Measured, whole};
use crate::machine;
use crate::report::{Figure, Report};

const LINES: usize = 500_000;
/// How much is read from a socket at once.
const CHUNK: usize = 64 * 1024;
const LEAST: f64 = 400_000.0;

pub fn measure(report: &mut Report, rounds: usize) {
    let (stream, expected) = stream();
    let recogniser = Recogniser::new(Vec::new(), Vec::new(), Vec::new());
    let rates = (0..rounds).map(|_| {
        let began = machine::thread_time();
        let seen = read(&stream, &recogniser);
        assert_eq!(seen, expected, "lines, attempts won and lost");
        seen.0 as f64 / (machine::thread_time() - began).max(Duration::from_nanos(1)).as_secs_f64()
    });
    report.add(Figure {
        name: "MONITOR lines parsed per second on one core".into(),
        measured: Measured::of(rates.collect()),
        limit: Limit::AtLeast(LEAST),
        show: whole,
        command: format!("{} lines, a tenth of them about locks, read, parsed and judged", whole(LINES as f64)),
    });
}

/// Lines, attempts won, attempts lost.
type Counts = (usize, usize, usize);

fn read(stream: &[u8], recogniser: &Recogniser) -> Counts {
    let mut scripts = Scripts::default();
    let mut judge = Judge::new(recogniser, &mut scripts, 0, true, Time(0));
    let mut wire = FrameReader::default();
    let (mut lines, mut won, mut lost) = (0, 0, 0);
    for chunk in stream.chunks(CHUNK) {
        let told = wire.feed(chunk, &mut |frame| match frame {
            Frame::Message { channel, payload } => judge.message(channel.bytes, payload.bytes),
            Frame::Line(text) => {
                let Some(line) = Line::parse(text) else { return };
                lines += 1;
                judge.line(&line, Time(1), &mut |act| match act.what {
                    What::Tried(Outcome::Won) => won += 1,
                    What::Tried(Outcome::Lost) => lost += 1,
                    _ => {}
                });
            }
            _ => {}
        });
        told.expect("RESP3");
    }
    judge.end(true, &mut |_| {});
    (lines, won, lost)
}

fn stream() -> (Vec<u8>, Counts) {
    let mut text = String::new();
    let (mut won, mut lost) = (0, 0);
    let mut lines = 0;
    let mut number = 0;
    while lines < LINES {
        number += 1;
        let client = format!("10.0.{}.{}:{}", number % 7, number % 250, 30_000 + number % 20_000);
        let mut line = |text: &mut String, by: &str, command: &str| {
            lines += 1;
            let _ = write!(text, "+1794845705.{:06} [0 {by}] {command}\r\n", number % 1_000_000);
        };
        for other in 0..9 {
            let id = number * 9 + other;
            match other % 5 {
                0 => line(&mut text, &client, &format!(r#""GET" "session:{}""#, uuid(id))),
                1 => line(&mut text, &client, &format!(r#""SET" "cache:page:{id}" "{}" "EX" "300""#, "x".repeat(200))),
                2 => line(&mut text, &client, &format!(r#""HGETALL" "user:{id}""#)),
                3 => line(&mut text, &client, &format!(r#""ZADD" "feed:{id}" "{id}" "\x00\xff{id}""#)),
                _ => line(&mut text, &client, &format!(r#""EXPIRE" "session:{}" "1800""#, uuid(id))),
            }
        }
        let (key, token) = (format!("lock:order:{}", number % 1000), uuid(number));
        match number % 4 {
            0 => {
                for event in ["set", "expire"] {
                    let channel = format!("__keyspace@0__:{key}");
                    let _ = write!(text, ">4\r\n$8\r\npmessage\r\n$21\r\n__keyspace@0__:lock:*\r\n");
                    let _ = write!(text, "${}\r\n{channel}\r\n${}\r\n{event}\r\n", channel.len(), event.len());
                }
                line(&mut text, &client, &format!(r#""SET" "{key}" "{token}" "NX" "PX" "30000""#));
                won += 1;
            }
            1 | 2 => {
                line(&mut text, &client, &format!(r#""SET" "{key}" "{token}" "PX" "30000" "NX""#));
                lost += 1;
            }
            _ => {
                let hash = "149c5a8bf18676fd99e9e6e24923bd64d9b62f94";
                line(&mut text, &client, &format!(r#""EVALSHA" "{hash}" "1" "{key}" "30000" "{token}:57""#));
                line(&mut text, "lua", &format!(r#""exists" "{key}""#));
                line(&mut text, "lua", &format!(r#""hexists" "{key}" "{token}:57""#));
                line(&mut text, "lua", &format!(r#""pttl" "{key}""#));
                lost += 1;
            }
        }
    }
    (text.into_bytes(), (lines, won, lost))
}
