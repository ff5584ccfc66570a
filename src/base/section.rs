//! One table of a TOML file, and the error messages for mistakes in it. The config and the alert rules are read with it.
//!
//! Every message names the file, the line and the key. A value is quoted only once it is known to be text that is not
//! a secret.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::base::fault::Fault;
use crate::base::nearest;

pub struct Section<'a> {
    text: &'a str,
    /// The file's name; empty if the caller puts that in front.
    file: &'a str,
    /// `target.orders`; empty at the top.
    path: String,
    /// Where the table begins.
    start: usize,
    table: DeTable<'a>,
}

impl<'a> Section<'a> {
    /// The whole file. Keys that are not in `known` are errors, here and in the sections below.
    pub fn parse(text: &'a str, file: &'a str, known: &[&str]) -> Result<Section<'a>, Fault> {
        let table = DeTable::parse(text).map_err(|why| {
            let start = why.span().map_or(0, |span| span.start);
            let said = why.message().split_whitespace().collect::<Vec<_>>().join(" ");
            Fault::usage(format!("{}: not valid TOML: {said}", place(file, text, start)))
        })?;
        let section = Section { text, file, path: String::new(), start: 0, table: table.into_inner() };
        section.only(known)?;
        Ok(section)
    }

    fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let unknown = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let name = key.get_ref();
        let hint = match nearest::hint(name, known.iter().copied()) {
            none if none.is_empty() => format!("; its keys are {}", known.join(", ")),
            hint => hint,
        };
        let place = if self.path.is_empty() { "the top level".into() } else { format!("[{}]", self.path) };
        Err(self.fault(key.span(), &format!("{name:?} is not a key of {place}{hint}")))
    }

    fn fault(&self, span: Range<usize>, why: &str) -> Fault {
        Fault::usage(format!("{}: {why}", place(self.file, self.text, span.start)))
    }

    fn find(&self, key: &str) -> Option<&Spanned<DeValue<'a>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// A fault at the line of a key.
    pub fn wrong(&self, key: &str, why: &str) -> Fault {
        let span = self.find(key).map_or(self.start..self.start, Spanned::span);
        self.fault(span, why)
    }

    /// A required key is missing.
    pub fn incomplete(&self, key: &str, example: &str) -> Fault {
        let why = format!("[{}] has no {key:?}; add {key} = {example:?}", self.path);
        self.fault(self.start..self.start, &why)
    }

    fn type_fault(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> Fault {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.fault(value.span(), &format!("{key:?} has to be {expected}, not {found}"))
    }

    pub fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        let Some(value) = self.find(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(text.to_string())),
            _ => Err(self.type_fault(key, value, "a text in quotes")),
        }
    }

    pub fn required(&self, key: &str) -> Result<String, Fault> {
        self.text(key)?.ok_or_else(|| self.incomplete(key, "…"))
    }

    pub fn text_as<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        read(&text).map(Some).map_err(|why| self.wrong(key, &why))
    }

    pub fn texts_as<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Fault> {
        const EXPECTED: &str = "a list of texts, such as [\"lock:*\"]";
        let Some(value) = self.find(key) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.get_ref() else { return Err(self.type_fault(key, value, EXPECTED)) };
        let one = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::String(text) => read(text).map_err(|why| self.fault(item.span(), &why)),
            _ => Err(self.type_fault(key, item, EXPECTED)),
        };
        items.iter().map(one).collect()
    }

    /// Whether the table has the key.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    pub fn flag(&self, key: &str) -> Result<bool, Fault> {
        self.flag_or(key, false)
    }

    /// The flag, or what it is without one.
    pub fn flag_or(&self, key: &str, otherwise: bool) -> Result<bool, Fault> {
        let Some(value) = self.find(key) else { return Ok(otherwise) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.type_fault(key, value, "true or false, without quotes")),
        }
    }

    /// A number of at least zero.
    pub fn number(&self, key: &str) -> Result<Option<f64>, Fault> {
        self.number_that(key, "a number that is not negative", |number| number >= 0.0)
    }

    /// A number of either sign.
    pub fn any_number(&self, key: &str) -> Result<Option<f64>, Fault> {
        self.number_that(key, "a number, without quotes", |_| true)
    }

    fn number_that(&self, key: &str, expected: &str, fits: impl Fn(f64) -> bool) -> Result<Option<f64>, Fault> {
        let Some(value) = self.find(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => return Err(self.type_fault(key, value, expected)),
        };
        match number.filter(|number| number.is_finite() && fits(*number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.fault(value.span(), &format!("{key:?} has to be {expected}"))),
        }
    }

    /// The table `[key]`.
    pub fn table(&self, key: &str, known: &[&str]) -> Result<Option<Section<'a>>, Fault> {
        let Some(value) = self.find(key) else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else { return Err(self.type_fault(key, value, "a table")) };
        let path = if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) };
        self.below(path, value.span(), table, known).map(Some)
    }

    /// The keys present in the table.
    pub fn keys(&self) -> Vec<String> {
        self.table.keys().map(|key| key.get_ref().to_string()).collect()
    }

    /// The tables under `[key.NAME]`.
    pub fn tables(&self, key: &str, known: &[&str]) -> Result<Vec<(String, Section<'a>)>, Fault> {
        let expected = format!("a table for each name, as in [{key}.NAME]");
        let Some(value) = self.find(key) else { return Ok(Vec::new()) };
        let DeValue::Table(table) = value.get_ref() else { return Err(self.type_fault(key, value, &expected)) };
        let one = |(name, value): (&Spanned<_>, &Spanned<DeValue<'a>>)| {
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            let DeValue::Table(table) = value.get_ref() else { return Err(self.type_fault(name, value, &expected)) };
            Ok((name.to_string(), self.below(format!("{key}.{name}"), value.span(), table, known)?))
        };
        table.iter().map(one).collect()
    }

    /// The tables under `[[key]]`.
    pub fn tables_in_list(&self, key: &str, known: &[&str]) -> Result<Vec<Section<'a>>, Fault> {
        let expected = format!("a list of tables, each written as [[{key}]]");
        let Some(value) = self.find(key) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.get_ref() else { return Err(self.type_fault(key, value, &expected)) };
        let one = |item: &Spanned<DeValue<'a>>| {
            let DeValue::Table(table) = item.get_ref() else { return Err(self.type_fault(key, item, &expected)) };
            self.below(key.to_string(), item.span(), table, known)
        };
        items.iter().map(one).collect()
    }

    fn below(
        &self,
        path: String,
        span: Range<usize>,
        table: &DeTable<'a>,
        known: &[&str],
    ) -> Result<Section<'a>, Fault> {
        let section = Section { text: self.text, file: self.file, path, start: span.start, table: table.clone() };
        section.only(known)?;
        Ok(section)
    }
}

fn place(file: &str, text: &str, at: usize) -> String {
    let line = line(text, at);
    if file.is_empty() { format!("line {line}") } else { format!("{file} line {line}") }
}

fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
