//! What the commands print: a table or a page for people, JSON and CSV for programs.
//!
//! Everything goes into a writer, so that tests can read it and a reader that leaves early is an error like any other.
//! Whatever came from a server passes [`text::visible`](crate::base::text::visible) or its JSON counterpart. Footers,
//! progress and other talk belong to the commands.

mod closer;
pub mod columns;
pub mod csv;
pub mod json;
pub mod page;
mod shape;
mod stored;
pub mod table;
pub mod wanted;
pub mod watch;

pub use page::Notes;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::base::text;
use crate::lock::NodeId;

/// How output for people should look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextStyle {
    /// Columns of the terminal; `None` where the output goes to a file or a pipe, and nothing is cut.
    pub width: Option<usize>,
    pub color: bool,
    pub ascii: bool,
}

impl TextStyle {
    /// For stdout as it is: on a terminal fitted to its width.
    pub fn of_stdout(color: bool, ascii: bool) -> TextStyle {
        use std::io::IsTerminal;
        let size = std::io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
        // A terminal that does not know its width says nought.
        TextStyle { width: size.map(|(width, _)| usize::from(width)).filter(|width| *width > 0), color, ascii }
    }

    /// Tokens are long: shortened where a person reads, whole where a program might.
    fn token(&self, token: &str) -> String {
        if self.width.is_some() { text::short_token(token) } else { token.to_string() }
    }

    fn plain<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let text = text.into();
        if self.ascii && !(text.is_ascii()) { text::ascii(&text).into() } else { text }
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.color && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Where the locks are: what the model knows by number only.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The names of the nodes.
    pub nodes: BTreeMap<NodeId, String>,
    pub db: u32,
}

impl Place {
    /// The node's name, or its number where it has none.
    pub fn node(&self, id: NodeId) -> Cow<'_, str> {
        match self.nodes.get(&id) {
            Some(name) => text::visible(name.as_bytes()).into(),
            None => id.0.to_string().into(),
        }
    }
}
