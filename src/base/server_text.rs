//! Text that a server sent, as a type that a terminal never sees raw.
//!
//! Keys, client names, settings, type names and replies may contain any bytes. A `ServerText` has no `Display`: the only
//! ways out are [`ServerText::visible`], its JSON form (the same text), and the bytes themselves, for comparing and for
//! sending them back. `lock::Key` and `lock::Token` follow the same rule for keys and holders.
//!
//! Formatting one does not compile:
//!
//! ```compile_fail,E0277
//! let name = lockscope::base::server_text::ServerText::from("worker\x1b[2J");
//! println!("{name}");
//! ```
//!
//! Its visible form does:
//!
//! ```
//! let name = lockscope::base::server_text::ServerText::from("worker\x1b[2J");
//! assert_eq!(name.visible(), "worker\\u{1b}[2J");
//! assert_eq!(format!("{name:?}"), "\"worker\\u{1b}[2J\"");
//! ```

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text;

/// Bytes from a server, shown only through [`text::visible`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ServerText(Box<[u8]>);

impl ServerText {
    /// The exact bytes, to compare with or to send back.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What a person sees; see [`text::visible`].
    pub fn visible(&self) -> String {
        text::visible(&self.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&[u8]> for ServerText {
    fn from(bytes: &[u8]) -> ServerText {
        ServerText(bytes.into())
    }
}

impl From<Vec<u8>> for ServerText {
    fn from(bytes: Vec<u8>) -> ServerText {
        ServerText(bytes.into())
    }
}

impl From<&str> for ServerText {
    fn from(text: &str) -> ServerText {
        ServerText(text.as_bytes().into())
    }
}

impl From<String> for ServerText {
    fn from(text: String) -> ServerText {
        ServerText(text.into_bytes().into())
    }
}

impl PartialEq<str> for ServerText {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other.as_bytes()
    }
}

impl PartialEq<&str> for ServerText {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Debug for ServerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.visible())
    }
}

impl Serialize for ServerText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.visible())
    }
}

impl<'de> Deserialize<'de> for ServerText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ServerText, D::Error> {
        let shown = String::deserialize(deserializer)?;
        text::unescape(&shown).map(ServerText::from).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_their_json_form() {
        for bytes in [&b"plain"[..], b"\x1b[2J\xff\\ ", b""] {
            let text = ServerText::from(bytes);
            let json = serde_json::to_string(&text).unwrap();
            assert!(!json.contains('\x1b'), "{json}");
            assert_eq!(serde_json::from_str::<ServerText>(&json).unwrap(), text);
        }
    }
}
