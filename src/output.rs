//! What the commands print: a table or a page for people, JSON and CSV for programs.
//!
//! Everything goes into a writer, so that tests can read it and a closed pipe is an ordinary error. All text from a
//! server passes [`text::visible`](crate::base::text::visible) or its JSON counterpart. Footers, progress and other
//! messages belong to the commands.

pub mod alerts;
mod closer;
pub mod columns;
pub mod csv;
mod derivation;
pub mod groups;
pub mod history;
pub mod incident;
pub mod json;
mod node;
pub mod notable;
pub mod page;
mod sawtooth;
mod shape;
mod stored;
pub mod table;
pub mod tree;
pub mod tune;
pub mod wanted;
pub mod watch;

pub use node::node_json;
pub use page::Notes;
pub use sawtooth::Sawtooth;
pub use shape::Safety;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::base::text;
use crate::lock::NodeId;

/// The label of the line that says whether a lock is safe to free.
pub const FREE_IT: &str = "free it?";

/// How output for people should look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextStyle {
    /// Columns of the terminal; `None` for a file or a pipe, where nothing is cut.
    pub width: Option<usize>,
    pub color: bool,
    pub ascii: bool,
}

impl TextStyle {
    /// For stdout: fitted to its width if it is a terminal.
    pub fn of_stdout(color: bool, ascii: bool) -> TextStyle {
        use std::io::IsTerminal;
        let size = std::io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
        // A terminal that does not know its width reports 0.
        TextStyle { width: size.map(|(width, _)| usize::from(width)).filter(|width| *width > 0), color, ascii }
    }

    /// Tokens are long: shortened on a terminal, whole in a file or a pipe.
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

/// Where the locks are: names for what the model knows only by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The names of the nodes.
    pub nodes: BTreeMap<NodeId, String>,
    pub db: u32,
}

impl Place {
    /// The node's name, or its number if it has none.
    pub fn node(&self, id: NodeId) -> Cow<'_, str> {
        match self.nodes.get(&id) {
            Some(name) => text::visible(name.as_bytes()).into(),
            None => id.0.to_string().into(),
        }
    }
}
