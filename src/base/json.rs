//! JSON that is harmless to a terminal. A name is written as it is typed, with its exact bytes beside it.

use std::borrow::Cow;
use std::io::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value};

use super::text;

/// Any value on one line, harmless to a terminal.
pub fn write_value(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Harmless);
    value.serialize(&mut serializer).map_err(io::Error::from)
}

/// Any value over several lines, harmless to a terminal.
pub fn write_pretty(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    for line in serde_json::to_string_pretty(value)?.lines() {
        Harmless.write_string_fragment(out, line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A key, token or channel as it is typed on the command line, with its base64 if the typed text is not its bytes.
pub fn typed(bytes: &[u8]) -> (Cow<'_, str>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) if text::visible(bytes) == text => (text.into(), None),
        _ => (text::visible(bytes).into(), Some(BASE64_STANDARD.encode(bytes))),
    }
}

/// Puts a name into a JSON object: as it is typed, and its exact bytes as `<name>_base64` where they differ.
pub fn put(into: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let (text, base64) = typed(bytes);
    into.insert(name.into(), text.into());
    if let Some(base64) = base64 {
        into.insert(format!("{name}_base64"), base64.into());
    }
}

/// The same for a list of names. If any name differs, `<name>_base64` lists the bytes of those that do, else `null`.
pub fn put_all<'a>(into: &mut Map<String, Value>, name: &str, all: impl IntoIterator<Item = &'a [u8]>) {
    let (texts, exact): (Vec<_>, Vec<_>) = all.into_iter().map(typed).unzip();
    if exact.iter().any(Option::is_some) {
        into.insert(format!("{name}_base64"), exact.into());
    }
    into.insert(name.into(), texts.into_iter().map(Value::from).collect());
}

/// Escapes what JSON requires, and every character that a terminal would obey, hide or reorder text by.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if text::is_plain(fragment.as_bytes()) {
            return out.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            let mut buffer = [0; 4];
            if text::is_plain(c.encode_utf8(&mut buffer).as_bytes()) {
                out.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}
