//! A YAML document as a tree of texts, with the line of each: for files of other programs. Nothing is interpreted.
//!
//! Scalars stay text. Anchors, aliases and several documents are refused by name; so is a key that is there twice. The depth is
//! limited, because the tree is walked by recursion.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScanError, Span};

/// Nobody nests deeper by hand.
const DEEPEST: usize = 32;

#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub line: usize,
    pub value: Tree,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Tree {
    Text(String),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

/// Reads one document. What is wrong is a sentence with its line.
pub fn parse(text: &str) -> Result<Node, String> {
    let mut events = Events { parser: Parser::new_from_str(text), depth: 0 };
    let mut document = None;
    loop {
        match events.next()? {
            (Event::StreamEnd, _) => {
                return Ok(document.unwrap_or(Node { line: 1, value: Tree::Table(BTreeMap::new()) }));
            }
            (Event::DocumentStart(_), span) if document.is_some() => {
                return Err(format!("line {}: a second document; split the file", span.start.line()));
            }
            (Event::DocumentStart(_), _) => document = Some(events.node()?),
            _ => {}
        }
    }
}

impl Node {
    /// What stands at that key of a table.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Tree::Table(table) => table.get(key),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self) -> &[Node] {
        match &self.value {
            Tree::List(list) => list,
            _ => &[],
        }
    }

    /// The keys and texts of a table; other values are left out.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let table = match &self.value {
            Tree::Table(table) => Some(table),
            _ => None,
        };
        table.into_iter().flatten().filter_map(|(key, node)| Some((key.as_str(), node.text()?)))
    }
}

struct Events<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    depth: usize,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), String> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(why)) => Err(told(&why)),
            None => Err("it ends in the middle".into()),
        }
    }

    fn node(&mut self) -> Result<Node, String> {
        let (event, span) = self.next()?;
        self.of(event, span)
    }

    fn of(&mut self, event: Event<'a>, span: Span) -> Result<Node, String> {
        let line = span.start.line();
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("line {line}: more than {DEEPEST} levels"));
        }
        let value = match event {
            Event::Alias(_)
            | Event::Scalar(_, _, 1.., _)
            | Event::SequenceStart(1.., _)
            | Event::MappingStart(1.., _) => {
                return Err(format!("line {line}: anchors and aliases are not read; write the value out"));
            }
            Event::Scalar(text, ..) => Tree::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Tree::List(list),
                        (event, span) => list.push(self.of(event, span)?),
                    }
                }
            }
            Event::MappingStart(..) => self.table()?,
            _ => return Err(format!("line {line}: expected a value")),
        };
        self.depth -= 1;
        Ok(Node { line, value })
    }

    fn table(&mut self) -> Result<Tree, String> {
        let mut table = BTreeMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Tree::Table(table));
            }
            let key = self.of(event, span)?;
            let Some(name) = key.text() else { return Err(format!("line {}: a key has to be a text", key.line)) };
            let value = self.node()?;
            if table.insert(name.to_string(), value).is_some() {
                return Err(format!("line {}: the key {name:?} is there twice", key.line));
            }
        }
    }
}

fn told(why: &ScanError) -> String {
    format!("line {}: not valid YAML: {}", why.marker().line(), why.info())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_in_every_style_with_their_lines() {
        let node =
            parse("# c\na: it's\nb:\n- 'x''y'\n- \"z\\n\"\n- |\n  two\n  lines\n- >-\n  folded\n  text\nc: {d: 1}\n")
                .unwrap();
        assert_eq!(node.get("a").unwrap().text(), Some("it's"));
        let list: Vec<&str> = node.get("b").unwrap().list().iter().filter_map(Node::text).collect();
        assert_eq!(list, ["x'y", "z\n", "two\nlines\n", "folded text"]);
        assert_eq!(node.get("c").unwrap().texts().collect::<Vec<_>>(), [("d", "1")]);
        assert_eq!((node.get("b").unwrap().list()[1].line, node.get("c").unwrap().line), (5, 12));
    }

    #[test]
    fn what_is_not_read_is_told_with_its_line() {
        for (text, part) in [
            ("a: &x 1\nb: *x", "line 1: anchors"),
            ("a: 1\na: 2", "line 2: the key \"a\" is there twice"),
            ("a: 1\n---\nb: 2", "a second document"),
            ("a: [1", "not valid YAML"),
            ("? [a]\n: b", "has to be a text"),
            ("a: 'x", "not valid YAML"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse("").unwrap().texts().next().is_none());
    }
}
